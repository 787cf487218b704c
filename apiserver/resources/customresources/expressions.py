"""Validate the rules of a schema when a definition is written: compilation, cost, and use of oldSelf.

Facts: apiextensions-apiserver, pkg/apis/apiextensions/validation/{validation,cel_validation}.go.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final

from apiserver.api.errors.field_errors import FieldError, Path, forbidden, internal, invalid
from apiserver.api.objects import Json
from apiserver.cel.checking.schemas import MOST_BYTES, DeclaredType, declare_type, escape_name
from apiserver.cel.cost.estimate import UNKNOWN
from apiserver.cel.engine import CompileFailure
from apiserver.resources.customresources.compiledrules import compile_rule, language_of, names_old_self

__all__ = ["RuleScope", "Spent", "expression_errors", "total_errors"]


#: Limits of the estimated cost, of one rule and of all rules of a schema.
RULE_LIMIT: Final = 10_000_000
TOTAL_LIMIT: Final = 100_000_000
_SHOWN: Final = 4
#: The release whose language the rules of new definitions must use.
RELEASE: Final = (1, 35)


@dataclass(slots=True)
class Spent:
    """The estimated cost of all rules so far, and the most expensive rules."""

    total: int = 0
    most: list[tuple[int, Path]] = field(default_factory=list)

    def add(self, cost: int, at: Path) -> None:
        self.total = min(self.total + cost, UNKNOWN)
        if cost >= TOTAL_LIMIT // 100:
            self.most = sorted([*self.most, (cost, at)], key=lambda item: -item[0])[:_SHOWN]


@dataclass(frozen=True, slots=True)
class RuleScope:
    """The context of rules at one location: its type, and its maximum number of values (None: unbounded)."""

    schema: Json
    kind: DeclaredType | None
    most: int | None

    @classmethod
    def root(cls, schema: Json) -> RuleScope:
        return cls(schema, declare_type(schema, "selfType", root=True), 1)

    def property(self, name: str, schema: Json) -> RuleScope:
        identifier = escape_name(name)
        kind = self.kind.fields.get(identifier) if self.kind is not None and identifier is not None else None
        return self._below(schema, kind or declare_type(schema, "selfType"))

    def items(self, schema: Json) -> RuleScope:
        return self._below(schema, (self.kind.element if self.kind else None) or declare_type(schema, "selfType"))

    def values(self, schema: Json) -> RuleScope:
        return self.items(schema)

    def _below(self, schema: Json, kind: DeclaredType | None) -> RuleScope:
        most = self.most
        match self.schema.get("type"):
            case "object" if isinstance(self.schema.get("additionalProperties"), dict):
                most = _times(most, self.schema.get("maxProperties"))
            case "array":
                most = _times(most, self.schema.get("maxItems"))
        return replace(self, schema=schema, kind=kind, most=most)

    def cost(self, of_one: int) -> int:
        """Return the total cost of a rule with the cost `of_one` per value."""
        most = self.most
        if most is None:
            least = self.kind.least if self.kind is not None else 0
            most = MOST_BYTES // (least + 1)
        return min(of_one * most, UNKNOWN)


def _times(most: int | None, factor: int | None) -> int | None:
    if most is None or factor is None:
        return None
    return min(most * max(factor, 0), UNKNOWN)


def expression_errors(
    scope: RuleScope, at: Path, schema: Json, uncorrelated: Path | None, spent: Spent, *, unchanged: bool
) -> list[FieldError]:
    """Validate the rules of a schema at `at`."""
    errors: list[FieldError] = []
    if scope.kind is None:
        return [
            internal(
                at / "x-kubernetes-validations",
                "internal error: failed to construct type information for x-kubernetes-validations rules: unable to"
                " convert structural schema to CEL declarations",
            )
        ]
    for index, rule in enumerate(schema["x-kubernetes-validations"]):
        place = (at / "x-kubernetes-validations")[index]
        errors += _rule_errors(scope, scope.kind, place, rule, uncorrelated, spent, unchanged=unchanged)
    return errors


def _rule_errors(
    scope: RuleScope,
    kind: DeclaredType,
    at: Path,
    rule: Json,
    uncorrelated: Path | None,
    spent: Spent,
    *,
    unchanged: bool,
) -> list[FieldError]:
    language = language_of(kind, RELEASE, optional_old=bool(rule.get("optionalOldSelf")))
    errors: list[FieldError] = []
    uses_old = False
    try:
        program = compile_rule(rule["rule"], language)
    except CompileFailure as error:
        text = str(error)
        if text.startswith("must evaluate to"):
            text = "cel expression must evaluate to a bool"
        errors.append(invalid(at / "rule", _shown(rule), text))
        spent.add(0, at / "rule")
    else:
        uses_old = names_old_self(rule["rule"], language)
        cost = scope.cost(program.max_cost)
        if cost > RULE_LIMIT and not unchanged:
            errors.append(forbidden(at / "rule", _too_much("estimated rule cost", cost, RULE_LIMIT)))
        spent.add(cost, at / "rule")
        errors += _message_errors(language, at, rule, spent, unchanged=unchanged)
    if uses_old and uncorrelated is not None:
        text = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {uncorrelated}"
        errors.append(invalid(at / "rule", rule["rule"], text))
    elif not uses_old and rule.get("optionalOldSelf") is not None:
        text = "may not be set if oldSelf is not used in rule"
        errors.append(invalid(at / "optionalOldSelf", rule["optionalOldSelf"], text))
    return errors


def _shown(rule: Json) -> Json:
    """Format a rule as errors show it."""
    return {
        "Rule": rule.get("rule", ""),
        "Message": rule.get("message", ""),
        "MessageExpression": rule.get("messageExpression", ""),
        "Reason": rule.get("reason"),
        "FieldPath": rule.get("fieldPath", ""),
        "OptionalOldSelf": rule.get("optionalOldSelf"),
    }


def _message_errors(language: Any, at: Path, rule: Json, spent: Spent, *, unchanged: bool) -> list[FieldError]:
    expression = rule.get("messageExpression")
    if not expression:
        return []
    place = at / "messageExpression"
    try:
        program = compile_rule(expression, language, "string")
    except CompileFailure as error:
        text = str(error)
        if text.startswith("must evaluate to"):
            text = "messageExpression must evaluate to a string"
        else:
            text = f"messageExpression {text.removeprefix('program ')}"
        return [invalid(place, _shown(rule), text)]
    spent.add(program.max_cost, place)
    if program.max_cost > RULE_LIMIT and not unchanged:
        return [forbidden(place, _too_much("estimated messageExpression cost", program.max_cost, RULE_LIMIT))]
    return []


def _too_much(what: str, cost: int, limit: int) -> str:
    factor = cost / limit
    shown = "more than 100x" if factor > 100 else f"{factor:.6f}x" if factor < 1.5 else f"{factor:.1f}x"
    return (
        f"{what} exceeds budget by factor of {shown} (try simplifying the rule, or adding maxItems, maxProperties, and"
        " maxLength where arrays, maps, and strings are declared)"
    )


def total_errors(at: Path, spent: Spent) -> list[FieldError]:
    """Limit the total cost of all rules of a schema."""
    if spent.total <= TOTAL_LIMIT:
        return []
    each = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
    whole = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
    return [
        *(forbidden(path, each) for _, path in spent.most),
        forbidden(at, _too_much(whole, spent.total, TOTAL_LIMIT)),
    ]
