"""The handler for clients that use CBOR. It is in the chain only with CBORServingAndStorage.

Later handlers use JSON: request bodies in CBOR are converted to JSON, and responses in JSON to CBOR if the client
prefers it. Refusals of earlier handlers (401, 403) are JSON, as upstream's. Resources of aggregated servers are passed
unchanged.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from itertools import count
from typing import Any, Final, cast

import orjson

from apiserver.api.codec import cbor
from apiserver.api.codec.bodies import DecodeError
from apiserver.api.errors.status import StatusError, bad_request
from apiserver.http.formats.errors import error_response
from apiserver.http.formats.negotiation import ACCEPTED, JSON, STREAMED, Clause, clauses
from apiserver.http.handlers.chain import Handler
from apiserver.http.handlers.routes import Routes
from apiserver.registry.body.decode import media_type, summary
from apiserver.request.messages import MAX_BODY, ConnectionClosed, Request, Response, Stream
from apiserver.runtime.offload import LONG

__all__ = ["Cbor"]

CBOR: Final = "application/cbor"
_SEQUENCE: Final = "application/cbor-seq"
_BODIES: Final = {CBOR: JSON, "application/apply-patch+cbor": "application/apply-patch+yaml"}
_SWITCHING: Final = 101
_OBJECTS: Final = frozenset({"create", "update"})
_TYPE: Final = "v1.TypeMeta"
_MAP: Final = "map[string]interface {}"
#: Documents that are objects only if the client requests their kind.
_PAGES: Final = ("/statusz", "/flagz")
#: A clause that passes the router but matches no available format.
_NEVER: Final = "application/json;as=nothing"
_AS_JSON: Final = frozenset({JSON, "*/*", "application/*"})


class Cbor:
    """The link of the chain; `routes` provide the expected kind of a request's body."""

    next: Handler

    def __init__(self, routes: Routes) -> None:
        self._routes, self._turns = routes, count()

    def try_fast(self, request: Request) -> Response | None:
        if CBOR in request.headers.get("accept", ""):
            return None
        try:
            return self.next.try_fast(request)
        except StatusError as error:
            raise _add_cbor_types(error) from None

    async def handle(self, request: Request) -> Response | Stream:
        accept, content = request.headers.get("accept", ""), media_type(request.headers.get("content-type", ""))
        served = self._routes.serves(request.info) is not None if request.info.resource else request.path in _PAGES
        if not served or (CBOR not in accept and content not in _BODIES):
            try:
                return await self.next.handle(request)
            except StatusError as error:
                raise _add_cbor_types(error) from None
        answer: Response | Stream
        request.headers = {**request.headers, "accept": _without_cbor(accept)}
        try:
            await self._open_body(request, content)
            answer = await self.next.handle(request)
        except ConnectionClosed:
            raise
        except Exception as error:  # noqa: BLE001 - each kind has its answer
            answer = error_response(request, _add_cbor_types(error) if isinstance(error, StatusError) else error)
        return await self._convert_response(answer, clauses(accept))

    async def _open_body(self, request: Request, media: str) -> None:
        """Convert a body in CBOR to JSON; too long ones are left for the 413. Raise StatusError (400)."""
        verb, body = request.info.verb, request.body
        if media not in _BODIES:
            return
        request.headers = {**request.headers, "content-type": _BODIES[media]}
        if len(body) > MAX_BODY or (media == CBOR and verb not in _OBJECTS and (verb == "patch" or not body)):
            return
        try:
            made = await asyncio.to_thread(cbor.to_json, body) if len(body) > LONG else cbor.to_json(body)
            if made[:1] != b"{" and made != b"null":
                raise DecodeError(_no_object(cbor.type_of(body), _TYPE if media == CBOR else _MAP))
            request.body = made
        except DecodeError as error:
            if media != CBOR:
                # (upstream's term)
                raise bad_request(f"error decoding YAML: {error}") from None
            what = f"unable to determine group/version/kind: {error}"
            kind = self._routes.kind_of(request.info)
            if kind and verb in _OBJECTS:
                what = f"the object provided is unrecognized (must be of type {kind}): {what} ({summary(body)})"
            raise bad_request(what) from None

    async def _convert_response(self, answer: Response | Stream, clauses: list[Clause]) -> Response | Stream:
        """Convert a JSON response to CBOR if the client prefers it."""
        if answer.content_type != JSON or answer.status == _SWITCHING:
            return answer
        if isinstance(answer, Stream):
            if _first(clauses, None):
                answer.content_type, answer.chunks = _SEQUENCE, self._events(answer.chunks)
                answer.objects = None
            return answer
        body = (
            await asyncio.to_thread(orjson.loads, answer.body) if len(answer.body) > LONG else orjson.loads(answer.body)
        )
        if not _first(clauses, _shape_of(body)):
            return answer
        answer.content_type, turn = CBOR, next(self._turns)
        long = len(answer.body) > LONG
        answer.body = await asyncio.to_thread(cbor.dumps, body, turn) if long else cbor.dumps(body, turn)
        return answer

    async def _events(self, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async with aclosing(cast("Any", lines)):
            async for chunk in lines:
                events = (orjson.loads(line) for line in chunk.splitlines())
                yield b"".join(cbor.dumps_event(event["type"], event["object"], next(self._turns)) for event in events)


def _without_cbor(accept: str) -> str:
    """Replace CBOR by JSON in an Accept header. Tables have no CBOR, and sequences are only for watches."""
    parts = []
    for part in accept.split(","):
        media, *rest = (piece.strip() for piece in part.split(";"))
        if media == _SEQUENCE or (media == CBOR and "as=Table" in rest):
            parts.append(_NEVER)
        else:
            parts.append(";".join([JSON if media == CBOR else media, *rest]))
    return ",".join(parts)


def _add_cbor_types(error: StatusError) -> StatusError:
    """Add the media types of CBOR to the message of an error; return others unchanged."""
    if error.code in (406, 415):
        text = error.message.replace(STREAMED, f"{STREAMED}, {_SEQUENCE}").replace(ACCEPTED, f"{ACCEPTED}, {CBOR}")
        return StatusError(error.code, error.reason, text, error.details)
    return error


def _no_object(what: str, type_: str) -> str:
    """Return the message for an item that is no map."""
    why = " (cannot decode CBOR array to struct without toarray option)" if (what, type_) == ("array", _TYPE) else ""
    return f"cbor: cannot unmarshal {what} into Go value of type {type_}{why}"


def _shape_of(obj: Any) -> str:
    """Return the shape of a response: "" for the object itself."""
    if isinstance(obj, dict) and str(obj.get("apiVersion", "")).startswith(("meta.k8s.io/", "config.k8s.io/")):
        return str(obj.get("kind", ""))
    return ""


def _first(clauses: list[Clause], shape: str | None) -> bool:
    """Return whether CBOR is preferred to all alternatives in JSON of a shape (None: any)."""
    for clause in clauses:
        if shape is None or clause.params.get("as", "") == shape:
            if clause.media == CBOR:
                return True
            if clause.media in _AS_JSON:
                return False
    return False
