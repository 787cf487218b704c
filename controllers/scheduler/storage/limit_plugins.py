"""Plugins about volumes: VolumeRestrictions, NodeVolumeLimits and VolumeZone.

VolumeRestrictions rejects disks and claims in use, NodeVolumeLimits rejects nodes with too many volumes of a driver,
and VolumeZone compares the labels of volumes. The binding of a claim is looked up again in every attempt: nothing is
cached. Volumes of in-tree kinds that CSI drivers replaced keep their kind. Facts: Kubernetes 1.36, plugins
volumerestrictions, nodevolumelimits, volumezone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from apiserver.api.objects import Json
from controllers.scheduler.framework.events import ClusterEvent, Event, Hints, is_placed
from controllers.scheduler.framework.framework import SKIP, Plugin, Reads, Skip, node_field
from controllers.scheduler.framework.status import Code, Rejection
from controllers.scheduler.state.nodes import Cache, NodeInfo
from controllers.scheduler.state.pod_info import PodInfo
from controllers.scheduler.storage.volumes import VolumeCache
from controllers.volumes import WAITS, class_name, not_for_pod, pod_claims

READS_VOLUMES: Final = Reads(node=(node_field("metadata", "labels"),), elsewhere=True)


def names_claim(pod: PodInfo, event: Event) -> bool:
    """Return whether the event is about a claim of one of the pod's volumes."""
    new = event.new
    if new is None or new["metadata"]["namespace"] != pod.namespace:
        return False
    return any(name == new["metadata"]["name"] for name, _ in pod.volume_claims)


def not_found(name: str) -> str:
    return f'persistentvolumeclaim "{name}" not found'


# VolumeRestrictions

RESTRICTIONS: Final = "VolumeRestrictions"
DISK_TAKEN = Rejection(RESTRICTIONS, ("node(s) had no available disk",), Code.UNSCHEDULABLE)
_IN_USE: Final = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)
ONE_POD_ONLY = Rejection(RESTRICTIONS, (_IN_USE,), Code.UNSCHEDULABLE)


@dataclass(slots=True)
class ExclusiveVolumes:
    """The pod's disks and claims that no other pod may use at the same time."""

    disks: list[Json]
    claims: frozenset[str]
    """Claims for a single pod (ReadWriteOncePod)."""
    namespace: str
    users: int = 0
    """The number of uses by pods with a node."""


_DISKS: Final = ("gcePersistentDisk", "awsElasticBlockStore", "iscsi", "rbd")


def _disks(pod: Json) -> list[Json]:
    return [v for v in pod["spec"].get("volumes") or () if any(v.get(kind) for kind in _DISKS)]


def _same_disk(one: Json, other: Json) -> bool:
    """Return whether two volumes are one disk that cannot be used twice; some can if both are read-only."""
    for kind in _DISKS:
        left, right = one.get(kind), other.get(kind)
        if not left or not right or not _is_same(kind, left, right):
            continue
        if kind == "awsElasticBlockStore" or not (left.get("readOnly") and right.get("readOnly")):
            return True
    return False


def _is_same(kind: str, left: Json, right: Json) -> bool:
    if kind == "rbd":
        monitors = set(left.get("monitors") or ()) & set(right.get("monitors") or ())
        return bool(monitors) and (left.get("pool"), left.get("image")) == (right.get("pool"), right.get("image"))
    field = {"gcePersistentDisk": "pdName", "awsElasticBlockStore": "volumeID", "iscsi": "iqn"}[kind]
    return bool(left.get(field) == right.get(field))


