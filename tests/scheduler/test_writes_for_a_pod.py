"""Writes for a pod until it is bound: as many as kube-scheduler and kube-controller-manager make.

`python -m benchmarks.scheduling --writes` counts upstream's.
"""

from __future__ import annotations

from collections import Counter

import pytest

from apiserver.api.objects import Json
from controllers.runtime.kinds import NODES
from tests.scheduler.groupsituations import GATES
from tests.scheduler.situations import device_class
from tests.scheduler.world import World, scheduler_world
from tests.support.objects import make_claim_template, make_node, make_pod, make_pod_group, make_slice
from tests.support.virtual import passes

pytestmark = pytest.mark.integration

GPU = "example.com/gpu"
COMPONENTS = ("scheduler", "resourceclaim-controller")
PLAIN = {"create events": 1, "create pods/binding": 1}
#: The claim, its finalizer and its allocation. The pod's status gets the name of the claim and the nominated node.
CLAIM = {
    "create resourceclaims": 1,
    "update resourceclaims": 1,
    "update resourceclaims/status": 1,
    "patch pods/status": 2,
}
COUNT = 4


def count_writes(world: World) -> Counter[str]:
    """Count the writes of components so far."""
    found: Counter[str] = Counter()
    for record in world.server.requests.latest():
        info = record.info
        if record.user_agent != "test" and info.verb not in ("get", "list", "watch"):
            found["/".join(filter(None, (f"{info.verb} {info.resource}", info.subresource)))] += 1
    return found


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, PLAIN),
        ({"resourceClaims": [{"name": "d", "resourceClaimTemplateName": "one"}]}, PLAIN | CLAIM),
        ({"containers": [{"name": "c", "image": "i", "resources": {"limits": {GPU: "1"}}}]}, PLAIN | CLAIM),
    ],
    ids=["plain", "claim", "extended resource"],
)
async def test_a_pod_costs_as_many_writes_as_upstream(spec: Json, expected: dict[str, int]) -> None:
    async with World(*COMPONENTS) as world:
        await world.add(device_class("gpu", GPU), make_node("n1"), make_slice("n1", COUNT))
        await world.add(make_claim_template("one"))
        await passes(1)
        before = count_writes(world)
        for number in range(COUNT):
            await world.add(make_pod(f"p{number}", **spec))
        await passes(2)
        assert count_writes(world) - before == {what: count * COUNT for what, count in expected.items()}


async def test_pods_of_a_gang_cost_as_much_as_single_pods_and_one_status_of_the_group() -> None:
    async with scheduler_world(make_node("n1"), make_pod_group("g", COUNT), gates=GATES) as world:
        await passes(1)
        before = count_writes(world)
        for number in range(COUNT):
            await world.add(make_pod(f"p{number}", schedulingGroup={"podGroupName": "g"}))
        await passes(2)
        expected = {what: count * COUNT for what, count in PLAIN.items()}
        assert count_writes(world) - before == {**expected, "patch podgroups/status": 1}


async def test_a_failed_attempt_costs_a_condition_and_an_event() -> None:
    """A node change that may let the pod fit causes an attempt. Time causes none for five minutes."""
    async with scheduler_world(*(make_node(f"n{number}", cpu="1") for number in range(COUNT))) as world:
        before = count_writes(world)
        await world.add(make_pod("p", requests={"cpu": "2"}, nodeSelector={"fits": "yes"}))
        for number in range(COUNT):
            await passes(60)
            found = count_writes(world) - before
            assert found == {"patch pods/status": number + 1, "create events": number + 1}
            await world.client.patch(NODES, f"n{number}", {"metadata": {"labels": {"fits": "yes"}}}, type="merge")
