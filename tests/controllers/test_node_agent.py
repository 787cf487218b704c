"""Emulated nodes and their pods, on a running control plane."""

from typing import Any

import pytest

from apiserver.api.objects import Json
from controllers.kubelet.emulation.addresses import Pool
from controllers.kubelet.emulation.annotations import devices_of
from controllers.runtime.kinds import PODS
from kubedra.pytest_plugin import Kube
from tests.support.objects import make_manifest

pytestmark = pytest.mark.integration


def pod(name: str = "p", *, annotations: Json | None = None, init: list[Json] | None = None, **spec: Any) -> Json:
    body = {
        "containers": [{"name": "c", "image": "registry.example.com/i:1"}],
        **({"initContainers": init} if init else {}),
        **spec,
    }
    return make_manifest(PODS, name, body, annotations=annotations or {})


def conditions(obj: Json) -> dict[str, str]:
    return {c["type"]: c["status"] for c in obj["status"]["conditions"]}


def test_an_added_node_is_ready_and_registered_as_a_kubelet_would(kube: Kube) -> None:
    node = kube.add_node("worker", labels={"zone": "a"}, capacity={"cpu": "8"})
    assert conditions(node) == {
        "MemoryPressure": "False",
        "DiskPressure": "False",
        "PIDPressure": "False",
        "Ready": "True",
    }
    node = kube.wait("node/worker", lambda n: "kubernetes.io/hostname" in n["metadata"]["labels"])
    assert node["metadata"]["labels"]["zone"] == "a"
    assert node["status"]["capacity"]["cpu"] == node["status"]["allocatable"]["cpu"] == "8"
    assert kube.wait("lease/worker", "create", namespace="kube-node-lease")["spec"]["holderIdentity"] == "worker"


def test_a_ready_node_loses_the_taint_that_it_was_born_with(kube: Kube) -> None:
    kube.add_node("worker")
    kube.wait("node/worker", lambda n: not n["spec"].get("taints"))


def test_an_unready_node_is_tainted(kube: Kube) -> None:
    kube.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "real"}})
    body = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
    kube.client().patch("node/real", body, subresource="status")
    node = kube.wait(
        "node/real", lambda n: any(t["key"] == "node.kubernetes.io/unreachable" for t in n["spec"].get("taints") or ())
    )
    assert {t["key"] for t in node["spec"]["taints"]} == {"node.kubernetes.io/unreachable"}


def test_a_cordoned_node_is_tainted_until_it_is_uncordoned(kube: Kube) -> None:
    kube.add_node("worker")
    kube.client().patch("node/worker", {"spec": {"unschedulable": True}})
    kube.wait(
        "node/worker",
        lambda n: any(t["key"] == "node.kubernetes.io/unschedulable" for t in n["spec"].get("taints") or ()),
    )
    kube.client().patch("node/worker", {"spec": {"unschedulable": None}})
    kube.wait("node/worker", lambda n: not n["spec"].get("taints"))


def test_a_node_that_is_not_emulated_is_left_alone(kube: Kube) -> None:
    kube.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "real"}})
    kube.add_node("worker")
    assert "conditions" not in kube.get("node/real")["status"]


def test_a_node_publishes_the_devices_of_its_annotation(kube: Kube) -> None:
    kube.add_node("worker", devices=3)
    (slice_,) = kube.list("resourceslices")
    assert slice_["spec"]["nodeName"] == slice_["spec"]["pool"]["name"] == "worker"
    assert [d["name"] for d in slice_["spec"]["devices"]] == ["gpu-0", "gpu-1", "gpu-2"]
    assert slice_["spec"]["devices"][1]["attributes"]["index"] == {"int": 1}
    assert slice_["metadata"]["ownerReferences"][0]["kind"] == "Node"
    (device_class,) = kube.list("deviceclasses")
    assert device_class["metadata"]["name"] == slice_["spec"]["driver"]


