"""What is written for a pod until it is bound: as much as kube-scheduler and kube-controller-manager write, and no more
(`python -m benchmarks.scheduling --writes` counts theirs).
"""

from __future__ import annotations

from collections import Counter

import pytest

from apiserver.api.objects import Json
from controllers.runtime.kinds import NODES
from tests.scheduler.groupsituations import GATES, pod_group
from tests.scheduler.situations import device_class
from tests.scheduler.world import World
from tests.support.objects import make_claim, make_node, make_pod, make_slice
from tests.support.virtual import passes

GPU = "example.com/gpu"
COMPONENTS = ("scheduler", "resourceclaim-controller")
PLAIN = {"create events": 1, "create pods/binding": 1}
#: The claim itself, its finalizer and its allocation; in the pod's status the claim's name, and where it is expected.
CLAIM = {
    "create resourceclaims": 1, "update resourceclaims": 1, "update resourceclaims/status": 1, "patch pods/status": 2,
}  # fmt: skip
COUNT = 4


def written(world: World) -> Counter[str]:
    """What components wrote so far."""
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
async def test_a_pod_costs_the_writes_that_it_costs_upstream(spec: Json, expected: dict[str, int]) -> None:
    async with World(*COMPONENTS) as world:
        await world.add(device_class("gpu", GPU), make_node("n1"), make_slice("n1", COUNT))
        template = {"metadata": {"name": "one", "namespace": "ns"}, "spec": {"spec": make_claim("x")["spec"]}}
        await world.add(template)
        await passes(1)
        before = written(world)
        for number in range(COUNT):
            await world.add(make_pod(f"p{number}", **spec))
        await passes(2)
        assert written(world) - before == {what: count * COUNT for what, count in expected.items()}


async def test_pods_of_a_gang_cost_what_single_ones_do_and_one_status_of_their_group() -> None:
    async with World("scheduler", gates=GATES) as world:
        await world.add(make_node("n1"), pod_group("g", COUNT, rack=False))
        await passes(1)
        before = written(world)
        for number in range(COUNT):
            await world.add(make_pod(f"p{number}", schedulingGroup={"podGroupName": "g"}))
        await passes(2)
        expected = {what: count * COUNT for what, count in PLAIN.items()}
        assert written(world) - before == {**expected, "patch podgroups/status": 1}


async def test_an_attempt_in_vain_costs_a_condition_and_an_event_and_none_costs_nothing() -> None:
    """A node that changes so that a pod may fit is a reason to try; time alone is none for five minutes."""

    async with World("scheduler") as world:
        await world.add(*(make_node(f"n{number}", cpu="1") for number in range(COUNT)))
        before = written(world)
        await world.add(make_pod("p", requests={"cpu": "2"}, nodeSelector={"fits": "yes"}))
        for number in range(COUNT):
            await passes(60)
            found = written(world) - before
            assert found == {"patch pods/status": number + 1, "create events": number + 1}
            await world.client.patch(NODES, f"n{number}", {"metadata": {"labels": {"fits": "yes"}}}, type="merge")
