"""The way of a request: authenticate, authorize, find the resource, call its verb, render the answer. One place per
step.

`Dispatcher.handle` is all there is between a request and its answer; the ASGI adapter and the clients in this process
both call it.
Paths are looked up, never matched: a Kubernetes path costs one split and two dict look-ups.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import datetime
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from apiserver.api.status import (
    PlainError,
    StatusError,
    bad_request,
    internal_error,
    method_not_allowed,
    unavailable,
    unknown_resource,
)
from apiserver.http.documents.index import Documents
from apiserver.http.formats import negotiation
from apiserver.http.formats.negotiation import Form, negotiate, negotiate_stream, negotiate_untabled
from apiserver.http.formats.rendering import EventLines, View, render_list, render_object
from apiserver.http.handlers.authentication import Authenticator
from apiserver.http.handlers.authorization import Authorizer, Question, denied, denied_path
from apiserver.http.handlers.impersonation import impersonate, wanted
from apiserver.http.handlers.requestinfo import Target, parse
from apiserver.http.handlers.warning import warning_headers
from apiserver.http.sinks.metrics import Metrics
from apiserver.messages import Request, Response, Stream, User
from apiserver.registry.body.options import is_watch
from apiserver.registry.context import Context
from apiserver.registry.results import Listing, Result, WatchEvent
from apiserver.registry.store import Store
from apiserver.registry.verbs.create import create
from apiserver.registry.verbs.delete import delete, delete_collection
from apiserver.registry.verbs.get import get, get_present
from apiserver.registry.verbs.list import list_, list_present
from apiserver.registry.verbs.patch import patch
from apiserver.registry.verbs.update import update
from apiserver.registry.verbs.watch import watch
from apiserver.storage.entry import Entry
from apiserver.storage.types import StorageUnavailable

if TYPE_CHECKING:
    from apiserver.http.formats.protobuf import Frames

log = logging.getLogger(__name__)

_MAX_BODY: Final = 3 * 1024 * 1024
_PEOPLE: Final = ("curl", "Wget", "Mozilla/5.0")
_AT_ONCE: Final = frozenset({"get", "list"})
_ON_COLLECTIONS: Final = frozenset({"list", "watch", "create", "deletecollection"})


class Route:
    """A resource in a version, with what answers for it."""

    __slots__ = ("namespaced", "projected", "store", "subresources", "verbs", "view", "warning")

    def __init__(self, store: Store, view: View, warning: str) -> None:
        self.store, self.view, self.warning = store, view, warning
        self.namespaced = view.resource.namespaced
        self.verbs = frozenset(view.resource.verbs)
        self.subresources = {sub.name: sub for sub in view.resource.subresources}
        #: by subresource, how those show that are objects of another kind.
        self.projected = {
            name: View(sub.projection.kind, sub.projection.version)
            for name, sub in self.subresources.items()
            if sub.projection is not None
        }


class Dispatcher:
    """Answers every request that is not FastAPI's. `routes` is by (group, version) and plural."""

    def __init__(
        self,
        routes: Mapping[tuple[str, str], Mapping[str, Route]],
        documents: Documents,
        authenticate: Authenticator,
        authorizer: Authorizer,
        metrics: Metrics,
        clock: Callable[[], datetime],
        *,
        constrained_impersonation: bool = True,
    ) -> None:
        self._routes, self._documents, self._authenticate, self._authorizer = (
            routes,
            documents,
            authenticate,
            authorizer,
        )
        self._metrics, self._clock, self._constrained = metrics, clock, constrained_impersonation
        self._groups = frozenset(group for group, _ in routes)

    def show(self, routes: Mapping[tuple[str, str], Mapping[str, Route]]) -> None:
        """Serve these from now on."""
        self._routes = routes
        self._groups = frozenset(group for group, _ in routes)

    async def handle(self, request: Request) -> Response | Stream:
        """The answer to a request; never raises."""
        warnings: list[str] = []
        started = perf_counter()
        target = None
        try:
            target = parse(request.method, request.path)
            user = self._user(request, target)
            if target is None:
                answer: Response | Stream = await self._document(request, user)
            else:
                answer = await self._resource(request, target, user, warnings)
        except Exception as error:  # noqa: BLE001 - each kind has its answer
            answer = self._failed(request, error)
        if warnings:
            answer.headers += warning_headers(warnings)
        self._metrics.count(request.method, target, answer.status, perf_counter() - started)
        return answer

    def at_once(self, request: Request) -> Response | None:
        """What `handle` would answer, where that takes no waiting: an object, or all of a collection, as this server
        holds it. None: ask `handle`.

        Nothing is counted or written when the answer is None."""
        if request.method != "GET" or request.query or request.body:
            return None
        target = parse("GET", request.path)
        if target is None or target.verb not in _AT_ONCE or target.subresource:
            return None
        warnings: list[str] = []
        started = perf_counter()
        try:
            route, ctx = self._admitted(request, target, self._user(request, target), warnings)
            answer = self._present(request, route, ctx)
        except Exception as error:  # noqa: BLE001 - each kind has its answer
            answer = self._failed(request, error)
        if answer is None:
            return None
        if warnings:
            answer.headers += warning_headers(warnings)
        self._metrics.count("GET", target, answer.status, perf_counter() - started)
        return answer

    def _present(self, request: Request, route: Route, ctx: Context) -> Response | None:
        """The present state, where this server alone knows it and its form is the stored one or small."""
        store, view = route.store, route.view
        if store.registry.shared:
            return None
        form = negotiate(request.headers.get("accept", ""))
        if ctx.verb == "get":
            return self._object(request, form, view, ctx, 200, get_present(store, ctx))
        if form is negotiation.PLAIN and view.stored and not self._pretty(request, form):
            return Response(200, view.list(list_present(store, ctx)))
        return None

    def _failed(self, request: Request, error: Exception) -> Response:
        """What a client is told of an error."""
        if isinstance(error, StatusError):
            return self._error(request, error)
        if isinstance(error, StorageUnavailable):
            return self._error(request, unavailable(str(error)))
        if isinstance(error, PlainError):
            return Response(
                error.code,
                error.text.encode() + b"\n",
                "text/plain; charset=utf-8",
                (("X-Content-Type-Options", "nosniff"),),
            )
        log.error("%s %s failed", request.method, request.path, exc_info=error)
        return self._error(
            request, internal_error(f"{request.method} {request.path} failed; the server's log says why")
        )

    def _user(self, request: Request, target: Target | None) -> User:
        if request.user is not None:
            return request.user
        user = self._authenticate(request)
        if "impersonate-" not in "\n".join(request.headers):
            return user
        who = wanted(request.headers, constrained=self._constrained)
        if who is None:
            return user
        question = None if target is None else _question(request, target)
        return impersonate(
            self._authorizer, user, who, question, request.path, request.method, constrained=self._constrained
        )

    async def _document(self, request: Request, user: User) -> Response:
        if not self._authorizer.allows_all and not self._authorizer.allows_path(
            user, request.method.lower(), request.path
        ):
            raise denied_path(
                user,
                request.method,
                request.path,
                self._authorizer.decide_path(user, request.method.lower(), request.path).reason,
            )
        return await self._documents.answer(request)

    async def _resource(self, request: Request, target: Target, user: User, warnings: list[str]) -> Response | Stream:
        route, ctx = self._admitted(request, target, user, warnings)
        if target.subresource:
            connect = route.subresources[target.subresource].connect
            if connect is not None:
                return await connect(route.store, ctx, request)
        accept = request.headers.get("accept", "")
        if target.subresource and not route.subresources[target.subresource].tables:
            return await self._call(request, route, negotiate_untabled(accept), ctx)
        return await self._call(
            request, route, negotiate(accept) if ctx.verb != "watch" else negotiate_stream(accept), ctx
        )

    def _admitted(self, request: Request, target: Target, user: User, warnings: list[str]) -> tuple[Route, Context]:
        """Whom a request asks, and what rules may know of it. Raises 403 where the user may not, 404, 405, 406 and
        415.
        """
        verb = target.verb
        if verb == "list" and request.query and is_watch(request.params):
            verb = target.verb = "watch"
        if not self._authorizer.allows_all:
            question = _question(request, target)
            if not self._authorizer.allows(user, *question):
                raise denied(user, question, self._authorizer.decide(user, question).reason)
        route = self._route(request, target)
        if not target.subresource or route.subresources[target.subresource].connect is None:
            negotiation.check_routed(verb, request.headers, tables=route.store.resource.create is None)
        if route.warning:
            warnings.append(route.warning)
        ctx = route.store.context(
            user=user,
            version=target.version,
            verb=verb,
            namespace=target.namespace if route.namespaced else "",
            name=target.name,
            subresource=target.subresource,
        )
        ctx.warnings = warnings
        return route, ctx

    def _route(self, request: Request, target: Target) -> Route:
        """The route of a target. Raises the 404 or 405 that upstream gives."""
        by_plural = self._routes.get((target.group, target.version))
        if by_plural is None:
            if target.group not in self._groups:
                raise PlainError(404, "404 page not found")
            raise unknown_resource()
        route = by_plural.get(target.resource)
        if route is None:
            raise unknown_resource()
        verb, name = target.verb, target.name
        if not target.namespace:
            if route.namespaced and (name or verb not in ("list", "watch")):
                raise unknown_resource() if name else method_not_allowed()
        elif not route.namespaced and target.resource != "namespaces":
            raise unknown_resource()
        if target.subresource:
            return self._subroute(request, route, target)
        if verb not in route.verbs or ((verb in _ON_COLLECTIONS) is bool(name) and verb != "watch"):
            raise method_not_allowed()
        if request.method == "HEAD":
            raise method_not_allowed()
        return route

    def _subroute(self, request: Request, route: Route, target: Target) -> Route:
        known = route.subresources.get(target.subresource)
        if known is None or not target.name or (target.rest and target.subresource != "proxy"):
            raise unknown_resource()
        if target.verb not in known.verbs or (request.method == "HEAD" and known.connect is None):
            raise method_not_allowed()
        return route

    async def _call(self, request: Request, route: Route, form: Form, ctx: Context) -> Response | Stream:
        """The verb, and its answer's form."""
        store, view, verb = route.store, route.projected.get(ctx.subresource, route.view), ctx.verb
        if len(request.body) > _MAX_BODY:
            raise StatusError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {_MAX_BODY}")
        if verb == "get":
            entry = await get(store, ctx, request)
            projector = store.projectors.get(ctx.subresource)
            return self._object(request, form, view, ctx, 200, entry if projector is None else projector.answer(entry))
        if verb == "list":
            return await self._list(request, form, view, await list_(store, ctx, request))
        if verb == "watch":
            return self._watch(request, form, view, watch(store, ctx, request))
        if verb == "delete":
            deleted = await delete(store, ctx, request)
            if deleted.status is not None:
                return self._json(request, form, route, deleted.status, deleted.code)
            return self._object(request, form, view, ctx, deleted.code, deleted.entry)
        if verb == "deletecollection":
            return await self._list(request, form, view, await delete_collection(store, ctx, request))
        write: Callable[..., Awaitable[Result]] = {
            "create": create,
            "update": update,
            "patch": patch,
        }[verb]
        result = await write(store, ctx, request)
        code = 201 if result.created else 200
        if result.body is not None or result.entry is None:
            return self._json(request, form, route, result.body or {}, code)
        return self._object(request, form, view, ctx, code, result.entry)

    # Answers

    def _pretty(self, request: Request, form: Form) -> bool:
        if request.query and "pretty" in request.query:
            return negotiation.wants_pretty(request.params, request.headers.get("user-agent", ""))
        return form.pretty or request.headers.get("user-agent", "").startswith(_PEOPLE)

    def _object(self, request: Request, form: Form, view: View, ctx: Context, code: int, entry: Entry) -> Response:
        pretty = self._pretty(request, form)
        if form is negotiation.PLAIN and not pretty:
            return Response(code, view.line(entry))
        return Response(
            code, render_object(view, form, entry, ctx.now, _include(request, form), pretty=pretty), form.media
        )

    async def _list(self, request: Request, form: Form, view: View, listing: Listing) -> Response:
        pretty = self._pretty(request, form)
        if form is negotiation.PLAIN and not pretty and view.stored:
            return Response(200, view.list(listing))
        return Response(
            200,
            await render_list(view, form, listing, self._clock(), _include(request, form), pretty=pretty),
            form.media,
        )

    def _json(self, request: Request, form: Form, route: Route, body: dict[str, Any], code: int) -> Response:
        schema = None
        if form.media == negotiation.PROTOBUF:
            schema = route.store.registry.kinds.schema(body.get("apiVersion", ""), body.get("kind", ""))
        return Response(
            code, negotiation.encode(form.media, body, pretty=self._pretty(request, form), schema=schema), form.media
        )

    def _watch(self, request: Request, form: Form, view: View, events: AsyncIterator[list[WatchEvent]]) -> Stream:
        if form.media == negotiation.PROTOBUF:
            from apiserver.http.formats.protobuf import Frames

            return Stream(200, self._chunks(events, Frames(view, form)), form.media + ";stream=watch")
        return Stream(200, self._chunks(events, EventLines(view, form, _include(request, form))), form.media)

    async def _chunks(
        self, events: AsyncIterator[list[WatchEvent]], lines: EventLines | Frames
    ) -> AsyncIterator[bytes]:
        """One chunk a batch. Whoever closes this closes the watch."""
        self._metrics.watches += 1
        try:
            async for batch in events:
                if not lines.possible:
                    return
                if len(batch) <= lines.most:
                    yield lines.lines(batch, self._clock())
                    continue
                for start in range(0, len(batch), lines.most):
                    yield lines.lines(batch[start : start + lines.most], self._clock())
                    await asyncio.sleep(0)
        finally:
            self._metrics.watches -= 1
            close = getattr(events, "aclose", None)
            if close is not None:
                await close()

    def _error(self, request: Request, error: StatusError) -> Response:
        form = negotiation.form_of_error(request.headers.get("accept", ""))
        headers = error.headers
        after = (error.details or {}).get("retryAfterSeconds")
        if after and not any(name == "Retry-After" for name, _ in headers):
            headers = (*headers, ("Retry-After", str(after)))
        return Response(
            error.code,
            negotiation.encode(form.media, error.to_dict(), pretty=self._pretty(request, form)),
            form.media,
            headers,
        )


