"""Duration of scheduling decisions: nodes of 8 devices, pods with one claim each, no server.

    python -m benchmarks.scheduler_decisions [NODES] [PODS]

Prints decisions per second and the longest decision (the first, with empty caches).
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from typing import Any

from controllers.allocator import Allocator
from controllers.scheduler.cycle.evaluate import Evaluator
from controllers.scheduler.cycle.plugins import PluginDependencies, default_plugins
from controllers.scheduler.dra.claims import ClaimCache
from controllers.scheduler.dra.dynamic_resources import DynamicResources
from controllers.scheduler.framework.framework import Cycle
from controllers.scheduler.state.affected_nodes import DeviceReach
from controllers.scheduler.state.nodes import Cache
from controllers.scheduler.state.pod_info import PodInfo
from tests.support.objects import make_claim, make_device_class, make_node, make_pod, make_slice

DRIVER = "gpu.example.com"
CLASS = f"device.driver == '{DRIVER}'"
REQUEST = (
    f"device.attributes['{DRIVER}'].model == 'H200' && device.capacity['{DRIVER}'].memory.compareTo(quantity('40Gi'))"
    " >= 0"
)


def selector(expression: str) -> list[dict[str, Any]]:
    return [{"cel": {"expression": expression}}]


class Decisions:
    """A cluster in memory and its pods."""

    def __init__(self, nodes: int, pods: int) -> None:
        self.cache, allocator = Cache(), Allocator()
        claims = ClaimCache(allocator.allocated)
        self.devices = DynamicResources(allocator, claims, conditions=True)
        reach = DeviceReach(allocator.allocated)
        plugins = default_plugins(PluginDependencies(cache=self.cache, devices=self.devices))
        self.evaluator = Evaluator(self.cache, plugins, reach, random.Random(0))
        allocator.inventory.upsert_class({**make_device_class(), "spec": {"selectors": selector(CLASS)}})
        for number in range(nodes):
            self.cache.set_node(make_node(f"node-{number}", cpu="64", memory="256Gi"))
            item = make_slice(f"node-{number}", 8, capacity={"memory": {"value": "80Gi"}})
            for index, device in enumerate(item["spec"]["devices"]):
                device["attributes"] = {"model": {"string": "A100" if index % 2 else "H200"}, "index": {"int": index}}
            allocator.inventory.upsert_slice(item)
            reach.set_slice(item)
        self.pods = [self._pod(number, claims) for number in range(pods)]

    @staticmethod
    def _pod(number: int, claims: ClaimCache) -> PodInfo:
        claim = make_claim(f"claim-{number}")
        claim["spec"]["devices"]["requests"][0]["exactly"]["selectors"] = selector(REQUEST)
        claims.added(claim)
        wanted = [{"name": "g", "resourceClaimName": f"claim-{number}"}]
        return PodInfo(
            make_pod(
                f"pod-{number}", requests={"cpu": "100m"}, tolerations=[{"operator": "Exists"}], resourceClaims=wanted
            )
        )

    async def decide(self) -> float:
        """Schedule all pods. Return the seconds of the longest decision."""
        longest = 0.0
        for pod in self.pods:
            begun = time.perf_counter()
            cycle = Cycle(pod)
            node = await self.evaluator.place(cycle)
            self.cache.assume(pod, node.name)
            assert self.devices.reserve(pod, cycle.active("DynamicResources"), node)
            longest = max(longest, time.perf_counter() - begun)
        return longest


def main() -> None:
    nodes, pods = (int(argument) for argument in (*sys.argv[1:], *("300", "1000")[len(sys.argv) - 1 :]))
    decisions = Decisions(nodes, pods)
    begun = time.perf_counter()
    longest = asyncio.run(decisions.decide())
    took = time.perf_counter() - begun
    print(
        f"{nodes} nodes, {pods} pods: {pods / took:.0f} decisions/s, {took / pods * 1e6:.0f} us each, longest"
        f" {longest * 1e3:.0f} ms"
    )


if __name__ == "__main__":
    main()
