"""VolumeBinding: a node must reach the pod's volumes, and waiting claims get volumes with the node.

    PreFilter   the claims exist; those that do not wait are bound
    Filter      bound volumes reach the node; each waiting claim finds a volume that does, or can be provisioned there
    Reserve     assumes the chosen volumes, in memory
    PreBind     writes volumes and claims, then waits for the binder and the provisioner until the timeout

Facts: Kubernetes 1.36, plugin volumebinding.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

from apiserver.api.objects import Json
from apiserver.api.selectors.node_selectors import InvalidNodeSelector
from apiserver.api.selectors.selectors import SelectorError, from_object
from apiserver.api.values.quantity import Quantity
from controllers.runtime.kinds import key_of
from controllers.scheduler.framework.events import ClusterEvent, Event, Hints
from controllers.scheduler.framework.framework import SKIP, Plugin, PluginError, Skip
from controllers.scheduler.framework.scores import Shape, on_line
from controllers.scheduler.framework.status import Rejection
from controllers.scheduler.state.nodes import NodeInfo
from controllers.scheduler.state.pod_info import PodInfo
from controllers.scheduler.storage.limit_plugins import READS_VOLUMES, names_claim, not_found
from controllers.scheduler.storage.volumes import VolumeCache
from controllers.volumes import (
    NO_PROVISIONER,
    SELECTED_NODE,
    VolumeError,
    annotations_of,
    class_name,
    find_volume,
    in_topologies,
    is_fully_bound,
    not_for_pod,
    reaches,
    requested_size,
    storage,
    waits_for_first_consumer,
    with_annotations,
    with_claim_reference,
)

#: Writes the chosen volumes before a pod is bound to a node.
PreBind = Callable[[PodInfo, Any, str], Awaitable[None]]
NAME: Final = "VolumeBinding"
OUT_OF_REACH = Rejection(NAME, ("node(s) didn't match PersistentVolume's node affinity",))
NO_VOLUME = Rejection(NAME, ("node(s) didn't find available persistent volumes to bind",))
NO_SPACE = Rejection(NAME, ("node(s) did not have enough free storage",))
LOST = Rejection(NAME, ("node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",))
UNBOUND = Rejection(NAME, ("pod has unbound immediate PersistentVolumeClaims",))


@dataclass(slots=True)
class NodeVolumes:
    """The volumes for the pod's waiting claims on one node."""

    bindings: list[tuple[Json, Json]] = field(default_factory=list)
    """Volumes with their claims."""
    provisions: list[Json] = field(default_factory=list)
    """Claims whose volumes are to be provisioned."""
    capacities: dict[str, int] = field(default_factory=dict)
    """The available bytes by claim key, for classes with limited capacity."""


@dataclass(slots=True)
class VolumeState:
    """One attempt for one pod with volume claims."""

    bound: list[Json] = field(default_factory=list)
    waiting: list[Json] = field(default_factory=list)
    by_node: dict[str, NodeVolumes] = field(default_factory=dict)
    """By node."""
    chosen: NodeVolumes | None = None
    """The volumes for the chosen node, since Reserve; None: nothing to do."""


