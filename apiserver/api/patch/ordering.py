"""The order of merged lists: the elements of the patch in its order, the others in the server's order, interleaved.

Elements are identified by their merge key, scalars by their value.
"""

from __future__ import annotations

import math
from operator import itemgetter
from typing import Any

import orjson

from apiserver.api.patch.errors import PatchError
from apiserver.api.patch.goformat import go_format, go_type

__all__ = ["element_key", "identity", "ordered", "same", "split_by_presence"]


def same(left: Any, right: Any) -> bool:
    """Return whether scalars are equal; 1, 1.0 and true differ."""
    return type(left) is type(right) and bool(left == right)


def identity(value: Any) -> tuple[type, Any]:
    """Return a hashable key that is equal for values that are the `same`."""
    scalar = not isinstance(value, dict | list)
    return type(value), value if scalar else orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def element_key(element: Any, key_name: str) -> Any:
    """Return the value that identifies an element. Raise PatchError for an element without its merge key."""
    if not key_name:
        return element
    if not isinstance(element, dict):
        raise PatchError(f"expected a map[string]interface {{}}, but received a {go_type(element)}", 500)
    if key_name not in element:
        raise PatchError(f"map: {go_format(element)} does not contain declared merge key: {key_name}", 500)
    return element[key_name]


def split_by_presence(values: list[Any], listed: list[Any], key_name: str) -> tuple[list[Any], list[Any]]:
    """Split values into those that a list contains and the others."""
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
    """Sort both lists by their orders, then interleave them by the server's order.

    `ours` come first where the server's order does not decide.
    """
    ours = _sorted(ours, our_order, key_name, keyed=keyed)
    theirs = _sorted(theirs, their_order, key_name, keyed=keyed)
    out: list[Any] = []
    positions = _index_positions(their_order, key_name)
    left, right = 0, 0
    while left < len(theirs) and right < len(ours):
        before, after = (
            _find_position(positions, theirs[left], key_name),
            _find_position(positions, ours[right], key_name),
        )
        if 0 <= before < after:
            out.append(theirs[left])
            left += 1
        else:
            out.append(ours[right])
            right += 1
    return out + theirs[left:] + ours[right:]


def _sorted(values: list[Any], order: list[Any], key_name: str, *, keyed: bool) -> list[Any]:
    """Sort values by an order.

    An element that the order lacks moves before the preceding elements, as in upstream's sort.
    """
    deleted: list[Any] = []
    if keyed:
        for value in (*values, *order):
            element_key(value, key_name)
        deleted = [value for value in values if value.get("$patch") == "delete"]
        values = [value for value in values if value.get("$patch") != "delete"]
    named = _index_positions(order, key_name)
    # An element missing in the order precedes all elements before it, from the least of their positions on.
    least: float = math.inf
    ranked: list[tuple[float, int, int, Any]] = []
    for number, value in enumerate(values):
        position = _find_position(named, value, key_name)
        if position < 0:
            ranked.append((least, 0, -number, value))
        else:
            least = min(least, position)
            ranked.append((position, 1, number, value))
    return [value for *_, value in sorted(ranked, key=itemgetter(0, 1, 2))] + deleted


def _index_positions(order: list[Any], key_name: str) -> dict[tuple[type, Any], int]:
    """Return the first position of each element in an order."""
    found: dict[tuple[type, Any], int] = {}
    for position, element in enumerate(order):
        found.setdefault(_identity_of(element, key_name), position)
    return found


def _find_position(positions: dict[tuple[type, Any], int], value: Any, key_name: str) -> int:
    return positions.get(_identity_of(value, key_name), -1)


def _identity_of(value: Any, key_name: str) -> tuple[type, Any]:
    return identity(value.get(key_name) if key_name and isinstance(value, dict) else value)
