"""Volume plugins: zones, limits of nodes, exclusive disks and ReadWriteOncePod claims."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from apiserver.api.objects import Json
from controllers.runtime.client import Client
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import (
    CSI_DRIVERS,
    CSI_NODES,
    STORAGE_CLASSES,
    VOLUME_ATTACHMENTS,
    VOLUME_CLAIMS,
    VOLUMES,
    Kind,
    key_of,
)
from controllers.runtime.transport import NoTransport
from controllers.scheduler.framework.framework import SKIP, Plugin, PluginError
from controllers.scheduler.framework.status import Rejection
from controllers.scheduler.state.nodes import Cache
from controllers.scheduler.state.pod_info import PodInfo
from controllers.scheduler.storage.binding_plugin import VolumeBinding, VolumeState
from controllers.scheduler.storage.limit_plugins import node_volume_limits, volume_restrictions, volume_zone
from controllers.scheduler.storage.volumes import VolumeCache
from tests.support.objects import make_metadata, make_node, make_pod

ZONE, OLD_ZONE = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
KINDS = {
    kind.kind: kind for kind in (CSI_DRIVERS, CSI_NODES, STORAGE_CLASSES, VOLUME_ATTACHMENTS, VOLUME_CLAIMS, VOLUMES)
}


def thing(kind: str, name: str, namespace: str = "", labels: Json | None = None, **content: Any) -> Json:
    metadata = make_metadata(name, namespace, f"{kind}-{name}", labels=labels)
    return {"kind": kind, "metadata": {**metadata, "resourceVersion": "1"}, **content}


def make_volume_claim(name: str, volume: str = "", storage: str = "", *modes: str) -> Json:
    spec = {"volumeName": volume, "storageClassName": storage, "accessModes": list(modes)}
    return thing("PersistentVolumeClaim", name, "ns", spec=spec)


def volume(name: str, driver: str = "", **labels: str) -> Json:
    source = {"csi": {"driver": driver, "volumeHandle": name}} if driver else {}
    found = {OLD_ZONE if key == "old" else ZONE: value for key, value in labels.items()}
    return thing("PersistentVolume", name, labels=found, spec=source)


def storage_class(name: str, mode: str | None) -> Json:
    made = thing("StorageClass", name, provisioner=f"{name}.csi")
    return {**made, "volumeBindingMode": mode} if mode else made


def csi_node(name: str, **limits: int) -> Json:
    drivers = [{"name": driver, "allocatable": {"count": count}} for driver, count in limits.items()]
    return thing("CSINode", name, spec={"drivers": drivers})


def using(*claims: str, name: str = "p", namespace: str = "ns", **spec: Any) -> PodInfo:
    volumes = [{"name": f"v{n}", "persistentVolumeClaim": {"claimName": each}} for n, each in enumerate(claims)]
    return PodInfo(make_pod(name, namespace=namespace, volumes=[*volumes, *spec.pop("volumes", ())], **spec))


def cache_of(*objects: Json) -> VolumeCache:
    volumes = VolumeCache.empty()
    for obj in objects:
        volumes._informers[KINDS[obj["kind"]]].set_object(key_of(obj), obj)
    return volumes


def reasons(make: Callable[[Cache], Plugin], pod: PodInfo, node: Json, *others: PodInfo) -> tuple[str, ...] | None:
    """Return the reasons why the node rejects the pod; None if it does not."""
    cache = Cache()
    cache.set_node(node)
    for other in others:
        cache.set_pod(other, node["metadata"]["name"])
    plugin = make(cache)
    assert plugin.pre_filter is not None
    assert plugin.filter is not None
    state = plugin.pre_filter(pod)
    if state is SKIP:
        return None
    node_info = cache.nodes[node["metadata"]["name"]]
    rejection = state if isinstance(state, Rejection) else plugin.filter(pod, state, node_info)
    return None if rejection is None else rejection.reasons


@pytest.mark.parametrize(
    ("objects", "why"),
    [
        ([], 'persistentvolumeclaim "c" not found'),
        ([make_volume_claim("c", "v")], 'persistentvolume "v" not found'),
        ([make_volume_claim("c")], "PersistentVolumeClaim had no pv name and storageClass name"),
        ([make_volume_claim("c", "", "s")], 'storageclass.storage.k8s.io "s" not found'),
        ([make_volume_claim("c", "", "s"), storage_class("s", None)], 'VolumeBindingMode not set for StorageClass "s"'),
        ([make_volume_claim("c", "", "s"), storage_class("s", "Immediate")], "PersistentVolume had no name"),
        ([make_volume_claim("c", "", "s"), storage_class("s", "WaitForFirstConsumer")], None),
        ([make_volume_claim("c", "v"), volume("v")], None),
    ],
)
def test_a_claim_with_an_unknown_zone_rejects_the_pod(objects: list[Json], why: str | None) -> None:
    found = reasons(lambda _: volume_zone(cache_of(*objects)), using("c"), make_node("n", labels={ZONE: "a"}))
    assert found == (None if why is None else (why,))


@pytest.mark.parametrize(
    ("of_volume", "of_node", "refused"),
    [
        ({"zone": "a"}, {ZONE: "a"}, False),
        ({"zone": "a"}, {ZONE: "b"}, True),
        ({"zone": "a__b"}, {ZONE: "b"}, False),
        ({"zone": "a__ b"}, {ZONE: "b"}, False),
        ({"zone": "a__"}, {ZONE: "c"}, False),
        ({"old": "a"}, {ZONE: "a"}, False),
        ({"old": "a"}, {ZONE: "b"}, True),
        ({"old": "a"}, {OLD_ZONE: "a"}, False),
        ({"zone": "a"}, {OLD_ZONE: "a"}, True),
        ({"zone": "a", "old": "b"}, {ZONE: "a"}, True),
        ({"zone": "a"}, {"topology.kubernetes.io/region": "r"}, True),
        ({"zone": "a"}, {}, False),
    ],
)
def test_a_pod_goes_to_the_zones_of_its_volumes(of_volume: Json, of_node: Json, refused: bool) -> None:
    volumes = cache_of(make_volume_claim("c", "v"), volume("v", **of_volume))
    found = reasons(lambda _: volume_zone(volumes), using("c"), make_node("n", labels=of_node))
    assert found == (("node(s) had no available volume zone",) if refused else None)


def attachment(name: str, node: str, attached: str) -> Json:
    spec = {"nodeName": node, "attacher": "d", "source": {"persistentVolumeName": attached}}
    return thing("VolumeAttachment", name, spec=spec)


FULL = ("node(s) exceed max volume count",)
THREE = [item for n in "abc" for item in (make_volume_claim(n, f"v{n}"), volume(f"v{n}", "d"))]


@pytest.mark.parametrize(
    ("more", "pod", "others", "why"),
    [
        ([csi_node("n", d=2)], using("a", "b"), [], None),
        ([csi_node("n", d=2)], using("a", "b", "c"), [], FULL),
        ([csi_node("n", d=2)], using("a", "b"), [using("c", name="q")], FULL),
        ([csi_node("n", d=2)], using("a", "b"), [using("a", name="q")], None),
        ([csi_node("n", d=2)], using("a", "b"), [using("c", name="q", namespace="elsewhere")], None),
        ([csi_node("n", d=2)], using("a"), [using("b", "c", name="q")], FULL),
        ([csi_node("n", d=2)], using("a"), [using("a", "b", "c", name="q")], None),
        ([csi_node("n", d=2), attachment("x", "n", "vc")], using("a", "b"), [], FULL),
        ([csi_node("n", d=2), attachment("x", "m", "vc")], using("a", "b"), [], None),
        ([csi_node("n", d=2), attachment("x", "n", "gone")], using("a", "b"), [], None),
        ([csi_node("n", e=0)], using("a", "b", "c"), [], None),
        ([], using("a", "b", "c"), [], None),
        ([csi_node("n", d=2)], using("x"), [], ('looking up PVC ns/x: persistentvolumeclaim "x" not found',)),
        ([csi_node("n", **{"s.csi": 1}), storage_class("s", "Immediate"), make_volume_claim("e", "", "s"), make_volume_claim("f", "", "s")],
         using("e", "f"), [], FULL),
        ([csi_node("n", **{"s.csi": 1}), storage_class("s", "Immediate"), make_volume_claim("e", "", "s")], using("e"), [], None),
        ([csi_node("n", d=0), make_volume_claim("e", "", "unknown")], using("e"), [], None),
        ([csi_node("n", d=0), make_volume_claim("e", "plain"), volume("plain")], using("e"), [], None),
    ],
)  # fmt: skip
def test_a_node_attaches_as_many_volumes_of_a_driver_as_it_allows(
    more: list[Json], pod: PodInfo, others: list[PodInfo], why: tuple[str, ...] | None
) -> None:
    volumes = cache_of(*THREE, *more)
    assert reasons(lambda _: node_volume_limits(volumes, needs_driver=False), pod, make_node("n"), *others) == why


@pytest.mark.parametrize(
    ("strict", "needs_driver", "installed", "refused"),
    [(True, True, False, True), (True, True, True, False), (False, True, False, False), (True, False, False, False)],
)
def test_a_driver_can_keep_pods_off_nodes_without_it(
    strict: bool, needs_driver: bool, installed: bool, refused: bool
) -> None:
    driver = thing("CSIDriver", "d", spec={"preventPodSchedulingIfMissing": strict})
    volumes = cache_of(*THREE, driver, csi_node("n", **{"d" if installed else "e": 5}))
    found = reasons(lambda _: node_volume_limits(volumes, needs_driver=needs_driver), using("a"), make_node("n"))
    assert found == (("d CSI driver is not installed on the node",) if refused else None)


def disk(kind: str, **fields: Any) -> PodInfo:
    return using(name=f"disk-{len(fields)}", volumes=[{"name": "d", kind: fields}])


RBD = {"monitors": ["a", "b"], "pool": "p", "image": "i"}


@pytest.mark.parametrize(
    ("mine", "theirs", "taken"),
    [
        (disk("gcePersistentDisk", pdName="x"), disk("gcePersistentDisk", pdName="x"), True),
        (disk("gcePersistentDisk", pdName="x"), disk("gcePersistentDisk", pdName="y"), False),
        (disk("gcePersistentDisk", pdName="x", readOnly=True), disk("gcePersistentDisk", pdName="x"), True),
        (disk("gcePersistentDisk", pdName="x", readOnly=True), disk("gcePersistentDisk", pdName="x", readOnly=True), False),
        (disk("awsElasticBlockStore", volumeID="x", readOnly=True), disk("awsElasticBlockStore", volumeID="x", readOnly=True), True),
        (disk("iscsi", iqn="x"), disk("iscsi", iqn="x"), True),
        (disk("iscsi", iqn="x"), disk("gcePersistentDisk", pdName="x"), False),
        (disk("rbd", **RBD), disk("rbd", **{**RBD, "monitors": ["b", "c"]}), True),
        (disk("rbd", **RBD), disk("rbd", **{**RBD, "monitors": ["c"]}), False),
        (disk("rbd", **RBD), disk("rbd", **{**RBD, "image": "j"}), False),
        (disk("rbd", **RBD), disk("rbd", **{**RBD, "pool": "q"}), False),
    ],
)  # fmt: skip
def test_a_disk_serves_one_pod_per_node_unless_all_are_read_only(mine: PodInfo, theirs: PodInfo, taken: bool) -> None:
    found = reasons(lambda cache: volume_restrictions(cache, cache_of()), mine, make_node("n"), theirs)
    assert found == (("node(s) had no available disk",) if taken else None)


def test_a_read_write_once_pod_claim_serves_one_pod_of_the_cluster() -> None:
    volumes = cache_of(
        make_volume_claim("one", "v", "", "ReadWriteOncePod"), make_volume_claim("many", "v", "", "ReadWriteOnce")
    )

    def is_refused(pod: PodInfo, *others: PodInfo) -> bool:
        found = reasons(lambda cache: volume_restrictions(cache, volumes), pod, make_node("n"), *others)
        assert found is None or "ReadWriteOncePod access mode already in-use by another pod" in found[0]
        return found is not None

    assert is_refused(using("one"), using("one", name="q"))
    assert is_refused(using("many", "one"), using("one", name="q"))
    assert not is_refused(using("one"))
    assert not is_refused(using("many"), using("many", name="q"))
    assert not is_refused(using("one"), using("one", name="q", namespace="elsewhere"))
    missing = reasons(lambda cache: volume_restrictions(cache, volumes), using("gone"), make_node("n"))
    assert missing == ('persistentvolumeclaim "gone" not found',)


def test_a_class_without_a_binding_mode_is_an_error() -> None:
    volumes = cache_of(make_volume_claim("c", "", "s"), storage_class("s", None))
    with pytest.raises(PluginError, match=r'^VolumeBindingMode not set for StorageClass "s"$'):
        VolumeBinding(volumes, attributes=True).prefilter(using("c"))


def test_waiting_claims_are_sorted_by_size_and_immediate_ones_reject_the_pod() -> None:
    sized = [
        {
            **make_volume_claim(name, "", "s"),
            "spec": {"storageClassName": "s", "resources": {"requests": {"storage": size}}},
        }
        for name, size in (("large", "10Gi"), ("small", "1Gi"), ("middle", "5Gi"))
    ]
    binding = VolumeBinding(cache_of(*sized, storage_class("s", "WaitForFirstConsumer")), attributes=True)
    state = binding.prefilter(using("large", "small", "middle"))
    assert isinstance(state, VolumeState)
    assert [item["metadata"]["name"] for item in state.waiting] == ["small", "middle", "large"]
    assert binding.prefilter(using()) is SKIP


def test_verdicts_about_volumes_are_not_cached() -> None:
    volumes = cache_of()
    for plugin in (
        volume_zone(volumes),
        node_volume_limits(volumes, needs_driver=False),
        volume_restrictions(Cache(), volumes),
    ):
        assert plugin.reads.elsewhere


@pytest.mark.parametrize(
    ("kind", "added", "changed", "deleted"),
    [
        (VOLUME_CLAIMS, "VOLUME_CLAIM_ADD", "VOLUME_CLAIM_UPDATE", ""),
        (VOLUMES, "VOLUME_ADD", "VOLUME_UPDATE", ""),
        (STORAGE_CLASSES, "STORAGE_CLASS_ADD", "STORAGE_CLASS_UPDATE", ""),
        (CSI_NODES, "CSI_NODE_ADD", "CSI_NODE_UPDATE", ""),
        (CSI_DRIVERS, "", "CSI_DRIVER_UPDATE", ""),
        (VOLUME_ATTACHMENTS, "", "", "VOLUME_ATTACHMENT_DELETE"),
    ],
    ids=lambda item: getattr(item, "kind", None),
)
def test_changes_of_volumes_are_events_for_waiting_pods(kind: Kind, added: str, changed: str, deleted: str) -> None:
    informers = Informers(Client(NoTransport()))
    events: list[tuple[str, Json | None, Json | None]] = []
    VolumeCache(informers).follow(lambda event: events.append((event.kind.name, event.old, event.new)))
    spec = {"nodeName": "n"}
    before, after = (thing(kind.kind, "x", spec=spec, status={"number": number}) for number in (1, 2))
    for obj in (before, after, None):
        informers.of(kind).set_object("x", obj)
    expected = [(added, None, before), (changed, before, after), (deleted, after, None)]
    assert events == [event for event in expected if event[0]]
