"""Compile a CEL rule of a schema.

Facts: apiextensions-apiserver, pkg/apiserver/schema/cel/compilation.go.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final

from apiserver.api.objects import Json
from apiserver.cel.checking.schemas import DeclaredType
from apiserver.cel.cost.estimate import Bounds
from apiserver.cel.engine import (
    Compiled,
    CompileFailure,
    Language,
    build_language,
    compile_expression,
    parse_expression,
)
from apiserver.cel.environments.devices import NEWEST
from apiserver.cel.language.ast import Ident, Node, children
from apiserver.cel.language.types import optional_of
from apiserver.resources.customresources.fieldpaths import FieldPathError, field_path

__all__ = ["CALL_LIMIT", "Rule", "compile_rule", "language_of", "names_old_self"]


#: The cost limit per rule. Evaluation aborts beyond it.
CALL_LIMIT: Final = 1_000_000


class _Bounds(dict[str, Bounds]):
    """The bounds of self for paths with any root, because upstream's estimate ignores the root's name."""

    def __init__(self, bounds: Bounds) -> None:
        super().__init__(self=bounds)

    def get(self, name: str, default: Any = None) -> Bounds:
        return self["self"]


def language_of(kind: DeclaredType, release: tuple[int, int], *, optional_old: bool) -> Language:
    """Build the language of the rules about a type."""
    old = optional_of(kind.type) if optional_old else kind.type
    variables = {"self": kind.type, "oldSelf": old}
    return build_language(release, variables, kind.structs(), _Bounds(kind.bounds), [])


def compile_rule(source: str, language: Language, wanted: str = "bool") -> Compiled:
    """Compile a rule, or with "string" its message. Raise CompileFailure."""
    return compile_expression(source, language, frozenset({wanted}), f"a {wanted}", CALL_LIMIT)


def names_old_self(source: str, language: Language) -> bool:
    """Return whether a valid rule refers to oldSelf."""
    pending: list[Node] = [parse_expression(source, language)]
    while pending:
        node = pending.pop()
        if isinstance(node, Ident) and node.name.removeprefix(".") == "oldSelf":
            return True
        pending += children(node)
    return False


class Rule:
    """One rule, compiled on first use."""

    def __init__(self, rule: Json, schema: Json, kind: DeclaredType) -> None:
        self.rule, self._kind = rule, kind
        self.optional = bool(rule.get("optionalOldSelf"))
        self._language: Language | None = None
        self.path = ""
        if rule.get("fieldPath"):
            try:
                self.path = str(field_path(rule["fieldPath"], schema)[0])
            except FieldPathError:
                self.path = ""

    @property
    def language(self) -> Language:
        if self._language is None:
            self._language = language_of(self._kind, NEWEST, optional_old=self.optional)
        return self._language

    @cached_property
    def program(self) -> Compiled:
        return compile_rule(self.rule["rule"], self.language)

    @cached_property
    def uses_old(self) -> bool:
        return names_old_self(self.rule["rule"], self.language)

    @cached_property
    def message_program(self) -> Compiled | None:
        text = self.rule.get("messageExpression")
        return compile_rule(text, self.language, "string") if text else None

    @property
    def estimate(self) -> int:
        """Return the maximum cost of the rule and its message."""
        try:
            message = self.message_program
            return self.program.max_cost + (message.max_cost if message is not None else 0)
        except CompileFailure:
            return 0

    @property
    def shown(self) -> str:
        return (self.rule.get("message") or self.rule.get("rule") or "").strip()

    @property
    def message(self) -> str:
        message = (self.rule.get("message") or "").strip()
        return message or f"failed rule: {self.shown}"
