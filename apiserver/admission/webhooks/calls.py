"""One call of a webhook, with its metrics.

It fails in one of three ways:

    CallFailed     the call fails or the response is invalid: failurePolicy decides
    Rejected       the webhook refuses the request
    StatusError    the webhook must not be called, or its change is not possible
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Final, Literal, TypeVar
from uuid import uuid4

import orjson

from apiserver.admission.policies.requests import RequestScope, View
from apiserver.admission.webhooks.hooks import Hook, MatchingWebhook
from apiserver.admission.webhooks.reviews import Verdict, format_call_error, review_of, verdict_of, version_for
from apiserver.api.errors.field_errors import go_quote
from apiserver.api.errors.status import PlainError, StatusError, bad_request, internal_error
from apiserver.api.objects import Json
from apiserver.registry.store.admission import forbidden
from apiserver.runtime.metrics import Counter, Family, Histogram
from apiserver.webhooks.failures import WebhookError

if TYPE_CHECKING:
    from apiserver.registry.store.admission import Attributes
    from apiserver.registry.store.store import Registry
    from apiserver.webhooks.client import Webhooks

__all__ = ["CallFailed", "Caller", "Rejected", "get_annotation_suffix"]

T = TypeVar("T")
Type = Literal["admit", "validating"]

_LOG: Final = logging.getLogger(__name__)
_BUCKETS: Final = (0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 25.0)
#: The highest code label. A webhook may return any number; larger ones are counted as this.
_HIGHEST: Final = 600


class CallFailed(Exception):
    """Error: the call gave no verdict. `code` is that of the webhook's response."""

    def __init__(self, name: str, reason: str, code: int) -> None:
        super().__init__(f"failed calling webhook {go_quote(name)}: {reason}")
        self.code = code


class Rejected(Exception):
    """Error: the webhook refuses the request. `status` is the client's error."""

    def __init__(self, status: StatusError) -> None:
        super().__init__(status.message)
        self.status = status


class WebhookMetrics:
    """The metrics of webhooks, with upstream's names."""

    def __init__(self) -> None:
        start = "apiserver_admission_webhook_"
        self.durations = Histogram(
            f"{start}admission_duration_seconds", "Latency of admission webhook calls.",
            ("name", "type", "operation", "rejected"), _BUCKETS,
        )  # fmt: skip
        self.rejections = Counter(
            f"{start}rejection_count", "Requests rejected by an admission webhook or by its failure.",
            ("name", "type", "operation", "error_type", "rejection_code"),
        )  # fmt: skip
        self.fail_open = Counter(f"{start}fail_open_count", "Ignored webhook failures.", ("name", "type"))
        self.requests = Counter(
            f"{start}request_total", "Calls of admission webhooks.", ("name", "type", "operation", "code", "rejected")
        )
        self.exclusions = Counter(
            "apiserver_admission_match_condition_exclusions_total", "Requests excluded by match conditions.",
            ("name", "kind", "type", "operation"),
        )  # fmt: skip

    def families(self) -> list[Family]:
        return [self.durations, self.rejections, self.fail_open, self.requests, self.exclusions]


