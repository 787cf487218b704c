"""VolumeBinding rule by rule: which claims stop a pod, what a node must have for those that wait, what is taken there,
and when the writing of it is done or in vain.
"""

from __future__ import annotations

import asyncio
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
from tests.scheduler.test_volume_plugins import KINDS, known, storage_class, thing, using
from tests.support.objects import make_node, make_pod

ZONE = "zone"
NODE = make_node("n", labels={ZONE: "a"})
WAITS = storage_class("s", "WaitForFirstConsumer")
NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
NO_SPACE = "node(s) did not have enough free storage"
OUT_OF_REACH = "node(s) didn't match PersistentVolume's node affinity"
LOST = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"


def claim(
    name: str = "c", volume: str = "", size: str = "10Gi", *, on: str = "", done: bool = True, **more: Any
) -> Json:
    """A claim, bound to a volume where one is named; `on`: the node that was selected for it."""
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


def room(capacity: str | None = "10Gi", largest: str | None = None, zone: str | None = "a", of: str = "s") -> Json:
    said = {"capacity": capacity, "maximumVolumeSize": largest}
    topology = None if zone is None else {"matchLabels": {ZONE: zone}}
    return thing(
        "CSIStorageCapacity",
        "room",
        "ns",
        storageClassName=of,
        nodeTopology=topology,
        **{k: v for k, v in said.items() if v},
    )


def cache_of(*objects: Json) -> VolumeCache:
    volumes = known(*(obj for obj in objects if obj["kind"] in KINDS))
    for obj in objects:
        if obj["kind"] == "CSIStorageCapacity":
            volumes._informers[STORAGE_CAPACITIES].set_object(key_of(obj), obj)
    return volumes


def info_of(node: Json) -> Any:
    cache = Cache()
    cache.set_node(node)
    return cache.nodes[node["metadata"]["name"]]


def owned(pod: str) -> Json:
    return {"ownerReferences": [{"controller": True, "uid": pod}]}


EPHEMERAL = [{"name": "e", "ephemeral": {"volumeClaimTemplate": {}}}]


@pytest.mark.parametrize(
    ("objects", "volumes", "why"),
    [
        ([], [], 'persistentvolumeclaim "c" not found'),
        ([claim(status={"phase": "Lost"}, volume="v")], [],
         'persistentvolumeclaim "c" bound to non-existent persistentvolume "v"'),
        ([claim(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})], [],
         'persistentvolumeclaim "c" is being deleted'),
        ([claim(volume="v")], EPHEMERAL,
         'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-e"'),
        ([claim(volume="v"), claim("p-e", "w", metadata=owned("someone"))], EPHEMERAL,
         "PVC ns/p-e was not created for pod ns/p (pod is not owner)"),
        ([claim(volume="v"), claim("p-e", "w", metadata=owned("the-pod"))], EPHEMERAL, None),
        ([claim(volume="v", metadata=owned("someone"))], [], None),
        ([claim(volume="v", done=False), WAITS], [], "pod has unbound immediate PersistentVolumeClaims"),
        ([claim(), storage_class("s", "Immediate")], [], "pod has unbound immediate PersistentVolumeClaims"),
        ([claim(), WAITS], [], None),
    ],
)  # fmt: skip
def test_a_claim_that_cannot_be_used_stops_the_pod(objects: list[Json], volumes: list[Json], why: str | None) -> None:
    pod = using("c", uid="the-pod", volumes=volumes)
    found = VolumeBinding(cache_of(*objects), attributes=True).prefilter(pod)
    assert (found.reasons if isinstance(found, Rejection) else None) == (None if why is None else (why,))


ALLOWED = [{"matchLabelExpressions": [{"key": ZONE, "values": ["b", "c"]}]}]
HERE = [{"matchLabelExpressions": [{"key": ZONE, "values": ["b", "a"]}]}]
BROKEN = {"nodeSelectorTerms": [{"matchExpressions": [{"key": ZONE, "operator": "Like", "values": ["a"]}]}]}


