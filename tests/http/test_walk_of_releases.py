"""One data directory under several releases and gates: fields known only to some of them are kept."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path

import pytest

from apiserver.api.objects import Json
from tests.support.wire import Answer, Child, Wire

pytestmark = pytest.mark.integration

GROUP = "/apis/resource.k8s.io"
ALL_33 = (
    "--emulated-version=1.33",
    "--feature-gates=DynamicResourceAllocation=true,DRADeviceTaints=true,DRAPartitionableDevices=true",
)
ALL_36 = (
    "--emulated-version=1.36",
    "--feature-gates=DRADeviceTaintRules=true,DRAListTypeAttributes=true,DRANodeAllocatableResources=true,DRAResourcePoolStatus=true",
)
#: New gates are off here: alpha, or not there yet.
PLAIN_34 = ("--emulated-version=1.34",)
OFF = "DRADeviceTaints=false,DRAConsumableCapacity=false,DRAExtendedResource=false,DRAPartitionableDevices=false"
PLAIN_36 = ("--emulated-version=1.36", f"--feature-gates={OFF}")

POOL = {"name": "p", "generation": 1, "resourceSliceCount": 1}
TAINT = {"key": "a", "effect": "NoSchedule", "timeAdded": "2020-01-01T00:00:00Z"}
EXACTLY = {"deviceClassName": "c", "allocationMode": "ExactCount", "count": 1}
PLURALS = {
    "ResourceClaim": "namespaces/default/resourceclaims",
    "ResourceClaimTemplate": "namespaces/default/resourceclaimtemplates",
    "ResourceSlice": "resourceslices",
    "DeviceClass": "deviceclasses",
    "DeviceTaintRule": "devicetaintrules",
    "ResourcePoolStatusRequest": "resourcepoolstatusrequests",
}


def requests(request: Json) -> Json:
    return {"devices": {"requests": [{"name": "r", **request}]}}


def devices(*listed: Json) -> Json:
    named = [{"name": f"d{index}", **device} for index, device in enumerate(listed)]
    return {"driver": "d.example.com", "nodeName": "n", "pool": POOL, "devices": named}


TOLERATIONS = [{"operator": "Exists"}]
REQUEST = {"exactly": {**EXACTLY, "capacity": {"requests": {"m": "1Gi"}}, "tolerations": TOLERATIONS}}
CLAIM = {
    "requests": [{"name": "r", **REQUEST}],
    "constraints": [{"distinctAttribute": "d.example.com/a"}],
    "config": [{"opaque": {"driver": "d.example.com", "parameters": {"b": 1, "a": 2}}}],
}
LISTS = {
    "attributes": {"a": {"ints": [1, 2]}},
    "nodeAllocatableResourceMappings": {"cpu": {"allocationMultiplier": "2"}},
}
CAPACITY = {"m": {"value": "4Gi", "requestPolicy": {"default": "1Gi"}}}
CONDITIONS = {"bindingConditions": ["Ready"], "bindingFailureConditions": ["Failed"], "bindsToNode": True}

#: Written by 1.33 in v1beta1, the version it serves.
OLD: list[tuple[str, str, Json]] = [
    ("ResourceClaim", "old", requests({"deviceClassName": "c", "tolerations": TOLERATIONS})),
    ("ResourceSlice", "old", devices({"basic": {"taints": [TAINT], "attributes": {"a": {"string": "x"}}}})),
    ("DeviceClass", "old", {"selectors": [{"cel": {"expression": "true"}}]}),
]
#: Written by 1.36 in v1 (where there is one), with fields that 1.34 has no gate for, or has off.
NEW: list[tuple[str, str, Json]] = [
    ("ResourceClaim", "new", {"devices": CLAIM}),
    ("ResourceClaimTemplate", "new", {"spec": requests({"firstAvailable": [{"name": "s", **EXACTLY}]})}),
    ("ResourceSlice", "lists", devices(LISTS)),
    ("ResourceSlice", "shared", devices({"allowMultipleAllocations": True, "capacity": CAPACITY})),
    ("ResourceSlice", "bound", devices(CONDITIONS)),
    ("DeviceClass", "new", {"extendedResourceName": "example.com/gpu"}),
    ("DeviceTaintRule", "new", {"deviceSelector": {"driver": "d.example.com"}, "taint": TAINT}),
    ("ResourcePoolStatusRequest", "new", {"driver": "d.example.com", "limit": 100}),
]
ONLY_36 = {"DeviceTaintRule": "v1beta2", "ResourcePoolStatusRequest": "v1alpha3"}


def path(kind: str, name: str = "", version: str = "") -> str:
    return f"{GROUP}/{version or ONLY_36.get(kind, 'v1')}/{PLURALS[kind]}{'/' if name else ''}{name}"


def ok(answer: Answer) -> Json:
    assert answer.status in (200, 201), answer.text
    found: Json = answer.json
    return found


def create(wire: Wire, objects: list[tuple[str, str, Json]], version: str = "") -> None:
    for kind, name, spec in objects:
        ok(wire.post(path(kind, version=version), {"metadata": {"name": name}, "spec": deepcopy(spec)}))


def touch(wire: Wire, objects: list[tuple[str, str, Json]], label: str, version: str = "") -> None:
    """Read and write back every served object with one new label."""
    for kind, name, _ in objects:
        if kind not in ONLY_36:
            obj = ok(wire.get(path(kind, name, version)))
            obj["metadata"].setdefault("labels", {})[label] = "x"
            ok(wire.put(path(kind, name, version), obj))


def specs(wire: Wire, objects: list[tuple[str, str, Json]]) -> list[Json]:
    return [ok(wire.get(path(kind, name)))["spec"] for kind, name, _ in objects]


@pytest.mark.parametrize("between", [PLAIN_34, PLAIN_36], ids=["an-older-release", "gates-off"])
def test_nothing_is_lost_on_the_way_through_releases_and_gates(tmp_path: Path, between: tuple[str, ...]) -> None:
    always = ("--storage=sqlite", "--runtime-config=api/all=true")
    with Child(tmp_path, *always, *ALL_33) as child:
        create(child.wire(), OLD, "v1beta1")
    with Child(tmp_path, *always, *ALL_36) as child:
        wire = child.wire()
        (claim, slice_, _) = specs(wire, OLD)
        assert claim["devices"]["requests"][0]["exactly"]["tolerations"] == [{"operator": "Exists"}]
        assert slice_["devices"][0]["taints"] == [TAINT]
        create(wire, NEW)
        touch(wire, OLD, "up")
        before = specs(wire, OLD + NEW)
        for (_, _, sent), stored in zip(NEW, before[len(OLD) :], strict=True):
            assert sent.items() <= stored.items()
    with Child(tmp_path, *always, *between) as child:
        wire = child.wire()
        served = [(kind, name, spec) for kind, name, spec in OLD + NEW if kind not in ONLY_36]
        touch(wire, served, "down")
        touch(wire, served, "older", "v1beta2")
        if between is PLAIN_34:
            assert wire.get(path("DeviceTaintRule", "new")).status == 404
    with Child(tmp_path, *always, *ALL_33) as child:
        touch(child.wire(), OLD, "oldest", "v1beta1")
    with Child(tmp_path, *always, *ALL_36) as child:
        wire = child.wire()
        assert specs(wire, OLD + NEW) == before
        assert ok(wire.get(path("ResourceClaim", "new")))["metadata"]["labels"] == {"down": "x", "older": "x"}


def test_the_next_write_drops_a_manager_of_a_version_that_is_no_longer_served(tmp_path: Path) -> None:
    """The fields of a version are known only while it is served (k8s.io/apimachinery: "no corresponding type")."""
    sent = {"metadata": {"name": "c", "labels": {"a": "b"}}, "spec": {"selectors": [{"cel": {"expression": "true"}}]}}
    with Child(tmp_path, "--storage=sqlite", "--runtime-config=api/all=true") as child:
        wire = child.wire()
        ok(wire.post(path("DeviceClass"), sent))
        ok(wire.post(path("DeviceClass", version="v1beta1"), {**sent, "metadata": {"name": "old"}}))
    with Child(
        tmp_path, "--storage=sqlite", "--runtime-config=resource.k8s.io/v1=false,resource.k8s.io/v1beta1=true"
    ) as child:
        wire = child.wire()
        read = ok(wire.get(path("DeviceClass", "c", "v1beta1")))
        assert [entry["apiVersion"] for entry in read["metadata"]["managedFields"]] == ["resource.k8s.io/v1"], (
            "reading changes nothing"
        )
        read["metadata"]["labels"]["c"] = "d"
        written = ok(wire.put(path("DeviceClass", "c", "v1beta1"), read))
        assert [(entry["apiVersion"], entry["fieldsV1"]) for entry in written["metadata"]["managedFields"]] == [
            ("resource.k8s.io/v1beta1", {"f:metadata": {"f:labels": {"f:c": {}}}})
        ]
        kept = ok(wire.get(path("DeviceClass", "old", "v1beta1")))
        assert ok(wire.put(path("DeviceClass", "old", "v1beta1"), kept))["metadata"] == kept["metadata"], (
            "it is still served"
        )