def volume_restrictions(cache: Cache, volumes: VolumeCache) -> Plugin:
    """Build the plugin."""

    def pre_filter(pod: PodInfo) -> ExclusiveVolumes | Rejection | Skip:
        if not pod.spec.get("volumes"):
            return SKIP
        exclusive = set()
        for name, made_for_pod in pod.volume_claims:
            if made_for_pod:
                continue
            claim = volumes.claims.get(f"{pod.namespace}/{name}")
            if claim is None:
                return Rejection(RESTRICTIONS, (not_found(name),))
            if "ReadWriteOncePod" in (claim["spec"].get("accessModes") or ()):
                exclusive.add(name)
        state = ExclusiveVolumes(_disks(pod.pod), frozenset(exclusive), pod.namespace)
        if exclusive:
            used = {name for other in cache.pods() for name in _shared(state, other)}
            state.users = len(used)
        return state if state.disks or state.users else SKIP

    return Plugin(
        name=RESTRICTIONS,
        reads=READS_VOLUMES,
        pre_filter=pre_filter,
        filter=_restricted,
        count=_count_user,
        hints={
            ClusterEvent.NODE_ADD: None,
            ClusterEvent.POD_DELETE: _frees_volume,
            ClusterEvent.VOLUME_CLAIM_ADD: names_claim,
        },
    )


def _shared(state: ExclusiveVolumes, other: PodInfo) -> list[str]:
    if other.namespace != state.namespace:
        return []
    return [name for name, made_for_pod in other.volume_claims if not made_for_pod and name in state.claims]


def _count_user(state: ExclusiveVolumes, other: PodInfo, _: NodeInfo, sign: int) -> None:
    state.users += sign * len(_shared(state, other))


def _restricted(_: PodInfo, state: ExclusiveVolumes, node: NodeInfo) -> Rejection | None:
    if state.disks:
        disks = (theirs for other in node.pods.values() for theirs in _disks(other.pod))
        if any(_same_disk(mine, theirs) for theirs in disks for mine in state.disks):
            return DISK_TAKEN
    return ONE_POD_ONLY if state.users > 0 else None


def _frees_volume(pod: PodInfo, event: Event) -> bool:
    gone = event.old
    if gone is None or gone["metadata"]["namespace"] != pod.namespace:
        return False
    if any(_same_disk(mine, theirs) for mine in _disks(pod.pod) for theirs in _disks(gone)):
        return True
    return bool({name for name, _ in pod.volume_claims} & {name for name, _ in pod_claims(gone)})


# NodeVolumeLimits

LIMITS: Final = "NodeVolumeLimits"
TOO_MANY = Rejection(LIMITS, ("node(s) exceed max volume count",), Code.UNSCHEDULABLE)


def node_volume_limits(volumes: VolumeCache, *, needs_driver: bool) -> Plugin:
    """Build the plugin; `needs_driver`: drivers may exclude nodes without them (gate VolumeLimitScaling)."""

    def reject(pod: PodInfo, _: Any, node: NodeInfo) -> Rejection | None:
        new: dict[tuple[str, str], str] = {}
        problem = _add_attachable(volumes, pod, new)
        if problem is not None:
            return Rejection(LIMITS, (problem,))
        if not new:
            return None
        csi_node = volumes.csi_node(node.name)
        if needs_driver and (lacking := _lacks_driver(volumes, new, csi_node)) is not None:
            return lacking
        limits = _limits(csi_node)
        return TOO_MANY if limits and _exceeds(volumes, node, new, limits) else None

    return Plugin(
        name=LIMITS,
        reads=READS_VOLUMES,
        pre_filter=lambda pod: True if pod.volume_claims else SKIP,
        filter=reject,
        hints={
            ClusterEvent.CSI_NODE_ADD: None,
            ClusterEvent.CSI_NODE_UPDATE: _limit_raised,
            ClusterEvent.POD_DELETE: _frees_attachments,
            ClusterEvent.VOLUME_CLAIM_ADD: names_claim,
            ClusterEvent.VOLUME_ATTACHMENT_DELETE: lambda pod, _: any(not made for _, made in pod.volume_claims),
        },
    )


