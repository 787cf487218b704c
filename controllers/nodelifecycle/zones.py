"""Checks all nodes periodically: their heartbeats and NoExecute taints.

In a healthy zone unready nodes are tainted one by one, ten seconds apart. In a zone with many unready nodes the rate is
lower, or zero in a small zone. If no node of any zone is ready, none is tainted, because the fault is probably on this
side. Facts: upstream's pkg/controller/nodelifecycle.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Final

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.runtime import clock
from apiserver.runtime.metrics import Counter, Family, Gauge, Histogram, Labels, exponential
from apiserver.runtime.offload import iterate_in_slices
from controllers.nodelifecycle.health import FULL, PARTIAL, Health, Limiter, silent_conditions, zone_of, zone_state
from controllers.nodelifecycle.taints import NOT_READY, UNREACHABLE, has_taint, swap_taints
from controllers.options.options import Options
from controllers.runtime.client import Client
from controllers.runtime.conditions import condition_of
from controllers.runtime.controller import Controller
from controllers.runtime.events import CoreEventRecorder
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import LEASES, NODES
from controllers.runtime.times import go_time
from controllers.runtime.workqueue import Resync

PERIOD: Final = Resync(seconds=5)
_LEASES: Final = "kube-node-lease"
_EXCLUDED: Final = "node.kubernetes.io/exclude-disruption"
_EFFECT: Final = "NoExecute"
_TAINT: Final = {"False": (NOT_READY, UNREACHABLE), "Unknown": (UNREACHABLE, NOT_READY)}
log = logging.getLogger(__name__)


class _Zone:
    """The state of one zone. `waiting` has the nodes to taint, in order."""

    def __init__(self, rate: float) -> None:
        self.state = ""
        self.limiter = Limiter(rate)
        self.waiting: dict[str, None] = {}
        self.ready: list[bool] = []


class NodeMonitor:
    """The periodic check. `unready` is called with each node that becomes unready."""

    def __init__(
        self,
        name: str,
        client: Client,
        informers: Informers,
        recorder: CoreEventRecorder,
        options: Options,
        unready: Callable[[str], None],
    ) -> None:
        self._name, self._client, self._recorder, self._unready = name, client, recorder, unready
        self._limits = options.node_lifecycle
        self._nodes = informers.of(NODES)
        self._leases = informers.of(LEASES, namespace=_LEASES)
        self._health: dict[str, Health] = {}
        self._known: dict[str, Json] = {}
        self._zones: dict[str, _Zone] = {}
        self._health_controller = Controller(name, self.check_all, queue="node_lifecycle_controller_health")
        self._health_controller.require(self._nodes)
        self._health_controller.require(self._leases)
        self._health_controller.queue.add("")
        self._taint_controller = Controller(name, self.taint, queue="node_lifecycle_controller_taints")
        self._taint_controller.require(self._nodes)
        self.controllers = (self._health_controller, self._taint_controller)
        label = ("zone",)
        self._evictions = Counter("node_collector_evictions_total", "Nodes tainted NoExecute.", label)
        prefix, updating = "node_collector_update_", "Duration of checking"
        self._one_node = Histogram(
            f"{prefix}node_health_duration_seconds", f"{updating} a node.", (), exponential(0.001, 4, 8)
        )
        self._all_nodes = Histogram(
            f"{prefix}all_nodes_health_duration_seconds", f"{updating} all nodes.", (), exponential(0.01, 4, 8)
        )
        self.metrics: Sequence[Family] = (
            self._evictions, self._one_node, self._all_nodes,
            Gauge("node_collector_zone_size", "Nodes by zone.", label, lambda: self._measure(len)),
            Gauge("node_collector_zone_health", "Ready nodes by zone, in percent.", label,
                lambda: self._measure(lambda ready: 100 * sum(ready) / len(ready) if ready else 100)),
            Gauge("node_collector_unhealthy_nodes_in_zone", "Unready nodes by zone.", label,
                lambda: self._measure(lambda ready: len(ready) - sum(ready))),
        )  # fmt: skip

    def _measure(self, measure: Callable[[list[bool]], float]) -> Mapping[Labels, float]:
        return {(name,): measure(zone.ready) for name, zone in self._zones.items()}

    @staticmethod
    def now() -> str:
        return go_time(clock.now())

    async def check_all(self, _: str) -> timedelta:
        """Check all nodes, yielding to other tasks in between.

        There may be thousands of nodes, and all may have fallen silent.
        """
        elapsed = clock.stopwatch()
        began = elapsed()
        nodes = list(self._nodes.objects.values())
        await self._register(nodes)
        ready: dict[str, list[bool]] = {}
        async for node in iterate_in_slices(nodes):
            since = elapsed()
            try:
                found = await self._check(node)
            except StatusError as error:
                log.info("%s: node %s: %s", self._name, node["metadata"]["name"], error)
                continue
            finally:
                self._one_node.observe(elapsed() - since)
            if found is not None and _EXCLUDED not in (node["metadata"].get("labels") or {}):
                ready.setdefault(zone_of(node), []).append(found)
        await self._update_zones(ready)
        # The rates of the zones are only known now.
        for name, zone in self._zones.items():
            if zone.waiting:
                self._taint_controller.queue.add(name)
        self._all_nodes.observe(elapsed() - began)
        return PERIOD

    async def _register(self, nodes: list[Json]) -> None:
        """Register new nodes and drop deleted ones."""
        async for node in iterate_in_slices(nodes):
            name = node["metadata"]["name"]
            self._zones.setdefault(zone_of(node), _Zone(self._limits.eviction_rate))
            if name not in self._known:
                self._known[name] = node
                self._record(node, "RegisteredNode", f"Node {name} event: Registered Node {name} in Controller")
        for name in self._known.keys() - self._nodes.objects.keys():
            node = self._known.pop(name)
            self._health.pop(name, None)
            self._record(node, "RemovingNode", f"Node {name} event: Removing Node {name} from Controller")

    def _record(self, node: Json, reason: str, message: str) -> None:
        metadata = {name: node["metadata"][name] for name in ("name", "uid")}
        about = {"apiVersion": NODES.api_version, "kind": NODES.kind, "metadata": metadata}
        self._recorder.record(about, "Normal", reason, message)

    async def _check(self, node: Json) -> bool | None:
        """Check one node. Return whether it is ready, or None if it is ignored. Raise StatusError."""
        name, now = node["metadata"]["name"], clock.now()
        health = self._health.get(name)
        if health is None:
            health = self._health[name] = Health.of(node, now)
        health.update(node, self._leases.get(f"{_LEASES}/{name}"), now)
        observed = condition_of(node, "Ready")
        current = observed
        grace = self._limits.startup_grace if observed is None else self._limits.monitor_grace
        if now > health.last_seen + grace and (observed is None or observed["status"] != "Unknown"):
            status = {**(node.get("status") or {}), "conditions": silent_conditions(node, now)}
            node = await self._client.update_status(NODES, {**node, "status": status})
            current = health.ready = condition_of(node, "Ready")
        if current is not None:
            await self._taint_or_untaint(node, current["status"])
            if current["status"] != "True" and observed is not None and observed["status"] == "True":
                self._record(node, "NodeNotReady", f"Node {name} status is now: NodeNotReady")
                self._unready(name)
        return current is not None and current["status"] == "True"

    async def _taint_or_untaint(self, node: Json, ready: str) -> None:
        zone = self._zones[zone_of(node)]
        name = node["metadata"]["name"]
        if ready == "True":
            await self._untaint(node)
            return
        wanted, other = _TAINT[ready]
        if has_taint(node, other, _EFFECT):
            add = () if has_taint(node, wanted, _EFFECT) else (wanted,)
            await swap_taints(self._client, node, add, (other,), _EFFECT)
        elif not has_taint(node, wanted, _EFFECT) and name not in zone.waiting:
            zone.waiting[name] = None

    async def _untaint(self, node: Json) -> None:
        """Remove the node's NoExecute taints and its queue entry."""
        self._zones[zone_of(node)].waiting.pop(node["metadata"]["name"], None)
        keys = [key for key in (NOT_READY, UNREACHABLE) if has_taint(node, key, _EFFECT)]
        await swap_taints(self._client, node, (), keys, _EFFECT)

    async def taint(self, name: str) -> timedelta | None:
        """Taint the next node of a zone if the rate allows it. Return the delay until the next one."""
        zone = self._zones[name]
        while zone.waiting:
            wait = zone.limiter.wait(clock.now())
            if wait is None or wait > timedelta():
                return wait
            first = next(iter(zone.waiting))
            node = self._nodes.get(first)
            ready = condition_of(node, "Ready") if node is not None else None
            if node is not None and ready is not None and ready["status"] in _TAINT:
                wanted, other = _TAINT[ready["status"]]
                remove = (other,) if has_taint(node, other, _EFFECT) else ()
                await swap_taints(self._client, node, (wanted,), remove, _EFFECT)
                self._evictions.inc(name)
                zone.limiter.record(clock.now())
            zone.waiting.pop(first, None)
        return None

    async def _update_zones(self, ready: dict[str, list[bool]]) -> None:
        states = {name: zone_state(found, self._limits.unhealthy_zone_threshold) for name, found in ready.items()}
        for name, zone in self._zones.items():
            zone.ready = ready.get(name, [])
        all_down = all(state == FULL for state in states.values())
        were_all_down = all(zone.state == FULL for name, zone in self._zones.items() if name in states)
        if all_down and were_all_down:
            return
        if all_down:
            async for node in iterate_in_slices(list(self._nodes.objects.values())):
                await self._try_untaint(node)
            for name in states:
                self._set_state(name, FULL, 0.0)
            return
        if were_all_down:
            # All nodes were silent: each gets a full grace period.
            for health in self._health.values():
                health.last_seen = clock.now()
        for name, state in states.items():
            if state != self._zones[name].state:
                self._set_state(name, state, self._rate(state, len(ready[name])))

    async def _try_untaint(self, node: Json) -> None:
        try:
            await self._untaint(node)
        except StatusError as error:
            log.info("%s: node %s: %s", self._name, node["metadata"]["name"], error)

    def _rate(self, state: str, size: int) -> float:
        """Return the taint rate of a zone in nodes per second."""
        limits = self._limits
        if state == PARTIAL:
            return limits.secondary_eviction_rate if size > limits.large_cluster_size_threshold else 0.0
        return limits.eviction_rate

    def _set_state(self, name: str, state: str, rate: float) -> None:
        zone = self._zones[name]
        zone.state = state
        if zone.limiter.rate != rate:
            zone.limiter = Limiter(rate)
