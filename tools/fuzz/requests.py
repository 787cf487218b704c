"""Build requests of the API from the catalog: every kind in every version, every verb, body and media type.

`Requests(seed).case(number)` depends only on the seed and the number, so that a number repeats its request.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final
from urllib.parse import quote

import orjson
import yaml

from apiserver.api import protobuf
from apiserver.api.codec.codec import decode
from apiserver.api.objects import Json
from apiserver.api.schema.language import Struct
from apiserver.registry.definition.resource import Resource, Subresource, Version
from apiserver.resources import CATALOG
from tools.fuzz import patches, texts, values

_SEEDS: Final = Path(__file__).with_name("seeds.yaml")
_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_NAMES: Final = ("a", "b", "c", "n")
_PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
_ACCEPTS: Final = (
    "application/json", "application/yaml", _PROTOBUF, f"{_PROTOBUF},application/json", "*/*", "", "text/plain",
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json", "application/json;as=Table;v=v1beta1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", f"{_PROTOBUF};as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/json;as=X;v=v1;g=y", "application/json;", ";;,,", "application/*", "a" * 300, "application/yaml;as=Table;v=v1;g=meta.k8s.io",
)  # fmt: skip
_DOCUMENTS: Final = (
    "/", "/api", "/apis", "/api/v1", "/apis/resource.k8s.io", "/apis/resource.k8s.io/v1", "/version", "/healthz", "/livez/ping", "/readyz?verbose", "/metrics",
    "/openapi/v3", "/openapi/v3/apis/resource.k8s.io/v1", "/docs", "/openapi.json", "/-/info", "/-/dropped?kind=Pod", "/-/requests?limit=2", "/-/clock",
    "/-/faults", "/-/nothing", "/nothing", "/api/v2", "/apis/x/v1/y", "/api/v1/nothing/a", "//", "/%2e%2e/", "/api//v1/pods", "/logs",
)  # fmt: skip
_PATCHES: Final = ("json-patch+json", "merge-patch+json", "strategic-merge-patch+json", "apply-patch+yaml")
_QUERY: Final[dict[str, tuple[str, ...]]] = {
    "limit": ("1", "0", "-1", "500", "x", str(2**63), ""),
    "continue": ("", "x", "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhXHUwMDAwIn0", "e30", "bnVsbA", "%00"),
    "resourceVersion": ("", "0", "1", "x", "-1", str(2**64), "01", "1.0"),
    "resourceVersionMatch": ("", "Exact", "NotOlderThan", "x"),
    "pretty": ("", "true", "0", "x"),
    "dryRun": ("All", "", "x"),
    "fieldManager": ("m", "", "x" * 129, "é", "\u0000"),
    "fieldValidation": ("Strict", "Warn", "Ignore", "", "x"),
    "force": ("true", "false", "", "x"),
    "gracePeriodSeconds": ("0", "1", "-1", "x", str(2**63), ""),
    "propagationPolicy": ("Orphan", "Background", "Foreground", "", "x"),
    "orphanDependents": ("true", "false", "x"),
    "ignoreStoreReadErrorWithClusterBreakingPotential": ("true", "x"),
    "timeoutSeconds": ("1", "0", "-1", "x", ""),
    "sendInitialEvents": ("true", "false", "x"),
    "allowWatchBookmarks": ("true", "x"),
    "watch": ("0", "false", "true", "1", "x"),
    "includeObject": ("None", "Metadata", "Object", "x"),
    "stream": ("All", "Stdout", "x"), "tailLines": ("1", "-1", "x"), "container": ("c", "x", ""), "path": ("/x", ""), "command": ("sh", ""),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    """A request as bytes; `method` and `target` for people."""

    number: int
    method: str
    target: str
    data: bytes


class Requests:
    """The requests of one seed."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        seeds: Json = yaml.safe_load(_SEEDS.read_text())
        #: (resource, version, its seed in this version or None)
        self.targets = [
            (resource, version, _in_version(resource, version, seeds.get(f"{resource.group}/{resource.plural}")))
            for resource in CATALOG
            for version in resource.versions
        ]

    def case(self, number: int) -> Case:
        random = Random(f"{self._seed}/{number}")
        return _Maker(random, number, *random.choice(self.targets)).case()

    def seeds(self) -> list[Case]:
        """Return a creation of each kind's unchanged seed in each version. Their numbers are negative."""
        made = []
        for number, (resource, version, seed) in enumerate(self.targets, 1):
            if seed is not None:
                maker = _Maker(Random(0), -number, resource, version, seed)
                made.append(maker.finished("POST", maker.collection, "", maker.plain(), "application/json"))
        return made


