"""The order of merged lists: what a patch brings in the patch's order, the rest in the server's, the two interleaved.

Elements are known by their merge key, scalars by themselves.
"""

from __future__ import annotations

from typing import Any

from apiserver.api.patch.errors import PatchError
from apiserver.api.patch.goformat import go_format, go_type

__all__ = ["by_presence", "element_key", "ordered", "same"]


def same(left: Any, right: Any) -> bool:
    """Equality of scalars in which 1, 1.0 and true differ."""
    return type(left) is type(right) and bool(left == right)


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
    ours: list[Any] = []
    theirs: list[Any] = []
    for value in values:
        key = element_key(value, key_name)
        (ours if any(same(key, name) for name in names) else theirs).append(value)
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
    left, right = 0, 0
    while left < len(theirs) and right < len(ours):
        before, after = _place(their_order, theirs[left], key_name), _place(their_order, ours[right], key_name)
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
    places = [_place(order, value, key_name) for value in values]
    out: list[tuple[int, Any]] = []
    for place, value in zip(places, values, strict=True):
        at = len(out)
        while at and not (place >= 0 and out[at - 1][0] >= 0 and out[at - 1][0] <= place):
            at -= 1
        out.insert(at, (place, value))
    return [value for _, value in out] + deleted


def _place(order: list[Any], value: Any, key_name: str) -> int:
    key = value.get(key_name) if key_name and isinstance(value, dict) else value
    for place, other in enumerate(order):
        if same(key, other.get(key_name) if key_name and isinstance(other, dict) else other):
            return place
    return -1
