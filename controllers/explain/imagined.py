"""What a server and its controllers would make of objects that come into a world: priorities from classes, claims on
volumes from templates, default storage classes, volumes for claims that do not wait.
"""

from __future__ import annotations

from typing import Any, Final

from apiserver.api.helpers.storage_classes import class_of, is_default_class
from controllers.explain.hypothetical import stored
from controllers.explain.world import World
from controllers.runtime.kinds import (
    POD_GROUPS,
    PRIORITY_CLASSES,
    STORAGE_CLASSES,
    VOLUME_CLAIMS,
    VOLUMES,
    Json,
    key_of,
)
from controllers.volumes import (
    BIND_COMPLETED,
    NO_PROVISIONER,
    SELECTED_NODE,
    class_name,
    find_volume,
    is_fully_bound,
    mode,
    waits,
)
from controllers.volumes.ephemeral import ephemeral_claim

__all__ = ["Imagined"]

_SYSTEM: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


class Imagined:
    """The admission and the controllers of one world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._made = 0

    def with_priority(self, spec: Json) -> Json:
        """The spec of a pod or a group with the priority of its class, or of the default one."""
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

    def groups(self) -> None:
        """Groups get their priorities."""
        for group in self._world.objects(POD_GROUPS):
            self._world.set(POD_GROUPS, key_of(group), {**group, "spec": self.with_priority(group["spec"])})

    def volumes_of(self, pod: Json) -> None:
        """The claims of a pod's ephemeral volumes are made."""
        for volume in pod["spec"].get("volumes") or ():
            if volume.get("ephemeral"):
                claim = ephemeral_claim(pod, volume)
                self._made += 1
                claim["metadata"] = stored(claim["metadata"], f"volume-{self._made}", namespaced=True)
                self._world.set(VOLUME_CLAIMS, key_of(claim), claim)
        self.settle()

    def settle(self) -> None:
        """Claims get the default class where they name none; those that do not wait are bound where there is a volume,
        or who makes one.
        """
        for volume in self._world.objects(VOLUMES):
            if "phase" not in (volume.get("status") or {}):
                phase = "Bound" if volume["spec"].get("claimRef") else "Available"
                self._world.set(VOLUMES, key_of(volume), _next(volume, status={"phase": phase}))
        for item in self._world.objects(VOLUME_CLAIMS):
            claim = item
            if is_fully_bound(claim):
                continue
            if class_of(claim) is None and (default := self._default_class()):
                claim = _next(claim, spec={**claim["spec"], "storageClassName": default})
                self._world.set(VOLUME_CLAIMS, key_of(claim), claim)
            storage_class = self._world.of(STORAGE_CLASSES).get(class_name(claim))
            if storage_class is not None and storage_class.get("volumeBindingMode") and waits(claim, storage_class):
                continue
            candidates = self._world.scheduler.volumes.of_class(class_name(claim))
            found = find_volume(claim, candidates, attributes=True)
            if found is not None:
                self.bind(claim, found)
            elif (storage_class or {}).get("provisioner", NO_PROVISIONER) != NO_PROVISIONER:
                self.provide(claim)

    def _default_class(self) -> str:
        defaults = [item["metadata"]["name"] for item in self._world.objects(STORAGE_CLASSES) if is_default_class(item)]
        return max(defaults, default="")

    def bind(self, claim: Json, volume: Json) -> None:
        """Each names the other, and the binder has finished."""
        meta = claim["metadata"]
        ref = {"namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]}
        name = volume["metadata"]["name"]
        annotations = {**(meta.get("annotations") or {}), BIND_COMPLETED: "yes"}
        bound = _next(claim, spec={**claim["spec"], "volumeName": name}, status={"phase": "Bound"})
        bound["metadata"]["annotations"] = annotations
        taken = _next(volume, spec={**volume["spec"], "claimRef": ref}, status={"phase": "Bound"})
        self._world.set(VOLUME_CLAIMS, key_of(bound), bound)
        self._world.set(VOLUMES, name, taken)

    def provide(self, claim: Json) -> None:
        """A volume is made for the claim; it can be used wherever its class allows."""
        storage_class = self._world.of(STORAGE_CLASSES).get(class_name(claim)) or {}
        name = f"imagined-{claim['metadata']['uid']}"
        spec: Json = {
            "capacity": dict((claim["spec"].get("resources") or {}).get("requests") or {}),
            "accessModes": claim["spec"].get("accessModes") or [],
            "volumeMode": mode(claim),
            "storageClassName": class_name(claim),
            "csi": {"driver": storage_class.get("provisioner", ""), "volumeHandle": name},
        }
        if terms := [_term(each) for each in storage_class.get("allowedTopologies") or ()]:
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
        metadata = {"name": name, "uid": name, "resourceVersion": "0"}
        self.bind(claim, {"metadata": metadata, "spec": spec})

    def decided(self, state: Any) -> None:
        """What the scheduler chose for the claims of a pod that waited is there."""
        for volume, claim in state.chosen.bindings if state.chosen is not None else ():
            self.bind(claim, volume)
        for claim in state.chosen.provisions if state.chosen is not None else ():
            annotations = {k: v for k, v in claim["metadata"]["annotations"].items() if k != SELECTED_NODE}
            self.provide({**claim, "metadata": {**claim["metadata"], "annotations": annotations}})


def _term(topology: Json) -> Json:
    expressions = topology.get("matchLabelExpressions") or ()
    return {"matchExpressions": [{"key": e["key"], "operator": "In", "values": e["values"]} for e in expressions]}


def _next(obj: Json, **fields: Any) -> Json:
    """A later version of an object: what the scheduler had decided about it before does not count any more."""
    metadata = {**obj["metadata"], "resourceVersion": str(int(obj["metadata"]["resourceVersion"]) + 1)}
    return {**obj, **fields, "metadata": metadata}
