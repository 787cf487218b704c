"""The OpenAPI documents of one set of served resources.

Each document is read, reduced and hashed on its first request, and kept as bytes. Most servers serve everything in the
files; then the bytes are those of the file. Resources without a file (custom ones) are built one by one: a changed
catalog builds only the changed ones, and keeps all documents of version 3 without them. Building is for a thread.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha512
from pathlib import Path
from typing import Final

import orjson

from apiserver.api.errors.status import StatusError
from apiserver.api.features.gates import Release
from apiserver.api.objects import Json
from apiserver.http.documents.issuer import PATHS
from apiserver.registry.definition.resource import Resource, Version

__all__ = ["DIRECTORY", "Document", "ServedDocuments", "file_name"]

DIRECTORY: Final = Path(__file__).resolve().parents[3] / "openapi"
_REFERENCE: Final = re.compile(rb'"#/(?:definitions|components/schemas)/([^"]+)"')
_UNVERSIONED: Final = b'"info":{"title":"Kubernetes","version":"unversioned"}'
_PATHS, _DEFINITIONS = 8, 9
_VERSION_2: Final = ("v2.json", "v2.pb")
_PARTS: Final = ("paths", "definitions")
#: The bytes of a document and their hash.
Document = tuple[bytes, str]
Served = tuple[Resource, Version]


class _Part:
    """The documents of one resource with one version, built when they are needed."""

    def __init__(self, resource: Resource, version: Version) -> None:
        self.resource, self.version = resource, version

    @cached_property
    def files(self) -> Mapping[str, bytes]:
        from apiserver.openapi.documents import build_json

        return build_json([replace(self.resource, versions=(self.version,))])

    @cached_property
    def entries(self) -> Mapping[str, Mapping[str, bytes]]:
        """The paths and definitions of version 2 in protobuf."""
        from apiserver.openapi.gnostic import encode_entries

        return encode_entries(orjson.loads(self.files["v2.json"]))


@dataclass(frozen=True)
class ServedDocuments:
    """The documents of these served resources.

    `written` are the resources in the files by group and name, `swaggers` the documents of aggregated servers.
    """

    served: tuple[Served, ...]
    written: Mapping[tuple[str, str], Resource]
    release: Release
    directory: Path = DIRECTORY
    swaggers: Sequence[bytes] = ()
    parts: Mapping[tuple[int, str], _Part] = field(default_factory=dict)
    documents: dict[str, Document] = field(default_factory=dict)

    def serving(self, served: Iterable[Served]) -> ServedDocuments:
        """Return the documents of other resources; what does not change is kept."""
        served = tuple(served)
        before, now = _by_document(self.served), _by_document(served)
        kept = {
            name: document
            for name, document in list(self.documents.items())  # a thread may add some
            if name not in _VERSION_2 and before.get(name) == now.get(name)
        }
        parts: dict[tuple[int, str], _Part] = {}
        for resource, version in served:
            if self.written.get((resource.group, resource.plural)) != resource:
                key = id(resource), version.name
                parts[key] = self.parts.get(key) or _Part(resource, version)
        return replace(self, served=served, parts=parts, documents=kept)

    def merging(self, swaggers: Sequence[bytes]) -> ServedDocuments:
        """Return the documents with other documents of aggregated servers."""
        kept = {name: document for name, document in list(self.documents.items()) if name not in _VERSION_2}
        return replace(self, swaggers=swaggers, documents=kept)

    @cached_property
    def _written_paths(self) -> frozenset[tuple[str, str, str]]:
        return frozenset(
            (resource.group, version.name, resource.plural)
            for resource, version in self.served
            if (id(resource), version.name) not in self.parts
        )

    @cached_property
    def _versions(self) -> frozenset[tuple[str, str]]:
        return frozenset((resource.group, version.name) for resource, version in self.served)

    @cached_property
    def names(self) -> list[str]:
        """The names of the documents of version 3: `api/v1`, `apis/resource.k8s.io` …."""
        # As upstream: documents list groups of custom resources only with the served versions.
        groups = {f"apis/{resource.group}" for resource, _ in self.served if not resource.custom and resource.group}
        versions = {f"apis/{group}/{version}" if group else f"api/{version}" for group, version in self._versions}
        return sorted({"api", "apis", "version", *PATHS} | groups | versions)

    def document(self, name: str) -> Document:
        """Return a file's bytes, reduced to the served APIs, and their hash."""
        known = self.documents.get(name)
        if known is None:
            body = self._add_generated(name, self._read(name))
            if self.swaggers and name in _VERSION_2 and body is not None:
                body = self._with_remotes(name, body)
            if body is None:
                raise StatusError(503, "ServiceUnavailable", f"openapi/{name} is missing from this installation")
            body = self._set_release(name, body)
            known = self.documents[name] = body, digest(body)
        return known

    def _set_release(self, name: str, body: bytes) -> bytes:
        """Set the served release in a document."""
        version = f"{self.release[0]}.{self.release[1]}"
        if name != "v2.pb":
            return body.replace(_UNVERSIONED, _UNVERSIONED.replace(b"unversioned", version.encode()), 1)
        from apiserver.openapi.gnostic import about

        # In concatenated messages of protobuf the last message's fields win.
        return body + about({"title": "Kubernetes", "version": version})

    def _read(self, name: str) -> bytes | None:
        """Read a file and reduce it to the served APIs; return None if there is no file."""
        body = _load(self.directory / name)
        if body is None:
            return None
        if name == "v2.pb":
            return self._filter_protobuf_paths(body)
        return self._filter_paths(body) if name == "v2.json" or "__v" in name else body

    def _add_generated(self, name: str, body: bytes | None) -> bytes | None:
        """Add the resources without a file to a document."""
        if name == "v2.pb" and body is not None:
            return self._add_entries(body)
        # In a document with both, custom resources are the addition.
        parts = sorted(self.parts.values(), key=lambda part: part.resource.custom)
        made = [part.files[name] for part in parts if name in _names_of(part.resource, part.version)]
        return _merge_documents(([body] if body is not None else []) + made) if made else body

    def _add_entries(self, body: bytes) -> bytes:
        """Add the resources without a file to the document in protobuf.

        Concatenated messages of protobuf merge: lists are joined, of other fields the last one wins.
        """
        if not self.parts:
            return body
        from apiserver.openapi.gnostic import join_entries

        known = orjson.loads(self._read("v2.json") or b"{}")
        more: dict[str, dict[str, bytes]] = {part: {} for part in _PARTS}
        for each in self.parts.values():
            for part in _PARTS:
                more[part] |= {name: item for name, item in each.entries[part].items() if name not in known[part]}
        return body + join_entries(more)

    def _with_remotes(self, name: str, body: bytes) -> bytes:
        """Add the APIs of aggregated servers to a document of version 2."""
        from apiserver.openapi.merging import merge_documents

        if name == "v2.json":
            return orjson.dumps(merge_documents(orjson.loads(body), map(orjson.loads, self.swaggers)))
        known = orjson.loads(self._add_generated("v2.json", self._read("v2.json")) or b"{}")
        more = merge_documents(known, map(orjson.loads, self.swaggers))
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
        return (group, version, rest[0]) in self._written_paths if rest else (group, version) in self._versions

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
        document: Json = orjson.loads(self._read("v2.json") or b"{}")
        return _filter_entries(
            body, lambda number, name: name in document["paths" if number == _PATHS else "definitions"]
        )


