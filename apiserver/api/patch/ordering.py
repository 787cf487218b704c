"""The order of merged lists: what a patch brings in the patch's order, the rest in the server's, the two interleaved.

Elements are known by their merge key, scalars by themselves.
"""

from __future__ import annotations

import math
from operator import itemgetter
from typing import Any

import orjson

from apiserver.api.patch.errors import PatchError
from apiserver.api.patch.goformat import go_format, go_type

__all__ = ["by_presence", "element_key", "identity", "ordered", "same"]


def same(left: Any, right: Any) -> bool:
    """Equality of scalars in which 1, 1.0 and true differ."""
    return type(left) is type(right) and bool(left == right)


def identity(value: Any) -> tuple[type, Any]:
    """What is equal for values that are the `same`, and can be looked up."""
    scalar = not isinstance(value, dict | list)
    return type(value), value if scalar else orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def element_key(element: Any, key_name: str) -> Any:
    """What an element is known by. Raises PatchError for an element without its merge key."""
    if not key_name:
        return element
    if not isinstance(element, dict):
        raise PatchError(f"expected a map[string]interface {{}}, but received a {go_type(element)}", 500)
    if key_name not in element:
        raise PatchError(f"map: {go_format(element)} does not contain declared merge key: {key_name}", 500)
    return element[key_name]


def by_presence(values: list[Any], listed: list[Any], key_name: str) -> tuple[list[Any], list[Any]]:
    """Values that a list names, and the others."""
    names = (
        [element[key_name] for element in listed if isinstance(element, dict) and key_name in element]
        if key_name
        else listed
    )
    known = {identity(name) for name in names}
    ours: list[Any] = []
    theirs: list[Any] = []
    for value in values:
        (ours if identity(element_key(value, key_name)) in known else theirs).append(value)
    return ours, theirs


def ordered(
    ours: list[Any], theirs: list[Any], our_order: list[Any], their_order: list[Any], key_name: str, *, keyed: bool
) -> list[Any]:
    """Both parts sorted by their orders, then interleaved by the server's order; ours go first where that says
    nothing.
    """
    ours = _sorted(ours, our_order, key_name, keyed=keyed)
    theirs = _sorted(theirs, their_order, key_name, keyed=keyed)
    out: list[Any] = []
    places = _places(their_order, key_name)
    left, right = 0, 0
    while left < len(theirs) and right < len(ours):
        before, after = _place(places, theirs[left], key_name), _place(places, ours[right], key_name)
        if 0 <= before < after:
            out.append(theirs[left])
            left += 1
        else:
            out.append(ours[right])
            right += 1
    return out + theirs[left:] + ours[right:]


def _sorted(values: list[Any], order: list[Any], key_name: str, *, keyed: bool) -> list[Any]:
    """By the places of an order; an element that it does not name moves in front of those before it, as upstream's sort
    does.
    """
    deleted: list[Any] = []
    if keyed:
        for value in (*values, *order):
            element_key(value, key_name)
        deleted = [value for value in values if value.get("$patch") == "delete"]
        values = [value for value in values if value.get("$patch") != "delete"]
    named = _places(order, key_name)
    # An element that is not named stands before all that were there: those from the least of their places on.
    least: float = math.inf
    ranked: list[tuple[float, int, int, Any]] = []
    for number, value in enumerate(values):
        place = _place(named, value, key_name)
        if place < 0:
            ranked.append((least, 0, -number, value))
        else:
            least = min(least, place)
            ranked.append((place, 1, number, value))
    return [value for *_, value in sorted(ranked, key=itemgetter(0, 1, 2))] + deleted


def _places(order: list[Any], key_name: str) -> dict[tuple[type, Any], int]:
    """The first place of each element that an order names."""
    found: dict[tuple[type, Any], int] = {}
    for place, element in enumerate(order):
        found.setdefault(_known_by(element, key_name), place)
    return found


def _place(places: dict[tuple[type, Any], int], value: Any, key_name: str) -> int:
    return places.get(_known_by(value, key_name), -1)


def _known_by(value: Any, key_name: str) -> tuple[type, Any]:
    return identity(value.get(key_name) if key_name and isinstance(value, dict) else value)
