"""Paths that name no resource: discovery, version, health, metrics, OpenAPI, the list of paths."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import orjson

from apiserver.api.metrics import CONTENT_TYPE
from apiserver.api.status import PlainError, method_not_allowed, unknown_resource
from apiserver.http.documents.discovery import AGGREGATED, Discovery
from apiserver.http.formats import negotiation
from apiserver.http.formats.negotiation import JSON, PROTOBUF, clauses, negotiate_plain
from apiserver.messages import Request, Response

Check = Callable[[], Awaitable[str]]
_TEXT: Final = "text/plain; charset=utf-8"
_HEALTH: Final = ("healthz", "livez", "readyz")
#: What a server must be that is sent requests, and need not be to live.
_ONLY_READY: Final = frozenset({"informer-sync", "shutdown"})
_NO_SNIFF: Final = (("X-Content-Type-Options", "nosniff"),)

log = logging.getLogger(__name__)


class Documents:
    """Answers for everything but resources. `checks` give "" when well, else what is wrong; `openapi` and `metrics` are
    asked when needed.
    """

    def __init__(
        self, discovery: Discovery, version: Mapping[str, str], checks: Mapping[str, Check], metrics: Callable[[], str],
        openapi: Callable[[Request], Response | None],
    ) -> None:  # fmt: skip
        self._discovery, self._version, self._checks, self._metrics, self._openapi = (
            discovery,
            version,
            checks,
            metrics,
            openapi,
        )
        self._aggregated: dict[tuple[bool, str], tuple[bytes, str]] = {}

    def forget(self) -> None:
        """Other resources are served now: nothing that was made of the old ones is given any more."""
        self._aggregated.clear()

    async def answer(self, request: Request) -> Response:
        """The document at a path. Raises the 404 and 405 that upstream gives."""
        parts = request.path.strip("/").split("/")
        head = parts[0]
        if head in ("api", "apis"):
            return self._discover(request, parts)
        if head in _HEALTH:
            return await self._health(request, head, parts[1:])
        if head == "openapi":
            found = self._openapi(request)
            if found is None:
                raise PlainError(404, "404 page not found")
            return found
        return self._other(request, parts)

    def _other(self, request: Request, parts: list[str]) -> Response:
        path = "/".join(parts)
        if path == "version":
            if request.method != "GET":
                raise method_not_allowed()
            return Response(200, orjson.dumps(dict(self._version), option=orjson.OPT_INDENT_2))
        if path == "metrics":
            text, content_type = self._metrics(), CONTENT_TYPE
            return Response(200, text.encode(), content_type)
        if path == "":
            return Response(200, orjson.dumps({"paths": self._paths()}, option=orjson.OPT_INDENT_2))
        raise PlainError(404, "404 page not found")

    def _paths(self) -> list[str]:
        own = ["/-/", "/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz", "/version"]
        health = [
            f"/{kind}/{name}"
            for kind in _HEALTH
            for name in self._checks
            if kind == "readyz" or name not in _ONLY_READY
        ]
        return sorted([*self._discovery.paths(), *own, *health])

    def _discover(self, request: Request, parts: list[str]) -> Response:
        if len(parts) == 1:
            _check_method(request, any_method=parts[0] == "apis")
            return self._root(request, core=parts[0] == "api")
        group, rest = ("", parts[1:]) if parts[0] == "api" else (parts[1], parts[2:])
        if group and not self._discovery.versions(group):
            raise PlainError(404, "404 page not found")
        if rest and rest[0] not in self._discovery.versions(group):
            raise unknown_resource()
        _check_method(request, any_method=not rest)
        if rest:
            negotiation.check_routed("get", request.headers)
        body = self._discovery.resource_list(group, rest[0]) if rest else self._discovery.group(group)
        return self._negotiated(request, body)

    def _root(self, request: Request, *, core: bool) -> Response:
        """/api or /apis: the aggregated form where it is asked for first."""
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
            negotiation.check_routed("get", request.headers)
        return self._negotiated(request, self._discovery.core() if core else self._discovery.group_list())

    def _tagged(self, request: Request, media: str, *, core: bool) -> Response:
        """The aggregated form, which a client that has it already need not get again. The tag is that of the JSON in
        all media types.
        """
        made = self._aggregated.get((core, media))
        if made is None:
            document = self._discovery.aggregated(core=core)
            tag = hashlib.sha512(negotiation.encode(JSON, document)).hexdigest().upper()
            made = self._aggregated[core, media] = (negotiation.encode(media, document), f'"{tag}"')
        body, tag = made
        content_type = media + AGGREGATED
        headers = (("ETag", tag), ("Vary", "Accept"), ("Cache-Control", "public"))
        if request.headers.get("if-none-match") == tag:
            return Response(304, b"", content_type, headers)
        return Response(200, body, content_type, headers)

    def _negotiated(self, request: Request, body: dict[str, Any]) -> Response:
        form = negotiate_plain(request.headers.get("accept", ""))
        pretty = form.pretty or negotiation.wants_pretty(request.params, request.headers.get("user-agent", ""))
        return Response(200, negotiation.encode(form.media, body, pretty=pretty), form.media)

    async def _health(self, request: Request, kind: str, rest: list[str]) -> Response:
        """Health as a whole or of one check. Reasons are for the log: whoever asks may be anybody."""
        checks = {name: check for name, check in self._checks.items() if name not in _ONLY_READY or kind == "readyz"}
        if rest:
            if rest[0] not in checks or len(rest) > 1:
                raise PlainError(404, "404 page not found")
            problem = await checks[rest[0]]()
            if problem:
                return Response(500, f"internal server error: {problem}\n".encode(), _TEXT, _NO_SNIFF)
            return Response(200, b"ok", _TEXT, _NO_SNIFF)
        excluded = request.params.get("exclude", [])
        failed, lines = [], []
        for name, check in checks.items():
            if name in excluded:
                lines.append(f"[+]{name} excluded: ok\n")
            elif problem := await check():
                log.warning("%s check %s failed: %s", kind, name, problem)
                failed.append(name)
                lines.append(f"[-]{name} failed: reason withheld\n")
            else:
                lines.append(f"[+]{name} ok\n")
        unknown = sorted({name for name in excluded if name not in checks})
        if unknown:
            names = ",".join(f'"{name}"' for name in unknown)
            lines.append(f"warn: some health checks cannot be excluded: no matches for {names}\n")
        if failed:
            return Response(500, f"{''.join(lines)}{kind} check failed\n".encode(), _TEXT, _NO_SNIFF)
        text = f"{''.join(lines)}{kind} check passed\n" if "verbose" in request.params else "ok"
        return Response(200, text.encode(), _TEXT, _NO_SNIFF)


def _check_method(request: Request, *, any_method: bool) -> None:
    """Upstream's documents of groups look at no method. Raises 405."""
    if request.method != "GET" and (not any_method or request.method == "HEAD"):
        raise method_not_allowed()
