"""Nothing of a deleted node or pod stays behind, nor goes to a successor of the same name."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
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
from tests.support.objects import make_annotations, make_claim, make_emulated_node, make_pod
from tests.support.virtual import passes

pytestmark = pytest.mark.integration

EMULATED = make_emulated_node("worker")


def agent_of(world: World) -> NodeAgent:
    (agent,) = world.manager.components
    assert isinstance(agent, NodeAgent)
    return agent


@asynccontextmanager
async def agent_world() -> AsyncIterator[World]:
    """Run a node agent with an emulated node."""
    async with World("node-agent") as world:
        await world.create(NODES, EMULATED)
        yield world


async def wait_running(world: World) -> Json:
    return await world.until(PODS, "ns/p", lambda pod: pod["status"]["phase"] == "Running")


def make_kubelet(world: World, addresses: PodAddresses) -> Kubelet:
    async def read_claim(pod: Json, name: str) -> Json:
        return await world.client.get(RESOURCE_CLAIMS, name, pod["metadata"]["namespace"])

    claims = DraManager(EmulatedDrivers(), read_claim, NoCheckpoint(), DraFeatures(), DraMetrics())
    host = Host(world.client, addresses)
    return Kubelet(host, claims, CoreEventRecorder(world.client, "kubelet", "worker"))


async def add_pod(world: World, **spec: Any) -> Json:
    return await world.add(make_pod("p", nodeName="worker", **spec))


async def test_a_pod_gets_no_status_of_a_predecessor_of_the_same_name() -> None:
    async with World() as world:
        kubelet = make_kubelet(world, PodAddresses())
        node = await world.create(NODES, EMULATED)
        before = await add_pod(world)
        await world.client.delete(PODS, "p", "ns", grace_period=0)
        await add_pod(world)
        with pytest.raises(StatusError, match="uid"):
            await kubelet.sync(before, node)
        assert "startTime" not in (await world.pod("p"))["status"]


async def test_a_node_gets_no_status_of_a_predecessor_of_the_same_name() -> None:
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


async def test_the_lease_of_a_predecessor_of_the_same_name_belongs_to_the_new_node() -> None:
    async with World("node-agent") as world:
        first = await world.create(NODES, EMULATED)
        await world.until(LEASES, "kube-node-lease/worker", lambda lease: True)
        await world.client.delete(NODES, "worker")
        second = await world.create(NODES, EMULATED)

        def is_owned(lease: Json) -> bool:
            return bool(lease["metadata"]["ownerReferences"][0]["uid"] == second["metadata"]["uid"])

        lease = await world.until(LEASES, "kube-node-lease/worker", is_owned)
        assert first["metadata"]["uid"] not in str(lease)


async def test_a_deleted_nodes_kubelet_stops_writing_events() -> None:
    async with agent_world() as world:
        await add_pod(world)
        await wait_running(world)
        running = agent_of(world)._kubelets._running["worker"]
        await world.client.delete(NODES, "worker")
        await passes(1)
        assert all(task.cancelled() for task in running.tasks)
        assert not agent_of(world)._kubelets._running


async def test_the_address_of_a_deleted_node_is_free_again() -> None:
    async with World() as world:
        node = await world.create(NODES, EMULATED)
        addresses = [{"type": "InternalIP", "address": "172.18.0.2"}]
        registration = Registration(world.client, Informers(world.client), Options())
        registration.record({**node, "status": {"addresses": addresses}})
        assert registration._addresses.assign("another") == "172.18.0.3"
        registration.remove(node)
        assert "172.18.0.2" not in registration._addresses._owner_of


async def test_a_pod_that_is_deleted_while_it_starts_keeps_no_address() -> None:
    async with agent_world() as world:
        pod = await add_pod(world)
        pool = agent_of(world)._addresses._pool
        pool.record(pod["metadata"]["uid"], "10.244.9.9")
        await wait_running(world)
        await world.client.delete(PODS, "p", "ns", grace_period=0)
        await passes(1)
        assert not pool._owner_of


async def test_an_ended_pod_frees_its_address() -> None:
    async with agent_world() as world:
        await add_pod(world, restartPolicy="Never", annotations=make_annotations(exit_after="0"))
        await world.until(PODS, "ns/p", lambda pod: pod["status"]["phase"] == "Succeeded")
        await passes(1)
        assert not agent_of(world)._addresses._pool._owner_of


async def test_claims_of_a_force_deleted_pod_are_released() -> None:
    async with agent_world() as world:
        claim = await world.add(make_claim("c"))
        pod = await add_pod(world, claims={"c": "c"})
        result = {"request": "r", "driver": "gpu.example.com", "pool": "worker", "device": "gpu-0"}
        reserved = [{"resource": "pods", "name": "p", "uid": pod["metadata"]["uid"]}]
        status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": reserved}
        await world.client.update_status(RESOURCE_CLAIMS, {**claim, "status": status})
        await wait_running(world)
        claims = agent_of(world)._kubelets._running["worker"].kubelet.claims
        assert claims.might_need_unprepare(pod["metadata"]["uid"])
        await world.client.delete(PODS, "p", "ns", grace_period=0)
        await passes(1)
        assert (list(claims.cache), agent_of(world)._gone) == ([], {})


async def test_the_status_of_a_node_is_renewed_and_keeps_its_transition_times() -> None:
    async with World() as world:
        registration = Registration(world.client, Informers(world.client), Options())
        await registration.reconcile(await world.create(NODES, EMULATED))
        first = await world.client.get(NODES, "worker")
        await registration.reconcile(first)
        assert await world.client.get(NODES, "worker") == first
        old = {"lastHeartbeatTime": "2020-01-01T00:00:00Z", "lastTransitionTime": "2020-01-01T00:00:00Z"}
        aged = [{**condition, **old} for condition in first["status"]["conditions"]]
        await world.client.patch(NODES, "worker", {"status": {"conditions": aged}}, subresource="status")
        await registration.reconcile(await world.client.get(NODES, "worker"))
        for condition in (await world.client.get(NODES, "worker"))["status"]["conditions"]:
            assert condition["lastHeartbeatTime"] > "2020-01-01T00:00:00Z"
            assert condition["lastTransitionTime"] == "2020-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("takes", "grace", "seconds", "codes"), [("5", 30, 5, {0}), ("50", 30, 30, {137}), ("0", 30, 0, {0})]
)
async def test_a_deleted_pod_stays_until_its_containers_have_ended_or_its_grace_is_over(
    takes: str, grace: int, seconds: int, codes: set[int]
) -> None:
    async with agent_world() as world:
        await add_pod(world, terminationGracePeriodSeconds=grace, annotations=make_annotations(stop_after=takes))
        await wait_running(world)
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


async def test_a_terminated_container_stays_terminated_while_the_watch_is_late() -> None:
    """The informers have the pod as it was bound, and receive no later version."""
    async with World() as world, asyncio.TaskGroup() as group:
        informers = Informers(world.client)
        agent = NodeAgent(world.client, informers, Options())
        await world.create(NODES, EMULATED)
        await add_pod(world, restartPolicy="Never", annotations=make_annotations(exit_after="3s"))
        await informers.read()
        running = group.create_task(agent.run())
        await passes(60)
        running.cancel()
        assert (await world.pod("p"))["status"]["phase"] == "Succeeded"


async def test_each_condition_has_the_observed_generation_of_the_pod() -> None:
    async with agent_world() as world:
        await add_pod(world)
        await passes(5)
        conditions = (await world.pod("p"))["status"]["conditions"]
        seen = {each["type"]: (each["status"], each.get("observedGeneration")) for each in conditions}
        kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
        assert seen == dict.fromkeys(kinds, ("True", 1))


@pytest.mark.parametrize(
    ("spec", "exits", "seen"),
    [
        ({}, {}, [("Running", True)]),
        ({}, make_annotations(exit_after="0s"), [("Succeeded", True)]),
        ({"resourceClaims": [{"name": "gone", "resourceClaimName": "none"}]}, {}, [("Pending", False)]),
    ],
)
async def test_a_status_that_would_be_overwritten_immediately_is_not_reported(
    spec: Json, exits: dict[str, str], seen: list[tuple[str, bool]]
) -> None:
    """The first report of a pod that waits for no driver and no process is that it runs or has ended."""
    async with World() as world:
        node = await world.create(NODES, EMULATED)
        pod, reports = await add_pod(world, restartPolicy="Never", annotations=exits, **spec), list[tuple[str, bool]]()
        kubelet = make_kubelet(world, PodAddresses())
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
