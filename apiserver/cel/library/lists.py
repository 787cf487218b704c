"""List functions: those of Kubernetes (sum, min, max, …), the list extension (sort, slice, …) and sets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cmp_to_key
from typing import Any, Final

from apiserver.cel.language.declarations import Function, function, method, overload
from apiserver.cel.language.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    UINT,
    Type,
    list_of,
    param,
)  # fmt: skip
from apiserver.cel.language.values import (
    CelError,
    Duration,
    Timestamp,
    Uint,
    compare,
    no_such_overload,
    same,
    type_name,
)  # fmt: skip
from apiserver.cel.library.operators import add

COMPARABLE: Final[tuple[tuple[str, Type], ...]] = (
    ("int", INT), ("uint", UINT), ("double", DOUBLE), ("bool", BOOL), ("duration", DURATION),
    ("timestamp", TIMESTAMP), ("string", STRING), ("bytes", BYTES),
)  # fmt: skip
_SUMMABLE: Final[tuple[tuple[str, Type, Any], ...]] = (
    ("int", INT, 0), ("uint", UINT, Uint(0)), ("double", DOUBLE, 0.0), ("duration", DURATION, Duration(0)),
)  # fmt: skip
_ORDERED: Final = (int, float, str, bool, bytes, Uint, Timestamp, Duration)
_A, _T = param("A"), param("T")
MAX_INCLUDES: Final = 48
# The cost of longer ranges exceeds any limit; building them would only exhaust memory.
_MAX_RANGE: Final = 1_100_000


def _is_sorted(items: list[Any]) -> bool:
    previous: Any = None
    for index, item in enumerate(items):
        if item.__class__ not in _ORDERED:
            raise no_such_overload()
        if index and _safe_compare(previous, item) > 0:
            return False
        previous = item
    return True


def _sum(zero: Any) -> Callable[[list[Any]], Any]:
    def total(items: list[Any]) -> Any:
        result = zero
        for item in items:
            result = add(result, item)
        return result

    return total


def _extreme(name: str, sign: int) -> Callable[[list[Any]], Any]:
    def pick(items: list[Any]) -> Any:
        if not items:
            raise CelError(f"{name} called on empty list")
        result = items[0]
        for item in items:
            if item.__class__ not in _ORDERED:
                raise no_such_overload()
            if _safe_compare(result, item) == sign:
                result = item
        return result

    return pick


def _index_of(items: list[Any], wanted: Any) -> int:
    return next((index for index, item in enumerate(items) if same(item, wanted)), -1)


def _last_index_of(items: list[Any], wanted: Any) -> int:
    return next((index for index in range(len(items) - 1, -1, -1) if same(items[index], wanted)), -1)


def kubernetes() -> list[Function]:
    """Return the declarations of isSorted, sum, min, max, indexOf and lastIndexOf."""

    def over(name: str, id: str, result: Type | None, implementation: Callable[[list[Any]], Any]) -> Function:
        overloads = [
            method(id.format(kind), (list_of(type_),), result or type_, implementation) for kind, type_ in COMPARABLE
        ]
        return function(name, *overloads)

    return [
        over("isSorted", "list_{}_is_sorted_bool", BOOL, _is_sorted),
        function(
            "sum",
            *(
                method(f"list_{kind}_sum_{kind}", (list_of(type_),), type_, _sum(zero))
                for kind, type_, zero in _SUMMABLE
            ),
        ),
        over("max", "list_{0}_max_{0}", None, _extreme("max", -1)),
        over("min", "list_{0}_min_{0}", None, _extreme("min", 1)),
        function("indexOf", method("list_a_index_of_int", (list_of(_A), _A), INT, _index_of)),
        function("lastIndexOf", method("list_a_last_index_of_int", (list_of(_A), _A), INT, _last_index_of)),
    ]


def _slice(items: list[Any], start: int, end: int) -> list[Any]:
    if start < 0 or end < 0:
        raise CelError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise CelError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if len(items) < end:
        raise CelError(f"cannot slice({start}, {end}), list is length {len(items)}")
    return list(items[start:end])


def _flatten(items: Sequence[Any], depth: int = 1) -> list[Any]:
    if depth < 0:
        raise CelError("level must be non-negative")
    flat: list[Any] = []
    for item in items:
        if depth and isinstance(item, list | tuple):
            flat.extend(_flatten(item, depth - 1))
        else:
            flat.append(item)
    return flat


def _sort_by(items: Sequence[Any], keys: Sequence[Any]) -> Sequence[Any]:
    if len(items) != len(keys):
        raise CelError(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, "
            f"but got {len(items)} and {len(keys)} elements respectively"
        )
    if not items:
        return items
    kind = type_name(keys[0])
    if keys[0].__class__ not in _ORDERED:
        raise CelError("list elements must be comparable")
    if any(type_name(key) != kind for key in keys):
        raise CelError("list elements must have the same type")
    order = sorted(range(len(keys)), key=cmp_to_key(_by_key(keys)))
    return [items[index] for index in order]


def _by_key(keys: Sequence[Any]) -> Callable[[int, int], int]:
    return lambda left, right: _safe_compare(keys[left], keys[right])


def _safe_compare(left: Any, right: Any) -> int:
    """Compare two values; incomparable ones, such as NaN, are neither less nor greater."""
    try:
        return compare(left, right)
    except CelError:
        return 0


def _range(count: int) -> list[int]:
    return list(range(min(count, _MAX_RANGE)))


def _distinct(items: list[Any]) -> list[Any]:
    kinds = {item.__class__ for item in items}
    if kinds <= {str} or kinds <= {int}:
        return list(dict.fromkeys(items))
    unique: list[Any] = []
    for item in items:
        if not any(same(item, known) for known in unique):
            unique.append(item)
    return unique


def extension() -> list[Function]:
    """Return the declarations of version 3 of the list extension (sortBy is a macro)."""
    items = list_of(_T)
    return [
        function("slice", method("list_slice", (items, INT, INT), items, _slice)),
        function(
            "flatten",
            method("list_flatten", (list_of(items),), items, _flatten),
            method("list_flatten_int", (list_of(DYN), INT), list_of(DYN), _flatten),
        ),
        function(
            "sort",
            *(method(f"list_{type_.name}_sort", (list_of(type_),), list_of(type_)) for _, type_ in COMPARABLE),
            trait=lambda values: _sort_by(_require_list("sort", values), values),
        ),
        function(
            "@sortByAssociatedKeys",
            *(
                method(f"list_{type_.name}_sortByAssociatedKeys", (items, list_of(type_)), items)
                for _, type_ in COMPARABLE
            ),
            trait=lambda values, keys: _sort_by(_require_list("@sortByAssociatedKeys", values), keys),
        ),
        function("lists.range", overload("lists_range", (INT,), list_of(INT), _range)),
        function("reverse", method("list_reverse", (items,), items, lambda values: values[::-1])),
        function("distinct", method("list_distinct", (items,), items, _distinct)),
    ]


def _require_list(name: str, value: Any) -> Sequence[Any]:
    if isinstance(value, list | tuple):
        return value
    raise CelError(f"no such overload: {name}")


def _contains_all(items: list[Any], wanted: list[Any]) -> bool:
    return all(any(same(element, item) for item in items) for element in wanted)


def sets() -> list[Function]:
    """Return the declarations of sets.contains, sets.equivalent and sets.intersects."""
    pair = (list_of(_T), list_of(_T))
    return [
        function("sets.contains", overload("list_sets_contains_list", pair, BOOL, _contains_all)),
        function(
            "sets.equivalent",
            overload(
                "list_sets_equivalent_list", pair, BOOL,
                lambda left, right: _contains_all(left, right) and _contains_all(right, left),
            ),
        ),
        function(
            "sets.intersects",
            overload(
                "list_sets_intersects_list", pair, BOOL,
                lambda left, right: any(same(element, item) for element in left for item in right),
            ),
        ),
    ]  # fmt: skip


def includes(target: Any, wanted: Any) -> bool:
    """Return whether a list contains a value, or a scalar equals it. Lists are limited to 48 elements."""
    if not isinstance(target, list | tuple):
        return same(target, wanted)
    for index, item in enumerate(target):
        if index >= MAX_INCLUDES:
            raise CelError(f"'includes' function cannot be applied to lists longer than {MAX_INCLUDES} values")
        if same(item, wanted):
            return True
    return False
