"""Admission of bound pods by their node."""

from __future__ import annotations

import pytest

from apiserver.api.objects import Json
from controllers.kubelet.pods.admission import NodeAdmission
from tests.support.objects import make_node, make_pod

pytestmark = pytest.mark.integration

WEB = [{"containerPort": 80, "hostPort": 80}]


def ended(pod: Json) -> Json:
    return {**pod, "status": {**pod["status"], "phase": "Succeeded"}}


@pytest.mark.parametrize(
    ("first", "second", "reason", "message"),
    [
        ({"requests": {"cpu": "3"}}, {"requests": {"cpu": "1500m"}}, "OutOfcpu",
         "Node didn't have enough resource: cpu, requested: 1500, used: 3000, capacity: 4000"),
        ({"requests": {"cpu": "4", "memory": "8Gi"}}, {"requests": {"memory": "1", "cpu": "1"}}, "OutOfcpu", None),
        ({"requests": {"memory": "8Gi"}}, {"requests": {"memory": "1"}}, "OutOfmemory", None),
        ({"requests": {"example.com/gpu": "1"}}, {"requests": {"example.com/gpu": "1"}}, "OutOfexample.com/gpu", None),
        ({"ports": WEB}, {"ports": WEB}, "NodePorts",
         "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"),
    ],
)  # fmt: skip
def test_a_pod_is_rejected_while_another_uses_the_resources(
    first: Json, second: Json, reason: str, message: str | None
) -> None:
    room, node = NodeAdmission(), make_node("worker", extra={"example.com/gpu": "1"})
    one, other = make_pod(**first), make_pod(**second)
    assert room.admit(one, node) is None
    refusal = room.admit(other, node)
    assert refusal is not None
    assert (refusal[0], refusal[1] if message else None) == (reason, message)
    assert room.admit(one, node) is None
    room.remove(one)
    assert room.admit(other, node) is None


def test_a_node_admits_as_many_pods_as_it_allows() -> None:
    room, node = NodeAdmission(), make_node("worker", pods="1")
    assert room.admit(make_pod(), node) is None
    refusal = room.admit(make_pod(), node)
    assert refusal == ("OutOfpods", "Node didn't have enough resource: pods, requested: 1, used: 1, capacity: 1")


@pytest.mark.parametrize(
    ("pod", "node", "reason"),
    [
        ({"nodeSelector": {"disk": "ssd"}}, {}, "NodeAffinity"),
        ({"nodeSelector": {"disk": "ssd"}}, {"labels": {"disk": "ssd"}}, None),
        ({}, {"taints": [{"key": "k", "effect": "NoExecute"}]}, "TaintToleration"),
        ({"tolerations": [{"operator": "Exists"}]}, {"taints": [{"key": "k", "effect": "NoExecute"}]}, None),
        ({}, {"taints": [{"key": "k", "effect": "NoSchedule"}]}, None),
        ({"requests": {"example.com/unknown": "1"}}, {}, None),
        ({"os": {"name": "windows"}}, {}, "PodOSNotSupported"),
        ({"securityContext": {"sysctls": [{"name": "kernel.msgmax"}]}}, {}, "SysctlForbidden"),
        ({"securityContext": {"sysctls": [{"name": "kernel/shm_rmid_forced"}]}}, {}, None),
    ],
)
def test_labels_taints_and_os_of_a_node_decide_admission(pod: Json, node: Json, reason: str | None) -> None:
    refusal = NodeAdmission().admit(make_pod(**pod), make_node("worker", **node))
    assert (refusal[0] if refusal else None) == reason


@pytest.mark.parametrize(
    ("allowed", "wanted", "refused"),
    [
        ("", ["net.ipv4.tcp_syncookies", "net.core.somaxconn"], "net.core.somaxconn"),
        ("net.core.somaxconn, kernel.msg*", ["net.core.somaxconn", "kernel/msgmax"], None),
        ("net.core.somaxconn", ["net.core.somaxconn2"], "net.core.somaxconn2"),
        ("kernel.msg*", ["kernel.ms"], "kernel.ms"),
        ("", ["net/ipv4/conf/eth0.1/rp_filter"], "net.ipv4.conf.eth0/1.rp_filter"),
        ("", ["net.ipv4.conf.eth0/1.rp_filter"], "net.ipv4.conf.eth0/1.rp_filter"),
    ],
)
def test_sysctls_must_be_safe_or_allowed_by_the_node(allowed: str, wanted: list[str], refused: str | None) -> None:
    node = make_node("worker")
    node["metadata"]["annotations"] = {"kubedra.dev/allowed-unsafe-sysctls": allowed}
    pod = make_pod(securityContext={"sysctls": [{"name": name, "value": "1"} for name in wanted]})
    refusal = NodeAdmission().admit(pod, node)
    assert refusal == (("SysctlForbidden", f'forbidden sysctl: "{refused}" not allowlisted') if refused else None)


def test_pods_started_before_the_kubelet_count_until_they_end() -> None:
    begun = {"startTime": "2026-01-01T00:00:00Z", "phase": "Running"}
    running, waiting = make_pod(ports=WEB, status=begun), make_pod(ports=WEB)
    assert NodeAdmission(lambda: [running]).admit(waiting, make_node("worker")) is not None
    assert NodeAdmission(lambda: [ended(running)]).admit(waiting, make_node("worker")) is None
    assert NodeAdmission(lambda: [waiting, make_pod(ports=WEB)]).admit(waiting, make_node("worker")) is None


def test_a_node_without_a_status_admits_every_pod() -> None:
    node = make_node("worker")
    del node["status"]["allocatable"]
    assert NodeAdmission().admit(make_pod(requests={"cpu": "900"}, nodeSelector={"disk": "ssd"}), node) is None


def test_a_resized_pod_counts_with_its_latest_size() -> None:
    room, node = NodeAdmission(), make_node("worker")
    pod = make_pod(requests={"cpu": "1"})
    room.admit(pod, node)
    larger = make_pod(requests={"cpu": "4"}, uid=pod["metadata"]["uid"])
    larger["metadata"]["generation"] = 2
    assert room.admit(larger, node) is None
    assert room.admit(make_pod(requests={"cpu": "1"}), node) is not None


def test_extended_resources_of_devices_need_no_node_resources() -> None:
    name = "deviceclass.resource.kubernetes.io/gpu"
    mapping = {"containerName": "c", "resourceName": name, "requestName": "r"}
    served = {"extendedResourceClaimStatus": {"resourceClaimName": "claim", "requestMappings": [mapping]}}
    assert NodeAdmission().admit(make_pod(requests={name: "1"}, status=served), make_node("worker")) is None
    assert NodeAdmission().admit(make_pod(requests={name: "1"}), make_node("worker")) is not None