def _add_attachable(volumes: VolumeCache, pod: PodInfo, volumes_by_handle: dict[tuple[str, str], str]) -> str | None:
    """Add the pod's attachable volumes to `volumes_by_handle`; return the problem with a claim."""
    for name, made_for_pod in pod.volume_claims:
        claim = volumes.claims.get(f"{pod.namespace}/{name}")
        if claim is None:
            return f"looking up PVC {pod.namespace}/{name}: {not_found(name)}"
        if made_for_pod and (problem := not_for_pod(pod.pod, claim)) is not None:
            return problem
        driver, handle = _driver_of(volumes, claim)
        if driver and handle:
            volumes_by_handle[driver, handle] = driver
    return None


def _driver_of(volumes: VolumeCache, claim: Json) -> tuple[str, str]:
    """Return driver and handle of a claim's volume; without a volume, those of the one to provision."""
    volume = volumes.volumes.get(claim["spec"].get("volumeName") or "")
    if volume is not None:
        source = volume["spec"].get("csi") or {}
        return source.get("driver", ""), source.get("volumeHandle", "")
    storage_class = volumes.storage_class(class_name(claim))
    if storage_class is None:
        return "", ""
    metadata = claim["metadata"]
    return storage_class["provisioner"], f"\x00{metadata['namespace']}/{metadata['name']}"


def _limits(csi_node: Json | None) -> dict[str, int]:
    """Return the maximum number of volumes by driver on a node, where limited."""
    drivers = csi_node["spec"].get("drivers") or () if csi_node is not None else ()
    counts = ((driver["name"], (driver.get("allocatable") or {}).get("count")) for driver in drivers)
    return {name: count for name, count in counts if count is not None}


def _exceeds(volumes: VolumeCache, node: NodeInfo, new: dict[tuple[str, str], str], limits: dict[str, int]) -> bool:
    used, more = _attached_drivers(volumes, node, new)
    return any(used.count(driver) + more.count(driver) > limits[driver] for driver in set(more) if driver in limits)


def _attached_drivers(
    volumes: VolumeCache, node: NodeInfo, new: dict[tuple[str, str], str]
) -> tuple[list[str], list[str]]:
    """Return the drivers of the volumes attached to a node, including pending ones, and those of the new volumes."""
    attached: dict[tuple[str, str], str] = {}
    for other in node.pods.values():
        # Volumes that cannot be looked up do not count.
        for name, _ in other.volume_claims:
            claim = volumes.claims.get(f"{other.namespace}/{name}")
            driver, handle = _driver_of(volumes, claim) if claim is not None else ("", "")
            if driver and handle:
                attached[driver, handle] = driver
    # A volume that several pods use counts once.
    more = [driver for key, driver in new.items() if key not in attached]
    for attachment in volumes.attachments(node.name):
        volume = volumes.volumes.get((attachment["spec"].get("source") or {}).get("persistentVolumeName") or "")
        driver = attachment["spec"].get("attacher", "")
        if volume is not None and driver and (source := volume["spec"].get("csi")):
            attached.setdefault((driver, source["volumeHandle"]), driver)
    return list(attached.values()), more


def attach_counts(volumes: VolumeCache, pod: PodInfo, node: NodeInfo) -> dict[str, tuple[int, int, int | None]]:
    """Return by driver of the pod's volumes: the used, the additional and the maximum number on the node."""
    new: dict[tuple[str, str], str] = {}
    _add_attachable(volumes, pod, new)
    used, more = _attached_drivers(volumes, node, new)
    limits = _limits(volumes.csi_node(node.name))
    return {driver: (used.count(driver), more.count(driver), limits.get(driver)) for driver in sorted(set(more))}


def _lacks_driver(volumes: VolumeCache, new: dict[tuple[str, str], str], csi_node: Json | None) -> Rejection | None:
    installed = {driver["name"] for driver in (csi_node or {"spec": {}})["spec"].get("drivers") or ()}
    for name in new.values():
        driver = volumes.csi_driver(name)
        if driver is not None and driver["spec"].get("preventPodSchedulingIfMissing") and name not in installed:
            return Rejection(LIMITS, (f"{name} CSI driver is not installed on the node",), Code.UNSCHEDULABLE)
    return None


