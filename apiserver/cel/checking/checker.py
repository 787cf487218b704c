"""Check types: give every node its type and every call its candidate overloads, or report the errors.

After an error the check continues with the error type, which matches everything, so that one run reports all errors.
Names and functions come from a `Scope`. The result is written into the nodes.

Source of facts: the CEL language definition (gradual typing, overload resolution) and recorded checker messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from apiserver.cel.language import types as t
from apiserver.cel.language.ast import (
    Call,
    Comprehension,
    Copy,
    Entry,
    Ident,
    ListNode,
    Literal,
    MapNode,
    Node,
    Select,
    StructNode,
    children,
    qualified_name,
)
from apiserver.cel.language.declarations import Function, Overload
from apiserver.cel.language.messages import Messages, well_known
from apiserver.cel.language.source import MAX_ISSUES, Issues
from apiserver.cel.language.stack import OFTEN, has_room, run_on_new_stack
from apiserver.cel.language.types import Substitutions, Type
from apiserver.cel.language.values import CelType, Uint
from apiserver.cel.syntax.lexer import RESERVED

_LITERAL_TYPES: Final[dict[type, Type]] = {
    bool: t.BOOL, int: t.INT, float: t.DOUBLE, str: t.STRING, bytes: t.BYTES, Uint: t.UINT, type(None): t.NULL,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Scope:
    """Names available to an expression: variables, types, functions, struct fields and constructible messages."""

    variables: Mapping[str, Type]
    type_names: Mapping[str, Type]
    functions: Mapping[str, Function]
    structs: Mapping[str, Mapping[str, Type]]
    messages: Messages = well_known


class Checker:
    """One check of one tree."""

    __slots__ = ("_fresh", "_issues", "_level", "_locals", "_scope", "_spans", "_subs")

    def __init__(self, scope: Scope, issues: Issues) -> None:
        self._scope, self._issues = scope, issues
        self._subs = Substitutions()
        self._locals: list[dict[str, Type]] = []
        self._fresh = self._level = 0
        # Issues reported for the targets of calls, as a range of the list.
        self._spans: dict[Node, tuple[int, int]] = {}

    def check(self, root: Node) -> None:
        """Check the tree. Afterwards no type in it has open parameters."""
        self._check(root)
        if not self._issues:
            self._resolve_types(root)

    def _resolve_types(self, root: Node) -> None:
        """Replace type parameters in the tree by their types; open ones become dyn."""
        pending: list[Node] = [root]
        while pending:
            node = pending.pop()
            node.type = self._subs.resolve(node.type, open_as_dyn=True)
            pending.extend(children(node))

    def _report(self, node: Node, message: str) -> None:
        self._issues.report(node.pos, message)

    def _undeclared(self, node: Node, name: str) -> None:
        self._report(node, f"undeclared reference to '{name}' (in container '')")

    def _check(self, node: Node) -> None:
        level = self._level = self._level + 1
        if level & OFTEN or has_room():
            self._visit(node)
        else:
            run_on_new_stack(self._visit, node)
        self._level = level - 1

    def _visit(self, node: Node) -> None:
        match node:
            case Literal():
                node.type = _LITERAL_TYPES[node.value.__class__]
            case Ident():
                self._ident(node)
            case Select():
                self._select(node)
            case Call():
                self._call(node)
            case ListNode():
                self._list(node)
            case MapNode():
                self._map(node)
            case Comprehension():
                self._comprehension(node)
            case StructNode():
                self._struct(node)
            case Copy():
                self._copy(node)

    def _copy(self, node: Copy) -> None:
        """Copy the type of the original, and its issues: they are reported at both places."""
        node.type = node.original.type
        first, last = self._spans.get(node.original, (0, 0))
        if len(self._issues.problems) <= MAX_ISSUES:
            self._issues.problems.extend(self._issues.problems[first:last])

    def _target(self, node: Node) -> None:
        """Check the target of a call and record its issues, in case it is copied."""
        first = len(self._issues.problems)
        self._check(node)
        self._spans[node] = (first, len(self._issues.problems))

    def _lookup(self, name: str) -> tuple[Type, Any] | None:
        """Return the type of a name, and its value if it is the name of a type."""
        if name.startswith("."):
            name = name[1:]
        else:
            for scope in reversed(self._locals):
                if name in scope:
                    return scope[name], None
        variable = self._scope.variables.get(name)
        if variable is not None:
            return variable, None
        named = self._scope.type_names.get(name)
        if named is None:
            message = self._scope.messages(name)
            if message is None:
                return None
            named = message.type
        return t.type_of(named), CelType(named.name)

    def _ident(self, node: Ident) -> None:
        found = self._lookup(node.name)
        if found is None:
            self._undeclared(node, node.name)
            node.type = t.ERROR
        else:
            node.type, node.constant = found
            node.name = node.name.removeprefix(".")

    def _select(self, node: Select) -> None:
        name = None if node.test else qualified_name(node)
        if name is not None and "." in name:
            found = self._lookup(name)
            if found is not None:
                node.type, node.constant = found
                node.variable = "" if node.constant is not None else name.removeprefix(".")
                return
        self._check(node.operand)
        node.name = self._declared_name(node.operand, node.name)
        result = self._field(node, node.operand, node.name, optional=False)
        node.type = t.BOOL if node.test else self._subs.resolve(result)

    def _declared_name(self, operand: Node, name: str) -> str:
        """Return a field's name as its type declares it.

        A field named by a reserved word, such as `namespace`, may be written unescaped although types declare
        `__namespace__`.
        """
        target, _ = t.unwrap_optional(self._subs.resolve(operand.type))
        fields = self._scope.structs.get(target.name, {}) if target.kind == "struct" else {}
        escaped = f"__{name}__"
        return escaped if name in RESERVED and name not in fields and escaped in fields else name

    def _field(self, node: Node, operand: Node, name: str, *, optional: bool) -> Type:
        target, was_optional = t.unwrap_optional(self._subs.resolve(operand.type))
        result = t.ERROR
        if target.kind == "map":
            result = target.params[1]
        elif target.kind == "struct":
            fields = self._scope.structs.get(target.name)
            message = self._scope.messages(target.name) if fields is None else None
            known = fields.get(name) if fields is not None else None if message is None else message.field(name)
            if known is not None:
                result = known
            elif fields is None and message is None:
                self._report(node, f"unexpected failed resolution of '{target.name}'")
            else:
                self._report(node, f"undefined field '{name}'")
        elif target.kind == "param":
            self._subs.assignable(t.DYN, target)
            result = t.DYN
        else:
            if target.kind != "error" and not t.is_dynamic(target):
                self._report(node, f"type '{target.format()}' does not support field selection")
            result = t.DYN
        return t.optional_of(result) if optional or was_optional else result

    def _call(self, node: Call) -> None:
        if node.function == "_?._":
            name = node.args[1]
            assert isinstance(name, Literal)
            name.type = t.STRING
            self._check(node.args[0])
            name.value = self._declared_name(node.args[0], name.value)
            node.type = self._subs.resolve(self._field(node, node.args[0], name.value, optional=True))
            node.overloads = ("select_optional_field",)
            return
        for arg in node.args:
            self._check(arg)
        functions = self._scope.functions
        if node.target is None:
            found = functions.get(node.function.removeprefix("."))
        else:
            prefix = qualified_name(node.target)
            found = None if prefix is None else functions.get(f"{prefix}.{node.function}".removeprefix("."))
            if found is not None:
                node.target = None
            else:
                self._target(node.target)
                found = functions.get(node.function)
        if found is None:
            self._undeclared(node, node.function)
            node.type = t.ERROR
            return
        node.function = found.name
        self._resolve(node, found)

    def _resolve(self, node: Call, declared: Function) -> None:
        """Choose the matching overloads. The result type is theirs, or dyn if they differ."""
        nodes = node.args if node.target is None else [node.target, *node.args]
        if declared.name == "_&&_" or declared.name == "_||_":
            self._logical(node, declared)
            return
        arg_types = [arg.type for arg in nodes]
        chosen: list[str] = []
        result: Type | None = None
        member = node.target is not None
        for candidate in declared.overloads:
            if candidate.member is not member or len(candidate.args) != len(arg_types):
                continue
            args, outcome = self._instantiate(candidate)
            if self._subs.all_assignable(arg_types, args):
                chosen.append(candidate.id)
                outcome = self._subs.resolve(outcome)
                if result is None:
                    result = outcome
                elif not t.is_dynamic(result) and outcome != result:
                    result = t.DYN
        if result is None:
            shown = [self._subs.resolve(type_, open_as_dyn=True).format() for type_ in arg_types]
            signature = f"{shown[0]}.({', '.join(shown[1:])})" if member else f"({', '.join(shown)})"
            self._report(node, f"found no matching overload for '{declared.name}' applied to '{signature}'")
            node.type = t.ERROR
            return
        node.type = result
        node.overloads = tuple(chosen)

    def _logical(self, node: Call, declared: Function) -> None:
        wrong = False
        for arg in node.args:
            if not self._subs.assignable(arg.type, t.BOOL):
                self._mismatch(arg, t.BOOL, arg.type)
                wrong = True
        node.type = t.ERROR if wrong else t.BOOL
        node.overloads = (declared.overloads[0].id,)

    def _instantiate(self, candidate: Overload) -> tuple[list[Type], Type]:
        """Return the signature with fresh parameters."""
        if not candidate.generic:
            return list(candidate.args), candidate.result
        fresh = Substitutions()
        for name in candidate.generic:
            fresh.bound[name] = self._fresh_param()
        return [fresh.resolve(arg) for arg in candidate.args], fresh.resolve(candidate.result)

    def _fresh_param(self) -> Type:
        self._fresh += 1
        return t.param(f"_var{self._fresh}")

    def _mismatch(self, node: Node, want: Type, got: Type) -> None:
        self._report(node, f"expected type '{want.format()}' but found '{got.format()}'")

    def _join_types(self, node: Node, previous: Type | None, current: Type) -> Type:
        """Return the common type of the previous elements and one more.

        Literals of several types are refused later, except as arguments of `format`.
        """
        if previous is None:
            return current
        if self._subs.assignable(previous, current):
            return t.most_general(previous, current)
        return t.DYN

    def _unwrap_element(self, node: Node) -> Type:
        """Return the value type of an element written with `?`."""
        value, is_optional = t.unwrap_optional(node.type)
        if not is_optional and not t.is_dynamic(value):
            self._mismatch(node, t.optional_of(value), value)
        return value

    def _list(self, node: ListNode) -> None:
        element: Type | None = None
        for index, item in enumerate(node.elements):
            self._check(item)
            element = self._join_types(
                item, element, self._unwrap_element(item) if index in node.optional else item.type
            )
        node.type = t.list_of(element or self._fresh_param())

    def _map(self, node: MapNode) -> None:
        key_type: Type | None = None
        value_type: Type | None = None
        for entry in node.entries:
            self._check(entry.key)
            key_type = self._join_types(entry.key, key_type, entry.key.type)
            self._check(entry.value)
            value = self._unwrap_element(entry.value) if entry.optional else entry.value.type
            value_type = self._join_types(entry.value, value_type, value)
        node.type = t.map_of(key_type or self._fresh_param(), value_type or self._fresh_param())

    def _struct(self, node: StructNode) -> None:
        found = self._lookup(node.name)
        if found is None:
            self._undeclared(node, node.name)
            return
        if found[1] is None:
            self._report(node, f"'{found[0].name}' is not a type")
        else:
            node.message = self._scope.messages(node.name.removeprefix("."))
            if node.message is None:
                self._report(node, f"'{found[1].name}' is not a message type")
            else:
                node.type = node.message.type
        for entry in node.entries:
            self._initializer(node, entry)

    def _initializer(self, node: StructNode, entry: Entry) -> None:
        """Check a field of a message literal."""
        self._check(entry.value)
        wanted = t.ERROR
        if node.message is not None:
            known = node.message.field(entry.key)
            if known is None:
                self._issues.report(entry.pos, f"undefined field '{entry.key}'")
            else:
                wanted = known
        given = self._unwrap_element(entry.value) if entry.optional else entry.value.type
        if not self._subs.assignable(wanted, given):
            self._issues.report(
                entry.pos,
                f"expected type of field '{entry.key}' is '{wanted.format()}' but provided type is '{given.format()}'",
            )

    def _comprehension(self, node: Comprehension) -> None:
        self._check(node.iter_range)
        self._check(node.accu_init)
        range_type = self._subs.resolve(node.iter_range.type)
        accu_type = node.accu_init.type
        self._locals.append({node.accu_var: accu_type})
        first, second = self._iteration_types(node, range_type)
        self._locals.append({node.iter_var: first})
        if node.iter_var2:
            self._locals[-1][node.iter_var2] = second
        self._check(node.condition)
        self._assert(node.condition, t.BOOL)
        self._check(node.step)
        self._assert(node.step, accu_type)
        self._locals.pop()
        self._check(node.result)
        self._locals.pop()
        node.type = self._subs.resolve(node.result.type)

    def _iteration_types(self, node: Comprehension, range_type: Type) -> tuple[Type, Type]:
        if range_type.kind == "list":
            element = range_type.params[0]
            return (t.INT, element) if node.iter_var2 else (element, element)
        if range_type.kind == "map":
            return range_type.params[0], range_type.params[1]
        if range_type.kind in ("dyn", "error", "param"):
            self._subs.assignable(t.DYN, range_type)
            return t.DYN, t.DYN
        self._report(
            node.iter_range,
            f"expression of type '{range_type.format()}' cannot be range of a comprehension "
            "(must be list, map, or dynamic)",
        )
        return t.ERROR, t.ERROR

    def _assert(self, node: Node, want: Type) -> None:
        if not self._subs.assignable(want, node.type):
            self._mismatch(node, want, node.type)
