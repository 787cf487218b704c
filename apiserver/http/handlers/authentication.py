"""The handler that names a request's user: by its credentials, and by the Impersonate headers."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

from apiserver.api.errors.status import bad_request
from apiserver.api.values.durations import go_duration_problem
from apiserver.authentication.authenticator import Authenticator
from apiserver.authorization.authorizer import Authorizer
from apiserver.http.handlers.authorization import question_of
from apiserver.http.handlers.chain import Handler
from apiserver.http.handlers.impersonation import impersonate, requested_identity
from apiserver.request.info import LONG_RUNNING
from apiserver.request.messages import Request, Response, Stream, User

#: Lists of names of header fields that are known, and how long one of them may be.
_KEPT: Final = 256
_SHORT: Final = 1024


class Authentication:
    """Sets `request.user` where it is not known yet. In-process clients come with theirs."""

    next: Handler

    def __init__(self, authenticator: Authenticator, authorizer: Authorizer, *, constrained: bool = True) -> None:
        """`constrained`: the rules of constrained impersonation hold."""
        self._authenticator, self._authorizer, self._constrained = authenticator, authorizer, constrained
        #: Names of header fields, as they came with a request, of which none asks for another user.
        self._harmless: set[tuple[str, ...]] = set()

    def try_fast(self, request: Request) -> Response | None:
        if request.user is None:
            request.user = self.user_of(request)
        return self.next.try_fast(request)

    def handle(self, request: Request) -> Awaitable[Response | Stream]:
        if "timeout=" in request.query:
            _check_timeout(request)
        if request.user is None:
            request.user = self.user_of(request)
        return self.next.handle(request)

    def user_of(self, request: Request) -> User:
        """Who asks, as whom. Raises 400, 401, 403."""
        headers = request.headers
        user = self._authenticator.nobody if "authorization" not in headers and request.peer is None else None
        if user is None:
            user = self._authenticator(request)
        names = tuple(headers)
        if names in self._harmless:
            return user
        if "impersonate-" not in (text := "\n".join(names)):
            if len(self._harmless) < _KEPT and len(text) <= _SHORT:
                self._harmless.add(names)
            return user
        who = requested_identity(headers, constrained=self._constrained)
        if who is None:
            return user
        request.impersonator = user
        found = impersonate(
            self._authorizer, user, who, question_of(request), request.path, request.method,
            constrained=self._constrained,
        )  # fmt: skip
        request.constraint = found.constraint
        return found.user


def _check_timeout(request: Request) -> None:
    """A request that does not go on for long may say how long it may take; before anybody asks who sent it, that has to
    be a duration. Raises 400.
    """
    info = request.info
    if info.verb in ("watch", "proxy") or info.subresource in LONG_RUNNING:
        return
    problem = go_duration_problem(text) if (text := request.params.get("timeout", ("",))[0]) else ""
    if problem:
        raise bad_request(f"invalid timeout specified in the request URL - {problem}")
