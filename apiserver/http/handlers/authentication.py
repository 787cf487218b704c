"""The handler that authenticates a request, by its credentials and by the Impersonate headers."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

from apiserver.api.errors.status import bad_request
from apiserver.api.values.durations import go_duration_problem
from apiserver.authentication.authenticator import Authenticator
from apiserver.authorization.authorizer import Authorizer
from apiserver.http.handlers.authorization import question_of
from apiserver.http.handlers.chain import Handler
from apiserver.http.handlers.impersonation import impersonate, parse_identity
from apiserver.request.info import LONG_RUNNING
from apiserver.request.messages import Request, Response, Stream, User

#: Maximal number of cached lists of header names, and maximal length of one list.
_KEPT: Final = 256
_SHORT: Final = 1024


class Authentication:
    """Sets `request.user` if it is missing. In-process clients set it themselves."""

    next: Handler

    def __init__(self, authenticator: Authenticator, authorizer: Authorizer, *, constrained: bool = True) -> None:
        """Create the link; `constrained` enables the rules of constrained impersonation."""
        self._authenticator, self._authorizer, self._constrained = authenticator, authorizer, constrained
        #: Lists of header names without impersonation.
        self._harmless: set[tuple[str, ...]] = set()

    def try_fast(self, request: Request) -> Response | None:
        if request.user is None:
            request.user = self._recall(request)
        return self.next.try_fast(request) if request.user is not None else None

    def handle(self, request: Request) -> Awaitable[Response | Stream]:
        if "timeout=" in request.query:
            _check_timeout(request)
        if request.user is None:
            request.user = self._recall(request)
            if request.user is None:
                return self._identify_and_handle(request)
        return self.next.handle(request)

    async def _identify_and_handle(self, request: Request) -> Response | Stream:
        request.user = await self.user_of(request)
        return await self.next.handle(request)

    def _recall(self, request: Request) -> User | None:
        """Return the user if that takes no waiting, else None."""
        headers = request.headers
        names = tuple(headers)
        if names not in self._harmless and not self._is_harmless(names):
            return None
        if "authorization" not in headers and request.peer is None:
            return self._authenticator.default_user
        return self._authenticator.recall(request)

    def _is_harmless(self, names: tuple[str, ...]) -> bool:
        """Return whether no header requests impersonation; cache the names if so."""
        if "impersonate-" in (text := "\n".join(names)):
            return False
        if len(self._harmless) < _KEPT and len(text) <= _SHORT:
            self._harmless.add(names)
        return True

    async def user_of(self, request: Request) -> User:
        """Return the authenticated or impersonated user. Raise 400, 401, 403."""
        user = await self._authenticator.authenticate(request)
        who = parse_identity(request.headers, constrained=self._constrained)
        if who is None:
            return user
        request.impersonator = user
        found = await impersonate(
            self._authorizer, user, who, question_of(request), request.path, request.method,
            constrained=self._constrained,
        )  # fmt: skip
        request.constraint = found.constraint
        return found.user


def _check_timeout(request: Request) -> None:
    """Raise 400 for an invalid timeout parameter, before authentication. Long-running requests are not checked."""
    info = request.info
    if info.verb in ("watch", "proxy") or info.subresource in LONG_RUNNING:
        return
    problem = go_duration_problem(text) if (text := request.params.get("timeout", ("",))[0]) else ""
    if problem:
        raise bad_request(f"invalid timeout specified in the request URL - {problem}")
