"""Extras: dependencies that only some features need, and the line that names the extra of a missing one.

`run` adds a finder after Python's own ones, so that nothing is slower as long as all imports succeed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Final

__all__ = ["EXTRAS", "MissingExtraError", "name_missing_extra", "run"]

#: The extra of each package that may be missing.
EXTRAS: Final = {
    "cryptography": "tls",
    "OpenSSL": "tls",
    "grpclib": "grpc",
    "cbor2": "cbor",
    "psycopg": "postgres",
}


class MissingExtraError(ModuleNotFoundError):
    """A feature needs a package of an extra that is not installed. The message names the extra."""

    def __init__(self, package: str) -> None:
        command = f"pip install 'kubedra[{EXTRAS[package]}]'"
        super().__init__(f"this needs the package {package}, which is not installed: {command}", name=package)


class _Finder:
    """Raises MissingExtraError for packages of extras, which no finder before it has found."""

    @staticmethod
    def find_spec(
        name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name in EXTRAS:
            raise MissingExtraError(name)
        return None


@contextmanager
def name_missing_extra() -> Iterator[None]:
    """Raise MissingExtraError instead of ModuleNotFoundError for a package of an extra."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in EXTRAS:
            raise
        raise MissingExtraError(error.name) from None


def run(main: Callable[[], int]) -> int:
    """Return the exit code of a program: 2 after one line that names the extra of a missing package."""
    sys.meta_path.append(_Finder)
    try:
        return main()
    except MissingExtraError as error:
        print(f"{os.environ.get('KUBEDRA_PROG', 'kubedra')}: {error}", file=sys.stderr)
        return 2
