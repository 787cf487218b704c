"""Places of archives: paths of files, and URLs that fsspec opens, such as s3://bucket/two-nodes.kubedra."""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

__all__ = ["NewFile", "is_url", "open_for_reading"]


def is_url(place: str | os.PathLike[str]) -> bool:
    return "://" in os.fspath(place)


class NewFile:
    """A private file that is not at its place before it is complete. Its methods raise OSError.

    Args:
        place: a path, or a URL of fsspec.
        growing: write at the place itself, so that the file survives the death of its writer.
    """

    def __init__(self, place: str | os.PathLike[str], *, growing: bool = False) -> None:
        if growing and is_url(place):
            raise OSError(0, "a URL cannot grow; use a path")
        self._place, self._growing = os.fspath(place), growing
        target = Path(tempfile.gettempdir()) / "kubedra" if is_url(place) else Path(place)
        self._path = target if growing else target.with_name(f".{target.name}.{secrets.token_hex(4)}")
        flags = os.O_TRUNC if growing else os.O_EXCL
        # A snapshot has Secrets.
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        self.file: BinaryIO = os.fdopen(descriptor, "wb")

    def complete(self) -> None:
        """Move the file to its place, after its content is on the disk."""
        self.file.flush()
        os.fsync(self.file.fileno())
        self.file.close()
        if is_url(self._place):
            filesystem, path = _filesystem(self._place)
            filesystem.put_file(str(self._path), path)
            self._path.unlink()
        elif not self._growing:
            self._path.replace(self._place)

    def discard(self) -> None:
        """Remove the file. A growing file keeps its content."""
        with suppress(OSError):  # of a full disk, where the buffer cannot be written either
            self.file.close()
        if not self._growing:
            self._path.unlink(missing_ok=True)


@contextmanager
def open_for_reading(place: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open an existing file. Raises OSError."""
    if is_url(place):
        filesystem, path = _filesystem(place)
        with filesystem.open(path, "rb") as file:
            yield cast(BinaryIO, file)
        return
    with Path(place).open("rb") as file:
        yield file


def _filesystem(place: str | os.PathLike[str]) -> tuple[Any, str]:
    """Return the file system of a URL and the path in it. Raises OSError."""
    try:
        from fsspec.core import url_to_fs  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError:
        raise OSError(0, "a URL needs fsspec: pip install 'kubedra[fsspec]'") from None
    try:
        filesystem, path = url_to_fs(os.fspath(place))
    except (ImportError, ValueError) as error:  # fsspec names the missing package or the unknown protocol
        raise OSError(0, " ".join(str(error).split())) from error
    return filesystem, path
