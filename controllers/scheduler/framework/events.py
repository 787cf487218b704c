"""Events of the cluster that may concern waiting pods.

A plugin lists the events that could change its rejection, each with a hint: a function of the pod and the event, or
None for always. Unlisted events cost nothing. Facts: Kubernetes 1.36, pkg/scheduler/framework/events.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto

from apiserver.api.helpers.pod_requests import pod_requests
from apiserver.api.objects import Json
from controllers.scheduler.state.pod_info import PodInfo


class ClusterEvent(Enum):
    """Kinds of events. POD_ADD and POD_DELETE are about bound pods; the end of a pod is a POD_DELETE as well."""

    NODE_ADD = auto()
    NODE_ALLOCATABLE = auto()
    NODE_LABEL = auto()
    NODE_TAINT = auto()
    NODE_CONDITION = auto()
    NODE_ANNOTATION = auto()
    NODE_OTHER = auto()
    """A change of something else that a plugin reads."""
    NODE_DELETE = auto()
    POD_ADD = auto()
    POD_LABEL = auto()
    POD_SCALE_DOWN = auto()
    POD_GATES_ELIMINATED = auto()
    POD_TOLERATION = auto()
    POD_GENERATED_CLAIM = auto()
    POD_OTHER = auto()
    POD_DELETE = auto()
    CLAIM_ADD = auto()
    CLAIM_UPDATE = auto()
    CLASS_ADD = auto()
    CLASS_UPDATE = auto()
    SLICE_ADD = auto()
    SLICE_UPDATE = auto()
    POD_GROUP_ADD = auto()
    GROUP_MEMBER_ADD = auto()
    """A group's pod that waits for a node."""
    VOLUME_CLAIM_ADD = auto()
    VOLUME_CLAIM_UPDATE = auto()
    VOLUME_ADD = auto()
    VOLUME_UPDATE = auto()
    STORAGE_CLASS_ADD = auto()
    STORAGE_CLASS_UPDATE = auto()
    CSI_NODE_ADD = auto()
    CSI_NODE_UPDATE = auto()
    CSI_DRIVER_UPDATE = auto()
    STORAGE_CAPACITY_ADD = auto()
    STORAGE_CAPACITY_UPDATE = auto()
    VOLUME_ATTACHMENT_DELETE = auto()


#: Upstream's labels in metrics. Those of pods depend on whether the pod is bound (`label_of`).
_LABELS = {
    ClusterEvent.NODE_ADD: "NodeAdd",
    ClusterEvent.NODE_ALLOCATABLE: "NodeUpdateNodeAllocatable",
    ClusterEvent.NODE_LABEL: "NodeUpdateNodeLabel",
    ClusterEvent.NODE_TAINT: "NodeUpdateNodeTaint",
    ClusterEvent.NODE_CONDITION: "NodeUpdateNodeCondition",
    ClusterEvent.NODE_ANNOTATION: "NodeUpdateNodeAnnotation",
    ClusterEvent.NODE_OTHER: "NodeUpdateNodeDeclaredFeature",
    ClusterEvent.NODE_DELETE: "NodeDelete",
    ClusterEvent.CLAIM_ADD: "resource.k8s.io/ResourceClaimAdd",
    ClusterEvent.CLAIM_UPDATE: "resource.k8s.io/ResourceClaimUpdate",
    ClusterEvent.CLASS_ADD: "resource.k8s.io/DeviceClassAdd",
    ClusterEvent.CLASS_UPDATE: "resource.k8s.io/DeviceClassUpdate",
    ClusterEvent.SLICE_ADD: "resource.k8s.io/ResourceSliceAdd",
    ClusterEvent.SLICE_UPDATE: "resource.k8s.io/ResourceSliceUpdate",
    ClusterEvent.POD_GROUP_ADD: "scheduling.k8s.io/PodGroupAdd",
    ClusterEvent.GROUP_MEMBER_ADD: "UnschedulablePodAdd",
    ClusterEvent.VOLUME_CLAIM_ADD: "PersistentVolumeClaimAdd",
    ClusterEvent.VOLUME_CLAIM_UPDATE: "PersistentVolumeClaimUpdate",
    ClusterEvent.VOLUME_ADD: "PersistentVolumeAdd",
    ClusterEvent.VOLUME_UPDATE: "PersistentVolumeUpdate",
    ClusterEvent.STORAGE_CLASS_ADD: "storage.k8s.io/StorageClassAdd",
    ClusterEvent.STORAGE_CLASS_UPDATE: "storage.k8s.io/StorageClassUpdate",
    ClusterEvent.CSI_NODE_ADD: "storage.k8s.io/CSINodeAdd",
    ClusterEvent.CSI_NODE_UPDATE: "storage.k8s.io/CSINodeUpdate",
    ClusterEvent.CSI_DRIVER_UPDATE: "storage.k8s.io/CSIDriverUpdate",
    ClusterEvent.STORAGE_CAPACITY_ADD: "storage.k8s.io/CSIStorageCapacityAdd",
    ClusterEvent.STORAGE_CAPACITY_UPDATE: "storage.k8s.io/CSIStorageCapacityUpdate",
    ClusterEvent.VOLUME_ATTACHMENT_DELETE: "storage.k8s.io/VolumeAttachmentDelete",
}
_POD_LABELS = {
    ClusterEvent.POD_ADD: "Add",
    ClusterEvent.POD_LABEL: "UpdatePodLabel",
    ClusterEvent.POD_SCALE_DOWN: "UpdatePodScaleDown",
    ClusterEvent.POD_GATES_ELIMINATED: "UpdatePodSchedulingGatesEliminated",
    ClusterEvent.POD_TOLERATION: "UpdatePodToleration",
    ClusterEvent.POD_GENERATED_CLAIM: "UpdatePodGeneratedResourceClaim",
    ClusterEvent.POD_OTHER: "Update",
    ClusterEvent.POD_DELETE: "Delete",
}
#: Updates of a node; updates of a bound or waiting pod.
NODE_UPDATES = (
    ClusterEvent.NODE_ALLOCATABLE,
    ClusterEvent.NODE_LABEL,
    ClusterEvent.NODE_TAINT,
    ClusterEvent.NODE_CONDITION,
    ClusterEvent.NODE_ANNOTATION,
    ClusterEvent.NODE_OTHER,
)
POD_UPDATES = (
    ClusterEvent.POD_LABEL,
    ClusterEvent.POD_SCALE_DOWN,
    ClusterEvent.POD_GATES_ELIMINATED,
    ClusterEvent.POD_TOLERATION,
    ClusterEvent.POD_GENERATED_CLAIM,
    ClusterEvent.POD_OTHER,
)
DEVICE_EVENTS = (
    ClusterEvent.CLAIM_ADD,
    ClusterEvent.CLAIM_UPDATE,
    ClusterEvent.CLASS_ADD,
    ClusterEvent.CLASS_UPDATE,
    ClusterEvent.SLICE_ADD,
    ClusterEvent.SLICE_UPDATE,
)


