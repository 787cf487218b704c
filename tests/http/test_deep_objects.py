"""Objects of 200 levels are accepted and returned in every form. Deeper ones are refused with a 400."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from apiserver.api import protobuf
from apiserver.api.codec.codec import decode
from apiserver.api.protobuf import encode
from apiserver.api.protobuf.wire import BYTES, header, tag
from apiserver.api.types.apiextensions import CustomResourceDefinition, JSONSchemaProps
from apiserver.storage import Write
from tests.support.extensions import make_definition, make_version
from tests.support.server import serve
from tests.support.wire import Answer, Child, Wire

pytestmark = pytest.mark.integration

REVISIONS = "/apis/apps/v1/namespaces/default/controllerrevisions"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
#: Levels of a revision's data where the whole object has 200, the most that are accepted.
MOST = 199
#: One too many; more than orjson writes (254), more than it reads (1024), and many.
TOO_MANY = [200, 260, 1100, 200_000]
#: The number of a schema's field `not`.
_NOT = 28
REFUSED = "nested deeper than 200 levels"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
PROTOBUF = "application/vnd.kubernetes.protobuf"


def nested(levels: int, leaf: str = "1") -> str:
    return '{"a":' * levels + leaf + "}" * levels


def render_json(value: Any, **parts: str) -> str:
    """Return JSON with texts in place of their names."""
    text = json.dumps(value)
    for name, part in parts.items():
        text = text.replace(f'"{name}"', part)
    return text


def revision(name: str, data: str, **more: Any) -> str:
    obj = {"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": name, **more}}
    return render_json({**obj, "revision": 1, "data": "DATA"}, DATA=data)


def claim(name: str, parameters: str) -> dict[str, Any]:
    config = [{"opaque": {"driver": "gpu.example.com", "parameters": parameters}}]
    requests = [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": {"devices": {"requests": requests, "config": config}},
    }


@pytest.fixture(scope="module")
def wire(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    """Serve in its own process, with the default stack of the interpreter."""
    with Child(tmp_path_factory.mktemp("data"), "--runtime-config=api/all=true") as child:
        yield child.wire()
        assert "Traceback" not in child.log()


def send(wire: Wire, method: str, path: str, body: str | bytes, media: str = "application/json") -> Answer:
    data = body.encode() if isinstance(body, str) else body
    return wire.request(method, path, data, {"Content-Type": media})


def create(wire: Wire, data: str) -> str:
    """Create an object with this data; return its path."""
    wire.delete(f"{REVISIONS}/deep")
    answer = send(wire, "POST", REVISIONS, revision("deep", data))
    assert (answer.status, data.encode() in answer.body) == (201, True), answer.text[:300]
    return f"{REVISIONS}/deep"


def test_an_object_of_200_levels_is_returned_in_every_form(wire: Wire) -> None:
    deep = nested(MOST)
    path = create(wire, deep)
    for shown in (path, REVISIONS, f"{REVISIONS}?limit=500&labelSelector=!x", f"{path}?pretty=true"):
        got = wire.get(shown)
        assert (got.status, b"".join(got.body.split()).count(deep.encode())) == (200, 1), shown
    for accept in ("application/yaml", PROTOBUF, f"{TABLE},application/json", PARTIAL):
        for shown in (f"{path}?includeObject=Object", f"{REVISIONS}?includeObject=Object"):
            as_list = accept.replace("Metadata;", "MetadataList;") if shown.startswith(REVISIONS + "?") else accept
            answer = wire.get(shown, Accept=as_list)
            assert answer.status == 200, (accept, answer.text[:300])
    with wire.watch(f"{REVISIONS}?watch=true&resourceVersion=0") as watch:
        assert deep.encode() in watch.line()


def test_an_object_of_200_levels_can_be_sent_back_in_the_form_in_which_it_was_read(wire: Wire) -> None:
    path = create(wire, nested(MOST))
    before = wire.get(path)
    for media in ("application/json", "application/yaml", PROTOBUF):
        again = send(wire, "PUT", path, wire.get(path, Accept=media).body, media)
        assert (again.status, again.body) == (200, before.body), (media, again.text[:300])


def test_an_object_of_200_levels_is_patched_and_applied(wire: Wire) -> None:
    path = create(wire, nested(MOST))
    operations = [{"op": "add", "path": "/metadata/labels", "value": {"x": "y"}}]
    patches = {kind: {"metadata": {"labels": {"x": kind}}} for kind in ("merge", "strategic-merge")}
    for kind, patch in {**patches, "json": operations}.items():
        answer = send(wire, "PATCH", path, json.dumps(patch), f"application/{kind}-patch+json")
        assert (answer.status, nested(MOST).encode() in answer.body) == (200, True), answer.text[:300]
    applied = revision("deep", nested(MOST), labels={"y": "z"})
    answers = [send(wire, "PATCH", f"{path}?fieldManager=me", applied, "application/apply-patch+yaml") for _ in "12"]
    assert (answers[0].status, answers[1].body) == (200, answers[0].body), answers[0].text[:300]


@pytest.mark.parametrize("levels", TOO_MANY)
def test_deeper_bodies_are_refused_whatever_their_form(wire: Wire, levels: int) -> None:
    path, deep = create(wire, nested(10)), revision("deep", nested(levels))
    patches = [
        ("PATCH", f"{path}?fieldManager=me", f"application/{kind}")
        for kind in ("merge-patch+json", "strategic-merge-patch+json", "apply-patch+yaml")
    ]
    sent = [
        ("POST", REVISIONS, "application/json"),
        ("PUT", path, "application/json"),
        ("PUT", path, "application/yaml"),
    ]
    for method, to, media in (*sent, *patches):
        answer = send(wire, method, to, deep, media)
        assert (answer.status, answer.reason, REFUSED in answer.text) == (400, "BadRequest", True), media
    operations = render_json([{"op": "add", "path": "/data", "value": "X"}], X=nested(levels))
    answer = send(wire, "PATCH", path, operations, "application/json-patch+json")
    assert (answer.status, REFUSED in answer.text) == (400, True), answer.text[:300]


@pytest.mark.parametrize(
    "operations",
    [
        [{"op": "copy", "from": "/data", "path": "/data" + "/a" * 150}],
        [{"op": "copy", "from": "/data", "path": "/data" + "/a" * 150}] * 2,
        [{"op": "move", "from": "/data/a", "path": "/data/b"}, {"op": "move", "from": "/data", "path": "/data/c"}],
        [{"op": "add", "path": "/data" + "/a" * 100, "value": json.loads(nested(150))}],
    ],
    ids=["copied far down", "copied twice", "moved into itself", "added far down"],
)
def test_a_json_patch_that_makes_an_object_too_deep_is_refused(wire: Wire, operations: list[dict[str, Any]]) -> None:
    path = create(wire, nested(150))
    answer = send(wire, "PATCH", path, json.dumps(operations), "application/json-patch+json")
    assert (answer.status in (400, 422), REFUSED in answer.text) == (True, answer.status == 400), answer.text
    assert wire.get(path).json["data"] == json.loads(nested(150))


def schema(levels: int) -> dict[str, Any]:
    made: dict[str, Any] = {"type": "object"}
    for _ in range(levels):
        made = {"type": "object", "properties": {"a": made}}
    return made


def definition(levels: int) -> dict[str, Any]:
    """Return a definition with so many levels of properties; each adds two levels of nesting."""
    return make_definition("deeps", "Deep", make_version("v1", schema(levels)), scope="Cluster")


@pytest.mark.parametrize("levels", [98, 150])
def test_a_message_of_protobuf_that_is_too_deep_is_refused(wire: Wire, levels: int) -> None:
    obj = decode(CustomResourceDefinition, definition(levels)).obj
    message = protobuf.wrap(
        "apiextensions.k8s.io/v1", "CustomResourceDefinition", encode(CustomResourceDefinition, obj)
    )
    answer = send(wire, "POST", f"{DEFINITIONS}?dryRun=All", message, PROTOBUF)
    assert (answer.status, REFUSED.encode() in answer.body) == (400, True), answer.body[:300]


def test_a_message_of_protobuf_that_never_ends_is_refused() -> None:
    message = b""
    for _ in range(2000):
        message = header(tag(_NOT, BYTES), len(message)) + message
    with pytest.raises(protobuf.WireError, match=REFUSED):
        protobuf.decode(JSONSchemaProps, message)


@pytest.mark.parametrize("where", ["unknown", "repeated", "status", "managers", "raw", "wrong"])
def test_no_place_for_deep_values_ends_in_an_error_of_the_server(wire: Wire, where: str) -> None:
    deep = nested(190, '"\\ud800 ü"')
    obj = claim("odd", "{}")
    if where == "managers":
        entry = {"manager": "m", "operation": "Update", "apiVersion": obj["apiVersion"], "fieldsType": "FieldsV1"}
        obj["metadata"]["managedFields"] = [{**entry, "fieldsV1": "DEEP"}]
        deep = nested(190, "{}").replace('"a"', '"f:a"')
    elif where == "status":
        obj["status"] = {"devices": [{"driver": "d", "pool": "p", "device": "d", "data": "DEEP"}]}
    elif where == "raw":
        obj, deep = claim("odd", "DEEP"), nested(190, '"\\ud800 ü"').replace(":{", " :\n{")
    else:
        obj["metadata" if where == "wrong" else "unknown"] = "DEEP"
        deep = '{"x":1,"x":%s}' % deep if where == "repeated" else deep  # noqa: UP031
    body = render_json(obj, DEEP=deep)
    for method, path in (("POST", CLAIMS), ("PUT", f"{CLAIMS}/odd"), ("PUT", f"{CLAIMS}/odd/status")):
        for media in ("application/json", "application/yaml"):
            answer = send(wire, method, path, body, media)
            assert ("see the server's log" in answer.text, REFUSED in answer.text) == (False, False)
    for kind in ("merge-patch+json", "strategic-merge-patch+json", "apply-patch+yaml"):
        for path in (f"{CLAIMS}/odd", f"{CLAIMS}/odd/status"):
            answer = send(wire, "PATCH", f"{path}?fieldManager=m", body, f"application/{kind}")
            assert ("see the server's log" in answer.text, REFUSED in answer.text) == (False, False)
    wire.delete(f"{CLAIMS}/odd")


@pytest.mark.parametrize("levels", [300, 2000])
def test_a_deep_object_from_an_older_release_is_listed_and_every_other_use_fails_with_the_reason(levels: int) -> None:
    stored = '{"metadata":{"name":"old","namespace":"default","uid":"u"},"data":%s,"revision":1}' % nested(levels)  # noqa: UP031
    path = f"{REVISIONS}/old"
    with serve() as running:
        registry = running.server.registry
        store = registry.stores["apps", "controllerrevisions"]
        write = Write(store.key("default", "old"), stored.encode() + b"\t", 0)
        running.call(lambda: registry.log.append(write))
        wire = running.wire()
        for shown in (path, REVISIONS):
            assert nested(levels).encode() in wire.get(shown).body
        for answer in (
            wire.get(f"{path}?includeObject=Object", Accept=TABLE),
            send(wire, "PATCH", path, '{"revision":2}', "application/merge-patch+json"),
        ):
            assert (answer.status, REFUSED in answer.text) == (500, True), answer.text[:300]
        assert wire.get(f"{REVISIONS}/other").status == 404
