"""The kubelets of one process, by node, each built on first use with its drivers and containers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from apiserver.api.helpers.tolerations import COMPARISON_GATE
from apiserver.api.objects import Json
from apiserver.runtime.metrics import Family
from controllers.kubelet.dra.checkpoint import NoCheckpoint
from controllers.kubelet.dra.drivers import ClaimId
from controllers.kubelet.dra.emulated import EmulatedDrivers, EmulatedHealth
from controllers.kubelet.dra.manager import DraFeatures, DraManager
from controllers.kubelet.dra.metrics import DraMetrics
from controllers.kubelet.emulation.addresses import PodAddresses
from controllers.kubelet.emulation.device_faults import NONE as NO_FAULTS
from controllers.kubelet.emulation.device_faults import DeviceFaults, device_faults
from controllers.kubelet.emulation.jobs import JobDurations
from controllers.kubelet.kubelet import Host, Kubelet, Timings, WithHealth
from controllers.kubelet.pods.certificates import PodCertificates
from controllers.kubelet.pods.containers import EmulatedContainers
from controllers.options.crash_points import CrashPoints
from controllers.options.options import Options
from controllers.resourceclaims.pods import is_reserved_for_pod
from controllers.runtime.client import Client
from controllers.runtime.events import CoreEventRecorder
from controllers.runtime.index import Index
from controllers.runtime.informer import Informer
from controllers.runtime.kinds import RESOURCE_CLAIMS
from controllers.runtime.newest import Newest

if TYPE_CHECKING:
    from controllers.kubelet.grpc.host import PluginHost
    from controllers.kubelet.run.containers import ProcessContainers
    from controllers.kubelet.run.server import RunServer


@dataclass(frozen=True, slots=True)
class Caches:
    """The objects that kubelets read. `claims` is None for the kubelet of one node: it may only get single claims."""

    nodes: Informer
    pods: Informer
    pods_of_node: Index
    newest: Newest
    claims: Informer | None
    certificate_requests: Informer | None


@dataclass(frozen=True, slots=True)
class _RunningKubelet:
    """A kubelet with the tasks that write its events and talk to its drivers."""

    kubelet: Kubelet
    tasks: Sequence[asyncio.Task[None]]
    containers: ProcessContainers | None = None

    def stop(self) -> None:
        if self.containers is not None:
            self.containers.close()
        for task in self.tasks:
            task.cancel()


class Kubelets:
    """Builds, keeps and stops the kubelets. `group` runs their tasks; it is set before the first one starts.

    `plugins` is the host of real drivers, if the options name their directories. `queue` queues the sync of a pod.
    """

    def __init__(
        self,
        client: Client,
        caches: Caches,
        options: Options,
        addresses: PodAddresses,
        jobs: JobDurations,
        queue: Callable[[Json], None],
    ) -> None:
        self._client, self._caches, self._options = client, caches, options
        self._features = options.features
        self._addresses, self._jobs, self._queue = addresses, jobs, queue
        self._random = random.Random(options.seed)  # noqa: S311 - no secret
        self._dra_metrics = DraMetrics()
        self._running: dict[str, _RunningKubelet] = {}
        self._run_server: RunServer | None = None
        self.group: asyncio.TaskGroup | None = None
        self.plugins = self._plugin_host(options.plugin_node) if options.plugin_dirs is not None else None

    @property
    def metrics(self) -> Sequence[Family]:
        return (*self._dra_metrics.families, *(self.plugins.metrics if self.plugins is not None else ()))

    def of(self, pod: Json) -> Kubelet | None:
        """Return the running kubelet of a pod's node, or None."""
        running = self._running.get(pod["spec"].get("nodeName", ""))
        return running.kubelet if running is not None else None

    def invalidate(self, pod: Json) -> None:
        """Make the next sync of a pod run in full because a dependency has changed."""
        kubelet = self.of(pod)
        if kubelet is not None:
            kubelet.invalidate(pod)

    def stop(self, node: str) -> None:
        """Stop the kubelet of a node, if it runs."""
        running = self._running.pop(node, None)
        if running is not None:
            running.stop()

    async def close(self) -> None:
        """Stop all kubelets and what they share."""
        for node in tuple(self._running):
            self.stop(node)
        if self._run_server is not None:
            await self._run_server.close()

    def start(self, node: str) -> Kubelet:
        """Return the node's kubelet, started on first use. Its events name the node as their host."""
        running = self._running.get(node)
        if running is None:
            recorder = CoreEventRecorder(self._client, "kubelet", node)
            frequency = self._options.sync_frequency
            timings = Timings(frequency, min(Timings().backoff, frequency))
            host = Host(
                self._client, self._addresses, timings, self._random.random, self._caches.newest.wrote,
                self._features.enabled(COMPARISON_GATE),
            )  # fmt: skip
            assert self.group is not None
            tasks = [self.group.create_task(recorder.run())]
            plugins = self.plugins if node == self._options.plugin_node else None
            if plugins is None:
                features, metrics = self._dra_features(), self._dra_metrics
                drivers = EmulatedDrivers(lambda: self._faults(node), self._allocation_results)
                manager = DraManager(drivers, self._read_claim, NoCheckpoint(), features, metrics)
                health: WithHealth | None = self._emulated_health(node, manager)
            else:
                manager, health = plugins.claims, plugins.with_health
                tasks.append(self.group.create_task(plugins.run()))
            emulated = EmulatedContainers(lambda pod: self._jobs.of(pod, self._caches.nodes.get(node)))
            containers = self._containers(node, manager, emulated)
            kubelet = Kubelet(
                host, manager, recorder, health, containers or emulated, lambda: self._caches.pods_of_node.get(node),
                self._certificates(node, recorder),
            )  # fmt: skip
            running = self._running[node] = _RunningKubelet(kubelet, tasks, containers)
        return running.kubelet

    def _certificates(self, node: str, recorder: CoreEventRecorder) -> PodCertificates | None:
        requests = self._caches.certificate_requests
        if requests is None:
            return None
        run = self._options.run
        directory = None if run is None else run.directory / node
        return PodCertificates(self._client, requests.get, recorder, self._random.random, directory)

    def _containers(self, node: str, claims: DraManager, emulated: EmulatedContainers) -> ProcessContainers | None:
        """Return the process runner of a node, or None if containers are emulated."""
        options = self._options.run
        if options is None:
            return None
        from controllers.kubelet.run.containers import ProcessContainers
        from controllers.kubelet.run.server import RunServer

        assert self.group is not None
        if options.announcements is not None:
            if self._run_server is None:
                self._run_server = RunServer(options.announcements, self._find_pod)
            self.group.create_task(self._run_server.announce(node))

        directory = options.directory / node
        return ProcessContainers(self._client, directory, options.cdi, claims.container_devices, self._queue, emulated)

    def _find_pod(self, uid: str) -> tuple[Json, ProcessContainers] | None:
        """Return the pod with a uid and the process runner of its node."""
        for pod in self._caches.pods.objects.values():
            if pod["metadata"]["uid"] == uid:
                running = self._running.get(pod["spec"].get("nodeName", ""))
                return (pod, running.containers) if running is not None and running.containers is not None else None
        return None

    def find_named_pod(self, namespace: str, name: str) -> tuple[Json, ProcessContainers] | None:
        pod = self._caches.pods.get(f"{namespace}/{name}")
        return None if pod is None else self._find_pod(pod["metadata"]["uid"])

    def _plugin_host(self, node: str) -> PluginHost:
        """Build the host of real drivers. Raise CheckpointError if the kubelet's files cannot be used."""
        from controllers.kubelet.grpc.host import HostOptions, PluginHost

        dirs, enabled = self._options.plugin_dirs, self._features.enabled
        assert dirs is not None
        options = HostOptions(
            node,
            dirs.plugins,
            dirs.registry,
            self._dra_features(),
            enabled("ResourceHealthStatus"),
            enabled("ResourceHealthStatusMessage"),
            reconcile=self._options.sync_frequency,
            crash_points=self._options.crash_points or CrashPoints(),
            report_calls=bool(self._options.node),
        )

        def pods() -> list[Json] | None:
            return self._caches.pods_of_node.get(node) if self._caches.pods.synced else None

        def changed(uids: set[str]) -> None:
            for pod in self._caches.pods_of_node.get(node):
                if pod["metadata"]["uid"] in uids:
                    self.invalidate(pod)
                    self._queue(pod)

        return PluginHost(self._client, self._read_live, options, self._dra_metrics, pods, changed)

    def _faults(self, node: str) -> DeviceFaults:
        found = self._caches.nodes.get(node)
        return NO_FAULTS if found is None else device_faults(found)

    def _allocation_results(self, claim: ClaimId) -> Sequence[Json]:
        """Return the claim's cached allocation results; empty if unknown."""
        claims = self._caches.claims
        found = claims.get(f"{claim.namespace}/{claim.name}") if claims is not None else None
        allocation = (found or {}).get("status", {}).get("allocation") or {}
        results: Sequence[Json] = (allocation.get("devices") or {}).get("results") or ()
        return results

    def _emulated_health(self, node: str, claims: DraManager) -> EmulatedHealth | None:
        enabled = self._features.enabled
        if not enabled("ResourceHealthStatus"):
            return None
        messages = enabled("ResourceHealthStatusMessage")
        return EmulatedHealth(claims.cache, lambda: self._faults(node), messages=messages)

    def _dra_features(self) -> DraFeatures:
        enabled = self._features.enabled
        return DraFeatures(
            extended_resources=enabled("DRAExtendedResource"),
            workload_claims=enabled("DRAWorkloadResourceClaims"),
            for_workloads=enabled("DRAReservedForWorkloads"),
        )

    async def _read_live(self, pod: Json, name: str) -> Json:
        return await self._client.get(RESOURCE_CLAIMS, name, pod["metadata"]["namespace"])

    async def _read_claim(self, pod: Json, name: str) -> Json:
        """Return the cached claim if it is allocated and reserved for the pod, else read it from the server."""
        claims = self._caches.claims
        claim = claims.get(f"{pod['metadata']['namespace']}/{name}") if claims is not None else None
        if claim is not None and (claim.get("status") or {}).get("allocation"):
            gates = self._dra_features()
            if is_reserved_for_pod(pod, claim, gates.workload_claims, gates.for_workloads):
                return claim
        return await self._read_live(pod, name)
