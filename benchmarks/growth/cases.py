"""The parts of a request that can be long, besides the fields of an object.

Header fields, parameters, terms of selectors, operations of patches, items of merged lists, managers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any
from urllib.parse import quote

import orjson

from apiserver.api.objects import Json
from apiserver.app import Server
from apiserver.request.messages import Request
from benchmarks.growth.measure import Case, build_request, no_requests

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"


def cases() -> Iterator[Case]:
    yield from _head_cases()
    yield from _selectors()
    yield from _patches()
    yield from _objects()


# Heads


class _Transport:
    """A connection without a peer."""

    def __init__(self) -> None:
        self.answers: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.answers.append(data)

    def get_extra_info(self, _: str) -> None:
        return None

    def is_closing(self) -> bool:
        return False

    def close(self) -> None: ...

    pause_reading = resume_reading = abort = close


async def _over_a_connection(server: Server, request: Request) -> None:
    """Read the body of the request as the bytes of a connection."""
    from types import SimpleNamespace

    from apiserver.http.server.protocol import Protocol

    config: Any = SimpleNamespace(loaded_app=server.front, timeout_keep_alive=120)
    state: Any = SimpleNamespace(connections=set(), tasks=set())
    protocol = Protocol(config, state, {})
    protocol.connection_made(_Transport())  # type: ignore[arg-type]
    for start in range(0, len(request.body), 65536):
        protocol.data_received(request.body[start : start + 65536])
    protocol.connection_lost(None)


def _head_request(fields: Callable[[int], str], size: int) -> Request:
    return build_request("", "", f"GET /livez HTTP/1.1\r\nHost: x\r\n{fields(size)}\r\n".encode())


def _head_cases() -> Iterator[Case]:
    lines: dict[str, Callable[[int], str]] = {
        "one header repeated": lambda size: "a: b\r\n" * size,
        "many headers": lambda size: "".join(f"a{at}: b\r\n" for at in range(size)),
        "a long header": lambda size: f"a: {'b' * 8 * size}\r\n",
        "Accept repeated": lambda size: "Accept: a/b\r\n" * size,
        "Impersonate-Group repeated": lambda size: "Impersonate-Group: g\r\n" * size,
    }
    for name, fields in lines.items():
        yield Case(name, no_requests, partial(_head_request, fields), _over_a_connection)
    yield Case(
        "chunks of one byte",
        no_requests,
        lambda size: build_request(
            "", "", b"POST /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * size
        ),
        _over_a_connection,
    )
    for name, make in {
        "clauses of Accept": lambda size: {"accept": ",".join(f"a/b{at}" for at in range(size))},
        "parameters of Accept": lambda size: {"accept": "a/b;" + ";".join(f"c{at}=d" for at in range(size))},
        "impersonated groups": lambda size: {
            "impersonate_user": "u",
            "impersonate_group": "\n".join(f"g{at}" for at in range(size)),
        },
        "extras of impersonation": lambda size: {
            "impersonate_user": "u",
            **{f"impersonate_extra_k{at}": "v" for at in range(size)},
        },
        "a long User-Agent": lambda size: {"user_agent": "a/" * 8 * size},
    }.items():
        yield Case(name, no_requests, lambda size, make=make: build_request("GET", MAPS, **make(size)))  # type: ignore[misc]


# Parameters


def _selectors() -> Iterator[Case]:
    queries: dict[str, Callable[[int], str]] = {
        "parameters": lambda size: "&".join(f"a{at}=b" for at in range(size)),
        "one parameter repeated": lambda size: "&".join(["labelSelector=a"] * size),
        "requirements of a label selector": lambda size: _label(",".join(f"k{at}=v" for at in range(size))),
        "requirements that exclude": lambda size: _label(",".join(f"k{at}!=v" for at in range(size))),
        "bounds of one label": lambda size: _label(",".join(f"k>{at}" for at in range(size))),
        "one requirement repeated": lambda size: _label(",".join(["k=v"] * size)),
        "values of a label selector": lambda size: _label(f"k in ({','.join(f'v{at}' for at in range(size))})"),
        "blanks of a label selector": lambda size: _label(" " * 8 * size + "a"),
        "brackets of a label selector": lambda size: _label("(" * size),
        "terms of a field selector": lambda size: (
            f"fieldSelector={quote(','.join(f'metadata.name!=v{at}' for at in range(size)))}"
        ),
        "escapes of a field selector": lambda size: f"fieldSelector={quote('metadata.name=' + chr(92) * 4 * size)}",
        "a long continue token": lambda size: f"limit=1&continue={'A' * 16 * size}",
        "a long field manager": lambda size: f"fieldManager={'a' * 16 * size}",
        "escapes of a query": lambda size: f"a={'%61' * 8 * size}",
    }
    for name, query in queries.items():
        yield Case(name, no_requests, lambda size, query=query: build_request("GET", MAPS, query=query(size)))  # type: ignore[misc]
    yield Case("segments of a path", no_requests, lambda size: build_request("GET", "/api/v1" + "/a" * 4 * size))
    yield Case("escapes of a path", no_requests, lambda size: build_request("GET", MAPS + "/" + "%61" * 4 * size))
    yield Case("a long name", no_requests, lambda size: build_request("GET", MAPS + "/" + "a" * 16 * size))


def _label(selector: str) -> str:
    return f"labelSelector={quote(selector)}"


# Patches


def _stored(path: str, make: Callable[[int], Json], size: int) -> Sequence[Request]:
    """Return the requests that replace the stored object by one of a size."""
    obj = make(size)
    body = orjson.dumps({**obj, "metadata": {"name": "x", **obj.get("metadata", {})}})
    return (
        build_request("PATCH", f"{path}/x", b'{"metadata":{"finalizers":null}}', MERGE),
        build_request("DELETE", f"{path}/x", query="gracePeriodSeconds=0"),
        build_request("POST", path, body),
    )


def _patch(path: str, media: str, make: Callable[[int], Any], size: int) -> Request:
    query = "fieldManager=m&force=true" if media == APPLY else ""
    body = make(size)
    if media == APPLY:
        kind, version = {
            MAPS: ("ConfigMap", "v1"),
            PODS: ("Pod", "v1"),
            CLAIMS: ("ResourceClaim", "resource.k8s.io/v1"),
        }[path]
        body = {"kind": kind, "apiVersion": version, **body, "metadata": {"name": "x", **body.get("metadata", {})}}
    return build_request("PATCH", f"{path}/x", orjson.dumps(body), media, query)


def _data(size: int) -> Json:
    return {"data": {f"k{at}": "v" for at in range(size)}}


def _labels(size: int) -> Json:
    return {"metadata": {"annotations": {f"k{at}": "v" for at in range(size)}}}


def _owners(size: int) -> Json:
    owner = {"apiVersion": "v1", "kind": "ConfigMap"}
    return {"metadata": {"ownerReferences": [{**owner, "name": f"o{at}", "uid": f"u{at}"} for at in range(size)]}}


def _same_owners(size: int) -> Json:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u"}
    return {"metadata": {"ownerReferences": [owner] * size}}


def _finalizers(size: int) -> Json:
    return {"metadata": {"finalizers": [f"example.com/f{at}" for at in range(size)]}}


def _managers(size: int) -> Json:
    entry = {"operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "time": "2026-01-01T00:00:00Z"}
    managers = [{**entry, "manager": f"m{at}", "fieldsV1": {"f:data": {f"f:k{at}": {}}}} for at in range(size)]
    return {"metadata": {"managedFields": managers}}


def _pod(**lists: list[Json]) -> Json:
    return {"spec": {"containers": [{"name": "c", "image": "i", **lists}]}}


def _environment(size: int) -> Json:
    return _pod(env=[{"name": f"E{at}", "value": "v"} for at in range(size)])


def _ports(size: int) -> Json:
    return _pod(ports=[{"containerPort": 1 + at % 60_000, "name": f"p{at}"} for at in range(size)])


def _mounts(size: int) -> Json:
    return _pod(volumeMounts=[{"name": f"v{at}", "mountPath": f"/v{at}"} for at in range(size)])


def _containers(size: int) -> Json:
    return {"spec": {"containers": [{"name": f"c{at}", "image": "i"} for at in range(size)]}}


def _volumes(size: int) -> Json:
    return {**_pod(), "spec": {**_pod()["spec"], "volumes": [{"name": f"v{at}", "emptyDir": {}} for at in range(size)]}}


def _tolerations(size: int) -> Json:
    tolerations = [{"key": f"k{at}", "operator": "Exists"} for at in range(size)]
    return {"spec": {**_pod()["spec"], "tolerations": tolerations}}


OBJECTS: dict[str, tuple[str, Callable[[int], Json]]] = {
    "data": (MAPS, _data),
    "annotations": (MAPS, _labels),
    "owners": (MAPS, _owners),
    "equal owners": (MAPS, _same_owners),
    "finalizers": (MAPS, _finalizers),
    "managers": (MAPS, _managers),
    "environment": (PODS, _environment),
    "ports": (PODS, _ports),
    "mounts": (PODS, _mounts),
    "containers": (PODS, _containers),
    "volumes": (PODS, _volumes),
    "tolerations": (PODS, _tolerations),
}


def _objects() -> Iterator[Case]:
    """Yield requests with objects of a size: create, update, patch of a small object, patch of an equal one."""
    small = {MAPS: lambda _: {}, PODS: lambda _: _pod()}
    for name, (path, make) in OBJECTS.items():
        stored = partial(_stored, path, make)
        yield Case(
            f"create {name}",
            no_requests,
            lambda size, p=path, m=make: build_request("POST", p, _encode_named(m(size), "new"), query="dryRun=All"),
        )  # type: ignore[misc]
        yield Case(
            f"update {name}",
            stored,
            lambda size, p=path, m=make: build_request("PUT", f"{p}/x", _encode_named(m(size))),  # type: ignore[misc]
        )
        for media in (MERGE, STRATEGIC, APPLY):
            kind = media.removeprefix("application/").partition("-")[0]
            patch = partial(_patch, path, media, make)
            yield Case(f"{kind} {name} into none", partial(_stored, path, small[path]), patch)
            yield Case(f"{kind} {name} into the same", stored, patch)


def _create_request(path: str, make: Callable[[int], Json], size: int) -> Request:
    return build_request("POST", path, _encode_named(make(size), "new"), query="dryRun=All")


def _encode_named(obj: Json, name: str = "x") -> bytes:
    return orjson.dumps({**obj, "metadata": {"name": name, **obj.get("metadata", {})}})


def _patches() -> Iterator[Case]:
    most = 10_000
    for name, make in {
        "add keys": lambda size: [{"op": "add", "path": f"/data/k{at}", "value": "v"} for at in range(size)],
        "test": lambda size: [{"op": "test", "path": "/data/k0", "value": "v"}] * size,
        "replace": lambda size: [{"op": "replace", "path": "/data/k0", "value": "v"}] * size,
        "move": lambda size: [
            {"op": "move", "from": f"/data/k{at % 2}", "path": f"/data/k{(at + 1) % 2}"} for at in range(size)
        ],
        "no operation": lambda size: [{"op": "x"}] * size,
    }.items():
        yield Case(
            f"JSON patch: {name}",
            partial(_stored, MAPS, lambda _: {"data": {"k0": "v", "k1": "v"}}),
            partial(_patch, MAPS, JSON_PATCH, make),
            largest=most,
        )
    yield Case(
        "JSON patch: a long path",
        partial(_stored, MAPS, _data),
        lambda size: build_request(
            "PATCH", f"{MAPS}/x", orjson.dumps([{"op": "test", "path": "/~01" * size}]), JSON_PATCH
        ),
    )
    yield Case(
        "repeated fields of a patch",
        partial(_stored, MAPS, _data),
        lambda size: build_request("PATCH", f"{MAPS}/x", b"{" + b",".join([b'"x":1,"x":2'] * size) + b"}", MERGE),
    )
    yield Case(
        "repeated fields of an object",
        no_requests,
        lambda size: build_request("POST", MAPS, b"{" + b",".join([b'"kind":"a","x":2'] * size) + b"}"),
    )
    yield Case(
        "unknown fields",
        no_requests,
        lambda size: build_request("POST", MAPS, orjson.dumps({f"x{at}": 1 for at in range(size)}), query="dryRun=All"),
    )
    for directive in ("delete", "replace", "merge"):
        yield Case(
            f"strategic: {directive} items",
            partial(_stored, PODS, _environment),
            partial(
                _patch,
                PODS,
                STRATEGIC,
                lambda size, d=directive: _pod(env=[{"name": f"E{at}", "$patch": d} for at in range(size)]),
            ),
        )
    yield Case(
        "strategic: order of items",
        partial(_stored, PODS, _environment),
        partial(
            _patch,
            PODS,
            STRATEGIC,
            lambda size: {
                "spec": {
                    "containers": [{"name": "c", "$setElementOrder/env": [{"name": f"E{at}"} for at in range(size)]}]
                }
            },
        ),
    )
    yield Case(
        "strategic: remove finalizers",
        partial(_stored, MAPS, _finalizers),
        partial(
            _patch,
            MAPS,
            STRATEGIC,
            lambda size: {
                "metadata": {"$deleteFromPrimitiveList/finalizers": [f"example.com/f{at}" for at in range(size)]}
            },
        ),
    )
