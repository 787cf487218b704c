"""The start-up guard against other packages named `apiserver` or `controllers` on this machine."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path


class ShadowedPackageError(RuntimeError):
    """Another package shadows one of ours; the message is one line."""


def check_origins() -> None:
    """Raise ShadowedPackageError naming the shadowing package."""
    root = Path(__file__).resolve().parents[2]
    for name in ("apiserver", "controllers"):
        spec = find_spec(name)
        origin = Path(spec.origin).resolve() if spec is not None and spec.origin else None
        if origin is None or origin.parent.parent != root:
            found = origin or (list(spec.submodule_search_locations or ()) if spec else "nothing")
            raise ShadowedPackageError(
                f"the package {name!r} that Python finds is {found}, not kubedra's own in {root}; start kubedra with"
                " its own command"
            )
