"""Compute the actual cost of calls from their arguments and results.

An argument or result that is an error counts as a scalar (None here). Source of facts: recorded actual costs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from apiserver.api.values.quantity import Quantity
from apiserver.api.values.semver import Semver
from apiserver.cel.cost.estimate import LIST_COST, REGEX_FACTOR, STRING_FACTOR
from apiserver.cel.cost.rules import CHECK_COST, COMPARED, FLAT, selector_cost
from apiserver.cel.language.values import ComputedQuantity, InternalFailure, go_type_name, list_expected_error, size_of
from apiserver.cel.library.addresses import CIDR, IP
from apiserver.cel.library.kubernetes import NamedFormat
from apiserver.cel.library.lists import COMPARABLE
from apiserver.cel.library.urls import URL

Charge = Callable[[Any, Any], int]


def _up(size: int, factor: float) -> int:
    return math.ceil(size * factor)


def _traversal(value: Any) -> int:
    if isinstance(value, str):
        return int(len(value.encode()) * STRING_FACTOR)
    if isinstance(value, bytes):
        return int(len(value) * STRING_FACTOR)
    if isinstance(value, list | tuple):
        return sum(map(_traversal, value))
    if isinstance(value, dict):
        return sum(_traversal(key) + _traversal(item) for key, item in value.items())
    return 1


def _charge_first(factor: float) -> Charge:
    return lambda args, _result: _up(size_of(args[0]), factor)


def _charge_result(args: Any, result: Any) -> int:
    return _up(size_of(result), 2 * STRING_FACTOR)


def _charge_regex(args: Any, _result: Any) -> int:
    return math.ceil((1.0 + size_of(args[0])) * STRING_FACTOR) * _up(size_of(args[1]), REGEX_FACTOR)


def _charge_contains_address(network: bool, parses: bool) -> Charge:
    def charge(args: Any, _result: Any) -> int:
        size = size_of(args[0])
        cost = _up(2 * size, STRING_FACTOR)
        if network:
            cost += _up(size, STRING_FACTOR) + 1
        return cost + _up(size_of(args[1]), STRING_FACTOR) if parses else cost

    return charge


def _charge_validate(args: Any, _result: Any) -> int:
    named = args[0]
    if not isinstance(named, NamedFormat):
        return 1
    return math.ceil((1.0 + size_of(args[1])) * STRING_FACTOR) * _up(named.regex_size, REGEX_FACTOR)


_UNIT_VALUES: Final = (Quantity, ComputedQuantity, IP, CIDR, NamedFormat, URL, Semver)


def charge_equality(left: Any, right: Any) -> int:
    """Return the cost of comparing two values."""
    if left.__class__ in _UNIT_VALUES:
        return 1
    return _up(min(size_of(left), size_of(right)), STRING_FACTOR)


def _charge_order(args: Any, _result: Any) -> int:
    return _up(min(size_of(args[0]), size_of(args[1])), STRING_FACTOR)


def _charge_sum(args: Any, _result: Any) -> int:
    return _up(size_of(args[0]) + size_of(args[1]), STRING_FACTOR)


def _charge_contains(args: Any, _result: Any) -> int:
    return _up(size_of(args[0]), STRING_FACTOR) * _up(size_of(args[1]), STRING_FACTOR)


def _charge_sets(factor: int) -> Charge:
    return lambda args, _result: 1 + size_of(args[0]) * size_of(args[1]) * factor


def _charge_output(_args: Any, result: Any) -> int:
    return size_of(result) + 1 + LIST_COST


def _charge_flatten(args: Any, _result: Any) -> int:
    depth = args[1] if len(args) == 2 else 1
    if depth.__class__ is not int:
        raise InternalFailure(f"interface conversion: ref.Val is {go_type_name(depth)}, not types.Int")
    return int(size_of(args[0]) * depth) % 2**64 + 1 + LIST_COST  # a negative cost wraps and exceeds any limit


def _charge_comparisons(keys_at: int) -> Charge:
    def charge(args: Any, _result: Any) -> int:
        keys = args[keys_at]
        if not isinstance(keys, list | tuple):
            raise list_expected_error(keys)
        count = size_of(keys)
        factor = 2.0
        if count and isinstance(keys[0], str | bytes):
            factor += STRING_FACTOR
        return int(float(count * count) * factor) + 1 + LIST_COST

    return charge


_CHARGES_BY_OVERLOAD: Final[dict[str, Charge]] = {
    "list_sets_contains_list": _charge_sets(1),
    "list_sets_intersects_list": _charge_sets(1),
    "list_sets_equivalent_list": _charge_sets(2),
    "list_slice": _charge_output,
    "lists_range": _charge_output,
    "list_reverse": _charge_output,
    "list_flatten": _charge_flatten,
    "list_flatten_int": _charge_flatten,
    "list_distinct": _charge_comparisons(0),
    **{
        f"list_{type_.name}_{suffix}": _charge_comparisons(at)
        for _, type_ in COMPARABLE
        for suffix, at in (("sort", 0), ("sortByAssociatedKeys", 1))
    },
}
_CHARGES_BY_FUNCTION: Final[dict[str, Charge]] = {
    **dict.fromkeys(
        ("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), lambda args, _result: _traversal(args[0])
    ),
    **dict.fromkeys(
        (
            "url", "lowerAscii", "upperAscii", "substring", "trim", "cidr", "isIP", "isCIDR", "quantity",
            "isQuantity", "semver", "isSemver", "jsonpatch.escapeKey",
        ),
        _charge_first(STRING_FACTOR),
    ),
    "check": lambda _args, _result: CHECK_COST,
    **dict.fromkeys(("fieldSelector", "labelSelector"), lambda args, _result: selector_cost(size_of(args[1]))),
    **dict.fromkeys(("replace", "split", "ip.isCanonical"), _charge_first(2 * STRING_FACTOR)),
    "join": _charge_result,
    "find": _charge_regex,
    "findAll": _charge_regex,
    "validate": _charge_validate,
}  # fmt: skip
_CHARGES_STANDARD: Final[dict[str, Charge]] = {
    **dict.fromkeys(
        (
            "starts_with_string", "ends_with_string", "string_to_bytes", "bytes_to_string", "strings_quote",
            "string_format",
        ),
        _charge_first(STRING_FACTOR),
    ),
    "in_list": lambda args, _result: size_of(args[1]),
    **dict.fromkeys(COMPARED - {"equals", "not_equals"}, _charge_order),
    "add_string": _charge_sum,
    "add_bytes": _charge_sum,
    "matches_string": _charge_regex,
    "contains_string": _charge_contains,
}  # fmt: skip


def actual_cost(function: str, overload: str) -> Charge | None:
    """Return the rule that charges a call, or None for the flat charge. `overload` is empty if several may apply."""
    if overload in _CHARGES_BY_OVERLOAD:
        return _CHARGES_BY_OVERLOAD[overload]
    if function in FLAT:
        return None
    if function == "ip":
        return None if overload == "cidr_ip" else _charge_first(STRING_FACTOR)
    if function in ("containsIP", "containsCIDR"):
        return _charge_contains_address(function == "containsCIDR", overload.endswith("_string"))
    return _CHARGES_BY_FUNCTION.get(function) or _CHARGES_STANDARD.get(overload)
