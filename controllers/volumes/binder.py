"""The volume binder: binds claims to volumes, and reclaims volumes of deleted claims.

A claim gets the volume that names it, or the smallest that fits. Without a volume its class decides whether to wait for
a consumer or to request a new one from an external provisioner. Binding takes four writes in upstream's order: the
volume names the claim and becomes Bound, then the claim names the volume and becomes Bound. An interrupted binding
continues with the next pass. Facts: upstream's pkg/controller/volume/persistentvolume.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from apiserver.api.errors.status import StatusError
from apiserver.api.helpers.pod_lifecycle import is_finished
from apiserver.api.helpers.storage_classes import class_of, is_default_class
from apiserver.api.objects import Json
from apiserver.runtime.metrics import Family
from controllers.options.options import Options
from controllers.runtime.client import Client, is_reason
from controllers.runtime.controller import Controller, ControllerComponent
from controllers.runtime.events import CoreEventRecorder
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import PODS, STORAGE_CLASSES, VOLUME_CLAIMS, VOLUMES, key_of
from controllers.runtime.newest import Newest
from controllers.volumes import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    PROVISIONED_BY,
    PROVISIONER,
    SELECTED_NODE,
    VolumeError,
    annotations_of,
    attributes_class,
    class_name,
    find_volume,
    has_access_modes,
    is_bound_to,
    pod_claims,
    requested_size,
    storage,
    volume_mode,
    waits_for_first_consumer,
    with_annotations,
    with_claim_reference,
    without_annotation,
)
from controllers.volumes.metrics import VolumeMetrics
from controllers.volumes.reclaiming import ReclaimDecision, decide_reclaim, policy

NAME = "persistentvolume-binder-controller"
#: Source of events, as upstream's.
_COMPONENT: Final = "persistentvolume-controller"
_PRE_RESIZE: Final = "volume.alpha.kubernetes.io/pre-resize-capacity"


def build(client: Client, informers: Informers, options: Options) -> VolumeBinder:
    """Build the component for the manager."""
    return VolumeBinder(client, informers, options)


class VolumeBinder(ControllerComponent):
    """The volume binder. Keys are `claim:NAMESPACE/NAME` and `volume:NAME`."""

    name = NAME

    def __init__(self, client: Client, informers: Informers, options: Options) -> None:
        self._client = client.for_controller("persistent-volume-binder")
        self._attributes = options.features.enabled("VolumeAttributesClass")
        self._claims = Newest(informers.of(VOLUME_CLAIMS))
        self._volumes = Newest(informers.of(VOLUMES))
        self._metrics = VolumeMetrics(self._volumes.informer, self._claims.informer)
        self._classes, pods = informers.of(STORAGE_CLASSES), informers.of(PODS)
        self._of_claim = self._volumes.informer.index("claim", _claim_of)
        self._unbound = self._claims.informer.index("unbound by class", _class_of_unbound)
        self._pods_of_claim = pods.index("volume claims", _claims_of_pod)
        self._recorder = CoreEventRecorder(self._client, _COMPONENT)
        self._controller = Controller(NAME, self.reconcile, queue="claims")
        self._controller.alongside(self._recorder.run)
        self._controller.follow(self._claims.informer, self._keys_for_claim)
        self._controller.follow(self._volumes.informer, self._keys_for_volume)
        self._controller.follow(self._classes, self._keys_for_class)
        self._controller.require(pods)
        pods.on(added=self._pod_added)

    @property
    def metrics(self) -> Sequence[Family]:
        return (*super().metrics, *self._metrics.families)

    def _keys_for_claim(self, claim: Json) -> list[str]:
        return [f"claim:{key_of(claim)}", *(f"volume:{key_of(volume)}" for volume in self._of_claim.get(key_of(claim)))]

    def _keys_for_volume(self, volume: Json) -> list[str]:
        """Return the volume's key and that of its claim, or of all claims that may bind a free volume."""
        ref = volume["spec"].get("claimRef")
        if ref is not None:
            return [f"volume:{key_of(volume)}", f"claim:{ref['namespace']}/{ref['name']}"]
        waiting = self._unbound.get(class_name(volume))
        return [f"volume:{key_of(volume)}", *(f"claim:{key_of(claim)}" for claim in waiting)]

    def _keys_for_class(self, storage_class: Json) -> list[str]:
        waiting = list(self._unbound.get(storage_class["metadata"]["name"]))
        if is_default_class(storage_class):
            waiting += [claim for claim in self._unbound.get("") if class_of(claim) is None]
        return [f"claim:{key_of(claim)}" for claim in waiting]

    def _pod_added(self, pod: Json) -> None:
        for name, _ in pod_claims(pod):
            key = f"{pod['metadata']['namespace']}/{name}"
            if (claim := self._claims.get(key)) is not None and not claim["spec"].get("volumeName"):
                self._controller.queue.add(f"claim:{key}")

    async def reconcile(self, key: str) -> None:
        what, _, name = key.partition(":")
        if what == "claim":
            claim = self._claims.get(name)
            if claim is None:
                return
            if BIND_COMPLETED in annotations_of(claim):
                await self._check_bound(claim)
            else:
                await self._find_volume(claim)
        elif (volume := self._volumes.get(name)) is not None:
            await self._reconcile_volume(volume)

    async def _find_volume(self, claim: Json) -> None:
        if claim["spec"].get("volumeName"):
            await self._bind_named(claim)
            return
        storage_class = self._classes.get(class_name(claim))
        waiting = waits_for_first_consumer(claim, storage_class)
        volume = self._best_volume(claim, named_only=waiting)
        if volume is not None:
            await self._bind(volume, claim)
        elif class_of(claim) is None and (default := self._default_class()) is not None:
            spec = {**claim["spec"], "storageClassName": default}
            self._metrics.defaulted.inc()
            try:
                self._claims.wrote(await self._client.update(VOLUME_CLAIMS, {**claim, "spec": spec}))
            except StatusError:
                self._metrics.undefaulted.inc()
                raise
        elif waiting and SELECTED_NODE not in annotations_of(claim):
            self._record_waiting(claim)
            await self._write_claim_phase(claim, "Pending")
        elif class_name(claim):
            await self._provision(claim, storage_class)
        else:
            note = "no persistent volumes available for this claim and no storage class is set"
            self._recorder.record(claim, "Normal", "FailedBinding", note)
            await self._write_claim_phase(claim, "Pending")

    def _best_volume(self, claim: Json, *, named_only: bool) -> Json | None:
        """Return the best volume, preferring those with the fewest access modes."""
        groups: dict[frozenset[str], list[Json]] = {}
        for volume in self._volumes.of(list(self._volumes.informer.objects.values())):
            if has_access_modes(volume, claim):
                groups.setdefault(frozenset(volume["spec"].get("accessModes") or ()), []).append(volume)
        for modes in sorted(groups, key=len):
            found = find_volume(claim, groups[modes], attributes=self._attributes, named_only=named_only)
            if found is not None:
                return found
        return None

    def _default_class(self) -> str | None:
        """Return the newest default class."""
        classes = [item["metadata"] for item in self._classes.objects.values() if is_default_class(item)]
        newest = max((meta["creationTimestamp"] for meta in classes), default="")
        return min((str(meta["name"]) for meta in classes if meta["creationTimestamp"] == newest), default=None)

    def _record_waiting(self, claim: Json) -> None:
        pods = self._pods_of_claim.get(key_of(claim))
        names = [pod["metadata"]["name"] for pod in pods if not pod["spec"].get("nodeName") and not is_finished(pod)]
        if names:
            note = f"waiting for pod{'s' if len(names) > 1 else ''} {','.join(names)} to be scheduled"
            self._recorder.record(claim, "Normal", "WaitForPodScheduled", note)
        else:
            note = "waiting for first consumer to be created before binding"
            self._recorder.record(claim, "Normal", "WaitForFirstConsumer", note)

    async def _provision(self, claim: Json, storage_class: Json | None) -> None:
        """Request a volume from the class's provisioner, which watches claims for its name."""
        if storage_class is None:
            note = f'storageclass.storage.k8s.io "{class_name(claim)}" not found'
            self._recorder.record(claim, "Warning", "ProvisioningFailed", note)
            return
        provisioner = storage_class["provisioner"]
        if provisioner.startswith("kubernetes.io/"):
            note = f"no volume plugin matched name: {provisioner}"
            self._recorder.record(claim, "Warning", "ProvisioningFailed", note)
            return
        given = annotations_of(claim)
        if any(given.get(name) != provisioner for name in PROVISIONER):
            named = with_annotations(claim, {name: str(provisioner) for name in PROVISIONER})
            claim = self._claims.wrote(await self._client.update(VOLUME_CLAIMS, named))
        note = (
            f"Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the "
            "system administrator. If volume creation is delayed, please verify that the provisioner is running and "
            "correctly registered."
        )
        self._recorder.record(claim, "Normal", "ExternalProvisioning", note)

    async def _bind_named(self, claim: Json) -> None:
        """Bind a claim that names its volume, either set by its author or by an interrupted binding."""
        name = claim["spec"]["volumeName"]
        volume = self._volumes.get(name)
        if volume is None:
            await self._write_claim_phase(claim, "Pending")
        elif volume["spec"].get("claimRef") is None and (why := self._mismatch(volume, claim)):
            note = f'Cannot bind to requested volume "{name}": {why}'
            self._recorder.record(claim, "Warning", "VolumeMismatch", note)
            await self._write_claim_phase(claim, "Pending")
        elif volume["spec"].get("claimRef") is None or is_bound_to(volume, claim):
            await self._bind(volume, claim)
        else:
            note = f'volume "{name}" already bound to a different claim.'
            self._recorder.record(claim, "Warning", "FailedBinding", note)
            if BOUND_BY_CONTROLLER in annotations_of(claim):
                ref = volume["spec"]["claimRef"]
                raise VolumeError(
                    f'invalid binding of claim "{key_of(claim)}" to volume "{name}": volume already claimed by '
                    f'"{ref["namespace"]}/{ref["name"]}"'
                )
            await self._write_claim_phase(claim, "Pending")

    def _mismatch(self, volume: Json, claim: Json) -> str:
        """Return the reason why the volume named by a claim cannot be bound, or ""."""
        if volume["metadata"].get("deletionTimestamp"):
            return f'the volume is marked for deletion "{volume["metadata"]["name"]}"'
        if storage(volume["spec"].get("capacity")).compare(requested_size(claim)) < 0:
            return "requested PV is too small"
        if class_name(volume) != class_name(claim):
            return "storageClassName does not match"
        if not self._attributes and (attributes_class(claim) or attributes_class(volume)):
            return "volumeAttributesClassName is not supported when the feature-gate VolumeAttributesClass is disabled"
        if attributes_class(claim) != attributes_class(volume):
            return "volumeAttributesClassName does not match"
        if volume_mode(volume) != volume_mode(claim):
            return "incompatible volumeMode"
        return "" if has_access_modes(volume, claim) else "incompatible accessMode"

    async def _check_bound(self, claim: Json) -> None:
        name = claim["spec"].get("volumeName")
        volume = self._volumes.get(name) if name else None
        if volume is None:
            lost = "its PersistentVolume" if name else "reference to PersistentVolume"
            await self._mark_lost(claim, "ClaimLost", f"Bound claim has lost {lost}. Data on the volume is lost!")
            return
        ref = volume["spec"].get("claimRef")
        if ref is None or ref.get("uid") == claim["metadata"]["uid"]:
            await self._bind(volume, claim)
        else:
            note = "Two claims are bound to the same volume, this one is bound incorrectly"
            await self._mark_lost(claim, "ClaimMisbound", note)

    async def _mark_lost(self, claim: Json, reason: str, note: str) -> None:
        if (claim.get("status") or {}).get("phase") != "Lost":
            await self._write_claim_phase(claim, "Lost")
            self._recorder.record(claim, "Warning", reason, note)

    async def _write_claim_phase(self, claim: Json, phase: str, volume: Json | None = None) -> None:
        """Write the phase and the volume's fields into the claim's status."""
        before = claim.get("status") or {}
        status: dict[str, Any] = {**before, "phase": phase}
        if volume is None:
            for field in ("accessModes", "capacity", "currentVolumeAttributesClassName"):
                status.pop(field, None)
        else:
            status["accessModes"] = volume["spec"].get("accessModes")
            if before.get("phase") != phase:
                status["capacity"] = _capacity(volume, before)
            if self._attributes and (before.get("phase"), phase) == ("Pending", "Bound") and attributes_class(volume):
                status["currentVolumeAttributesClassName"] = attributes_class(volume)
        if status != before:
            self._claims.wrote(await self._client.update_status(VOLUME_CLAIMS, {**claim, "status": status}))

    async def _bind(self, volume: Json, claim: Json) -> None:
        """Make the four writes of a binding, without those already made."""
        wanted = with_claim_reference(volume, claim)
        if wanted is not volume:
            volume = self._volumes.wrote(await self._client.update(VOLUMES, wanted))
        volume = await self._write_volume_phase(volume, "Bound")
        named = claim
        if claim["spec"].get("volumeName") != volume["metadata"]["name"]:
            named = {**claim, "spec": {**claim["spec"], "volumeName": volume["metadata"]["name"]}}
            if BOUND_BY_CONTROLLER not in annotations_of(claim):
                named = with_annotations(named, {BOUND_BY_CONTROLLER: "yes"})
        if BIND_COMPLETED not in annotations_of(named):
            named = with_annotations(named, {BIND_COMPLETED: "yes"})
        if named is not claim:
            claim = self._claims.wrote(await self._client.update(VOLUME_CLAIMS, named))
        await self._write_claim_phase(claim, "Bound", volume)

    async def _reconcile_volume(self, volume: Json) -> None:
        ref = volume["spec"].get("claimRef")
        if ref is None or not ref.get("uid"):
            await self._write_volume_phase(volume, "Available")
            return
        claim = await self._claim_of(ref)
        if claim is None:
            await self._release(volume)
        elif not claim["spec"].get("volumeName"):
            if volume_mode(claim) != volume_mode(volume):
                self._record_mode_mismatch(volume, claim)
            else:
                self._controller.queue.add(f"claim:{key_of(claim)}")
        elif claim["spec"]["volumeName"] == volume["metadata"]["name"]:
            await self._write_volume_phase(volume, "Bound")
        elif PROVISIONED_BY in annotations_of(volume) and policy(volume) == "Delete":
            # Provisioned for a claim that was bound to another volume first.
            await self._release(volume)
        else:
            await self._unbind(volume)

    def _record_mode_mismatch(self, volume: Json, claim: Json) -> None:
        volume_name, claim_name = volume["metadata"]["name"], claim["metadata"]["name"]
        note = (
            f'Cannot bind PersistentVolume to requested PersistentVolumeClaim "{claim_name}" due to incompatible '
            "volumeMode."
        )
        self._recorder.record(volume, "Warning", "VolumeMismatch", note)
        note = (
            f'Cannot bind PersistentVolume "{volume_name}" to requested PersistentVolumeClaim due to incompatible '
            "volumeMode."
        )
        self._recorder.record(claim, "Warning", "VolumeMismatch", note)

    async def _claim_of(self, ref: Json) -> Json | None:
        """Return the claim named by a volume.

        A missing claim is confirmed by the server, because data may be deleted as a result.
        """
        claim = self._claims.get(f"{ref['namespace']}/{ref['name']}")
        if claim is None or claim["metadata"]["uid"] != ref["uid"]:
            try:
                claim = await self._client.get(VOLUME_CLAIMS, ref["name"], ref["namespace"])
            except Exception as error:
                if not is_reason(error, "NotFound"):
                    raise
                return None
        return claim if claim["metadata"]["uid"] == ref["uid"] else None

    async def _release(self, volume: Json) -> None:
        if (volume.get("status") or {}).get("phase") not in ("Released", "Failed"):
            volume = await self._write_volume_phase(volume, "Released")
        found = decide_reclaim(volume)
        if found is ReclaimDecision.DELETED:
            await self._client.delete(VOLUMES, volume["metadata"]["name"], uid=volume["metadata"]["uid"])
        elif found is not ReclaimDecision.KEPT and (volume.get("status") or {}).get("phase") != "Failed":
            reason, note = found
            volume = await self._write_volume_phase(volume, "Failed", note)
            self._recorder.record(volume, "Warning", reason, note)

    async def _unbind(self, volume: Json) -> None:
        """Release the volume from a claim. A volume reserved by its author keeps the reference without uid."""
        spec = dict(volume["spec"])
        if BOUND_BY_CONTROLLER in annotations_of(volume):
            del spec["claimRef"]
            volume = without_annotation(volume, BOUND_BY_CONTROLLER)
        else:
            spec["claimRef"] = {key: value for key, value in spec["claimRef"].items() if key != "uid"}
        volume = self._volumes.wrote(await self._client.update(VOLUMES, {**volume, "spec": spec}))
        await self._write_volume_phase(volume, "Available")

    async def _write_volume_phase(self, volume: Json, phase: str, message: str = "") -> Json:
        status = volume.get("status") or {}
        if status.get("phase") == phase:
            return volume
        changed = {**status, "phase": phase, "message": message}
        return self._volumes.wrote(await self._client.update_status(VOLUMES, {**volume, "status": changed}))


def _capacity(volume: Json, status: Json) -> Json:
    """Return the capacity in the status of a newly bound claim."""
    before = annotations_of(volume).get(_PRE_RESIZE)
    if before is not None:
        return {**(status.get("capacity") or {}), "storage": before}
    capacity: Json = volume["spec"].get("capacity") or {}
    return capacity


def _claim_of(volume: Json) -> tuple[str, ...]:
    ref = volume["spec"].get("claimRef")
    return (f"{ref['namespace']}/{ref['name']}",) if ref is not None else ()


def _class_of_unbound(claim: Json) -> tuple[str, ...]:
    return () if BIND_COMPLETED in annotations_of(claim) else (class_name(claim),)


def _claims_of_pod(pod: Json) -> list[str]:
    return [f"{pod['metadata']['namespace']}/{name}" for name, _ in pod_claims(pod)]
