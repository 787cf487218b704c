"""Admission and controllers for hypothetical objects: priorities, ephemeral claims, storage classes and volumes."""

from __future__ import annotations

from typing import Any, Final

from apiserver.api.helpers.storage_classes import class_of, is_default_class
from apiserver.api.objects import Json
from controllers.explain.hypothetical import with_server_fields
from controllers.explain.world import World
from controllers.runtime.kinds import POD_GROUPS, PRIORITY_CLASSES, STORAGE_CLASSES, VOLUME_CLAIMS, VOLUMES, key_of
from controllers.volumes import (
    BIND_COMPLETED,
    NO_PROVISIONER,
    SELECTED_NODE,
    class_name,
    find_volume,
    is_fully_bound,
    volume_mode,
    waits_for_first_consumer,
)
from controllers.volumes.ephemeral import ephemeral_claim

__all__ = ["EmulatedControllers"]

_SYSTEM: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


class EmulatedControllers:
    """The effects of admission plugins and volume controllers in one world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._count = 0

    def with_priority(self, spec: Json) -> Json:
        """Return the spec of a pod or group with the priority of its class, or of the default class."""
        name = spec.get("priorityClassName") or ""
        classes = self._world.objects(PRIORITY_CLASSES)
        found = next((item for item in classes if item["metadata"]["name"] == name), None)
        if not name:
            defaults = [item for item in classes if item.get("globalDefault")]
            found = min(defaults, key=lambda item: item.get("value", 0), default=None)
        if found is None:
            return {**spec, "priority": _SYSTEM[name]} if name in _SYSTEM else spec
        policy = {"preemptionPolicy": found.get("preemptionPolicy") or "PreemptLowerPriority"}
        return {**spec, "priority": found.get("value", 0), **(policy if "containers" in spec else {})}

    def set_group_priorities(self) -> None:
        """Set the priority of every pod group."""
        for group in self._world.objects(POD_GROUPS):
            self._world.set(POD_GROUPS, key_of(group), {**group, "spec": self.with_priority(group["spec"])})

    def create_volume_claims(self, pod: Json) -> None:
        """Create the claims of a pod's ephemeral volumes, and bind what can be bound."""
        for volume in pod["spec"].get("volumes") or ():
            if volume.get("ephemeral"):
                claim = ephemeral_claim(pod, volume)
                self._count += 1
                claim["metadata"] = with_server_fields(claim["metadata"], f"volume-{self._count}", namespaced=True)
                self._world.set(VOLUME_CLAIMS, key_of(claim), claim)
        self.bind_claims()

    def bind_claims(self) -> None:
        """Set default classes, then bind claims with immediate binding to a matching or provisioned volume."""
        for volume in self._world.objects(VOLUMES):
            if "phase" not in (volume.get("status") or {}):
                phase = "Bound" if volume["spec"].get("claimRef") else "Available"
                self._world.set(VOLUMES, key_of(volume), _new_version(volume, status={"phase": phase}))
        for item in self._world.objects(VOLUME_CLAIMS):
            claim = item
            if is_fully_bound(claim):
                continue
            if class_of(claim) is None and (default := self._default_class()):
                claim = _new_version(claim, spec={**claim["spec"], "storageClassName": default})
                self._world.set(VOLUME_CLAIMS, key_of(claim), claim)
            storage_class = self._world.of(STORAGE_CLASSES).get(class_name(claim))
            if (
                storage_class is not None
                and storage_class.get("volumeBindingMode")
                and waits_for_first_consumer(claim, storage_class)
            ):
                continue
            candidates = self._world.scheduler.volumes.of_class(class_name(claim))
            found = find_volume(claim, candidates, attributes=True)
            if found is not None:
                self.bind(claim, found)
            elif (storage_class or {}).get("provisioner", NO_PROVISIONER) != NO_PROVISIONER:
                self.provision(claim)

    def _default_class(self) -> str:
        defaults = [item["metadata"]["name"] for item in self._world.objects(STORAGE_CLASSES) if is_default_class(item)]
        return max(defaults, default="")

    def bind(self, claim: Json, volume: Json) -> None:
        """Bind a claim and a volume to each other."""
        meta = claim["metadata"]
        ref = {"namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]}
        name = volume["metadata"]["name"]
        annotations = {**(meta.get("annotations") or {}), BIND_COMPLETED: "yes"}
        bound = _new_version(claim, spec={**claim["spec"], "volumeName": name}, status={"phase": "Bound"})
        bound["metadata"]["annotations"] = annotations
        taken = _new_version(volume, spec={**volume["spec"], "claimRef": ref}, status={"phase": "Bound"})
        self._world.set(VOLUME_CLAIMS, key_of(bound), bound)
        self._world.set(VOLUMES, name, taken)

    def provision(self, claim: Json) -> None:
        """Create a volume for the claim, reachable wherever its class allows, and bind it."""
        storage_class = self._world.of(STORAGE_CLASSES).get(class_name(claim)) or {}
        name = f"hypothetical-{claim['metadata']['uid']}"
        spec: Json = {
            "capacity": dict((claim["spec"].get("resources") or {}).get("requests") or {}),
            "accessModes": claim["spec"].get("accessModes") or [],
            "volumeMode": volume_mode(claim),
            "storageClassName": class_name(claim),
            "csi": {"driver": storage_class.get("provisioner", ""), "volumeHandle": name},
        }
        if terms := [_term(each) for each in storage_class.get("allowedTopologies") or ()]:
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
        metadata = {"name": name, "uid": name, "resourceVersion": "0"}
        self.bind(claim, {"metadata": metadata, "spec": spec})

    def bind_chosen(self, state: Any) -> None:
        """Bind the volumes that the scheduler chose for a pod, and provision the others."""
        for volume, claim in state.chosen.bindings if state.chosen is not None else ():
            self.bind(claim, volume)
        for claim in state.chosen.provisions if state.chosen is not None else ():
            annotations = {k: v for k, v in claim["metadata"]["annotations"].items() if k != SELECTED_NODE}
            self.provision({**claim, "metadata": {**claim["metadata"], "annotations": annotations}})


def _term(topology: Json) -> Json:
    expressions = topology.get("matchLabelExpressions") or ()
    return {"matchExpressions": [{"key": e["key"], "operator": "In", "values": e["values"]} for e in expressions]}


def _new_version(obj: Json, **fields: Any) -> Json:
    """Return a new version of an object. It replaces the scheduler's assumed version."""
    metadata = {**obj["metadata"], "resourceVersion": str(int(obj["metadata"]["resourceVersion"]) + 1)}
    return {**obj, **fields, "metadata": metadata}
