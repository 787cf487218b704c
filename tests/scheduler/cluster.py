"""A scheduler's view of nodes, pods and devices, without a server."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping

import pytest

from apiserver.api.features.gates import Features
from apiserver.api.objects import Json
from apiserver.api.selectors.selectors import LabelSelector, from_labels
from controllers.allocator import Allocator
from controllers.scheduler.config.arguments import DEFAULTS, Arguments
from controllers.scheduler.config.configuration import PluginSet, ProfileSettings
from controllers.scheduler.cycle.evaluate import Evaluator
from controllers.scheduler.cycle.plugins import PluginDependencies, default_plugins
from controllers.scheduler.cycle.profiles import arrange
from controllers.scheduler.dra.claims import ClaimCache
from controllers.scheduler.dra.dynamic_resources import DynamicResources
from controllers.scheduler.dra.extended_resources import ClassNames
from controllers.scheduler.framework.framework import Cycle, Plugin
from controllers.scheduler.framework.status import FitError
from controllers.scheduler.state.affected_nodes import DeviceReach
from controllers.scheduler.state.nodes import Cache, Nominator
from controllers.scheduler.state.pod_info import PodInfo


class Cluster:
    """Caches and plugins of a scheduler."""

    def __init__(
        self,
        *nodes: Json,
        seed: int = 0,
        extra: tuple[Plugin, ...] = (),
        gates: Mapping[str, bool] | None = None,
        arguments: Arguments = DEFAULTS,
        plugins: Json | None = None,
        nominator: Nominator | None = None,
    ) -> None:
        """Build the caches and the plugins.

        Args:
            nodes: the nodes of the cluster.
            seed: the seed of choices among equal nodes.
            extra: plugins after upstream's.
            gates: feature gates that differ from 1.36.
            arguments: the plugin arguments of the profile.
            plugins: the plugin sets of the profile.
            nominator: the nominations of pods.
        """
        self.cache, self.allocator = Cache(), Allocator()
        self.claims = ClaimCache(self.allocator.allocated)
        self.classes = ClassNames()
        self.devices = DynamicResources(self.allocator, self.claims, conditions=True, classes=self.classes)
        self.reach = DeviceReach(self.allocator.allocated)
        given, usual = gates or {}, Features()

        def enabled(name: str) -> bool:
            return given.get(name, usual.enabled(name))

        self._label = ""
        parts = PluginDependencies(
            cache=self.cache,
            devices=self.devices,
            default_selector=self._selector,
            arguments=arguments,
            enabled=enabled,
        )
        sets = {point: _plugin_set(chosen) for point, chosen in (plugins or {}).items()}
        chosen = (*arrange(default_plugins(parts), ProfileSettings(sets=sets)), *extra)
        self.evaluator = Evaluator(self.cache, chosen, self.reach, random.Random(seed), nominator)
        for node in nodes:
            self.cache.set_node(node)

    def _selector(self, pod: PodInfo) -> LabelSelector | None:
        return from_labels({self._label: pod.labels[self._label]}) if self._label in pod.labels else None

    def belongs_together(self, label: str) -> None:
        """Let pods with equal values of a label belong to one service."""
        self._label = label

    def publish(self, *slices: Json) -> None:
        for item in slices:
            self.allocator.inventory.upsert_slice(item)
            self.reach.set_slice(item)

    def on(self, node: str, *pods: Json) -> Cluster:
        for pod in pods:
            self.cache.set_pod(PodInfo(pod), node)
        return self

    def place(self, pod: PodInfo) -> str:
        return asyncio.run(self.evaluator.place(Cycle(pod))).name

    def cycle(self, pod: PodInfo, *, prefiltered: bool = False) -> Cycle:
        """Begin an attempt."""
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


def _plugin_set(raw: Json) -> PluginSet:
    enabled = tuple((item["name"], item.get("weight", 0)) for item in raw.get("enabled", ()))
    return PluginSet(enabled, frozenset(item["name"] for item in raw.get("disabled", ())))
