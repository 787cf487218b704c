"""Reasons of waiting pods are reported with names and amounts, and with tried remedies."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.api.objects import Json
from controllers.explain.__main__ import table
from controllers.explain.pods import REQUEUE_EVENTS
from controllers.scheduler.framework.events import ClusterEvent
from tests.controllers.test_explain import changes, claim, gpus, of_pod, pod, slice_, world
from tests.controllers.test_explain import node as make_node
from tests.support.objects import make_device_class, make_metadata

pytestmark = pytest.mark.integration

ZONE = "topology.kubernetes.io/zone"


def node(name: str, zone: str = "", **spec: Any) -> Json:
    return make_node(name, labels={ZONE: zone} if zone else {}, **spec)


def labelled(made: Json, **labels: str) -> Json:
    return {**made, "metadata": {**made["metadata"], "labels": labels}}


def with_port(made: Json, port: int = 80) -> Json:
    made["spec"]["containers"][0]["ports"] = [{"containerPort": port, "hostPort": port, "protocol": "TCP"}]
    return made


def bare(name: str = "p", **spec: Any) -> Json:
    return pod(name, claims=(), **spec)


def affinity(anti: bool, key: str = "kubernetes.io/hostname", **labels: str) -> Json:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": labels}}
    kind = "podAntiAffinity" if anti else "podAffinity"
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def in_zone(*values: str) -> Json:
    expression = {"key": ZONE, "operator": "In", "values": list(values)}
    return {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}


def spread(skew: int = 1, key: str = ZONE) -> list[Json]:
    selector = {"matchLabels": {"app": "a"}}
    return [{"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}]


WANTS_ZONE = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": in_zone("b", "c")}}


@pytest.mark.parametrize(
    ("nodes", "pods", "detail", "way_out"),
    [
        ([node("n")], [bare(cpu="9")], "cpu: 9 requested, the node has only 4", "request at most 4 cpu"),
        ([node("n")], [bare(cpu="3"), bare("r", cpu="2500m", nodeName="n")],
         "cpu: 3 requested, 1.5 of 4 left, used by ns/r (2.5)", "delete pod ns/r on node n"),
        ([node("n")], [with_port(bare()), with_port(bare("r", nodeName="n"))],
         "host port 80/TCP is used by pod ns/r", "add one more node like n"),
        ([node("n", taints=[{"key": "a", "effect": "NoSchedule"}, {"key": "b", "value": "c", "effect": "NoExecute"}])],
         [bare()], "untolerated taints: a:NoSchedule, b=c:NoExecute",
         "tolerate node taints a:NoSchedule and b=c:NoExecute in the pod"),
        ([node("n", "a")], [bare(affinity=WANTS_ZONE)],
         f"a node affinity term requires {ZONE} In [b, c], the node has {ZONE}=a", f"label node n {ZONE}=b"),
        ([node("n", "a"), node("m", "b", unschedulable=True)],
         [labelled(bare(topologySpreadConstraints=spread()), app="a"), labelled(bare("r", nodeName="n"), app="a")],
         f"{ZONE}=a would have 1 matching pod and this one, the emptiest {ZONE} has 0: exceeds maxSkew 1",
         "uncordon node m"),
        ([node("n")], [bare(topologySpreadConstraints=spread())], f"the node has no label {ZONE}",
         f"set whenUnsatisfiable: ScheduleAnyway for the spread over {ZONE}"),
        ([node("n")], [bare(affinity=affinity(False, app="a"))],
         "no pods with app=a run in kubernetes.io/hostname=n", "run a pod with app=a in namespace ns on node n"),
        ([node("n")], [bare(affinity=affinity(True, app="a")), labelled(bare("r", nodeName="n"), app="a")],
         "anti-affinity of the pod against pod ns/r", "delete pod ns/r"),
        ([node("n")], [labelled(bare(), app="a"), bare("r", nodeName="n", affinity=affinity(True, app="a"))],
         "anti-affinity of pod ns/r against the pod", "add one more node like n"),
        ([node("n")], [bare(hostNetwork=True, hostUsers=False)],
         "the kubelet does not declare UserNamespacesHostNetworkSupport", None),
    ],
)  # fmt: skip
def test_rejections_of_a_node_are_detailed_with_names_and_amounts(
    nodes: list[Json], pods: list[Json], detail: str, way_out: str | None
) -> None:
    found = of_pod(world(*nodes, *pods))
    assert found["verdict"] == "unschedulable"
    assert detail in [line for group in found["nodes"] for line in group["details"]]
    assert detail in found["report"]
    assert detail in table(found)
    assert (way_out in changes(found)) if way_out else changes(found) == []


# Volumes


def storage_class(name: str = "local", provisioner: str = "kubernetes.io/no-provisioner", **more: Any) -> Json:
    made = {"kind": "StorageClass", "metadata": make_metadata(name), "provisioner": provisioner}
    return {**made, "volumeBindingMode": "WaitForFirstConsumer", **more}


def volume(name: str = "v", size: str = "5Gi", zone: str = "", labels: Json | None = None, **spec: Any) -> Json:
    where = {"nodeAffinity": {"required": in_zone(zone)}} if zone else {}
    made = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": "local"}
    metadata = make_metadata(name, labels=labels)
    spec = {**made, **where, **spec}
    return {"kind": "PersistentVolume", "metadata": metadata, "spec": spec, "status": {"phase": "Available"}}


def volume_claim(name: str = "data", bound_to: str = "", mode: str = "ReadWriteOnce", **spec: Any) -> Json:
    asked = {"accessModes": [mode], "storageClassName": "local", "resources": {"requests": {"storage": "10Gi"}}}
    done = {"pv.kubernetes.io/bind-completed": "yes"} if bound_to else {}
    named = {"volumeName": bound_to} if bound_to else {}
    metadata = make_metadata(name, "ns", annotations=done)
    return {"kind": "PersistentVolumeClaim", "metadata": metadata, "spec": {**asked, **named, **spec}}


def mounting(name: str = "p", data: str = "data", **spec: Any) -> Json:
    return bare(name, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": data}}], **spec)


IMMEDIATE = storage_class(volumeBindingMode="Immediate")
CSI = {"driver": "csi", "volumeHandle": "h"}
CSI_DRIVER = {"kind": "CSIDriver", "metadata": make_metadata("csi"), "spec": {"storageCapacity": True}}
CSI_NODE = {
    "kind": "CSINode", "metadata": make_metadata("n"), "spec": {"drivers": [{"name": "csi", "allocatable": {"count": 1}}]},
}  # fmt: skip


@pytest.mark.parametrize(
    ("objects", "said", "way_out"),
    [
        ({}, "volume claim data is missing", "create volume claim data and bind it to a volume reachable from every node"),
        ([volume_claim()],
         "volume claim data is not bound (10Gi of class local): storage class local does not exist",
         "bind volume claim data to a volume (10Gi of class local) reachable from every node"),
        ([volume_claim(), IMMEDIATE, volume()],
         "is not bound (10Gi of class local): the class has no provisioner, create a volume; volumes of its class: 1 too small",
         "bind volume claim data to a volume (10Gi of class local) reachable from every node"),
        ([volume_claim(), storage_class(), volume(), volume("w", "20Gi", zone="b"), volume("x", "20Gi", claimRef={"name": "z"})],
         "claim data (10Gi of class local): volumes of its class: 1 bound to other claims, 1 not reachable from the node, 1 too small; the class has no provisioner",
         "add a volume of 10Gi of class local reachable from node n"),
        ([volume_claim(bound_to="v"), volume(zone="b")],
         f"volume v of claim data is reachable only from nodes with {ZONE} In [b]", f"label node n {ZONE}=b"),
        ([volume_claim(bound_to="v"), volume(labels={ZONE: "b"})],
         f"volume v is in {ZONE}=b, the node is in a", f"add a node like n in {ZONE}=b"),
        ([volume_claim(bound_to="gone")], 'persistentvolume "gone" not found', "recreate volume gone of claim data, reachable from every node"),
        ([volume_claim(), CSI_DRIVER, storage_class(provisioner="csi")],
         "csi has too little storage capacity for the node (published: none)", "add a volume of 10Gi of class local reachable from node n"),
        ([volume_claim(), storage_class(provisioner="csi", allowedTopologies=[
              {"matchLabelExpressions": [{"key": ZONE, "values": ["b"]}]}])],
         f"the class provisions volumes only for nodes with {ZONE} in [b]", "add a volume of 10Gi of class local reachable from node n"),
        ([volume_claim(bound_to="v"), volume_claim("other", bound_to="w"), volume(csi=CSI), volume("w", csi={**CSI, "volumeHandle": "g"}), mounting(), mounting("r", "other", nodeName="n"), CSI_NODE],
         "driver csi attaches at most 1 volume on the node: 1 in use, 1 more needed", "delete pod ns/r on node n"),
        ([volume_claim(bound_to="v", mode="ReadWriteOncePod"), volume(), mounting(), mounting("r", nodeName="n")],
         "its ReadWriteOncePod claim is used by pod ns/r", "delete pod ns/r"),
    ],
)  # fmt: skip
def test_rejections_for_volumes_are_detailed(objects: list[Json], said: str, way_out: str | None) -> None:
    found = of_pod(world(node("n", "a"), mounting(), *objects))
    assert found["verdict"] == "unschedulable"
    assert said in found["report"]
    assert (way_out in changes(found)) if way_out else changes(found) == []


def test_volume_claims_of_a_fitting_pod_are_listed() -> None:
    claims = [volume_claim(bound_to="v"), volume_claim("later")]
    waiting = mounting()
    waiting["spec"]["volumes"].append({"name": "w", "persistentVolumeClaim": {"claimName": "later"}})
    made = world(node("n"), waiting, volume(), volume("w", "10Gi"), *claims, storage_class())
    found = of_pod(made)
    assert (found["verdict"], [each["state"] for each in found["volumes"]]) == ("fits", ["bound", "waiting"])
    assert "volume claim later waits for its first consumer (10Gi of class local)" in found["report"]


# Preemption


def test_preemption_lists_the_victims() -> None:
    budget = {
        "kind": "PodDisruptionBudget",
        "metadata": make_metadata("b", "ns"),
        "spec": {"selector": {"matchLabels": {"app": "a"}}},
        "status": {"disruptionsAllowed": 0},
    }
    running = [labelled(bare("r", cpu="3", nodeName="n", priority=1), app="a")]
    found = of_pod(world(node("n"), bare(cpu="2", priority=5), *running, budget))
    assert found["preemption"] | {"text": ""} == {
        "text": "", "node": "n", "victims": ["ns/r"], "violations": 1, "nodes": {},
    }  # fmt: skip
    line = "preemption would evict 1 pod from node n: ns/r (1 of them against a disruption budget)"
    assert line in found["report"].splitlines()


def test_preemption_without_victims_is_explained_with_remedies() -> None:
    running = [bare(f"r{n}", cpu="2", nodeName="n", priority=n) for n in range(2)]
    found = of_pod(world(node("n"), bare(cpu="4"), *running))
    assert found["preemption"]["nodes"] == {"No preemption victims found for incoming pod": 1}
    # Both pods must be preempted: a priority above only one of them does not suffice.
    assert [each for each in found["changes"] if "priority" in each["changes"][0]] == [
        {"changes": ["raise the priority above 1 (now 0)"], "node": "n after preempting ns/r1, ns/r0"}
    ]
    polite = of_pod(world(node("n"), bare(cpu="4", priority=9, preemptionPolicy="Never"), *running))
    assert polite["preemption"]["text"] == "not eligible due to preemptionPolicy=Never."
    assert "use a priority class that may preempt (preemptionPolicy is Never)" in changes(polite)


def test_missing_devices_never_cause_preemption() -> None:
    found = of_pod(world(node("n"), claim("wanted"), pod(priority=9)))
    assert "preemption would evict no pods: 1 node: Preemption is not helpful for scheduling" in found["report"]


def test_extended_resources_served_by_devices_are_explained_by_device() -> None:
    gpu = make_device_class(extendedResourceName="example.com/gpu")
    asking = bare()
    asking["spec"]["containers"][0]["resources"]["requests"]["example.com/gpu"] = "2"
    held = claim("c", held=[("n", "gpu-0")])
    found = of_pod(world(gpu, node("n"), slice_("n", gpus(2)), held, asking))
    (request,) = found["nodes"][0]["requests"]
    assert (request["devices"], request["usable"]) == (2, 1)
    assert {
        "free claim ns/c (used by user-of-c)",
        "add 1 more device like gpu-0 (model=A1) of driver d to node n",
    } <= set(changes(found))


def test_every_requeue_event_has_a_description() -> None:
    assert set(REQUEUE_EVENTS) == set(ClusterEvent)