@dataclass(frozen=True, slots=True)
class Event:
    """One event. `only` restricts it to the pods (by uid) that it can concern at all."""

    kind: ClusterEvent
    old: Json | None
    new: Json | None
    only: frozenset[str] | None = None


def label_of(event: Event) -> str:
    """Return upstream's label in metrics."""
    if (label := _LABELS.get(event.kind)) is not None:
        return label
    placed = event.kind in (ClusterEvent.POD_ADD, ClusterEvent.POD_DELETE) or (
        event.new is not None and event.new["spec"].get("nodeName")
    )
    return f"{'AssignedPod' if placed else 'UnschedulablePod'}{_POD_LABELS[event.kind]}"


Hint = Callable[[PodInfo, Event], bool]
Hints = Mapping[ClusterEvent, Hint | None]


def is_own(pod: PodInfo, event: Event) -> bool:
    """Return whether the event is an update of the waiting pod itself."""
    return event.new is not None and event.new["metadata"]["uid"] == pod.uid


def is_placed(pod: Json) -> bool:
    """Return whether the pod is bound or nominated."""
    return bool(pod["spec"].get("nodeName") or (pod.get("status") or {}).get("nominatedNodeName"))


def node_events(old: Json, new: Json) -> list[ClusterEvent]:
    """Return the events of a node update."""
    events = []
    before, after = old.get("spec") or {}, new.get("spec") or {}
    status_before, status_after = old.get("status") or {}, new.get("status") or {}
    if status_before.get("allocatable") != status_after.get("allocatable"):
        events.append(ClusterEvent.NODE_ALLOCATABLE)
    if old["metadata"].get("labels") != new["metadata"].get("labels"):
        events.append(ClusterEvent.NODE_LABEL)
    closed_before, closed_after = before.get("unschedulable"), after.get("unschedulable")
    if before.get("taints") != after.get("taints") or (closed_before and not closed_after):
        events.append(ClusterEvent.NODE_TAINT)
    if _conditions(status_before) != _conditions(status_after):
        events.append(ClusterEvent.NODE_CONDITION)
    if old["metadata"].get("annotations") != new["metadata"].get("annotations"):
        events.append(ClusterEvent.NODE_ANNOTATION)
    return events


def _conditions(status: Json) -> dict[str, str]:
    return {condition["type"]: condition["status"] for condition in status.get("conditions") or ()}


def pod_events(old: Json, new: Json) -> list[ClusterEvent]:
    """Return the events of a pod update."""
    events = []
    if old["metadata"].get("labels") != new["metadata"].get("labels"):
        events.append(ClusterEvent.POD_LABEL)
    before, after = old["spec"], new["spec"]
    if before["containers"] != after["containers"] or old.get("status", {}).get("containerStatuses") != new.get(
        "status", {}
    ).get("containerStatuses"):
        was, now = pod_requests(old), pod_requests(new)
        if any(now.get(name, 0) < value for name, value in was.items()):
            events.append(ClusterEvent.POD_SCALE_DOWN)
    if before.get("schedulingGates") and not after.get("schedulingGates"):
        events.append(ClusterEvent.POD_GATES_ELIMINATED)
    if len(after.get("tolerations") or ()) > len(before.get("tolerations") or ()):
        events.append(ClusterEvent.POD_TOLERATION)
    claims = ("resourceClaimStatuses", "extendedResourceClaimStatus")
    if any(old.get("status", {}).get(field) != new.get("status", {}).get(field) for field in claims):
        events.append(ClusterEvent.POD_GENERATED_CLAIM)
    return events or [ClusterEvent.POD_OTHER]
