"""The handlers that write the audit log.

`Audit` runs after authentication, so that the user is known, and before authorization, so that it covers refusals.
`FailedAuthenticationAudit` runs before authentication, for unauthenticated requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from apiserver.authorization.authorizer import Authorizer
from apiserver.http.audit.events import Event, Write
from apiserver.http.audit.policy import Level, Policy
from apiserver.http.formats.errors import error_response
from apiserver.http.handlers.authorization import annotations_of, decide
from apiserver.http.handlers.chain import Handler
from apiserver.registry.body.decode import Kinds
from apiserver.registry.definition.authority import Decision
from apiserver.request.messages import ConnectionClosed, Request, Response, Stream

__all__ = ["Audit", "FailedAuthenticationAudit"]

_NO_CREDENTIALS: Final = "Authentication failed, no credentials provided"


class Audit:
    """Writes the events of authenticated requests."""

    next: Handler

    def __init__(self, policy: Policy, kinds: Kinds, authorizer: Authorizer, write: Write) -> None:
        self._policy, self._kinds, self._authorizer, self._write = policy, kinds, authorizer, write

    def try_fast(self, request: Request) -> Response | None:
        return None

    async def handle(self, request: Request) -> Response | Stream:
        options = self._policy.of(request.impersonator or request.user, request.info, request.path)
        if options.level is Level.NONE:
            return await self.next.handle(request)
        event = Event(request, options, self._kinds, self._write)
        event.emit("RequestReceived")
        event.record_request()
        failed: Exception | None = None
        answer: Response | Stream
        try:
            answer = await self.next.handle(request)
        except ConnectionClosed:
            event.record_status(200, "Connection closed early")
            self._finish(event, request, await self._authorization(request, 200))
            raise
        except Exception as error:  # noqa: BLE001 - each kind has its answer
            failed = error
            answer = error_response(request, error)
        authorization = await self._authorization(request, answer.status)
        if isinstance(answer, Response):
            event.record_response(answer, failed)
            self._finish(event, request, authorization)
        else:
            event.record_status(answer.status)
            event.emit("ResponseStarted")
            answer.when_ended.append(lambda: self._finish(event, request, authorization))
        return answer

    async def _authorization(self, request: Request, code: int) -> Mapping[str, str]:
        if request.authorization:
            return request.authorization
        if self._authorizer.is_remote:  # do not call a webhook for a request that ended before its authorization
            return annotations_of(Decision(code != 403))
        return annotations_of(await decide(self._authorizer, request))

    @staticmethod
    def _finish(event: Event, request: Request, authorization: Mapping[str, str]) -> None:
        request.annotations = {**request.annotations, **authorization}
        event.emit("ResponseComplete")


class FailedAuthenticationAudit:
    """Writes an event of each request with invalid credentials or a forbidden impersonation."""

    next: Handler

    def __init__(self, policy: Policy, kinds: Kinds, write: Write) -> None:
        self._policy, self._kinds, self._write = policy, kinds, write

    def try_fast(self, request: Request) -> Response | None:
        return None

    async def handle(self, request: Request) -> Response | Stream:
        try:
            return await self.next.handle(request)
        except Exception as error:
            if request.user is None:
                self._record(request, error)
            raise

    def _record(self, request: Request, error: Exception) -> None:
        options = self._policy.of(request.impersonator, request.info, request.path)
        if options.level is Level.NONE:
            return
        event, answer = Event(request, options, self._kinds, self._write), error_response(request, error)
        if request.impersonator is not None:  # forbidden impersonation: the user is known
            event.emit("RequestReceived")
            event.record_response(answer, error)
            event.emit("ResponseComplete")
            return
        event.record_status(answer.status, _describe_attempts(request))
        event.emit("ResponseStarted")


def _describe_attempts(request: Request) -> str:
    """Describe the attempted ways of authentication."""
    kind = request.headers.get("authorization", "").strip().partition(" ")[0].lower()
    ways = [kind] if kind in ("basic", "bearer") else []
    if "access_token" in request.params:
        ways.append("access_token")
    if request.peer is not None:
        ways.append("x509")
    return f"Authentication failed, attempted: {', '.join(ways)}" if ways else _NO_CREDENTIALS
