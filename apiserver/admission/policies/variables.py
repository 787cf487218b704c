"""The `variables` of a policy: values of expressions, computed at their first use.

Facts: apiserver, pkg/admission/plugin/cel/composition.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from apiserver.admission.policies.expressions import Bindings, Budget, Expression
from apiserver.api.objects import Json
from apiserver.cel.engine import Language
from apiserver.cel.environments.admission import (
    ANY_RESULT,
    CALL_LIMIT,
    Declared,
    Result,
    admission_language,
    with_variable,
)
from apiserver.cel.errors import EvaluationError
from apiserver.cel.language.values import CelError

__all__ = ["Composition", "Scope"]


class Composition:
    """The variables of a policy, and the language of its expressions."""

    def __init__(self, variables: Sequence[Json], release: tuple[int, int], *, params: bool) -> None:
        self.params, self._release = params, release
        self.declared = Declared(params=params, variables=True)
        self.expressions: dict[str, Expression] = {}
        self._known: list[tuple[str, Any]] = []
        for variable in variables:
            expression = Expression(variable["expression"], self.language(self.declared), ANY_RESULT)
            output = None if expression.compiled is None else expression.compiled.output
            self._known.append((variable["name"], output))
            self.expressions[variable["name"]] = expression

    def language(self, declared: Declared) -> Language:
        language = admission_language(self._release, declared, stored=True)
        for name, type_ in self._known:
            language = with_variable(language, name, type_)
        return language

    def expression(self, source: str, result: Result, declared: Declared | None = None) -> Expression:
        """Compile an expression that may use all variables."""
        return Expression(source, self.language(declared or self.declared), result)


class _Variables(dict[str, Any]):
    """A map with lazily computed values. A value that fails does so at each use."""

    def __init__(self, scope: Scope) -> None:
        super().__init__()
        self._scope = scope

    def __missing__(self, name: str) -> Any:
        value = self[name] = self._scope.compute(name)
        return value

    def get(self, name: str, default: Any = None) -> Any:
        if name in self:
            return self[name]
        return self[name] if name in self._scope.names else default


class Scope:
    """One evaluation of expressions that share variables. The cost of a variable is charged when it is computed."""

    def __init__(self, composition: Composition, bindings: Bindings, params: Json | None, budget: Budget) -> None:
        self._composition, self._budget, self._spent = composition, budget, 0
        self.names = composition.expressions.keys()
        self._bindings, self._params = bindings, params
        self._failed: dict[str, str] = {}
        self._variables = _Variables(self)

    def values(self, declared: Declared) -> list[Any]:
        return self._bindings.values(declared, params=self._params, variables=self._variables)

    def compute(self, name: str) -> Any:
        """Compute the value of a variable. Raise CelError."""
        if name in self._failed:
            raise CelError(self._failed[name])
        expression = self._composition.expressions[name]
        if expression.compiled is None:
            text = f'composited variable "{name}" fails to compile: {expression.broken}'
        else:
            try:
                value, cost = expression.compiled.evaluate(
                    self.values(self._composition.declared), CALL_LIMIT, self._budget.meter
                )
            except EvaluationError as error:
                self._spent += error.cost
                text = f'composited variable "{name}" fails to evaluate: {error}'
            else:
                self._spent += cost
                return value
        self._failed[name] = text
        raise CelError(text)

    def value(self, expression: Expression, declared: Declared) -> Any:
        """Evaluate an expression. Raise ExpressionError."""
        self._spent = 0
        try:
            return expression.value(self.values(declared), self._budget)
        finally:
            self._budget.spend(self._spent)
