"""The scheduler's plugins, in the order in which they are asked: upstream's."""

from __future__ import annotations

from collections.abc import Callable

from apiserver.api.selectors import LabelSelector
from controllers.scheduler.dynamic import DynamicResources
from controllers.scheduler.events import ClusterEvent, is_own
from controllers.scheduler.framework import Plugin, Reads, pod_field
from controllers.scheduler.nodes import Cache
from controllers.scheduler.plugins.dynamicresources import ClaimBinding, dynamic_resources
from controllers.scheduler.plugins.interpod import NamespaceLabels, inter_pod_affinity
from controllers.scheduler.plugins.placement import (
    NODE_AFFINITY,
    NODE_NAME,
    NODE_PORTS,
    NODE_UNSCHEDULABLE,
    TAINT_TOLERATION,
)
from controllers.scheduler.plugins.preemption import Preemption, default_preemption
from controllers.scheduler.plugins.resources import BALANCED_ALLOCATION, NODE_RESOURCES_FIT, image_locality
from controllers.scheduler.plugins.spread import pod_topology_spread
from controllers.scheduler.podinfo import PodInfo

SCHEDULING_GATES = Plugin(
    name="SchedulingGates",
    reads=Reads(pod=(pod_field("spec", "schedulingGates"),)),
    pre_enqueue=lambda pod: not pod.spec.get("schedulingGates"),
    hints={ClusterEvent.POD_GATES_ELIMINATED: is_own},
)


def default_plugins(
    cache: Cache,
    devices: DynamicResources,
    namespace_labels: NamespaceLabels,
    default_selector: Callable[[PodInfo], LabelSelector | None] = lambda _: None,
    binding: ClaimBinding | None = None,
    preemption: Preemption | None = None,
) -> tuple[Plugin, ...]:
    """The list. Without `binding` and `preemption` the plugins decide and write nothing."""
    return (
        SCHEDULING_GATES,
        NODE_UNSCHEDULABLE,
        NODE_NAME,
        TAINT_TOLERATION,
        NODE_AFFINITY,
        NODE_PORTS,
        NODE_RESOURCES_FIT,
        pod_topology_spread(cache, default_selector),
        inter_pod_affinity(cache, namespace_labels),
        dynamic_resources(devices, binding),
        *((default_preemption(preemption),) if preemption is not None else ()),
        BALANCED_ALLOCATION,
        image_locality(cache),
    )
