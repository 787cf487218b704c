"""Which part of the cluster a group of pods goes to, of those that it fits into."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.api.objects import Json
from controllers.scheduler.config.arguments import DEFAULTS, Arguments
from controllers.scheduler.framework.framework import Placement
from controllers.scheduler.plugins.resources import node_resources_fit
from controllers.scheduler.podgroups.gangs import pods_count
from controllers.scheduler.state.nodes import NodeInfo
from tests.scheduler.test_gangs import TOPOLOGY, group, member, nodes
from tests.scheduler.world import World
from tests.support.objects import info, make_node, make_pod
from tests.support.virtual import passes

GPU = "example.com/gpu"
BOTH = (("cpu", 1), ("memory", 1))


def node(name: str, *pods: Json, **more: Any) -> NodeInfo:
    found = NodeInfo(name)
    found.set_node(make_node(name, cpu="10", memory="1000", **more))
    for requests in pods:
        found.add_pod(info(requests=requests))
    return found


@pytest.mark.parametrize(
    ("resources", "group_asks", "there", "score"),
    [
        (BOTH, ({"cpu": "2", "memory": "0"}, {"cpu": "4", "memory": "400"}), (node("a"), node("b")), 25),
        ((("cpu", 4), ("memory", 1)), ({"cpu": "2", "memory": "0"}, {"cpu": "4", "memory": "400"}), (node("a"), node("b")), 28),
        (BOTH, ({"cpu": "2", "memory": "0"},), (node("a", {"cpu": "4", "memory": "200"}), node("b")), 20),
        # More than there is counts as all.
        ((("cpu", 1),), ({"cpu": "9"}, {"cpu": "9"}), (node("a"),), 100),
        # A resource that no pod of the group asks for does not count, nor does one that no node has.
        ((("cpu", 1), (GPU, 1)), ({"cpu": "5"},), (node("a", {GPU: "2"}, extra={GPU: "2"}),), 51),
        ((("cpu", 1), (GPU, 1)), ({"cpu": "4", GPU: "1"},), (node("a", extra={GPU: "2"}),), 45),
        ((("cpu", 1), (GPU, 1)), ({"cpu": "4", GPU: "1"},), (node("a"),), 40),
        # Who asks for nothing is taken to ask for a tenth of a processor.
        ((("cpu", 1),), ({},), (node("a", {}),), 2),
    ],
)  # fmt: skip
def test_a_part_is_the_better_the_more_of_it_is_in_use_then(
    resources: tuple[tuple[str, int], ...], group_asks: tuple[Json, ...], there: tuple[NodeInfo, ...], score: int
) -> None:
    scored = node_resources_fit(arguments=Arguments(scored=resources)).placement_score
    assert scored is not None
    assert scored("ns/g", Placement(tuple(info(requests=asks) for asks in group_asks), there)) == score


def test_the_part_that_takes_most_pods_gets_a_hundred() -> None:
    plugin = pods_count(None)
    assert plugin.placement_score is not None
    assert plugin.placement_normalize is not None
    scores = [plugin.placement_score("ns/g", Placement((info(),) * count, ())) for count in (1, 2, 3)]
    assert plugin.placement_normalize(scores) == [33, 66, 100]
    assert DEFAULTS.scored == BOTH


async def test_a_group_goes_to_the_fullest_of_the_parts_that_take_all_of_it() -> None:
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
        await world.add(
            group(count=3, schedulingConstraints={"topology": [{"key": "rack"}]}), member("p"), member("q"), member("r")
        )
        await passes(1)
        found = await nodes(world)
        assert {str(found[name])[0] for name in "pqr"} == {"b"}
