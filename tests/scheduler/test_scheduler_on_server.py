"""The scheduler against the real API: its writes, their order and their texts."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from apiserver.api.objects import Json
from controllers.runtime.kinds import EVENTS, NODES, PODS, RESOURCE_CLAIMS
from controllers.scheduler.writes.pods import PodWriter
from tests.scheduler.world import World, scheduled, scheduler_world
from tests.support.objects import (
    make_claim,
    make_claim_template,
    make_device_class,
    make_node,
    make_pod,
    make_slice,
    near,
)

pytestmark = pytest.mark.integration

FINALIZER = "resource.kubernetes.io/delete-protection"
GATE = {"name": "example.com/g"}
FULL = "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are available: "
NO_DEVICES = (
    "0/1 nodes are available: 1 cannot allocate all claims. still not schedulable, "
    "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
)


def with_claim(name: str, claim: str = "c", **spec: Any) -> Json:
    return make_pod(name, claims={"g": claim}, **spec)


async def add_devices(world: World, *nodes: str, devices: int = 1) -> None:
    """Create nodes with devices, and a claim."""
    await world.add(make_device_class(), make_claim("c"))
    for node in nodes:
        await world.add(make_node(node), make_slice(node, devices))


async def test_a_pod_is_bound_and_an_event_says_so() -> None:
    async with scheduler_world(make_node("n1"), make_pod("p")) as world:
        pod = await world.bound("p")
        assert pod["spec"]["nodeName"] == "n1"
        assert scheduled(pod)["status"] == "True"
        async with asyncio.timeout(10), aclosing(world.client.watch(EVENTS, initial_events=True)) as batches:
            event = await anext(e.object async for batch in batches for e in batch if e.type == "ADDED")
        assert (event["type"], event["reason"], event["action"]) == ("Normal", "Scheduled", "Binding")
        assert event["note"] == "Successfully assigned ns/p to n1"
        assert event["reportingController"] == "default-scheduler"
        assert event["regarding"]["uid"] == pod["metadata"]["uid"]
        name, _, stamp = event["metadata"]["name"].rpartition(".")
        assert name == "p"
        assert int(stamp, 16) > 10**18


async def test_a_finished_pod_frees_its_node() -> None:
    async with scheduler_world(make_node("n1", cpu="2")) as world:
        for name in ("p", "q"):
            await world.add(make_pod(name, requests={"cpu": "2"}))
        pod = await world.bound("p")
        assert "1 Insufficient cpu" in await world.unschedulable("q")
        await world.client.update_status(PODS, {**pod, "status": {**pod["status"], "phase": "Succeeded"}})
        assert await world.node_of("q") == "n1"


async def test_a_claim_is_protected_then_allocated_and_reserved_before_its_pod_is_bound() -> None:
    async with World("scheduler") as world:
        await add_devices(world, "n1")
        since = (await world.claim("c"))["metadata"]["resourceVersion"]
        await world.add(with_claim("p"))
        pod = await world.bound("p")
        steps: list[Json] = []
        async with (
            asyncio.timeout(10),
            aclosing(world.client.watch(RESOURCE_CLAIMS, resource_version=since)) as batches,
        ):
            while len(steps) < 2:
                steps += [event.object for event in await anext(batches) if event.type != "BOOKMARK"]
        assert [bool(c["metadata"].get("finalizers")) for c in steps] == [True, True]
        assert [bool(c.get("status", {}).get("allocation")) for c in steps] == [False, True]
        claim = steps[-1]
        assert claim["metadata"]["finalizers"] == [FINALIZER]
        allocation = claim["status"]["allocation"]
        assert allocation["devices"]["results"] == [
            {"request": "r", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}
        ]
        assert allocation["nodeSelector"]["nodeSelectorTerms"] == [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
        ]
        assert allocation["allocationTimestamp"]
        assert claim["status"]["reservedFor"] == [{"resource": "pods", "name": "p", "uid": pod["metadata"]["uid"]}]
        assert not pod["status"].get("nominatedNodeName")


async def test_a_pod_without_devices_reports_why_and_is_bound_once_a_slice_brings_some() -> None:
    async with World("scheduler") as world:
        await add_devices(world, "n1", devices=0)
        await world.add(with_claim("p"))
        assert await world.unschedulable("p") == NO_DEVICES
        condition = scheduled(await world.pod("p"))
        assert condition["reason"] == "Unschedulable"
        assert condition["observedGeneration"] == 1
        await world.add({**make_slice("n1", pool="other"), "metadata": {"name": "more"}})
        assert await world.node_of("p") == "n1"


async def test_pods_share_a_claim_on_the_node_of_its_allocation() -> None:
    async with World("scheduler") as world:
        await add_devices(world, "n1", "n2")
        await world.add(*map(with_claim, "abc"))
        assert len({await world.node_of(name) for name in "abc"}) == 1
        claim = await world.claim("c")
        assert {consumer["name"] for consumer in claim["status"]["reservedFor"]} == {"a", "b", "c"}


async def test_many_pods_that_share_a_claim_cause_no_conflicts() -> None:
    async with World("scheduler") as world:
        await add_devices(world, "n1")
        await world.add(with_claim("first"))
        await world.bound("first")
        names = [f"p{number}" for number in range(40)]
        await asyncio.gather(*(world.add(with_claim(name)) for name in names))
        await world.bound(*names)
        events = await world.client.list(EVENTS, "ns")
        assert [event["note"] for event in events["items"] if event["reason"] == "FailedScheduling"] == []
        assert len((await world.claim("c"))["status"]["reservedFor"]) == 41


async def test_each_device_is_allocated_once_and_each_pod_goes_to_the_node_of_its_device() -> None:
    async with World("scheduler") as world:
        await add_devices(world, "n1", "n2", "n3", devices=2)
        for number in range(7):
            await world.add(make_claim(f"c{number}"), with_claim(f"p{number}", f"c{number}", priority=0))
        waiting = []
        for number in range(7):
            pod = await world.until(PODS, f"ns/p{number}", lambda p: p["spec"].get("nodeName") or scheduled(p))
            if not pod["spec"].get("nodeName"):
                waiting.append(number)
        assert len(waiting) == 1
        taken = []
        for number in set(range(7)) - set(waiting):
            claim = await world.claim(f"c{number}")
            [result] = claim["status"]["allocation"]["devices"]["results"]
            taken.append((result["pool"], result["device"]))
            pod = await world.pod(f"p{number}")
            assert pod["spec"]["nodeName"] == result["pool"]
        assert len(set(taken)) == 6


async def test_a_deallocated_claim_frees_its_device_for_the_next_pod() -> None:
    async with World("scheduler") as world:
        await add_devices(world, "n1")
        await world.add(make_claim("one"), make_claim("two"), with_claim("first", "one"))
        await world.bound("first")
        await world.add(with_claim("second", "two"))
        assert await world.unschedulable("second") == NO_DEVICES
        held = await world.claim("one")
        await world.client.update_status(RESOURCE_CLAIMS, {**held, "status": {}})
        await world.bound("second")


async def test_pods_with_templates_wait_for_claims_of_their_own() -> None:
    async with World("scheduler", "resourceclaim-controller") as world:
        await add_devices(world, "n1", devices=2)
        entry = {"name": "g", "resourceClaimTemplateName": "t"}
        await world.add(*(make_pod(name, resourceClaims=[entry]) for name in "ab"), make_claim_template("t"))
        for name in ("a", "b"):
            pod = await world.bound(name)
            [status] = pod["status"]["resourceClaimStatuses"]
            claim = await world.claim(status["resourceClaimName"])
            assert claim["metadata"]["ownerReferences"][0]["uid"] == pod["metadata"]["uid"]
            assert claim["status"]["reservedFor"][0]["uid"] == pod["metadata"]["uid"]


async def test_a_pod_with_gates_is_not_tried_until_they_are_removed() -> None:
    async with scheduler_world(make_node("n1"), make_pod("gated", schedulingGates=[GATE]), make_pod("free")) as world:
        await world.bound("free")
        gated = await world.pod("gated")
        assert not gated["spec"].get("nodeName")
        await world.client.update(PODS, {**gated, "spec": {**gated["spec"], "schedulingGates": []}})
        await world.bound("gated")


async def test_pods_of_higher_priority_preempt_others() -> None:
    async with scheduler_world(make_node("n1", cpu="2")) as world:
        await world.add(make_pod("low", requests={"cpu": "2"}, priority=0, terminationGracePeriodSeconds=0))
        await world.bound("low")
        await world.add(make_pod("equal", requests={"cpu": "2"}, priority=0))
        assert await world.unschedulable("equal") == f"{FULL}1 No preemption victims found for incoming pod."
        await world.add(make_pod("high", requests={"cpu": "2"}, priorityClassName="system-cluster-critical"))
        await world.bound("high")
        pods = {pod["metadata"]["name"]: pod["metadata"] for pod in await world.items(PODS)}
        assert "low" not in pods or "deletionTimestamp" in pods["low"]


async def test_a_nomination_is_removed_where_preemption_does_not_help() -> None:
    async with World("scheduler") as world:
        await world.add(make_node("n1", cpu="1"), make_pod("p", requests={"cpu": "2"}, schedulingGates=[GATE]))
        pod = await world.pod("p")
        status = {**pod["status"], "nominatedNodeName": "n1"}
        pod = await world.client.update_status(PODS, {**pod, "status": status})
        await world.client.update(PODS, {**pod, "spec": {**pod["spec"], "schedulingGates": []}})
        pod = await world.until(PODS, "ns/p", lambda pod: scheduled(pod).get("reason") == "Unschedulable")
        assert not pod["status"].get("nominatedNodeName")


async def test_a_label_of_a_pod_wakes_pods_with_affinity_to_it() -> None:
    async with scheduler_world(make_node("n1", labels={"zone": "a"}), make_pod("a")) as world:
        await world.bound("a")
        await world.add(make_pod("p", affinity=near("x")))
        assert "didn't match pod affinity rules" in await world.unschedulable("p")
        await world.client.patch(PODS, "a", {"metadata": {"labels": {"app": "x"}}}, "ns")
        await world.bound("p")


async def test_a_new_node_wakes_a_pod_that_fits_there() -> None:
    async with scheduler_world(make_node("small", cpu="1")) as world:
        await world.add(make_pod("p", requests={"cpu": "2"}, tolerations=[{"operator": "Exists"}]))
        await world.unschedulable("p")
        await world.create(NODES, make_node("large"))
        assert await world.node_of("p") == "large"


async def test_a_pod_is_bound_to_a_node_that_comes_later() -> None:
    async with scheduler_world(make_node("small", cpu="1"), make_pod("p", requests={"cpu": "2"})) as world:
        assert await world.unschedulable("p") == f"{FULL}1 Preemption is not helpful for scheduling."
        await world.add(make_node("big", cpu="4"))
        assert await world.node_of("p") == "big"


async def test_a_pod_of_another_scheduler_is_not_tried_but_counts_on_its_node() -> None:
    async with scheduler_world(make_node("n1", cpu="1")) as world:
        await world.add(make_pod("theirs", requests={"cpu": "1"}, schedulerName="other", nodeName="n1"))
        await world.add(make_pod("not-ours", schedulerName="other"), make_pod("ours", requests={"cpu": "1"}))
        assert "Insufficient cpu" in await world.unschedulable("ours")
        assert not scheduled(await world.pod("not-ours"))


async def test_without_nodes_a_pod_is_unschedulable_and_retried_when_one_comes() -> None:
    async with scheduler_world(make_pod("p")) as world:
        assert await world.unschedulable("p") == "no nodes available to schedule pods"
        assert scheduled(await world.pod("p"))["reason"] == "Unschedulable"
        await world.add(make_node("n1"))
        await world.bound("p")


@pytest.mark.parametrize(
    ("release", "gates"), [("1.33", ""), ("1.33", "DynamicResourceAllocation=true"), ("1.34", ""), ("1.35", "")]
)
async def test_the_scheduler_works_with_the_api_of_older_releases(release: str, gates: str) -> None:
    async with scheduler_world(make_node("n1"), make_pod("plain"), release=release, gates=gates) as world:
        await world.bound("plain")
        if release == "1.33" and not gates:
            return
        await world.add(make_device_class(), make_slice("n1", 1), make_claim("c"), with_claim("p"))
        await world.bound("p")
        claim = await world.claim("c")
        assert claim["status"]["allocation"]["devices"]["results"][0]["device"] == "gpu-0"


async def test_a_status_is_not_written_to_another_pod_of_the_same_name() -> None:
    async with World() as world:
        first = await world.add(make_pod("p"))
        await world.client.delete(PODS, "p", "ns", grace_period=0)
        second = await world.add(make_pod("p"))
        writer = PodWriter(world.client)
        await writer.write_unscheduled(first, "Unschedulable", "0/0 nodes are available", "n1")
        await writer.nominate(first, "n1")
        assert (await world.pod("p"))["status"] == second["status"]
        await writer.nominate(second, "n1")
        assert (await world.pod("p"))["status"]["nominatedNodeName"] == "n1"
