"""VolumeBinding: claims that reject a pod, nodes that can serve waiting claims, reservations, and writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from apiserver.api.objects import Json
from controllers.runtime.client import Client
from controllers.runtime.kinds import STORAGE_CAPACITIES, key_of
from controllers.runtime.transport import NoTransport
from controllers.scheduler.framework.framework import PluginError
from controllers.scheduler.framework.status import Rejection
from controllers.scheduler.state.nodes import Cache
from controllers.scheduler.state.pod_info import PodInfo
from controllers.scheduler.storage.binding_plugin import NodeVolumes, VolumeBinding, VolumeState
from controllers.scheduler.storage.volume_writes import VolumeWriter
from controllers.scheduler.storage.volumes import VolumeCache
from controllers.volumes import BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE
from tests.scheduler.test_volume_plugins import KINDS, storage_class, thing, using
from tests.scheduler.test_volume_plugins import cache_of as cache_of_kinds
from tests.support.objects import make_node, make_pod

ZONE = "zone"
NODE = make_node("n", labels={ZONE: "a"})
WAITS = storage_class("s", "WaitForFirstConsumer")
NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
NO_SPACE = "node(s) did not have enough free storage"
OUT_OF_REACH = "node(s) didn't match PersistentVolume's node affinity"
LOST = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"


def make_volume_claim(
    name: str = "c", volume: str = "", size: str = "10Gi", *, on: str = "", done: bool = True, **more: Any
) -> Json:
    """Build a claim, bound if a volume is named; `on` is the node that was selected for it."""
    notes = {SELECTED_NODE: on} if on else {BIND_COMPLETED: "yes"} if volume and done else {}
    spec = {"storageClassName": "s", "resources": {"requests": {"storage": size}}, "accessModes": ["ReadWriteOnce"]}
    made = thing("PersistentVolumeClaim", name, "ns", spec={**spec, **({"volumeName": volume} if volume else {})})
    metadata = {**made["metadata"], "annotations": notes, **more.pop("metadata", {})}
    return {**made, "metadata": metadata, **more}


def volume(name: str = "v", size: str = "10Gi", zone: str = "", **spec: Any) -> Json:
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
    where = {"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}} if zone else {}
    made = {"storageClassName": "s", "capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"]}
    return thing("PersistentVolume", name, spec={**made, **where, **spec}, status={"phase": "Available"})


def driver(counts: bool) -> Json:
    return thing("CSIDriver", "s.csi", spec={"storageCapacity": counts})


def make_capacity(
    capacity: str | None = "10Gi", largest: str | None = None, zone: str | None = "a", of: str = "s"
) -> Json:
    sizes = {"capacity": capacity, "maximumVolumeSize": largest}
    topology = None if zone is None else {"matchLabels": {ZONE: zone}}
    made = thing("CSIStorageCapacity", "room", "ns", storageClassName=of, nodeTopology=topology)
    return {**made, **{key: size for key, size in sizes.items() if size}}


def cache_of(*objects: Json) -> VolumeCache:
    volumes = cache_of_kinds(*(obj for obj in objects if obj["kind"] in KINDS))
    for obj in objects:
        if obj["kind"] == "CSIStorageCapacity":
            volumes._informers[STORAGE_CAPACITIES].set_object(key_of(obj), obj)
    return volumes


def info_of(node: Json) -> Any:
    cache = Cache()
    cache.set_node(node)
    return cache.nodes[node["metadata"]["name"]]


def owner(pod: str) -> Json:
    return {"ownerReferences": [{"controller": True, "uid": pod}]}


EPHEMERAL = [{"name": "e", "ephemeral": {"volumeClaimTemplate": {}}}]


@pytest.mark.parametrize(
    ("objects", "volumes", "why"),
    [
        ([], [], 'persistentvolumeclaim "c" not found'),
        ([make_volume_claim(status={"phase": "Lost"}, volume="v")], [],
         'persistentvolumeclaim "c" bound to non-existent persistentvolume "v"'),
        ([make_volume_claim(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})], [],
         'persistentvolumeclaim "c" is being deleted'),
        ([make_volume_claim(volume="v")], EPHEMERAL,
         'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-e"'),
        ([make_volume_claim(volume="v"), make_volume_claim("p-e", "w", metadata=owner("someone"))], EPHEMERAL,
         "PVC ns/p-e was not created for pod ns/p (pod is not owner)"),
        ([make_volume_claim(volume="v"), make_volume_claim("p-e", "w", metadata=owner("the-pod"))], EPHEMERAL, None),
        ([make_volume_claim(volume="v", metadata=owner("someone"))], [], None),
        ([make_volume_claim(volume="v", done=False), WAITS], [], "pod has unbound immediate PersistentVolumeClaims"),
        ([make_volume_claim(), storage_class("s", "Immediate")], [], "pod has unbound immediate PersistentVolumeClaims"),
        ([make_volume_claim(), WAITS], [], None),
    ],
)  # fmt: skip
def test_an_unusable_claim_rejects_the_pod(objects: list[Json], volumes: list[Json], why: str | None) -> None:
    pod = using("c", uid="the-pod", volumes=volumes)
    found = VolumeBinding(cache_of(*objects), attributes=True).prefilter(pod)
    assert (found.reasons if isinstance(found, Rejection) else None) == (None if why is None else (why,))


ALLOWED = [{"matchLabelExpressions": [{"key": ZONE, "values": ["b", "c"]}]}]
HERE = [{"matchLabelExpressions": [{"key": ZONE, "values": ["b", "a"]}]}]
BROKEN = {"nodeSelectorTerms": [{"matchExpressions": [{"key": ZONE, "operator": "Like", "values": ["a"]}]}]}


@pytest.mark.parametrize(
    ("objects", "why"),
    [
        ([make_volume_claim(volume="v")], [LOST]),
        ([make_volume_claim(volume="v"), volume()], []),
        ([make_volume_claim(volume="v"), volume(zone="a")], []),
        ([make_volume_claim(volume="v"), volume(zone="b")], [OUT_OF_REACH]),
        ([make_volume_claim(volume="v"), volume(nodeAffinity={"required": BROKEN})], [OUT_OF_REACH]),
        ([make_volume_claim(volume="v"), volume(zone="b"), make_volume_claim("d", on="m")], [OUT_OF_REACH, NO_VOLUME]),
        ([make_volume_claim(on="n")], []),
        ([make_volume_claim(on="m")], [NO_VOLUME]),
        ([make_volume_claim(), make_volume_claim("d", on="m"), volume()], [NO_VOLUME]),
        ([make_volume_claim(), volume(zone="a")], []),
        ([make_volume_claim(), {**WAITS, "provisioner": "kubernetes.io/no-provisioner"}, volume(zone="a")], []),
        ([make_volume_claim(), {**WAITS, "provisioner": "kubernetes.io/no-provisioner"}, volume(zone="b")], [NO_VOLUME]),
        ([make_volume_claim(), make_volume_claim("d"), {**WAITS, "provisioner": ""}, volume()], [NO_VOLUME]),
        ([make_volume_claim(), make_volume_claim("d"), {**WAITS, "provisioner": ""}, volume(), volume("w")], []),
        ([make_volume_claim(), {**WAITS, "allowedTopologies": ALLOWED}], [NO_VOLUME]),
        ([make_volume_claim(), {**WAITS, "allowedTopologies": HERE}], []),
        ([make_volume_claim(), {**WAITS, "allowedTopologies": [*ALLOWED, *HERE]}], []),
        ([make_volume_claim(), {**WAITS, "allowedTopologies": [{"matchLabelExpressions": []}]}], [NO_VOLUME]),
        ([make_volume_claim(), driver(False)], []),
        ([make_volume_claim(), driver(True)], [NO_SPACE]),
        ([make_volume_claim(size="0"), driver(True)], []),
        ([make_volume_claim(), driver(True), make_capacity()], []),
        ([make_volume_claim(), driver(True), make_capacity("9Gi")], [NO_SPACE]),
        ([make_volume_claim(), driver(True), make_capacity("100Gi", "9Gi")], [NO_SPACE]),
        ([make_volume_claim(), driver(True), make_capacity("9Gi", "10Gi")], []),
        ([make_volume_claim(), driver(True), make_capacity(None)], [NO_SPACE]),
        ([make_volume_claim(), driver(True), make_capacity(zone="b")], [NO_SPACE]),
        ([make_volume_claim(), driver(True), make_capacity(zone=None)], [NO_SPACE]),
        ([make_volume_claim(), driver(True), make_capacity(zone="not a label")], [NO_SPACE]),
        ([make_volume_claim(), driver(True), make_capacity(of="other")], [NO_SPACE]),
    ],
)  # fmt: skip
def test_a_node_must_serve_all_volumes_of_a_pod(objects: list[Json], why: list[str]) -> None:
    classes = [] if any(obj["kind"] == "StorageClass" for obj in objects) else [WAITS]
    names = [obj["metadata"]["name"] for obj in objects if obj["kind"] == "PersistentVolumeClaim"]
    pod, node = using(*names), info_of(NODE)
    binding = VolumeBinding(cache_of(*objects, *classes), attributes=True)
    state = binding.prefilter(pod)
    assert isinstance(state, VolumeState)
    refused = binding.rejection(pod, state, node)
    assert list(refused.reasons if refused else ()) == why
    assert ("n" in state.by_node) == (not why)


def test_a_class_that_was_deleted_before_the_filter_is_an_error() -> None:
    volumes = cache_of(make_volume_claim(), WAITS)
    binding = VolumeBinding(volumes, attributes=True)
    state = binding.prefilter(using("c"))
    volumes._informers[KINDS["StorageClass"]].set_object("s", None)
    with pytest.raises(PluginError, match=r'^failed to find storage class "s"$'):
        binding.rejection(using("c"), state, info_of(NODE))  # type: ignore[arg-type]


def test_a_claim_with_attributes_is_an_error_where_they_are_not_supported() -> None:
    with_attributes = make_volume_claim()
    with_attributes["spec"]["volumeAttributesClassName"] = "fast"
    binding = VolumeBinding(cache_of(with_attributes, WAITS, volume()), attributes=False)
    state = binding.prefilter(using("c"))
    with pytest.raises(PluginError, match=r"^unsupported volumeAttributesClassName is set on claim ns/c when"):
        binding.rejection(using("c"), state, info_of(NODE))  # type: ignore[arg-type]


def test_reserved_volumes_are_assumed_until_they_are_released() -> None:
    volumes = cache_of(make_volume_claim(), make_volume_claim("d", size="20Gi"), WAITS, volume())
    binding = VolumeBinding(volumes, attributes=True)
    pod, node = using("c", "d"), info_of(NODE)
    state = binding.prefilter(pod)
    assert isinstance(state, VolumeState)
    assert binding.rejection(pod, state, node) is None
    binding.reserve(pod, state, node)
    assert state.chosen is not None
    [(wanted, served)], [to_make] = state.chosen.bindings, state.chosen.provisions
    assert served["metadata"]["name"] == "c"
    assert wanted["spec"]["claimRef"]["uid"] == "PersistentVolumeClaim-c"
    assert wanted["metadata"]["annotations"] == {BOUND_BY_CONTROLLER: "yes"}
    assert to_make["metadata"]["annotations"] == {SELECTED_NODE: "n"}
    assert volumes.volumes.get("v") is wanted
    assert volumes.claims.get("ns/d") is to_make
    binding.unreserve(state)
    assert "claimRef" not in volumes.volumes.get("v")["spec"]  # type: ignore[index]
    assert volumes.claims.get("ns/d")["metadata"]["annotations"] == {}  # type: ignore[index]
    nothing = VolumeState()
    binding.reserve(pod, nothing, node)
    assert nothing.chosen is None


def newer(obj: Json, **spec: Any) -> Json:
    """Return a later version of an object."""
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": "2"}, "spec": {**obj["spec"], **spec}}


BOUND = volume(zone="a", claimRef={"namespace": "ns", "name": "c", "uid": "PersistentVolumeClaim-c"})
MADE = make_volume_claim(on="n", metadata={"annotations": {SELECTED_NODE: "n", BIND_COMPLETED: "yes"}})


@pytest.mark.parametrize(
    ("there", "done"),
    [
        ([BOUND, make_volume_claim(volume="v")], True),
        ([BOUND, make_volume_claim()], False),
        ([BOUND, make_volume_claim(volume="v", done=False)], False),
        ([make_volume_claim(volume="v")], 'failed to check binding: "v" not found'),
        ([BOUND], 'failed to check binding: "ns/c" not found'),
        ([newer(BOUND, claimRef=None), make_volume_claim(volume="v")], 'ClaimRef got reset for pv "v"'),
        ([newer(BOUND, claimRef={"name": "c"}), make_volume_claim(volume="v")], 'ClaimRef got reset for pv "v"'),
        ([newer(BOUND, nodeAffinity=volume(zone="b")["spec"]["nodeAffinity"]), make_volume_claim(volume="v")],
         'pv "v" node affinity doesn\'t match node "n": no matching NodeSelectorTerms'),
    ],
)  # fmt: skip
def test_a_volume_is_awaited_until_its_claim_is_bound_or_cannot_be(there: list[Json], done: bool | str) -> None:
    assert outcome(there, NodeVolumes(bindings=[(BOUND, make_volume_claim())])) == done


def test_a_volume_is_awaited_until_the_watch_delivers_its_write() -> None:
    assert (
        outcome([volume(), make_volume_claim(volume="v")], NodeVolumes(bindings=[(newer(BOUND), make_volume_claim())]))
        is False
    )


@pytest.mark.parametrize(
    ("there", "done"),
    [
        ([newer(MADE, volumeName="v"), volume(zone="a")], True),
        ([newer(MADE, volumeName="v")], False),
        ([newer(MADE, volumeName="v"), volume(zone="b")],
         'pv "v" node affinity doesn\'t match node "n": no matching NodeSelectorTerms'),
        ([MADE], False),
        ([newer(make_volume_claim(on="n"), volumeName="v"), volume()], False),
        ([newer(make_volume_claim())], 'provisioning failed for PVC "c"'),
        ([newer(make_volume_claim(on="m"))], 'provisioning failed for PVC "c"'),
        ([], 'failed to check provisioning pvc: "ns/c" not found'),
    ],
)  # fmt: skip
def test_a_provisioned_volume_is_awaited_until_it_is_bound_or_cannot_be(there: list[Json], done: bool | str) -> None:
    assert outcome(there, NodeVolumes(provisions=[make_volume_claim(on="n")])) == done


def test_a_claim_is_awaited_until_the_watch_delivers_its_write() -> None:
    assert outcome([make_volume_claim()], NodeVolumes(provisions=[newer(make_volume_claim(on="n"))])) is False


def test_all_volumes_have_to_be_bound() -> None:
    provisioned = make_volume_claim("d", "w", metadata={"annotations": {SELECTED_NODE: "n", BIND_COMPLETED: ""}})
    ready = [BOUND, make_volume_claim(volume="v"), provisioned]
    both = NodeVolumes([(BOUND, make_volume_claim())], [make_volume_claim("d", on="n")])
    assert outcome([*ready, volume("w")], both) is True
    assert outcome(ready, both) is False
    assert outcome([BOUND, make_volume_claim(), *ready[2:], volume("w")], both) is False


def test_the_wait_ends_when_the_pod_or_the_node_is_deleted() -> None:
    assert outcome([], NodeVolumes(), nodes=lambda _: None) == 'failed to get node "n": node "n" not found'
    assert outcome([], NodeVolumes(), pods=lambda _: None) == 'pod does not exist any more: pod "p" not found'
    assert outcome([], NodeVolumes()) is True


def outcome(
    there: list[Json],
    chosen: NodeVolumes,
    pods: Callable[[str], Json | None] = lambda key: make_pod("p") if key == "ns/p" else None,
    nodes: Callable[[str], Json | None] = lambda name: NODE if name == "n" else None,
) -> bool | str:
    """Return whether the writer is done with the chosen volumes, or its error."""
    writer = VolumeWriter(Client(NoTransport()), cache_of(*there), pods, nodes)
    try:
        return writer._is_bound(PodInfo(make_pod("p")), chosen, "n")
    except PluginError as error:
        return str(error).removeprefix("binding volumes: ")


async def test_nothing_is_written_for_a_pod_whose_volumes_are_all_bound() -> None:
    writer = VolumeWriter(Client(NoTransport()), cache_of(), lambda _: None, lambda _: None)
    await writer.pre_bind(PodInfo(make_pod("p")), VolumeState(), "n")