def _frees_attachments(_: PodInfo, event: Event) -> bool:
    return event.old is not None and is_placed(event.old) and any(pod_claims(event.old))


def _limit_raised(_: PodInfo, event: Event) -> bool:
    if event.new is None:
        return False
    before = _limits(event.old)
    return any(count > before.get(name, 0) for name, count in _limits(event.new).items())


# VolumeZone

ZONE: Final = "VolumeZone"
OTHER_ZONE = Rejection(ZONE, ("node(s) had no available volume zone",))
_ZONES: Final = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
}


def zones_of(volume: Json) -> list[tuple[str, frozenset[str]]]:
    """Return the zone and region labels of a volume with their values."""
    labels = volume["metadata"].get("labels") or {}
    zones = []
    for label in _ZONES:
        values = [value.strip() for value in labels[label].split("__")] if label in labels else []
        if values and all(values):
            zones.append((label, frozenset(values)))
    return zones


def volume_zone(volumes: VolumeCache) -> Plugin:
    """Build the plugin."""
    hints: Hints = {
        ClusterEvent.STORAGE_CLASS_ADD: lambda _, event: (event.new or {}).get("volumeBindingMode") == WAITS,
        ClusterEvent.NODE_ADD: None,
        ClusterEvent.NODE_LABEL: None,
        ClusterEvent.VOLUME_CLAIM_ADD: names_claim,
        ClusterEvent.VOLUME_CLAIM_UPDATE: names_claim,
        ClusterEvent.VOLUME_ADD: None,
        ClusterEvent.VOLUME_UPDATE: _moved,
    }
    return Plugin(name=ZONE, reads=READS_VOLUMES, pre_filter=_zones(volumes), filter=_in_other_zone, hints=hints)


def _zones(volumes: VolumeCache) -> Callable[[PodInfo], Any]:
    def pre_filter(pod: PodInfo) -> Any:
        zones: list[tuple[str, frozenset[str]]] = []
        for name, made_for_pod in pod.volume_claims:
            if made_for_pod:
                continue
            for problem in _add_zones(volumes, pod, name, zones):
                return Rejection(ZONE, (problem,))
        return zones or SKIP

    return pre_filter


def _add_zones(volumes: VolumeCache, pod: PodInfo, name: str, zones: list[tuple[str, frozenset[str]]]) -> Iterator[str]:
    """Add the zones of the claim's volume, or yield the reason why they are unknown."""
    claim = volumes.claims.get(f"{pod.namespace}/{name}")
    if claim is None:
        yield not_found(name)
        return
    volume_name = claim["spec"].get("volumeName")
    if volume_name:
        volume = volumes.volumes.get(volume_name)
        if volume is None:
            yield f'persistentvolume "{volume_name}" not found'
        else:
            zones += zones_of(volume)
        return
    class_wanted = class_name(claim)
    storage_class = volumes.storage_class(class_wanted)
    if not class_wanted:
        yield "PersistentVolumeClaim had no pv name and storageClass name"
    elif storage_class is None:
        yield f'storageclass.storage.k8s.io "{class_wanted}" not found'
    elif storage_class.get("volumeBindingMode") is None:
        yield f'VolumeBindingMode not set for StorageClass "{class_wanted}"'
    elif storage_class["volumeBindingMode"] != WAITS:
        yield "PersistentVolume had no name"


def _in_other_zone(_: PodInfo, zones: list[tuple[str, frozenset[str]]], node: NodeInfo) -> Rejection | None:
    labels = node.labels
    if not any(label in labels for label in _ZONES):
        # The nodes of a cluster with one zone may have no labels for it.
        return None
    return None if all(labels.get(key, labels.get(_ZONES[key])) in values for key, values in zones) else OTHER_ZONE


def _moved(_: PodInfo, event: Event) -> bool:
    return event.old is None or event.new is None or zones_of(event.old) != zones_of(event.new)
