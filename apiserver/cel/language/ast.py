"""The expression tree shared by parser, checker, cost estimate and planner.

Nodes carry the source offset for messages. The checker sets `type` and, for calls, `overloads`; nothing else changes a
node after parsing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from apiserver.cel.language.types import ERROR, Type

if TYPE_CHECKING:
    from apiserver.cel.language.messages import Message


@dataclass(slots=True, eq=False)
class Node:
    """Any expression."""

    pos: int
    type: Type = field(default=ERROR, init=False)


@dataclass(slots=True, eq=False)
class Literal(Node):
    """A constant."""

    value: Any


@dataclass(slots=True, eq=False)
class Ident(Node):
    """A variable, or a type name. `constant` is set by the checker for names of types."""

    name: str
    constant: Any = field(default=None, init=False)


@dataclass(slots=True, eq=False)
class Select(Node):
    """`operand.name`, or with `test` a presence test.

    The checker sets `constant` as for Ident, and `variable` if the whole chain is the dotted name of a variable.
    """

    operand: Node
    name: str
    test: bool = False
    constant: Any = field(default=None, init=False)
    variable: str = field(default="", init=False)


@dataclass(slots=True, eq=False)
class Call(Node):
    """A function, an operator or, with `target`, a method. The checker sets the candidate overloads."""

    function: str
    target: Node | None
    args: list[Node]
    overloads: tuple[str, ...] = field(default=(), init=False)


@dataclass(slots=True, eq=False)
class ListNode(Node):
    """A list literal `[a, ?b]`. `optional` contains the indices of elements written with `?`."""

    elements: list[Node]
    optional: frozenset[int] = frozenset()


@dataclass(slots=True, eq=False)
class Entry:
    """One `key: value` of a map or `field: value` of a message (`key` is then the field's name)."""

    pos: int
    key: Any
    value: Node
    optional: bool


@dataclass(slots=True, eq=False)
class MapNode(Node):
    """A map literal `{a: 1, ?b: c}`."""

    entries: list[Entry]


@dataclass(slots=True, eq=False)
class StructNode(Node):
    """A message literal `Name{field: 1}`. The checker sets `message`, its type."""

    name: str
    entries: list[Entry]
    message: Message | None = field(default=None, init=False)


@dataclass(slots=True, eq=False)
class Copy(Node):
    """An expression used in a second place. Both places are evaluated; checks and plans are made once."""

    original: Node


@dataclass(slots=True, eq=False)
class Comprehension(Node):
    """The expansion of macros: a loop, or with an empty range the binding of a variable."""

    iter_range: Node
    iter_var: str
    iter_var2: str
    accu_var: str
    accu_init: Node
    condition: Node
    step: Node
    result: Node

    @property
    def is_binding(self) -> bool:
        """Whether this only binds a variable, as `cel.bind` does."""
        return (
            isinstance(self.iter_range, ListNode)
            and not self.iter_range.elements
            and isinstance(self.condition, Literal)
            and self.condition.value is False
        )


def qualified_name(node: Node) -> str | None:
    """Return the dotted name of a chain of selections, or None."""
    if isinstance(node, Ident):
        return node.name
    if isinstance(node, Select) and not node.test:
        prefix = qualified_name(node.operand)
        return None if prefix is None else f"{prefix}.{node.name}"
    return None


def children(node: Node) -> list[Node]:
    """Return the direct sub-expressions of a node."""
    match node:
        case Select():
            return [node.operand]
        case Call():
            return node.args if node.target is None else [node.target, *node.args]
        case ListNode():
            return node.elements
        case MapNode():
            return [part for entry in node.entries for part in (entry.key, entry.value)]
        case StructNode():
            return [entry.value for entry in node.entries]
        case Comprehension():
            return [node.iter_range, node.accu_init, node.condition, node.step, node.result]
        case _:
            return []
