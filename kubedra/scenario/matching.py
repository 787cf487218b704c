"""Comparison of objects with the fields that a scenario expects, and of numbers with bounds."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from kubedra.client.report import name
from kubedra.runtime.objects import Json

__all__ = ["check_count", "describe_objects", "find_mismatch"]

_BOUND: Final = re.compile(r"(<=|>=|!=|<|>|)\s*([0-9]+)")
_COMPARE: Final[dict[str, Callable[[int, int], bool]]] = {
    "": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "!=": operator.ne,
}  # fmt: skip
#: Maximum number of objects in a message.
_SHOWN: Final = 5


def check_count(found: int, expected: int | str) -> bool:
    """Return whether a number meets a bound such as ">=2"."""
    bound = _BOUND.fullmatch(str(expected))
    assert bound is not None, expected
    return _COMPARE[bound[1]](found, int(bound[2]))


def find_mismatch(found: Any, expected: Any) -> str:
    """Return the first difference as "status.phase is Pending, expected Running"; "" if all expected fields match.

    Other fields of an object are ignored. An item of a list must match any item.
    """
    return next(_differences(found, expected, ""), "")


def _differences(found: Any, expected: Any, where: str) -> Iterator[str]:
    if isinstance(expected, dict) and isinstance(found, dict):
        for key, value in expected.items():
            inner = f"{where}.{key}" if where else str(key)
            if key in found:
                yield from _differences(found[key], value, inner)
            elif value is not None:
                yield f"{inner} is missing, expected {_text(value)}"
    elif isinstance(expected, list) and isinstance(found, list):
        for value in expected:
            if not any(next(_differences(each, value, ""), None) is None for each in found):
                yield f"{where} has no item {_text(value)}, it is {_text(found)}"
    elif type(found) is not type(expected) or found != expected:
        yield f"{where} is {_text(found)}, expected {_text(expected)}"


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 100 else f"{text[:100]}…"


def describe_objects(objects: Sequence[Json], expected: Json) -> str:
    """Return why objects do not match, for at most five of them."""
    parts = []
    for obj in objects[:_SHOWN]:
        mismatch = find_mismatch(obj, expected)
        parts.append(f"{name(obj)}: {mismatch}" if mismatch else f"{name(obj)} matches")
    more = [f"{len(objects) - _SHOWN} more"] if len(objects) > _SHOWN else []
    return "; ".join([*parts, *more])
