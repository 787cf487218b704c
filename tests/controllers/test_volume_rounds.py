"""What the binder of volumes does at one look at a claim or a volume, and what it says."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from controllers.options.options import Options
from controllers.runtime.kinds import PODS, STORAGE_CLASSES, VOLUME_CLAIMS, VOLUMES
from controllers.volumes import BIND_COMPLETED, BOUND_BY_CONTROLLER, PROVISIONED_BY, SELECTED_NODE, VolumeError
from controllers.volumes.binder import VolumeBinder
from tests.support.recording import FakeRecorder, RecordingClient, make_informers
from tests.support.virtual import run

pytestmark = pytest.mark.integration

DONE, OURS = {BIND_COMPLETED: "yes"}, {BOUND_BY_CONTROLLER: "yes"}


def claim(
    volume: str = "", *, storage: str | None = "s", phase: str = "Pending", notes: Json | None = None, **spec: Any
) -> Json:
    metadata = {"name": "c", "namespace": "ns", "uid": "u-c", "resourceVersion": "1", "annotations": notes or {}}
    given = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "5Gi"}}, **spec}
    given |= {} if storage is None else {"storageClassName": storage}
    given |= {"volumeName": volume} if volume else {}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": given,
        "status": {"phase": phase},
    }


def volume(
    name: str = "v",
    size: str = "5Gi",
    *,
    of: str = "",
    phase: str = "Available",
    notes: Json | None = None,
    **spec: Any,
) -> Json:
    """`of`: the uid of the claim that it names."""
    metadata = {"name": name, "uid": f"u-{name}", "resourceVersion": "1", "annotations": notes or {}}
    given = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": size}, "storageClassName": "s", **spec}
    if of:
        given["claimRef"] = {"namespace": "ns", "name": "c", **({} if of == "-" else {"uid": of})}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": metadata,
        "spec": given,
        "status": {"phase": phase},
    }


def storage_class(
    name: str = "s", provisioner: str = "example.com/p", waits: bool = False, default: bool = False, made: str = "1"
) -> Json:
    notes = {"storageclass.kubernetes.io/is-default-class": "true"} if default else {}
    metadata = {"name": name, "uid": name, "annotations": notes, "creationTimestamp": f"2026-01-0{made}T00:00:00Z"}
    return {"metadata": metadata, "provisioner": provisioner,
            "volumeBindingMode": "WaitForFirstConsumer" if waits else "Immediate"}  # fmt: skip


class Look:
    """One look at the claim, or at a volume, with these objects."""

    def __init__(self, *known: Json, at: str = "claim:ns/c", **refuses: tuple[int, str]) -> None:
        kinds = {"PersistentVolumeClaim": VOLUME_CLAIMS, "PersistentVolume": VOLUMES, "Pod": PODS}
        informers = make_informers(VOLUMES)
        for obj in known:
            make_informers(kinds.get(obj.get("kind", ""), STORAGE_CLASSES), obj, informers=informers)
        self.client, self.told = RecordingClient(), FakeRecorder()
        self.client._answers = dict.fromkeys(("PersistentVolumeClaim", "PersistentVolume"), _newer)
        self.client.refuses = refuses
        self.error: Exception | None = None

        async def scenario() -> None:
            component = VolumeBinder(self.client, informers, Options())  # type: ignore[arg-type]
            component._recorder = self.told  # type: ignore[assignment]
            try:
                await component.reconcile(at)
            except (StatusError, VolumeError) as error:
                self.error = error

        run(scenario)

    @property
    def steps(self) -> list[str]:
        """What was written, in short."""
        found = []
        for verb, kind, what in self.client.writes:
            short = {"PersistentVolumeClaim": "claim", "PersistentVolume": "volume"}[kind]
            phase = f" {what['status']['phase']}" if verb == "update/status" else ""
            found.append(f"{verb.removeprefix('update/')} {short}{phase}")
        return found

    def last(self, kind: str) -> Json:
        return [what for _, name, what in self.client.writes if name == kind][-1]  # type: ignore[no-any-return]


def _newer(obj: Any) -> Any:
    return obj if isinstance(obj, tuple) else {**obj, "metadata": {**obj["metadata"], "resourceVersion": "2"}}


FOUR = ["update volume", "status volume Bound", "update claim", "status claim Bound"]


def test_a_claim_gets_the_smallest_volume_that_fits_in_four_writes() -> None:
    look = Look(claim(), volume("big", "9Gi"), volume("fits", "6Gi"), volume("small", "4Gi"), storage_class())
    assert look.steps == FOUR
    bound, named = look.last("PersistentVolume"), look.last("PersistentVolumeClaim")
    assert bound["metadata"]["name"] == named["spec"]["volumeName"] == "fits"
    assert bound["spec"]["claimRef"]["uid"] == "u-c"
    assert bound["metadata"]["annotations"] == OURS
    assert named["metadata"]["annotations"] == {**OURS, **DONE}
    assert named["status"] == {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "6Gi"}}


def test_volumes_with_fewer_access_modes_come_first() -> None:
    both = ["ReadWriteOnce", "ReadOnlyMany"]
    look = Look(claim(), volume("many", "5Gi", accessModes=both), volume("one", "9Gi"), storage_class())
    assert look.last("PersistentVolumeClaim")["spec"]["volumeName"] == "one"
    look = Look(claim(accessModes=both), volume("many", "5Gi", accessModes=both), volume("one", "5Gi"), storage_class())
    assert look.last("PersistentVolumeClaim")["spec"]["volumeName"] == "many"


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
def test_a_binding_goes_on_where_it_stopped(bound: Json, named: Json, left: list[str]) -> None:
    assert Look(named, bound, storage_class()).steps == left


def test_what_is_bound_stays_as_it_is() -> None:
    status = {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}
    known = {**claim("v", notes=DONE), "status": status}
    assert Look(known, volume(of="u-c", phase="Bound")).steps == []
    assert Look(at="claim:ns/other").steps == Look(at="volume:other").steps == []


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
def test_a_claim_without_a_volume_waits_or_asks_for_one(
    classes: list[Json], storage: str, notes: Json, reason: str, phase: list[str]
) -> None:
    look = Look(claim(storage=storage, notes=notes), *classes)
    assert (look.told.reasons, look.steps) == ([reason], phase)
    if reason == "ExternalProvisioning":
        asked = look.last("PersistentVolumeClaim")["metadata"]["annotations"]
        names = ("volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner")
        assert {name: asked[name] for name in names} == dict.fromkeys(names, "example.com/p")
        again = Look(claim(storage=storage, notes=asked), *classes)
        assert (again.told.reasons, again.steps) == ([reason], [])


def test_a_class_that_waits_takes_a_volume_only_if_it_names_the_claim() -> None:
    assert Look(claim(), volume(), storage_class(waits=True)).told.reasons == ["WaitForFirstConsumer"]
    assert Look(claim(), volume(of="-"), storage_class(waits=True)).steps == FOUR


def user(name: str, on: str = "", phase: str = "Pending") -> Json:
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
    return {"kind": "Pod", "metadata": {"name": name, "namespace": "ns", "uid": name},
            "spec": {"volumes": volumes, "nodeName": on}, "status": {"phase": phase}}  # fmt: skip


def test_who_is_waited_for_is_named() -> None:
    waiting = storage_class(waits=True)
    look = Look(claim(), waiting, user("p"), user("q"), user("r", on="n"), user("s", phase="Failed"))
    assert look.told.events == [("Normal", "WaitForPodScheduled", "waiting for pods p,q to be scheduled")]
    assert Look(claim(), waiting, user("p")).told.events[0][2] == "waiting for pod p to be scheduled"


def test_a_claim_that_names_no_class_gets_the_newest_default_one() -> None:
    classes = [storage_class("a", default=True), storage_class("c", default=True, made="2"),
               storage_class("b", default=True, made="2"), storage_class("d", made="3")]  # fmt: skip
    look = Look(claim(storage=None), *classes)
    assert (look.steps, look.last("PersistentVolumeClaim")["spec"]["storageClassName"]) == (["update claim"], "b")
    assert Look(claim(storage=None), storage_class("d")).told.reasons == ["FailedBinding"]
    assert Look(claim(storage=""), *classes).told.reasons == ["FailedBinding"]
    assert Look(claim(storage=None), *classes, update=(409, "Conflict")).error is not None


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
def test_a_claim_that_names_a_volume_gets_it_if_it_fits(named: Json, why: str) -> None:
    look = Look(claim("v", phase=""), named, storage_class())
    if why:
        assert look.told.events == [("Warning", "VolumeMismatch", f'Cannot bind to requested volume "v": {why}')]
        assert look.steps == ["status claim Pending"]
    else:
        assert look.steps == FOUR
        assert BOUND_BY_CONTROLLER not in look.last("PersistentVolumeClaim")["metadata"]["annotations"]


def test_a_claim_that_names_the_volume_of_another_waits() -> None:
    taken = volume(of="another", phase="Bound")
    look = Look(claim("v", phase=""), taken, storage_class())
    assert look.told.events == [("Warning", "FailedBinding", 'volume "v" already bound to a different claim.')]
    assert look.steps == ["status claim Pending"]
    ours = Look(claim("v", notes=OURS), taken, storage_class())
    assert str(ours.error) == 'invalid binding of claim "ns/c" to volume "v": volume already claimed by "ns/c"'
    assert Look(claim("v", phase=""), storage_class()).steps == ["status claim Pending"]


def test_a_claim_with_attributes_says_which_its_volume_has() -> None:
    look = Look(claim("v", volumeAttributesClassName="a"), volume(volumeAttributesClassName="a"), storage_class())
    assert look.last("PersistentVolumeClaim")["status"]["currentVolumeAttributesClassName"] == "a"


@pytest.mark.parametrize(
    ("named", "known", "reason"),
    [
        ("v", [], "ClaimLost"), ("", [], "ClaimLost"), ("v", [volume(of="another")], "ClaimMisbound"),
    ],
)  # fmt: skip
def test_a_claim_whose_volume_is_gone_or_anothers_is_lost(named: str, known: list[Json], reason: str) -> None:
    look = Look(claim(named, phase="Bound", notes=DONE), *known)
    assert (look.steps, look.told.reasons) == (["status claim Lost"], [reason])
    again = Look(claim(named, phase="Lost", notes=DONE), *known)
    assert (again.steps, again.told.reasons) == ([], [])
    lost = "its PersistentVolume" if named else "reference to PersistentVolume"
    if reason == "ClaimLost":
        assert look.told.events[0][2] == f"Bound claim has lost {lost}. Data on the volume is lost!"


# --- volumes


def at_volume(*known: Json, **more: Any) -> Look:
    return Look(*known, at="volume:v", **more)


def test_a_volume_that_nobody_has_is_available() -> None:
    for free in (volume(phase="Pending"), volume(of="-", phase="Pending")):
        assert at_volume(free).steps == ["status volume Available"]
    assert at_volume(volume()).steps == []
    assert at_volume(volume(of="u-c"), claim("v")).steps == ["status volume Bound"]


def test_whether_its_claim_is_gone_the_server_has_to_say() -> None:
    kept = volume(of="u-c", phase="Bound", persistentVolumeReclaimPolicy="Retain")
    assert at_volume(kept).steps == ["status volume Released"]
    assert isinstance(at_volume(kept, get=(500, "InternalError")).error, StatusError)
    anew = claim("v")
    anew["metadata"]["uid"] = "made anew"
    assert at_volume(kept, anew).steps == ["status volume Released"]
    released = volume(of="u-c", phase="Released", persistentVolumeReclaimPolicy="Retain")
    assert at_volume(released).steps == []


def test_a_volume_for_a_claim_that_took_another_is_free_again() -> None:
    other = claim("w")
    ours = at_volume(volume(of="u-c", phase="Bound", notes=OURS), other)
    assert ours.steps == ["update volume", "status volume Available"]
    freed = ours.last("PersistentVolume")
    assert "claimRef" not in freed["spec"]
    assert freed["metadata"]["annotations"] == {}
    theirs = at_volume(volume(of="u-c", phase="Bound"), other).last("PersistentVolume")
    assert theirs["spec"]["claimRef"] == {"namespace": "ns", "name": "c"}
    made = volume(of="u-c", phase="Bound", notes={**OURS, PROVISIONED_BY: "p"}, persistentVolumeReclaimPolicy="Delete")
    assert at_volume(made, other).steps[0] == "status volume Released"


def test_a_volume_of_another_mode_than_its_claim_is_told_on_both() -> None:
    look = at_volume(volume(of="u-c", volumeMode="Block"), claim())
    assert (look.steps, look.told.reasons) == ([], ["VolumeMismatch", "VolumeMismatch"])
    assert at_volume(volume(of="u-c"), claim()).told.events == []
