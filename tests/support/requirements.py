"""What packages need, from the metadata of those that are installed here."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, requires

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def closure(wanted: Iterable[str], **environment: str) -> set[str]:
    """The names of these requirements' packages and of all that they need in turn, where markers are judged by this
    machine's values and the given ones. What a package needs that is not installed here is not known.
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
