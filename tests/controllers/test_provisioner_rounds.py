"""The emulated provisioner in one pass over a claim or a volume, and the fate of a released volume."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from controllers.volumes import PROVISIONED_BY, SELECTED_NODE
from controllers.volumes.provisioner import DRIVER, FINALIZER, Provisioner, _keys_for_volume
from controllers.volumes.reclaiming import ReclaimDecision, decide_reclaim
from tests.support.objects import make_metadata, make_node
from tests.support.recording import RecordingClient, build

pytestmark = pytest.mark.integration

ASKED = {"volume.kubernetes.io/storage-provisioner": DRIVER}
NAME = "pvc-u-c"


def claim(notes: Json | None = None, deleted: str = "", has: str = "", size: str = "5Gi", **spec: Any) -> Json:
    """Build the claim `c`. `notes`: its annotations; `has`: its capacity, if it is bound."""
    metadata = make_metadata(
        "c", "ns", "u-c", resourceVersion="7", deletionTimestamp=deleted, annotations=ASKED if notes is None else notes
    )
    given = {"storageClassName": "s", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    status = {"phase": "Bound", "capacity": {"storage": has}} if has else {"phase": "Pending"}
    return {"kind": "PersistentVolumeClaim", "metadata": metadata, "spec": {**given, **spec}, "status": status}


def storage_class(waits: bool = False, provisioner: str = DRIVER, **more: Any) -> Json:
    mode = "WaitForFirstConsumer" if waits else "Immediate"
    found = {"kind": "StorageClass", "metadata": make_metadata("s"), "provisioner": provisioner}
    return {**found, "volumeBindingMode": mode, **more}


def volume(phase: str = "Released", *, size: str = "5Gi", by: str = DRIVER, deleted: str = "",
           finalizers: tuple[str, ...] = (FINALIZER, "other"), policy: str = "Delete") -> Json:  # fmt: skip
    metadata = make_metadata(
        NAME, uid="u-v", annotations={PROVISIONED_BY: by}, finalizers=list(finalizers), deletionTimestamp=deleted
    )
    spec = {"persistentVolumeReclaimPolicy": policy, "capacity": {"storage": size}}
    return {"kind": "PersistentVolume", "metadata": metadata, "spec": spec, "status": {"phase": phase}}


class VolumeClient(RecordingClient):
    @property
    def steps(self) -> list[str]:
        return [f"{verb} {kind}" for verb, kind, _ in self.writes]

    @property
    def first(self) -> Any:
        return self.writes[0][2]


async def provision(found: Json, of: Json | None = None, *objects: Json, **more: Any) -> VolumeClient:
    """Reconcile a claim of this class once."""
    client = build(Provisioner, VolumeClient(), found, of or storage_class(), *objects, **more)
    return await client.reconcile("claim:ns/c")


MADE = ["create PersistentVolume"]


async def test_a_claim_gets_the_volume_that_it_asks_for() -> None:
    client = await provision(claim())
    assert (client.steps, client.reasons) == (MADE, ["Provisioning", "ProvisioningSucceeded"])
    metadata, spec = client.first["metadata"], client.first["spec"]
    assert (metadata["name"], metadata["finalizers"], metadata["annotations"]) == (
        NAME, [FINALIZER], {PROVISIONED_BY: DRIVER},
    )  # fmt: skip
    assert spec == {
        "capacity": {"storage": "5Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "s",
        "persistentVolumeReclaimPolicy": "Delete", "volumeMode": "Filesystem",
        "claimRef": {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": "ns", "name": "c",
                     "uid": "u-c", "resourceVersion": "7"},
        "csi": {"driver": DRIVER, "volumeHandle": NAME},
    }  # fmt: skip
    special = storage_class(reclaimPolicy="Retain", mountOptions=["ro"])
    more = (await provision(claim(volumeMode="Block", volumeAttributesClassName="gold"), special)).first
    assert "finalizers" not in more["metadata"]
    assert {name: more["spec"][name] for name in ("volumeMode", "mountOptions", "volumeAttributesClassName")} == {
        "volumeMode": "Block", "mountOptions": ["ro"], "volumeAttributesClassName": "gold",
    }  # fmt: skip
    assert more["spec"]["persistentVolumeReclaimPolicy"] == "Retain"


@pytest.mark.parametrize(
    ("found", "of", "volumes", "made"),
    [
        (claim({"volume.beta.kubernetes.io/storage-provisioner": DRIVER}), None, (), True),
        (claim({}), None, (), False),
        (claim({"volume.kubernetes.io/storage-provisioner": "other"}), None, (), False),
        (claim(), storage_class(provisioner="other"), (), False),
        (claim(storageClassName="unknown"), None, (), False),
        (claim(volumeName="v"), None, (), False),
        (claim(deleted="x"), None, (), False),
        (claim(), storage_class(waits=True), (), False),
        (claim({**ASKED, SELECTED_NODE: "n"}), storage_class(waits=True), (), True),
        (claim(), None, (volume("Pending"),), False),
    ],
)
async def test_a_volume_is_made_when_it_is_asked_for(
    found: Json, of: Json | None, volumes: tuple[Json, ...], made: bool
) -> None:
    assert (await provision(found, of, *volumes)).steps == (MADE if made else [])


def expression(key: str, *values: str) -> Json:
    return {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}


LOCAL = storage_class(waits=True, parameters={"topologyKey": "zone"})
SELECTED = {**ASKED, SELECTED_NODE: "n"}
ZONES = [{"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}]}, {"matchLabelExpressions": []}]


async def test_a_volume_has_the_topology_of_its_class() -> None:
    client = await provision(claim(SELECTED), LOCAL, make_node("n", labels={"zone": "z"}))
    assert client.first["spec"]["nodeAffinity"] == {"required": {"nodeSelectorTerms": [expression("zone", "z")]}}
    allowed = (await provision(claim(), storage_class(allowedTopologies=ZONES))).first["spec"]["nodeAffinity"]
    assert allowed == {"required": {"nodeSelectorTerms": [expression("zone", "a", "b"), {"matchExpressions": []}]}}
    assert (
        "nodeAffinity"
        not in (
            await provision(claim(SELECTED), storage_class(waits=True), make_node("n", labels={"zone": "z"}))
        ).first["spec"]
    )


@pytest.mark.parametrize(
    ("found", "of", "why", "steps"),
    [
        (claim(SELECTED), storage_class(waits=True, parameters={"topologyKey": "zone", "b": "1", "a": "2"}),
         'unknown parameter "a"', ["update PersistentVolumeClaim"]),
        (claim(), storage_class(parameters={"x": "1"}), 'unknown parameter "x"', []),
        (claim({**ASKED, SELECTED_NODE: "gone"}), LOCAL,
         'error getting selected node "gone": node "gone" not found', ["update PersistentVolumeClaim"]),
        (claim(SELECTED), LOCAL, 'node "n" has no label "zone"', ["update PersistentVolumeClaim"]),
    ],
)  # fmt: skip
async def test_a_volume_that_can_be_nowhere_sends_its_claim_back_to_the_scheduler(
    found: Json, of: Json, why: str, steps: list[str]
) -> None:
    client = await provision(found, of, make_node("n"))
    text = f'failed to provision volume with StorageClass "s": {why}'
    assert (client.events, client.steps) == ([("Warning", "ProvisioningFailed", text)], steps)
    if steps:
        assert client.first["metadata"]["annotations"] == ASKED


async def test_a_volume_that_was_just_made_is_as_good() -> None:
    made = await provision(claim(), refuses={"create": (409, "AlreadyExists")})
    assert made.reasons[-1] == "ProvisioningSucceeded"
    assert (await provision(claim(), refuses={"create": (403, "Forbidden")})).error is not None


# --- growing

DONE = {"pv.kubernetes.io/bind-completed": "yes"}


@pytest.mark.parametrize(
    ("wanted", "size", "said", "by", "steps", "told"),
    [
        ("5Gi", "5Gi", "5Gi", DRIVER, [], []),
        ("6Gi", "5Gi", "5Gi", DRIVER, ["patch PersistentVolume", "update/status PersistentVolumeClaim"],
         ["Resizing", "VolumeResizeSuccessful"]),
        ("5Gi", "6Gi", "5Gi", DRIVER, ["update/status PersistentVolumeClaim"], ["VolumeResizeSuccessful"]),
        ("6Gi", "6Gi", "5Gi", DRIVER, ["update/status PersistentVolumeClaim"], ["VolumeResizeSuccessful"]),
        ("5Gi", "5Gi", "6Gi", DRIVER, [], []),
        ("6Gi", "5Gi", "5Gi", "other", [], []),
    ],
)  # fmt: skip
async def test_a_bound_claim_grows_after_its_volume(
    wanted: str, size: str, said: str, by: str, steps: list[str], told: list[str]
) -> None:
    found = claim(DONE, has=said, size=wanted, volumeName=NAME)
    found["status"]["conditions"] = [{"type": "Resizing"}]
    client = await provision(found, None, volume("Bound", size=size, by=by))
    assert (client.steps, client.reasons) == (steps, told)
    if steps:
        assert client.writes[-1][2]["status"] == {"phase": "Bound", "capacity": {"storage": "6Gi"}}
    if len(steps) == 2:
        assert client.first == (NAME, {"spec": {"capacity": {"storage": "6Gi"}}})


async def test_a_claim_that_is_not_bound_or_has_lost_its_volume_does_not_grow() -> None:
    found = claim(DONE, has="5Gi", size="6Gi", volumeName=NAME)
    assert (await provision(found)).steps == []
    lost = {**found, "status": {**found["status"], "phase": "Lost"}}
    assert (await provision(lost, None, volume("Bound"))).steps == []


# --- what there is at the beginning


@pytest.mark.parametrize(("reason", "raised"), [("", False), ("AlreadyExists", False), ("Forbidden", True)])
async def test_the_configured_class_is_created(reason: str, raised: bool) -> None:
    client = build(Provisioner, RecordingClient(), storage_class="")
    await client.component.restart()
    assert client.writes == []
    client = build(Provisioner, client, storage_class="s", refuses={"create": (400, reason)} if reason else {})
    with pytest.raises(StatusError) if raised else nullcontext():
        await client.component.restart()
    [(_, kind, made)] = client.writes
    assert (kind, made["metadata"]["name"], made["provisioner"]) == ("StorageClass", "s", DRIVER)
    assert (made["volumeBindingMode"], made["allowVolumeExpansion"]) == ("WaitForFirstConsumer", True)


def test_a_volume_enqueues_its_claim_too() -> None:
    assert _keys_for_volume(volume()) == (f"volume:{NAME}",)
    bound = {**volume(), "spec": {"claimRef": {"namespace": "ns", "name": "c"}}}
    assert _keys_for_volume(bound) == (f"volume:{NAME}", "claim:ns/c")


# --- going


@pytest.mark.parametrize(
    ("found", "steps"),
    [
        (volume(), ["delete PersistentVolume"]),
        (volume(by="other"), []),
        (volume(policy="Retain"), []),
        (volume("Bound"), []),
        (volume("Bound", deleted="x"), []),
        (volume(deleted="x"), ["update PersistentVolume"]),
        (volume("Available", deleted="x"), ["update PersistentVolume"]),
        (volume(deleted="x", policy="Retain"), ["update PersistentVolume"]),
        (volume(deleted="x", finalizers=("other",)), []),
    ],
)
async def test_a_released_volume_goes_in_two_steps(found: Json, steps: list[str]) -> None:
    client = await build(Provisioner, VolumeClient(), found).reconcile(f"volume:{NAME}")
    assert client.steps == steps
    if steps == ["delete PersistentVolume"]:
        assert client.first == (NAME, {"uid": "u-v"})
    elif steps:
        assert client.first["metadata"]["finalizers"] == ["other"]


def spec(by: str = "", policy: str = "Delete", **more: Any) -> Json:
    metadata = {"name": "v", "annotations": {PROVISIONED_BY: by} if by else {}}
    return {"metadata": metadata, "spec": {"persistentVolumeReclaimPolicy": policy, **more}}


@pytest.mark.parametrize(
    ("found", "becomes"),
    [
        (spec(policy="Retain", hostPath={"path": "/tmp/x"}), ReclaimDecision.KEPT),
        (spec(policy="", hostPath={"path": "/tmp/x"}), ReclaimDecision.KEPT),
        (spec(policy="Recycle"), ("VolumeFailedRecycle", "No recycler plugin found for the volume!")),
        (spec(by="kubernetes.io/x"), ("VolumeFailedDelete", "no volume plugin matched name: kubernetes.io/x")),
        (spec(by="x"), ReclaimDecision.KEPT),
        (spec(csi={}), ReclaimDecision.KEPT),
        (spec(hostPath={"path": "/tmp/x"}), ReclaimDecision.DELETED),
        (spec(hostPath={"path": "/tmp/"}),
         ("VolumeFailedDelete", "host_path deleter only supports /tmp/.+ but received provided /tmp/")),
        (spec(hostPath={"path": "/var/tmp/x"}),
         ("VolumeFailedDelete", "host_path deleter only supports /tmp/.+ but received provided /var/tmp/x")),
        (spec(nfs={}), ("VolumeFailedDelete",
         'error getting deleter volume plugin for volume "v": no deletable volume plugin matched')),
        (spec(rbd={}), ("VolumeFailedDelete",
         'error getting deleter volume plugin for volume "v": no volume plugin matched')),
    ],
)  # fmt: skip
def test_what_the_binder_itself_does_with_a_volume_without_a_claim(found: Json, becomes: Any) -> None:
    assert decide_reclaim(found) == becomes
