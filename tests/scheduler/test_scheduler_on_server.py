"""The scheduler against the real API: what it writes, in which order and words."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from controllers.runtime.kinds import (
    DEVICE_CLASSES,
    EVENTS,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
)
from controllers.scheduler.writes.pods import PodWriter
from tests.scheduler.world import World, scheduled
from tests.support.objects import make_claim, make_device_class, make_node, make_pod, make_slice, near

FINALIZER = "resource.kubernetes.io/delete-protection"
NO_DEVICES = (
    "0/1 nodes are available: 1 cannot allocate all claims. still not schedulable, "
    "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
)


def named_claim(name: str) -> Json:
    return {"resourceClaims": [{"name": "g", "resourceClaimName": name}]}


async def with_devices(world: World, *nodes: str, devices: int = 1) -> None:
    await world.add(make_device_class())
    for node in nodes:
        await world.add(make_node(node), make_slice(node, devices))


async def test_a_pod_is_bound_and_an_event_says_so() -> None:
    async with World("scheduler") as world:
        await world.add(make_node("n1"), make_pod("p"))
        pod = await world.bound("p")
        assert pod["spec"]["nodeName"] == "n1"
        assert scheduled(pod)["status"] == "True"
        uid = pod["metadata"]["uid"]
        async with asyncio.timeout(10), aclosing(world.client.watch(EVENTS, initial_events=True)) as batches:
            event = await anext(e.object async for batch in batches for e in batch if e.type == "ADDED")
        assert (event["type"], event["reason"], event["action"]) == ("Normal", "Scheduled", "Binding")
        assert event["note"] == "Successfully assigned ns/p to n1"
        assert event["reportingController"] == "default-scheduler"
        assert event["regarding"]["uid"] == uid
        name, _, stamp = event["metadata"]["name"].rpartition(".")
        assert name == "p"
        assert int(stamp, 16) > 10**18


async def test_a_pod_that_has_finished_makes_room_for_the_next() -> None:
    async with World("scheduler") as world:
        await world.add(make_node("n1", cpu="2"))
        for name in ("p", "q"):
            await world.add(make_pod(name, requests={"cpu": "2"}))
        pod = await world.bound("p")
        assert "1 Insufficient cpu" in await world.unschedulable("q")
        await world.client.update_status(PODS, {**pod, "status": {**pod["status"], "phase": "Succeeded"}})
        assert await world.node_of("q") == "n1"


async def test_a_claim_is_protected_then_allocated_and_reserved_before_its_pod_is_bound() -> None:
    async with World("scheduler") as world:
        await with_devices(world, "n1")
        made = await world.add(make_claim("c"))
        await world.add(make_pod("p", **named_claim("c")))
        pod = await world.bound("p")
        steps = []
        since = made["metadata"]["resourceVersion"]
        async with (
            asyncio.timeout(10),
            aclosing(world.client.watch(RESOURCE_CLAIMS, resource_version=since)) as batches,
        ):
            async for batch in batches:
                steps += [event.object for event in batch if event.type != "BOOKMARK"]
                if len(steps) == 2:
                    break
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


async def test_a_pod_without_devices_says_why_and_is_bound_once_a_slice_brings_some() -> None:
    async with World("scheduler") as world:
        await with_devices(world, "n1", devices=0)
        await world.add(make_claim("c"), make_pod("p", **named_claim("c")))
        assert await world.unschedulable("p") == NO_DEVICES
        condition = scheduled(await world.pod("p"))
        assert condition["reason"] == "Unschedulable"
        assert condition["observedGeneration"] == 1
        await world.add({**make_slice("n1", 1), "metadata": {"name": "more"}, "spec": {
            **make_slice("n1", 1)["spec"], "pool": {"name": "other", "generation": 1, "resourceSliceCount": 1}}})  # fmt: skip
        assert await world.node_of("p") == "n1"


async def test_pods_share_a_named_claim_on_the_node_that_it_was_allocated_on() -> None:
    async with World("scheduler") as world:
        await with_devices(world, "n1", "n2")
        await world.add(make_claim("c"))
        for name in ("a", "b", "c"):
            await world.add(make_pod(name, **named_claim("c")))
        nodes = {await world.node_of(name) for name in ("a", "b", "c")}
        assert len(nodes) == 1
        claim = await world.claim("c")
        assert {consumer["name"] for consumer in claim["status"]["reservedFor"]} == {"a", "b", "c"}


async def test_many_pods_that_share_a_claim_do_not_run_into_each_others_writes() -> None:
    async with World("scheduler") as world:
        await with_devices(world, "n1")
        await world.add(make_claim("c"), make_pod("first", **named_claim("c")))
        await world.bound("first")
        names = [f"p{number}" for number in range(40)]
        await asyncio.gather(*(world.create(PODS, make_pod(name, **named_claim("c"))) for name in names))
        for name in names:
            await world.bound(name)
        events = await world.client.list(EVENTS, "ns")
        assert [event["note"] for event in events["items"] if event["reason"] == "FailedScheduling"] == []
        assert len((await world.claim("c"))["status"]["reservedFor"]) == 41


async def test_devices_are_given_once_and_each_pod_goes_to_the_node_of_its_own() -> None:
    async with World("scheduler") as world:
        await with_devices(world, "n1", "n2", "n3", devices=2)
        for number in range(7):
            await world.add(make_claim(f"c{number}"), make_pod(f"p{number}", priority=0, **named_claim(f"c{number}")))
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


async def test_a_claim_that_is_deallocated_lets_the_next_pod_have_its_device() -> None:
    async with World("scheduler") as world:
        await with_devices(world, "n1")
        for name in ("one", "two"):
            await world.add(make_claim(name))
        await world.add(make_pod("first", **named_claim("one")))
        await world.bound("first")
        await world.add(make_pod("second", **named_claim("two")))
        assert await world.unschedulable("second") == NO_DEVICES
        held = await world.claim("one")
        await world.client.update_status(RESOURCE_CLAIMS, {**held, "status": {}})
        await world.bound("second")


async def test_template_pods_get_claims_of_their_own_and_wait_for_them_without_a_word() -> None:
    async with World("scheduler", "resourceclaim-controller") as world:
        await with_devices(world, "n1", devices=2)
        for name in ("a", "b"):
            await world.add(make_pod(name, resourceClaims=[{"name": "g", "resourceClaimTemplateName": "t"}]))
        template = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": "t", "namespace": "ns"},
            "spec": {"spec": make_claim("x")["spec"]},
        }
        await world.add(template)
        for name in ("a", "b"):
            pod = await world.bound(name)
            [status] = pod["status"]["resourceClaimStatuses"]
            claim = await world.claim(status["resourceClaimName"])
            assert claim["metadata"]["ownerReferences"][0]["uid"] == pod["metadata"]["uid"]
            assert claim["status"]["reservedFor"][0]["uid"] == pod["metadata"]["uid"]


async def test_a_pod_with_gates_is_left_alone_until_they_are_gone() -> None:
    async with World("scheduler") as world:
        await world.add(
            make_node("n1"), make_pod("gated", schedulingGates=[{"name": "example.com/g"}]), make_pod("free")
        )
        await world.bound("free")
        gated = await world.pod("gated")
        assert not gated["spec"].get("nodeName")
        await world.client.update(PODS, {**gated, "spec": {**gated["spec"], "schedulingGates": []}})
        await world.bound("gated")


async def test_more_important_pods_push_out_less_important_ones_and_say_so() -> None:
    async with World("scheduler") as world:
        await world.add(
            make_node("n1", cpu="2"),
            make_pod("low", requests={"cpu": "2"}, priority=0, terminationGracePeriodSeconds=0),
        )
        await world.bound("low")
        await world.add(make_pod("equal", requests={"cpu": "2"}, priority=0))
        assert (
            await world.unschedulable("equal")
            == "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, "
            "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
        )
        await world.add(make_pod("high", requests={"cpu": "2"}, priorityClassName="system-cluster-critical"))
        await world.bound("high")
        try:
            low = await world.pod("low")
        except StatusError as error:
            assert error.code == 404  # noqa: PT017
        else:
            assert low["metadata"].get("deletionTimestamp")


async def test_a_pod_that_no_node_can_be_made_free_for_waits_for_none() -> None:
    async with World("scheduler") as world:
        await world.add(
            make_node("n1", cpu="1"), make_pod("p", requests={"cpu": "2"}, schedulingGates=[{"name": "example.com/g"}])
        )
        pod = await world.pod("p")
        status = {**pod["status"], "nominatedNodeName": "n1"}
        pod = await world.client.update_status(PODS, {**pod, "status": status})
        await world.client.update(PODS, {**pod, "spec": {**pod["spec"], "schedulingGates": []}})
        await world.until(
            PODS,
            "ns/p",
            lambda obj: scheduled(obj).get("reason") == "Unschedulable" and not obj["status"].get("nominatedNodeName"),
        )


async def test_a_pod_that_gets_a_label_wakes_who_wants_to_be_near_such_pods() -> None:
    async with World("scheduler") as world:
        await world.add(make_node("n1", labels={"zone": "a"}), make_pod("a"))
        await world.bound("a")
        await world.add(make_pod("p", affinity=near("x")))
        assert "didn't match pod affinity rules" in await world.unschedulable("p")
        await world.client.patch(PODS, "a", {"metadata": {"labels": {"app": "x"}}}, "ns")
        await world.bound("p")


async def test_a_new_node_alone_wakes_a_pod_that_it_is_large_enough_for() -> None:
    async with World("scheduler") as world:
        await world.add(
            make_node("small", cpu="1"), make_pod("p", requests={"cpu": "2"}, tolerations=[{"operator": "Exists"}])
        )
        await world.unschedulable("p")
        await world.create(NODES, make_node("large"))
        assert await world.node_of("p") == "large"


async def test_a_node_that_comes_later_takes_the_waiting_pod() -> None:
    async with World("scheduler") as world:
        await world.add(make_node("small", cpu="1"), make_pod("p", requests={"cpu": "2"}))
        assert (
            await world.unschedulable("p")
            == "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, "
            "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
        )
        await world.add(make_node("big", cpu="4"))
        assert await world.node_of("p") == "big"


async def test_a_pod_of_another_scheduler_is_not_touched_but_counts_where_it_runs() -> None:
    async with World("scheduler") as world:
        await world.add(
            make_node("n1", cpu="1"),
            make_pod("theirs", requests={"cpu": "1"}, schedulerName="other", nodeName="n1"),
            make_pod("not-ours", schedulerName="other"),
            make_pod("ours", requests={"cpu": "1"}),
        )
        assert "Insufficient cpu" in await world.unschedulable("ours")
        pod = await world.pod("not-ours")
        assert not scheduled(pod)


async def test_without_nodes_a_pod_is_unschedulable_and_tried_again_when_one_comes() -> None:
    async with World("scheduler") as world:
        await world.add(make_pod("p"))
        assert await world.unschedulable("p") == "no nodes available to schedule pods"
        assert scheduled(await world.pod("p"))["reason"] == "Unschedulable"
        await world.add(make_node("n1"))
        await world.bound("p")


@pytest.mark.parametrize(
    ("release", "gates"), [("1.33", ""), ("1.33", "DynamicResourceAllocation=true"), ("1.34", ""), ("1.35", "")]
)
async def test_older_releases_are_scheduled_for_with_the_api_that_they_serve(release: str, gates: str) -> None:
    async with World("scheduler", release=release, gates=gates) as world:
        await world.add(make_node("n1"), make_pod("plain"))
        await world.bound("plain")
        if release == "1.33" and not gates:
            return
        for kind, obj in (
            (DEVICE_CLASSES, make_device_class()),
            (RESOURCE_SLICES, make_slice("n1", 1)),
            (RESOURCE_CLAIMS, make_claim("c")),
        ):
            await world.create(kind, obj)
        await world.add(make_pod("p", **named_claim("c")))
        await world.bound("p")
        claim = await world.client.get(RESOURCE_CLAIMS, "c", "ns")
        assert claim["status"]["allocation"]["devices"]["results"][0]["device"] == "gpu-0"


async def test_what_was_found_out_about_a_pod_is_not_written_to_another_of_its_name() -> None:
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
