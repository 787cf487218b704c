"""Objects that are nested deep: what upstream's decoder reads, 10 000 levels, is taken, kept and given back; what is
deeper is refused in its words.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.wire import Answer, Child, Wire

REVISIONS = "/apis/apps/v1/namespaces/default/controllerrevisions"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
#: Within the parser's own limits and beyond each of them: what orjson writes (254), and what it reads (1024).
DEPTHS = [250, 260, 9_990]
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
PROTOBUF = "application/vnd.kubernetes.protobuf"


def nested(levels: int, leaf: str = "1") -> str:
    return '{"a":' * levels + leaf + "}" * levels


def written(value: Any, **parts: str) -> str:
    """JSON with texts in place of their names."""
    text = json.dumps(value)
    for name, part in parts.items():
        text = text.replace(f'"{name}"', part)
    return text


def revision(name: str, data: str, **more: Any) -> str:
    obj = {"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": name, **more}}
    return written({**obj, "revision": 1, "data": "DATA"}, DATA=data)


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
    """A process of its own, with the stack that the interpreter gives it."""
    with Child(tmp_path_factory.mktemp("data"), "--runtime-config=api/all=true") as child:
        yield child.wire()
        assert "Traceback" not in child.log()


def send(wire: Wire, method: str, path: str, body: str | bytes, media: str = "application/json") -> Answer:
    data = body.encode() if isinstance(body, str) else body
    return wire.request(method, path, data, {"Content-Type": media})


def create(wire: Wire, data: str) -> str:
    """The path of an object with this data."""
    wire.request("DELETE", f"{REVISIONS}/deep")
    answer = send(wire, "POST", REVISIONS, revision("deep", data))
    assert (answer.status, data.encode() in answer.body) == (201, True), answer.text[:300]
    return f"{REVISIONS}/deep"


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_deep_object_is_given_back_in_every_form(wire: Wire, depth: int) -> None:
    deep = nested(depth)
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


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_deep_object_can_be_sent_back_in_the_form_in_which_it_was_read(wire: Wire, depth: int) -> None:
    path = create(wire, nested(depth))
    before = wire.get(path)
    for media in ("application/json", "application/yaml", PROTOBUF):
        again = send(wire, "PUT", path, wire.get(path, Accept=media).body, media)
        assert (again.status, again.body) == (200, before.body), (media, again.text[:300])


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_deep_object_is_patched_and_applied(wire: Wire, depth: int) -> None:
    path = create(wire, nested(depth))
    operations = [{"op": "add", "path": "/metadata/labels", "value": {"x": "y"}}]
    patches = {kind: {"metadata": {"labels": {"x": kind}}} for kind in ("merge", "strategic-merge")}
    for kind, patch in {**patches, "json": operations}.items():
        answer = send(wire, "PATCH", path, json.dumps(patch), f"application/{kind}-patch+json")
        assert (answer.status, nested(depth).encode() in answer.body) == (200, True), answer.text[:300]
    applied = revision("deep", nested(depth), labels={"y": "z"})
    answers = [send(wire, "PATCH", f"{path}?fieldManager=me", applied, "application/apply-patch+yaml") for _ in "12"]
    assert (answers[0].status, answers[1].body) == (200, answers[0].body), answers[0].text[:300]


def test_a_patch_may_look_into_what_is_deep(wire: Wire) -> None:
    path = create(wire, nested(3000, '{"b":[1,{"c":null}],"d":2}'))
    where = "/data" + "/a" * 3000
    for value, status in ([1, {"c": None}], 200), ([1, {"c": 1}], 422):
        patch = json.dumps([{"op": "test", "path": f"{where}/b", "value": value}])
        answer = send(wire, "PATCH", path, patch, "application/json-patch+json")
        assert answer.status == status, answer.text[:300]
    answer = send(wire, "PATCH", path, written({"data": "X"}, X=nested(3001)), "application/merge-patch+json")
    assert (answer.status, answer.json["details"]["causes"][0]["field"]) == (422, "data")


def test_the_last_level_that_is_read_is_upstreams(wire: Wire) -> None:
    assert send(wire, "POST", f"{REVISIONS}?dryRun=All", revision("x", nested(9_999))).status == 201
    words = "couldn't get version/kind; json parse error: invalid character '{' exceeded max depth"
    for levels in (10_000, 200_000):
        answer = send(wire, "POST", f"{REVISIONS}?dryRun=All", revision("x", nested(levels)))
        assert (answer.status, words in answer.text) == (400, True), answer.text[:300]
    for kind in ("merge", "strategic-merge"):
        path = create(wire, nested(10))
        answer = send(wire, "PATCH", path, written({"data": "X"}, X=nested(10_000)), f"application/{kind}-patch+json")
        assert (answer.status, "exceeded max depth" in answer.text) == (400, True), answer.text[:300]
    path = create(wire, nested(6000))
    operations = [{"op": "copy", "from": "/data", "path": "/data" + "/a" * 6000}]
    answer = send(wire, "PATCH", path, json.dumps(operations), "application/json-patch+json")
    assert (answer.status, "exceeded max depth" in answer.text) == (422, True), answer.text[:300]


@pytest.mark.parametrize("where", ["unknown", "repeated", "status", "managers", "raw", "wrong"])
def test_no_place_for_deep_values_ends_in_an_error_of_the_server(wire: Wire, where: str) -> None:
    deep = nested(3000, '"\\ud800 ü"')
    obj = claim("odd", "{}")
    if where == "managers":
        entry = {"manager": "m", "operation": "Update", "apiVersion": obj["apiVersion"], "fieldsType": "FieldsV1"}
        obj["metadata"]["managedFields"] = [{**entry, "fieldsV1": "DEEP"}]
        deep = nested(3000, "{}").replace('"a"', '"f:a"')
    elif where == "status":
        obj["status"] = {"devices": [{"driver": "d", "pool": "p", "device": "d", "data": "DEEP"}]}
    elif where == "raw":
        obj, deep = claim("odd", "DEEP"), nested(1500, '"\\ud800 ü"').replace(":{", " :\n{")
    else:
        obj["metadata" if where == "wrong" else "unknown"] = "DEEP"
        deep = '{"x":1,"x":%s}' % deep if where == "repeated" else deep  # noqa: UP031
    body = written(obj, DEEP=deep)
    for method, path in (("POST", CLAIMS), ("PUT", f"{CLAIMS}/odd"), ("PUT", f"{CLAIMS}/odd/status")):
        for media in ("application/json", "application/yaml"):
            answer = send(wire, method, path, body, media)
            assert "log says why" not in answer.text
    for kind in ("merge-patch+json", "strategic-merge-patch+json", "apply-patch+yaml"):
        for path in (f"{CLAIMS}/odd", f"{CLAIMS}/odd/status"):
            answer = send(wire, "PATCH", f"{path}?fieldManager=m", body, f"application/{kind}")
            assert "log says why" not in answer.text
    wire.request("DELETE", f"{CLAIMS}/odd")