class VolumeBinding:
    """The plugin's decisions. `attributes`: VolumeAttributesClasses count."""

    def __init__(self, volumes: VolumeCache, *, attributes: bool) -> None:
        self._volumes, self._attributes = volumes, attributes

    def prefilter(self, pod: PodInfo) -> VolumeState | Rejection | Skip:
        """Run PreFilter. Raise PluginError."""
        if not pod.volume_claims:
            return SKIP
        state, unbound = VolumeState(), False
        for name, made_for_pod in pod.volume_claims:
            claim = self._volumes.claims.get(f"{pod.namespace}/{name}")
            if claim is None or (problem := _unusable(pod, claim, made_for_pod)):
                return Rejection(NAME, (_missing(name, made_for_pod) if claim is None else problem,))
            if is_fully_bound(claim):
                state.bound.append(claim)
            elif self._waits(claim) and not claim["spec"].get("volumeName"):
                state.waiting.append(claim)
            else:
                unbound = True
        # Small claims first, so that each gets the smallest sufficient volume.
        state.waiting.sort(key=_Size)
        return UNBOUND if unbound else state

    def _waits(self, claim: Json) -> bool:
        try:
            return waits_for_first_consumer(claim, self._volumes.storage_class(class_name(claim)))
        except VolumeError as error:
            raise PluginError(str(error)) from error

    def rejection(self, _: PodInfo, state: VolumeState, node: NodeInfo) -> Rejection | None:
        """Run Filter. Raise PluginError."""
        raw = node.node or {}
        refused = self._bound_elsewhere(state, raw)
        node_volumes = NodeVolumes()
        waiting = self._provide(state, raw, node, node_volumes) if state.waiting else None
        if refused is not None or waiting is not None:
            return Rejection(NAME, tuple(r.reasons[0] for r in (refused, waiting) if r is not None))
        state.by_node[node.name] = node_volumes
        return None

    def _bound_elsewhere(self, state: VolumeState, node: Json) -> Rejection | None:
        for claim in state.bound:
            volume = self._volumes.volumes.get(claim["spec"]["volumeName"])
            if volume is None:
                return LOST
            if not volume_reaches(volume, node):
                return OUT_OF_REACH
        return None

    def _provide(self, state: VolumeState, raw: Json, node: NodeInfo, node_volumes: NodeVolumes) -> Rejection | None:
        """Find or provision volumes for the waiting claims."""
        to_provision, used_names = [], set[str]()
        selected = [(annotations_of(claim).get(SELECTED_NODE), claim) for claim in state.waiting]
        if any(name not in (None, node.name) for name, _ in selected):
            return NO_VOLUME
        to_provision += [claim for name, claim in selected if name is not None]
        for name, claim in selected:
            if name is not None:
                continue
            volume = self._find_volume(claim, raw, used_names)
            if volume is None:
                to_provision.append(claim)
            else:
                used_names.add(volume["metadata"]["name"])
                node_volumes.bindings.append((volume, claim))
        for claim in to_provision:
            if (refused := self._check_provisioning(claim, node, node_volumes)) is not None:
                return refused
        node_volumes.provisions = to_provision
        return None

    def _find_volume(self, claim: Json, node: Json, used_names: set[str]) -> Json | None:
        candidates = self._volumes.of_class(class_name(claim))
        try:
            return find_volume(claim, candidates, attributes=self._attributes, node=node, taken=used_names)
        except VolumeError as error:
            raise PluginError(str(error)) from error

    def _check_provisioning(self, claim: Json, node: NodeInfo, node_volumes: NodeVolumes) -> Rejection | None:
        name = class_name(claim)
        storage_class = self._volumes.storage_class(name)
        if storage_class is None:
            raise PluginError(f'failed to find storage class "{name}"')
        provisioner = storage_class.get("provisioner")
        if not provisioner or provisioner == NO_PROVISIONER:
            return NO_VOLUME
        if not in_topologies(storage_class.get("allowedTopologies") or (), node.labels):
            return NO_VOLUME
        driver = self._volumes.csi_driver(provisioner)
        if driver is None or not driver["spec"].get("storageCapacity") or requested_size(claim).is_zero:
            return None
        size = requested_size(claim)
        for capacity in self._volumes.capacities():
            limit = max_volume_size(capacity)
            enough = limit is not None and limit.compare(size) >= 0
            if enough and capacity.get("storageClassName") == name and _has_access(capacity, node):
                node_volumes.capacities[key_of(claim)] = storage({"storage": capacity.get("capacity") or "0"}).value()
                return None
        return NO_SPACE

    def reserve(self, pod: PodInfo, state: VolumeState, node: NodeInfo) -> None:
        """Assume the volumes and claims for the node."""
        if not state.waiting:
            return
        node_volumes = state.by_node[node.name]
        bindings = []
        for volume, claim in node_volumes.bindings:
            assumed = with_claim_reference(volume, claim)
            if assumed is not volume:
                self._volumes.volumes.assume(assumed)
            bindings.append((assumed, claim))
        provisions = [with_annotations(claim, {SELECTED_NODE: node.name}) for claim in node_volumes.provisions]
        for claim in provisions:
            self._volumes.claims.assume(claim)
        state.chosen = NodeVolumes(bindings, provisions)

    def unreserve(self, state: VolumeState) -> None:
        """Restore the assumed volumes and claims."""
        if state.chosen is not None:
            for volume, _ in state.chosen.bindings:
                self._volumes.volumes.restore(volume)
            for claim in state.chosen.provisions:
                self._volumes.claims.restore(claim)


class _Size:
    """The sort key of claims by requested size."""

    def __init__(self, claim: Json) -> None:
        self._size = requested_size(claim)

    def __lt__(self, other: _Size) -> bool:
        return self._size < other._size


def _missing(name: str, made_for_pod: bool) -> str:
    if made_for_pod:
        return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
    return not_found(name)


def _unusable(pod: PodInfo, claim: Json, made_for_pod: bool) -> str:
    """Return the reason why a claim cannot be used; "" if it can."""
    metadata = claim["metadata"]
    if (claim.get("status") or {}).get("phase") == "Lost":
        volume = claim["spec"].get("volumeName", "")
        return f'persistentvolumeclaim "{metadata["name"]}" bound to non-existent persistentvolume "{volume}"'
    if metadata.get("deletionTimestamp"):
        return f'persistentvolumeclaim "{metadata["name"]}" is being deleted'
    return (not_for_pod(pod.pod, claim) or "") if made_for_pod else ""


def volume_reaches(volume: Json, node: Json) -> bool:
    """Return whether the node affinity of a volume allows the node."""
    try:
        return reaches(volume, node)
    except InvalidNodeSelector:
        return False


