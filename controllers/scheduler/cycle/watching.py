"""Handlers of watch events.

They update the cache, the queue and the devices, then requeue the pods that the event may make schedulable.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence

from apiserver.api.helpers.pod_lifecycle import is_finished
from apiserver.api.objects import Json
from apiserver.runtime.clock import stopwatch
from apiserver.runtime.metrics import Histogram
from controllers.resourceclaims.taints import SliceChange, SliceTracker
from controllers.runtime.index import Index
from controllers.runtime.informer import Informer, Informers
from controllers.runtime.kinds import (
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    key_of,
)
from controllers.scheduler.config.configuration import SCHEDULER_NAME
from controllers.scheduler.cycle.assembly import SharedState
from controllers.scheduler.cycle.profiles import Profile
from controllers.scheduler.dra.claim_state import is_deallocation
from controllers.scheduler.dra.claims import ClaimCache, claim_keys
from controllers.scheduler.dra.extended_resources import owner_of_special
from controllers.scheduler.framework.events import ClusterEvent, Event, label_of, node_events, pod_events
from controllers.scheduler.framework.framework import ANYTHING, Plugin, differ
from controllers.scheduler.queue.queue import SchedulingQueue
from controllers.scheduler.state.pod_info import PodInfo


class EventHandlers:
    """The handlers. Finished pods are handled as deleted ones: they use no resources."""

    def __init__(
        self,
        informers: Informers,
        shared: SharedState,
        queue: SchedulingQueue,
        profiles: Mapping[str, Profile],
        pod_info: Callable[[Json], PodInfo],
        handling: Histogram,
    ) -> None:
        """Register all handlers.

        Args:
            informers: The informers.
            shared: The state that the handlers update.
            queue: The queue of pods.
            profiles: The profiles by name.
            pod_info: Parses a pod as this scheduler counts its resources.
            handling: The durations of handling events.
        """
        self._handling, self._begun, self._updating = handling, 0.0, 0.0
        gates = shared.options.features
        devices, rules = gates.enabled("DynamicResourceAllocation"), gates.enabled("DRADeviceTaintRules")
        self._queue, self._profiles, self._pod_info = queue, profiles, pod_info
        self._cache, self._nominator = shared.cache, shared.nominator
        self._allocator, self._reach = shared.allocator, shared.reach
        self._inventory, self._classes = shared.allocator.inventory, shared.classes
        nodes, pods = informers.of(NODES), informers.of(PODS)
        self._informers = [nodes, pods, informers.of(NAMESPACES)]
        self._waiting_for_claim: Index = pods.index("unbound pods by claim", _claims_of_unbound)
        self._tracker = SliceTracker(rules)
        self._node_differs = node_comparison([each for profile in profiles.values() for each in profile.plugins])
        nodes.on(self._node_added, self._node_updated, self._node_deleted)
        if devices:
            self._follow_devices(informers, shared.claims)
        groups = shared.gangs.informer if shared.gangs is not None else None
        if groups is not None:
            # Groups need no sync before the start: a new group wakes its pods.
            groups.on(lambda group: self.notify(Event(ClusterEvent.POD_GROUP_ADD, None, group)))
        self._grouped = groups is not None
        if devices and rules:
            self._follow_rules(informers.of(DEVICE_TAINT_RULES))
        pods.on(self._pod_added, self._pod_updated, self._pod_deleted)

    def _follow_devices(self, informers: Informers, cached: ClaimCache) -> None:
        kinds = (DEVICE_CLASSES, RESOURCE_SLICES, RESOURCE_CLAIMS)
        classes, slices, claims = (informers.of(kind) for kind in kinds)
        self._informers += [classes, slices, claims]
        classes.on(self._class_added, self._class_updated, self._class_deleted)
        slices.on(self._slice_added, self._slice_updated, self._slice_deleted)
        cached.on_change(self.claim_changed)
        claims.on(cached.added, cached.updated, cached.deleted)

    def _follow_rules(self, rules: Informer) -> None:
        """Update slices when taint rules change.

        The start does not wait for the rules: their API may be off while the gate is on.
        """
        tracker = self._tracker
        rules.on(
            lambda rule: self._slices_changed(tracker.upsert_rule(rule)),
            lambda _, rule: self._slices_changed(tracker.upsert_rule(rule)),
            lambda rule: self._slices_changed(tracker.remove_rule(rule["metadata"]["name"])),
        )

    async def wait_synced(self) -> None:
        for informer in self._informers:
            await informer.wait_synced()

    # Durations

    def notify(self, event: Event) -> None:
        """Notify the queue of an event that changes nothing else."""
        self._begin()
        self._end(event)

    def _begin(self) -> None:
        """Start to measure the update of the state for one or more events."""
        self._begun, self._updating = stopwatch()(), -1.0

    def _end(self, event: Event) -> None:
        """Notify the queue. The measured time is that of the update and of this notification."""
        elapsed = stopwatch()
        begun = elapsed()
        if self._updating < 0:
            self._updating = begun - self._begun
        self._queue.notify(event)
        self._handling.observe(self._updating + elapsed() - begun, label_of(event))

    def _observe(self, label: str) -> None:
        """Observe the time since `_begin`."""
        self._handling.observe(stopwatch()() - self._begun, label)

    # Nodes

    def _node_added(self, node: Json) -> None:
        self._begin()
        self._cache.set_node(node)
        self._end(Event(ClusterEvent.NODE_ADD, None, node))

    def _node_updated(self, old: Json, node: Json) -> None:
        kinds = node_events(old, node)
        if not kinds:
            if not self._node_differs(old, node):
                return
            kinds = [ClusterEvent.NODE_OTHER]
        self._begin()
        self._cache.set_node(node)
        for kind in kinds:
            self._end(Event(kind, old, node))

    def _node_deleted(self, node: Json) -> None:
        self._begin()
        name = node["metadata"]["name"]
        self._cache.remove_node(name)
        self._inventory.forget_node(name)
        self._end(Event(ClusterEvent.NODE_DELETE, node, None))

    # Devices

    def _class_added(self, item: Json) -> None:
        self._begin()
        self._upsert_class(item)
        self._end(Event(ClusterEvent.CLASS_ADD, None, item))

    def _class_updated(self, old: Json, item: Json) -> None:
        self._begin()
        self._upsert_class(item)
        self._end(Event(ClusterEvent.CLASS_UPDATE, old, item))

    def _upsert_class(self, item: Json) -> None:
        self._allocator.upsert_class(item)
        if self._classes is not None:
            self._classes.upsert(item)
        self._reach.touch_all()

    def _class_deleted(self, item: Json) -> None:
        name = item["metadata"]["name"]
        self._inventory.remove_class(name)
        if self._classes is not None:
            self._classes.remove(name)
        self._reach.touch_all()

    def _slice_added(self, item: Json) -> None:
        self._slices_changed(self._tracker.upsert_slice(item))

    def _slice_updated(self, _: Json, item: Json) -> None:
        self._slices_changed(self._tracker.upsert_slice(item))

    def _slice_deleted(self, item: Json) -> None:
        self._slices_changed(self._tracker.remove_slice(item["metadata"]["name"]))

    def _slices_changed(self, changes: list[SliceChange]) -> None:
        """Apply the changes of slices after taint rules."""
        for change in changes:
            self._begin()
            old, new = change.old, change.new
            if new is None:
                assert old is not None
                self._inventory.remove_slice(old["metadata"]["name"])
                self._reach.remove_slice(old["metadata"]["name"])
                continue
            self._inventory.upsert_slice(new)
            self._reach.set_slice(dict(new))
            kind = ClusterEvent.SLICE_ADD if old is None else ClusterEvent.SLICE_UPDATE
            self._end(Event(kind, dict(old) if old else None, dict(new)))

    def claim_changed(self, old: Json | None, new: Json | None) -> None:
        """Notify about a changed claim. Only its own pods are affected, unless devices became free."""
        if new is None:
            self._claim_deleted(old)
            return
        self._begin()
        kind = ClusterEvent.CLAIM_ADD if old is None else ClusterEvent.CLAIM_UPDATE
        only = None
        if old is None or not is_deallocation(old, new):
            own = self._waiting_for_claim.get(key_of(new))
            if not own:
                return
            only = frozenset(pod["metadata"]["uid"] for pod in own)
        self._end(Event(kind, old, new, only))

    def _claim_deleted(self, old: Json | None) -> None:
        """Notify about a deleted claim.

        Deletion of an allocated claim frees its devices. A pod waits for the deletion of the claim for its extended
        resources from an earlier attempt.
        """
        if old is None:
            return
        if (old.get("status") or {}).get("allocation") is not None:
            self.notify(Event(ClusterEvent.CLAIM_UPDATE, old, {**old, "status": {}}))
        elif (owner := owner_of_special(old)) is not None:
            self.notify(Event(ClusterEvent.CLAIM_UPDATE, old, None, frozenset((owner,))))

    # Pods

    def _is_responsible_for(self, pod: Json) -> bool:
        """Return whether the pod's scheduler name is one of this scheduler's profiles."""
        return pod["spec"].get("schedulerName", SCHEDULER_NAME) in self._profiles

    def _pod_added(self, pod: Json) -> None:
        if is_finished(pod):
            return
        self._begin()
        node = pod["spec"].get("nodeName")
        if node:
            self._cache.set_pod(self._pod_info(pod), node)
            self._end(Event(ClusterEvent.POD_ADD, None, pod))
        elif self._is_responsible_for(pod):
            self._queue.add(self._pod_info(pod))
            if self._grouped and pod["spec"].get("schedulingGroup"):
                self._queue.notify(Event(ClusterEvent.GROUP_MEMBER_ADD, None, pod))
            self._observe("UnschedulablePodAdd")

    def _pod_updated(self, old: Json, pod: Json) -> None:
        if is_finished(pod):
            if not is_finished(old):
                self._pod_deleted(old)
            # The pod may have finished while it was being bound.
            self._cache.forget(pod["metadata"]["uid"])
            return
        self._begin()
        before, node = old["spec"].get("nodeName"), pod["spec"].get("nodeName")
        info = self._pod_info(pod)
        if node:
            self._cache.set_pod(info, node)
            if not before:
                self._queue.delete(info.uid)
                self._nominator.remove(info.uid)
                self._end(Event(ClusterEvent.POD_ADD, None, pod))
                return
            if self._queue.listening:
                for kind in pod_events(old, pod):
                    if kind is ClusterEvent.POD_OTHER:
                        self._queue.notify(Event(kind, old, pod))
                    else:
                        self._end(Event(kind, old, pod))
            self._observe("AssignedPodUpdate")
        elif self._is_responsible_for(pod) and not self._cache.is_assumed(info.uid):
            self._queue.update(old, info)
            self._observe("UnschedulablePodUpdate")

    def _pod_deleted(self, pod: Json) -> None:
        if is_finished(pod):
            return
        self._begin()
        uid = pod["metadata"]["uid"]
        self._nominator.remove(uid)
        if pod["spec"].get("nodeName"):
            self._cache.remove_pod(uid)
            self._end(Event(ClusterEvent.POD_DELETE, pod, None))
        else:
            self._queue.delete(uid)
            self._observe("UnschedulablePodDelete")

    def notify_freed_node(self, info: PodInfo) -> None:
        """Notify that an assumed pod no longer uses its node."""
        placed = {**info.pod, "spec": {**info.spec, "nodeName": "?"}}
        self._queue.notify(Event(ClusterEvent.POD_DELETE, placed, None))


def _claims_of_unbound(pod: Json) -> list[str]:
    return [] if pod["spec"].get("nodeName") or not pod["spec"].get("resourceClaims") else claim_keys(pod)


def node_comparison(plugins: Sequence[Plugin]) -> Callable[[Json, Json], bool]:
    """Return a function that tells whether two versions of a node differ in what plugins read."""
    if any(plugin.reads == ANYTHING for plugin in plugins):
        return operator.ne
    fields = {item.name: item for plugin in plugins for item in plugin.reads.node}
    return lambda old, new: differ(fields.values(), old, new)