@pytest.mark.parametrize(
    ("objects", "why"),
    [
        ([claim(volume="v")], [LOST]),
        ([claim(volume="v"), volume()], []),
        ([claim(volume="v"), volume(zone="a")], []),
        ([claim(volume="v"), volume(zone="b")], [OUT_OF_REACH]),
        ([claim(volume="v"), volume(nodeAffinity={"required": BROKEN})], [OUT_OF_REACH]),
        ([claim(volume="v"), volume(zone="b"), claim("d", on="m")], [OUT_OF_REACH, NO_VOLUME]),
        ([claim(on="n")], []),
        ([claim(on="m")], [NO_VOLUME]),
        ([claim(), claim("d", on="m"), volume()], [NO_VOLUME]),
        ([claim(), volume(zone="a")], []),
        ([claim(), {**WAITS, "provisioner": "kubernetes.io/no-provisioner"}, volume(zone="a")], []),
        ([claim(), {**WAITS, "provisioner": "kubernetes.io/no-provisioner"}, volume(zone="b")], [NO_VOLUME]),
        ([claim(), claim("d"), {**WAITS, "provisioner": ""}, volume()], [NO_VOLUME]),
        ([claim(), claim("d"), {**WAITS, "provisioner": ""}, volume(), volume("w")], []),
        ([claim(), {**WAITS, "allowedTopologies": ALLOWED}], [NO_VOLUME]),
        ([claim(), {**WAITS, "allowedTopologies": HERE}], []),
        ([claim(), {**WAITS, "allowedTopologies": [*ALLOWED, *HERE]}], []),
        ([claim(), {**WAITS, "allowedTopologies": [{"matchLabelExpressions": []}]}], [NO_VOLUME]),
        ([claim(), driver(False)], []),
        ([claim(), driver(True)], [NO_SPACE]),
        ([claim(size="0"), driver(True)], []),
        ([claim(), driver(True), room()], []),
        ([claim(), driver(True), room("9Gi")], [NO_SPACE]),
        ([claim(), driver(True), room("100Gi", "9Gi")], [NO_SPACE]),
        ([claim(), driver(True), room("9Gi", "10Gi")], []),
        ([claim(), driver(True), room(None)], [NO_SPACE]),
        ([claim(), driver(True), room(zone="b")], [NO_SPACE]),
        ([claim(), driver(True), room(zone=None)], [NO_SPACE]),
        ([claim(), driver(True), room(zone="not a label")], [NO_SPACE]),
        ([claim(), driver(True), room(of="other")], [NO_SPACE]),
    ],
)  # fmt: skip
def test_a_node_serves_a_pod_that_it_can_give_all_its_volumes(objects: list[Json], why: list[str]) -> None:
    classes = [] if any(obj["kind"] == "StorageClass" for obj in objects) else [WAITS]
    names = [obj["metadata"]["name"] for obj in objects if obj["kind"] == "PersistentVolumeClaim"]
    pod, node = using(*names), info_of(NODE)
    binding = VolumeBinding(cache_of(*objects, *classes), attributes=True)
    state = binding.prefilter(pod)
    assert isinstance(state, VolumeState)
    refused = binding.rejection(pod, state, node)
    assert list(refused.reasons if refused else ()) == why
    assert ("n" in state.by_node) == (not why)


def test_a_class_that_is_gone_when_a_node_is_looked_at_is_an_error() -> None:
    volumes = cache_of(claim(), WAITS)
    binding = VolumeBinding(volumes, attributes=True)
    state = binding.prefilter(using("c"))
    volumes._informers[KINDS["StorageClass"]].set_object("s", None)
    with pytest.raises(PluginError, match=r'^failed to find storage class "s"$'):
        binding.rejection(using("c"), state, info_of(NODE))  # type: ignore[arg-type]


def test_a_claim_with_attributes_is_an_error_where_those_do_not_count() -> None:
    with_attributes = claim()
    with_attributes["spec"]["volumeAttributesClassName"] = "fast"
    binding = VolumeBinding(cache_of(with_attributes, WAITS, volume()), attributes=False)
    state = binding.prefilter(using("c"))
    with pytest.raises(PluginError, match=r"^unsupported volumeAttributesClassName is set on claim ns/c when"):
        binding.rejection(using("c"), state, info_of(NODE))  # type: ignore[arg-type]


def test_what_is_reserved_counts_as_taken_until_it_is_given_back() -> None:
    volumes = cache_of(claim(), claim("d", size="20Gi"), WAITS, volume())
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
    """The same, written later."""
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": "2"}, "spec": {**obj["spec"], **spec}}


BOUND = volume(zone="a", claimRef={"namespace": "ns", "name": "c", "uid": "PersistentVolumeClaim-c"})
MADE = claim(on="n", metadata={"annotations": {SELECTED_NODE: "n", BIND_COMPLETED: "yes"}})


