"""/openapi/v2 and /openapi/v3: the documents written by `python -m apiserver.openapi`, reduced to the served APIs.

Nothing is read at start. Each document is read, reduced and hashed on its first request, and kept as bytes. Most
servers serve everything in the files; then the bytes are those of the file. Version 2 is also served in protobuf (the
only form that kubectl requests). There entries are left out without decoding them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from hashlib import sha512
from pathlib import Path
from typing import TYPE_CHECKING, Final

import orjson

from apiserver.api.errors.status import StatusError
from apiserver.api.features.gates import Release
from apiserver.api.objects import Json
from apiserver.http.documents.issuer import PATHS
from apiserver.http.formats.negotiation import JSON, clauses
from apiserver.registry.definition.resource import Resource, Version
from apiserver.request.messages import Request, Response
from apiserver.runtime.offload import iterate_in_slices

if TYPE_CHECKING:
    from apiserver.aggregation.servers import Server

__all__ = ["OpenApi"]


DIRECTORY: Final = Path(__file__).resolve().parents[3] / "openapi"
_PROTOBUF: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_PROTOBUF_OLD: Final = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
_REFERENCE: Final = re.compile(rb'"#/(?:definitions|components/schemas)/([^"]+)"')
_UNVERSIONED: Final = b'"info":{"title":"Kubernetes","version":"unversioned"}'
_PATHS, _DEFINITIONS = 8, 9
_VERSION_2: Final = ("v2.json", "v2.pb")


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
        self._directory = directory
        self._release = f"{release[0]}.{release[1]}"
        self._remote: dict[str, str] = {}
        self._swaggers: list[bytes] = []
        self._written = {(resource.group, resource.plural): resource for resource in written}
        self.set_served(served)

    def set_served(self, served: Iterable[tuple[Resource, Version]]) -> None:
        """Replace the served resources."""
        served = tuple(served)
        written = [each for each in served if self._written.get((each[0].group, each[0].plural)) == each[0]]
        self._served = frozenset((resource.group, version.name, resource.plural) for resource, version in written)
        self._versions = frozenset((resource.group, version.name) for resource, version in served)
        # As upstream: documents list groups of custom resources only with the served versions.
        self._groups = frozenset(resource.group for resource, _ in served if not resource.custom)
        self._others = [each for each in served if (each[0].group, each[1].name, each[0].plural) not in self._served]
        self._generated: dict[str, bytes] | None = None
        self._documents: dict[str, tuple[bytes, str]] = {}
        self._index: tuple[bytes, str] | None = None

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
        if swaggers != self._swaggers:
            self._swaggers = swaggers
            for name in _VERSION_2:
                self._documents.pop(name, None)

    async def answer(self, request: Request) -> Response | None:
        """Return the response to a path below /openapi, or None for an unknown path."""
        path = request.path.rstrip("/")
        if path == "/openapi/v2":
            return self._version_2(request)
        if path == "/openapi/v3":
            if self._index is None:
                async for name in iterate_in_slices(self._names()):  # each is read and hashed: 100 ms for all
                    self._document(_file(name))
            body, etag = self._v3_index()
            return _answer(request, body, etag, "text/plain; charset=utf-8")
        if path.startswith("/openapi/v3/"):
            return self._version_3(request, path.removeprefix("/openapi/v3/"))
        return None

    def _version_2(self, request: Request) -> Response:
        for clause in clauses(request.headers.get("accept", "") or "*/*"):
            if clause.media in (JSON, "*/*", "application/*"):
                body, etag = self._document("v2.json")
                return _answer(request, body, etag, JSON)
            if clause.media in (_PROTOBUF, _PROTOBUF_OLD):
                # Both forms have one ETag: Vary distinguishes them.
                return _answer(request, self._document("v2.pb")[0], self._document("v2.json")[1], _PROTOBUF)
        return Response(406, b"", "", _VARY)

    def _version_3(self, request: Request, name: str) -> Response:
        if name not in self._names():
            return Response(404, b"", "")
        body, etag = self._document(_file(name))
        if not any(
            clause.media in (JSON, "*/*", "application/*")
            for clause in clauses(request.headers.get("accept", "") or "*/*")
        ):
            return Response(406, b"", "", _VARY)
        wanted = request.params.get("hash", ("",))[0]
        if wanted and wanted != etag:
            return Response(301, b"", "", (*_VARY, ("Location", _url(name, etag))))
        if not wanted:
            return _answer(request, body, etag, JSON)
        expires = format_datetime(datetime.now(UTC) + timedelta(days=365), usegmt=True)
        return _answer(request, body, etag, JSON, (("Cache-Control", "public, immutable"), ("Expires", expires)))

    def _v3_index(self) -> tuple[bytes, str]:
        """Return the list of version 3 documents, each with its hash for caching."""
        if self._index is None:
            paths = {name: {"serverRelativeURL": _url(name, self._document(_file(name))[1])} for name in self._names()}
            paths |= {name: {"serverRelativeURL": address} for name, address in self._remote.items()}
            body = orjson.dumps({"paths": paths})
            self._index = body, _hash(body)
        return self._index

    def _names(self) -> list[str]:
        """Return the names of the served documents: `api/v1`, `apis/resource.k8s.io` …."""
        groups = {f"apis/{group}" for group in self._groups if group}
        versions = {f"apis/{group}/{version}" if group else f"api/{version}" for group, version in self._versions}
        return sorted({"api", "apis", "version", *PATHS} | groups | versions)

    def _document(self, name: str) -> tuple[bytes, str]:
        """Return a file's bytes, reduced to the served APIs, and their hash."""
        known = self._documents.get(name)
        if known is None:
            body = self._read(name)
            if self._others:
                body = self._add_generated(name, body)
            if self._swaggers and name in _VERSION_2 and body is not None:
                body = self._with_remotes(name, body)
            if body is None:
                raise StatusError(503, "ServiceUnavailable", f"openapi/{name} is missing from this installation")
            body = self._set_release(name, body)
            known = self._documents[name] = body, _hash(body)
        return known

    def _set_release(self, name: str, body: bytes) -> bytes:
        """Set the served release in a document."""
        if name != "v2.pb":
            return body.replace(_UNVERSIONED, _UNVERSIONED.replace(b"unversioned", self._release.encode()), 1)
        from apiserver.openapi.gnostic import about

        # In concatenated messages of protobuf the last message's fields win.
        return body + about({"title": "Kubernetes", "version": self._release})

    def _read(self, name: str) -> bytes | None:
        """Read a file and reduce it to the served APIs; return None if there is no file."""
        try:
            body = (self._directory / name).read_bytes()
        except OSError:
            return None
        if name == "v2.pb":
            return self._filter_protobuf_paths(body)
        return self._filter_paths(body) if name == "v2.json" or "__v" in name else body

    def _add_generated(self, name: str, body: bytes | None) -> bytes | None:
        """Add the resources without a file to a document."""
        if self._generated is None:
            from apiserver.openapi.documents import build

            versions: dict[int, tuple[Resource, list[Version]]] = {}
            for resource, version in self._others:
                versions.setdefault(id(resource), (resource, []))[1].append(version)
            self._generated = build(replace(resource, versions=tuple(found)) for resource, found in versions.values())
        made = self._generated.get(name)
        if made is None or body is None:
            return body or made
        if name != "v2.pb":
            return _merge_documents(body, made)
        from apiserver.openapi.gnostic import encode_document

        known = orjson.loads(self._filter_paths((self._directory / "v2.json").read_bytes()))
        more: Json = orjson.loads(self._generated["v2.json"])
        for part in ("paths", "definitions"):
            more[part] = {key: item for key, item in more[part].items() if key not in known[part]}
        # Concatenated messages of protobuf merge: lists are joined, of other fields the last one wins.
        return body + encode_document(more)

    def _with_remotes(self, name: str, body: bytes) -> bytes:
        """Add the APIs of aggregated servers to a document of version 2."""
        from apiserver.openapi.merging import merge_documents

        if name == "v2.json":
            return orjson.dumps(merge_documents(orjson.loads(body), map(orjson.loads, self._swaggers)))
        known = orjson.loads(self._add_generated("v2.json", self._read("v2.json")) or b"{}")
        more = merge_documents(known, map(orjson.loads, self._swaggers))
        for part in ("paths", "definitions"):
            more[part] = {key: item for key, item in more[part].items() if known[part].get(key) is not item}
        from apiserver.openapi.gnostic import encode_document

        replaced = more["definitions"]
        return _filter_entries(body, lambda number, name: number == _PATHS or name not in replaced) + encode_document(
            more
        )

    def _is_served(self, path: str) -> bool:
        """Return whether this server serves a path of a document."""
        parts = path.strip("/").split("/")
        if parts[0] not in ("api", "apis") or len(parts) == 1:
            return True
        group, rest = ("", parts[1:]) if parts[0] == "api" else (parts[1], parts[2:])
        if not rest:
            return any(known == group for known, _ in self._versions)
        version, rest = rest[0], rest[1:]
        if rest[:1] == ["watch"]:
            rest = rest[1:]
        if rest[:2] == ["namespaces", "{namespace}"] and len(rest) > 2:
            rest = rest[2:]
        return (group, version, rest[0]) in self._served if rest else (group, version) in self._versions

    def _filter_paths(self, body: bytes) -> bytes:
        document: Json = orjson.loads(body)
        paths = {path: item for path, item in document["paths"].items() if self._is_served(path)}
        if len(paths) == len(document["paths"]):
            return body
        document["paths"] = paths
        owner, name = (document, "definitions") if "definitions" in document else (document["components"], "schemas")
        owner[name] = _find_definitions(orjson.dumps(paths), owner[name])
        return orjson.dumps(document)

    def _filter_protobuf_paths(self, body: bytes) -> bytes:
        """Keep the entries that the reduced JSON document has."""
        document: Json = orjson.loads(self._filter_paths((self._directory / "v2.json").read_bytes()))
        return _filter_entries(
            body, lambda number, name: name in document["paths" if number == _PATHS else "definitions"]
        )


