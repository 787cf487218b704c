"""The emulated provisioner: creates, resizes and deletes volumes like an external CSI provisioner, without storage.

With delayed binding the claim names the selected node. The class parameter `topologyKey` then limits the volume to
nodes with the same value of that label (`kubernetes.io/hostname`: a local disk). Without it the volume is usable on all
nodes. Facts: the events and fields of sigs.k8s.io's external-provisioner and external-resizer.
"""

from __future__ import annotations

from typing import Final

from apiserver.api.objects import Json
from controllers.options.options import Options
from controllers.runtime.client import Client, is_reason
from controllers.runtime.controller import Controller, ControllerComponent
from controllers.runtime.events import CoreEventRecorder
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import NODES, STORAGE_CLASSES, VOLUME_CLAIMS, VOLUMES, key_of
from controllers.volumes import (
    PROVISIONED_BY,
    PROVISIONER,
    SELECTED_NODE,
    annotations_of,
    attributes_class,
    class_name,
    is_fully_bound,
    requested_size,
    storage,
    waits_for_first_consumer,
    with_annotations,
    without_annotation,
)

NAME = "volume-provisioner"
#: Name of the provisioner in classes.
DRIVER: Final = "volumes.kubedra.dev"
FINALIZER: Final = "external-provisioner.volume.kubernetes.io/finalizer"
TOPOLOGY_KEY: Final = "topologyKey"
_PARAMETERS: Final = frozenset({TOPOLOGY_KEY})


def build(client: Client, informers: Informers, options: Options) -> Provisioner:
    """Build the component for the manager."""
    return Provisioner(client, informers, options)


def default_class(name: str) -> Json:
    """Build the initial default class of a control plane."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": DRIVER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowVolumeExpansion": True,
    }


class Provisioner(ControllerComponent):
    """The emulated provisioner. Keys are `claim:NAMESPACE/NAME` and `volume:NAME`."""

    name = NAME

    def __init__(self, client: Client, informers: Informers, options: Options) -> None:
        self._client = client.for_controller(NAME)
        self._class = options.storage_class
        self._claims, self._volumes = informers.of(VOLUME_CLAIMS), informers.of(VOLUMES)
        self._classes, self._nodes = informers.of(STORAGE_CLASSES), informers.of(NODES)
        self._recorder = CoreEventRecorder(self._client, DRIVER)
        self._controller = Controller(NAME, self.reconcile)
        self._controller.alongside(self._recorder.run)
        self._controller.follow(self._claims, lambda claim: (f"claim:{key_of(claim)}",))
        self._controller.follow(self._volumes, _keys_for_volume)
        self._controller.require(self._classes)
        self._controller.require(self._nodes)

    async def run(self) -> None:
        await self.restart()
        await super().run()

    async def restart(self) -> None:
        """Create the configured default class."""
        if not self._class:
            return
        try:
            await self._client.create(STORAGE_CLASSES, default_class(self._class))
        except Exception as error:
            if not is_reason(error, "AlreadyExists", "NotFound"):
                raise

    async def reconcile(self, key: str) -> None:
        what, _, name = key.partition(":")
        if what == "volume":
            if (volume := self._volumes.get(name)) is not None:
                await self._delete(volume)
        elif (claim := self._claims.get(name)) is not None:
            if is_fully_bound(claim):
                await self._resize(claim)
            elif self._is_mine(claim):
                await self._provision(claim)

    def _is_mine(self, claim: Json) -> bool:
        """Return whether the claim needs a volume of this provisioner, and a node is selected if the class waits."""
        given = annotations_of(claim)
        storage_class = self._classes.get(class_name(claim))
        return (
            any(given.get(name) == DRIVER for name in PROVISIONER)
            and storage_class is not None
            and storage_class["provisioner"] == DRIVER
            and not claim["spec"].get("volumeName")
            and not claim["metadata"].get("deletionTimestamp")
            and (SELECTED_NODE in given or not waits_for_first_consumer(claim, storage_class))
        )

    async def _provision(self, claim: Json) -> None:
        storage_class = self._classes.get(class_name(claim))
        assert storage_class is not None
        name = f"pvc-{claim['metadata']['uid']}"
        if self._volumes.get(name) is not None:
            return
        unknown = sorted(set(storage_class.get("parameters") or {}) - _PARAMETERS)
        affinity = self._node_affinity(claim, storage_class)
        if unknown or isinstance(affinity, str):
            why = f'unknown parameter "{unknown[0]}"' if unknown else affinity
            note = f'failed to provision volume with StorageClass "{storage_class["metadata"]["name"]}": {why}'
            self._recorder.record(claim, "Warning", "ProvisioningFailed", note)
            if SELECTED_NODE in annotations_of(claim):
                # The scheduler may select another node.
                await self._client.update(VOLUME_CLAIMS, without_annotation(claim, SELECTED_NODE))
            return
        note = f'External provisioner is provisioning volume for claim "{key_of(claim)}"'
        self._recorder.record(claim, "Normal", "Provisioning", note)
        try:
            await self._client.create(VOLUMES, _volume(name, claim, storage_class, affinity))
        except Exception as error:
            if not is_reason(error, "AlreadyExists"):
                raise
        self._recorder.record(claim, "Normal", "ProvisioningSucceeded", f"Successfully provisioned volume {name}")

    def _node_affinity(self, claim: Json, storage_class: Json) -> Json | str | None:
        """Return the volume's required node affinity, None for all nodes, or an error text."""
        topologies = storage_class.get("allowedTopologies") or []
        label = (storage_class.get("parameters") or {}).get(TOPOLOGY_KEY)
        selected = annotations_of(claim).get(SELECTED_NODE)
        if selected is not None and label:
            node = self._nodes.get(selected)
            if node is None:
                return f'error getting selected node "{selected}": node "{selected}" not found'
            value = (node["metadata"].get("labels") or {}).get(label)
            if value is None:
                return f'node "{selected}" has no label "{label}"'
            return _terms([[(label, [value])]])
        if topologies:
            return _terms(
                [
                    [(one["key"], one["values"]) for one in term.get("matchLabelExpressions") or ()]
                    for term in topologies
                ]
            )
        return None

    async def _delete(self, volume: Json) -> None:
        """Delete a released volume with reclaim policy Delete.

        The finalizer keeps the object until its storage is gone.
        """
        metadata = volume["metadata"]
        if annotations_of(volume).get(PROVISIONED_BY) != DRIVER:
            return
        released = (volume.get("status") or {}).get("phase") == "Released"
        if volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete" and released:
            if not metadata.get("deletionTimestamp"):
                await self._client.delete(VOLUMES, metadata["name"], uid=metadata["uid"])
                return
        elif not metadata.get("deletionTimestamp") or (volume.get("status") or {}).get("phase") == "Bound":
            return
        if FINALIZER in (metadata.get("finalizers") or ()):
            rest = [name for name in metadata["finalizers"] if name != FINALIZER]
            await self._client.update(VOLUMES, {**volume, "metadata": {**metadata, "finalizers": rest}})

    async def _resize(self, claim: Json) -> None:
        """Resize a bound claim's volume, then update the claim's capacity."""
        volume = self._volumes.get(claim["spec"]["volumeName"])
        if volume is None or annotations_of(volume).get(PROVISIONED_BY) != DRIVER:
            return
        wanted, has = requested_size(claim), storage(volume["spec"].get("capacity"))
        reported = storage((claim.get("status") or {}).get("capacity"))
        if wanted.compare(has) <= 0 and has.compare(reported) <= 0:
            return
        if (claim.get("status") or {}).get("phase") != "Bound":
            return
        name = volume["metadata"]["name"]
        size = has
        if wanted.compare(has) > 0:
            size = wanted
            self._recorder.record(claim, "Normal", "Resizing", f"External resizer is resizing volume {name}")
            await self._client.patch(VOLUMES, name, {"spec": {"capacity": {"storage": str(size)}}})
        status = {**claim["status"], "capacity": {**claim["status"].get("capacity", {}), "storage": str(size)}}
        status.pop("conditions", None)
        await self._client.update_status(VOLUME_CLAIMS, {**claim, "status": status})
        self._recorder.record(claim, "Normal", "VolumeResizeSuccessful", "Resize volume succeeded")


