"""The handler that calls the authorizer, and the texts of refusals."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Final

from apiserver.api.errors.field_errors import go_quote
from apiserver.api.errors.status import PlainError, StatusError, qualified
from apiserver.authorization.authorizer import Authorizer
from apiserver.http.handlers.chain import Handler
from apiserver.registry.definition.authority import Decision, Question
from apiserver.request.messages import Request, Response, Stream, User

#: Escapes, so that error texts do not look like HTML.
_SAFE: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})

_DECISION: Final = "authorization.k8s.io/decision"
_REASON: Final = "authorization.k8s.io/reason"
_HEADERS: Final = (("X-Content-Type-Options", "nosniff"),)


class Authorization:
    """Lets allowed requests pass. It is in the chain only if an authorizer is configured."""

    next: Handler

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def try_fast(self, request: Request) -> Response | None:
        return self.next.try_fast(request) if self._is_permitted(request) else None

    def handle(self, request: Request) -> Awaitable[Response | Stream]:
        if not self._authorizer.is_remote and self._is_permitted(request):
            return self.next.handle(request)
        return self._check_and_handle(request)

    def _is_permitted(self, request: Request) -> bool:
        """Return whether the request is allowed by rules that need no waiting."""
        user, question = request.user, question_of(request)
        assert user is not None, "the authentication handler runs first"
        return question is not None and self._authorizer.permits(user, question)

    async def _check_and_handle(self, request: Request) -> Response | Stream:
        await self._check(request)
        return await self.next.handle(request)

    async def _check(self, request: Request) -> None:
        """Raise 403 for a request that is not allowed, 500 if an authorizer that could not be reached decides."""
        user, question = request.user, question_of(request)
        assert user is not None, "the authentication handler runs first"
        decision = await decide(self._authorizer, request)
        request.authorization = annotations_of(decision)
        if decision.allowed:
            return
        if decision.error:
            where = request.path + (f"?{request.query}" if request.query else "")
            raise PlainError(500, f"Internal Server Error: {go_quote(where)}: {decision.error}".translate(_SAFE))
        if question is None:
            raise build_path_forbidden(user, request.method, request.path, decision.reason)
        raise build_forbidden(user, question, decision.reason)


def annotations_of(decision: Decision) -> Mapping[str, str]:
    """Return the annotations of a decision for the audit log."""
    if decision.error and not decision.allowed:
        return {_REASON: "internal error"}
    return {_DECISION: "allow" if decision.allowed else "forbid", _REASON: decision.reason}


async def decide(authorizer: Authorizer, request: Request) -> Decision:
    """Return the decision about an authenticated request."""
    user, question = request.user, question_of(request)
    assert user is not None, "the authentication handler runs first"
    if question is None:
        return await authorizer.decide_path(user, request.method.lower(), request.path)
    return await authorizer.decide(user, question)


def question_of(request: Request) -> Question | None:
    """Return the authorization attributes of a resource request, None for another path.

    A list's or watch's field selector that pins a name sets the name.
    """
    info = request.info
    if not info.resource:
        return None
    name, selector, labels = info.name, "", ""
    if "labelSelector" in request.query and info.verb in ("list", "watch", "deletecollection"):
        labels = request.params.get("labelSelector", ("",))[0]
    if "fieldSelector" in request.query and info.verb in ("list", "watch", "deletecollection"):
        selector = request.params.get("fieldSelector", ("",))[0]
        name = name or (_selected_name(request) if info.verb != "deletecollection" else "")
    return Question(
        info.verb, info.group, info.resource, info.subresource, info.namespace, name, selector, info.version, labels
    )


def _selected_name(request: Request) -> str:
    """Return the name that a field selector pins."""
    for text in request.params.get("fieldSelector", ()):
        for term in text.split(","):
            if term.startswith("metadata.name="):
                return term.removeprefix("metadata.name=").lstrip("=")
    return ""


def build_forbidden(user: User, question: Question, reason: str = "") -> StatusError:
    """Build the 403 in upstream's words."""
    verb, group, resource, subresource, namespace, name = question[:6]
    what = f"{resource}/{subresource}" if subresource else resource
    scope = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    cause = f'User "{user.name}" cannot {verb} resource "{what}" in API group "{group}" {scope}'.translate(_SAFE)
    subject = f'{qualified(resource, group)} "{name}"' if name else qualified(resource, group)
    details = {"name": name, "group": group, "kind": resource}
    message = f"{subject} is forbidden: {cause}"
    return StatusError(
        403,
        "Forbidden",
        f"{message}: {reason}" if reason else message,
        {key: value for key, value in details.items() if value},
        _HEADERS,
    )


def build_path_forbidden(user: User, verb: str, path: str, reason: str = "") -> StatusError:
    """Build the 403 for a path that names no resource."""
    message = "forbidden: " + f'User "{user.name}" cannot {verb.lower()} path "{path}"'.translate(_SAFE)
    return StatusError(403, "Forbidden", f"{message}: {reason}" if reason else message, {}, _HEADERS)
