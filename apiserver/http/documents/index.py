"""Paths that name no resource: discovery, version, health, metrics, OpenAPI, the list of paths."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import orjson

from apiserver.api.errors.status import PlainError, method_not_allowed, unknown_resource
from apiserver.http.documents.discovery import AGGREGATED, Discovery
from apiserver.http.documents.health import HEALTH, Health
from apiserver.http.documents.issuer import Issuer
from apiserver.http.documents.secret_tokens import PATH, Sign, answer_secret_token
from apiserver.http.documents.zpages import About, ZPages
from apiserver.http.formats.encoding import encode
from apiserver.http.formats.negotiation import (
    JSON,
    PROTOBUF,
    check_produced,
    check_routed,
    clauses,
    is_pretty,
    negotiate_plain,
)
from apiserver.request.messages import Request, Response
from apiserver.runtime.metrics import CONTENT_TYPE

_NO_PAGE: Final = "404 page not found"


def _names_version(parts: Sequence[str]) -> bool:
    """Return whether a split path begins with that of a group's version."""
    return parts[1:2] == ["api"] or (parts[1:2] == ["apis"] and all(parts[2:4]))


class Documents:
    """Responses for all paths except resources.

    `openapi`, `metrics` and `sign` are called when needed; `pages` are the enabled ones of /statusz and /flagz.
    """

    def __init__(
        self, discovery: Discovery, version: Mapping[str, str], health: Health, metrics: Callable[[], Awaitable[bytes]],
        openapi: Callable[[Request], Awaitable[Response | None]], issuer: Issuer, pages: Sequence[str], about: About,
        sign: Sign,
    ) -> None:  # fmt: skip
        self._discovery, self._version, self._health = discovery, version, health
        self._metrics, self._openapi, self._issuer, self._sign = metrics, openapi, issuer, sign
        self._zpages = ZPages(pages, about, self._paths)
        self._started = (("Process-Start-Time-Unix", str(int(about.started.timestamp()))),)
        self._aggregated: dict[tuple[bool, str], tuple[bytes, str]] = {}

    def clear_cache(self) -> None:
        """Drop all cached documents after a change of the served resources."""
        self._aggregated.clear()

    async def answer(self, request: Request) -> Response:
        """Return the document at a path. Raise upstream's 404 and 405."""
        parts = request.path.strip("/").split("/")
        head = parts[0]
        if "//" in request.path:
            raise unknown_resource() if _names_version(request.path.split("/")) else PlainError(404, _NO_PAGE)
        if head in ("api", "apis"):
            return self._discover(request, parts)
        if head in HEALTH and not request.path.endswith("/"):
            return await self._health.answer(request, head, parts[1:])
        if parts == ["metrics"]:
            return Response(200, await self._metrics(), CONTENT_TYPE, self._started)
        if head == "openapi":
            found = await self._openapi(request)
            if found is None:
                raise PlainError(404, _NO_PAGE)
            return found
        return await self._answer_other_path(request, parts)

    async def _answer_other_path(self, request: Request, parts: list[str]) -> Response:
        path = "/".join(parts)
        if path == "version":
            if request.method != "GET":
                raise method_not_allowed()
            check_produced(request.headers.get("accept", ""), JSON)
            return Response(200, orjson.dumps(dict(self._version), option=orjson.OPT_INDENT_2))
        if path == "metrics/slis":
            return Response(200, self._health.indicators().encode(), CONTENT_TYPE)
        if path in self._zpages.pages:
            return self._zpages.answer(request, path)
        if path in self._issuer.paths:
            if request.method != "GET":
                raise method_not_allowed()
            return await self._issuer.answer(request, path)
        if path == PATH:
            return await answer_secret_token(request, self._sign)
        if path.startswith(tuple(f"{served}/" for served in self._issuer.paths)):
            raise unknown_resource()
        if path == "":
            return Response(200, orjson.dumps({"paths": self._paths()}, option=orjson.OPT_INDENT_2))
        raise PlainError(404, _NO_PAGE)

    def _paths(self) -> list[str]:
        upstreams = ["/healthz", "/livez", "/metrics", "/metrics/slis", "/openapi/v2", "/openapi/v3", "/readyz"]
        upstreams += [f"/{path}" for path in (*self._issuer.paths, *self._zpages.pages)]
        # kubedra's own (apiserver/http/admin).
        own = ["/-/", "/docs", "/openapi.json"]
        return sorted(["/version", *upstreams, *own, *self._discovery.paths(), *self._health.paths()])

    def _discover(self, request: Request, parts: list[str]) -> Response:
        if len(parts) == 1:
            _check_method(request, any_method=parts[0] == "apis")
            return self._root(request, core=parts[0] == "api")
        group, rest = ("", parts[1:]) if parts[0] == "api" else (parts[1], parts[2:])
        if group and not self._discovery.versions(group):
            raise PlainError(404, _NO_PAGE)
        if rest and rest[0] not in self._discovery.versions(group):
            if self._discovery.custom(group):
                raise PlainError(404, _NO_PAGE)
            raise unknown_resource()
        routed = bool(rest) and not self._discovery.custom(group)
        _check_method(request, any_method=not routed)
        if routed:
            check_routed("get", request.headers)
        body = self._discovery.resource_list(group, rest[0]) if rest else self._discovery.group(group)
        return self._negotiated(request, body)

    def _root(self, request: Request, *, core: bool) -> Response:
        """Return /api or /apis, in the aggregated form if the client prefers it."""
        for clause in clauses(request.headers.get("accept", "")):
            if clause.params.get("as") == "APIGroupDiscoveryList":
                if (
                    clause.media in (JSON, PROTOBUF)
                    and clause.params.get("g") == "apidiscovery.k8s.io"
                    and clause.params.get("v") == "v2"
                ):
                    return self._tagged(request, clause.media, core=core)
            elif clause.media in (JSON, PROTOBUF, "application/yaml", "*/*", "application/*"):
                break
        if core:
            check_routed("get", request.headers)
        return self._negotiated(request, self._discovery.core() if core else self._discovery.group_list())

    def _tagged(self, request: Request, media: str, *, core: bool) -> Response:
        """Return the aggregated form, or 304 if the client has it.

        The ETag is that of the JSON in all media types.
        """
        made = self._aggregated.get((core, media))
        if made is None:
            document = self._discovery.aggregated(core=core)
            tag = hashlib.sha512(encode(JSON, document)).hexdigest().upper()
            made = self._aggregated[core, media] = (encode(media, document), f'"{tag}"')
        body, tag = made
        content_type = media + AGGREGATED
        headers = (("ETag", tag), ("Vary", "Accept"), ("Cache-Control", "public"))
        if request.headers.get("if-none-match") == tag:
            return Response(304, b"", content_type, headers)
        return Response(200, body, content_type, headers)

    def _negotiated(self, request: Request, body: dict[str, Any]) -> Response:
        chosen = negotiate_plain(request.headers.get("accept", ""))
        return Response(200, encode(chosen.media, body, pretty=is_pretty(request, chosen)), chosen.media)


def _check_method(request: Request, *, any_method: bool) -> None:
    """Raise 405 for methods other than GET. Upstream's documents of groups accept any method."""
    if request.method != "GET" and not any_method:
        raise method_not_allowed()
