"""Real drivers on one node: their registration, claims, device health and slices."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from apiserver.api.objects import Json
from apiserver.runtime import clock
from apiserver.runtime.metrics import Family, Gauge
from controllers.kubelet.dra.checkpoint import CheckpointError, FileCheckpoint
from controllers.kubelet.dra.drivers import DriverCallError
from controllers.kubelet.dra.health import HealthCache, container_statuses, pods_of, report
from controllers.kubelet.dra.manager import DraFeatures, DraManager, ReadClaim
from controllers.kubelet.dra.metrics import DraMetrics
from controllers.kubelet.grpc.calls import CallLog, CallReporter
from controllers.kubelet.grpc.plugins import Plugin, Plugins
from controllers.kubelet.grpc.podresources import SOCKET, PodResources
from controllers.kubelet.grpc.registry import Registry
from controllers.kubelet.grpc.wiping import DELAY, SliceWiper
from controllers.options.crash_points import CrashPoints
from controllers.runtime.client import Client
from kubedra.driver.messages import HealthReport
from kubedra.runtime.failures import check_socket_path

log = logging.getLogger(__name__)
_TERMINAL = frozenset({"Succeeded", "Failed"})
#: Seconds between two attempts to watch a driver's device health.
_HEALTH_PAUSE = 5.0


@dataclass(frozen=True, slots=True)
class HostOptions:
    """The directories, gates and intervals of one node.

    `plugin_dir` has the kubelet's files. Without `registry_dir` drivers cannot register by socket.
    """

    node: str
    plugin_dir: Path
    registry_dir: Path | None = None
    features: DraFeatures = field(default_factory=DraFeatures)
    health: bool = True
    health_messages: bool = True
    wiping_delay: float = DELAY
    reconcile: timedelta = timedelta(seconds=60)
    crash_points: CrashPoints = field(default_factory=CrashPoints)
    report_calls: bool = False
    """Send the record of calls to the server."""


class PluginHost:
    """The connection between one node's pods and its drivers' sockets.

    `pods` returns the node's pods, or None while they are unknown. `changed` is called with the uids of pods whose
    device health has changed.
    """

    def __init__(
        self,
        client: Client,
        read_claim: ReadClaim,
        options: HostOptions,
        metrics: DraMetrics,
        pods: Callable[[], Collection[Json] | None],
        changed: Callable[[set[str]], None],
    ) -> None:
        """Load the kubelet's files. Raise CheckpointError."""
        try:
            check_socket_path(options.plugin_dir / SOCKET)
        except ValueError as error:
            raise CheckpointError(str(error)) from error
        self._options, self._pods, self._changed = options, pods, changed
        self.wiper = SliceWiper(client, options.node, options.wiping_delay)
        watch = self._watch_health if options.health else None
        self.calls = CallLog(options.node)
        self.plugins = Plugins(metrics, self.wiper.set_connected, watch, self._clear_health, self.calls)
        checkpoint, reach = FileCheckpoint(options.plugin_dir), options.crash_points.reach
        self.claims = DraManager(self.plugins, read_claim, checkpoint, options.features, metrics, reach)
        self._reporter = CallReporter(client, self.calls) if options.report_calls else None
        self.health = HealthCache(options.plugin_dir)
        self._resources = PodResources(self.claims, lambda: pods() or ())
        if options.registry_dir is not None:
            try:
                options.registry_dir.mkdir(parents=True, exist_ok=True, mode=0o755)
            except OSError as error:
                raise CheckpointError(f"registry directory {options.registry_dir}: {error.strerror}") from error
        self._registry = None if options.registry_dir is None else Registry(options.registry_dir, self.plugins)

    @property
    def metrics(self) -> Sequence[Family]:
        if self._registry is None:
            return self._resources.metrics
        text, labels = "Driver sockets, present and registered.", ("socket_path", "state")
        counts = Gauge("plugin_manager_total_plugins", text, labels, self._registry.counts)
        return (counts, *self._resources.metrics)

    async def run(self) -> None:
        """Run until cancelled. Drivers keep running."""
        self.wiper.start()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._reconcile())
                group.create_task(self._resources.run(self._options.plugin_dir))
                if self._reporter is not None:
                    group.create_task(self._reporter.run())
                if self._registry is not None:
                    group.create_task(self._registry.run())
        finally:
            await self.plugins.close()
            await self.wiper.close()

    async def release_lost(self) -> None:
        """Release the claims of deleted and ended pods."""
        pods = self._pods()
        if pods is not None:
            active = {pod["metadata"]["uid"] for pod in pods if pod.get("status", {}).get("phase") not in _TERMINAL}
            await self.claims.release_lost(active)

    def with_health(self, pod: Json, statuses: Sequence[Json]) -> list[Json]:
        """Add the health of devices to container statuses."""
        now, options = clock.now(), self._options
        messages = options.health_messages
        return container_statuses(pod, statuses, self.claims.cache, self.health, now, messages=messages)

    async def _reconcile(self) -> None:
        while True:
            await self.release_lost()
            with clock.timers(clock.Timer.UPKEEP):
                await asyncio.sleep(self._options.reconcile.total_seconds())

    def _clear_health(self, plugin: Plugin) -> None:
        self.health.clear(plugin.name)

    async def _watch_health(self, plugin: Plugin) -> None:
        """Follow the health reports of one socket, reconnecting forever. A lost stream clears the health."""

        def store_report(answer: HealthReport) -> None:
            devices = [report(d.pool, d.device, d.health, d.message, d.timeout) for d in answer.devices]
            changed = self.health.update(plugin.name, devices, clock.now())
            if pods := pods_of(self.claims.cache, plugin.name, changed):
                self._changed(pods)

        while True:
            try:
                await plugin.watch_health(store_report)
            except DriverCallError as error:
                log.debug("health of %s: %s", plugin.name, error)
            self._clear_health(plugin)
            with clock.timers(clock.Timer.MACHINE):
                await asyncio.sleep(_HEALTH_PAUSE)