def test_a_deleted_nodes_slices_go(kube: Kube) -> None:
    kube.add_node("worker", devices=1)
    (slice_,) = kube.list("resourceslices")
    kube.delete("node/worker")
    kube.wait(f"resourceslice/{slice_['metadata']['name']}", "delete")


def test_a_bound_pod_runs_with_an_address_and_all_conditions(kube: Kube) -> None:
    kube.add_node("worker")
    kube.apply(pod(init=[{"name": "first", "image": "i"}]))
    running = kube.wait("pod/p", "phase=Running")
    status = running["status"]
    assert set(conditions(running).values()) == {"True"}
    assert status["podIP"] == status["podIPs"][0]["ip"]
    assert status["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 0
    assert status["containerStatuses"][0]["ready"] is True
    assert status["containerStatuses"][0]["state"]["running"]["startedAt"]


def test_pods_have_addresses_of_their_own(kube: Kube) -> None:
    kube.add_node("worker")
    kube.apply([pod("a"), pod("b")])
    assert (
        kube.wait("pod/a", "phase=Running")["status"]["podIP"] != kube.wait("pod/b", "phase=Running")["status"]["podIP"]
    )


@pytest.mark.parametrize(("code", "phase"), [("0", "Succeeded"), ("3", "Failed")])
def test_the_annotations_of_a_pod_decide_its_end(kube: Kube, code: str, phase: str) -> None:
    kube.add_node("worker")
    kube.apply(
        pod(annotations={"kubedra.dev/exit-after": "0.05", "kubedra.dev/exit-code": code}, restartPolicy="Never")
    )
    ended = kube.wait("pod/p", f"phase={phase}")
    assert ended["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == int(code)


def test_a_pod_whose_time_is_over_fails(kube: Kube) -> None:
    kube.add_node("worker")
    kube.apply(pod(nodeName="worker", activeDeadlineSeconds=1))
    failed = kube.wait("pod/p", "phase=Failed")["status"]
    assert (failed["reason"], failed["message"]) == (
        "DeadlineExceeded",
        "Pod was active on the node longer than the specified deadline",
    )
    assert failed["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137


def test_a_pod_is_ready_when_its_readiness_gates_are(kube: Kube) -> None:
    kube.add_node("worker")
    kube.apply(pod(nodeName="worker", readinessGates=[{"conditionType": "example.com/up"}]))
    waiting = kube.wait("pod/p", lambda obj: conditions(obj).get("ContainersReady") == "True")
    ready = next(c for c in waiting["status"]["conditions"] if c["type"] == "Ready")
    assert (ready["status"], ready["reason"], ready["message"]) == (
        "False",
        "ReadinessGatesNotReady",
        'corresponding condition of pod readiness gate "example.com/up" does not exist.',
    )
    up = [*waiting["status"]["conditions"], {"type": "example.com/up", "status": "True"}]
    kube.client().patch("pod/p", {"status": {"conditions": up}}, subresource="status")
    kube.wait("pod/p", lambda obj: conditions(obj)["Ready"] == "True")


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"os": {"name": "windows"}}, "PodOSNotSupported"),
        ({"nodeSelector": {"kubernetes.io/os": "windows"}}, "PodOSSelectorNodeLabelDoesNotMatch"),
    ],
)
def test_a_pod_of_another_system_is_rejected(kube: Kube, spec: Json, reason: str) -> None:
    kube.add_node("worker")
    kube.wait("node/worker", lambda n: "kubernetes.io/os" in n["metadata"].get("labels", {}))
    kube.apply(pod(nodeName="worker", **spec))
    failed = kube.wait("pod/p", "phase=Failed")["status"]
    assert failed["reason"] == reason
    assert failed["message"].startswith("Pod was rejected: Failed to admit pod as the ")


def test_what_a_pod_was_changed_to_is_observed(kube: Kube) -> None:
    kube.add_node("worker")
    kube.apply(pod(nodeName="worker"))
    kube.wait("pod/p", "phase=Running")
    kube.client().patch("pod/p", {"spec": {"activeDeadlineSeconds": 3600}})
    seen = kube.wait("pod/p", lambda obj: obj["status"].get("observedGeneration") == 2)
    own = [c for c in seen["status"]["conditions"] if c["type"] != "PodScheduled"]
    assert {c["observedGeneration"] for c in own} == {2}


