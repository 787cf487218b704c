"""Fields of feature gates: dropped and listed while a gate is off; those of kubedra's own gates are unknown then."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from apiserver.api.objects import Json
from apiserver.api.schema.dropping import DroppedField
from apiserver.registry.definition.dropped_fields import MOST_FIELDS, DroppedFields
from tests.support.objects import make_slice
from tests.support.server import Running, serve
from tests.support.wire import Answer, Child, Wire

pytestmark = pytest.mark.integration

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
EXACTLY = {"deviceClassName": "c", "adminAccess": False, "tolerations": [{"operator": "Exists"}]}
GATES = "--feature-gates=DRADeviceTaints=false,DRADeviceTaintRules=false,DRAListTypeAttributes=false"
FLAGS = (GATES, "--warn-dropped-fields")
LOST = [{"path": "spec.devices.requests[0].exactly.tolerations", "gate": "DRADeviceTaints"}]


def claim(**metadata: str) -> Json:
    return {"metadata": metadata, "spec": {"devices": {"requests": [{"name": "r", "exactly": dict(EXACTLY)}]}}}


def list_dropped(wire: Wire, query: str) -> list[Json]:
    answer = wire.get(f"/-/dropped?{query}")
    assert answer.status == 200, answer.text
    return list(answer.json)


def lost_fields(wire: Wire, name: str) -> list[Any]:
    return [loss["fields"] for loss in list_dropped(wire, f"name={name}")]


def test_a_create_warns_of_lost_fields_and_lists_them(wire: Wire) -> None:
    made = wire.post(CLAIMS, claim(name="a"))
    assert made.status == 201
    text = "spec.devices.requests[0].exactly.tolerations: dropped, the feature gate DRADeviceTaints is disabled"
    assert made.headers["warning"] == f'299 - "{text}"'
    (loss,) = list_dropped(wire, "kind=ResourceClaim&namespace=default&name=a")
    assert loss["fields"] == LOST
    assert loss["group"] == "resource.k8s.io"
    assert datetime.fromisoformat(loss["when"]).tzinfo is not None


def test_a_lost_field_is_listed_under_the_generated_name(wire: Wire) -> None:
    name = wire.post(CLAIMS, claim(generateName="g-")).json["metadata"]["name"]
    assert lost_fields(wire, name) == [LOST]


def test_a_failed_write_is_listed_and_a_dry_run_only_warns(wire: Wire) -> None:
    broken = claim(name="broken")
    broken["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = ""
    assert wire.post(CLAIMS, broken).status == 422
    assert lost_fields(wire, "broken") == [LOST]
    assert "warning" in wire.post(f"{CLAIMS}?dryRun=All", claim(name="dry")).headers
    assert list_dropped(wire, "name=dry") == []


def test_the_path_names_map_keys_and_list_indexes(wire: Wire) -> None:
    device = {"name": "d0", "taints": [{"key": "k", "effect": "NoSchedule"}], "attributes": {"b": {"ints": [1]}}}
    wire.post(SLICES, {"metadata": {"name": "s"}, "spec": make_slice("s", [device])["spec"]})
    (loss,) = list_dropped(wire, "kind=ResourceSlice")
    assert loss["fields"] == [
        {"path": "spec.devices[0].attributes[b].ints", "gate": "DRAListTypeAttributes"},
        {"path": "spec.devices[0].taints", "gate": "DRADeviceTaints"},
    ]


def test_updates_patches_and_applies_are_listed(wire: Wire) -> None:
    for name in ("put", "patched"):
        plain = claim(name=name)
        del plain["spec"]["devices"]["requests"][0]["exactly"]["tolerations"]
        wire.create(CLAIMS, plain)
        assert list_dropped(wire, f"name={name}") == []
    wire.put(f"{CLAIMS}/put", claim(name="put"))
    patch = b'[{"op":"add","path":"/spec/devices/requests/0/exactly/tolerations","value":[{"operator":"Exists"}]}]'
    wire.patch(f"{CLAIMS}/patched", patch, "json")
    body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", **claim(name="applied")}
    wire.patch(f"{CLAIMS}/applied?fieldManager=m", body, "apply")
    for name in ("put", "patched", "applied"):
        assert lost_fields(wire, name) == [LOST]


def test_no_header_names_lost_fields_without_the_flag() -> None:
    with serve(GATES) as server:
        wire = server.wire()
        made = wire.post(CLAIMS, claim(name="a"))
        assert made.status == 201
        assert "warning" not in made.headers
        assert [loss["name"] for loss in list_dropped(wire, "")] == ["a"]
        assert wire.post("/-/reset", None).status == 200
        assert list_dropped(wire, "") == []


def test_the_list_is_bounded() -> None:
    memory = DroppedFields(most=2)
    now = datetime(2026, 1, 1, tzinfo=UTC)
    field = DroppedField("spec.x", "G")
    for name in ("a", "b", "a", "c"):
        memory.record("g", "K", "ns", name, now, [field] * (MOST_FIELDS + 1))
    assert [loss.name for loss in memory.losses()] == ["c", "a"]
    assert all(len(loss.fields) == MOST_FIELDS for loss in memory.losses())
    assert memory.losses(name="b") == []


def test_an_older_release_drops_the_pod_fields_of_newer_ones() -> None:
    container = {
        "name": "c",
        "image": "i",
        "restartPolicy": "OnFailure",
        "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}],
        "volumeMounts": [{"name": "img", "mountPath": "/img"}, {"name": "v", "mountPath": "/v"}],
    }
    volumes: list[Json] = [{"name": "img", "image": {"reference": "r"}}, {"name": "v", "emptyDir": {}}]
    spec = {"hostnameOverride": "h", "containers": [container], "volumes": volumes}
    with serve("--emulated-version=1.33") as server:
        pod = {"metadata": {"name": "p", "namespace": "default"}, "spec": spec}
        kept = server.wire().create("/api/v1/namespaces/default/pods", pod)["spec"]
        assert "hostnameOverride" not in kept
        assert [volume["name"] for volume in kept["volumes"]] == ["v"]
        (container,) = kept["containers"]
        assert container.keys() & {"restartPolicy", "restartPolicyRules"} == set()
        assert [mount["name"] for mount in container["volumeMounts"]] == ["v"]
        (loss,) = list_dropped(server.wire(), "kind=Pod&name=p")
        assert sorted((field["path"], field["gate"]) for field in loss["fields"]) == [
            ("spec.containers[0].restartPolicy", "ContainerRestartRules"),
            ("spec.containers[0].restartPolicyRules", "ContainerRestartRules"),
            ("spec.hostnameOverride", "HostnameOverride"),
            ("spec.volumes[0]", "ImageVolume"),
        ]


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
    made = on.wire().create(f"{path()}?fieldValidation=Strict", {"metadata": {"name": "known"}, "spec": spec()})
    assert made["spec"]["reservedFor"] == JOB


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