def _in_version(resource: Resource, version: Version, seed: Json | None) -> Json | None:
    """Convert a seed to another version of its resource."""
    first = resource.versions[0]
    if seed is None or version is first:
        return seed
    hub = first.to_hub({"metadata": {"name": "a"}, **decode(first.schema, deepcopy(seed)).obj})
    return {key: value for key, value in version.from_hub(hub).items() if key != "metadata"}


class _Maker:
    """A builder of one request."""

    def __init__(self, random: Random, number: int, resource: Resource, version: Version, seed: Json | None) -> None:
        self.random, self.number, self.resource, self.version, self.seed = random, number, resource, version, seed
        self.api_version = f"{resource.group}/{version.name}" if resource.group else version.name
        self.namespace = "default" if resource.namespaced else ""
        self.name = _NAMES[random.randrange(len(_NAMES))]
        root = f"/apis/{self.api_version}" if resource.group else f"/api/{version.name}"
        self.collection = (
            f"{root}/namespaces/default/{resource.plural}" if self.namespace else f"{root}/{resource.plural}"
        )
        self.everywhere = f"{root}/{resource.plural}"

    def case(self) -> Case:
        random = self.random
        draw = random.random()
        for bound, make in _SHARES:
            if draw < bound:
                return make(self)
        raise AssertionError("the shares end with 1")

    # Bodies

    def plain(self) -> Json:
        """Return the unchanged seed."""
        assert self.seed is not None
        return {
            "apiVersion": self.api_version,
            "kind": self.resource.kind,
            "metadata": {"name": "a"},
            **deepcopy(self.seed),
        }

    def object(self) -> Json:
        """Build an object of the kind: the changed seed, or one from the schema only."""
        random, schema = self.random, self.version.schema
        head = {"apiVersion": self.api_version, "kind": self.resource.kind}
        if random.random() < 0.03:
            head = {random.choice(tuple(head)): texts.text(random)}
        obj = {**head, "metadata": values.metadata(random, self.name, self.namespace)}
        if self.seed is not None and random.random() < 0.75:
            obj |= deepcopy(self.seed)
            for _ in range(random.choice((0, 0, 1, 1, 1, 2, 3))):
                values.change(random, obj, schema)
        else:
            obj |= values.struct(random, schema)
        return obj

    def body(self, obj: Any, schema: Struct | None = None) -> tuple[bytes, str]:
        """Return (bytes, media type): mostly JSON, also YAML and protobuf; sometimes damaged or mislabelled."""
        random = self.random
        draw, media = random.random(), "application/json"
        data = b""
        if draw < 0.12:
            try:
                kind = obj["kind"] if schema is None else "DeleteOptions"
                data = protobuf.wrap(self.api_version, kind, protobuf.encode(schema or self.version.schema, obj))
                media = _PROTOBUF
            except Exception:  # noqa: BLE001 - what has no protobuf form goes as JSON
                data = b""
        elif draw < 0.18:
            try:
                data, media = yaml.dump(obj, Dumper=_DUMPER).encode(), "application/yaml"
            except (yaml.YAMLError, UnicodeError):
                data = b""
        return self.spoilt(data or _json(obj), media)

    def spoilt(self, data: bytes, media: str) -> tuple[bytes, str]:
        random = self.random
        if random.random() < 0.07:
            data = texts.damaged(random, data)
        if random.random() < 0.02:
            media = random.choice(
                (
                    "", "text/plain", "application/json", "application/yaml", _PROTOBUF,
                    "application/json; charset=x", "application/cbor",
                )
            )  # fmt: skip
        return data, media

    # Requests

    def create(self) -> Case:
        path = self.collection if self.random.random() < 0.97 else self.everywhere
        return self.finished("POST", path, self.query(), *self.body(self.object()))

    def update(self) -> Case:
        return self.finished("PUT", f"{self.collection}/{self.name}", self.query(), *self.body(self.object()))

    def patch(self, below: str = "") -> Case:
        random = self.random
        kind = random.choice(_PATCHES)
        made: Any
        if kind.startswith("json-patch"):
            made = patches.operations(random, self.object(), self.version.schema)
        elif kind.startswith("apply"):
            made = self.object()
            if random.random() < 0.9:
                made["metadata"] = {"name": self.name}
        else:
            made = patches.part(random, self.object(), strategic=kind.startswith("strategic"))
        data = _json(made)
        if kind.startswith("apply") and random.random() < 0.3:
            data = self.body(made)[0]
        query = self.query()
        if kind.startswith("apply") and random.random() < 0.95:
            query += "&fieldManager=" + random.choice(("m", "n")) + "&force=" + random.choice(("true", "false"))
        data, media = self.spoilt(data, f"application/{kind}")
        return self.finished("PATCH", f"{self.collection}/{self.name}{below}", query.removeprefix("&"), data, media)

    def get(self) -> Case:
        return self.finished(self.random.choice(("GET", "GET", "HEAD")), f"{self.collection}/{self.name}", self.query())

    def list(self) -> Case:
        path = self.collection if self.random.random() < 0.7 else self.everywhere
        return self.finished("GET", path, self.query(selectors=0.5))

    def delete(self) -> Case:
        data, media = self._options()
        return self.finished("DELETE", f"{self.collection}/{self.name}", self.query(), data, media)

    def delete_all(self) -> Case:
        data, media = self._options()
        path = self.collection if self.random.random() < 0.9 else self.everywhere
        return self.finished("DELETE", path, self.query(selectors=0.6), data, media)

    def _options(self) -> tuple[bytes, str]:
        random = self.random
        if random.random() < 0.5:
            return b"", ""
        from apiserver.api.types.meta import DeleteOptions

        options = {"kind": "DeleteOptions", "apiVersion": "v1", **values.struct(random, DeleteOptions, 5)}
        return self.body(options, DeleteOptions)

    def below(self) -> Case:
        """Build a request with any method for a subresource."""
        random = self.random
        subresources = self.resource.subresources
        if not subresources:
            return self.create()
        chosen: Subresource = random.choice(subresources)
        path = f"{self.collection}/{self.name}/{chosen.name}"
        method = random.choice(("GET", "PUT", "PATCH", "POST")) if chosen.name != "log" else "GET"
        if method == "PATCH":
            return self.patch(f"/{chosen.name}")
        if method == "GET":
            return self.finished(method, path, self.query())
        obj = self.object()
        if chosen.kind and chosen.schema is not None:
            group = self.resource.group if chosen.group is None else chosen.group
            version = chosen.version or self.version.name
            obj = {
                "apiVersion": f"{group}/{version}" if group else version,
                "kind": chosen.kind,
                "metadata": {"name": self.name},
            }
            obj |= values.struct(random, chosen.schema)
        return self.finished(method, path, self.query(), *self.body(obj))

    def document(self) -> Case:
        random = self.random
        path, _, query = random.choice(_DOCUMENTS).partition("?")
        method = (
            "GET"
            if random.random() < 0.9 or path.startswith("/-/")
            else random.choice(("POST", "PUT", "OPTIONS", "HEAD", "DELETE", "FOO"))
        )
        return self.finished(method, path if random.random() < 0.9 else path + texts.text(random), query)

    def strange(self) -> Case:
        """Build a request with any method for any path below the resource."""
        random = self.random
        parts = [
            texts.text(random) if random.random() < 0.2 else part
            for part in f"{self.collection}/{self.name}".split("/")[1:]
        ]
        parts += [texts.text(random) for _ in range(random.randrange(3))]
        method = random.choice(("GET", "PUT", "POST", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "QUERY", "get"))
        data, media = self.body(self.object()) if random.random() < 0.4 else (b"", "")
        return self.finished(method, "/" + "/".join(parts), self.query(selectors=0.3), data, media)

    def query(self, selectors: float = 0.02) -> str:
        random = self.random
        made = []
        for _ in range(random.choice((0, 0, 0, 1, 1, 2, 3))):
            name = random.choice(tuple(_QUERY))
            # A watch has no end: conversations of the wire cover it.
            if name != "watch" or self.number % 7 == 0:
                made.append((name, random.choice(_QUERY[name])))
        if random.random() < selectors:
            made.append(("labelSelector", texts.label_selector(random)))
        if random.random() < selectors:
            labels = ("metadata.name", "metadata.namespace", *self.resource.field_labels)
            made.append(("fieldSelector", texts.field_selector(random, labels)))
        if random.random() < 0.01:
            made.append((texts.text(random), texts.text(random)))
        return "&".join(f"{quote(name)}={quote(value)}" for name, value in made)

    def finished(self, method: str, path: str, query: str, body: bytes | Json = b"", media: str = "") -> Case:
        """Render a request as bytes."""
        random = self.random
        data = _json(body) if isinstance(body, dict) else body
        target = quote(path, safe="/%:") + (f"?{query}" if query else "")
        lines = [f"{method} {target} HTTP/1.1", "Host: 127.0.0.1"]
        if media:
            lines.append(f"Content-Type: {media}")
        if random.random() < 0.5 and self.number >= 0:
            lines.append(f"Accept: {random.choice(_ACCEPTS)}")
        if random.random() < 0.02 and self.number >= 0:
            lines.append(random.choice(_HEADERS))
        if data or method in ("POST", "PUT", "PATCH"):
            lines.append(f"Content-Length: {len(data)}")
        head = "\r\n".join(lines).encode("utf-8", "surrogatepass") + b"\r\n\r\n"
        return Case(self.number, method, target, head + data)


