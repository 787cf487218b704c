"""/openapi/v2 and /openapi/v3: the documents written by `python -m apiserver.openapi`, reduced to the served APIs.

Nothing is read at start. Documents are built in a thread, one at a time, and kept (`openapi_documents.py`). Version 2
is also served in protobuf (the only form that kubectl requests).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import orjson

from apiserver.api.features.gates import Release
from apiserver.http.documents.openapi_documents import DIRECTORY, Document, ServedDocuments, digest, file_name
from apiserver.http.formats.negotiation import JSON, clauses
from apiserver.registry.definition.resource import Resource, Version
from apiserver.request.messages import Request, Response
from apiserver.runtime.clock import now

if TYPE_CHECKING:
    from apiserver.aggregation.servers import Server

__all__ = ["OpenApi"]


Headers = tuple[tuple[str, str], ...]

_VARY: Final = (("Vary", "Accept"),)
#: Upstream compresses version 2 for clients that accept it.
_VARY_V2: Final = (("Vary", "Accept-Encoding"), *_VARY)
_RANGES: Final = (("Accept-Ranges", "bytes"),)
#: Maximal number of documents whose time is known.
_MOST: Final = 1000
_PROTOBUF: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_PROTOBUF_OLD: Final = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"


class OpenApi:
    """The documents of one server that emulates a release.

    `served` holds each resource with each served version, `written` the resources in the files. The documents of other
    resources are built here.
    """

    def __init__(
        self,
        served: Iterable[tuple[Resource, Version]],
        written: Iterable[Resource],
        release: Release,
        directory: Path = DIRECTORY,
    ) -> None:
        by_name = {(resource.group, resource.plural): resource for resource in written}
        self._documents = ServedDocuments((), by_name, release, directory)
        self._remote: dict[str, str] = {}
        #: The time of the first response with a document, by ETag.
        self._made: dict[str, datetime] = {}
        self._building = asyncio.Lock()
        self.set_served(served)

    def set_served(self, served: Iterable[tuple[Resource, Version]]) -> None:
        """Replace the served resources."""
        self._documents = self._documents.serving(served)
        self._index: Document | None = None

    def set_remote(self, servers: Iterable[Server]) -> None:
        """Add the APIs of aggregated servers.

        Their documents of version 3 are listed with their addresses. Those of version 2 are merged into this server's.
        """
        servers = _by_priority(servers)
        self._remote = {
            server.remote.path.strip("/"): server.description.address
            for server in servers
            if server.description.address
        }
        self._index = None
        swaggers = [server.description.swagger for server in servers if server.description.swagger]
        if swaggers != self._documents.swaggers:
            self._documents = self._documents.merging(swaggers)

    async def answer(self, request: Request) -> Response | None:
        """Return the response to a path below /openapi, or None for an unknown path."""
        path = request.path.rstrip("/")
        if path == "/openapi/v2":
            return await self._version_2(request)
        if path == "/openapi/v3":
            body, _ = await self._v3_index()
            # As upstream: made for each request, and without ETag.
            headers = (*_RANGES, ("Last-Modified", _http_date(now())))
            return Response(200, body, "text/plain; charset=utf-8", headers)
        if path.startswith("/openapi/v3/"):
            return await self._version_3(request, path.removeprefix("/openapi/v3/"))
        return None

    async def _document(self, name: str, documents: ServedDocuments | None = None) -> Document:
        """Return a document, built in a thread."""
        documents = documents or self._documents
        known = documents.documents.get(name)
        if known is None:
            async with self._building:
                known = await asyncio.to_thread(documents.document, name)
        return known

    async def _version_2(self, request: Request) -> Response:
        for clause in clauses(request.headers.get("accept", "") or "*/*"):
            if clause.media in (JSON, "*/*", "application/*"):
                body, etag = await self._document("v2.json")
                return self._answer(request, body, etag, JSON, _VARY_V2)
            if clause.media in (_PROTOBUF, _PROTOBUF_OLD):
                # Both forms have one ETag: Vary distinguishes them.
                body, _ = await self._document("v2.pb")
                _, etag = await self._document("v2.json")
                return self._answer(request, body, etag, _PROTOBUF, _VARY_V2)
        return Response(406, b"", "", _VARY_V2)

    async def _version_3(self, request: Request, name: str) -> Response:
        if name not in self._documents.names:
            return Response(404, b"", "")
        body, etag = await self._document(file_name(name))
        if not any(
            clause.media in (JSON, "*/*", "application/*")
            for clause in clauses(request.headers.get("accept", "") or "*/*")
        ):
            return Response(406, b"", "", _VARY)
        wanted = request.params.get("hash", ("",))[0]
        if wanted and wanted != etag:
            return Response(301, b"", "", (*_VARY, ("Location", _url(name, etag))))
        if not wanted:
            return self._answer(request, body, etag, JSON, _VARY)
        expires = format_datetime(now() + timedelta(days=365), usegmt=True)
        fresh = (("Cache-Control", "public, immutable"), ("Expires", expires))
        return self._answer(request, body, etag, JSON, (*_VARY, *fresh))

    def _answer(self, request: Request, body: bytes, etag: str, content_type: str, headers: Headers) -> Response:
        """Return a document, or 304 if the client has it."""
        if len(self._made) >= _MOST and etag not in self._made:
            self._made.clear()
        made = _http_date(self._made.setdefault(etag, now()))
        headers = (("Etag", f'"{etag}"'), *headers)
        if given := request.headers.get("if-none-match", ""):
            matches = {tag.strip().removeprefix("W/") for tag in given.split(",")}
            known = f'"{etag}"' in matches or "*" in matches
        else:
            known = request.headers.get("if-modified-since", "") == made
        if known:
            return Response(304, b"", "", headers)
        return Response(200, body, content_type, (*_RANGES, ("Last-Modified", made), *headers))

    async def _v3_index(self) -> Document:
        """Return the list of version 3 documents, each with its hash for caching."""
        if self._index is not None:
            return self._index
        documents, paths = self._documents, {}
        for name in documents.names:
            _, etag = await self._document(file_name(name), documents)
            paths[name] = {"serverRelativeURL": _url(name, etag)}
        paths |= {name: {"serverRelativeURL": address} for name, address in self._remote.items()}
        body = orjson.dumps({"paths": paths})
        index = body, digest(body)
        if documents is self._documents:
            self._index = index
        return index


def _by_priority(servers: Iterable[Server]) -> list[Server]:
    """Sort servers in the merge order of their documents (kube-aggregator's priority.go)."""
    servers = list(servers)
    groups: dict[str, int] = {}
    for server in servers:
        remote = server.remote
        groups[remote.group] = max(groups.get(remote.group, remote.group_priority), remote.group_priority)
    return sorted(servers, key=lambda server: (-groups[server.remote.group], server.remote.name))


def _url(name: str, etag: str) -> str:
    return f"/openapi/v3/{name}?hash={etag}"


def _http_date(at: datetime) -> str:
    return format_datetime(at.astimezone(UTC).replace(microsecond=0), usegmt=True)
