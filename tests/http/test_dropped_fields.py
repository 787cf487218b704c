"""Fields that a disabled feature gate drops: remembered for each object, told in Warning headers where that is asked
for.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from apiserver.api.objects import Json
from apiserver.api.schema.dropping import DroppedField
from apiserver.registry.definition.dropped_fields import MOST_FIELDS, DroppedFields
from tests.support.server import Running, serve

pytestmark = pytest.mark.integration

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
EXACTLY = {"deviceClassName": "c", "adminAccess": False, "tolerations": [{"operator": "Exists"}]}
GATES = "--feature-gates=DRADeviceTaints=false,DRADeviceTaintRules=false,DRAListTypeAttributes=false"
LOST = [{"path": "spec.devices.requests[0].exactly.tolerations", "gate": "DRADeviceTaints"}]


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with serve(GATES, "--warn-dropped-fields") as running:
        yield running


def claim(**metadata: str) -> Json:
    return {"metadata": metadata, "spec": {"devices": {"requests": [{"name": "r", "exactly": dict(EXACTLY)}]}}}


def dropped(server: Running, query: str) -> list[Json]:
    answer = server.wire().get(f"/-/dropped?{query}")
    assert answer.status == 200, answer.text
    found: list[Json] = answer.json
    return found


def test_what_a_create_lost_is_told_and_remembered(server: Running) -> None:
    made = server.wire().post(CLAIMS, claim(name="a"))
    assert made.status == 201
    assert (
        made.headers["warning"]
        == '299 - "spec.devices.requests[0].exactly.tolerations: dropped, the feature gate DRADeviceTaints is disabled"'
    )
    (loss,) = dropped(server, "kind=ResourceClaim&namespace=default&name=a")
    assert loss["fields"] == LOST
    assert loss["group"] == "resource.k8s.io"
    assert datetime.fromisoformat(loss["when"]).tzinfo is not None


def test_a_generated_name_is_the_name_it_is_remembered_by(server: Running) -> None:
    name = server.wire().post(CLAIMS, claim(generateName="g-")).json["metadata"]["name"]
    assert [loss["fields"] for loss in dropped(server, f"name={name}")] == [LOST]


def test_a_write_that_fails_is_remembered_and_a_dry_run_only_told(server: Running) -> None:
    broken = claim(name="broken")
    broken["spec"]["devices"]["requests"][0]["exactly"] = {
        "deviceClassName": "",
        "tolerations": [{"operator": "Exists"}],
    }
    assert server.wire().post(CLAIMS, broken).status == 422
    assert [loss["fields"] for loss in dropped(server, "name=broken")] == [LOST]
    assert "warning" in server.wire().post(f"{CLAIMS}?dryRun=All", claim(name="dry")).headers
    assert dropped(server, "name=dry") == []


def test_maps_and_lists_are_named_in_the_path(server: Running) -> None:
    device = {"name": "d0", "taints": [{"key": "k", "effect": "NoSchedule"}], "attributes": {"b": {"ints": [1]}}}
    spec = {
        "driver": "d",
        "nodeName": "n",
        "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        "devices": [device],
    }
    server.wire().post(SLICES, {"metadata": {"name": "s"}, "spec": spec})
    (loss,) = dropped(server, "kind=ResourceSlice")
    assert loss["fields"] == [
        {"path": "spec.devices[0].attributes[b].ints", "gate": "DRAListTypeAttributes"},
        {"path": "spec.devices[0].taints", "gate": "DRADeviceTaints"},
    ]


def test_updates_patches_and_applies_are_remembered(server: Running) -> None:
    wire = server.wire()
    for name in ("put", "patched"):
        plain = claim(name=name)
        del plain["spec"]["devices"]["requests"][0]["exactly"]["tolerations"]
        assert wire.post(CLAIMS, plain).status == 201
        assert dropped(server, f"name={name}") == []
    wire.request("PUT", f"{CLAIMS}/put", claim(name="put"))
    patch = b'[{"op":"add","path":"/spec/devices/requests/0/exactly/tolerations","value":[{"operator":"Exists"}]}]'
    wire.request("PATCH", f"{CLAIMS}/patched", patch, {"content-type": "application/json-patch+json"})
    body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", **claim(name="applied")}
    wire.request(
        "PATCH",
        f"{CLAIMS}/applied?fieldManager=m",
        json.dumps(body).encode(),
        {"content-type": "application/apply-patch+yaml"},
    )
    for name in ("put", "patched", "applied"):
        assert [loss["fields"] for loss in dropped(server, f"name={name}")] == [LOST]


def test_nobody_is_told_who_did_not_ask() -> None:
    with serve(GATES) as server:
        made = server.wire().post(CLAIMS, claim(name="a"))
        assert made.status == 201
        assert "warning" not in made.headers
        assert [loss["name"] for loss in dropped(server, "")] == ["a"]
        assert server.wire().request("POST", "/-/reset").status == 200
        assert dropped(server, "") == []


def test_the_memory_is_bounded() -> None:
    memory = DroppedFields(most=2)
    now = datetime(2026, 1, 1, tzinfo=UTC)
    field = DroppedField("spec.x", "G")
    for name in ("a", "b", "a", "c"):
        memory.record("g", "K", "ns", name, now, [field] * (MOST_FIELDS + 1))
    assert [loss.name for loss in memory.losses()] == ["c", "a"]
    assert all(len(loss.fields) == MOST_FIELDS for loss in memory.losses())
    assert memory.losses(name="b") == []


def test_a_pod_of_an_older_release_has_no_fields_of_younger_ones() -> None:
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
        made = server.wire().post("/api/v1/namespaces/default/pods", pod)
        assert made.status == 201, made.text
        kept = made.json["spec"]
        assert "hostnameOverride" not in kept
        assert [volume["name"] for volume in kept["volumes"]] == ["v"]
        (container,) = kept["containers"]
        assert container.keys() & {"restartPolicy", "restartPolicyRules"} == set()
        assert [mount["name"] for mount in container["volumeMounts"]] == ["v"]
        (loss,) = dropped(server, "kind=Pod&name=p")
        assert sorted((field["path"], field["gate"]) for field in loss["fields"]) == [
            ("spec.containers[0].restartPolicy", "ContainerRestartRules"),
            ("spec.containers[0].restartPolicyRules", "ContainerRestartRules"),
            ("spec.hostnameOverride", "HostnameOverride"),
            ("spec.volumes[0]", "ImageVolume"),
        ]