class Caller:
    """Caller of one type of webhooks for a server."""

    def __init__(self, registry: Registry, type: Type, metrics: WebhookMetrics) -> None:
        self.registry, self.type, self.metrics = registry, type, metrics

    @property
    def _webhooks(self) -> Webhooks:
        assert self.registry.webhooks is not None, "webhooks are enabled"
        return self.registry.webhooks

    async def find_scope(
        self, webhook: MatchingWebhook, attributes: Attributes, view: Callable[[RequestScope], View]
    ) -> RequestScope | None:
        """Return the scope in which a webhook matches a request, or None. Raise StatusError."""
        hook = webhook.hook
        scope = hook.matcher.match(webhook.matches, attributes)
        if scope is None or not hook.has_conditions:
            return scope
        from apiserver.admission.policies.deadline import evaluate_metered
        from apiserver.admission.policies.expressions import Bindings, ExpressionError

        bindings, blocks = Bindings(view(scope), self.registry), self.registry.waits_for_authorizer
        try:
            if await evaluate_metered(
                lambda meter: hook.conditions(meter).hold(bindings, meter), blocks=blocks and hook.mentions_authorizer
            ):
                return scope
        except ExpressionError as error:
            if not hook.ignores_failure:
                raise forbidden(attributes, str(error)) from None
            return None
        self.metrics.exclusions.inc(hook.name, "webhook", self.type, attributes.operation)
        return None

    async def call(self, hook: Hook, view: View, act: Callable[[Verdict], T]) -> T | None:
        """Call a webhook and apply `act` to its verdict. Return None if the call failed and failures are ignored.

        Raises StatusError.
        """
        began = perf_counter()
        try:
            result = act(await self._call(hook, view))
        except CallFailed as error:
            self._handle_failure(hook, view, began, error)
            return None
        except Rejected as error:
            self._count(hook, view, began, error.status.code, "no_error")
            raise error.status from None
        except (PlainError, StatusError):
            self._count(hook, view, began, 0, "apiserver_internal_error")
            raise
        self._count(hook, view, began, 200, "")
        return result

    def _handle_failure(self, hook: Hook, view: View, began: float, error: CallFailed) -> None:
        if not hook.ignores_failure:
            self._count(hook, view, began, error.code, "calling_webhook_error")
            raise internal_error(str(error)) from None
        self._count(hook, view, began, error.code, "")
        self.metrics.fail_open.inc(hook.name, self.type)
        kind = "mutation" if self.type == "admit" else "validating"
        key = f"failed-open.{kind}.webhook.admission.k8s.io/{get_annotation_suffix(hook, view.attributes)}"
        view.attributes.ctx.annotations[key] = hook.name
        _LOG.warning("%s; continuing because of failurePolicy Ignore", error)

    def _count(self, hook: Hook, view: View, began: float, code: int, error_type: str) -> None:
        operation, rejected = view.attributes.operation, str(bool(error_type)).lower()
        code_label = str(min(code, _HIGHEST))
        labels = (hook.name, self.type, operation)
        self.metrics.durations.sample(*labels, rejected).observe(perf_counter() - began)
        self.metrics.requests.inc(*labels, code_label, rejected)
        if error_type:
            self.metrics.rejections.inc(*labels, error_type, code_label)

    async def _call(self, hook: Hook, view: View) -> Verdict:
        ctx = view.attributes.ctx
        if ctx.dry_run and not hook.takes_dry_runs:
            raise bad_request(f"admission webhook {go_quote(hook.name)} does not support dry run")
        version = version_for(hook.reviews)
        if not version:
            reason = "webhook does not accept known AdmissionReview versions (v1, v1beta1)"
            raise CallFailed(hook.name, f"could not create admission objects: {reason}", 400)
        uid = str(uuid4())
        seconds = hook.seconds if ctx.deadline is None else min(hook.seconds, ctx.deadline - monotonic())
        if seconds <= 0:
            raise _build_timeout()
        try:
            answer = await self._webhooks.post(hook.target, review_of(view, version, uid), seconds=seconds)
            verdict = verdict_of(answer, version, uid, mutating=self.type == "admit")
        except WebhookError as error:
            if ctx.deadline is not None and monotonic() >= ctx.deadline:
                raise _build_timeout() from None
            raise CallFailed(hook.name, format_call_error(error), error.code) from None
        except ValueError as error:
            raise CallFailed(hook.name, f"received invalid webhook response: {error}", 503) from None
        for name, value in verdict.annotations.items():
            ctx.annotations[f"{hook.name}/{name}"] = value
        ctx.warnings += verdict.warnings
        if not verdict.allowed:
            raise Rejected(_refusal(hook.name, verdict.status))
        return verdict


def get_annotation_suffix(hook: Hook, attributes: Attributes) -> str:
    """Return the suffix of a call's annotation keys: the round, and the index of the webhook."""
    reinvocation = attributes.reinvocation
    again = reinvocation is not None and reinvocation.second_round
    return f"round_{int(again)}_index_{hook.index}"


def _build_timeout() -> PlainError:
    """Return the error at the request's deadline: a Status without kind, as plain text.

    Facts: apiserver, pkg/server/filters/timeout.go.
    """
    status = {
        "metadata": {},
        "status": "Failure",
        "message": "Timeout: request did not complete within the allotted timeout",
        "reason": "Timeout",
        "details": {},
        "code": 504,
    }
    return PlainError(504, orjson.dumps(status).decode())


def _refusal(name: str, status: Json | None) -> StatusError:
    """Return the client's error for a refusal: the webhook's message, and a code of at least 400."""
    told = status or {}
    message, reason = told.get("message", ""), told.get("reason", "")
    denied = f"admission webhook {go_quote(name)} denied the request"
    text = f"{denied}: {message or reason}" if message or reason else f"{denied} without explanation"
    code = told.get("code", 0)
    return StatusError(max(code, 400), reason, text, told.get("details"))
