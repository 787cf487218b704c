"""Evaluation of mutating policies. This module loads CEL.

Facts: apiserver, pkg/admission/plugin/policy/mutating.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from apiserver.admission.policies.deadline import Meter, evaluate_metered
from apiserver.admission.policies.expressions import (
    POLICY_BUDGET,
    Bindings,
    Budget,
    Expression,
    ExpressionError,
    MatchConditions,
)
from apiserver.admission.policies.index import ActivePolicy, Binding, Policy, is_bound
from apiserver.admission.policies.mutations import MutationError, apply_configuration, apply_json_patch
from apiserver.admission.policies.params import ParamError, ParamKind, params_of
from apiserver.admission.policies.request_changes import replace_object
from apiserver.admission.policies.requests import RequestScope, View, namespace_of
from apiserver.admission.policies.variables import Composition, Scope
from apiserver.api.codec.codec import DecodeError, decode
from apiserver.api.errors.status import StatusError, internal_error
from apiserver.api.objects import Json
from apiserver.cel.environments.admission import APPLY_RESULT, PATCH_RESULT, Declared
from apiserver.registry.body.convert import copy_of
from apiserver.registry.store.admission import Attributes, Reinvocation, forbidden

if TYPE_CHECKING:
    from apiserver.registry.store.store import Registry

__all__ = ["Evaluator", "mutate"]

#: A policy, a binding of it and a parameter.
Key = tuple[str, str, str, str]

_NAME: Final = "MutatingAdmissionPolicy"
_APPLY: Final = "ApplyConfiguration"


class Evaluator:
    """A compiled MutatingAdmissionPolicy."""

    def __init__(self, policy: Json, release: tuple[int, int]) -> None:
        spec = policy["spec"]
        params = spec.get("paramKind") is not None
        self._composition = Composition(spec.get("variables") or (), release, params=params)
        self._declared = Declared(params=params, patches=True, variables=True)
        self.conditions = MatchConditions(spec.get("matchConditions") or (), release, params=params)
        self.reinvocable = spec.get("reinvocationPolicy") == "IfNeeded"
        self.mutations = [self._mutation(item) for item in spec.get("mutations") or ()]

    def _mutation(self, mutation: Json) -> tuple[bool, Expression]:
        applies = mutation.get("patchType") == _APPLY
        source = (mutation.get("applyConfiguration" if applies else "jsonPatch") or {}).get("expression", "")
        result = APPLY_RESULT if applies else PATCH_RESULT
        return applies, self._composition.expression(source, result, self._declared)

    def value(self, expression: Expression, bindings: Bindings, params: Json | None, meter: Meter) -> Any:
        """Evaluate an expression on the current object. Raise ExpressionError."""
        if expression.broken:
            raise ExpressionError(expression.broken)
        scope = Scope(self._composition, bindings, params, Budget(POLICY_BUDGET, meter))
        return scope.value(expression, self._declared)


class _Failure(NamedTuple):
    policy: Policy
    binding: Binding | None
    message: str
    reason: str = ""

    @property
    def text(self) -> str:
        if self.binding is None:
            return f'policy "{self.policy.name}" denied request: {self.message}'
        return f"policy '{self.policy.name}' with binding '{self.binding.name}' denied request: {self.message}"


class _ReinvocationState:
    """The state of a request's policies from the first round.

    It has the policies that may be reinvoked and those that must be; `last_output` is the object after them.
    """

    def __init__(self) -> None:
        self.reinvocable: set[Key] = set()
        self.reinvoke: set[Key] = set()
        self.last_output: Json | None = None

    def require_reinvocation(self) -> None:
        """Mark the policies that have not seen the current object for reinvocation."""
        self.reinvoke |= self.reinvocable
        self.reinvocable.clear()


class _Invocation(NamedTuple):
    policy: Policy
    binding: Binding
    scope: RequestScope
    params: Json | None

    @property
    def key(self) -> Key:
        metadata = (self.params or {}).get("metadata") or {}
        return self.policy.name, self.binding.name, metadata.get("namespace", ""), metadata.get("name", "")


class _PolicyCaller:
    """Caller of all policies that match one request, one after the other."""

    def __init__(self, registry: Registry, attributes: Attributes) -> None:
        self._registry, self._attributes = registry, attributes
        self.failures: list[_Failure] = []

    def invocations(self, active: tuple[ActivePolicy, ...]) -> Iterator[_Invocation]:
        """Yield each policy with each binding and parameter. Record errors in them as failures."""
        attributes = self._attributes
        for policy, matches, bindings in active:
            try:
                scope = policy.matcher.match(matches, attributes)
                if scope is None:
                    continue
                param_kind = policy.spec.get("paramKind")
                kind = None if param_kind is None else ParamKind.of(self._registry, param_kind)
            except (StatusError, ParamError) as error:
                self._misconfigured(policy, None, error)
                continue
            for binding, own in bindings:
                try:
                    if not is_bound(binding, own, attributes):
                        continue
                    found = params_of(kind, binding.spec.get("paramRef"), namespace_of(attributes))
                except (StatusError, ParamError) as error:
                    self._misconfigured(policy, binding, error)
                    continue
                for params in found:
                    yield _Invocation(policy, binding, scope, params)

    def _misconfigured(self, policy: Policy, binding: Binding | None, error: StatusError | ParamError) -> None:
        cause = error.message if isinstance(error, StatusError) else str(error)
        what = "policy" if binding is None else "binding"
        self.failures.append(_Failure(policy, binding, f"failed to configure {what}: {cause}"))

    def _view(self, scope: RequestScope) -> View:
        """Return a view of the request with its current object."""
        return View(self._registry, self._attributes, scope)

    async def invoke(self, one: _Invocation, state: _ReinvocationState, reinvocation: Reinvocation) -> None:
        """Call one policy and apply its changes. Raise StatusError."""
        evaluator: Evaluator = await evaluate_metered(one.policy.get_evaluator)
        blocks = self._registry.waits_for_authorizer and one.policy.mentions_authorizer
        try:
            bindings = Bindings(self._view(one.scope), self._registry)
            if not await evaluate_metered(
                lambda meter: evaluator.conditions.hold(bindings, meter, one.params), blocks=blocks
            ):
                return
        except ExpressionError as error:
            self.failures.append(_Failure(one.policy, one.binding, str(error), "Invalid"))
            return
        if (reinvocation.second_round and one.key not in state.reinvoke) or self._attributes.obj is None:
            return
        for applies, expression in evaluator.mutations:
            view = self._view(one.scope)
            evaluate = partial(evaluator.value, expression, Bindings(view, self._registry), one.params)
            try:
                self._change(view, await evaluate_metered(evaluate, blocks=blocks), applies=applies)
            except (ExpressionError, MutationError) as error:
                self.failures.append(_Failure(one.policy, one.binding, str(error), "Invalid"))
                continue
            # Upstream treats a patched object as a changed one.
            state.require_reinvocation()
            reinvocation.requested = True
        if evaluator.reinvocable:
            state.reinvocable.add(one.key)

    def _change(self, view: View, value: Any, *, applies: bool) -> None:
        """Apply a mutation to the request's object. Raise MutationError, StatusError."""
        before = view.object
        assert before is not None, "mutated objects are set"
        schema = view.schema
        try:
            if applies:
                after = apply_configuration(schema, before, value)
            else:
                after = apply_json_patch(before, value)
                if not self._attributes.resource.custom and (problems := decode(schema, after).problems):
                    raise DecodeError(f"strict decoding error: {', '.join(problems)}")
            if after is not before:
                replace_object(self._registry, self._attributes, view.scope, before, after)
        except DecodeError as error:
            raise internal_error(str(error)) from None


async def mutate(registry: Registry, attributes: Attributes, active: tuple[ActivePolicy, ...]) -> None:
    """Change the object of a request in place. Raise StatusError if a policy fails that must not."""
    reinvocation = attributes.reinvocation = attributes.reinvocation or Reinvocation()
    state: _ReinvocationState = reinvocation.state.setdefault(_NAME, _ReinvocationState())
    if reinvocation.second_round and state.last_output != attributes.obj:
        state.require_reinvocation()
    caller = _PolicyCaller(registry, attributes)
    invocations = list(caller.invocations(active))
    for one in invocations:
        await caller.invoke(one, state, reinvocation)
    if reinvocation.requested:
        state.require_reinvocation()
    if invocations:
        state.last_output = None if attributes.obj is None else copy_of(attributes.obj)
    failures = [failure for failure in caller.failures if failure.policy.fails_closed]
    if not failures:
        return
    error = forbidden(attributes, "admission request denied by policy")
    error.message = failures[0].text
    error.reason = failures[0].reason or error.reason
    error.details = {**(error.details or {}), "causes": [{"message": failure.text} for failure in failures]}
    raise error
