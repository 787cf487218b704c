"""The handlers that write the audit log. `Audit` stands behind authentication, so that it knows who asks, and before
authorization, so that it sees what is refused; `AuditOfStrangers` before authentication, for those whom nobody knows.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

from apiserver.authorization.authorizer import Authorizer
from apiserver.http.audit.events import Event, Write
from apiserver.http.audit.policy import Level, Policy
from apiserver.http.formats.errors import error_response
from apiserver.http.handlers.authorization import question_of
from apiserver.http.handlers.chain import Handler, anew
from apiserver.registry.body.decode import Kinds
from apiserver.registry.definition.authority import Decision
from apiserver.request.messages import ConnectionClosed, Request, Response, Stream
from apiserver.runtime.external_facts import Unsettled, settle_again

__all__ = ["Audit", "AuditOfStrangers"]

_DECISION: Final = "authorization.k8s.io/decision"
_REASON: Final = "authorization.k8s.io/reason"
_NO_CREDENTIALS: Final = "Authentication failed, no credentials provided"


class Audit:
    """Writes the events of requests whose users are known."""

    next: Handler

    def __init__(self, policy: Policy, kinds: Kinds, authorizer: Authorizer, write: Write) -> None:
        self._policy, self._kinds, self._authorizer, self._write = policy, kinds, authorizer, write

    def try_fast(self, request: Request) -> Response | None:
        return None

    async def handle(self, request: Request) -> Response | Stream:
        audited = self._policy.of(request.impersonator or request.user, request.info, request.path)
        if audited.level is Level.NONE:
            return await self.next.handle(request)
        event = Event(request, audited, self._kinds, self._write)
        event.give("RequestReceived")
        event.note_request()
        failed: Exception | None = None
        answer: Response | Stream
        try:
            try:
                answer = await self.next.handle(request)
            except Unsettled as lacking:
                answer = await settle_again(lacking, lambda: anew(self.next, request))
        except ConnectionClosed:
            event.note_code(200, "Connection closed early")
            self._finish(event, request)
            raise
        except Exception as error:  # noqa: BLE001 - each kind has its answer
            failed = error
            answer = error_response(request, error)
        if isinstance(answer, Response):
            event.note_answer(answer, failed)
            self._finish(event, request)
        else:
            event.note_code(answer.status)
            event.give("ResponseStarted")
            answer.when_ended.append(lambda: self._finish(event, request))
        return answer

    def _finish(self, event: Event, request: Request) -> None:
        user, question = request.user, question_of(request)
        assert user is not None, "authentication stands before this handler"
        try:
            if question is None:
                decision = self._authorizer.decide_path(user, request.method.lower(), request.path)
            else:
                decision = self._authorizer.decide(user, question)
        except Unsettled:
            # A webhook decided whose answer is not kept: what followed tells which it was.
            decision = Decision(event.code != 403)
        noted = {_DECISION: "allow" if decision.allowed else "forbid", _REASON: decision.reason}
        request.annotations = {**(request.annotations or {}), **noted}
        event.give("ResponseComplete")


class AuditOfStrangers:
    """Writes an event of each request whose credentials are not taken, or who may not act as somebody else."""

    next: Handler

    def __init__(self, policy: Policy, kinds: Kinds, write: Write) -> None:
        self._policy, self._kinds, self._write = policy, kinds, write

    def try_fast(self, request: Request) -> Response | None:
        return None

    def handle(self, request: Request) -> Awaitable[Response | Stream]:
        try:
            return self.next.handle(request)
        except Exception as error:
            if request.user is None:
                self._note(request, error)
            raise

    def _note(self, request: Request, error: Exception) -> None:
        audited = self._policy.of(request.impersonator, request.info, request.path)
        if audited.level is Level.NONE:
            return
        event, answer = Event(request, audited, self._kinds, self._write), error_response(request, error)
        if request.impersonator is not None:  # who may not act as somebody else is known
            event.give("RequestReceived")
            event.note_answer(answer, error)
            event.give("ResponseComplete")
            return
        event.note_code(answer.status, _attempted(request))
        event.give("ResponseStarted")


def _attempted(request: Request) -> str:
    """How somebody tried to say who they are."""
    kind = request.headers.get("authorization", "").strip().partition(" ")[0].lower()
    ways = [kind] if kind in ("basic", "bearer") else []
    if "access_token" in request.params:
        ways.append("access_token")
    if request.peer is not None:
        ways.append("x509")
    return f"Authentication failed, attempted: {', '.join(ways)}" if ways else _NO_CREDENTIALS
