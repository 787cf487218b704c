"""The assembly of a scheduler: the state shared by its profiles, and each profile with its plugins."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self
from uuid import UUID

from controllers.allocator import Allocator, Features
from controllers.options.options import Options
from controllers.runtime.client import Client
from controllers.runtime.events import EventRecorder
from controllers.runtime.informer import Informer, Informers
from controllers.runtime.kinds import NAMESPACES, NODES, PODS, RESOURCE_CLAIMS
from controllers.scheduler.config.arguments import Arguments, read_arguments
from controllers.scheduler.config.configuration import Configuration, ProfileSettings
from controllers.scheduler.cycle.evaluate import Evaluator
from controllers.scheduler.cycle.plugins import PluginDependencies, default_plugins
from controllers.scheduler.cycle.profiles import Profile, arrange, counted_points
from controllers.scheduler.dra.claim_writes import ClaimWriter
from controllers.scheduler.dra.claims import ClaimCache
from controllers.scheduler.dra.dynamic_resources import DynamicResources
from controllers.scheduler.dra.extended_resources import ClassNames
from controllers.scheduler.dra.group_claims import PodGroups
from controllers.scheduler.dra.node_allocatable import GATE as NODE_RESOURCES_GATE
from controllers.scheduler.dra.plugin import ClaimBinding
from controllers.scheduler.framework.attempt_metrics import AttemptMetrics, Points
from controllers.scheduler.framework.framework import Plugin
from controllers.scheduler.plugins.extenders import Extenders
from controllers.scheduler.podgroups.gangs import GATE as GROUPS_GATE
from controllers.scheduler.podgroups.gangs import NAME as GANGS
from controllers.scheduler.podgroups.gangs import PREEMPTION_GATE, Gangs
from controllers.scheduler.podgroups.preemption import GroupPreemption
from controllers.scheduler.preemption.default import NAME as PREEMPTION
from controllers.scheduler.preemption.default import Preemption
from controllers.scheduler.state.affected_nodes import DeviceReach
from controllers.scheduler.state.nodes import Cache, Nominator
from controllers.scheduler.state.workloads import Workloads
from controllers.scheduler.storage.volume_writes import VolumeWriter
from controllers.scheduler.storage.volumes import VolumeCache
from controllers.scheduler.writes.evictions import Evictions
from controllers.scheduler.writes.pods import PodWriter
from controllers.scheduler.writes.waiting_pods import Waits


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedState:
    """The state shared by the profiles of one scheduler."""

    client: Client
    options: Options
    configuration: Configuration
    features: Features
    choice: random.Random
    allocator: Allocator
    cache: Cache
    nominator: Nominator
    reach: DeviceReach
    claims: ClaimCache
    classes: ClassNames | None
    gangs: Gangs | None
    volumes: VolumeCache
    workloads: Workloads
    extenders: Extenders
    waits: Waits
    attempt_metrics: AttemptMetrics
    pods: Informer
    nodes: Informer
    namespaces: Informer

    @classmethod
    def create(cls, client: Client, informers: Informers, options: Options, configuration: Configuration) -> Self:
        """Create the shared state, empty."""
        gates = options.features
        features = Features.from_gates(gates.enabled)
        choice = random.Random(options.seed)  # noqa: S311 - no secret
        allocator = Allocator(
            features,
            release="{}.{}".format(*options.emulated_version),
            new_share_id=lambda: str(UUID(int=choice.getrandbits(128), version=4)),
        )
        cache = Cache()
        groups = PodGroups(
            informers if gates.enabled("DRAWorkloadResourceClaims") else None,
            cache.is_assumed,
            gates.enabled("DRAReservedForWorkloads"),
        )
        return cls(
            client=client,
            options=options,
            configuration=configuration,
            features=features,
            choice=choice,
            allocator=allocator,
            cache=cache,
            nominator=Nominator(),
            reach=DeviceReach(allocator.allocated),
            claims=ClaimCache(allocator.allocated, groups),
            classes=ClassNames() if gates.enabled("DRAExtendedResource") else None,
            pods=informers.of(PODS),
            namespaces=informers.of(NAMESPACES),
            workloads=Workloads(informers),
            gangs=Gangs(informers, cache, together=gates.enabled(GANGS)) if gates.enabled(GROUPS_GATE) else None,
            volumes=VolumeCache(informers),
            nodes=informers.of(NODES),
            extenders=Extenders(configuration.extenders),
            waits=Waits(),
            attempt_metrics=AttemptMetrics(),
        )

    def profile(self, settings: ProfileSettings, extra: Sequence[Plugin] = ()) -> Profile:
        """Build the plugins and the evaluator of one profile. Raise ConfigurationError."""
        arguments = read_arguments(settings, self.options.features.enabled)
        hidden = frozenset(name for each in self.configuration.extenders for name in each.hidden)
        arguments = replace(arguments, ignored=arguments.ignored | hidden)
        recorder = EventRecorder(self.client, settings.name, self.options.host)
        evictions = Evictions(self.client, self.nominator, recorder, self.waits, self.attempt_metrics)
        for_groups = self.gangs is not None and self.options.features.enabled(PREEMPTION_GATE)
        budgets = self.workloads.disruption_budgets
        preemption = Preemption(
            evictions, self.cache, self.nominator, budgets, self.choice, arguments, for_groups=for_groups
        )
        deps = self._build_dependencies(settings.name, arguments, recorder, preemption)
        plugins = tuple(
            self.attempt_metrics.with_counts(plugin, settings.name, counted_points(plugin))
            for plugin in (*arrange(default_plugins(deps), settings), *extra)
        )
        percentage = self.configuration.percentage if settings.percentage is None else settings.percentage
        timed_plugins = tuple(self.attempt_metrics.with_timers(plugin) for plugin in plugins)
        points = Points(self.attempt_metrics, settings.name)
        evaluator = Evaluator(
            self.cache,
            plugins,
            self.reach,
            self.choice,
            self.nominator,
            percentage,
            self.extenders,
            points,
            timed_plugins,
        )
        preempts = any(plugin.name == PREEMPTION and plugin.post_filter is not None for plugin in plugins)
        return Profile(
            settings.name,
            plugins,
            evaluator,
            recorder,
            preemption if preempts else None,
            GroupPreemption(self.gangs, self.cache, budgets, evictions)
            if self.gangs is not None and for_groups and preempts
            else None,
            timed_plugins,
            points,
        )

    def _build_dependencies(
        self, profile: str, arguments: Arguments, recorder: EventRecorder, preemption: Preemption
    ) -> PluginDependencies:
        devices = DynamicResources(
            self.allocator,
            self.claims,
            self.features.binding_conditions,
            arguments.filter_timeout,
            self.classes,
            arguments.binding_timeout,
            stand_for_resources=self.options.features.enabled(NODE_RESOURCES_GATE),
        )
        claim_writer = ClaimWriter(self.client, self.claims, devices, RESOURCE_CLAIMS, self.attempt_metrics, profile)
        return PluginDependencies(
            cache=self.cache,
            devices=devices,
            volumes=self.volumes,
            volume_writer=VolumeWriter(
                self.client, self.volumes, self.pods.get, self.nodes.get, arguments.volume_timeout, self.waits
            ),
            namespace_labels=self._namespace_labels,
            default_selector=self.workloads.selector_of,
            binding=ClaimBinding(claim_writer, PodWriter(self.client), recorder, self.waits),
            preemption=preemption,
            gangs=self.gangs,
            arguments=arguments,
            enabled=self.options.features.enabled,
        )

    def _namespace_labels(self, name: str) -> Mapping[str, str]:
        namespace = self.namespaces.get(name)
        return (namespace or {}).get("metadata", {}).get("labels") or {}
