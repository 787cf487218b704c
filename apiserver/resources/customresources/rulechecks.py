"""Evaluate the CEL rules of a schema on a value, within a cost budget.

    checks = RuleChecks(schema)
    checks.errors(path, value, old)     old: ABSENT for a new object, which skips transition rules

Facts: apiextensions-apiserver, pkg/apiserver/schema/cel/validation.go. A failed rule about a value that an update
leaves unchanged is reported as a warning.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

from apiserver.api.errors.field_errors import (
    OMITTED,
    FieldError,
    Path,
    duplicate,
    forbidden,
    go_quote,
    invalid,
    required,
)
from apiserver.api.objects import Json
from apiserver.api.validation.nodes import ABSENT, same
from apiserver.api.validation.nodes import Node as SchemaNode
from apiserver.cel.checking.schemas import DeclaredType, declare_type, escape_name, value_of
from apiserver.cel.engine import CompileFailure
from apiserver.cel.errors import LIMIT_EXCEEDED, EvaluationError
from apiserver.cel.language.values import ABSENT as NOTHING
from apiserver.cel.language.values import NONE, CelError, Optional
from apiserver.resources.customresources.compiledrules import CALL_LIMIT, Rule

__all__ = ["Budget", "RuleChecks"]


#: The cost limit of all rules about one object.
BUDGET: Final = 10_000_000
#: The cost limit of rules evaluated on the event loop: a few ms.
_CHEAP: Final = 20_000
#: The assumed size of an unbounded list or map, in a request evaluated on the event loop.
_MANY: Final = 2_000
_LONGEST_MESSAGE: Final = 5 * 1024
_SPENT: Final = "validation failed due to running out of cost budget, no further validation rules will be run"
_LINES: Final = re.compile(r"\n+")


@dataclass(slots=True)
class Budget:
    """The remaining cost; evaluation stops below zero. `warnings` are failures about unchanged values."""

    left: int = BUDGET
    warnings: list[str] = field(default_factory=list)


class _Broken(Exception):
    """Evaluation stops with this error."""

    def __init__(self, error: FieldError) -> None:
        self.error = error


@dataclass(frozen=True, slots=True)
class _Stored:
    """The stored value that corresponds to a new value, to detect whether an update changed it.

    `above` is the nearest parent with a stored counterpart.
    """

    value: Any
    schema: Json | None
    new: Any
    above: _Stored | None = None

    @property
    def unchanged(self) -> bool:
        if self.value is not ABSENT:
            return same(self.schema, self.new, self.value)
        return self.above is not None and self.above.unchanged

    def below(self, value: Any, schema: Json | None, new: Any) -> _Stored:
        return _Stored(value, schema, new, self if self.value is not ABSENT else self.above)


class RuleChecks:
    """The rules of a schema and of all its parts."""

    def __init__(self, schema: Json, *, root: bool = False) -> None:
        self._root = root
        self._node = _checks(schema, schema, declare_type(schema, "selfType", root=root), root=root)
        self._estimate: int | None = None
        #: Whether evaluation may take long: until all rules are compiled, and then if their estimated cost is high.
        self.take_long = self._node is not None

    def errors(self, at: Path, value: Any, old: Any = ABSENT, *, budget: Budget | None = None) -> list[FieldError]:
        """Evaluate the rules on a value and return the errors."""
        if self._node is None or value is None:
            return []
        return self._node.errors(at, value, old, _Stored(old, self._node.schema, value), budget or Budget())

    def asked(self, at: Path, value: Any, old: Any) -> tuple[list[FieldError], list[str]]:
        """Return the errors like `errors`, and warnings about values that the update leaves unchanged."""
        budget = Budget()
        found = self.errors(at, value, old, budget=budget)
        if self._estimate is None and self._node is not None:
            self._estimate = self._node.estimate(1)
            self.take_long = self._estimate > _CHEAP
        return found, budget.warnings


def _checks(rules: Json, schema: Json, kind: DeclaredType | None, *, root: bool) -> _Checks | None:
    """Build the rules of a schema, or of its allOf part, about values of `schema`; None if there are none."""
    made = _Checks(rules, schema, kind, root=root)
    return made if made.asks else None


class _Checks:
    """One node of the tree of rules."""

    def __init__(self, rules: Json, schema: Json, kind: DeclaredType | None, *, root: bool) -> None:
        self.schema, self._root = schema, root
        self._rules = [
            Rule(rule, schema, kind) for rule in rules.get("x-kubernetes-validations") or () if kind is not None
        ]
        self._items = self._others = None
        items, own = rules.get("items"), schema.get("items")
        if isinstance(items, dict) and isinstance(own, dict):
            self._items = self._below(items, own, kind.element if kind else None, "x")
        self._properties: dict[str, _Checks] = {}
        for name, part in (rules.get("properties") or {}).items():
            described = (schema.get("properties") or {}).get(name)
            if described is None or kind is None:
                continue
            identifier = escape_name(name)
            below = kind.fields.get(identifier) if identifier else declare_type(described, "selfType")
            if below is not None and (made := self._below(part, described, below, name)) is not None:
                self._properties[name] = made
        others, own = rules.get("additionalProperties"), schema.get("additionalProperties")
        if isinstance(others, dict) and isinstance(own, dict):
            self._others = self._below(others, own, kind.element if kind else None, "x")
        self._all = [
            made
            for part in rules.get("allOf") or ()
            if (made := _checks({**part, "allOf": part.get("allOf")}, schema, kind, root=root)) is not None
        ]
        self.asks = bool(self._rules or self._items or self._others or self._properties or self._all)

    def estimate(self, times: int) -> int:
        """Return the maximum cost of the rules for `times` values. Compile rules that are not compiled yet."""
        cost = sum(times * rule.estimate for rule in self._rules)
        each = times * int(self.schema.get("maxItems") or self.schema.get("maxProperties") or _MANY)
        cost += sum(node.estimate(each) for node in (self._items, self._others) if node is not None)
        return cost + sum(node.estimate(times) for node in (*self._properties.values(), *self._all))

    @staticmethod
    def _below(rules: Json, schema: Json, kind: DeclaredType | None, name: str) -> _Checks | None:
        return _checks(rules, schema, kind, root=bool(schema.get("x-kubernetes-embedded-resource")))

    def errors(self, at: Path, value: Any, old: Any, stored: _Stored, budget: Budget) -> list[FieldError]:
        if value is None:
            return []
        errors: list[FieldError] = []
        try:
            self._ask(at, value, old, stored, budget, errors)
        except _Broken as broken:
            budget.left = -1
            errors.append(broken.error)
        if budget.left < 0:
            return errors
        for node in self._all:
            errors += node.errors(at, value, old, _Stored(ABSENT, None, value, stored.above), budget)
            if budget.left < 0:
                return errors
        if isinstance(value, dict):
            errors += self._map(at, value, old, stored, budget)
        elif isinstance(value, list) and self._items is not None:
            counterpart = SchemaNode.correlated(self.schema, old if isinstance(old, list) else ABSENT)
            for index, item in enumerate(value):
                if budget.left < 0:
                    break
                before = counterpart(item)
                inner = stored.below(before, self._items.schema, item)
                errors += self._items.errors(at[index], item, before, inner, budget)
        return errors

    def _map(self, at: Path, value: Json, old: Any, stored: _Stored, budget: Budget) -> list[FieldError]:
        errors: list[FieldError] = []
        for name, item in value.items():
            node, named = self._properties.get(name), True
            if node is None and name not in (self.schema.get("properties") or {}):
                node, named = self._others, False
            if node is None or budget.left < 0:
                continue
            before = old[name] if isinstance(old, dict) and name in old else ABSENT
            place = at / name if named else at.key(name)
            errors += node.errors(place, item, before, stored.below(before, node.schema, item), budget)
        return errors

    def _ask(self, at: Path, value: Any, old: Any, stored: _Stored, budget: Budget, errors: list[FieldError]) -> None:
        if not self._rules:
            return
        kind = self.schema.get("type") or ""
        if budget.left <= 0:
            raise _Broken(invalid(at, kind, _SPENT))
        seen = _Seen(self.schema, value, ABSENT if old is None else old, root=self._root)
        for rule in self._rules:
            if not (rule.rule.get("rule") or "").strip():
                continue
            self._ask_rule(rule, at, value, seen, stored, budget, errors)

    def _ask_rule(
        self,
        rule: Rule,
        at: Path,
        value: Any,
        seen: _Seen,
        stored: _Stored,
        budget: Budget,
        errors: list[FieldError],
    ) -> None:
        kind = self.schema.get("type") or ""
        try:
            uses_old, program = rule.uses_old, rule.program
        except CompileFailure as error:
            errors.append(invalid(at, kind, f"rule compile error: {error}"))
            return
        if uses_old and seen.old is ABSENT and not rule.optional:
            return
        try:
            result, cost = program.evaluate(seen.variables(optional=rule.optional), CALL_LIMIT)
        except CelError as error:
            errors.append(invalid(at, kind, f"{error} evaluating rule: {rule.shown}"))
            return
        except EvaluationError as error:
            _spend(budget, error.cost, at, kind)
            _failed(error, rule, at, kind, errors)
            return
        _spend(budget, cost, at, kind)
        if result is True:
            return
        place = at / rule.path if rule.path else at
        detail = self._message(rule, place, kind, seen, budget)
        shown = OMITTED if kind in ("object", "array") else value
        made = _error(rule, place, shown, detail)
        if not uses_old and stored.unchanged:
            budget.warnings.append(made.text)
        else:
            errors.append(made)

    def _message(self, rule: Rule, at: Path, kind: str, seen: _Seen, budget: Budget) -> str:
        """Return the message of a failed rule: the result of its message expression, or its fixed message."""
        try:
            program = rule.message_program
        except CompileFailure:
            program = None
        if program is None:
            return rule.message
        source = go_quote(rule.rule["messageExpression"])
        try:
            text, cost = program.evaluate(seen.variables(optional=rule.optional), CALL_LIMIT)
        except CelError:
            return rule.message
        except EvaluationError as error:
            if str(error) == LIMIT_EXCEEDED:
                reason = (
                    "no further validation rules will be run due to call cost exceeds limit for messageExpression:"
                    f" {source}"
                )
                raise _Broken(invalid(at, kind, reason)) from None
            budget.left -= error.cost
            return rule.message
        if cost > budget.left:
            reason = (
                "messageExpression evaluation failed due to running out of cost budget, no further validation rules"
                " will be run"
            )
            raise _Broken(invalid(at, kind, reason))
        budget.left -= cost
        text = text.strip() if isinstance(text, str) else ""
        fits = text and len(text.encode()) <= _LONGEST_MESSAGE and not _LINES.search(text)
        return text if fits else rule.message


class _Seen:
    """The variables of the rules about one value, created on first use."""

    def __init__(self, schema: Json, value: Any, old: Any, *, root: bool) -> None:
        self._schema, self._value, self.old, self._root = schema, value, old, root
        self._made: tuple[Any, Any] | None = None

    def variables(self, *, optional: bool) -> list[Any]:
        """Return self and oldSelf. Raise CelError."""
        if self._made is None:
            now = value_of(self._value, self._schema, root=self._root)
            before = NOTHING if self.old is ABSENT else value_of(self.old, self._schema, root=self._root)
            self._made = now, before
        now, before = self._made
        if optional:
            return [now, NONE if before is NOTHING else Optional(before)]
        return [now, before]


def _spend(budget: Budget, cost: int, at: Path, kind: str) -> None:
    if cost > budget.left:
        raise _Broken(invalid(at, kind, _SPENT))
    budget.left -= cost


def _failed(error: EvaluationError, rule: Rule, at: Path, kind: str, errors: list[FieldError]) -> None:
    text = str(error)
    if text.startswith("no such overload"):
        errors.append(
            invalid(
                at,
                kind,
                f"'{text}': call arguments did not match a supported operator, function or macro signature for rule:"
                f" {rule.shown}",
            )
        )
    elif text == LIMIT_EXCEEDED:
        reason = (
            f"'{text}': no further validation rules will be run due to call cost exceeds limit for rule: {rule.shown}"
        )
        raise _Broken(invalid(at, kind, reason))
    else:
        errors.append(invalid(at, kind, f"{text} evaluating rule: {rule.shown}"))


def _error(rule: Rule, at: Path, value: Any, detail: str) -> FieldError:
    match rule.rule.get("reason"):
        case "FieldValueForbidden":
            return forbidden(at, detail)
        case "FieldValueRequired":
            return required(at, detail)
        case "FieldValueDuplicate":
            return duplicate(at, value)
    return invalid(at, value, detail)
