"""What the emulated provisioner does at one look at a claim or a volume, and what becomes of a released volume."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from controllers.options.options import Options
from controllers.runtime.kinds import NODES, STORAGE_CLASSES, VOLUME_CLAIMS, VOLUMES
from controllers.volumes import PROVISIONED_BY, SELECTED_NODE
from controllers.volumes.provisioner import DRIVER, FINALIZER, Provisioner, _keys_for_volume
from controllers.volumes.reclaiming import ReclaimDecision, decide_reclaim
from tests.support.recording import FakeRecorder, RecordingClient, make_informers
from tests.support.virtual import run

pytestmark = pytest.mark.integration

ASKED = {"volume.kubernetes.io/storage-provisioner": DRIVER}
NAME = "pvc-u-c"


def claim(notes: Json | None = None, going: bool = False, has: str = "", size: str = "5Gi", **spec: Any) -> Json:
    notes = ASKED if notes is None else notes
    gone = {"deletionTimestamp": "x"} if going else {}
    metadata = {"name": "c", "namespace": "ns", "uid": "u-c", "resourceVersion": "7", "annotations": notes, **gone}
    given = {"storageClassName": "s", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    status = {"phase": "Bound", "capacity": {"storage": has}} if has else {"phase": "Pending"}
    return {"metadata": metadata, "spec": {**given, **spec}, "status": status}


def storage_class(waits: bool = False, provisioner: str = DRIVER, **more: Any) -> Json:
    mode = "WaitForFirstConsumer" if waits else "Immediate"
    return {"metadata": {"name": "s", "uid": "s"}, "provisioner": provisioner, "volumeBindingMode": mode, **more}


def volume(phase: str = "Released", *, size: str = "5Gi", by: str = DRIVER, going: bool = False,
           finalizers: tuple[str, ...] = (FINALIZER, "other"), policy: str = "Delete") -> Json:  # fmt: skip
    gone = {"deletionTimestamp": "x"} if going else {}
    metadata = {"name": NAME, "uid": "u-v", "annotations": {PROVISIONED_BY: by}, "finalizers": list(finalizers), **gone}
    spec = {"persistentVolumeReclaimPolicy": policy, "capacity": {"storage": size}}
    return {"metadata": metadata, "spec": spec, "status": {"phase": phase}}


def node(name: str = "n", **labels: str) -> Json:
    return {"metadata": {"name": name, "uid": name, "labels": labels}}


class Look:
    """One look; what was written and told."""

    def __init__(
        self, key: str, claims: list[Json], volumes: list[Json], classes: list[Json], *nodes: Json, refuses: Any = None
    ) -> None:
        self.client, self.told = RecordingClient(), FakeRecorder()
        self.client.refuses = refuses or {}

        async def scenario() -> None:
            informers = make_informers(VOLUME_CLAIMS, *claims)
            for kind, objects in ((VOLUMES, volumes), (STORAGE_CLASSES, classes), (NODES, nodes)):
                make_informers(kind, *objects, informers=informers)
            part = Provisioner(self.client, informers, Options())  # type: ignore[arg-type]
            part._recorder = self.told  # type: ignore[assignment]
            await part.reconcile(key)

        run(scenario)

    @property
    def steps(self) -> list[str]:
        return [f"{verb} {kind}" for verb, kind, _ in self.client.writes]

    @property
    def first(self) -> Any:
        return self.client.writes[0][2]


def at_claim(found: Json, of: Json | None = None, *nodes: Json, volumes: tuple[Json, ...] = (), **more: Any) -> Look:
    return Look("claim:ns/c", [found], list(volumes), [of or storage_class()], *nodes, **more)


def at_volume(found: Json) -> Look:
    return Look(f"volume:{NAME}", [], [found], [])


MADE = ["create PersistentVolume"]


def test_a_claim_gets_the_volume_that_it_asks_for() -> None:
    look = at_claim(claim())
    assert (look.steps, look.told.reasons) == (MADE, ["Provisioning", "ProvisioningSucceeded"])
    metadata, spec = look.first["metadata"], look.first["spec"]
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
    more = at_claim(
        claim(volumeMode="Block", volumeAttributesClassName="gold"),
        storage_class(reclaimPolicy="Retain", mountOptions=["ro"]),
    ).first
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
        (claim(going=True), None, (), False),
        (claim(), storage_class(waits=True), (), False),
        (claim({**ASKED, SELECTED_NODE: "n"}), storage_class(waits=True), (), True),
        (claim(), None, (volume("Pending"),), False),
    ],
)
def test_a_volume_is_made_when_it_is_asked_for(
    found: Json, of: Json | None, volumes: tuple[Json, ...], made: bool
) -> None:
    assert at_claim(found, of, volumes=volumes).steps == (MADE if made else [])


def expression(key: str, *values: str) -> Json:
    return {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}


LOCAL = storage_class(waits=True, parameters={"topologyKey": "zone"})
SELECTED = {**ASKED, SELECTED_NODE: "n"}
ZONES = [{"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}]}, {"matchLabelExpressions": []}]


def test_a_volume_can_be_used_where_its_class_says() -> None:
    look = at_claim(claim(SELECTED), LOCAL, node(zone="z"))
    assert look.first["spec"]["nodeAffinity"] == {"required": {"nodeSelectorTerms": [expression("zone", "z")]}}
    allowed = at_claim(claim(), storage_class(allowedTopologies=ZONES)).first["spec"]["nodeAffinity"]
    assert allowed == {"required": {"nodeSelectorTerms": [expression("zone", "a", "b"), {"matchExpressions": []}]}}
    assert "nodeAffinity" not in at_claim(claim(SELECTED), storage_class(waits=True), node(zone="z")).first["spec"]


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
def test_a_volume_that_can_be_nowhere_sends_its_claim_back_to_the_scheduler(
    found: Json, of: Json, why: str, steps: list[str]
) -> None:
    look = at_claim(found, of, node())
    text = f'failed to provision volume with StorageClass "s": {why}'
    assert (look.told.events, look.steps) == ([("Warning", "ProvisioningFailed", text)], steps)
    if steps:
        assert look.first["metadata"]["annotations"] == ASKED


def test_a_volume_that_was_just_made_is_as_good() -> None:
    assert at_claim(claim(), refuses={"create": (409, "AlreadyExists")}).told.reasons[-1] == "ProvisioningSucceeded"
    with pytest.raises(StatusError):
        at_claim(claim(), refuses={"create": (403, "Forbidden")})


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
def test_a_bound_claim_grows_after_its_volume(
    wanted: str, size: str, said: str, by: str, steps: list[str], told: list[str]
) -> None:
    found = claim(DONE, has=said, size=wanted, volumeName=NAME)
    found["status"]["conditions"] = [{"type": "Resizing"}]
    look = at_claim(found, volumes=(volume("Bound", size=size, by=by),))
    assert (look.steps, look.told.reasons) == (steps, told)
    if steps:
        assert look.client.writes[-1][2]["status"] == {"phase": "Bound", "capacity": {"storage": "6Gi"}}
    if len(steps) == 2:
        assert look.first == (NAME, {"spec": {"capacity": {"storage": "6Gi"}}})


def test_a_claim_that_is_not_bound_or_has_lost_its_volume_does_not_grow() -> None:
    found = claim(DONE, has="5Gi", size="6Gi", volumeName=NAME)
    assert at_claim(found).steps == []
    lost = {**found, "status": {**found["status"], "phase": "Lost"}}
    assert at_claim(lost, volumes=(volume("Bound"),)).steps == []


# --- what there is at the beginning


@pytest.mark.parametrize(("reason", "raised"), [("", False), ("AlreadyExists", False), ("Forbidden", True)])
def test_the_class_that_was_asked_for_is_made(reason: str, raised: bool) -> None:
    client = RecordingClient()
    client.refuses = {"create": (400, reason)} if reason else {}

    async def scenario(name: str) -> None:
        await Provisioner(client, make_informers(VOLUME_CLAIMS), Options(storage_class=name)).restart()  # type: ignore[arg-type]

    run(lambda: scenario(""))
    assert client.writes == []
    if raised:
        with pytest.raises(StatusError):
            run(lambda: scenario("s"))
    else:
        run(lambda: scenario("s"))
    [(_, kind, made)] = client.writes
    assert (kind, made["metadata"]["name"], made["provisioner"]) == ("StorageClass", "s", DRIVER)
    assert (made["volumeBindingMode"], made["allowVolumeExpansion"]) == ("WaitForFirstConsumer", True)


def test_a_volume_has_its_claim_looked_at_too() -> None:
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
        (volume("Bound", going=True), []),
        (volume(going=True), ["update PersistentVolume"]),
        (volume("Available", going=True), ["update PersistentVolume"]),
        (volume(going=True, policy="Retain"), ["update PersistentVolume"]),
        (volume(going=True, finalizers=("other",)), []),
    ],
)
def test_a_released_volume_goes_in_two_steps(found: Json, steps: list[str]) -> None:
    look = at_volume(found)
    assert look.steps == steps
    if steps == ["delete PersistentVolume"]:
        assert look.first == (NAME, {"uid": "u-v"})
    elif steps:
        assert look.first["metadata"]["finalizers"] == ["other"]


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
