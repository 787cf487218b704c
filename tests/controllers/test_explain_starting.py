"""Explanations of pods that have a node, and of what stands behind missing claims, taints and capacities."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from apiserver.api.objects import Json
from controllers.explain.claim_details import explain
from controllers.explain.consumers import find_gone
from controllers.runtime.kinds import JOBS, NODES
from kubedra import ControlPlane
from tests.controllers.test_explain import changes, claim, gpus, node, of_pod, pod, slice_, world
from tests.scheduler.world import World as Cluster
from tests.support.objects import make_claim, make_device_class, make_emulated_node, make_pod, make_request
from tests.support.virtual import passes

pytestmark = pytest.mark.integration

RULES = {"DRADeviceTaintRules": True}
UNREGISTERED = "Failed to prepare dynamic resources: prepare dynamic resources: DRA driver d is not registered"


def bound(phase: str = "Pending", waiting: Json | None = None, **status: Any) -> Json:
    """Return the pod `p` on node `n` with one allocated claim."""
    containers = [] if waiting is None else [{"name": "main", "state": {"waiting": waiting}}]
    return make_pod(
        "p", node="n", claims={"wanted": "wanted"}, status={"phase": phase, "containerStatuses": containers, **status}
    )


def away() -> Json:
    made = node("n")
    made["status"]["conditions"][0] |= {"status": "Unknown", "message": "the kubelet is away"}
    return made


def held_by(name: str, uid: str, **user: str) -> Json:
    held = claim("wanted", held=[("n", "gpu-0")])
    held["status"]["reservedFor"] = [{"resource": "pods", "name": name, "uid": uid, **user}]
    return held


def warning(reason: str, message: str, at: str = "2026-01-01T00:00:00Z", count: int = 1) -> Json:
    return {"reason": reason, "message": message, "lastTimestamp": at, "count": count}


def starting(*objects: Json, warnings: tuple[Json, ...] = (), **more: Any) -> list[str]:
    """Return what the pod among these objects waits for."""
    made = world(*objects, **more)
    made.warnings = {obj["metadata"]["uid"]: list(warnings) for obj in objects if obj["kind"] == "Pod"}
    lines: list[str] = of_pod(made)["starting"]
    return lines


def test_a_bound_pod_is_explained_by_its_containers_and_the_last_warnings() -> None:
    waits = bound(waiting={"reason": "ContainerCreating"})
    reserved = held_by("p", waits["metadata"]["uid"])
    found = starting(
        node("n"), reserved, waits,
        warnings=(
            warning("FailedScheduling", "0/1 nodes are available"),
            warning("FailedMount", "old", "2026-01-01T00:00:01Z"),
            warning("FailedPrepareDynamicResources", UNREGISTERED, "2026-01-01T00:00:02Z", 7),
        ),
    )  # fmt: skip
    assert found == [
        "container main waits: ContainerCreating",
        f"warning FailedPrepareDynamicResources (7 times, last 2026-01-01T00:00:02Z): {UNREGISTERED}",
        "warning FailedMount (1 time, last 2026-01-01T00:00:01Z): old",
        "what would help: run the plugin of driver d on node n",
    ]


@pytest.mark.parametrize(
    ("objects", "line"),
    [
        ([bound()], "node n does not exist"),
        ([away(), bound()], "node n is not ready: the kubelet is away"),
        ([node("n"), bound()], "the kubelet of node n has not reported the pod"),
        ([node("n"), claim("wanted"), bound()],
         "claim wanted has no devices: a pod that names its node itself waits until another pod gets them"),
        ([node("n"), held_by("other", "other"), bound()],
         "claim wanted is not reserved for the pod: status.reservedFor does not name it"),
        ([node("n"), bound("Running", {"reason": "CrashLoopBackOff", "message": "back-off 10s"})],
         "container main waits: CrashLoopBackOff: back-off 10s"),
    ],
)  # fmt: skip
def test_what_a_bound_pod_lacks_is_named(objects: list[Json], line: str) -> None:
    assert line in starting(*objects)


def test_a_ready_or_ended_pod_waits_for_nothing() -> None:
    ready = bound("Running", conditions=[{"type": "Ready", "status": "True"}])
    for done in (ready, bound("Succeeded"), bound("Failed")):
        assert starting(node("n"), done, warnings=(warning("FailedMount", "old"),)) == []


def test_a_claim_is_explained_with_its_bound_pods_that_wait() -> None:
    waits = bound(waiting={"reason": "ContainerCreating"})
    made = world(node("n"), held_by("p", waits["metadata"]["uid"]), waits)
    report = explain(made, "claim", "ns", "wanted").as_json()["report"]
    assert "container main waits: ContainerCreating" in report


def test_a_missing_template_is_named_and_the_failure_of_one_that_is_there() -> None:
    generated = make_pod("p", resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "t"}])
    (found,) = of_pod(world(node("n"), generated))["claims"]
    assert found["state"] == 'missing: ResourceClaimTemplate "t" does not exist in namespace "ns"; create it'
    template = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
                "metadata": {"name": "t", "namespace": "ns", "uid": "t"}, "spec": {"spec": {}}}  # fmt: skip
    made = world(node("n"), generated, template)
    (found,) = of_pod(made)["claims"]
    assert found["state"] == "missing: not generated from ResourceClaimTemplate t yet"
    made.warnings = {generated["metadata"]["uid"]: [warning("FailedResourceClaimCreation", "quota exceeded")]}
    (found,) = of_pod(made)["claims"]
    assert found["state"].endswith("yet: quota exceeded")
    unreadable = world(node("n"), generated)
    unreadable.unread = {"resourceclaimtemplates.resource.k8s.io": "forbidden"}
    (found,) = of_pod(unreadable)["claims"]
    assert found["state"] == 'missing: pod "ns/p": ResourceClaim not created yet'


def rule(name: str, **selector: str) -> Json:
    return {
        "apiVersion": "resource.k8s.io/v1beta2", "kind": "DeviceTaintRule", "metadata": {"name": name, "uid": name},
        "spec": {"deviceSelector": selector, "taint": {"key": "broken", "effect": "NoSchedule"}},
    }  # fmt: skip


def test_the_rule_behind_a_taint_is_named_and_its_deletion_helps() -> None:
    rules = rule("all", driver="d"), rule("elsewhere", driver="e")
    made = world(node("n"), slice_("n", gpus(2)), claim("wanted"), pod(), *rules, gates=RULES)
    found = of_pod(made)
    assert found["rules"] == ["DeviceTaintRule all taints 2 devices with broken:NoSchedule"]
    assert "delete DeviceTaintRule all" in changes(found)
    of_node = explain(made, "node", "", "n").as_json()
    assert of_node["rules"] == ["DeviceTaintRule all taints 2 devices with broken:NoSchedule"]


def test_a_rule_without_effect_is_named_and_its_deletion_is_not_proposed() -> None:
    made = world(node("n"), slice_("n", gpus(1)), claim("wanted", count=2), pod(), rule("all", driver="d"))
    found = of_pod(made)
    assert found["rules"] == [
        "DeviceTaintRule all (broken:NoSchedule) has no effect: the feature gate DRADeviceTaintRules is off"
    ]
    assert not [each for each in changes(found) if "DeviceTaintRule" in each]


def test_a_request_for_less_capacity_is_proposed_with_the_largest_amount_that_is_left() -> None:
    devices = [
        {"name": "large", "allowMultipleAllocations": True, "capacity": {"memory": {"value": "8Gi"}}},
        {"name": "small", "allowMultipleAllocations": True, "capacity": {"memory": {"value": "2Gi"}}},
    ]
    wanted = make_claim("wanted", requests=[make_request(capacity={"requests": {"memory": "10Gi"}})])
    used = claim("c", held=[("n", "large")])
    used["status"]["allocation"]["devices"]["results"][0] |= {
        "consumedCapacity": {"memory": "3Gi"}, "shareID": "11111111-1111-1111-1111-111111111111"
    }  # fmt: skip
    found = of_pod(world(node("n"), slice_("n", devices), wanted, used, pod()))
    lower = [each for each in changes(found) if each.startswith("lower capacity")]
    assert lower == ["lower capacity memory from 10Gi to 5Gi in request r of claim wanted"]


class Server:
    """Serves discovery and objects for the look-up of consumers."""

    def __init__(self, *names: str) -> None:
        self._names = names

    async def request_bytes(self, _: str, path: str, **__: str) -> bytes:
        versions = [{"version": "v1", "resources": [
            {"resource": "jobs", "responseKind": {"kind": "Job"}, "scope": "Namespaced", "verbs": ["get"]}]}]  # fmt: skip
        items = [{"metadata": {"name": "batch"}, "versions": versions}] if path == "/apis" else []
        return orjson.dumps({"kind": "APIGroupDiscoveryList", "items": items})

    async def get(self, kind: Any, name: str, namespace: str) -> Json:
        from apiserver.api.errors.status import StatusError

        if name not in self._names:
            raise StatusError(404, "NotFound", name)
        assert (kind, namespace) == (JOBS, "ns")
        return {"metadata": {"uid": name}}


async def test_workloads_that_do_not_exist_are_found() -> None:
    def users(*found: tuple[str, str, str, str]) -> list[Json]:
        references = [dict(zip(("apiGroup", "resource", "name", "uid"), each, strict=True)) for each in found]
        return [make_claim("c", allocation={"devices": {}}, reservedFor=references)]

    there, gone = ("batch", "jobs", "a", "a"), ("batch", "jobs", "b", "b")
    replaced, unknown = ("batch", "jobs", "a", "old"), ("example.com", "things", "x", "x")
    claims = users(there, gone, replaced, unknown, ("", "pods", "p", "p"))
    assert await find_gone(Server("a"), claims) == {"b", "old", "x"}  # type: ignore[arg-type]
    assert await find_gone(None, users(("", "pods", "p", "p"))) == frozenset()  # type: ignore[arg-type]


def test_a_claim_of_a_workload_that_does_not_exist_says_so() -> None:
    held = claim("c", held=[("n", "gpu-0")])
    held["status"]["reservedFor"] = [{"apiGroup": "batch", "resource": "jobs", "name": "old", "uid": "old"}]
    made = world(node("n"), slice_("n", gpus(1)), claim("wanted"), held, pod())
    made.gone = frozenset({"old"})
    assert "free claim ns/c (used by jobs/old, which does not exist)" in changes(of_pod(made))
    assert explain(made, "claim", "ns", "c").as_json()["claim"]["reserved_for"] == ["jobs/old (does not exist)"]


async def test_the_running_cluster_explains_a_pod_whose_driver_is_not_registered() -> None:
    components = ("scheduler", "resourceclaim-controller", "node-lifecycle-controller", "node-agent")
    async with Cluster(*components) as cluster:
        await cluster.add(make_device_class(selectors=[]))
        emulated = make_emulated_node("n1", devices="1", missing_drivers="gpu.example.com")
        await cluster.create(NODES, emulated)
        await cluster.until(NODES, "n1", lambda node: not node["spec"].get("taints"))
        await cluster.add(make_claim("c"), make_pod("p", claims={"gpu": "c"}))
        await cluster.bound("p")
        await passes(5)
        report = (await cluster.manager.explain("pod", "ns", "p"))["report"]
        assert "container c waits: ContainerCreating" in report
        assert "DRA driver gpu.example.com is not registered" in report
        assert "what would help: run the plugin of driver gpu.example.com on node n1" in report


def test_a_server_explains_a_claim_that_a_deleted_workload_holds() -> None:
    gates = {"DRAReservedForWorkloads": True}
    with ControlPlane(nodes=1, devices="gpu.example.com", feature_gates=gates) as plane, plane.client() as client:
        reference = {"apiGroup": "example.com", "resource": "trainings", "name": "llm", "uid": "u"}
        requests = [make_request(device_class="gpu.example.com")]
        client.create({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "c"},
                       "spec": {"devices": {"requests": requests}, "reservedFor": reference}})  # fmt: skip
        client.create(make_pod("p", claims={"gpu": "c"}, namespace="default") | {"metadata": {"name": "p"}})
        client.wait("pod/p", "phase=Running")
        client.wait("resourceclaim/c", lambda _: "UnknownConsumer" in client.explain("claim/c")["report"])
        assert "reserved for trainings/llm (does not exist)" in client.explain("claim/c")["report"]