def max_volume_size(capacity: Json) -> Quantity | None:
    """Return the maximum size of a volume; None if unknown."""
    size = capacity.get("maximumVolumeSize") or capacity.get("capacity")
    return Quantity.parse(size) if size is not None else None


def _has_access(capacity: Json, node: NodeInfo) -> bool:
    topology = capacity.get("nodeTopology")
    if topology is None:
        return False
    try:
        return from_object(topology).matches(dict(node.labels))
    except SelectorError:
        return False


def volume_binding(decisions: VolumeBinding, pre_bind: PreBind | None = None, shape: Shape = ()) -> Plugin:
    """Build the plugin; without `pre_bind` it only decides.

    Args:
        decisions: The plugin's decisions.
        pre_bind: Writes the chosen volumes before the binding.
        shape: Scores by the used share of storage capacity; () disables them.
    """

    async def unreserve(_: PodInfo, state: VolumeState) -> None:
        decisions.unreserve(state)

    return Plugin(
        name=NAME,
        reads=READS_VOLUMES,
        pre_filter=decisions.prefilter,
        filter=decisions.rejection,
        reserve=decisions.reserve,
        unreserve=unreserve,
        revert=decisions.unreserve,
        pre_bind=pre_bind,
        writes=lambda state: state.chosen is not None,
        pre_score=(lambda _, state: SKIP if state is None else state) if shape else None,
        score=capacity_score(shape) if shape else None,
        hints=_HINTS,
    )


def capacity_score(shape: Shape) -> Callable[[PodInfo, VolumeState, NodeInfo], int]:
    """Return a function that scores the used share of storage capacity (gate StorageCapacityScoring).

    It is the mean over storage classes, for existing volumes or, if none is bound, for those to provision.
    """

    def score(_: PodInfo, state: VolumeState, node: NodeInfo) -> int:
        node_volumes = state.by_node.get(node.name)
        classes: dict[str, list[int]] = {}
        for volume, claim in node_volumes.bindings if node_volumes is not None else ():
            amounts = classes.setdefault(class_name(volume), [0, 0])
            amounts[0] += requested_size(claim).value()
            amounts[1] += storage(volume["spec"].get("capacity")).value()
        if node_volumes is not None and not node_volumes.bindings:
            for claim in node_volumes.provisions:
                if key_of(claim) in node_volumes.capacities:
                    amounts = classes.setdefault(class_name(claim), [0, 0])
                    amounts[0] += requested_size(claim).value()
                    amounts[1] = node_volumes.capacities[key_of(claim)]
        total = sum(
            on_line(shape, 100 if not limit or size > limit else size * 100 // limit)
            for size, limit in classes.values()
        )
        return (2 * total + len(classes)) // (2 * len(classes)) if classes else 0

    return score


_MIGRATED: Final = "storage.alpha.kubernetes.io/migrated-plugins"


def _topologies_differ(_: PodInfo, event: Event) -> bool:
    old, new = event.old or {}, event.new or {}
    return bool(old.get("allowedTopologies") != new.get("allowedTopologies"))


def _has_more_capacity(_: PodInfo, event: Event) -> bool:
    before, now = max_volume_size(event.old or {}), max_volume_size(event.new or {})
    return now is not None and (before is None or now.compare(before) > 0)


def _counts_no_more(_: PodInfo, event: Event) -> bool:
    def counts(driver: Json | None) -> bool:
        return bool(((driver or {}).get("spec") or {}).get("storageCapacity"))

    return counts(event.old) and not counts(event.new)


def _migrates_others(_: PodInfo, event: Event) -> bool:
    """Return whether the node's set of migrated in-tree plugins changed."""
    old, new = ((each or {}).get("metadata", {}).get("annotations") or {} for each in (event.old, event.new))
    return bool(old.get(_MIGRATED) != new.get(_MIGRATED))


_HINTS: Hints = {
    ClusterEvent.NODE_ADD: None,
    ClusterEvent.NODE_LABEL: None,
    ClusterEvent.STORAGE_CLASS_ADD: None,
    ClusterEvent.STORAGE_CLASS_UPDATE: _topologies_differ,
    ClusterEvent.VOLUME_CLAIM_ADD: names_claim,
    ClusterEvent.VOLUME_CLAIM_UPDATE: names_claim,
    ClusterEvent.VOLUME_ADD: None,
    ClusterEvent.VOLUME_UPDATE: None,
    ClusterEvent.CSI_NODE_ADD: None,
    ClusterEvent.CSI_NODE_UPDATE: _migrates_others,
    ClusterEvent.CSI_DRIVER_UPDATE: _counts_no_more,
    ClusterEvent.STORAGE_CAPACITY_ADD: None,
    ClusterEvent.STORAGE_CAPACITY_UPDATE: _has_more_capacity,
}