def _keys_for_volume(volume: Json) -> tuple[str, ...]:
    """Return the keys of the volume and of its claim, whose capacity follows the volume's."""
    ref = volume["spec"].get("claimRef")
    key = f"volume:{key_of(volume)}"
    return (key, f"claim:{ref['namespace']}/{ref['name']}") if ref is not None else (key,)


def _terms(topologies: list[list[tuple[str, list[str]]]]) -> Json:
    return {
        "nodeSelectorTerms": [
            {"matchExpressions": [{"key": key, "operator": "In", "values": values} for key, values in requirements]}
            for requirements in topologies
        ]
    }


def _volume(name: str, claim: Json, storage_class: Json, affinity: Json | None) -> Json:
    metadata, spec = claim["metadata"], claim["spec"]
    policy = storage_class.get("reclaimPolicy") or "Delete"
    reference = {
        "kind": "PersistentVolumeClaim",
        "apiVersion": "v1",
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "resourceVersion": metadata["resourceVersion"],
    }
    volume: Json = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, **({"finalizers": [FINALIZER]} if policy == "Delete" else {})},
        "spec": {
            "capacity": {"storage": str(requested_size(claim))},
            "accessModes": spec.get("accessModes"),
            "claimRef": reference,
            "persistentVolumeReclaimPolicy": policy,
            "storageClassName": class_name(claim),
            "volumeMode": spec.get("volumeMode") or "Filesystem",
            "csi": {"driver": DRIVER, "volumeHandle": name},
        },
    }
    if mounts := storage_class.get("mountOptions"):
        volume["spec"]["mountOptions"] = mounts
    if attributes := attributes_class(claim):
        volume["spec"]["volumeAttributesClassName"] = attributes
    if affinity is not None:
        volume["spec"]["nodeAffinity"] = {"required": affinity}
    return with_annotations(volume, {PROVISIONED_BY: DRIVER})
