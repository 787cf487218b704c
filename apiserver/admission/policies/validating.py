"""Evaluation of validating policies. This module loads CEL.

Facts: apiserver, pkg/admission/plugin/policy/validating.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from apiserver.admission.policies.deadline import (
    Meter,
    OffloadRequired,
    evaluate_blocking,
    evaluate_offloaded,
    start_meter,
)
from apiserver.admission.policies.expressions import (
    POLICY_BUDGET,
    Bindings,
    Budget,
    Expression,
    ExpressionError,
    MatchConditions,
    OutOfBudget,
)
from apiserver.admission.policies.index import ActivePolicy, Binding, Policy, is_bound
from apiserver.admission.policies.params import ParamError, ParamKind, params_of
from apiserver.admission.policies.requests import RequestScope, View, namespace_of
from apiserver.admission.policies.variables import Composition, Scope
from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.cel.environments.admission import ANNOTATION_RESULT, BOOL_RESULT, STRING_RESULT, Declared
from apiserver.registry.store.admission import Attributes, forbidden

if TYPE_CHECKING:
    from apiserver.registry.store.store import Registry

__all__ = ["Evaluator", "validate_policies"]


_LONGEST_MESSAGE: Final = 5 * 1024
_LONGEST_ANNOTATION: Final = 10 * 1024
_FAILURE_KEY: Final = "validation.policy.admission.k8s.io/validation_failure"
_CODES: Final = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413}


class Decision(NamedTuple):
    """The failure of a rule, by its index. With `broken` it could not be evaluated."""

    rule: int
    message: str
    reason: str = ""
    broken: bool = False


class _Rule(NamedTuple):
    expression: Expression
    message: Expression | None
    rule: Json


class Evaluator:
    """A compiled ValidatingAdmissionPolicy."""

    def __init__(self, policy: Json, release: tuple[int, int]) -> None:
        spec = policy["spec"]
        params = spec.get("paramKind") is not None
        composition = Composition(spec.get("variables") or (), release, params=params)
        self._composition = composition
        self._spoken = Declared(params=params, authorizer=False, variables=True)
        self.conditions = MatchConditions(spec.get("matchConditions") or (), release, params=params)
        self._rules = [
            _Rule(composition.expression(rule["expression"], BOOL_RESULT), self._message(rule), rule)
            for rule in spec.get("validations") or ()
        ]
        self._annotations = [
            (item["key"], composition.expression(item["valueExpression"], ANNOTATION_RESULT))
            for item in spec.get("auditAnnotations") or ()
        ]

    def _message(self, rule: Json) -> Expression | None:
        text = rule.get("messageExpression")
        return self._composition.expression(text, STRING_RESULT, self._spoken) if text else None

    def decisions(self, bindings: Bindings, params: Json | None, meter: Meter) -> list[Decision]:
        """Return the failures of the rules. Raise ExpressionError if the evaluation fails as a whole."""
        budget = Budget(POLICY_BUDGET, meter)
        scope = Scope(self._composition, bindings, params, budget)
        found: list[tuple[bool, str]] = []  # Whether a rule is true, or the reason that it has no value.
        for rule in self._rules:
            try:
                found.append((scope.value(rule.expression, self._composition.declared) is True, ""))
            except OutOfBudget:
                raise
            except ExpressionError as error:
                found.append((False, str(error)))
        messages, broken = self._messages(bindings, params, budget)
        decisions = []
        for index, (rule, (holds, failure)) in enumerate(zip(self._rules, found, strict=True)):
            if failure or broken:
                decisions.append(Decision(index, failure or broken, broken=True))
            elif not holds:
                text = _get_message(rule.rule, messages[index])
                decisions.append(Decision(index, text, rule.rule.get("reason") or "Invalid"))
        return decisions

    def _messages(self, bindings: Bindings, params: Json | None, budget: Budget) -> tuple[list[str], str]:
        """Return the values of the message expressions ("" for none), and an error that invalidates all rules.

        All are evaluated, whether their rules are true or not.
        """
        scope = Scope(self._composition, bindings, params, budget)
        messages = []
        for rule in self._rules:
            value = None
            if rule.message is not None:
                try:
                    value = scope.value(rule.message, self._spoken)
                except OutOfBudget as error:
                    return [""] * len(self._rules), f"failed messageExpression: {error}"
                except ExpressionError:
                    value = None
            messages.append(value if isinstance(value, str) else "")
        return messages, ""

    def annotations(self, bindings: Bindings, params: Json | None, meter: Meter) -> Iterator[tuple[str, str, str]]:
        """Yield the key and value of each set audit annotation, or the key and its error. Raise OutOfBudget."""
        scope = Scope(self._composition, bindings, params, Budget(POLICY_BUDGET, meter))
        for key, expression in self._annotations:
            try:
                value = scope.value(expression, self._composition.declared)
            except OutOfBudget:
                raise
            except ExpressionError as error:
                yield key, "", str(error)
                continue
            if isinstance(value, str) and value.strip():
                yield key, value.strip(), ""


def _get_message(rule: Json, computed: str) -> str:
    """Return the message of a failed rule."""
    text = computed.strip()
    if text and len(text.encode()) <= _LONGEST_MESSAGE and "\n" not in text:
        return text
    message = (rule.get("message") or "").strip()
    return message or f"failed expression: {rule['expression'].strip()}"


class _Refusal(NamedTuple):
    policy: Policy
    binding: Binding | None
    message: str
    reason: str = ""


class _Evaluation:
    """The decisions of all policies about one request.

    Only `enforce` changes the request. Before it the evaluation may stop and restart in a thread.
    """

    def __init__(self, registry: Registry, attributes: Attributes, meter: Meter) -> None:
        self._registry, self._attributes, self._meter = registry, attributes, meter
        self._bindings: dict[RequestScope, Bindings] = {}
        self._warnings: list[str] = []
        self._annotations: dict[str, str] = {}
        self._refusals: list[_Refusal] = []

    def evaluate(self, active: ActivePolicy) -> None:
        """Evaluate one policy."""
        policy, attributes = active.policy, self._attributes
        try:
            scope = policy.matcher.match(active.matches, attributes)
        except StatusError as error:
            self._misconfigured(policy, None, error.message)
            return
        if scope is None:
            return
        kind = None
        if policy.spec.get("paramKind") is not None:
            try:
                kind = ParamKind.of(self._registry, policy.spec["paramKind"])
            except ParamError as error:
                self._misconfigured(policy, None, str(error))
                return
        noted: dict[str, list[str]] = {}
        for binding, matches in active.bindings:
            try:
                if not is_bound(binding, matches, attributes):
                    continue
                found = params_of(kind, binding.spec.get("paramRef"), namespace_of(attributes))
            except (StatusError, ParamError) as error:
                self._misconfigured(policy, binding, error.message if isinstance(error, StatusError) else str(error))
                continue
            for params in found:
                self._evaluate(policy, binding, self._bindings_in(scope), params, noted)
        for key, values in noted.items():
            self._annotations[f"{policy.name}/{key}"] = ", ".join(values)

    def _bindings_in(self, scope: RequestScope) -> Bindings:
        made = self._bindings.get(scope)
        if made is None:
            view = View(self._registry, self._attributes, scope)
            made = self._bindings[scope] = Bindings(view, self._registry)
        return made

    def _evaluate(
        self, policy: Policy, binding: Binding, bindings: Bindings, params: Json | None, noted: dict[str, list[str]]
    ) -> None:
        evaluator: Evaluator = policy.get_evaluator(self._meter)
        try:
            if not evaluator.conditions.hold(bindings, self._meter, params):
                return
            decisions = evaluator.decisions(bindings, params, self._meter)
            annotations = list(evaluator.annotations(bindings, params, self._meter))
        except ExpressionError as error:
            decisions, annotations = [Decision(0, str(error), broken=True)], []
        for decision in decisions:
            if not decision.broken or policy.fails_closed:
                self._act(policy, binding, decision)
        for key, value, failure in annotations:
            if not failure:
                values = noted.setdefault(key, [])
                short = value.encode()[:_LONGEST_ANNOTATION].decode(errors="ignore")
                if short not in values:
                    values.append(short)
            elif policy.fails_closed:
                self._refusals.append(_Refusal(policy, binding, failure))

    def _act(self, policy: Policy, binding: Binding, decision: Decision) -> None:
        actions = binding.spec.get("validationActions") or ()
        for action in actions:
            if action == "Deny":
                self._refusals.append(_Refusal(policy, binding, decision.message, decision.reason))
            elif action == "Warn":
                self._warnings.append(
                    f"Validation failed for ValidatingAdmissionPolicy '{policy.name}' with binding '{binding.name}': "
                    f"{decision.message}"
                )
            elif action == "Audit":
                failure = {
                    "message": decision.message,
                    "policy": binding.spec["policyName"],
                    "binding": binding.name,
                    "expressionIndex": decision.rule,
                    "validationActions": list(actions),
                }
                text = json.dumps([failure], separators=(",", ":"), ensure_ascii=False)
                self._annotations.setdefault(_FAILURE_KEY, text)

    def _misconfigured(self, policy: Policy, binding: Binding | None, cause: str) -> None:
        if policy.fails_closed:
            what = "policy" if binding is None else "binding"
            self._refusals.append(_Refusal(policy, binding, f"failed to configure {what}: {cause}"))

    def enforce(self) -> None:
        """Add warnings and annotations to the request's context. Raise StatusError if a policy refuses it."""
        ctx = self._attributes.ctx
        ctx.warnings += self._warnings
        failure = ctx.annotations.get(_FAILURE_KEY)
        ctx.annotations.update(self._annotations)
        if failure is not None:
            ctx.annotations[_FAILURE_KEY] = failure
        if not self._refusals:
            return
        policy, binding, message, reason = self._refusals[0]
        bound = "" if binding is None else f" with binding '{binding.name}'"
        text = f"ValidatingAdmissionPolicy '{policy.name}'{bound} denied request: {message}"
        error = forbidden(self._attributes, text)
        error.reason = reason or "Invalid"
        error.code = _CODES.get(error.reason, 422)
        error.details = {**(error.details or {}), "causes": [{"message": text}]}
        raise error


def validate_policies(
    registry: Registry, attributes: Attributes, active: tuple[ActivePolicy, ...]
) -> Awaitable[None] | None:
    """Evaluate all policies; return an awaitable if that takes long or waits. Raise StatusError if one refuses."""

    def evaluate(meter: Meter) -> _Evaluation:
        evaluation = _Evaluation(registry, attributes, meter)
        for one in active:
            evaluation.evaluate(one)
        return evaluation

    if registry.waits_for_authorizer and any(one.policy.mentions_authorizer for one in active):
        return _enforce(evaluate_blocking(evaluate))
    try:
        evaluation = evaluate(start_meter())
    except OffloadRequired:
        return _enforce(evaluate_offloaded(evaluate))
    evaluation.enforce()
    return None


async def _enforce(evaluation: Awaitable[_Evaluation]) -> None:
    (await evaluation).enforce()
