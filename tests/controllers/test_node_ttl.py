"""How long kubelets may keep what they have read, by the number of nodes. The server is real, time is virtual."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from controllers.nodelifecycle.ttl import ANNOTATION
from controllers.runtime.kinds import NODES
from tests.scheduler.world import World
from tests.support.virtual import passes

pytestmark = pytest.mark.integration


async def make(world: World, numbers: range, said: str | None = None) -> None:
    annotations = {} if said is None else {ANNOTATION: said}
    metadata = [{"name": f"n{number}", "annotations": annotations} for number in numbers]
    await asyncio.gather(*(world.client.create(NODES, {"metadata": each}) for each in metadata))


async def remove(world: World, numbers: range) -> None:
    await asyncio.gather(*(world.client.delete(NODES, f"n{number}") for number in numbers))


async def seconds(world: World) -> Counter[str]:
    await passes(1)
    nodes = (await world.client.list(NODES))["items"]
    return Counter(node["metadata"].get("annotations", {}).get(ANNOTATION) for node in nodes)


async def test_nodes_have_a_ttl_by_their_number_with_hysteresis() -> None:
    async with World("ttl-controller") as world:
        await make(world, range(100))
        assert await seconds(world) == {"0": 100}
        await make(world, range(100, 101))
        assert await seconds(world) == {"15": 101}
        await remove(world, range(90, 101))
        assert await seconds(world) == {"15": 90}
        await remove(world, range(89, 90))
        assert await seconds(world) == {"0": 89}
        versions = [node["metadata"]["resourceVersion"] for node in (await world.client.list(NODES))["items"]]
        await passes(3600)
        again = [node["metadata"]["resourceVersion"] for node in (await world.client.list(NODES))["items"]]
        assert versions == again


async def test_a_valid_annotation_stays_and_an_invalid_one_is_replaced() -> None:
    async with World("ttl-controller") as world:
        await make(world, range(1), "00")
        await make(world, range(1, 2), "soon")
        await make(world, range(2, 3), "15")
        assert await seconds(world) == {"00": 1, "0": 2}
        await world.client.patch(NODES, "n1", {"metadata": {"annotations": {ANNOTATION: None}}}, type="merge")
        assert await seconds(world) == {"00": 1, "0": 2}
