"""Expressions of policies and match conditions, compiled and evaluated within a budget.

    expression = Expression("object.metadata.name != 'x'", language, BOOL_RESULT)
    value = expression.value(Bindings(view, registry).values(declared), Budget(…))

An expression that does not compile fails at every evaluation: it was valid when it was stored.
Facts: apiserver, pkg/admission/plugin/cel.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from apiserver.admission.policies.requests import View, namespace_of
from apiserver.api.objects import Json
from apiserver.cel.engine import Compiled, CompileFailure, Language
from apiserver.cel.environments.admission import (
    BOOL_RESULT,
    CALL_LIMIT,
    Declared,
    Result,
    admission_language,
    compile_admission,
)
from apiserver.cel.errors import EvaluationError
from apiserver.cel.language.time_limit import Meter
from apiserver.cel.library.authorization import Authorizer, ResourceCheck
from apiserver.registry.definition.authority import Decision, Question
from apiserver.request.messages import User

if TYPE_CHECKING:
    from apiserver.registry.definition.authority import Authority
    from apiserver.registry.store.store import Registry

__all__ = [
    "CONDITIONS_BUDGET",
    "POLICY_BUDGET",
    "Bindings",
    "Budget",
    "Expression",
    "ExpressionError",
    "MatchConditions",
    "OutOfBudget",
    "aggregate",
]


#: Budgets per request: all match conditions of a policy or webhook, and all other expressions of a policy.
CONDITIONS_BUDGET: Final = 2_500_000
POLICY_BUDGET: Final = 10_000_000
_SPENT: Final = "validation failed due to running out of cost budget, no further validation rules will be run"


class ExpressionError(Exception):
    """Error: an expression has no value. The text gives the reason."""


class OutOfBudget(ExpressionError):
    """Error: all expressions together exceed the budget. The evaluation ends."""

    def __init__(self) -> None:
        super().__init__(_SPENT)


class Budget:
    """The remaining budget of an evaluation, and its meter."""

    __slots__ = ("left", "meter")

    def __init__(self, left: int, meter: Meter) -> None:
        self.left, self.meter = left, meter

    def spend(self, cost: int) -> None:
        """Spend a cost. Raise OutOfBudget."""
        if cost > self.left:
            raise OutOfBudget
        self.left -= cost


class Expression:
    """One expression. `broken` is its compile error, or ""."""

    __slots__ = ("broken", "compiled", "source")

    def __init__(self, source: str, language: Language, result: Result) -> None:
        self.source = source
        self.compiled: Compiled | None = None
        self.broken = ""
        try:
            self.compiled = compile_admission(source, language, result)
        except CompileFailure as error:
            self.broken = str(error)

    def value(self, variables: Sequence[Any], budget: Budget) -> Any:
        """Evaluate the expression. Raise ExpressionError."""
        if self.compiled is None:
            raise ExpressionError(f"compilation error: {self.broken}")
        try:
            value, cost = self.compiled.evaluate(list(variables), CALL_LIMIT, budget.meter)
        except EvaluationError as error:
            budget.spend(error.cost)
            raise ExpressionError(f"expression '{self.source}' resulted in error: {error}") from None
        budget.spend(cost)
        return value


class _Checks:
    """The server's authorizer for the expressions of one request. Each decision is made once."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._known: dict[tuple[str, Question | tuple[str, str]], Decision] = {}

    @property
    def _authority(self) -> Authority:
        assert self._registry.authority is not None, "a server has an authorizer"
        return self._registry.authority

    def check(self, user: User, verb: str, asked: ResourceCheck) -> tuple[bool, str]:
        question = Question(
            verb, asked.group, asked.resource, asked.subresource, asked.namespace, asked.name, asked.field_selector
        )
        known = self._known.get((user.name, question))
        if known is None:
            known = self._known[user.name, question] = self._authority.decide_blocking(user, question)
        return known.allowed, known.reason

    def check_path(self, user: User, verb: str, path: str) -> tuple[bool, str]:
        known = self._known.get((user.name, (verb, path)))
        if known is None:
            known = self._known[user.name, (verb, path)] = self._authority.decide_path_blocking(user, verb, path)
        return known.allowed, known.reason

    @staticmethod
    def service_account(namespace: str, name: str) -> User:
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
        return User(f"system:serviceaccount:{namespace}:{name}", groups=groups)


class Bindings:
    """The values of the variables for one request in one version, each computed at its first use."""

    def __init__(self, view: View, registry: Registry) -> None:
        self._view, self._registry = view, registry

    def values(
        self, declared: Declared, *, params: Json | None = None, variables: Any = None, namespace: bool = True
    ) -> list[Any]:
        """Return the values in the order of the language's declarations."""
        view = self._view
        made: list[Any] = [view.object, view.old, self._namespace if namespace else None, view.request]
        if declared.params:
            made.append(params)
        if declared.authorizer:
            made += self._authorizer
        if declared.variables:
            made.append(variables)
        return made

    @cached_property
    def _namespace(self) -> Json | None:
        """Return the object's namespace without managers and owners."""
        attributes = self._view.attributes
        namespace = namespace_of(attributes)
        if not namespace or (attributes.resource.plural == "namespaces" and not attributes.resource.group):
            return None
        found = attributes.ctx.lookup("", "namespaces", "", namespace)
        if found is None:
            return None
        hidden = ("managedFields", "ownerReferences", "selfLink")
        metadata = {key: value for key, value in found["metadata"].items() if key not in hidden}
        return {"metadata": metadata, "spec": found.get("spec") or {}, "status": found.get("status") or {}}

    @cached_property
    def _authorizer(self) -> tuple[Authorizer, ResourceCheck]:
        view = self._view
        attributes = view.attributes
        authorizer = Authorizer(_Checks(self._registry), attributes.ctx.user)
        resource = attributes.resource
        check = ResourceCheck(
            authorizer,
            resource.group,
            resource.plural,
            attributes.subresource,
            namespace_of(attributes),
            attributes.name,
        )
        return authorizer, check


class _Condition(NamedTuple):
    name: str
    expression: Expression


class MatchConditions:
    """The match conditions of a policy or webhook, in the language of a release."""

    def __init__(self, conditions: Sequence[Json], release: tuple[int, int], *, params: bool = False) -> None:
        self._declared = Declared(params=params)
        language = admission_language(release, self._declared, stored=True)
        self._conditions = tuple(
            _Condition(item["name"], Expression(item["expression"].strip(), language, BOOL_RESULT))
            for item in conditions
        )

    def __bool__(self) -> bool:
        return bool(self._conditions)

    def hold(self, bindings: Bindings, meter: Meter, params: Json | None = None) -> bool:
        """Return whether all conditions are true. A false one decides, also if others fail.

        Raises ExpressionError if none is false and some have no value.
        """
        if not self._conditions:
            return True
        budget = Budget(CONDITIONS_BUDGET, meter)
        variables = bindings.values(self._declared, params=params, namespace=False)
        errors = []
        decided = False
        for condition in self._conditions:
            try:
                decided = condition.expression.value(variables, budget) is False or decided
            except OutOfBudget:
                raise
            except ExpressionError as error:
                errors.append(str(error))
        if decided:
            return False
        if errors:
            raise ExpressionError(aggregate(errors))
        return True


def aggregate(errors: Sequence[str]) -> str:
    """Join several errors in one text."""
    distinct = list(dict.fromkeys(errors))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"