def test_what_a_node_can_give_follows_what_it_has(kube: Kube) -> None:
    kube.add_node("worker", capacity={"cpu": "8"})
    status = {"capacity": {"cpu": "16", "example.com/foo": "3"}}
    kube.client().patch("node/worker", {"status": status}, subresource="status")
    node = kube.wait("node/worker", lambda n: n["status"]["allocatable"].get("example.com/foo") == "3")
    assert node["status"]["allocatable"]["cpu"] == "16"


def test_a_deleted_pod_is_gone_once_its_containers_have_stopped(kube: Kube) -> None:
    kube.add_node("worker")
    kube.apply(pod())
    kube.wait("pod/p", "phase=Running")
    assert kube.delete("pod/p")["metadata"]["deletionGracePeriodSeconds"] == 30
    kube.wait("pod/p", "delete")


def test_a_pod_on_a_node_without_emulation_stays_unchanged(kube: Kube) -> None:
    kube.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "real"}})
    kube.apply(pod("still", nodeName="real"))
    kube.add_node("worker")
    kube.apply(pod("moving", nodeName="worker"))
    kube.wait("pod/moving", "phase=Running")
    assert kube.get("pod/still")["status"]["phase"] == "Pending"


def test_addresses_are_given_once_and_again_after_their_owner_is_gone() -> None:
    pool = Pool("192.0.2.0/29")
    given = [pool.assign(f"pod-{n}") for n in range(6)]
    assert len(set(given)) == 6
    assert pool.assign("pod-0") == given[0]
    with pytest.raises(RuntimeError, match="no free address"):
        pool.assign("one too many")
    pool.remove("pod-3")
    assert pool.assign("another") == given[3]


@pytest.mark.parametrize(
    ("value", "wanted"),
    [("8", ("gpu.example.com", 8)), ("net.example.com=2", ("net.example.com", 2)), ("0", None), ("many", None)],
)
def test_a_nodes_devices_are_read_from_its_annotation(value: str, wanted: tuple[str, int] | None) -> None:
    assert devices_of({"metadata": {"annotations": {"kubedra.dev/devices": value}}}) == wanted


def test_a_pod_that_names_a_node_whose_port_is_taken_is_rejected(kube: Kube) -> None:
    kube.add_node("worker")
    ports = [{"containerPort": 80, "hostPort": 80}]
    containers = [{"name": "c", "image": "i", "ports": ports}]
    kube.apply(pod("first", nodeName="worker", containers=containers))
    kube.wait("pod/first", "phase=Running")
    kube.apply(pod("second", nodeName="worker", containers=containers))
    failed = kube.wait("pod/second", "phase=Failed")["status"]
    assert failed["reason"] == "NodePorts"
    kube.delete("pod/first")
    kube.wait("pod/first", "delete")
    kube.apply(pod("third", nodeName="worker", containers=containers))
    kube.wait("pod/third", "phase=Running")


def test_a_pod_waits_for_an_image_that_its_node_lacks(kube: Kube) -> None:
    kube.add_node("worker")
    kube.client().patch("node/worker", {"metadata": {"annotations": {"kubedra.dev/missing-images": "web:2, web:3"}}})
    kube.apply(pod(nodeName="worker", containers=[{"name": "c", "image": "web:3"}]))

    def waiting(obj: Json) -> bool:
        states = [status["state"].get("waiting") or {} for status in obj["status"].get("containerStatuses") or ()]
        return any(state.get("reason") == "ImagePullBackOff" for state in states)

    assert kube.wait("pod/p", waiting)["status"]["phase"] == "Pending"
    kube.client().patch("node/worker", {"metadata": {"annotations": {"kubedra.dev/missing-images": None}}})
    kube.wait("pod/p", "phase=Running")
