"""Shard selectors: objects of a collection by ranges of a hash of their UID or namespace (KEP-5866, alpha).

    shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000') || shardRange(…)

The syntax is CEL, but it is never evaluated: only calls of `shardRange` joined by `||` are valid. Hashes are 64-bit
FNV-1a of the field's UTF-8 bytes. A range includes its start and excludes its end.
Facts: k8s.io/apiserver, pkg/sharding; k8s.io/apimachinery, pkg/sharding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from apiserver.api.errors.field_errors import go_quote

if TYPE_CHECKING:
    from apiserver.cel.language.ast import Node

__all__ = ["ShardError", "ShardSelector", "parse_shards"]

_FIELDS: Final = {"object.metadata.uid": "uid", "object.metadata.namespace": "namespace"}
_OFFSET: Final = 0xCBF29CE484222325
_PRIME: Final = 0x100000001B3
_MASK: Final = (1 << 64) - 1
_DIGITS: Final = frozenset("0123456789abcdef")
#: 2^64, the end of the last range. No other bound has 17 digits.
_END: Final = "0x10000000000000000"


class ShardError(ValueError):
    """Error in a shard selector, in upstream's words."""


@dataclass(frozen=True, slots=True)
class ShardSelector:
    """A parsed selector. `field` is the source text; each range has a start and an end, in hexadecimal."""

    field: str
    ranges: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return " || ".join(f"shardRange({self.field}, '{start}', '{end}')" for start, end in self.ranges)

    def compile(self) -> Callable[[Mapping[str, Any]], bool]:
        """Return a predicate over metadata: whether an object is in the shard."""
        field = _FIELDS[self.field]
        bounds = tuple((int(start, 16), int(end, 16)) for start, end in self.ranges)

        def holds(metadata: Mapping[str, Any]) -> bool:
            value = _hash(metadata.get(field) or "")
            return any(start <= value < end for start, end in bounds)

        return holds


def _hash(text: str) -> int:
    value = _OFFSET
    for byte in text.encode():
        value = (value ^ byte) * _PRIME & _MASK
    return value


def parse_shards(text: str) -> ShardSelector:
    """Parse a shard selector. Raise ShardError."""
    text = text.strip()
    if not text:
        raise ShardError("empty shard selector is not allowed; omit the parameter for unfiltered lists")
    found = _ranges(_parse(text))
    for field, _, _ in found[1:]:
        if field != found[0][0]:
            first = go_quote(found[0][0])
            raise ShardError(f"all shard ranges must use the same field, got {first} and {go_quote(field)}")
    return ShardSelector(found[0][0], tuple((start, end) for _, start, end in found))


def _parse(text: str) -> Node:
    from apiserver.cel.engine import syntax_tree
    from apiserver.cel.language.source import Issues

    issues = Issues(text)
    tree = syntax_tree(text, issues)
    if issues:
        raise ShardError(f"CEL parse error: {issues.problems[0][1]}")
    return tree


def _ranges(node: Node) -> list[tuple[str, str, str]]:
    """Return (field, start, end) of each `shardRange`, in the order of the text."""
    from apiserver.cel.language.ast import Call

    if not isinstance(node, Call):
        raise ShardError(f"unexpected expression kind {_kind(node)}; expected shardRange() call or || operator")
    if node.function == "_||_":
        return [found for part in node.args for found in _ranges(part)]
    if node.function == "shardRange":
        return [_range(node.args)]
    raise ShardError(f"unsupported function {go_quote(node.function)}; only shardRange() and || are allowed")


def _range(args: list[Node]) -> tuple[str, str, str]:
    if len(args) != 3:
        raise ShardError(f"shardRange() requires exactly 3 arguments, got {len(args)}")
    field = _field(args[0])
    if field not in _FIELDS:
        raise ShardError(f"unsupported field path {go_quote(field)}; supported: {', '.join(_FIELDS)}")
    start, end = _hex(args[1], "hexStart"), _hex(args[2], "hexEnd")
    if int(start, 16) >= int(end, 16):
        raise ShardError(f"shard range start {start} must be less than end {end}")
    return field, start, end


def _field(node: Node) -> str:
    from apiserver.cel.language.ast import Ident, Select

    if isinstance(node, Ident):
        return node.name
    if isinstance(node, Select):
        return f"{_field(node.operand)}.{node.name}"
    raise ShardError(
        "shardRange() first argument: expected field path (e.g. object.metadata.uid), got expression kind"
        f" {_kind(node)}"
    )


def _hex(node: Node, name: str) -> str:
    from apiserver.cel.language.ast import Literal

    if not isinstance(node, Literal):
        raise ShardError(f"{name} must be a string literal (e.g. '0xff'), got expression kind {_kind(node)}")
    value = node.value
    if not isinstance(value, str):
        raise ShardError(f"{name} must be a string literal, got {_go_type(value)}")
    if not value.startswith("0x"):
        raise ShardError(f"{name} must have '0x' prefix, got {go_quote(value)}")
    digits = value[2:]
    if not digits:
        raise ShardError(f"{name}: hex value is required after '0x'")
    size = len(digits.encode())
    if size > len(_END) - 2:
        raise ShardError(f"{name}: hex value too long ({size} chars, max {len(_END) - 2}): {go_quote(digits)}")
    for digit in digits:
        if digit not in _DIGITS:
            raise ShardError(f"{name}: invalid hex character {go_quote(digit)} in {go_quote(value)}")
    if size == len(_END) - 2 and value != _END:
        raise ShardError(f"{name}: 17-digit hex value must be '{_END}' (2^64), got {go_quote(value)}")
    if size < len(_END) - 3:
        meant = go_quote("0x" + digits.rjust(16, "0"))
        raise ShardError(
            f"{name} must be a 0x-prefixed 16-digit hex value, got {go_quote(value)} (did you mean {meant}?)"
        )
    return value


def _kind(node: Node) -> int:
    """Return cel-go's number for the kind of an expression (common/ast, ExprKind)."""
    from apiserver.cel.language import ast

    kinds = {
        ast.Call: 1, ast.Comprehension: 2, ast.Ident: 3, ast.ListNode: 4, ast.Literal: 5, ast.MapNode: 6,
        ast.Select: 7, ast.StructNode: 8,
    }  # fmt: skip
    return kinds.get(type(node), 0)


def _go_type(value: Any) -> str:
    """Return the Go type of a literal's value, as `%T` prints it. A uint is a class of its own here."""
    if value is None:
        return "structpb.NullValue"
    names = {bool: "bool", int: "int64", float: "float64", bytes: "[]uint8"}
    return names.get(type(value), "uint64")
