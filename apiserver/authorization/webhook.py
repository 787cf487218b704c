"""The webhook authorizer: match conditions, calls and cached decisions.

Facts: apiserver, plugin/pkg/authorizer/webhook, pkg/authorization/cel; AuthorizationConfiguration.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

import orjson

from apiserver.api.objects import Json
from apiserver.api.selectors.selectors import SelectorError, parse_fields, parse_labels
from apiserver.cel.errors import EvaluationError
from apiserver.registry.definition.authority import Failure, Opinion, Question
from apiserver.runtime.clock import now, stopwatch
from apiserver.runtime.metrics import Counter, Family, Histogram
from apiserver.runtime.offload import on_loop
from apiserver.webhooks.failures import WebhookError

if TYPE_CHECKING:
    from apiserver.cel.engine import Compiled, Language
    from apiserver.request.messages import User
    from apiserver.webhooks.reviewers import Reviewer

__all__ = ["Condition", "DecisionMetrics", "WebhookAuthorizer", "WebhookCallSettings", "conditions_language"]


#: Size of the cache, and limit in characters of user-chosen parts of a cached request.
_MOST: Final = 8192
_LARGE: Final = 10_000
_CALL_LIMIT: Final = 1_000_000
_BUCKETS: Final = (0.001, 0.01, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0)
_BOTH: Final = "webhook subject access review returned both allow and deny response"


class Condition(NamedTuple):
    """A compiled match condition."""

    source: str
    compiled: Compiled


class WebhookCallSettings(NamedTuple):
    """The settings of a webhook's calls.

    Times are in seconds; a cache time of 0 disables the cache. With `denies` a failed call denies the request instead
    of leaving it to the next authorizer.
    """

    version: str
    seconds: float
    authorized_ttl: float
    unauthorized_ttl: float
    denies: bool
    selectors: bool


class DecisionMetrics:
    """Metrics of all webhooks of a server (apiserver_authorization_…)."""

    def __init__(self) -> None:
        start, both = "apiserver_authorization_", ("name", "type")
        self._decisions = Counter(f"{start}decisions_total", "Decisions of webhooks.", ("decision", *both))
        self._exclusions = Counter(
            f"{start}match_condition_exclusions_total", "Requests excluded by match conditions.", both
        )
        self._errors = Counter(
            f"{start}match_condition_evaluation_errors_total", "Evaluation errors of match conditions.", both
        )
        results = ("name", "result")
        self._calls = Counter(f"{start}webhook_evaluations_total", "Calls of webhooks.", results)
        self._open = Counter(
            f"{start}webhook_evaluations_fail_open_total",
            "Failed calls with failurePolicy NoOpinion.",
            results,
        )
        self._took = Histogram(f"{start}webhook_duration_seconds", "Latency of webhook calls.", results, _BUCKETS)
        self.families: list[Family] = [
            self._decisions, self._exclusions, self._errors, self._calls, self._open, self._took,
        ]  # fmt: skip

    def record_decision(self, name: str, *, allowed: bool) -> None:
        self._decisions.sample("allowed" if allowed else "denied", name, "Webhook").value += 1

    def record_exclusion(self, name: str) -> None:
        self._exclusions.sample(name, "Webhook").value += 1

    def record_condition_error(self, name: str) -> None:
        self._errors.sample(name, "Webhook").value += 1

    def record_call(self, name: str, result: str, seconds: float, *, opened: bool = False) -> None:
        self._calls.sample(name, result).value += 1
        self._took.sample(name, result).observe(seconds)
        if opened:
            self._open.sample(name, result).value += 1


@lru_cache(maxsize=8)
def conditions_language(release: tuple[int, int]) -> Language:
    """Build the language of match conditions: `request` is the spec of a SubjectAccessReview."""
    from apiserver.cel.engine import build_language
    from apiserver.cel.environments.devices import NEWEST
    from apiserver.cel.language.types import STRING, list_of, map_of, struct

    texts = list_of(STRING)
    requirement = {"key": STRING, "operator": STRING, "values": texts}
    selector = {"rawSelector": STRING, "requirements": list_of(struct("kubernetes.SelectorRequirement"))}
    attributes = dict.fromkeys(("namespace", "verb", "group", "version", "resource", "subresource", "name"), STRING)
    structs = {
        "kubernetes.SelectorRequirement": requirement,
        "kubernetes.FieldSelectorAttributes": selector,
        "kubernetes.LabelSelectorAttributes": selector,
        "kubernetes.ResourceAttributes": {
            **attributes,
            **(
                {
                    "fieldSelector": struct("kubernetes.FieldSelectorAttributes"),
                    "labelSelector": struct("kubernetes.LabelSelectorAttributes"),
                }
                if release >= (1, 32)
                else {}
            ),
        },
        "kubernetes.NonResourceAttributes": {"path": STRING, "verb": STRING},
        "kubernetes.SubjectAccessReviewSpec": {
            "resourceAttributes": struct("kubernetes.ResourceAttributes"),
            "nonResourceAttributes": struct("kubernetes.NonResourceAttributes"),
            "user": STRING,
            "groups": texts,
            "extra": map_of(STRING, texts),
            "uid": STRING,
        },
    }
    variables = {"request": struct("kubernetes.SubjectAccessReviewSpec")}
    return build_language(NEWEST, variables, structs, {}, [])


class WebhookAuthorizer:
    """Authorizer that calls one webhook."""

    def __init__(
        self,
        name: str,
        reviewer: Reviewer,
        settings: WebhookCallSettings,
        conditions: Sequence[Condition],
        metrics: DecisionMetrics,
    ) -> None:
        self.name = name
        self._reviewer, self._settings, self._conditions, self._metrics = reviewer, settings, tuple(conditions), metrics
        self._known: OrderedDict[bytes, tuple[datetime, Json]] = OrderedDict()

    async def opinion(self, user: User, question: Question) -> Opinion:
        attributes, found = self._attributes(question)
        size = sum(map(len, (question.name, question.subresource, question.selector, question.labels)))
        return await self._judge(user, attributes, found, size)

    def recall(self, user: User, question: Question) -> Opinion | None:
        """Return the opinion of a cached answer that allows or leaves the decision to others, else None."""
        if self._conditions:
            return None
        known = self._known.get(_key(self._spec(user, self._attributes(question)[1])))
        if known is None or known[0] <= now() or known[1].get("denied"):
            return None
        allowed = bool(known[1].get("allowed"))
        if allowed:
            self._metrics.record_decision(self.name, allowed=True)
        return allowed or None, ""

    def _attributes(self, question: Question) -> tuple[Json, Json]:
        """Return a request in the forms of the match conditions and of the webhook."""
        attributes = {
            "namespace": question.namespace,
            "verb": question.verb,
            "group": question.group,
            "version": question.version,
            "resource": question.resource,
            "subresource": question.subresource,
            "name": question.name,
        }
        found: Json = {key: value for key, value in attributes.items() if value}
        if self._settings.selectors:
            for field, requirements in (
                ("fieldSelector", _field_requirements(question.selector)),
                ("labelSelector", _label_requirements(question.labels)),
            ):
                if requirements:
                    attributes[field] = found[field] = {"requirements": requirements}  # type: ignore[assignment]
        return {"resourceAttributes": attributes}, {"resourceAttributes": found}

    async def path_opinion(self, user: User, verb: str, path: str) -> Opinion:
        attributes = {"nonResourceAttributes": {"path": path, "verb": verb}}
        return await self._judge(user, attributes, attributes, len(path))

    async def _judge(self, user: User, attributes: Json, sent: Json, size: int) -> Opinion:
        failing: bool | None = False if self._settings.denies else None
        try:
            if not self._matches(user, attributes):
                self._metrics.record_exclusion(self.name)
                return None, ""
        except EvaluationError as error:
            self._metrics.record_condition_error(self.name)
            return failing, Failure(str(error))
        outcome = await self._outcome(self._spec(user, sent), size)
        if isinstance(outcome, WebhookError):
            return failing, Failure(str(outcome))
        reason = outcome.get("reason", "")
        if outcome.get("denied") or outcome.get("allowed"):
            self._metrics.record_decision(self.name, allowed=not outcome.get("denied"))
        if outcome.get("denied"):
            return False, Failure(_BOTH) if outcome.get("allowed") else reason
        return (True if outcome.get("allowed") else None), reason

    def _spec(self, user: User, sent: Json) -> Json:
        groups = "group" if self._settings.version == "v1beta1" else "groups"
        extra = {key: list(values) for key, values in user.extra.items()}
        about = {"user": user.name, groups: list(user.groups), "extra": extra, "uid": user.uid}
        return {**sent, **{key: value for key, value in about.items() if value}}

    def _matches(self, user: User, attributes: Json) -> bool:
        """Return whether no condition is false.

        Raises EvaluationError if none is false and some have no value.
        """
        if not self._conditions:
            return True
        extra = {key: list(values) for key, values in user.extra.items()}
        request = {**attributes, "user": user.name, "groups": list(user.groups), "uid": user.uid, "extra": extra}
        errors = []
        for condition in self._conditions:
            try:
                value, _ = condition.compiled.evaluate([request], _CALL_LIMIT)
            except EvaluationError as error:
                errors.append(f"cel evaluation error: expression '{condition.source}' resulted in error: {error}")
                continue
            if value is False:
                return False
        if errors:
            raise EvaluationError(errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]", 0)
        return True

    @on_loop
    async def _outcome(self, spec: Json, size: int) -> Json | WebhookError:
        """Return the webhook's answer, cached or new, or the error of the call."""
        key = _key(spec)
        known = self._known.get(key)
        if known is not None:
            if known[0] > now():
                return known[1]
            self._known.pop(key, None)
        return await self._ask(spec, key, size)

    async def _ask(self, spec: Json, key: bytes, size: int) -> Json | WebhookError:
        settings, elapsed = self._settings, stopwatch()
        try:
            outcome = await self._reviewer.review(settings.version, {"metadata": {}, "spec": spec}, settings.seconds)
        except WebhookError as error:
            late = error.code == 504 or "deadline exceeded" in str(error)
            self._metrics.record_call(self.name, "timeout" if late else "error", elapsed(), opened=not settings.denies)
            return error
        self._metrics.record_call(self.name, "success", elapsed())
        lasts = settings.authorized_ttl if outcome.get("allowed") else settings.unauthorized_ttl
        if lasts and size < _LARGE:
            self._known[key] = now() + timedelta(seconds=lasts), outcome
            if len(self._known) > _MOST:
                self._known.popitem(last=False)
        return outcome


def _key(spec: Json) -> bytes:
    return orjson.dumps(spec, option=orjson.OPT_SORT_KEYS)


def _field_requirements(text: str) -> list[Json]:
    if not text:
        return []
    try:
        terms = parse_fields(text)
    except SelectorError:
        return []
    return [
        {"key": term.field, "operator": "NotIn" if term.negated else "In", "values": [term.value]}
        for term in terms.requirements
    ]


def _label_requirements(text: str) -> list[Json]:
    if not text:
        return []
    try:
        found = parse_labels(text).requirements
    except SelectorError:
        return []
    return [
        {"key": each.key, "operator": _OPERATORS[each.operator]}
        | ({"values": list(each.values)} if each.values else {})
        for each in found
        if each.operator in _OPERATORS
    ]


_OPERATORS: Final = {
    "=": "In", "==": "In", "in": "In", "!=": "NotIn", "notin": "NotIn", "exists": "Exists", "!": "DoesNotExist",
}  # fmt: skip
