"""Real drivers on one node: their registration, their claims, their health and their slices, as a kubelet has them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from apiserver.runtime import clock
from apiserver.runtime.metrics import Family, Gauge
from controllers.kubelet.dra.checkpoint import CheckpointError, FileCheckpoint
from controllers.kubelet.dra.drivers import DriverCallError
from controllers.kubelet.dra.health import HealthCache, container_statuses, pods_of, report
from controllers.kubelet.dra.manager import DraFeatures, DraManager, ReadClaim
from controllers.kubelet.dra.metrics import DraMetrics
from controllers.kubelet.grpc.plugins import Plugin, Plugins
from controllers.kubelet.grpc.podresources import PodResources
from controllers.kubelet.grpc.registry import Registry
from controllers.kubelet.grpc.wiping import DELAY, SliceWiper
from controllers.runtime.client import Client
from controllers.runtime.kinds import Json
from kubedra.driver.messages import HealthReport

log = logging.getLogger(__name__)
_TERMINAL = frozenset({"Succeeded", "Failed"})
#: Seconds between two attempts to hear of a driver's devices.
_HEALTH_PAUSE = 5.0


@dataclass(frozen=True, slots=True)
class HostOptions:
    """One node's directories (`plugin_dir` holds the kubelet's files, None as `registry_dir`: nobody registers by
    socket), gates and times.
    """

    node: str
    plugin_dir: Path
    registry_dir: Path | None = None
    features: DraFeatures = field(default_factory=DraFeatures)
    health: bool = True
    health_messages: bool = True
    wiping_delay: float = DELAY
    reconcile: timedelta = timedelta(seconds=60)


class PluginHost:
    """Everything between one node's pods and its drivers' sockets.

    `pods` gives the node's pods, None while they are not known; `changed` is called with the uids of pods whose
    devices' health changed.
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
        """Reads the files; raises CheckpointError."""
        self._options, self._pods, self._changed = options, pods, changed
        self.wiper = SliceWiper(client, options.node, options.wiping_delay)
        self.plugins = Plugins(metrics, self.wiper.note, self._watch_health if options.health else None, self._forget)
        self.claims = DraManager(
            self.plugins, read_claim, FileCheckpoint(options.plugin_dir), options.features, metrics
        )
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
        text, labels = "Sockets of drivers, there and registered.", ("socket_path", "state")
        counts = Gauge("plugin_manager_total_plugins", text, labels, self._registry.counts)
        return (counts, *self._resources.metrics)

    async def run(self) -> None:
        """Until it is cancelled. Drivers are left as they are."""
        self.wiper.start()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._reconcile())
                group.create_task(self._resources.run(self._options.plugin_dir))
                if self._registry is not None:
                    group.create_task(self._registry.run())
        finally:
            await self.plugins.close()
            await self.wiper.close()

    async def release_lost(self) -> None:
        """Releases claims of pods that are gone."""
        pods = self._pods()
        if pods is not None:
            active = {pod["metadata"]["uid"] for pod in pods if pod.get("status", {}).get("phase") not in _TERMINAL}
            await self.claims.release_lost(active)

    def with_health(self, pod: Json, statuses: Sequence[Json]) -> list[Json]:
        """Container statuses with the health of their devices."""
        now, options = clock.now(), self._options
        messages = options.health_messages
        return container_statuses(pod, statuses, self.claims.cache, self.health, now, messages=messages)

    async def _reconcile(self) -> None:
        while True:
            await self.release_lost()
            with clock.timers(clock.Timer.UPKEEP):
                await asyncio.sleep(self._options.reconcile.total_seconds())

    def _forget(self, plugin: Plugin) -> None:
        self.health.clear(plugin.name)

    async def _watch_health(self, plugin: Plugin) -> None:
        """Follows what one socket reports, again whenever that ends. What is known is forgotten with it."""

        def take(answer: HealthReport) -> None:
            devices = [report(d.pool, d.device, d.health, d.message, d.timeout) for d in answer.devices]
            changed = self.health.update(plugin.name, devices, clock.now())
            if pods := pods_of(self.claims.cache, plugin.name, changed):
                self._changed(pods)

        while True:
            try:
                await plugin.watch_health(take)
            except DriverCallError as error:
                log.debug("health of %s: %s", plugin.name, error)
            self._forget(plugin)
            with clock.timers(clock.Timer.MACHINE):
                await asyncio.sleep(_HEALTH_PAUSE)