_HEADERS: Final = (
    "Impersonate-User: u", "Impersonate-Group: g", "Impersonate-User: system:node:n\r\nImpersonate-Group: g\r\nImpersonate-Extra-a%2: b", "Impersonate-User: ",
    "Authorization: Bearer x", "Authorization: Basic ===", "Authorization:", "User-Agent: " + "x" * 300, "User-Agent: é\u0001", "Content-Encoding: gzip",
    "Accept-Encoding: gzip, br", "Origin: http://127.0.0.1", "Expect: x", "If-None-Match: *", "X-" + "y" * 200 + ": z", "Cookie: a=b", "Range: bytes=0-1",
)  # fmt: skip

#: The kinds of requests, with the cumulative share of each.
_SHARES: Final[tuple[tuple[float, Callable[[_Maker], Case]], ...]] = (
    (0.30, _Maker.create), (0.46, _Maker.update), (0.66, _Maker.patch), (0.71, _Maker.get), (0.80, _Maker.list),
    (0.85, _Maker.delete), (0.86, _Maker.delete_all), (0.94, _Maker.below), (0.96, _Maker.document),
    (1.01, _Maker.strange),
)  # fmt: skip


def _json(obj: Any) -> bytes:
    try:
        return orjson.dumps(obj)
    except (TypeError, UnicodeError):
        return json.dumps(obj).encode()
