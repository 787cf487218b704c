"""Macros: calls that the parser replaces by comprehensions and presence tests.

Every node of an expansion has the position of the call. A macro may decline (None), which leaves an ordinary call, or
raise MacroProblem at one of its arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from apiserver.cel.language.ast import Call, Comprehension, Copy, Ident, ListNode, Literal, MapNode, Node, Select

ACCUMULATOR: Final = "@result"
_OLD_ACCUMULATOR: Final = "__result__"
UNUSED: Final = "#unused"
SORT_INPUT: Final = "@__sortBy_input__"


class MacroProblem(Exception):
    """The arguments do not match the macro."""

    def __init__(self, node: Node, message: str) -> None:
        super().__init__(message)
        self.pos = node.pos


# Position of the call, its target, its arguments.
Expansion = Callable[[int, Node, list[Node]], "Node | None"]


class Macros:
    """The macros of an environment, by name, number of arguments and call style."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[tuple[str, int, bool], Expansion] = {}

    def add(self, name: str, arity: int, expansion: Expansion, *, member: bool = True) -> None:
        """Register a macro."""
        self._known[name, arity, member] = expansion

    def expand(self, pos: int, name: str, target: Node | None, args: list[Node]) -> Node | None:
        """Return the expansion of a call, or None if it is an ordinary call."""
        expansion = self._known.get((name, len(args), target is not None))
        return None if expansion is None else expansion(pos, target or args[0], args)


def add_standard(macros: Macros) -> None:
    """Register has, all, exists, exists_one, map, filter."""
    macros.add("has", 1, _has, member=False)
    macros.add("all", 2, _quantifier(_all_parts, 1))
    macros.add("exists", 2, _quantifier(_exists_parts, 1))
    macros.add("exists_one", 2, _quantifier(_exists_one_parts, 1))
    macros.add("existsOne", 2, _quantifier(_exists_one_parts, 1))
    macros.add("map", 2, _map)
    macros.add("map", 3, _map)
    macros.add("filter", 2, _filter)


def add_two_variables(macros: Macros) -> None:
    """Register the forms with index (or key) and value, and the transformations."""
    macros.add("all", 3, _quantifier(_all_parts, 2))
    macros.add("exists", 3, _quantifier(_exists_parts, 2))
    macros.add("exists_one", 3, _quantifier(_exists_one_parts, 2))
    macros.add("existsOne", 3, _quantifier(_exists_one_parts, 2))
    for arity in (3, 4):
        macros.add("transformList", arity, _transform_list)
        macros.add("transformMap", arity, _transform_map)
        macros.add("transformMapEntry", arity, _transform_map_entry)


def add_optionals(macros: Macros) -> None:
    """Register optMap and optFlatMap."""
    macros.add("optMap", 2, _opt_map)
    macros.add("optFlatMap", 2, _opt_flat_map)


def add_bindings(macros: Macros) -> None:
    """Register cel.bind."""
    macros.add("bind", 3, _bind)


def add_sort_by(macros: Macros) -> None:
    """Register sortBy."""
    macros.add("sortBy", 2, _sort_by)


def all_macros() -> Macros:
    """Return the macros of the newest environment."""
    macros = Macros()
    for add in (add_standard, add_two_variables, add_optionals, add_bindings, add_sort_by):
        add(macros)
    return macros


def _accu(pos: int) -> Node:
    return Ident(pos, ACCUMULATOR)


def _call(pos: int, function: str, *args: Node) -> Call:
    return Call(pos, function, None, list(args))


def _variable(node: Node, message: str) -> str:
    if not isinstance(node, Ident):
        raise MacroProblem(node, message)
    if node.name in (ACCUMULATOR, _OLD_ACCUMULATOR):
        raise MacroProblem(node, "iteration variable overwrites accumulator variable")
    return node.name


def _variables(args: list[Node], count: int) -> tuple[str, str]:
    if count == 1:
        return _variable(args[0], "argument must be a simple name"), ""
    names = []
    for arg in args[:2]:
        if not isinstance(arg, Ident):
            raise MacroProblem(arg, "argument must be a simple name")
        names.append(arg.name)
    if names[0] == names[1]:
        raise MacroProblem(args[1], f"duplicate variable name: {names[0]}")
    for arg in args[:2]:
        _variable(arg, "argument must be a simple name")
    return names[0], names[1]


# Initial value, condition, step and result of a loop over a predicate.
_Parts = tuple[Node, Node, Node, Node]


def _all_parts(pos: int, body: Node) -> _Parts:
    return (
        Literal(pos, True),
        _call(pos, "@not_strictly_false", _accu(pos)),
        _call(pos, "_&&_", _accu(pos), body),
        _accu(pos),
    )


def _exists_parts(pos: int, body: Node) -> _Parts:
    return (
        Literal(pos, False),
        _call(pos, "@not_strictly_false", _call(pos, "!_", _accu(pos))),
        _call(pos, "_||_", _accu(pos), body),
        _accu(pos),
    )


