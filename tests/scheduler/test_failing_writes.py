"""Failed writes of a scheduling attempt: reservations are released and the pod is retried."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from apiserver.api.objects import Json
from apiserver.authentication.authenticator import ADMIN
from apiserver.http.handlers.faults import Faults, Match, Rule
from apiserver.request.messages import Request, User
from controllers.runtime.kinds import EVENTS, PODS, RESOURCE_CLAIMS
from controllers.scheduler.framework.framework import Plugin, PluginError
from controllers.scheduler.framework.status import Rejection
from controllers.scheduler.state.nodes import NodeInfo
from controllers.scheduler.state.pod_info import PodInfo
from controllers.scheduler.writes.pods import PodWriter
from tests.scheduler.world import World, scheduled, scheduler_world
from tests.support.objects import make_claim, make_device_class, make_node, make_pod, make_slice
from tests.support.virtual import passes

pytestmark = pytest.mark.integration

FINALIZER = "resource.kubernetes.io/delete-protection"
FAILED = "an error on the server prevented the request from succeeding"
PRE_BIND = 'running PreBind plugin "DynamicResources"'


def faults(world: World, *rules: Rule) -> Faults:
    async def authenticate(_: Request) -> User:
        return ADMIN

    found = Faults(world.server.chain, authenticate)
    for rule in rules:
        found.add(rule)
    return found


def fails(verb: str, resource: str, status: int = 500, count: int | None = 1, name: str = "") -> Rule:
    return Rule(id="f", match=Match(verb=verb, resource=resource, name=name), status=status, count=count)


def with_claim(name: str, claim: str, **more: Any) -> Json:
    return make_pod(name, claims={"g": claim}, **more)


def gpu_node(**node: Any) -> tuple[Json, ...]:
    """Build a node with a device, and a claim."""
    return make_device_class(), make_node("n1", **node), make_slice("n1"), make_claim("c")


@pytest.mark.parametrize("resource", ["resourceclaims", "resourceclaims/status"])
@pytest.mark.parametrize(("conflicts", "works"), [(4, True), (5, False)])
async def test_a_conflicting_write_of_a_claim_is_retried_four_times_with_the_latest_claim(
    resource: str, conflicts: int, works: bool
) -> None:
    async with scheduler_world(*gpu_node()) as world:
        rules = faults(world, fails("update", resource, 409, conflicts))
        await world.add(with_claim("p", "c"))
        await world.bound("p")
        await passes()
        events = await world.items(EVENTS)
        assert any(event["reason"] == "FailedScheduling" for event in events) is not works
        assert rules.rules()[0].fired == conflicts
        claim = await world.claim("c")
        assert claim["metadata"]["finalizers"] == [FINALIZER]
        assert [user["name"] for user in claim["status"]["reservedFor"]] == ["p"]


@pytest.mark.parametrize(
    ("verb", "resource", "text"),
    [
        ("update", "resourceclaims", f"{PRE_BIND}: add finalizer to claim ns/c: {FAILED}"),
        ("update", "resourceclaims/status", f"{PRE_BIND}: add allocation and reservation to claim ns/c: {FAILED}"),
        ("create", "pods/binding", f'running Bind plugin "DefaultBinder": {FAILED}'),
    ],
)
async def test_a_failed_write_is_reported_and_the_pod_is_retried_with_the_released_resources(
    verb: str, resource: str, text: str
) -> None:
    """The node has room for one pod and one device. Neither may stay reserved."""
    async with scheduler_world(*gpu_node(cpu="1")) as world:
        faults(world, fails(verb, resource))
        await world.add(with_claim("p", "c", requests={"cpu": "1"}))
        pod = await world.until(PODS, "ns/p", lambda p: scheduled(p).get("status") == "False")
        assert scheduled(pod)["message"] == text
        assert scheduled(pod)["reason"] == "SchedulerError"
        assert not pod["status"].get("nominatedNodeName")
        assert not (await world.claim("c")).get("status", {}).get("reservedFor")
        assert await world.node_of("p") == "n1"


async def test_a_pod_gets_the_node_of_one_whose_binding_failed() -> None:
    async with scheduler_world(make_node("n1", cpu="1")) as world:
        # The binding of the first pod is slow, so that the second pod finds the node full meanwhile.
        faults(world, Rule(id="slow", match=Match(resource="pods/binding", name="a"), status=500, latency=20, count=1))
        await world.add(make_pod("a", requests={"cpu": "1"}))
        await passes(1)
        await world.add(make_pod("b", requests={"cpu": "1"}, priority=0))
        assert "Insufficient cpu" in await world.unschedulable("b")
        await world.client.patch(PODS, "a", {"metadata": {"finalizers": ["example.com/held"]}}, "ns")
        await world.client.delete(PODS, "a", "ns")
        assert await world.node_of("b") == "n1"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ("deleted", "claim ns/c got deleted in the meantime"),
        ("allocated", "claim ns/c got allocated elsewhere in the meantime"),
        ("gone", "get updated claim ns/c after conflict: "),
    ],
)
async def test_a_claim_that_another_client_changed_meanwhile_is_not_written(change: str, text: str) -> None:
    async with scheduler_world(*gpu_node()) as world:
        # The first write of the scheduler fails with a conflict a second later. By then the claim has changed.
        faults(world, Rule(id="slow", match=Match(verb="update", resource="resourceclaims/status"), status=409,
                           latency=1, count=1))  # fmt: skip
        await world.add(with_claim("p", "c"))
        await passes(0.5)
        claim = await world.claim("c")
        assert claim["metadata"]["finalizers"] == [FINALIZER]
        if change == "allocated":
            result = {"request": "r", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}
            status = {"allocation": {"devices": {"results": [result]}}}
            await world.client.patch(RESOURCE_CLAIMS, "c", {"status": status}, "ns", subresource="status")
        else:
            await world.client.delete(RESOURCE_CLAIMS, "c", "ns")
            if change == "gone":
                claim = await world.claim("c")
                await world.client.update(
                    RESOURCE_CLAIMS, {**claim, "metadata": {**claim["metadata"], "finalizers": []}}
                )
        pod = await world.until(PODS, "ns/p", lambda p: text in scheduled(p).get("message", ""))
        assert scheduled(pod)["reason"] == "SchedulerError"


async def test_a_reservation_whose_release_fails_is_used_by_the_next_attempt() -> None:
    async with scheduler_world(*gpu_node()) as world:
        faults(world, fails("create", "pods/binding"),
               Rule(id="g", match=Match(verb="patch", resource="resourceclaims/status"), status=500, count=1))  # fmt: skip
        await world.add(with_claim("p", "c"))
        await world.unschedulable("p")
        assert [user["name"] for user in (await world.claim("c"))["status"]["reservedFor"]] == ["p"]
        await world.bound("p")
        assert len((await world.claim("c"))["status"]["reservedFor"]) == 1


@pytest.mark.parametrize(("failures", "seconds"), [(1, 0.01), (2, 0.06), (3, 0.31)])
async def test_a_failed_status_write_of_a_pod_is_retried_with_fivefold_pauses(failures: int, seconds: float) -> None:
    async with World() as world:
        pod = await world.add(make_pod("p"))
        faults(world, fails("patch", "pods/status", 503, failures))
        loop = asyncio.get_running_loop()
        before = loop.time()
        await PodWriter(world.client).nominate(pod, "n1")
        assert loop.time() - before == pytest.approx(seconds)
        assert (await world.pod("p"))["status"]["nominatedNodeName"] == "n1"


@pytest.mark.parametrize(("status", "tries"), [(500, 4), (503, 4), (429, 4), (409, 1)])
async def test_a_status_write_of_a_pod_is_abandoned_after_four_tries_and_a_conflict_is_not_retried(
    status: int, tries: int
) -> None:
    async with World() as world:
        pod = await world.add(make_pod("p"))
        rules = faults(world, fails("patch", "pods/status", status, None))
        await PodWriter(world.client).nominate(pod, "n1")
        assert rules.rules()[0].fired == tries


class ReservingPlugin:
    """A plugin that reserves something for a pod and rejects the first pod."""

    def __init__(self, answer: Rejection | Exception) -> None:
        self.answer: Rejection | Exception | None = answer
        self.calls: list[str] = []
        self.plugin = Plugin(
            name="Reserving", pre_filter=lambda pod: pod.name, reserve=self._reserve, unreserve=self._unreserve
        )

    def _reserve(self, pod: PodInfo, _: str, node: NodeInfo) -> Rejection | None:
        answer, self.answer = self.answer, None
        self.calls.append(f"reserve {pod.name}")
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def _unreserve(self, pod: PodInfo, _: str) -> None:
        self.calls.append(f"unreserve {pod.name}")


@pytest.mark.parametrize(
    ("answer", "reason", "text"),
    [
        (PluginError("no paper"), "SchedulerError", 'running Reserve plugin "Reserving": no paper'),
        (Rejection("Reserving", ("paper ran out",)), "Unschedulable", "0/1 nodes are available: 1 paper ran out."),
        (ZeroDivisionError("by zero"), "SchedulerError", "unexpected ZeroDivisionError: by zero"),
    ],
)
async def test_reservations_are_released_when_a_later_plugin_rejects_the_pod(
    answer: Rejection | Exception, reason: str, text: str
) -> None:
    plugin = ReservingPlugin(answer)
    # A plugin need not have an unreserve.
    light = Plugin(name="Light", pre_filter=lambda pod: pod.name, reserve=lambda *_: None)
    async with World(plugins=(light, plugin.plugin)) as world:
        await world.add(*gpu_node(cpu="1"), with_claim("p", "c", requests={"cpu": "1"}))
        pod = await world.until(PODS, "ns/p", lambda p: scheduled(p).get("status") == "False")
        assert scheduled(pod)["reason"] == reason
        assert scheduled(pod)["message"].startswith(text)
        assert plugin.calls[:2] == ["reserve p", "unreserve p"]
        # Node and device are free again for the next attempt.
        assert await world.node_of("p") == "n1"
        assert plugin.calls[2:] == ["reserve p"]
