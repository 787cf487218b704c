"""Estimate the worst cost of calls from the sizes of their arguments.

`estimate_call` returns the worst case of a call with its arguments, and the size of the result if a rule knows it.

Source of facts: recorded estimates; for lists, strings and sets the documented costs of the extensions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from apiserver.cel.cost.estimate import (
    LIST_COST,
    REGEX_FACTOR,
    STRING_FACTOR,
    STRUCT_COST,
    UNKNOWN,
    UNKNOWN_SIZE,
    Entries,
    Estimator,
    Operand,
    Size,
    plus,
    scale,
    times,
    union,
)  # fmt: skip
from apiserver.cel.language.ast import Call, Literal
from apiserver.cel.library.lists import COMPARABLE, MAX_INCLUDES

Estimate = tuple[int, "Size | None"]
Rule = Callable[[Estimator, str, "Operand | None", list[Operand]], "Estimate | None"]

_LONGEST_FORMAT_REGEX: Final = 128
_ADDRESS_BYTES: Final = 16
#: Cost of an authorizer check; an expression may make two.
CHECK_COST: Final = 350_000
_FIXED: Final[Estimate] = (1, None)

FLAT: Final = (
    "sign", "asInteger", "isInteger", "asApproximateFloat", "isGreaterThan", "isLessThan", "compareTo", "add", "sub",
    "major", "minor", "patch", "getScheme", "getHostname", "getHost", "getPort", "getEscapedPath", "getQuery",
    "format.named", "masked", "prefixLength", "family", "isUnspecified", "isLoopback", "isLinkLocalMulticast",
    "isLinkLocalUnicast", "isGlobalUnicast", "serviceAccount", "path", "group", "resource", "subresource", "namespace",
    "name", "allowed", "reason", "error", "errored",
)  # fmt: skip


def _flat(_estimator: Estimator, _overload: str, _target: Operand | None, _args: list[Operand]) -> Estimate:
    return _FIXED


def _list_scan(estimator: Estimator, _overload: str, target: Operand | None, _args: list[Operand]) -> Estimate | None:
    """Estimate a pass over a list that compares each element; indexOf and lastIndexOf also apply to strings."""
    if target is None:
        return None
    count = estimator.size_of(target)[1]
    element = estimator.element_of(target)
    if element is None:
        return scale(count, STRING_FACTOR), None
    each = 1
    if element.type.kind in ("string", "bytes"):
        each = plus(1, scale(estimator.size_of(element)[1], STRING_FACTOR))
    return times(count, each), None


def _argument_scan(keeps_size: bool) -> Rule:
    def rule(estimator: Estimator, _overload: str, _target: Operand | None, args: list[Operand]) -> Estimate | None:
        if not args:
            return None
        size = estimator.size_of(args[0])
        return scale(size[1], STRING_FACTOR), size if keeps_size else None

    return rule


def selector_cost(length: int) -> int:
    """Return the cost of parsing a selector: its text, and a requirement for every two characters."""
    parts = [scale(length, STRING_FACTOR), times(scale(length, 0.5), LIST_COST + STRUCT_COST)]
    return plus(LIST_COST, plus(*parts))


def _selector(estimator: Estimator, _overload: str, _target: Operand | None, args: list[Operand]) -> Estimate | None:
    return (selector_cost(estimator.size_of(args[0])[1]), None) if len(args) == 1 else None


def _target_scan(estimator: Estimator, _overload: str, target: Operand | None, _args: list[Operand]) -> Estimate | None:
    if target is None:
        return None
    size = estimator.size_of(target)
    return scale(size[1], STRING_FACTOR), size


def _replace(estimator: Estimator, _overload: str, target: Operand | None, args: list[Operand]) -> Estimate | None:
    if target is None or len(args) < 2:
        return None
    size, old, new = estimator.size_of(target), estimator.size_of(args[0]), estimator.size_of(args[1])
    kept_most = kept_least = 0
    if old[0] == 0:
        most, kept_most = plus(size[1], 1), size[1]
    elif new[1] <= old[0]:
        most, kept_most = 0, size[1]
    else:
        most = min(math.ceil(float(size[1]) / float(old[0])), UNKNOWN)
    if old[1] == 0:
        least, kept_least = plus(size[0], 1), size[0]
    elif old[1] <= new[0]:
        least, kept_least = 0, size[0]
    else:
        least = min(math.ceil(float(size[0]) / float(old[1])), UNKNOWN)
    result = (plus(times(least, new[0]), kept_least), plus(times(most, new[1]), kept_most))
    return scale(size[1], 2 * STRING_FACTOR), result


def _split(estimator: Estimator, _overload: str, target: Operand | None, args: list[Operand]) -> Estimate | None:
    if target is None:
        return None
    size = estimator.size_of(target)
    most = size[1]
    if len(args) > 1 and isinstance(args[1].node, Literal) and args[1].node.value.__class__ is int:
        most = args[1].node.value % (1 << 64)
    return scale(size[1], 2 * STRING_FACTOR), (0, most)


def _join(estimator: Estimator, _overload: str, target: Operand | None, args: list[Operand]) -> Estimate | None:
    if target is None:
        return None
    count = estimator.size_of(target)
    element = estimator.element_of(target)
    size: Size = (0, 0)
    if element is not None:
        each = estimator.size_of(element)
        size = (times(count[0], each[0]), times(count[1], each[1]))
    if args:
        separator = estimator.size_of(args[0])
        size = (
            plus(size[0], times(separator[0], max(count[0] - 1, 0))),
            plus(size[1], times(separator[1], max(count[1] - 1, 0))),
        )
    return scale(size[1], STRING_FACTOR), size


def _regex_cost(text: Size, pattern: Size) -> int:
    return times(scale(plus(text[1], 1), STRING_FACTOR), scale(pattern[1], REGEX_FACTOR))


def _find(estimator: Estimator, _overload: str, target: Operand | None, args: list[Operand]) -> Estimate | None:
    if target is None or not args:
        return None
    text = estimator.size_of(target)
    return _regex_cost(text, estimator.size_of(args[0])), (0, text[1])


def _ip(estimator: Estimator, overload: str, target: Operand | None, args: list[Operand]) -> Estimate | None:
    return _FIXED if overload == "cidr_ip" else _argument_scan(False)(estimator, overload, target, args)


def _is_canonical(
    estimator: Estimator, _overload: str, _target: Operand | None, args: list[Operand]
) -> Estimate | None:
    return (scale(estimator.size_of(args[0])[1], 2 * STRING_FACTOR), None) if args else None


def _contains_address(network: bool) -> Rule:
    def rule(estimator: Estimator, overload: str, _target: Operand | None, args: list[Operand]) -> Estimate | None:
        if not args:
            return None
        cost = scale(2 * _ADDRESS_BYTES, STRING_FACTOR)
        if network:
            cost += scale(_ADDRESS_BYTES, STRING_FACTOR) + 1
        if overload.endswith("_string"):
            cost = plus(cost, scale(estimator.size_of(args[0])[1], STRING_FACTOR))
        return cost, None

    return rule


def _validate(estimator: Estimator, _overload: str, _target: Operand | None, args: list[Operand]) -> Estimate | None:
    if not args:
        return None
    text = scale(estimator.size_of(args[0])[1], STRING_FACTOR)
    return scale(text, _LONGEST_FORMAT_REGEX * REGEX_FACTOR), None


_UNIT_EQUALITY: Final = frozenset({"net.IP", "net.CIDR", "kubernetes.Quantity", "kubernetes.Semver"})


def _equality(_estimator: Estimator, _overload: str, _target: Operand | None, args: list[Operand]) -> Estimate | None:
    if len(args) != 2 or args[0].type != args[1].type:
        return None
    name = args[0].type.name
    if name in _UNIT_EQUALITY:
        return _FIXED
    if name == "kubernetes.NamedFormat":
        return scale(64, STRING_FACTOR), None
    if name == "kubernetes.URL":
        size = args[1].size
        return scale(1 if size is None else size[1], STRING_FACTOR), None
    return None


def _includes(_estimator: Estimator, _overload: str, target: Operand | None, _args: list[Operand]) -> Estimate | None:
    return None if target is None else (MAX_INCLUDES, None)


_BY_FUNCTION: Final[dict[str, Rule]] = {
    **dict.fromkeys(FLAT, _flat),
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _list_scan),
    **dict.fromkeys(("url", "jsonpatch.escapeKey"), _argument_scan(True)),
    "check": lambda *_: (CHECK_COST, None),
    **dict.fromkeys(("fieldSelector", "labelSelector"), _selector),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _target_scan),
    "replace": _replace,
    "split": _split,
    "join": _join,
    "find": _find,
    "findAll": _find,
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"), _argument_scan(False)),
    "ip": _ip,
    "ip.isCanonical": _is_canonical,
    "containsIP": _contains_address(False),
    "containsCIDR": _contains_address(True),
    "validate": _validate,
    "_==_": _equality,
    "includes": _includes,
}


def _sets(factor: float) -> Rule:
    def rule(estimator: Estimator, _overload: str, _target: Operand | None, args: list[Operand]) -> Estimate | None:
        if len(args) != 2:
            return None
        product = times(estimator.size_of(args[0])[1], estimator.size_of(args[1])[1])
        return plus(scale(product, factor), 1), None

    return rule


def _allocating(factor: float, size: Size) -> Estimate:
    return plus(scale(size[1], factor), 1 + LIST_COST), size


def _literal_int(operand: Operand, default: int) -> int:
    node = operand.node
    if not isinstance(node, Literal) or node.value.__class__ is not int:
        return default
    return max(int(node.value), 0)


def _slice(estimator: Estimator, _overload: str, target: Operand | None, args: list[Operand]) -> Estimate | None:
    if target is None or len(args) != 2:
        return None
    count = (_literal_int(args[1], estimator.size_of(target)[1]) - _literal_int(args[0], 0)) % (1 << 64)
    return _allocating(1, (count, count))


def _range(_estimator: Estimator, _overload: str, target: Operand | None, args: list[Operand]) -> Estimate | None:
    if target is not None or len(args) != 1:
        return None
    count = _literal_int(args[0], UNKNOWN)
    return _allocating(1, (count, count))


def _reverse(estimator: Estimator, _overload: str, target: Operand | None, _args: list[Operand]) -> Estimate | None:
    return None if target is None else _allocating(1, estimator.size_of(target))


def _flatten(estimator: Estimator, _overload: str, target: Operand | None, args: list[Operand]) -> Estimate | None:
    if target is None:
        return None
    depth = _literal_int(args[0], UNKNOWN) if args else 1
    return _allocating(float(depth), estimator.size_of(target))


def _square(factor: float, size: Size) -> Estimate:
    return _allocating(factor, (times(size[0], size[0]), times(size[1], size[1])))


def _distinct(estimator: Estimator, _overload: str, target: Operand | None, _args: list[Operand]) -> Estimate | None:
    return None if target is None else _square(2.0, estimator.size_of(target))


def _sort(factor: float, by_keys: bool) -> Rule:
    def rule(estimator: Estimator, _overload: str, target: Operand | None, args: list[Operand]) -> Estimate | None:
        if target is None:
            return None
        return _square(factor, estimator.size_of(args[0] if by_keys else target))

    return rule


_BY_OVERLOAD: Final[dict[str, Rule]] = {
    "list_sets_contains_list": _sets(1),
    "list_sets_intersects_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
    "list_slice": _slice,
    "lists_range": _range,
    "list_reverse": _reverse,
    "list_flatten": _flatten,
    "list_flatten_int": _flatten,
    "list_distinct": _distinct,
    **{
        f"list_{type_.name}_{suffix}": _sort(2.0 + STRING_FACTOR if kind in ("string", "bytes") else 2.0, by_keys)
        for kind, type_ in COMPARABLE
        for suffix, by_keys in (("sort", False), ("sortByAssociatedKeys", True))
    },
}


def estimate_call(
    estimator: Estimator, node: Call, overload: str, target: Operand | None, args: list[Operand], arg_costs: list[int]
) -> Estimate:
    """Return the worst cost of a call with its arguments (without its target), and the size of the result if known."""
    total = 0
    for cost in arg_costs:
        total = plus(total, cost)
    rule = _BY_OVERLOAD.get(overload) or _BY_FUNCTION.get(node.function)
    found = rule(estimator, overload, target, args) if rule else None
    if found is None:
        found = _standard(estimator, node, overload, target, args)
    if overload == "conditional":
        return plus(arg_costs[0], max(arg_costs[1], arg_costs[2])), found[1]
    return plus(found[0], total), found[1]


def _known_size(operand: Operand) -> Size:
    return operand.size or UNKNOWN_SIZE


COMPARED: Final = frozenset(
    f"{order}_{kind}" for order in ("less", "greater", "less_equals", "greater_equals") for kind in ("string", "bytes")
) | {"equals", "not_equals"}


def _standard(estimator: Estimator, node: Call, overload: str, target: Operand | None, args: list[Operand]) -> Estimate:
    """Estimate calls of the standard library."""
    match overload:
        case "string_format" if target is not None:
            return scale(_known_size(target)[1], STRING_FACTOR), None
        case "string_to_bytes":
            size = _known_size(args[0])
            return scale(size[1], STRING_FACTOR), (size[0], size[1] * 4 % (1 << 64))
        case "bytes_to_string":
            size = _known_size(args[0])
            return scale(size[1], STRING_FACTOR), (size[0] // 4, size[1])
        case "strings_quote":
            size = _known_size(args[0])
            return scale(size[1], STRING_FACTOR), (size[0] + 2, (size[1] * 2 + 2) % (1 << 64))
        case "starts_with_string" | "ends_with_string":
            return scale(_known_size(args[0])[1], STRING_FACTOR), None
        case "in_list":
            return _known_size(args[1])[1], None
        case "matches_string" if target is not None:
            return _regex_cost(_known_size(target), _known_size(args[0])), None
        case "contains_string" if target is not None:
            text = scale(_known_size(target)[1], STRING_FACTOR)
            return times(text, scale(_known_size(args[0])[1], STRING_FACTOR)), None
        case "logical_or" | "logical_and":
            return 0, None
        case "conditional":
            _join_entries(estimator, node, node.args[1], node.args[2])
            return 0, union(_known_size(args[1]), _known_size(args[2]))
        case "add_string" | "add_bytes" | "add_list":
            _join_entries(estimator, node, node.args[0], node.args[1])
            left, right = _known_size(args[0]), _known_size(args[1])
            size = (plus(left[0], right[0]), plus(left[1], right[1]))
            return 1 if overload == "add_list" else scale(size[1], STRING_FACTOR), size
    if overload in COMPARED:
        return scale(min(_known_size(args[0])[1], _known_size(args[1])[1]), STRING_FACTOR), None
    return _FIXED


def _join_entries(estimator: Estimator, node: Call, left: Any, right: Any) -> None:
    first, second = estimator.entries(left), estimator.entries(right)
    if first is not None and second is not None:
        estimator.set_entries(
            node, Entries(first.is_list, union(first.key, second.key), union(first.value, second.value))
        )
