"""Queueing hints by plugin: the events that wake a rejected pod, and those that do not."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.api.objects import Json
from apiserver.api.selectors.selectors import from_object
from controllers.scheduler.framework.events import ClusterEvent, Event, node_events, pod_events
from controllers.scheduler.framework.framework import hints_of
from controllers.scheduler.plugins.spread import pod_topology_spread
from controllers.scheduler.state.pod_info import PodInfo
from tests.scheduler.cluster import Cluster
from tests.support.objects import make_node, make_pod, near, node_affinity, term

HINTS = {plugin.name: hints_of(plugin) for plugin in Cluster().evaluator.plugins}
NO_SCHEDULE = [{"key": "k", "value": "v", "effect": "NoSchedule"}]
PREFER = [{"key": "k", "effect": "PreferNoSchedule"}]
TOLERATES = [{"key": "k", "operator": "Equal", "value": "v"}]
CLOSED = [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]


def port(number: int) -> Json:
    return {"ports": [{"containerPort": 1, "hostPort": number}]}


def spread(key: str = "zone", app: str = "x", action: str = "DoNotSchedule", **more: Any) -> Json:
    constraint = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": action, **more}
    return {"topologySpreadConstraints": [{**constraint, "labelSelector": {"matchLabels": {"app": app}}}]}


def node(**more: Any) -> Json:
    return make_node("n", **more)


def in_zone(zone: str = "", **more: Any) -> Json:
    return make_node("n", labels={"zone": zone} if zone else {}, **more)


def bound(name: str = "other", **more: Any) -> Json:
    return make_pod(name, nodeName="n", **more)


def in_namespaces(affinity: Json) -> Json:
    """Give the terms a namespaceSelector, so that an event does not tell which pods match."""
    for kind in affinity.values():
        for item in kind["requiredDuringSchedulingIgnoredDuringExecution"]:
            item["namespaceSelector"] = {"matchLabels": {"team": "a"}}
    return affinity


def uses(*claims: str, **more: Any) -> Json:
    """Return fields of a pod with volumes of these claims; "" stands for a generated claim."""
    made: Json = {"ephemeral": {"volumeClaimTemplate": {}}}
    volumes = [{"persistentVolumeClaim": {"claimName": name}} if name else made for name in claims]
    return {"volumes": [{"name": f"v{number}", **volume} for number, volume in enumerate(volumes)], **more}


def disk(name: str, **more: Any) -> Json:
    return {"volumes": [{"name": "d", "gcePersistentDisk": {"pdName": name, **more}}]}


def thing(name: str = "", namespace: str = "", labels: Json | None = None, **content: Any) -> Json:
    return {"metadata": {"name": name, "namespace": namespace, "labels": labels or {}}, **content}


def csi_node(**limits: int | None) -> Json:
    rooms = {name: {} if count is None else {"count": count} for name, count in limits.items()}
    return thing("n", spec={"drivers": [{"name": name, "allocatable": room} for name, room in rooms.items()]})


def migrated_node(plugins: str) -> Json:
    found = csi_node()
    found["metadata"]["annotations"] = {"storage.alpha.kubernetes.io/migrated-plugins": plugins}
    return found


def both(*affinities: Json) -> Json:
    """Join the terms of all, so that one pod has to satisfy them."""
    field = "requiredDuringSchedulingIgnoredDuringExecution"
    return {"podAffinity": {field: [term for each in affinities for term in each["podAffinity"][field]]}}


TEAM = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"team": "a"}}}
BOTH = both(near("x"), {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TEAM]}})
ZONE = "topology.kubernetes.io/zone"
SELECTS = node_affinity(term("disk", "In", "ssd"))
#: The plugin, the waiting pod, the event as (kind, old, new), and whether it wakes the pod.
CASES: list[tuple[str, Json, tuple[ClusterEvent, Json | None, Json | None], bool]] = [
    ("NodeUnschedulable", {}, (ClusterEvent.NODE_ADD, None, node()), True),
    ("NodeUnschedulable", {}, (ClusterEvent.NODE_ADD, None, node(unschedulable=True)), False),
    ("NodeUnschedulable", {"tolerations": CLOSED}, (ClusterEvent.NODE_ADD, None, node(unschedulable=True)), True),
    ("NodeUnschedulable", {}, (ClusterEvent.NODE_TAINT, node(unschedulable=True), node()), True),
    ("NodeUnschedulable", {}, (ClusterEvent.NODE_TAINT, node(), node()), False),
    ("NodeUnschedulable", {}, (ClusterEvent.POD_TOLERATION, make_pod("p", uid="p"), make_pod("p", uid="p", tolerations=CLOSED)), True),
    ("NodeUnschedulable", {}, (ClusterEvent.POD_TOLERATION, make_pod("p", uid="p"), make_pod("p", uid="p", tolerations=TOLERATES)), False),
    ("NodeUnschedulable", {}, (ClusterEvent.POD_TOLERATION, make_pod("q", uid="q"), make_pod("q", uid="q", tolerations=CLOSED)), False),
    ("TaintToleration", {}, (ClusterEvent.NODE_ADD, None, node()), True),
    ("TaintToleration", {}, (ClusterEvent.NODE_ADD, None, node(taints=NO_SCHEDULE)), False),
    ("TaintToleration", {}, (ClusterEvent.NODE_ADD, None, node(taints=PREFER)), True),
    ("TaintToleration", {"tolerations": TOLERATES}, (ClusterEvent.NODE_ADD, None, node(taints=NO_SCHEDULE)), True),
    ("TaintToleration", {}, (ClusterEvent.NODE_TAINT, node(taints=NO_SCHEDULE), node()), True),
    ("TaintToleration", {}, (ClusterEvent.NODE_TAINT, node(taints=PREFER), node()), False),
    ("TaintToleration", {}, (ClusterEvent.NODE_TAINT, node(), node(taints=NO_SCHEDULE)), False),
    ("TaintToleration", {}, (ClusterEvent.POD_TOLERATION, make_pod("q", uid="q"), make_pod("q", uid="q", tolerations=TOLERATES)), False),
    ("TaintToleration", {}, (ClusterEvent.POD_TOLERATION, make_pod("p", uid="p"), make_pod("p", uid="p", tolerations=TOLERATES)), True),
    ("NodeAffinity", {"affinity": SELECTS}, (ClusterEvent.NODE_ADD, None, node(labels={"disk": "ssd"})), True),
    ("NodeAffinity", {"affinity": SELECTS}, (ClusterEvent.NODE_ADD, None, node(labels={"disk": "hdd"})), False),
    ("NodeAffinity", {"affinity": SELECTS}, (ClusterEvent.NODE_LABEL, node(), node(labels={"disk": "ssd"})), True),
    ("NodeAffinity", {"affinity": SELECTS}, (ClusterEvent.NODE_LABEL, node(labels={"disk": "ssd"}), node(labels={"disk": "ssd", "a": "b"})), False),
    ("NodeAffinity", {"affinity": SELECTS}, (ClusterEvent.NODE_LABEL, node(labels={"disk": "ssd"}), node()), False),
    ("NodePorts", port(80), (ClusterEvent.POD_DELETE, bound(**port(80)), None), True),
    ("NodePorts", port(80), (ClusterEvent.POD_DELETE, bound(**port(81)), None), False),
    ("NodePorts", port(80), (ClusterEvent.POD_DELETE, make_pod(**port(80)), None), False),
    ("NodePorts", port(80), (ClusterEvent.POD_DELETE, make_pod(status={"nominatedNodeName": "n"}, **port(80)), None), True),
    ("NodeResourcesFit", {"requests": {"cpu": "2"}}, (ClusterEvent.NODE_ADD, None, node(cpu="2")), True),
    ("NodeResourcesFit", {"requests": {"cpu": "2"}}, (ClusterEvent.NODE_ADD, None, node(cpu="1")), False),
    ("NodeResourcesFit", {"requests": {"cpu": "2"}}, (ClusterEvent.NODE_ADD, None, node(pods="0")), False),
    ("NodeResourcesFit", {"requests": {"cpu": "2"}}, (ClusterEvent.NODE_ALLOCATABLE, node(cpu="2"), node(cpu="3")), True),
    ("NodeResourcesFit", {"requests": {"cpu": "2"}}, (ClusterEvent.NODE_ALLOCATABLE, node(cpu="3"), node(cpu="2")), False),
    ("NodeResourcesFit", {"requests": {"cpu": "2"}}, (ClusterEvent.NODE_ALLOCATABLE, node(memory="1Gi"), node(memory="2Gi")), False),
    ("NodeResourcesFit", {"requests": {"cpu": "2"}}, (ClusterEvent.NODE_ALLOCATABLE, node(pods="1"), node(pods="2")), True),
    ("NodeResourcesFit", {"requests": {"cpu": "2"}}, (ClusterEvent.NODE_ALLOCATABLE, node(pods="2"), node(pods="1")), False),
    ("NodeResourcesFit", {}, (ClusterEvent.POD_DELETE, bound(), None), True),
    ("NodeResourcesFit", {}, (ClusterEvent.POD_DELETE, make_pod(), None), False),
    ("NodeResourcesFit", {}, (ClusterEvent.POD_DELETE, make_pod(status={"nominatedNodeName": "n"}), None), True),
    ("NodeResourcesFit", {"requests": {"cpu": "1"}}, (ClusterEvent.POD_SCALE_DOWN, bound(requests={"cpu": "2"}), bound(requests={"cpu": "1"})), True),
    ("NodeResourcesFit", {"requests": {"cpu": "1"}}, (ClusterEvent.POD_SCALE_DOWN, bound(requests={"memory": "2"}), bound(requests={"memory": "1"})), False),
    ("NodeResourcesFit", {"requests": {"cpu": "1"}}, (ClusterEvent.POD_SCALE_DOWN, make_pod(requests={"cpu": "2"}), make_pod(requests={"cpu": "1"})), False),
    ("NodeResourcesFit", {"requests": {"cpu": "1"}}, (ClusterEvent.POD_SCALE_DOWN, make_pod("p", uid="p", requests={"cpu": "2"}), make_pod("p", uid="p", requests={"cpu": "1"})), True),
    ("InterPodAffinity", {"affinity": near("x")}, (ClusterEvent.POD_ADD, None, bound(labels={"app": "x"})), True),
    ("InterPodAffinity", {"affinity": near("x")}, (ClusterEvent.POD_ADD, None, bound(labels={"app": "y"})), False),
    ("InterPodAffinity", {"affinity": near("x", anti=True)}, (ClusterEvent.POD_DELETE, bound(labels={"app": "x"}), None), True),
    ("InterPodAffinity", {"labels": {"app": "w"}}, (ClusterEvent.POD_DELETE, bound(affinity=near("w", anti=True)), None), True),
    ("InterPodAffinity", {"labels": {"app": "w"}}, (ClusterEvent.POD_DELETE, bound(affinity=near("v", anti=True)), None), False),
    ("InterPodAffinity", {"affinity": near("x")}, (ClusterEvent.POD_LABEL, bound(), bound(labels={"app": "x"})), True),
    ("InterPodAffinity", {"affinity": near("x")}, (ClusterEvent.POD_LABEL, bound(labels={"app": "x"}), bound()), False),
    ("InterPodAffinity", {"affinity": near("x")}, (ClusterEvent.POD_LABEL, bound(labels={"app": "x"}), bound(labels={"app": "x", "a": "b"})), False),
    ("InterPodAffinity", {"affinity": near("x")}, (ClusterEvent.POD_LABEL, make_pod("q"), make_pod("q", labels={"app": "x"})), False),
    ("InterPodAffinity", {"affinity": BOTH}, (ClusterEvent.POD_ADD, None, bound(labels={"app": "x"})), False),
    ("InterPodAffinity", {"affinity": BOTH}, (ClusterEvent.POD_ADD, None, bound(labels={"app": "x", "team": "a"})), True),
    ("InterPodAffinity", {"affinity": near("x", anti=True)}, (ClusterEvent.POD_ADD, None, bound(labels={"app": "x"})), False),
    ("InterPodAffinity", {"affinity": near("x", anti=True)}, (ClusterEvent.POD_LABEL, bound(labels={"app": "x"}), bound(labels={"app": "y"})), True),
    ("InterPodAffinity", {"affinity": near("x", anti=True)}, (ClusterEvent.POD_LABEL, bound(labels={"app": "y"}), bound(labels={"app": "x"})), False),
    ("InterPodAffinity", {"affinity": near("x", anti=True)}, (ClusterEvent.POD_LABEL, bound(labels={"app": "x", "a": "b"}), bound(labels={"app": "x"})), False),
    ("InterPodAffinity", {"affinity": near("x", anti=True)}, (ClusterEvent.POD_DELETE, make_pod(labels={"app": "x"}), None), False),
    ("InterPodAffinity", {"affinity": near("x", anti=True)}, (ClusterEvent.POD_DELETE, make_pod(labels={"app": "x"}, status={"nominatedNodeName": "n"}), None), True),
    ("InterPodAffinity", {"affinity": near("x", anti=True)}, (ClusterEvent.POD_LABEL, make_pod("p", uid="p"), make_pod("p", uid="p", labels={"a": "b"})), True),
    ("InterPodAffinity", {"affinity": in_namespaces(near("x"))}, (ClusterEvent.POD_ADD, None, bound(labels={"app": "x"}, namespace="other")), True),
    ("InterPodAffinity", {"affinity": in_namespaces(near("x"))}, (ClusterEvent.POD_ADD, None, bound(labels={"app": "y"}, namespace="other")), False),
    ("InterPodAffinity", {"affinity": near("x")}, (ClusterEvent.POD_ADD, None, bound(labels={"app": "x"}, namespace="other")), False),
    ("InterPodAffinity", {"labels": {"app": "w"}}, (ClusterEvent.POD_DELETE, bound(affinity=in_namespaces(near("w", anti=True))), None), True),
    ("InterPodAffinity", {"affinity": near("x", anti=True)}, (ClusterEvent.NODE_ADD, None, in_zone()), True),
    ("InterPodAffinity", {"affinity": near("x", anti=True)}, (ClusterEvent.NODE_LABEL, in_zone("a"), in_zone()), True),
    ("InterPodAffinity", {"affinity": near("x", anti=True)}, (ClusterEvent.NODE_LABEL, in_zone("a"), in_zone("b")), True),
    ("InterPodAffinity", {"affinity": near("x", anti=True)}, (ClusterEvent.NODE_LABEL, in_zone(), in_zone("a")), False),
    ("InterPodAffinity", {"affinity": near("x")}, (ClusterEvent.NODE_LABEL, in_zone("a"), in_zone()), False),
    ("InterPodAffinity", {"affinity": near("x")}, (ClusterEvent.NODE_LABEL, in_zone(), in_zone("a")), True),
    ("InterPodAffinity", {"affinity": near("x")}, (ClusterEvent.NODE_ADD, None, in_zone("a")), True),
    ("InterPodAffinity", {"affinity": near("x")}, (ClusterEvent.NODE_ADD, None, in_zone()), False),
    ("InterPodAffinity", {"affinity": near("x")}, (ClusterEvent.NODE_LABEL, in_zone("a"), in_zone("b")), True),
    ("InterPodAffinity", {"affinity": near("x")}, (ClusterEvent.NODE_LABEL, in_zone("a"), in_zone("a")), False),
    ("InterPodAffinity", {}, (ClusterEvent.NODE_ADD, None, in_zone()), True),
    ("PodTopologySpread", spread(), (ClusterEvent.POD_ADD, None, bound(labels={"app": "x"})), True),
    ("PodTopologySpread", spread(), (ClusterEvent.POD_ADD, None, bound(labels={"app": "y"})), False),
    ("PodTopologySpread", spread(), (ClusterEvent.POD_ADD, None, bound(labels={"app": "x"}, namespace="elsewhere")), False),
    ("PodTopologySpread", spread(action="ScheduleAnyway"), (ClusterEvent.POD_ADD, None, bound(labels={"app": "x"})), False),
    ("PodTopologySpread", spread(), (ClusterEvent.POD_DELETE, bound(labels={"app": "x"}), None), True),
    ("PodTopologySpread", spread(), (ClusterEvent.POD_LABEL, bound(labels={"app": "x"}), bound()), True),
    ("PodTopologySpread", spread(), (ClusterEvent.POD_LABEL, make_pod("p", uid="p"), make_pod("p", uid="p", labels={"a": "b"})), False),
    ("PodTopologySpread", spread(), (ClusterEvent.POD_LABEL, make_pod("p", uid="p"), make_pod("p", uid="p", labels={"app": "x"})), True),
    ("PodTopologySpread", spread(), (ClusterEvent.POD_LABEL, bound(labels={"app": "x"}), bound(labels={"app": "x", "a": "b"})), False),
    ("PodTopologySpread", spread(), (ClusterEvent.POD_DELETE, make_pod(labels={"app": "x"}), None), False),
    ("PodTopologySpread", spread(), (ClusterEvent.POD_TOLERATION, make_pod("p", uid="p"), make_pod("p", uid="p", tolerations=TOLERATES)), False),
    ("PodTopologySpread", spread(nodeTaintsPolicy="Honor"), (ClusterEvent.POD_TOLERATION, make_pod("p", uid="p"), make_pod("p", uid="p", tolerations=TOLERATES)), True),
    ("PodTopologySpread", spread(nodeTaintsPolicy="Honor"), (ClusterEvent.POD_TOLERATION, make_pod("q", uid="q"), make_pod("q", uid="q", tolerations=TOLERATES)), False),
    ("PodTopologySpread", spread(), (ClusterEvent.NODE_ADD, None, in_zone("a")), True),
    ("PodTopologySpread", spread(), (ClusterEvent.NODE_ADD, None, in_zone()), False),
    ("PodTopologySpread", spread(), (ClusterEvent.NODE_DELETE, in_zone("a"), None), True),
    ("PodTopologySpread", spread(), (ClusterEvent.NODE_LABEL, in_zone("a"), in_zone("b")), True),
    ("PodTopologySpread", spread(), (ClusterEvent.NODE_LABEL, in_zone("a"), in_zone("a")), False),
    ("PodTopologySpread", spread(), (ClusterEvent.NODE_TAINT, in_zone("a", taints=NO_SCHEDULE), in_zone("a")), True),
    ("PodTopologySpread", spread(), (ClusterEvent.NODE_TAINT, in_zone(taints=NO_SCHEDULE), in_zone()), False),
    ("VolumeRestrictions", uses("c"), (ClusterEvent.VOLUME_CLAIM_ADD, None, thing("c", "ns")), True),
    ("VolumeRestrictions", uses("c"), (ClusterEvent.VOLUME_CLAIM_ADD, None, thing("d", "ns")), False),
    ("VolumeRestrictions", uses("c"), (ClusterEvent.VOLUME_CLAIM_ADD, None, thing("c", "elsewhere")), False),
    ("VolumeRestrictions", uses(""), (ClusterEvent.VOLUME_CLAIM_ADD, None, thing("p-v0", "ns")), True),
    ("VolumeRestrictions", uses("c"), (ClusterEvent.POD_DELETE, bound(**uses("d", "c")), None), True),
    ("VolumeRestrictions", uses("c"), (ClusterEvent.POD_DELETE, bound(**uses("d")), None), False),
    ("VolumeRestrictions", uses("c"), (ClusterEvent.POD_DELETE, bound(namespace="elsewhere", **uses("c")), None), False),
    ("VolumeRestrictions", disk("a"), (ClusterEvent.POD_DELETE, bound(**disk("a")), None), True),
    ("VolumeRestrictions", disk("a"), (ClusterEvent.POD_DELETE, bound(**disk("b")), None), False),
    ("VolumeRestrictions", disk("a", readOnly=True), (ClusterEvent.POD_DELETE, bound(**disk("a", readOnly=True)), None), False),
    ("NodeVolumeLimits", uses("c"), (ClusterEvent.CSI_NODE_UPDATE, csi_node(d=1), csi_node(d=2)), True),
    ("NodeVolumeLimits", uses("c"), (ClusterEvent.CSI_NODE_UPDATE, csi_node(d=1), csi_node(d=1)), False),
    ("NodeVolumeLimits", uses("c"), (ClusterEvent.CSI_NODE_UPDATE, csi_node(d=1), csi_node(d=1, e=1)), True),
    ("NodeVolumeLimits", uses("c"), (ClusterEvent.CSI_NODE_UPDATE, csi_node(d=2), csi_node(d=1)), False),
    ("NodeVolumeLimits", uses("c"), (ClusterEvent.POD_DELETE, bound(**uses("d")), None), True),
    ("NodeVolumeLimits", uses("c"), (ClusterEvent.POD_DELETE, bound(), None), False),
    ("NodeVolumeLimits", uses("c"), (ClusterEvent.POD_DELETE, make_pod(**uses("d")), None), False),
    ("NodeVolumeLimits", uses("c"), (ClusterEvent.VOLUME_CLAIM_ADD, None, thing("c", "ns")), True),
    ("NodeVolumeLimits", uses("c"), (ClusterEvent.VOLUME_ATTACHMENT_DELETE, thing(), None), True),
    ("NodeVolumeLimits", uses(""), (ClusterEvent.VOLUME_ATTACHMENT_DELETE, thing(), None), False),
    ("VolumeZone", uses("c"), (ClusterEvent.STORAGE_CLASS_ADD, None, thing(volumeBindingMode="WaitForFirstConsumer")), True),
    ("VolumeZone", uses("c"), (ClusterEvent.STORAGE_CLASS_ADD, None, thing(volumeBindingMode="Immediate")), False),
    ("VolumeZone", uses("c"), (ClusterEvent.VOLUME_CLAIM_UPDATE, thing("c", "ns"), thing("c", "ns")), True),
    ("VolumeZone", uses("c"), (ClusterEvent.VOLUME_CLAIM_UPDATE, thing("d", "ns"), thing("d", "ns")), False),
    ("VolumeZone", uses("c"), (ClusterEvent.VOLUME_UPDATE, thing(), thing(labels={ZONE: "a"})), True),
    ("VolumeZone", uses("c"), (ClusterEvent.VOLUME_UPDATE, thing(labels={ZONE: "a__b"}), thing(labels={ZONE: "b__a"})), False),
    ("VolumeZone", uses("c"), (ClusterEvent.VOLUME_UPDATE, thing(), thing(labels={"other": "a"})), False),
    ("VolumeBinding", uses("c"), (ClusterEvent.STORAGE_CLASS_UPDATE, thing(), thing(allowedTopologies=[{}])), True),
    ("VolumeBinding", uses("c"), (ClusterEvent.STORAGE_CLASS_UPDATE, thing(), thing(labels={"a": "b"})), False),
    ("VolumeBinding", uses("c"), (ClusterEvent.VOLUME_CLAIM_UPDATE, thing("c", "ns"), thing("c", "ns")), True),
    ("VolumeBinding", uses("c"), (ClusterEvent.VOLUME_CLAIM_UPDATE, thing("d", "ns"), thing("d", "ns")), False),
    ("VolumeBinding", uses("c"), (ClusterEvent.CSI_NODE_ADD, None, csi_node(d=1)), True),
    ("VolumeBinding", uses("c"), (ClusterEvent.CSI_NODE_UPDATE, csi_node(d=1), csi_node(d=2)), False),
    ("VolumeBinding", uses("c"), (ClusterEvent.CSI_NODE_UPDATE, csi_node(), migrated_node("a")), True),
    ("VolumeBinding", uses("c"), (ClusterEvent.CSI_DRIVER_UPDATE, thing(spec={"storageCapacity": True}), thing(spec={})), True),
    ("VolumeBinding", uses("c"), (ClusterEvent.CSI_DRIVER_UPDATE, thing(spec={}), thing(spec={"storageCapacity": True})), False),
    ("VolumeBinding", uses("c"), (ClusterEvent.STORAGE_CAPACITY_UPDATE, thing(capacity="1Gi"), thing(capacity="2Gi")), True),
    ("VolumeBinding", uses("c"), (ClusterEvent.STORAGE_CAPACITY_UPDATE, thing(capacity="1Gi"), thing(capacity="1Gi")), False),
    ("VolumeBinding", uses("c"), (ClusterEvent.STORAGE_CAPACITY_UPDATE, thing(), thing(capacity="1Gi")), True),
    ("VolumeBinding", uses("c"), (ClusterEvent.STORAGE_CAPACITY_UPDATE, thing(capacity="1Gi"), thing()), False),
]  # fmt: skip


@pytest.mark.parametrize(("plugin", "pod", "event", "wakes"), CASES)
def test_a_pod_is_woken_by_events_that_may_help_it(
    plugin: str, pod: Json, event: tuple[ClusterEvent, Json | None, Json | None], wakes: bool
) -> None:
    hints = HINTS[plugin]
    assert event[0] in hints
    hint = hints[event[0]]
    assert (hint is None or hint(PodInfo(make_pod("p", uid="p", **pod)), Event(*event))) == wakes


def test_the_default_constraints_of_a_profile_wake_pods() -> None:
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    selector = from_object({"matchLabels": {"app": "x"}})
    plugin = pod_topology_spread(Cluster().cache, lambda _: selector, [constraint])
    hint = hints_of(plugin)[ClusterEvent.POD_DELETE]
    assert hint is not None
    for app, wakes in (("x", True), ("y", False)):
        event = Event(ClusterEvent.POD_DELETE, bound(labels={"app": app}), None)
        assert hint(PodInfo(make_pod("p")), event) is wakes


def with_condition(reason: str) -> Json:
    found = node()
    found["status"]["conditions"] = [{"type": "Ready", "status": "True", "reason": reason}]
    return found


@pytest.mark.parametrize(
    ("old", "new", "events"),
    [
        (node(), node(), []),
        (node(), node(cpu="5"), [ClusterEvent.NODE_ALLOCATABLE]),
        (node(), node(labels={"a": "b"}), [ClusterEvent.NODE_LABEL]),
        (node(), node(taints=PREFER), [ClusterEvent.NODE_TAINT]),
        (node(unschedulable=True), node(), [ClusterEvent.NODE_TAINT]),
        (node(), node(unschedulable=True), []),
        (node(), with_condition("a"), [ClusterEvent.NODE_CONDITION]),
        (with_condition("a"), with_condition("b"), []),
        (node(), {**node(), "metadata": {**node()["metadata"], "annotations": {"a": "b"}}}, [ClusterEvent.NODE_ANNOTATION]),
    ],
)  # fmt: skip
def test_an_update_of_a_node_is_one_event_by_the_changed_field(
    old: Json, new: Json, events: list[ClusterEvent]
) -> None:
    assert node_events(old, new) == events


@pytest.mark.parametrize(
    ("old", "new", "event"),
    [
        ({}, {}, ClusterEvent.POD_OTHER),
        ({}, {"status": {"phase": "Running"}}, ClusterEvent.POD_OTHER),
        ({}, {"labels": {"a": "b"}}, ClusterEvent.POD_LABEL),
        ({}, {"requests": {"cpu": "1"}}, ClusterEvent.POD_SCALE_DOWN),
        ({}, {"requests": {}}, ClusterEvent.POD_SCALE_DOWN),
        ({}, {"requests": {"cpu": "3"}}, ClusterEvent.POD_OTHER),
        ({"schedulingGates": [{"name": "g"}, {"name": "h"}]}, {}, ClusterEvent.POD_GATES_ELIMINATED),
        ({"schedulingGates": [{"name": "g"}, {"name": "h"}]}, {"schedulingGates": [{"name": "g"}]}, ClusterEvent.POD_OTHER),
        ({}, {"tolerations": TOLERATES}, ClusterEvent.POD_TOLERATION),
        ({"tolerations": TOLERATES}, {}, ClusterEvent.POD_OTHER),
        ({}, {"status": {"resourceClaimStatuses": [{"name": "c"}]}}, ClusterEvent.POD_GENERATED_CLAIM),
    ],
)  # fmt: skip
def test_an_update_of_a_pod_is_one_event_by_the_changed_field(old: Json, new: Json, event: ClusterEvent) -> None:
    usual: Json = {"uid": "p", "requests": {"cpu": "2"}}
    assert pod_events(make_pod("p", **{**usual, **old}), make_pod("p", **{**usual, **new})) == [event]
