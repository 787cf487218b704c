"""The last handler: find the endpoint of a path, call the resource's verb, and encode the result."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from datetime import datetime
from functools import partial
from time import monotonic
from typing import Any, Final, TypeVar

from apiserver.api.errors.status import StatusError
from apiserver.api.schema.language import ListOf, MapOf, Struct, Type
from apiserver.api.values.durations import parse_duration
from apiserver.http.documents.index import Documents
from apiserver.http.formats.answers import json_response, list_response, render_object
from apiserver.http.formats.negotiation import (
    JSON,
    PLAIN,
    PROTOBUF,
    ResponseFormat,
    negotiate_stream,
    response_format,
)
from apiserver.http.formats.table import parse_include_object
from apiserver.http.formats.view import View
from apiserver.http.formats.watch import chunks, event_encoder, objects
from apiserver.http.formats.websocket import asks_for_websocket, over_websocket
from apiserver.http.handlers.routes import Endpoint, Routes
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.converter import request_version
from apiserver.registry.definition.metadata import check_name
from apiserver.registry.store.results import Result, WatchEvent
from apiserver.registry.store.store import Store
from apiserver.registry.verbs.connect import connect
from apiserver.registry.verbs.create import create
from apiserver.registry.verbs.delete import delete
from apiserver.registry.verbs.deletecollection import delete_collection
from apiserver.registry.verbs.get import get, get_present
from apiserver.registry.verbs.list import list_, list_present
from apiserver.registry.verbs.patch import check_patch_type, patch
from apiserver.registry.verbs.update import update
from apiserver.registry.verbs.watch import watch
from apiserver.request.messages import MAX_BODY, Request, Response, Stream
from apiserver.runtime.offload import LONG, is_on_loop, run_in_own_thread, run_in_thread
from apiserver.storage.watchcache.entry import Entry

T = TypeVar("T")
#: Returns the warnings of a new object, by group and resource.
Unattended = Mapping[tuple[str, str], Callable[[Any, bool], list[str]]]

#: Maximal request timeout in seconds.
_LONGEST_SECONDS: Final = 60.0
#: Fields that are expressions, or the rules of schemas.
_EXPRESSIONS: Final = frozenset({"expression", "x-kubernetes-validations"})
#: Maximal bytes of expressions to compile on the loop: about 10 ms per KiB.
_TERSE: Final = 2048
#: Maximal bytes of a query whose selectors are compiled on the loop: about 2 ms per KiB.
_SHORT_QUERY: Final = 2048

#: Verbs with selectors whose work may be offloaded. A watch is opened in a thread, but lives on the loop.
_SELECTING: Final = frozenset({"list", "deletecollection"})

_WRITES: Final[Mapping[str, Callable[..., Coroutine[Any, Any, Result]]]] = {
    "create": create,
    "update": update,
    "patch": patch,
}


class Dispatch:
    """Answers the requests that passed all other handlers. `streams` are the open watches with their requests."""

    def __init__(
        self, routes: Routes, documents: Documents, clock: Callable[[], datetime], unattended: Unattended
    ) -> None:
        """Create the handler.

        `unattended`, by group and resource, returns the warnings about a written object, given whether it is new.
        """
        self._routes, self._documents, self._clock, self._unattended = routes, documents, clock, unattended
        self.streams: dict[Stream, Request] = {}

    def try_fast(self, request: Request) -> Response | None:
        """Return the present state if only this server writes it, and its form is stored or small."""
        info, endpoint = request.info, self._routes.find(request)
        store, view = endpoint.store, endpoint.view
        if store.registry.shared or store.resource.is_read_async:
            return None
        if "%" in info.name or info.name in (".", ".."):
            return None
        chosen, namespace = response_format(request, bare=endpoint.bare), info.namespace if endpoint.namespaced else ""
        at = request.time = store.registry.clock()
        if info.verb == "get":
            entry = get_present(store, namespace, info.name)
            if chosen is not PLAIN and len(entry.tail) > LONG:
                return None
            return _object_response(request, chosen, view, entry, at)
        if chosen is PLAIN and view.stored:
            return Response(200, view.list(list_present(store, namespace)))
        return None

    def handle(self, request: Request) -> Awaitable[Response | Stream]:
        long = len(request.body) > LONG and request.info.resource and request.method != "GET"
        if long or (len(request.query) > _SHORT_QUERY and request.info.verb in _SELECTING):
            return run_in_thread(self._handle(request))
        return self._handle(request)

    async def _handle(self, request: Request) -> Response | Stream:
        if not request.info.resource:
            return await self._documents.answer(request)
        endpoint, info, user = self._routes.find(request), request.info, request.user
        assert user is not None, "the authentication handler runs first"
        namespace = info.namespace if endpoint.namespaced else ""
        ctx = endpoint.store.context(user, info.version, info.verb, namespace, info.name, info.subresource)
        request.time, ctx.agent = ctx.now, request.headers.get("user-agent", "")
        if "timeout" in request.query:
            ctx.deadline = _deadline(request)
        ctx.warnings += request.warnings
        ctx.annotations.update(request.annotations)
        request.warnings, request.annotations = ctx.warnings, ctx.annotations
        if ctx.verb != "update":  # an update first compares the name with that in the body
            check_name(ctx.name)
        if endpoint.connect is not None:
            assert endpoint.subresource is not None, "only subresources connect"
            answer = await connect(endpoint.store, ctx, request, endpoint.subresource)
            return self._track_stream(answer, request) if isinstance(answer, Stream) else answer
        if ctx.verb == "watch":
            chosen = negotiate_stream(request.headers.get("accept", ""))
            opening = _open_watch(endpoint.store, ctx, request)
            events = await (run_in_thread(opening) if len(request.query) > _SHORT_QUERY else opening)
            return self._watch(request, chosen, endpoint, events)
        if endpoint.custom and ctx.verb == "patch":  # the router has not checked it
            check_patch_type(request, custom=True)
        chosen = response_format(request, tables=endpoint.tables, bare=endpoint.bare)
        if len(request.body) > MAX_BODY:
            raise StatusError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {MAX_BODY}")
        write = _WRITES.get(ctx.verb)
        if write is None:
            return await _READS[ctx.verb](request, chosen, endpoint, ctx)
        if endpoint.store.resource.conversion is None and not _is_expensive(endpoint.store, ctx, request):
            result = await write(endpoint.store, ctx, request)
        else:
            result = await _run_write(write, endpoint.store, ctx, request)
        code = 201 if result.created else 200
        self._warn(request, ctx, result)
        if result.body is not None or result.entry is None:
            return json_response(chosen, endpoint.store.registry.kinds, result.body or {}, code)
        return _object_response(request, chosen, endpoint.view, result.entry, ctx.now, code)

    def _warn(self, request: Request, ctx: Context, result: Result) -> None:
        """Add the warnings about an object without effect."""
        judge = self._unattended.get((request.info.group, request.info.resource))
        if judge is not None and result.entry is not None and not request.info.subresource:
            ctx.warnings += judge(result.entry.obj, result.created)

    def _watch(
        self, request: Request, chosen: ResponseFormat, endpoint: Endpoint, events: AsyncIterator[list[WatchEvent]]
    ) -> Stream:
        encoder, content_type = event_encoder(request, chosen, endpoint.view)
        stream = Stream(200, content_type)
        stream.chunks = chunks(stream, events, encoder, self._clock)
        if not chosen.shape and chosen.media == JSON:
            stream.objects = partial(objects, stream, events, endpoint.view, endpoint.store.cache)
        if "upgrade" in request.headers and asks_for_websocket(request.headers):
            stream = over_websocket(stream, request.headers, binary=chosen.media == PROTOBUF)
        return self._track_stream(stream, request)

    def _track_stream(self, stream: Stream, request: Request) -> Stream:
        self.streams[stream] = request
        stream.when_ended.append(lambda: self.streams.pop(stream, None))
        return stream


async def _open_watch(store: Store, ctx: Context, request: Request) -> AsyncIterator[list[WatchEvent]]:
    """Return the events of a watch, which belong to the server's loop."""
    return watch(store, ctx, request)


