"""Nodes that are not heard of, and the pods on them. The server is real, time is virtual."""

from __future__ import annotations

import asyncio

import pytest

from apiserver.api.objects import Json
from apiserver.runtime import offload as turns
from apiserver.runtime.clock import now
from controllers.nodelifecycle.controller import NodeLifecycle
from controllers.runtime.kinds import CORE_EVENTS, LEASES, NODES, PODS
from controllers.runtime.times import go_time, micro_time
from tests.scheduler.world import World
from tests.support.objects import make_manifest, make_pod
from tests.support.virtual import passes

pytestmark = pytest.mark.integration

COMPONENTS = ("node-lifecycle-controller", "taint-eviction-controller")


async def nodes(world: World, *names: str, **labels: str) -> None:
    """Create nodes that were ready once."""
    for name in names:
        made = await world.create(
            NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
        )
        ready = {
            "type": "Ready",
            "status": "True",
            "lastHeartbeatTime": go_time(now()),
            "lastTransitionTime": go_time(now()),
        }
        await world.client.update_status(NODES, {**made, "status": {"conditions": [ready]}})


async def alive(world: World, seconds: int, *names: str) -> None:
    """Time passes, and these nodes renew their leases."""
    for _ in range(0, seconds, 10):
        for name in names:
            lease = make_manifest(LEASES, name, namespace="kube-node-lease")
            spec = {"spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": micro_time(now())}}
            await world.client.patch(
                LEASES, name, {**lease, **spec}, "kube-node-lease", type="apply", field_manager="t", force=True
            )
        await passes(10)


async def taints(world: World, name: str) -> list[str]:
    node = await world.client.get(NODES, name)
    return sorted(f"{taint['key'].partition('/')[2]}:{taint['effect']}" for taint in node["spec"].get("taints", ()))


async def ready(world: World, name: str) -> tuple[str, str]:
    node = await world.client.get(NODES, name)
    (found,) = (each for each in node["status"]["conditions"] if each["type"] == "Ready")
    return found["status"], found.get("reason", "")


async def pod(world: World, name: str, node: str, *tolerations: Json) -> None:
    made = await world.create(PODS, make_pod(name, tolerations=list(tolerations)))
    await world.client.bind("ns", name, made["metadata"]["uid"], node)
    fresh = await world.client.get(PODS, name, "ns")
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": go_time(now())}
    await world.client.update_status(PODS, {**fresh, "status": {"phase": "Running", "conditions": [condition]}})


async def going(world: World) -> set[str]:
    """Return the names of the pods that are being deleted."""
    found = (await world.client.list(PODS, "ns"))["items"]
    return {each["metadata"]["name"] for each in found if each["metadata"].get("deletionTimestamp")}


async def events(world: World) -> list[tuple[str, str]]:
    return [(event["reason"], event["message"]) for event in (await world.client.list(CORE_EVENTS))["items"]]


async def test_a_node_that_is_not_heard_of_becomes_unknown_and_its_pods_go_when_they_tolerate_it_no_longer() -> None:
    async with World(*COMPONENTS) as world:
        await nodes(world, "up", "down")
        await pod(
            world,
            "a",
            "down",
            {
                "key": "node.kubernetes.io/unreachable",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 60,
            },
        )
        await pod(world, "daemon", "down", {"operator": "Exists"})
        await alive(world, 50, "up", "down")
        assert await ready(world, "down") == ("True", "")
        await alive(world, 60, "up")
        assert (await ready(world, "up"), await ready(world, "down")) == (
            ("True", ""),
            ("Unknown", "NodeStatusUnknown"),
        )
        assert await taints(world, "down") == ["unreachable:NoExecute", "unreachable:NoSchedule"]
        assert (await world.client.get(PODS, "daemon", "ns"))["status"]["conditions"][0]["status"] == "False"
        assert await going(world) == set()
        await alive(world, 60, "up")
        assert await going(world) == {"a"}
        conditions = (await world.client.get(PODS, "a", "ns"))["status"]["conditions"]
        assert [each.get("reason") for each in conditions if each["type"] == "DisruptionTarget"] == [
            "DeletionByTaintManager"
        ]
        recorded = await events(world)
        assert ("NodeNotReady", "Node down status is now: NodeNotReady") in recorded
        assert ("TaintManagerEviction", "Marking for deletion Pod ns/a") in recorded
        # It is heard of again.
        node = await world.client.get(NODES, "down")
        condition = {"type": "Ready", "status": "True", "lastHeartbeatTime": go_time(now())}
        await world.client.update_status(NODES, {**node, "status": {"conditions": [condition]}})
        await alive(world, 10, "up", "down")
        assert await taints(world, "down") == []


async def test_a_node_that_never_reports_is_unknown_after_a_minute() -> None:
    async with World(*COMPONENTS) as world:
        await world.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})
        await passes(59)
        assert (await world.client.get(NODES, "n"))["status"].get("conditions") is None
        await passes(7)
        assert await ready(world, "n") == ("Unknown", "NodeStatusNeverUpdated")


async def test_nodes_of_a_zone_are_tainted_one_after_the_other_and_none_where_all_are_silent() -> None:
    async with World(*COMPONENTS) as world:
        names = ("a", "b", "c", "d", "e")
        await nodes(world, *names)
        await alive(world, 20, *names)

        async def evicting() -> int:
            return sum([any("NoExecute" in taint for taint in await taints(world, name)) for name in names])

        await alive(world, 40, "a", "b", "c")
        assert await evicting() == 0
        await alive(world, 10, "a", "b", "c")
        assert await evicting() == 1
        await alive(world, 10, "a", "b", "c")
        assert await evicting() == 2
        await alive(world, 70)
        assert [await ready(world, name) for name in names] == [("Unknown", "NodeStatusUnknown")] * 5
        assert await evicting() == 0


async def test_an_eviction_is_cancelled_when_the_taint_goes_and_runs_from_when_it_was_seen() -> None:
    async with World("taint-eviction-controller") as world:
        await nodes(world, "n")
        for name, seconds in (("short", 10), ("long", 100)):
            await pod(
                world,
                name,
                "n",
                {"key": "maintenance", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds},
            )
        await pod(world, "none", "n")
        for present in (True, False):
            wanted = [{"key": "maintenance", "effect": "NoExecute"}] if present else None
            await world.client.patch(NODES, "n", {"spec": {"taints": wanted}}, type="merge")
            await passes(5)
            assert "none" in await going(world)
            await passes(6)
        assert await going(world) == {"none", "short"}
        assert ("TaintManagerEviction", "Cancelling deletion of Pod ns/long") in await events(world)
        await passes(200)
        assert "long" not in await going(world)


async def test_other_tasks_run_while_all_nodes_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """One node takes longer here than other work should wait."""
    monkeypatch.setattr(turns, "SLICE", -1.0)
    names = [f"n{number}" for number in range(20)]

    async with World(COMPONENTS[0]) as world:
        await nodes(world, *names)
        await passes(10)
        (component,) = world.manager.components
        assert isinstance(component, NodeLifecycle)
        looked = asyncio.ensure_future(component._monitor.check_all(""))
        others = 0
        while not looked.done():
            others += 1
            await asyncio.sleep(0)
        assert others > 2 * len(names), "in the look for new nodes, and in that at their health"
