"""Optional values: `optional.of`, `orValue`, first and last."""

from __future__ import annotations

from typing import Any

from apiserver.cel.language.declarations import Function, function, method, overload
from apiserver.cel.language.types import BOOL, DYN, INT, STRING, list_of, map_of, optional_of, param
from apiserver.cel.language.values import ABSENT, NONE, CelError, Duration, Optional, Timestamp


def dereference(value: Optional) -> Any:
    """Return the value of an optional; raise CelError if there is none."""
    if value.value is ABSENT:
        raise CelError("optional.none() dereference")
    return value.value


def _of_non_zero(value: Any) -> Optional:
    if isinstance(value, Duration):
        zero = value.nanos == 0
    elif isinstance(value, Timestamp):
        zero = value.nanos == _YEAR_ONE
    else:
        zero = value is None or (
            isinstance(value, bool | int | float | str | bytes | list | tuple | dict) and not value
        )
    return NONE if zero else Optional(value)


_YEAR_ONE = -62135596800 * 1_000_000_000


def _unwrap(values: list[Any]) -> list[Any]:
    for value in values:
        if not isinstance(value, Optional):
            raise CelError(f"value {value} is not optional")
    return [value.value for value in values if value.value is not ABSENT]


def library() -> list[Function]:
    """Return the whole extension; the planner evaluates `or`, `orValue` and optional selection."""
    key, value = param("K"), param("V")
    optional, items, mapping = optional_of(value), list_of(value), map_of(key, value)
    optionals = list_of(optional)
    return [
        function("optional.of", overload("optional_of", (value,), optional, Optional)),
        function("optional.ofNonZeroValue", overload("optional_ofNonZeroValue", (value,), optional, _of_non_zero)),
        function("optional.none", overload("optional_none", (), optional, lambda: NONE)),
        function("value", method("optional_value", (optional,), value, dereference)),
        function("hasValue", method("optional_hasValue", (optional,), BOOL, lambda held: held.value is not ABSENT)),
        function("or", method("optional_or_optional", (optional, optional), optional)),
        function("orValue", method("optional_orValue_value", (optional, value), value)),
        function("_?._", overload("select_optional_field", (DYN, STRING), optional)),
        function(
            "_[?_]",
            overload("list_optindex_optional_int", (items, INT), optional),
            overload("optional_list_optindex_optional_int", (optional_of(items), INT), optional),
            overload("map_optindex_optional_value", (mapping, key), optional),
            overload("optional_map_optindex_optional_value", (optional_of(mapping), key), optional),
        ),
        function(
            "_[_]",
            overload("optional_list_index_int", (optional_of(items), INT), optional),
            overload("optional_map_index_value", (optional_of(mapping), key), optional),
        ),
        function("last", method("list_last", (items,), optional, lambda held: Optional(held[-1]) if held else NONE)),
        function("first", method("list_first", (items,), optional, lambda held: Optional(held[0]) if held else NONE)),
        function("optional.unwrap", overload("optional_unwrap", (optionals,), items, _unwrap)),
        function("unwrapOpt", method("optional_unwrapOpt", (optionals,), items, _unwrap)),
    ]
