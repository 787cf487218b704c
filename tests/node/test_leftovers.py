"""What a node or a pod leaves behind must not stay, nor go to the one of the same name that comes after it."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from controllers.kubelet.agent import NodeAgent
from controllers.kubelet.dra.checkpoint import NoCheckpoint
from controllers.kubelet.dra.emulated import EmulatedDrivers
from controllers.kubelet.dra.manager import DraFeatures, DraManager
from controllers.kubelet.dra.metrics import DraMetrics
from controllers.kubelet.emulation.addresses import PodAddresses
from controllers.kubelet.emulation.registration import Registration
from controllers.kubelet.kubelet import Host, Kubelet
from controllers.options.options import Options
from controllers.runtime.events import CoreEventRecorder
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import LEASES, NODES, PODS, RESOURCE_CLAIMS
from tests.scheduler.world import World
from tests.support.objects import make_claim, make_pod
from tests.support.virtual import passes

pytestmark = pytest.mark.integration

EMULATED = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "worker", "annotations": {"kubedra.dev/emulated": "true"}},
}


def agent_of(world: World) -> NodeAgent:
    (agent,) = world.manager.components
    assert isinstance(agent, NodeAgent)
    return agent


async def become(holds: Any) -> None:
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.005)


def a_kubelet(world: World, addresses: PodAddresses) -> Kubelet:
    async def read_claim(pod: Json, name: str) -> Json:
        return await world.client.get(RESOURCE_CLAIMS, name, pod["metadata"]["namespace"])

    claims = DraManager(EmulatedDrivers(), read_claim, NoCheckpoint(), DraFeatures(), DraMetrics())
    host = Host(world.client, addresses)
    return Kubelet(host, claims, CoreEventRecorder(world.client, "kubelet", "worker"))


async def pod_on_worker(world: World, name: str = "p") -> Json:
    return await world.create(PODS, make_pod(name, nodeName="worker"))


async def test_a_pod_of_the_same_name_gets_nothing_of_its_predecessors_status() -> None:
    async with World() as world:
        kubelet = a_kubelet(world, PodAddresses())
        node = await world.create(NODES, EMULATED)
        before = await pod_on_worker(world)
        await world.client.delete(PODS, "p", "ns", grace_period=0)
        await pod_on_worker(world)
        with pytest.raises(StatusError, match="uid"):
            await kubelet.sync(before, node)
        assert "startTime" not in (await world.client.get(PODS, "p", "ns"))["status"]


async def test_a_node_of_the_same_name_gets_nothing_of_its_predecessors_status() -> None:
    async with World() as world:
        registration = Registration(world.client, Informers(world.client), Options())
        before = await world.create(NODES, EMULATED)
        await world.client.delete(NODES, "worker")
        await world.create(NODES, EMULATED)
        with pytest.raises(StatusError, match="uid"):
            await registration.reconcile(before)
        now = await world.client.get(NODES, "worker")
        assert "conditions" not in now["status"]
        assert "kubernetes.io/os" not in now["metadata"].get("labels", {})


async def test_a_lease_that_a_node_of_the_same_name_left_belongs_to_the_new_node() -> None:
    async with World("node-agent") as world:
        first = await world.create(NODES, EMULATED)
        await world.until(LEASES, "kube-node-lease/worker", lambda lease: True)
        await world.client.delete(NODES, "worker")
        second = await world.create(NODES, EMULATED)
        uid = second["metadata"]["uid"]
        lease = await world.until(
            LEASES, "kube-node-lease/worker", lambda o: o["metadata"]["ownerReferences"][0]["uid"] == uid
        )
        assert first["metadata"]["uid"] not in str(lease)


async def test_a_deleted_nodes_kubelet_stops_writing_events() -> None:
    async with World("node-agent") as world:
        await world.create(NODES, EMULATED)
        await pod_on_worker(world)
        await world.until(PODS, "ns/p", lambda o: o["status"]["phase"] == "Running")
        running = agent_of(world)._kubelets["worker"]
        await world.client.delete(NODES, "worker")
        await become(lambda: all(task.cancelled() for task in running.tasks))
        assert not agent_of(world)._kubelets


async def test_a_deleted_nodes_address_is_free_again_and_a_present_ones_is_taken() -> None:
    async with World() as world:
        node = await world.create(NODES, EMULATED)
        addresses = [{"type": "InternalIP", "address": "172.18.0.2"}]
        registration = Registration(world.client, Informers(world.client), Options())
        registration.record({**node, "status": {"addresses": addresses}})
        assert registration._addresses.assign("another") == "172.18.0.3"
        registration.remove(node)
        assert "172.18.0.2" not in registration._addresses._owner_of


async def test_a_pod_that_is_deleted_while_it_starts_keeps_no_address() -> None:
    async with World("node-agent") as world:
        await world.create(NODES, EMULATED)
        pod = await pod_on_worker(world)
        pool = agent_of(world)._addresses._pool
        pool.record(pod["metadata"]["uid"], "10.244.9.9")
        await world.until(PODS, "ns/p", lambda o: o["status"]["phase"] == "Running")
        await world.client.delete(PODS, "p", "ns", grace_period=0)
        await become(lambda: not pool._owner_of)


async def test_a_pod_that_has_ended_gives_its_address_back() -> None:
    async with World("node-agent") as world:
        await world.create(NODES, EMULATED)
        body = make_pod("p", nodeName="worker", restartPolicy="Never")
        body["metadata"]["annotations"] = {"kubedra.dev/exit-after": "0"}
        await world.create(PODS, body)
        await world.until(PODS, "ns/p", lambda o: o["status"]["phase"] == "Succeeded")
        await become(lambda: not agent_of(world)._addresses._pool._owner_of)


async def test_claims_of_a_pod_that_was_deleted_by_force_are_released() -> None:
    async with World("node-agent") as world:
        await world.create(NODES, EMULATED)
        claim = await world.create(RESOURCE_CLAIMS, make_claim("c"))
        entry = [{"name": "c", "resourceClaimName": "c"}]
        pod = await world.create(PODS, make_pod("p", nodeName="worker", resourceClaims=entry))
        result = {"request": "r", "driver": "gpu.example.com", "pool": "worker", "device": "gpu-0"}
        reserved = [{"resource": "pods", "name": "p", "uid": pod["metadata"]["uid"]}]
        status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": reserved}
        await world.client.update_status(RESOURCE_CLAIMS, {**claim, "status": status})
        await world.until(PODS, "ns/p", lambda o: o["status"]["phase"] == "Running")
        claims = agent_of(world)._kubelets["worker"].kubelet.claims
        assert claims.might_need_unprepare(pod["metadata"]["uid"])
        await world.client.delete(PODS, "p", "ns", grace_period=0)
        await become(lambda: not list(claims.cache))
        await become(lambda: not agent_of(world)._gone)


async def test_a_nodes_status_is_written_again_every_five_minutes_and_keeps_the_times_of_its_changes() -> None:
    async with World() as world:
        registration = Registration(world.client, Informers(world.client), Options())
        await registration.reconcile(await world.create(NODES, EMULATED))
        first = await world.client.get(NODES, "worker")
        await registration.reconcile(first)
        assert (await world.client.get(NODES, "worker"))["metadata"]["resourceVersion"] == first["metadata"][
            "resourceVersion"
        ]
        old = {"lastHeartbeatTime": "2020-01-01T00:00:00Z", "lastTransitionTime": "2020-01-01T00:00:00Z"}
        aged = [{**condition, **old} for condition in first["status"]["conditions"]]
        await world.client.patch(NODES, "worker", {"status": {"conditions": aged}}, subresource="status")
        await registration.reconcile(await world.client.get(NODES, "worker"))
        for condition in (await world.client.get(NODES, "worker"))["status"]["conditions"]:
            assert condition["lastHeartbeatTime"] > "2020-01-01T00:00:00Z"
            assert condition["lastTransitionTime"] == "2020-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("takes", "grace", "seconds", "codes"),
    [("5", 30, 5, {0}), ("50", 30, 30, {137}), ("0", 30, 0, {0})],
)
async def test_a_deleted_pod_stays_until_its_containers_have_ended_or_its_grace_is_over(
    takes: str, grace: int, seconds: int, codes: set[int]
) -> None:
    async with World("node-agent") as world:
        await world.create(NODES, EMULATED)
        pod = make_pod("p", nodeName="worker", terminationGracePeriodSeconds=grace)
        pod["metadata"]["annotations"] = {"kubedra.dev/stop-after": takes}
        await world.create(PODS, pod)
        await world.until(PODS, "ns/p", lambda obj: obj["status"]["phase"] == "Running")
        last: Json = {}

        async def follow() -> None:
            async with aclosing(world.client.watch(PODS)) as batches:
                async for batch in batches:
                    for event in batch:
                        last.update(event.object)
                        if event.type == "DELETED":
                            return

        following, began = asyncio.create_task(follow()), asyncio.get_running_loop().time()
        await asyncio.sleep(0.5)
        await world.client.delete(PODS, "p", "ns")
        async with asyncio.timeout(100):
            await following
        assert seconds <= asyncio.get_running_loop().time() - began - 0.5 + 1 <= seconds + 2
        ends = last["status"]["containerStatuses"]
        assert {status["state"]["terminated"]["exitCode"] for status in ends} == codes


async def test_a_container_that_ended_stays_so_while_the_watch_of_pods_is_late() -> None:
    """Its informers show the pod as it was bound, and nothing after that."""

    async with World() as world, asyncio.TaskGroup() as group:
        informers = Informers(world.client)
        agent = NodeAgent(world.client, informers, Options())
        await world.create(NODES, EMULATED)
        pod, ends = make_pod("p", nodeName="worker", restartPolicy="Never"), {"kubedra.dev/exit-after": "3s"}
        await world.create(PODS, {**pod, "metadata": {**pod["metadata"], "annotations": ends}})
        await informers.read()
        running = group.create_task(agent.run())
        await passes(60)
        status = (await world.client.get(PODS, "p", "ns"))["status"]
        running.cancel()
        assert status["phase"] == "Succeeded"


async def test_a_node_says_of_each_condition_which_generation_of_the_pod_it_saw() -> None:
    async with World("node-agent") as world:
        await world.create(NODES, EMULATED)
        await world.create(PODS, make_pod("p", nodeName="worker"))
        await passes(5)
        conditions = (await world.client.get(PODS, "p", "ns"))["status"]["conditions"]
        seen = {each["type"]: (each["status"], each.get("observedGeneration")) for each in conditions}
        kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
        assert seen == dict.fromkeys(kinds, ("True", 1))


@pytest.mark.parametrize(
    ("spec", "exits", "seen"),
    [
        ({}, {}, [("Running", True)]),
        ({}, {"kubedra.dev/exit-after": "0s"}, [("Succeeded", True)]),
        ({"resourceClaims": [{"name": "gone", "resourceClaimName": "none"}]}, {}, [("Pending", False)]),
    ],
)
async def test_what_would_be_overwritten_at_once_is_not_reported(
    spec: Json, exits: dict[str, str], seen: list[tuple[str, bool]]
) -> None:
    """A pod that waits for no driver and no process runs, or has ended, in the first report of its node."""

    async with World() as world:
        node = await world.create(NODES, EMULATED)
        pod = make_pod("p", nodeName="worker", restartPolicy="Never", **spec)
        pod["metadata"]["annotations"] = exits
        pod, reports = await world.create(PODS, pod), list[tuple[str, bool]]()
        kubelet = a_kubelet(world, PodAddresses())
        version = pod["metadata"]["resourceVersion"]
        async with aclosing(world.client.watch(PODS, resource_version=version)) as batches:
            await kubelet.sync(pod, node)
            await world.client.delete(PODS, "p", "ns", grace_period=0)
            async for batch in batches:
                for event in batch:
                    status = event.object["status"]
                    if event.type == "DELETED":
                        assert reports == seen
                        assert {"startTime", "hostIP", "hostIPs"} <= status.keys()
                        return
                    if "deletionTimestamp" not in event.object["metadata"]:
                        reports.append((status["phase"], "podIP" in status))
