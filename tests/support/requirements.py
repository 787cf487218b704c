"""Requirements of packages, from the metadata of installed ones."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, requires

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def closure(wanted: Iterable[str], **environment: str) -> set[str]:
    """Return the names of the packages of these requirements and of all their requirements.

    Markers are evaluated with this machine's values and the given ones. Requirements of packages that are not installed
    are unknown.
    """
    seen: set[tuple[str, frozenset[str]]] = set()
    open_ = [(Requirement(text), frozenset[str]()) for text in wanted]
    while open_:
        one, extras = open_.pop()
        judged = ({**environment, "extra": extra} for extra in ("", *extras))
        if one.marker is not None and not any(map(one.marker.evaluate, judged)):
            continue
        found = (canonicalize_name(one.name), frozenset(one.extras))
        if found in seen:
            continue
        seen.add(found)
        with contextlib.suppress(PackageNotFoundError):
            open_ += [(Requirement(text), found[1]) for text in requires(found[0]) or ()]
    return {name for name, _ in seen}