def _filter_entries(body: bytes, keep: Callable[[int, str], bool]) -> bytes:
    """Filter the paths and definitions of a document in protobuf."""
    from apiserver.openapi.gnostic import entries, field

    out = []
    for number, content in entries(body):
        if number in (_PATHS, _DEFINITIONS):
            inner = [(at, each) for at, each in entries(content) if keep(number, next(entries(each))[1].decode())]
            content = b"".join(field(at, each) for at, each in inner)
        out.append(field(number, content))
    return b"".join(out)


def _by_priority(servers: Iterable[Server]) -> list[Server]:
    """Sort servers in the merge order of their documents (kube-aggregator's priority.go)."""
    servers = list(servers)
    groups: dict[str, int] = {}
    for server in servers:
        remote = server.remote
        groups[remote.group] = max(groups.get(remote.group, remote.group_priority), remote.group_priority)
    return sorted(servers, key=lambda server: (-groups[server.remote.group], server.remote.name))


def _merge_documents(body: bytes, other: bytes) -> bytes:
    """Merge the paths and definitions of two documents."""
    document, more = orjson.loads(body), orjson.loads(other)
    owner, added, name = (
        (document, more, "definitions")
        if "definitions" in document
        else (document["components"], more["components"], "schemas")
    )
    document["paths"] = dict(sorted({**more["paths"], **document["paths"]}.items()))
    if found := {**added.get(name, {}), **owner.get(name, {})}:
        owner[name] = dict(sorted(found.items()))
    return orjson.dumps(document)


def _find_definitions(text: bytes, definitions: Json) -> Json:
    """Return the definitions that a text refers to, transitively."""
    found: set[str] = set()
    todo = {name.decode() for name in _REFERENCE.findall(text)}
    while todo:
        name = todo.pop()
        found.add(name)
        todo |= {inner.decode() for inner in _REFERENCE.findall(orjson.dumps(definitions[name]))} - found
    return {name: item for name, item in definitions.items() if name in found}


def _file(name: str) -> str:
    return f"v3/{name.replace('/', '__')}.json"


def _url(name: str, etag: str) -> str:
    return f"/openapi/v3/{name}?hash={etag}"


def _hash(body: bytes) -> str:
    return sha512(body).hexdigest().upper()


_VARY: Final = (("Vary", "Accept"),)


def _answer(
    request: Request, body: bytes, etag: str, content_type: str, headers: tuple[tuple[str, str], ...] = ()
) -> Response:
    headers = (("Etag", f'"{etag}"'), *_VARY, *headers)
    matches = {tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")}
    if f'"{etag}"' in matches or "*" in matches:
        return Response(304, b"", "", headers)
    return Response(200, body, content_type, headers)