def _exists_one_parts(pos: int, body: Node) -> _Parts:
    count = _call(pos, "_+_", _accu(pos), Literal(pos, 1))
    return (
        Literal(pos, 0),
        Literal(pos, True),
        _call(pos, "_?_:_", body, count, _accu(pos)),
        _call(pos, "_==_", _accu(pos), Literal(pos, 1)),
    )


def _quantifier(parts: Callable[[int, Node], _Parts], count: int) -> Expansion:
    def expand(pos: int, target: Node, args: list[Node]) -> Node:
        first, second = _variables(args, count)
        init, condition, step, result = parts(pos, args[count])
        return Comprehension(pos, target, first, second, ACCUMULATOR, init, condition, step, result)

    return expand


def _has(pos: int, _target: Node, args: list[Node]) -> Node:
    selected = args[0]
    if not isinstance(selected, Select) or selected.test:
        raise MacroProblem(selected, "invalid argument to has() macro")
    return Select(pos, selected.operand, selected.name, test=True)


def _collect(pos: int, target: Node, names: tuple[str, str], init: Node, step: Node, filtered: Node | None) -> Node:
    """Build a loop that collects a list or map and omits elements that the filter rejects."""
    if filtered is not None:
        step = _call(pos, "_?_:_", filtered, step, _accu(pos))
    return Comprehension(pos, target, *names, ACCUMULATOR, init, Literal(pos, True), step, _accu(pos))


def _map(pos: int, target: Node, args: list[Node]) -> Node:
    name = _variable(args[0], "argument is not an identifier")
    step = _call(pos, "_+_", _accu(pos), ListNode(pos, [args[-1]]))
    return _collect(pos, target, (name, ""), ListNode(pos, []), step, args[1] if len(args) == 3 else None)


def _filter(pos: int, target: Node, args: list[Node]) -> Node:
    name = _variable(args[0], "argument is not an identifier")
    step = _call(pos, "_+_", _accu(pos), ListNode(pos, [args[0]]))
    return _collect(pos, target, (name, ""), ListNode(pos, []), step, args[1])


def _transform_list(pos: int, target: Node, args: list[Node]) -> Node:
    names = _variables(args, 2)
    step = _call(pos, "_+_", _accu(pos), ListNode(pos, [args[-1]]))
    return _collect(pos, target, names, ListNode(pos, []), step, args[2] if len(args) == 4 else None)


def _transform_map(pos: int, target: Node, args: list[Node]) -> Node:
    names = _variables(args, 2)
    step = _call(pos, "cel.@mapInsert", _accu(pos), Ident(pos, names[0]), args[-1])
    return _collect(pos, target, names, MapNode(pos, []), step, args[2] if len(args) == 4 else None)


def _transform_map_entry(pos: int, target: Node, args: list[Node]) -> Node:
    names = _variables(args, 2)
    step = _call(pos, "cel.@mapInsert", _accu(pos), args[-1])
    return _collect(pos, target, names, MapNode(pos, []), step, args[2] if len(args) == 4 else None)


def _binding(pos: int, name: str, value: Node, result: Node) -> Node:
    """Build a loop over an empty range; its accumulator is the bound variable."""
    return Comprehension(pos, ListNode(pos, []), UNUSED, "", name, value, Literal(pos, False), Ident(pos, name), result)


def _bind(pos: int, target: Node, args: list[Node]) -> Node | None:
    if not isinstance(target, Ident) or target.name != "cel":
        return None
    if not isinstance(args[0], Ident):
        raise MacroProblem(args[0], "cel.bind() variable names must be simple identifiers")
    return _binding(pos, args[0].name, args[1], args[2])


def _opt_value(pos: int, target: Node, args: list[Node], macro: str) -> Node:
    if not isinstance(args[0], Ident):
        raise MacroProblem(args[0], f"{macro}() variable name must be a simple identifier")
    return _binding(pos, args[0].name, Call(pos, "value", Copy(target.pos, target), []), args[1])


def _if_present(pos: int, target: Node, then: Node) -> Node:
    return _call(pos, "_?_:_", Call(pos, "hasValue", target, []), then, _call(pos, "optional.none"))


def _opt_map(pos: int, target: Node, args: list[Node]) -> Node:
    return _if_present(pos, target, _call(pos, "optional.of", _opt_value(pos, target, args, "optMap")))


def _opt_flat_map(pos: int, target: Node, args: list[Node]) -> Node:
    return _if_present(pos, target, _opt_value(pos, target, args, "optFlatMap"))


def _sort_by(pos: int, target: Node, args: list[Node]) -> Node:
    if not isinstance(target, ListNode | Select | Ident | Comprehension | Call):
        raise MacroProblem(
            target, "sortBy can only be applied to a list, identifier, comprehension, call or select expression"
        )
    keys = _map(pos, Ident(pos, SORT_INPUT), args)
    ordered = Call(pos, "@sortByAssociatedKeys", Ident(pos, SORT_INPUT), [keys])
    return _binding(pos, SORT_INPUT, target, ordered)