@pytest.mark.parametrize(
    ("there", "done"),
    [
        ([BOUND, claim(volume="v")], True),
        ([BOUND, claim()], False),
        ([BOUND, claim(volume="v", done=False)], False),
        ([claim(volume="v")], 'failed to check binding: "v" not found'),
        ([BOUND], 'failed to check binding: "ns/c" not found'),
        ([newer(BOUND, claimRef=None), claim(volume="v")], 'ClaimRef got reset for pv "v"'),
        ([newer(BOUND, claimRef={"name": "c"}), claim(volume="v")], 'ClaimRef got reset for pv "v"'),
        ([newer(BOUND, nodeAffinity=volume(zone="b")["spec"]["nodeAffinity"]), claim(volume="v")],
         'pv "v" node affinity doesn\'t match node "n": no matching NodeSelectorTerms'),
    ],
)  # fmt: skip
def test_a_volume_for_a_claim_is_waited_for_until_the_claim_says_so_or_it_cannot(
    there: list[Json], done: bool | str
) -> None:
    assert outcome(there, NodeVolumes(bindings=[(BOUND, claim())])) == done


def test_a_volume_whose_write_is_not_seen_yet_is_waited_for() -> None:
    assert outcome([volume(), claim(volume="v")], NodeVolumes(bindings=[(newer(BOUND), claim())])) is False


@pytest.mark.parametrize(
    ("there", "done"),
    [
        ([newer(MADE, volumeName="v"), volume(zone="a")], True),
        ([newer(MADE, volumeName="v")], False),
        ([newer(MADE, volumeName="v"), volume(zone="b")],
         'pv "v" node affinity doesn\'t match node "n": no matching NodeSelectorTerms'),
        ([MADE], False),
        ([newer(claim(on="n"), volumeName="v"), volume()], False),
        ([newer(claim())], 'provisioning failed for PVC "c"'),
        ([newer(claim(on="m"))], 'provisioning failed for PVC "c"'),
        ([], 'failed to check provisioning pvc: "ns/c" not found'),
    ],
)  # fmt: skip
def test_a_volume_to_be_made_is_waited_for_until_it_is_bound_or_will_not_be(
    there: list[Json], done: bool | str
) -> None:
    assert outcome(there, NodeVolumes(provisions=[claim(on="n")])) == done


def test_a_claim_whose_write_is_not_seen_yet_is_waited_for() -> None:
    assert outcome([claim()], NodeVolumes(provisions=[newer(claim(on="n"))])) is False


def test_all_volumes_have_to_be_there() -> None:
    ready = [
        BOUND,
        claim(volume="v"),
        claim("d", "w", metadata={"annotations": {SELECTED_NODE: "n", BIND_COMPLETED: ""}}),
    ]
    both = NodeVolumes([(BOUND, claim())], [claim("d", on="n")])
    assert outcome([*ready, volume("w")], both) is True
    assert outcome(ready, both) is False
    assert outcome([BOUND, claim(), *ready[2:], volume("w")], both) is False


def test_a_pod_or_a_node_that_is_gone_waits_no_more() -> None:
    assert outcome([], NodeVolumes(), nodes=lambda _: None) == 'failed to get node "n": node "n" not found'
    assert outcome([], NodeVolumes(), pods=lambda _: None) == 'pod does not exist any more: pod "p" not found'
    assert outcome([], NodeVolumes()) is True


def outcome(
    there: list[Json],
    chosen: NodeVolumes,
    pods: Callable[[str], Json | None] = lambda key: make_pod("p") if key == "ns/p" else None,
    nodes: Callable[[str], Json | None] = lambda name: NODE if name == "n" else None,
) -> bool | str:
    """Whether the writer is done with what was chosen, or why it gives up."""
    writer = VolumeWriter(Client(NoTransport()), cache_of(*there), pods, nodes)
    try:
        return writer._is_bound(PodInfo(make_pod("p")), chosen, "n")
    except PluginError as error:
        return str(error).removeprefix("binding volumes: ")


def test_nothing_is_written_for_a_pod_whose_volumes_are_all_there() -> None:
    writer = VolumeWriter(Client(NoTransport()), cache_of(), lambda _: None, lambda _: None)
    asyncio.run(writer.pre_bind(PodInfo(make_pod("p")), VolumeState(), "n"))