def _include(request: Request, form: Form) -> str:
    """What a Table's rows show of their objects. Raises 400."""
    if not request.query or form.shape != "Table":
        return ""
    include = request.params.get("includeObject", ("",))[0]
    if include not in ("", "Metadata", "Object", "None"):
        wrong = f"includeObject: Invalid value: \"{include}\": must be 'Metadata', 'Object', 'None', or empty"
        raise bad_request(f"Unable to convert to Table as requested: {wrong}")
    return include


def _question(request: Request, target: Target) -> Question:
    """What a request asks the authorizer. A list's or watch's selector that pins a name counts as the name."""
    name, verb, selector = target.name, target.verb, ""
    if request.query:
        if verb == "list" and is_watch(request.params):
            verb = "watch"
        if "fieldSelector" in request.query and verb in ("list", "watch", "deletecollection"):
            selector = request.params.get("fieldSelector", ("",))[0]
            name = name or (_selected_name(request) if verb != "deletecollection" else "")
    return Question(verb, target.group, target.resource, target.subresource, target.namespace, name, selector)


def _selected_name(request: Request) -> str:
    """The name that a field selector pins, for authorization and its words."""
    for text in request.params.get("fieldSelector", ()):
        for term in text.split(","):
            if term.startswith("metadata.name="):
                return term.removeprefix("metadata.name=").lstrip("=")
    return ""
