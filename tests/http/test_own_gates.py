"""Fields of kubedra's own gates exist only while their gate is on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from apiserver.api.objects import Json
from tests.support.server import Running, serve
from tests.support.wire import Answer, Child, Wire

pytestmark = pytest.mark.integration

GATE = "--feature-gates=DRAReservedForWorkloads=true"
ALL = "--runtime-config=api/all=true"
JOB = {"apiGroup": "batch", "resource": "jobs", "name": "train", "uid": "u1"}
REQUESTS = {
    "v1": [{"name": "r", "exactly": {"deviceClassName": "c"}}],
    "v1beta2": [{"name": "r", "exactly": {"deviceClassName": "c"}}],
    "v1beta1": [{"name": "r", "deviceClassName": "c"}],
}
RESULT = {"request": "r", "driver": "gpu.example.com", "pool": "p", "device": "d0"}
VERSIONS = pytest.mark.parametrize("version", list(REQUESTS))


@pytest.fixture(scope="module")
def off() -> Iterator[Running]:
    with serve(ALL, "--feature-gates=AllAlpha=true") as running:
        yield running


@pytest.fixture(scope="module")
def on() -> Iterator[Running]:
    with serve(ALL, GATE) as running:
        yield running


def path(version: str = "v1", kind: str = "resourceclaims") -> str:
    return f"/apis/resource.k8s.io/{version}/namespaces/default/{kind}"


def spec(version: str = "v1") -> Json:
    return {"devices": {"requests": REQUESTS[version]}, "reservedFor": JOB}


@VERSIONS
def test_without_the_gate_the_field_is_unknown_to_a_strict_reader(off: Running, version: str) -> None:
    wire = off.wire()
    claim = {"metadata": {"name": "strict"}, "spec": spec(version)}
    answer = wire.post(f"{path(version)}?fieldValidation=Strict", claim)
    refused = f'ResourceClaim in version "{version}" cannot be handled as a ResourceClaim: strict decoding error: '
    assert answer.refusal == (400, refused + 'unknown field "spec.reservedFor"')
    template = {"metadata": {"name": "strict"}, "spec": {"spec": spec(version)}}
    answer = wire.post(f"{path(version, 'resourceclaimtemplates')}?fieldValidation=Strict", template)
    assert answer.message.endswith('strict decoding error: unknown field "spec.spec.reservedFor"')


@VERSIONS
def test_without_the_gate_the_field_is_dropped_with_the_warning_of_any_unknown_field(
    off: Running, version: str
) -> None:
    made = off.wire().post(path(version), {"metadata": {"name": f"plain-{version}"}, "spec": spec(version)})
    assert made.status == 201, made.text
    assert made.headers["warning"] == '299 - "unknown field \\"spec.reservedFor\\""'
    assert "reservedFor" not in made.json["spec"]
    assert b"reservedFor" not in json.dumps(made.json["metadata"]["managedFields"]).encode()


def test_without_the_gate_the_mark_of_an_allocation_is_unknown(off: Running) -> None:
    wire = off.wire()
    claim = wire.post(path(), {"metadata": {"name": "mark"}, "spec": {"devices": {"requests": REQUESTS["v1"]}}}).json
    claim["status"] = {"allocation": {"devices": {"results": [RESULT]}, "reservedForAnyPod": True}}
    answer = wire.put(f"{path()}/mark/status?fieldValidation=Strict", claim)
    assert answer.message.endswith('unknown field "status.allocation.reservedForAnyPod"')
    answer = wire.put(f"{path()}/mark/status", claim)
    assert answer.status == 200, answer.text
    assert answer.json["status"]["allocation"] == {"devices": {"results": [RESULT]}}


def test_without_the_gate_nothing_is_applied_and_nothing_owned(off: Running) -> None:
    body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "a"}, "spec": spec()}
    answer = apply(off.wire(), body)
    assert answer.status == 500, answer.text
    assert ".spec.reservedFor: field not declared in schema" in answer.message


def apply(wire: Wire, body: Json) -> Answer:
    return wire.patch(f"{path()}/{body['metadata']['name']}?fieldManager=m", json.dumps(body).encode(), "apply")  # fmt: skip


@pytest.mark.parametrize(
    "document", ["/openapi/v2", *(f"/openapi/v3/apis/resource.k8s.io/{version}" for version in REQUESTS)]
)
def test_openapi_has_the_fields_only_with_the_gate(off: Running, on: Running, document: str) -> None:
    """These documents are the source of kubectl explain."""
    for server, there in ((off, False), (on, True)):
        found = server.wire().get(document).json
        definitions = found.get("definitions") or found["components"]["schemas"]
        specs = {name: item for name, item in definitions.items() if name.endswith(".ResourceClaimSpec")}
        results = {name: item for name, item in definitions.items() if name.endswith(".AllocationResult")}
        assert specs
        assert all(("reservedFor" in item["properties"]) == there for item in specs.values())
        assert all(("reservedForAnyPod" in item["properties"]) == there for item in results.values())


def test_with_the_gate_the_field_is_known_to_a_strict_reader(on: Running) -> None:
    made = on.wire().post(f"{path()}?fieldValidation=Strict", {"metadata": {"name": "known"}, "spec": spec()})
    assert made.status == 201, made.text
    assert made.json["spec"]["reservedFor"] == JOB


def test_fields_stored_with_the_gate_are_kept_without_it(tmp_path: Path) -> None:
    """The fields cannot be written then, but objects with them can be read, labelled, allocated and freed."""
    always = ("--storage=sqlite", ALL)
    with Child(tmp_path, *always, GATE) as child:
        wire = child.wire()
        claim = wire.post(path(), {"metadata": {"name": "a"}, "spec": spec()}).json
        claim["status"] = {"allocation": {"devices": {"results": [RESULT]}, "reservedForAnyPod": True}}
        stored = wire.put(f"{path()}/a/status", claim).json
        assert stored["status"]["allocation"]["reservedForAnyPod"]
    with Child(tmp_path, *always) as child:
        wire = child.wire()
        for version in REQUESTS:
            shown = wire.get(f"{path(version)}/a").json
            assert "reservedFor" not in shown["spec"], "it is there, unseen"
            assert shown["status"]["allocation"] == {"devices": {"results": [RESULT]}}
            listed = wire.get(path(version)).json["items"]
            assert [item["spec"] for item in listed] == [shown["spec"]]
            shown["metadata"].setdefault("labels", {})[version] = "x"
            written = wire.put(f"{path(version)}/a", shown)
            assert written.status == 200, written.text
        patch = {"metadata": {"annotations": {"a": "b"}}}
        answer = wire.patch(f"{path()}/a", json.dumps(patch).encode())
        assert answer.status == 200, answer.text
        body = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": "a", "labels": {"m": "n"}},
        }
        assert apply(wire, body).status == 200
        shown = wire.get(f"{path()}/a").json
        answer = wire.put(f"{path()}/a/status", shown)
        assert answer.status == 200, answer.text
        assert wire.get(f"{path()}/a", accept="application/vnd.kubernetes.protobuf").status == 200
    with Child(tmp_path, *always, GATE) as child:
        found = child.wire().get(f"{path()}/a").json
        assert found["spec"] == stored["spec"]
        assert found["status"] == stored["status"]
        assert found["metadata"]["labels"] == {**dict.fromkeys(REQUESTS, "x"), "m": "n"}