def _object_response(
    request: Request, chosen: ResponseFormat, view: View, entry: Entry, now: datetime, code: int = 200
) -> Response:
    """Build the response with one object. Raise 400 and 406."""
    if chosen is PLAIN and view.stored:
        return Response(code, view.line(entry))
    body = render_object(view, chosen, entry, now, parse_include_object(request, chosen))
    return Response(code, body, chosen.media)


def _deadline(request: Request) -> float | None:
    """Return the client's deadline, by `time.monotonic`, from the parameter that authentication has validated.

    Facts: apiserver, pkg/endpoints/filters/request_deadline.go.
    """
    try:
        seconds = parse_duration(request.params.get("timeout", ("0",))[0]).total_seconds()
    except ValueError:  # nanoseconds or negative: no deadline
        return None
    return monotonic() + min(seconds, _LONGEST_SECONDS) if seconds > 0 else None


def _run_write(
    write: Callable[[Store, Context, Request], Coroutine[Any, Any, T]], store: Store, ctx: Context, request: Request
) -> Awaitable[T]:
    """Run a write in the right thread.

    Kinds with a conversion webhook run in a thread that may wait for it (`Conversion.between`). Long writes run in the
    thread for long requests.
    """
    if store.resource.conversion is None:
        if _is_expensive(store, ctx, request) and is_on_loop():
            return run_in_thread(write(store, ctx, request))
        return write(store, ctx, request)
    request_version.set(ctx.version)
    return run_in_own_thread(write(store, ctx, request))


