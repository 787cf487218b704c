"""Compile expressions: parse, check, validate, estimate, plan.

`apiserver.cel` imports this module, and with it the whole engine, when the first expression is compiled.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any, Final

from apiserver.cel.checking.checker import Checker, Scope
from apiserver.cel.cost.estimate import Bounds, Estimator
from apiserver.cel.errors import LIMIT_EXCEEDED, EvaluationError
from apiserver.cel.evaluation.attributes import Code, Frame
from apiserver.cel.evaluation.planner import PlanError, Planner
from apiserver.cel.evaluation.plans import code_of
from apiserver.cel.language.ast import Call, ListNode, Literal, MapNode, Node, children
from apiserver.cel.language.declarations import Function, merge
from apiserver.cel.language.messages import Messages, well_known
from apiserver.cel.language.source import NOWHERE, TOO_DEEP, IssueReported, Issues
from apiserver.cel.language.stack import has_room, run_on_new_stack
from apiserver.cel.language.time_limit import SLICE, Interrupted, Meter, running
from apiserver.cel.language.types import Type, opaque, optional_of, param, unwrap_optional
from apiserver.cel.language.values import CelError, CostExceeded, InternalFailure, type_name
from apiserver.cel.library import (
    addresses,
    authorization,
    conversions,
    formatting,
    kubernetes,
    lists,
    operators,
    optionals,
    standard,
    strings,
    urls,
)
from apiserver.cel.regex.regex import compile_pattern
from apiserver.cel.syntax import macros as m
from apiserver.cel.syntax.diagnosis import diagnose
from apiserver.cel.syntax.lexer import tokenize
from apiserver.cel.syntax.parser import ParseFailure, Parser

Release = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Language:
    """Everything available to an expression: the libraries of a release, variables with their types and bounds."""

    scope: Scope
    macros: m.Macros
    optional_syntax: bool
    validate_literals: bool
    bounds: Mapping[str, Bounds]


_NOT_BOOL: Final = {
    "null_type": "type conversion error from 'null_type' to 'bool'",
    "type": "type conversion not supported for 'type'",
    "string": "unsupported native conversion from string to 'bool'",
    "int": "unsupported type conversion from 'int' to bool",
    "uint": "unsupported type conversion from 'uint' to bool",
    "double": "type conversion error from Double to 'bool'",
    "bytes": "type conversion error from Bytes to 'bool'",
    "kubernetes.Semver": "type conversion error from 'Semver' to 'bool'",
    "kubernetes.Quantity": "type conversion error from 'Quantity' to 'bool'",
    "google.protobuf.Timestamp": "type conversion error from 'Timestamp' to 'bool'",
    "google.protobuf.Duration": "type conversion error from 'Duration' to 'bool'",
    "net.IP": "type conversion error from 'IP' to 'bool'",
    "net.CIDR": "type conversion error from 'CIDR' to 'bool'",
    "kubernetes.URL": "type conversion error from 'URL' to 'bool'",
    "kubernetes.NamedFormat": "type conversion error from 'Format' to 'bool'",
}


class CompileFailure(Exception):
    """An expression that does not compile; `internal` if the API reports it as an internal error."""

    def __init__(self, text: str, *, internal: bool = False) -> None:
        super().__init__(text)
        self.internal = internal


@dataclass(frozen=True, slots=True)
class Compiled:
    """A program and its static properties."""

    run: Code
    width: int
    output: Type
    max_cost: int

    def evaluate(self, variables: list[Any], limit: int, meter: Meter | None = None) -> tuple[Any, int]:
        """Return the value and its cost; raise EvaluationError if there is none.

        A meter may end the evaluation with its own exception. `limit` must then be the limit of the compilation.
        """
        frame: Frame = [0, *variables]
        # After the slots: the cost of earlier slices, and the meter.
        frame.extend([None] * (self.width + 2 - len(frame)))
        try:
            if meter is None:
                value = self.run(frame)
            else:
                frame[0], frame[-2], frame[-1] = limit - SLICE, 0, meter
                value = self._run_metered(frame, meter)
        except CelError as error:
            if (cost := _spent(frame, limit)) <= limit:
                raise EvaluationError(str(error), cost) from None
        except CostExceeded:
            pass
        except InternalFailure as error:
            raise EvaluationError(f"internal error: {error}", _spent(frame, limit)) from None
        except Interrupted:
            raise EvaluationError("operation interrupted", _spent(frame, limit)) from None
        except RecursionError:
            if has_room():
                raise
            return run_on_new_stack(self.evaluate, variables, limit, meter)
        else:
            cost = frame[0] if meter is None else _spent(frame, limit)
            if cost <= limit:
                return value, cost
        raise EvaluationError(LIMIT_EXCEEDED, limit + 1)

    def _run_metered(self, frame: Frame, meter: Meter) -> Any:
        """Run with the meter visible to long single steps."""
        before, running.meter = running.meter, meter
        try:
            return self.run(frame)
        finally:
            running.meter = before

    @staticmethod
    def not_bool(value: object, cost: int) -> EvaluationError:
        """Build the error for a result that is not a bool."""
        name = type_name(value)
        reason = _NOT_BOOL.get(name, f"type conversion error from {name} to 'bool'")
        return EvaluationError(f"CEL result of type {name} could not be converted to bool: {reason}", cost)


def _spent(frame: Frame, limit: int) -> int:
    """Return the cost of an evaluation so far."""
    cost: int = frame[0] if frame[-1] is None else frame[-2] + frame[0] - (limit - SLICE)
    return cost


def build_language(
    release: Release,
    variables: Mapping[str, Type],
    structs: Mapping[str, Mapping[str, Type]],
    bounds: Mapping[str, Bounds],
    extra: list[Function],
    messages: Messages = well_known,
    *,
    bindings: bool = False,
) -> Language:
    """Build the language of a release: its libraries, variables, further functions and constructible messages.

    `bindings` adds cel.bind. Expressions about devices have it; those of policies and schemas do not.
    """
    libraries = [
        operators.library(), conversions.library(), standard.library(), urls.library(), kubernetes.regex(),
        lists.kubernetes(), strings.library(), authorization.library(),
    ]  # fmt: skip
    names = dict(standard.TYPE_NAMES)
    macros = m.Macros()
    m.add_standard(macros)
    if release >= (1, 28):
        libraries += [optionals.library(), kubernetes.quantity()]
        names["optional_type"] = optional_of(param("T"))
        m.add_optionals(macros)
    if release >= (1, 29):
        libraries.append(lists.sets())
    if release >= (1, 30):
        libraries += [addresses.ips(), addresses.cidrs()]
        names |= {"net.IP": opaque("net.IP"), "net.CIDR": opaque("net.CIDR")}
    if release >= (1, 31):
        libraries += [kubernetes.formats(), authorization.selectors()]
        if bindings:
            m.add_bindings(macros)
    if release >= (1, 32):
        libraries.append(kubernetes.map_insertion())
        m.add_two_variables(macros)
    if release >= (1, 33):
        libraries.append(kubernetes.semver())
    if release >= (1, 34):
        libraries.append(lists.extension())
        m.add_sort_by(macros)
    libraries.append(extra)
    functions = merge(libraries)
    scope = Scope(variables, names, functions, structs, messages)
    return Language(scope, macros, release >= (1, 28), release >= (1, 29), bounds)


def compile_expression(
    source: str, language: Language, accepted: Container[str], wanted: str, limit: int, instead: str = ", not"
) -> Compiled:
    """Compile an expression, or raise CompileFailure with the text for users. `accepted` are kinds of result types."""
    arguments = (source, language, accepted, wanted, limit, instead)
    try:
        return _compile(*arguments) if has_room() else run_on_new_stack(_compile, *arguments)
    except RecursionError:
        issues = Issues(source)
        issues.report(NOWHERE, TOO_DEEP)
        raise CompileFailure(f"compilation failed: {issues.text()}") from None


def _compile(
    source: str, language: Language, accepted: Container[str], wanted: str, limit: int, instead: str
) -> Compiled:
    issues = Issues(source)
    node = _parse(source, language, issues)
    if not issues:
        Checker(language.scope, issues).check(node)
    if not issues and language.validate_literals:
        _validate(node, issues)
    if issues:
        raise CompileFailure(f"compilation failed: {issues.text()}")
    if node.type.kind not in accepted and str(node.type) not in accepted:
        raise CompileFailure(f"must evaluate to {wanted}{instead} {node.type}")
    slots = {name: index for index, name in enumerate(language.scope.variables, start=1)}
    planner = Planner(language.scope.functions, slots, limit)
    try:
        run = code_of(planner.plan(node))
    except PlanError as error:
        raise CompileFailure(f"program instantiation failed: {error}", internal=True) from None
    return Compiled(run, planner.width, node.type, Estimator(language.bounds).cost(node))


def parse_expression(source: str, language: Language) -> Node:
    """Return the tree of an expression that compiles."""
    return _parse(source, language, Issues(source))


def syntax_tree(source: str, issues: Issues) -> Node:
    """Return the tree of a text without macro expansion and checks. It is valid only if `issues` stays empty."""
    return _tree(source, m.Macros(), issues, optional_syntax=False)


def _parse(source: str, language: Language, issues: Issues) -> Node:
    return _tree(source, language.macros, issues, optional_syntax=language.optional_syntax)


def _tree(source: str, macros: m.Macros, issues: Issues, *, optional_syntax: bool) -> Node:
    tokens = tokenize(source, issues)
    broken = bool(issues)
    try:
        node = Parser(tokens, issues, macros, optional_syntax=optional_syntax).parse()
    except ParseFailure:
        # Keep only the problems of tokens; `diagnose` reports the others again, in the words of the grammar.
        if not broken:
            issues.problems.clear()
        else:
            issues.problems[:] = [issue for issue in issues.problems if "token recognition" in issue[1]]
        diagnose(tokens, issues)
    except IssueReported:
        pass
    else:
        return node
    return Literal(0, None)


def _validate(root: Node, issues: Issues) -> None:
    """Report literals that are invalid: durations, times, patterns, mixed lists, format strings."""
    pending: list[tuple[Node, bool]] = [(root, False)]
    while pending:
        node, in_format = pending.pop()
        if isinstance(node, Call):
            _validate_call(node, issues)
            in_format = in_format or node.function == "format"
        elif isinstance(node, ListNode) and not in_format:
            _validate_list(node, issues)
        elif isinstance(node, MapNode) and not in_format:
            _validate_map(node, issues)
        pending.extend((child, in_format) for child in reversed(children(node)))


def _validate_call(node: Call, issues: Issues) -> None:
    if node.function == "format" and node.overloads == ("string_format",):
        formatting.check_literal(node, issues)
    argument = node.args[0] if node.args else None
    if not isinstance(argument, Literal):
        return
    value = argument.value
    try:
        if node.function == "duration" and not isinstance(value, str):
            raise CelError("not a duration")
        if node.function == "duration":
            conversions.string_to_duration(value)
        elif node.function == "timestamp" and isinstance(value, str):
            conversions.string_to_timestamp(value)
        elif node.function == "timestamp":
            operators.checked_timestamp(value * operators.SECOND)
        elif node.function == "matches" and isinstance(value, str):
            compile_pattern(value)
    except (CelError, ValueError):
        issues.report(argument.pos, f"invalid {node.function} argument")


def _mismatch(node: Node, want: Type, got: Type, issues: Issues) -> None:
    issues.report(node.pos, f"expected type '{want.format()}' but found '{got.format()}'")


def _validate_list(node: ListNode, issues: Issues) -> None:
    first: Type | None = None
    for index, element in enumerate(node.elements):
        type_ = unwrap_optional(element.type)[0] if index in node.optional else element.type
        if first is None:
            first = type_
        elif type_ is not first:
            _mismatch(element, first, type_, issues)
            return


def _validate_map(node: MapNode, issues: Issues) -> None:
    first: tuple[Type, Type] | None = None
    for entry in node.entries:
        value_type = unwrap_optional(entry.value.type)[0] if entry.optional else entry.value.type
        types = (entry.key.type, value_type)
        if first is None:
            first = types
            continue
        for part, want, got in zip((entry.key, entry.value), first, types, strict=True):
            if want is not got:
                _mismatch(part, want, got, issues)