def _load(file: Path) -> bytes | None:
    """Return the contents of a file, which a wheel has compressed; None if it is missing."""
    try:
        return file.read_bytes()
    except OSError:
        import gzip
    try:
        return gzip.decompress(Path(f"{file}.gz").read_bytes())
    except OSError:
        return None


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


def _by_document(served: Iterable[Served]) -> dict[str, list[tuple[int, str]]]:
    """Return the identities of the resources and versions in each document of version 3."""
    found: dict[str, list[tuple[int, str]]] = {}
    for resource, version in served:
        for name in _names_of(resource, version):
            found.setdefault(name, []).append((id(resource), version.name))
    return found


def _names_of(resource: Resource, version: Version) -> tuple[str, ...]:
    """Return the documents with a resource and version."""
    group = f"apis/{resource.group}" if resource.group else "api"
    of_version = file_name(f"{group}/{version.name}")
    return (of_version, *_VERSION_2) if resource.custom else (of_version, *_VERSION_2, file_name(group))


def _merge_documents(bodies: Sequence[bytes]) -> bytes:
    """Merge the paths and definitions of documents; of equal names the first one counts."""
    if len(bodies) == 1:
        return bodies[0]
    documents = [orjson.loads(body) for body in bodies]
    document, paths, found = documents[0], {}, {}
    for each in reversed(documents):
        paths.update(each["paths"])
        found.update(_definitions(each))
    document["paths"] = dict(sorted(paths.items()))
    if found:
        owner, name = (document, "definitions") if "definitions" in document else (document["components"], "schemas")
        owner[name] = dict(sorted(found.items()))
    return orjson.dumps(document)


def _definitions(document: Json) -> Json:
    found: Json = document["definitions"] if "definitions" in document else document["components"].get("schemas", {})
    return found


def _find_definitions(text: bytes, definitions: Json) -> Json:
    """Return the definitions that a text refers to, transitively."""
    found: set[str] = set()
    todo = {name.decode() for name in _REFERENCE.findall(text)}
    while todo:
        name = todo.pop()
        found.add(name)
        todo |= {inner.decode() for inner in _REFERENCE.findall(orjson.dumps(definitions[name]))} - found
    return {name: item for name, item in definitions.items() if name in found}


def file_name(name: str) -> str:
    """Return the name of the file of a document of version 3."""
    return f"v3/{name.replace('/', '__')}.json"


def digest(body: bytes) -> str:
    """Return the hash of a document for caching."""
    return sha512(body).hexdigest().upper()