def _is_expensive(store: Store, ctx: Context, request: Request) -> bool:
    """Return whether a write may take long despite a small body.

    It does if the stored object is large, the rules are expensive, or expressions need compilation.
    """
    resource = store.resource
    if ctx.name:
        entry = store.cache.get(store.key(ctx.namespace, ctx.name))
        if entry is not None and len(entry.tail) > LONG:
            return True
    if len(request.body) > _TERSE and _has_expressions(resource.hub_schema):
        return True
    return store.takes_long is not None and store.takes_long(ctx.version)


def _has_expressions(schema: Struct) -> bool:
    """Return whether objects have expressions, which validation compiles."""
    known: bool | None = schema.cache.get("expressions")
    if known is None:
        known = schema.cache["expressions"] = any(not _EXPRESSIONS.isdisjoint(each.fields) for each in _structs(schema))
    return known


def _structs(schema: Struct) -> Iterator[Struct]:
    """Yield a type and all types that it contains."""
    pending: list[Type] = [schema]
    seen: set[int] = set()
    while pending:
        type_ = pending.pop()
        if isinstance(type_, ListOf):
            pending.append(type_.item)
        elif isinstance(type_, MapOf):
            pending.append(type_.value)
        elif isinstance(type_, Struct) and id(type_) not in seen:
            seen.add(id(type_))
            yield type_
            pending += [each.type for each in type_.fields.values()]


async def _get(request: Request, chosen: ResponseFormat, endpoint: Endpoint, ctx: Context) -> Response:
    entry = await get(endpoint.store, ctx, request)
    if endpoint.projector is not None:
        endpoint.projector.check(entry)
        entry = endpoint.projector.project_entry(entry)
    if len(entry.tail) > LONG:
        return await asyncio.to_thread(_object_response, request, chosen, endpoint.view, entry, ctx.now)
    return _object_response(request, chosen, endpoint.view, entry, ctx.now)


async def _list(request: Request, chosen: ResponseFormat, endpoint: Endpoint, ctx: Context) -> Response:
    listing = await list_(endpoint.store, ctx, request)
    answer = list_response(request, chosen, endpoint.view, listing, ctx.now)
    # Other requests run between the items of a list; within one item only if a thread encodes it.
    if chosen is not PLAIN and any(len(entry.tail) > LONG for entry in listing.entries):
        return await run_in_thread(answer)
    return await answer


async def _delete(request: Request, chosen: ResponseFormat, endpoint: Endpoint, ctx: Context) -> Response:
    deleted = await _run_write(delete, endpoint.store, ctx, request)
    if deleted.status is not None:
        return json_response(chosen, endpoint.store.registry.kinds, deleted.status, deleted.code)
    return _object_response(request, chosen, endpoint.view, deleted.entry, ctx.now, deleted.code)


async def _delete_collection(request: Request, chosen: ResponseFormat, endpoint: Endpoint, ctx: Context) -> Response:
    deleted = await _run_write(delete_collection, endpoint.store, ctx, request)
    return await list_response(request, chosen, endpoint.view, deleted, ctx.now)


_READS: Final[Mapping[str, Callable[..., Awaitable[Response]]]] = {
    "get": _get,
    "list": _list,
    "delete": _delete,
    "deletecollection": _delete_collection,
}
