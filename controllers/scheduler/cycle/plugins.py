"""The scheduler's plugins in upstream's order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from apiserver.api.features.gates import Features
from apiserver.api.helpers.tolerations import COMPARISON_GATE
from apiserver.api.selectors.selectors import LabelSelector
from controllers.scheduler.config.arguments import DEFAULTS, Arguments
from controllers.scheduler.dra.dynamic_resources import DynamicResources
from controllers.scheduler.dra.plugin import ClaimBinding, dynamic_resources
from controllers.scheduler.framework.events import ClusterEvent, is_own
from controllers.scheduler.framework.framework import Plugin, Reads, pod_field
from controllers.scheduler.plugins.interpod import NamespaceLabels, inter_pod_affinity
from controllers.scheduler.plugins.placement import (
    NODE_DECLARED_FEATURES,
    NODE_NAME,
    NODE_PORTS,
    NODE_UNSCHEDULABLE,
    node_affinity,
    taint_toleration,
)
from controllers.scheduler.plugins.resources import balanced_allocation, image_locality, node_resources_fit
from controllers.scheduler.plugins.spread import pod_topology_spread
from controllers.scheduler.podgroups.gangs import TOPOLOGY_GATE, Gangs, gang_scheduling, pods_count, topology_placement
from controllers.scheduler.preemption.default import Preemption, default_preemption
from controllers.scheduler.state.nodes import Cache
from controllers.scheduler.state.pod_info import PodInfo
from controllers.scheduler.storage.binding_plugin import VolumeBinding, volume_binding
from controllers.scheduler.storage.limit_plugins import node_volume_limits, volume_restrictions, volume_zone
from controllers.scheduler.storage.volume_writes import VolumeWriter
from controllers.scheduler.storage.volumes import VolumeCache

SCHEDULING_GATES = Plugin(
    name="SchedulingGates",
    reads=Reads(pod=(pod_field("spec", "schedulingGates"),)),
    pre_enqueue=lambda pod: not pod.spec.get("schedulingGates"),
    hints={ClusterEvent.POD_GATES_ELIMINATED: is_own},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginDependencies:
    """The dependencies of plugins. Without `binding`, `volume_writer` and `preemption` plugins only decide."""

    cache: Cache
    devices: DynamicResources
    volumes: VolumeCache = field(default_factory=VolumeCache.empty)
    namespace_labels: NamespaceLabels = lambda _: {}
    default_selector: Callable[[PodInfo], LabelSelector | None] = lambda _: None
    binding: ClaimBinding | None = None
    volume_writer: VolumeWriter | None = None
    preemption: Preemption | None = None
    gangs: Gangs | None = None
    arguments: Arguments = DEFAULTS
    enabled: Callable[[str], bool] = Features().enabled
    """Feature gates by name."""


def default_plugins(deps: PluginDependencies) -> tuple[Plugin, ...]:
    """Build the list of plugins. A disabled feature gate removes its plugin."""
    enabled = deps.enabled
    plugins: list[Plugin | None] = [
        SCHEDULING_GATES,
        NODE_UNSCHEDULABLE,
        NODE_NAME,
        taint_toleration(enabled(COMPARISON_GATE)),
        node_affinity(deps.arguments),
        NODE_PORTS,
        node_resources_fit(deps.devices.classes, deps.arguments),
        volume_restrictions(deps.cache, deps.volumes),
        node_volume_limits(deps.volumes, needs_driver=enabled("VolumeLimitScaling")),
        volume_binding(
            VolumeBinding(deps.volumes, attributes=enabled("VolumeAttributesClass")),
            deps.volume_writer.pre_bind if deps.volume_writer is not None else None,
            deps.arguments.volume_shape,
        ),
        volume_zone(deps.volumes),
        pod_topology_spread(deps.cache, deps.default_selector, deps.arguments.spread, enabled(COMPARISON_GATE)),
        inter_pod_affinity(deps.cache, deps.namespace_labels, deps.arguments),
        dynamic_resources(deps.devices, deps.binding, scores=enabled("DRAPrioritizedList"))
        if enabled("DynamicResourceAllocation")
        else None,
        default_preemption(deps.preemption),
        balanced_allocation(deps.arguments),
        image_locality(deps.cache),
        gang_scheduling(deps.gangs.problem if deps.gangs else lambda _: None) if enabled("GangScheduling") else None,
        NODE_DECLARED_FEATURES if enabled("NodeDeclaredFeatures") else None,
        *((topology_placement(deps.gangs), pods_count(deps.gangs)) if enabled(TOPOLOGY_GATE) else ()),
    ]
    return tuple(plugin for plugin in plugins if plugin is not None)
