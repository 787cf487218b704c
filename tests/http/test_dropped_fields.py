"""Fields that a disabled feature gate drops are listed per object, and named in Warning headers if a flag says so."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from apiserver.api.objects import Json
from apiserver.api.schema.dropping import DroppedField
from apiserver.registry.definition.dropped_fields import MOST_FIELDS, DroppedFields
from tests.support.objects import make_slice
from tests.support.server import serve
from tests.support.wire import Wire

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
