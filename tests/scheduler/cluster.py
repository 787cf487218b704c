"""Nodes, pods on them and devices, without a server."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from typing import Any

import pytest

from apiserver.api.features import Features
from controllers.allocator import Allocator
from controllers.scheduler.claims import ClaimCache
from controllers.scheduler.dynamic import DynamicResources
from controllers.scheduler.evaluate import Evaluator
from controllers.scheduler.extended import ClassNames
from controllers.scheduler.framework import Cycle, Plugin
from controllers.scheduler.nodes import Cache
from controllers.scheduler.plugins import Parts, default_plugins
from controllers.scheduler.podinfo import PodInfo
from controllers.scheduler.reach import DeviceReach
from controllers.scheduler.status import FitError

Json = dict[str, Any]


class Cluster:
    """What decides about a pod. `extra` plugins come after upstream's; `gates` are those that are not as in 1.36."""

    def __init__(
        self, *nodes: Json, seed: int = 0, extra: tuple[Plugin, ...] = (), gates: Mapping[str, bool] | None = None
    ) -> None:
        self.cache, self.allocator = Cache(), Allocator()
        self.claims = ClaimCache(self.allocator.allocated)
        self.classes = ClassNames()
        self.devices = DynamicResources(self.allocator, self.claims, conditions=True, classes=self.classes)
        self.reach = DeviceReach(self.allocator.allocated)
        given, usual = gates or {}, Features()

        def enabled(name: str) -> bool:
            return given.get(name, usual.enabled(name))

        plugins = (*default_plugins(Parts(cache=self.cache, devices=self.devices, enabled=enabled)), *extra)
        self.evaluator = Evaluator(self.cache, plugins, self.reach, random.Random(seed))
        for node in nodes:
            self.cache.set_node(node)

    def on(self, node: str, *pods: Json) -> Cluster:
        for pod in pods:
            self.cache.set_pod(PodInfo(pod), node)
        return self

    def place(self, pod: PodInfo) -> str:
        return asyncio.run(self.evaluator.place(Cycle(pod))).name

    def cycle(self, pod: PodInfo, *, prefiltered: bool = False) -> Cycle:
        """An attempt."""
        cycle = Cycle(pod)
        if prefiltered:
            assert self.evaluator.prefilter(cycle) is None
        return cycle

    def refusal(self, pod: PodInfo) -> str:
        with pytest.raises(FitError) as caught:
            self.place(pod)
        return caught.value.diagnosis.text

    def totals(self, pod: PodInfo) -> dict[str, int]:
        cycle = Cycle(pod)
        self.evaluator.prefilter(cycle)
        nodes = self.cache.list()
        assert not any(self.evaluator.rejection(cycle, node) for node in nodes)
        return dict(zip((n.name for n in nodes), self.evaluator.totals(cycle, nodes), strict=True))
