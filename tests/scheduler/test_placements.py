"""Scores of the placements that a pod group fits into."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.api.objects import Json
from controllers.scheduler.config.arguments import DEFAULTS, Arguments
from controllers.scheduler.framework.framework import Placement
from controllers.scheduler.plugins.resources import node_resources_fit
from controllers.scheduler.podgroups.gangs import pods_count
from controllers.scheduler.state.nodes import NodeInfo
from tests.scheduler.test_gangs import BY_RACK, TOPOLOGY, member, nodes
from tests.scheduler.world import World
from tests.support.objects import info, make_node, make_pod, make_pod_group
from tests.support.virtual import passes

GPU = "example.com/gpu"
BOTH = (("cpu", 1), ("memory", 1))


def make_node_info(name: str, *pods: Json, **more: Any) -> NodeInfo:
    found = NodeInfo(name)
    found.set_node(make_node(name, cpu="10", memory="1000", **more))
    for requests in pods:
        found.add_pod(info(requests=requests))
    return found


@pytest.mark.parametrize(
    ("resources", "group_asks", "there", "score"),
    [
        (BOTH, ({"cpu": "2", "memory": "0"}, {"cpu": "4", "memory": "400"}), (make_node_info("a"), make_node_info("b")), 25),
        ((("cpu", 4), ("memory", 1)), ({"cpu": "2", "memory": "0"}, {"cpu": "4", "memory": "400"}), (make_node_info("a"), make_node_info("b")), 28),
        (BOTH, ({"cpu": "2", "memory": "0"},), (make_node_info("a", {"cpu": "4", "memory": "200"}), make_node_info("b")), 20),
        # Requests beyond the capacity count as all of it.
        ((("cpu", 1),), ({"cpu": "9"}, {"cpu": "9"}), (make_node_info("a"),), 100),
        # A resource that no pod of the group requests, or that no node has, does not count.
        ((("cpu", 1), (GPU, 1)), ({"cpu": "5"},), (make_node_info("a", {GPU: "2"}, extra={GPU: "2"}),), 51),
        ((("cpu", 1), (GPU, 1)), ({"cpu": "4", GPU: "1"},), (make_node_info("a", extra={GPU: "2"}),), 45),
        ((("cpu", 1), (GPU, 1)), ({"cpu": "4", GPU: "1"},), (make_node_info("a"),), 40),
        # A pod without requests counts as a tenth of a processor.
        ((("cpu", 1),), ({},), (make_node_info("a", {}),), 2),
    ],
)  # fmt: skip
def test_the_score_of_a_placement_is_its_utilization(
    resources: tuple[tuple[str, int], ...], group_asks: tuple[Json, ...], there: tuple[NodeInfo, ...], score: int
) -> None:
    scored = node_resources_fit(arguments=Arguments(scored=resources)).placement_score
    assert scored is not None
    assert scored("ns/g", Placement(tuple(info(requests=asks) for asks in group_asks), there)) == score


def test_the_placement_that_takes_most_pods_scores_100() -> None:
    plugin = pods_count(None)
    assert plugin.placement_score is not None
    assert plugin.placement_normalize is not None
    scores = [plugin.placement_score("ns/g", Placement((info(),) * count, ())) for count in (1, 2, 3)]
    assert plugin.placement_normalize(scores) == [33, 66, 100]
    assert DEFAULTS.scored == BOTH


async def test_a_group_goes_to_the_fullest_domain_that_takes_all_of_it() -> None:
    async with World("scheduler", gates=TOPOLOGY) as world:
        racks = {"a": 2, "b": 3, "c": 3, "d": 4}
        await world.add(
            *(make_node(f"{rack}{n}", cpu="2", labels={"rack": rack}) for rack, size in racks.items() for n in range(size))
        )  # fmt: skip
        await world.add(
            make_pod("there", requests={"cpu": "2"}, nodeName="b0"),
            make_pod("elsewhere", requests={"cpu": "1"}, nodeName="c0"),
        )
        # Of the racks that take three more, 3 of 4 processors would be in use, 5 of 6, 4 of 6, 3 of 8.
        await world.add(make_pod_group(count=3, schedulingConstraints=BY_RACK), member("p"), member("q"), member("r"))
        await passes(1)
        found = await nodes(world)
        assert {str(found[name])[0] for name in "pqr"} == {"b"}
