"""Estimate the worst-case cost of an expression from its tree and the declared bounds of its variables.

Costs are counts of abstract units; sizes are ranges (characters, elements, entries). Everything saturates at 2^64-1,
which also means "unknown". Only the upper end of a cost is kept, because only that is compared with a limit.

The rules are a contract: an expression that one server accepts must be accepted by another. They are therefore those
of the reference implementation, including the odd ones. Source of facts: recorded estimates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from apiserver.cel.language.ast import (
    Call,
    Comprehension,
    Copy,
    Ident,
    ListNode,
    Literal,
    MapNode,
    Node,
    Select,
    StructNode,
)
from apiserver.cel.language.stack import OFTEN, has_room, run_on_new_stack
from apiserver.cel.language.types import Type
from apiserver.cel.syntax.macros import ACCUMULATOR

UNKNOWN: Final = (1 << 64) - 1
LIST_COST: Final = 10
MAP_COST: Final = 30
STRUCT_COST: Final = 40
STRING_FACTOR: Final = 0.1
REGEX_FACTOR: Final = 0.25

Size = tuple[int, int]
Path = tuple[str, ...]
UNKNOWN_SIZE: Final[Size] = (0, UNKNOWN)


def plus(left: int, right: int) -> int:
    """Return a saturating sum."""
    return min(left + right, UNKNOWN)


def times(left: int, right: int) -> int:
    """Return a saturating product."""
    return min(left * right, UNKNOWN)


def scale(count: int, factor: float) -> int:
    """Multiply a count by a fraction and round up."""
    value = float(count)
    if value > 0 and factor > 0 and value > float(UNKNOWN) / factor:
        return UNKNOWN
    product = math.ceil(value * factor)
    return UNKNOWN if product >= 1 << 64 else product


def union(left: Size, right: Size) -> Size:
    """Return the range that covers both."""
    return min(left[0], right[0]), max(left[1], right[1])


@dataclass(frozen=True, slots=True)
class Bounds:
    """The greatest size of a variable and of everything reachable from it.

    `named`: elements selected by name have the bounds of `element`.
    """

    most: int = 0
    fields: Mapping[str, Bounds] = field(default_factory=dict)
    key: Bounds | None = None
    element: Bounds | None = None
    named: bool = False


@dataclass(frozen=True, slots=True)
class Entries:
    """The sizes of the keys and values (or indices and elements) of a collection."""

    is_list: bool
    key: Size
    value: Size


@dataclass(frozen=True, slots=True)
class Operand:
    """Facts about an argument for cost rules; `size` is the size known from the expression itself, if any."""

    node: Node | None
    type: Type
    path: Path | None
    size: Size | None


@dataclass(frozen=True, slots=True)
class _Local:
    path: Path
    size: Size | None
    entries: Entries | None


class Estimator:
    """One estimate of one checked tree."""

    def __init__(self, bounds: Mapping[str, Bounds]) -> None:
        self._bounds, self._level = bounds, 0
        self._paths: dict[int, Path] = {}
        # Costs of the targets of calls, for their copies.
        self._costs: dict[int, int] = {}
        self._sizes: dict[int, Size] = {}
        self._entries: dict[int, Entries] = {}
        self._locals: dict[str, list[_Local]] = {}

    def cost(self, node: Node) -> int:
        """Return the greatest cost of evaluating a node."""
        level = self._level = self._level + 1
        found = self._cost(node) if level & OFTEN or has_room() else run_on_new_stack(self._cost, node)
        self._level = level - 1
        return found

    def _cost(self, node: Node) -> int:
        match node:
            case Ident():
                local = self._local(node.name)
                self._paths[id(node)] = (node.name,) if local is None else local.path
                return 1
            case Select():
                return self._select(node)
            case Call():
                return self._call(node)
            case ListNode():
                return self._list(node)
            case MapNode():
                return self._map(node)
            case Comprehension():
                return self._binding(node) if node.is_binding else self._loop(node)
            case Copy():
                self._copy_sizes(node, node.original)
                self._paths[id(node)] = self._path(node.original)
                return self._costs.get(id(node.original), 0)
            case StructNode():
                return plus(STRUCT_COST, min(sum(self.cost(entry.value) for entry in node.entries), UNKNOWN))
            case _:
                return 0

    # Sizes

    def size_of(self, operand: Operand) -> Size:
        """Return the size of an argument, or the unknown size."""
        return operand.size or self.declared_size(operand.path) or UNKNOWN_SIZE

    def element_of(self, operand: Operand) -> Operand | None:
        """Return an element of a list argument (a key of a map), or None without elements."""
        if not operand.type.params:
            return None
        path = None if operand.path is None else (*operand.path, "@items")
        return Operand(None, operand.type.params[0], path, None)

    def declared_size(self, path: Path | None) -> Size | None:
        """Return the declared bounds at a path."""
        bounds = self._bounds.get(path[0]) if path else None
        if bounds is None or path is None:
            return None
        for name in path[1:]:
            if name in ("@items", "@values"):
                following = bounds.element
            elif name == "@keys":
                following = bounds.key
            else:
                following = bounds.fields.get(name) or (bounds.element if bounds.named else None)
            if following is None:
                return None
            bounds = following
        return 0, bounds.most

    def _local(self, name: str) -> _Local | None:
        stack = self._locals.get(name)
        return stack[-1] if stack else None

    def _path(self, node: Node) -> Path:
        if isinstance(node, Ident):
            local = self._local(node.name)
            if local is not None:
                return local.path
        return self._paths.get(id(node), ())

    def size(self, node: Node) -> Size | None:
        """Return the size of a node as far as known."""
        known = self._sizes.get(id(node)) or _literal_size(node)
        if known is not None:
            return known
        known = self.declared_size(self._path(node))
        if known is not None:
            self._sizes[id(node)] = known
            return known
        if _is_scalar(node.type):
            return 1, 1
        local = self._local(node.name) if isinstance(node, Ident) else None
        return None if local is None else local.size

    def entries(self, node: Node) -> Entries | None:
        """Return the sizes of a collection's entries as far as known."""
        known = self._entries.get(id(node))
        if known is None and isinstance(node, Ident):
            local = self._local(node.name)
            return None if local is None else local.entries
        return known

    def set_entries(self, node: Node, entries: Entries | None) -> None:
        """Record the sizes of a result's entries."""
        if entries is not None:
            self._entries[id(node)] = entries

    def operand(self, node: Node) -> Operand:
        """Return the facts about a node for cost rules."""
        path: Path | None = self._path(node) or None
        if path is not None and path[0] == ACCUMULATOR:
            path = None
        return Operand(node, node.type, path, self.size(node))

    # Costs

    def _select(self, node: Select) -> int:
        if node.variable or node.constant is not None:
            # A dotted name is one name, as that of a type without dots is.
            self._paths[id(node)] = (node.variable or node.name,)
            return 1
        cost = self.cost(node.operand)
        if node.test:
            return cost
        if node.operand.type.kind in ("map", "struct", "param"):
            cost = plus(cost, 1)
        self._paths[id(node)] = (*self._path(node.operand), node.name)
        return cost

    def _call(self, node: Call) -> int:
        from apiserver.cel.cost.rules import estimate_call

        if node.function == "dyn":
            cost = plus(1, self.cost(node.args[0]))
            self._copy_sizes(node, node.args[0])
            return cost
        arg_costs, args = [], []
        for arg in node.args:
            arg_costs.append(self.cost(arg))
            args.append(self.operand(arg))
        total = 0
        target = None
        if node.target is not None:
            total = self._costs[id(node.target)] = self.cost(node.target)
            target = self.operand(node.target)
        worst = 0
        result: Size | None = None
        for overload in node.overloads:
            cost, size = estimate_call(self, node, overload, target, args, arg_costs)
            worst = max(worst, cost)
            if size is not None:
                result = size if result is None else union(result, size)
            if overload in ("index_list", "index_map") and node.args:
                entries = self.entries(node.args[0])
                result = None if entries is None else entries.value
                step = "@items" if overload == "index_list" else "@values"
                self._paths[id(node)] = (*self._path(node.args[0]), step)
            if result is None:
                result = self.size(node)
        if result is not None:
            self._sizes[id(node)] = result
        return plus(total, worst)

    def _list(self, node: ListNode) -> int:
        cost = 0
        low, high = (UNKNOWN, 0) if node.elements else (0, 0)
        for element in node.elements:
            cost = plus(cost, self.cost(element))
            low, high = union((low, high), self.size(element) or UNKNOWN_SIZE)
        self._entries[id(node)] = Entries(True, (1, 1), (low, high))
        return plus(cost, LIST_COST)

    def _map(self, node: MapNode) -> int:
        cost = 0
        keys: Size = (UNKNOWN, 0) if node.entries else (0, 0)
        values = keys
        for entry in node.entries:
            cost = plus(plus(cost, self.cost(entry.key)), self.cost(entry.value))
            keys = union(keys, self.size(entry.key) or UNKNOWN_SIZE)
            values = union(values, self.size(entry.value) or UNKNOWN_SIZE)
        self._entries[id(node)] = Entries(False, keys, values)
        return plus(cost, MAP_COST)

    def _push(self, name: str, path: Path, size: Size | None, entries: Entries | None = None) -> None:
        self._locals.setdefault(name, []).append(_Local(path, size, entries))

    def _push_iteration(self, node: Comprehension) -> None:
        source = node.iter_range
        entries = self.entries(source)
        is_list = entries.is_list if entries is not None else source.type.kind == "list"
        path = self._path(source)
        key = None if entries is None else entries.key
        value = None if entries is None else entries.value
        if node.iter_var2:
            self._push(node.iter_var, (*path, "@indices" if is_list else "@keys"), key)
            self._push(node.iter_var2, (*path, "@items" if is_list else "@values"), value)
        elif is_list:
            self._push(node.iter_var, (*path, "@items"), value)
        else:
            self._push(node.iter_var, (*path, "@keys"), key)

    def _loop(self, node: Comprehension) -> int:
        cost = plus(self.cost(node.iter_range), self.cost(node.accu_init))
        init = node.accu_init
        self._push(node.accu_var, self._path(init), self.size(init), self.entries(init))
        self._push_iteration(node)
        iteration = plus(self.cost(node.condition), self.cost(node.step))
        self._locals[node.iter_var].pop()
        if node.iter_var2:
            self._locals[node.iter_var2].pop()
        cost = plus(cost, self.cost(node.result))
        self._locals[node.accu_var].pop()
        count = self.size(node.iter_range) or UNKNOWN_SIZE
        if isinstance(init, Literal):
            size = self.size(init)
            if size is not None:
                self._sizes[id(node)] = size
        elif isinstance(init, ListNode | MapNode):
            self._sizes[id(node)] = count
            self.set_entries(node, self.entries(node.step))
        return plus(cost, times(count[1], iteration))

    def _binding(self, node: Comprehension) -> int:
        cost = plus(self.cost(node.iter_range), self.cost(node.accu_init))
        init = node.accu_init
        self._push(node.accu_var, self._path(init), self.size(init), self.entries(init))
        cost = plus(cost, self.cost(node.result))
        self._locals[node.accu_var].pop()
        self._copy_sizes(node, node.result)
        return cost

    def _copy_sizes(self, node: Node, source: Node) -> None:
        size = self.size(source)
        if size is not None:
            self._sizes[id(node)] = size
        self.set_entries(node, self.entries(source))


def _literal_size(node: Node) -> Size | None:
    match node:
        case Literal(value=value):
            count = len(value) if isinstance(value, str | bytes) else 1
        case ListNode():
            count = len(node.elements)
        case MapNode():
            count = len(node.entries)
        case _:
            return None
    return count, count


_SCALARS: Final = frozenset({"bool", "double", "duration", "int", "timestamp", "uint"})


def _is_scalar(type_: Type) -> bool:
    if type_.kind in _SCALARS:
        return True
    return type_.kind == "opaque" and type_.name == "optional_type" and _is_scalar(type_.params[0])
