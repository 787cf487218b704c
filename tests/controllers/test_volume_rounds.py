"""The binder of volumes in one pass over a claim or a volume: its writes and events."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from controllers.volumes import BIND_COMPLETED, BOUND_BY_CONTROLLER, PROVISIONED_BY, SELECTED_NODE
from controllers.volumes.binder import VolumeBinder
from tests.support.objects import make_metadata, make_pod
from tests.support.recording import RecordingClient, build

pytestmark = pytest.mark.integration

DONE, OURS = {BIND_COMPLETED: "yes"}, {BOUND_BY_CONTROLLER: "yes"}


def claim(
    volume: str = "", *, storage: str | None = "s", phase: str = "Pending", notes: Json | None = None, **spec: Any
) -> Json:
    """Build the claim `c`. `storage`: its class; `notes`: its annotations."""
    given = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "5Gi"}}, **spec}
    given |= {} if storage is None else {"storageClassName": storage}
    given |= {"volumeName": volume} if volume else {}
    metadata = {**make_metadata("c", "ns", "u-c"), "resourceVersion": "1", "annotations": notes or {}}
    return {"kind": "PersistentVolumeClaim", "metadata": metadata, "spec": given, "status": {"phase": phase}}


def volume(
    name: str = "v",
    size: str = "5Gi",
    *,
    of: str = "",
    phase: str = "Available",
    notes: Json | None = None,
    **spec: Any,
) -> Json:
    """Build a volume. `of`: the uid of the claim that it names, "-" for none."""
    given = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": size}, "storageClassName": "s", **spec}
    if of:
        given["claimRef"] = {"namespace": "ns", "name": "c", **({} if of == "-" else {"uid": of})}
    metadata = {**make_metadata(name), "resourceVersion": "1", "annotations": notes or {}}
    return {"kind": "PersistentVolume", "metadata": metadata, "spec": given, "status": {"phase": phase}}


def storage_class(
    name: str = "s", provisioner: str = "example.com/p", waits: bool = False, default: bool = False, made: str = "1"
) -> Json:
    notes = {"storageclass.kubernetes.io/is-default-class": "true"} if default else {}
    metadata = make_metadata(name, annotations=notes, creationTimestamp=f"2026-01-0{made}T00:00:00Z")
    mode = "WaitForFirstConsumer" if waits else "Immediate"
    return {"kind": "StorageClass", "metadata": metadata, "provisioner": provisioner, "volumeBindingMode": mode}


class VolumeClient(RecordingClient):
    """Records writes of volumes and claims, and answers with their next version."""

    @property
    def steps(self) -> list[str]:
        """The writes in short."""
        found = []
        for verb, kind, what in self.writes:
            short = {"PersistentVolumeClaim": "claim", "PersistentVolume": "volume"}[kind]
            phase = f" {what['status']['phase']}" if verb == "update/status" else ""
            found.append(f"{verb.removeprefix('update/')} {short}{phase}")
        return found

    def last(self, kind: str) -> Json:
        return [what for _, name, what in self.writes if name == kind][-1]  # type: ignore[no-any-return]


async def reconcile(*known: Json, at: str = "claim:ns/c", **refuses: tuple[int, str]) -> VolumeClient:
    """Reconcile the claim, or a volume, once."""
    client = VolumeClient(dict.fromkeys(("PersistentVolumeClaim", "PersistentVolume"), _newer))
    return await build(VolumeBinder, client, *known, refuses=refuses).reconcile(at)


async def reconcile_volume(*known: Json, **more: Any) -> VolumeClient:
    """Reconcile the volume `v` once."""
    return await reconcile(*known, at="volume:v", **more)


def _newer(obj: Any) -> Any:
    return obj if isinstance(obj, tuple) else {**obj, "metadata": {**obj["metadata"], "resourceVersion": "2"}}


FOUR = ["update volume", "status volume Bound", "update claim", "status claim Bound"]


async def test_a_claim_gets_the_smallest_volume_that_fits_in_four_writes() -> None:
    client = await reconcile(
        claim(), volume("big", "9Gi"), volume("fits", "6Gi"), volume("small", "4Gi"), storage_class()
    )
    assert client.steps == FOUR
    bound, named = client.last("PersistentVolume"), client.last("PersistentVolumeClaim")
    assert bound["metadata"]["name"] == named["spec"]["volumeName"] == "fits"
    assert bound["spec"]["claimRef"]["uid"] == "u-c"
    assert bound["metadata"]["annotations"] == OURS
    assert named["metadata"]["annotations"] == {**OURS, **DONE}
    assert named["status"] == {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "6Gi"}}


async def test_volumes_with_fewer_access_modes_come_first() -> None:
    both = ["ReadWriteOnce", "ReadOnlyMany"]
    client = await reconcile(claim(), volume("many", "5Gi", accessModes=both), volume("one", "9Gi"), storage_class())
    assert client.last("PersistentVolumeClaim")["spec"]["volumeName"] == "one"
    client = await reconcile(
        claim(accessModes=both), volume("many", "5Gi", accessModes=both), volume("one", "5Gi"), storage_class()
    )
    assert client.last("PersistentVolumeClaim")["spec"]["volumeName"] == "many"


@pytest.mark.parametrize(
    ("bound", "named", "left"),
    [
        (volume(of="u-c", phase="Bound", notes=OURS), claim(), FOUR[2:]),
        (volume(of="u-c", notes=OURS), claim(), FOUR[1:]),
        (volume(of="u-c", phase="Bound"), claim("v", notes=DONE), FOUR[3:]),
        (volume(of="u-c", phase="Bound"), claim("v"), FOUR[2:]),
        (volume(of="-"), claim(), FOUR),
    ],
)
async def test_a_binding_goes_on_where_it_stopped(bound: Json, named: Json, left: list[str]) -> None:
    assert (await reconcile(named, bound, storage_class())).steps == left


async def test_what_is_bound_stays_as_it_is() -> None:
    status = {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}
    known = {**claim("v", notes=DONE), "status": status}
    assert (await reconcile(known, volume(of="u-c", phase="Bound"))).steps == []
    assert (await reconcile(at="claim:ns/other")).steps == (await reconcile(at="volume:other")).steps == []


@pytest.mark.parametrize(
    ("classes", "storage", "notes", "reason", "phase"),
    [
        ([], "", {}, "FailedBinding", []),
        ([], "s", {}, "ProvisioningFailed", []),
        ([storage_class(provisioner="kubernetes.io/no-provisioner")], "s", {}, "ProvisioningFailed", []),
        ([storage_class()], "s", {}, "ExternalProvisioning", ["update claim"]),
        ([storage_class(waits=True)], "s", {}, "WaitForFirstConsumer", []),
        ([storage_class(waits=True)], "s", {SELECTED_NODE: "n"}, "ExternalProvisioning", ["update claim"]),
    ],
)
async def test_a_claim_without_a_volume_waits_or_asks_for_one(
    classes: list[Json], storage: str, notes: Json, reason: str, phase: list[str]
) -> None:
    client = await reconcile(claim(storage=storage, notes=notes), *classes)
    assert (client.reasons, client.steps) == ([reason], phase)
    if reason == "ExternalProvisioning":
        asked = client.last("PersistentVolumeClaim")["metadata"]["annotations"]
        names = ("volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner")
        assert {name: asked[name] for name in names} == dict.fromkeys(names, "example.com/p")
        again = await reconcile(claim(storage=storage, notes=asked), *classes)
        assert (again.reasons, again.steps) == ([reason], [])


async def test_a_class_that_waits_takes_a_volume_only_if_it_names_the_claim() -> None:
    assert (await reconcile(claim(), volume(), storage_class(waits=True))).reasons == ["WaitForFirstConsumer"]
    assert (await reconcile(claim(), volume(of="-"), storage_class(waits=True))).steps == FOUR


def user(name: str, node: str = "", phase: str = "Pending") -> Json:
    """Build a pod that uses the claim."""
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
    return make_pod(name, volumes=volumes, node=node, status={"phase": phase})


async def test_the_pods_that_a_claim_waits_for_are_named() -> None:
    waiting = storage_class(waits=True)
    client = await reconcile(claim(), waiting, user("p"), user("q"), user("r", node="n"), user("s", phase="Failed"))
    assert client.events == [("Normal", "WaitForPodScheduled", "waiting for pods p,q to be scheduled")]
    assert (await reconcile(claim(), waiting, user("p"))).events[0][2] == "waiting for pod p to be scheduled"


async def test_a_claim_that_names_no_class_gets_the_newest_default_one() -> None:
    classes = [storage_class("a", default=True), storage_class("c", default=True, made="2"),
               storage_class("b", default=True, made="2"), storage_class("d", made="3")]  # fmt: skip
    client = await reconcile(claim(storage=None), *classes)
    assert (client.steps, client.last("PersistentVolumeClaim")["spec"]["storageClassName"]) == (["update claim"], "b")
    assert (await reconcile(claim(storage=None), storage_class("d"))).reasons == ["FailedBinding"]
    assert (await reconcile(claim(storage=""), *classes)).reasons == ["FailedBinding"]
    assert (await reconcile(claim(storage=None), *classes, update=(409, "Conflict"))).error is not None


@pytest.mark.parametrize(
    ("named", "why"),
    [
        (volume(), ""),
        (volume(size="4Gi"), "requested PV is too small"),
        (volume(storageClassName="t"), "storageClassName does not match"),
        (volume(volumeMode="Block"), "incompatible volumeMode"),
        (volume(accessModes=["ReadOnlyMany"]), "incompatible accessMode"),
        (volume(volumeAttributesClassName="a"), "volumeAttributesClassName does not match"),
        (
            {**volume(), "metadata": {**volume()["metadata"], "deletionTimestamp": "x"}},
            'the volume is marked for deletion "v"',
        ),
    ],
)
async def test_a_claim_that_names_a_volume_gets_it_if_it_fits(named: Json, why: str) -> None:
    client = await reconcile(claim("v", phase=""), named, storage_class())
    if why:
        assert client.events == [("Warning", "VolumeMismatch", f'Cannot bind to requested volume "v": {why}')]
        assert client.steps == ["status claim Pending"]
    else:
        assert client.steps == FOUR
        assert BOUND_BY_CONTROLLER not in client.last("PersistentVolumeClaim")["metadata"]["annotations"]


async def test_a_claim_that_names_the_volume_of_another_waits() -> None:
    taken = volume(of="another", phase="Bound")
    client = await reconcile(claim("v", phase=""), taken, storage_class())
    assert client.events == [("Warning", "FailedBinding", 'volume "v" already bound to a different claim.')]
    assert client.steps == ["status claim Pending"]
    ours = await reconcile(claim("v", notes=OURS), taken, storage_class())
    assert str(ours.error) == 'invalid binding of claim "ns/c" to volume "v": volume already claimed by "ns/c"'
    assert (await reconcile(claim("v", phase=""), storage_class())).steps == ["status claim Pending"]


async def test_the_status_of_a_claim_has_the_attributes_class_of_its_volume() -> None:
    client = await reconcile(
        claim("v", volumeAttributesClassName="a"), volume(volumeAttributesClassName="a"), storage_class()
    )
    assert client.last("PersistentVolumeClaim")["status"]["currentVolumeAttributesClassName"] == "a"


@pytest.mark.parametrize(
    ("named", "known", "reason"),
    [
        ("v", [], "ClaimLost"), ("", [], "ClaimLost"), ("v", [volume(of="another")], "ClaimMisbound"),
    ],
)  # fmt: skip
async def test_a_claim_whose_volume_is_gone_or_anothers_is_lost(named: str, known: list[Json], reason: str) -> None:
    client = await reconcile(claim(named, phase="Bound", notes=DONE), *known)
    assert (client.steps, client.reasons) == (["status claim Lost"], [reason])
    again = await reconcile(claim(named, phase="Lost", notes=DONE), *known)
    assert (again.steps, again.reasons) == ([], [])
    lost = "its PersistentVolume" if named else "reference to PersistentVolume"
    if reason == "ClaimLost":
        assert client.events[0][2] == f"Bound claim has lost {lost}. Data on the volume is lost!"


# --- volumes


async def test_a_volume_without_a_claim_is_available() -> None:
    for free in (volume(phase="Pending"), volume(of="-", phase="Pending")):
        assert (await reconcile_volume(free)).steps == ["status volume Available"]
    assert (await reconcile_volume(volume())).steps == []
    assert (await reconcile_volume(volume(of="u-c"), claim("v"))).steps == ["status volume Bound"]


async def test_a_claim_is_gone_only_if_the_server_has_none() -> None:
    kept = volume(of="u-c", phase="Bound", persistentVolumeReclaimPolicy="Retain")
    assert (await reconcile_volume(kept)).steps == ["status volume Released"]
    assert isinstance((await reconcile_volume(kept, get=(500, "InternalError"))).error, StatusError)
    recreated = claim("v")
    recreated["metadata"]["uid"] = "another"
    assert (await reconcile_volume(kept, recreated)).steps == ["status volume Released"]
    released = volume(of="u-c", phase="Released", persistentVolumeReclaimPolicy="Retain")
    assert (await reconcile_volume(released)).steps == []


async def test_a_volume_for_a_claim_that_took_another_is_free_again() -> None:
    other = claim("w")
    ours = await reconcile_volume(volume(of="u-c", phase="Bound", notes=OURS), other)
    assert ours.steps == ["update volume", "status volume Available"]
    freed = ours.last("PersistentVolume")
    assert "claimRef" not in freed["spec"]
    assert freed["metadata"]["annotations"] == {}
    theirs = (await reconcile_volume(volume(of="u-c", phase="Bound"), other)).last("PersistentVolume")
    assert theirs["spec"]["claimRef"] == {"namespace": "ns", "name": "c"}
    made = volume(of="u-c", phase="Bound", notes={**OURS, PROVISIONED_BY: "p"}, persistentVolumeReclaimPolicy="Delete")
    assert (await reconcile_volume(made, other)).steps[0] == "status volume Released"


async def test_a_volume_of_another_mode_than_its_claim_is_reported_for_both() -> None:
    client = await reconcile_volume(volume(of="u-c", volumeMode="Block"), claim())
    assert (client.steps, client.reasons) == ([], ["VolumeMismatch", "VolumeMismatch"])
    assert (await reconcile_volume(volume(of="u-c"), claim())).events == []
