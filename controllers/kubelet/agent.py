"""The node agent: a kubelet for every emulated node of a cluster, or the kubelet of one node.

A node with plugin directories has real drivers (`PluginHost`); the others have emulated ones.

Keys are `node:NAME`, `pod:NS/NAME`, and `gone:UID` for a deleted pod whose claims are still prepared.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from apiserver.api.errors.status import StatusError
from apiserver.api.helpers.tolerations import COMPARISON_GATE
from apiserver.api.objects import Json
from apiserver.runtime.metrics import Family
from controllers.kubelet.dra.checkpoint import NoCheckpoint
from controllers.kubelet.dra.drivers import ClaimId
from controllers.kubelet.dra.emulated import EmulatedDrivers, EmulatedHealth
from controllers.kubelet.dra.manager import DraFeatures, DraManager
from controllers.kubelet.dra.metrics import DraMetrics
from controllers.kubelet.emulation.addresses import PodAddresses
from controllers.kubelet.emulation.annotation_check import AnnotationWarnings
from controllers.kubelet.emulation.annotations import is_emulated
from controllers.kubelet.emulation.device_faults import NONE as NO_FAULTS
from controllers.kubelet.emulation.device_faults import DeviceFaults, device_faults
from controllers.kubelet.emulation.jobs import JobDurations
from controllers.kubelet.emulation.readiness import NodeReadiness
from controllers.kubelet.emulation.registration import Endpoint, Registration
from controllers.kubelet.kubelet import TERMINAL, Host, Kubelet, Timings, WithHealth
from controllers.kubelet.pods.certificates import GATE as CERTIFICATES_GATE
from controllers.kubelet.pods.certificates import PodCertificates
from controllers.kubelet.pods.containers import EmulatedContainers
from controllers.options.crash_points import CrashPoints
from controllers.options.options import Options
from controllers.resourceclaims.pods import claim_names, is_reserved_for_pod
from controllers.runtime.client import Client, is_reason
from controllers.runtime.controller import Controller, ControllerComponent
from controllers.runtime.events import CoreEventRecorder
from controllers.runtime.informer import Informer, Informers
from controllers.runtime.kinds import NODES, POD_CERTIFICATE_REQUESTS, PODS, RESOURCE_CLAIMS, key_of
from controllers.runtime.newest import Newest

if TYPE_CHECKING:
    from controllers.kubelet.grpc.host import PluginHost
    from controllers.kubelet.run.containers import ProcessContainers
    from controllers.kubelet.run.endpoint import KubeletEndpoint
    from controllers.kubelet.run.server import RunServer

log = logging.getLogger(__name__)
NAME = "node-agent"


class NodeAgent(ControllerComponent):
    """The component that runs the kubelets of one process."""

    name = NAME

    def __init__(self, client: Client, informers: Informers, options: Options) -> None:
        self._client = client.with_user_agent("kubelet")
        self._options, self._features = options, options.features
        if options.node:
            self._nodes = informers.of(NODES, field_selector=f"metadata.name={options.node}")
            self._pods = informers.of(PODS, field_selector=f"spec.nodeName={options.node}")
        else:
            self._nodes, self._pods = informers.of(NODES), informers.of(PODS)
        self._newest = Newest(self._pods)
        self._pods_of_node = self._pods.index(
            "node", lambda pod: (pod["spec"]["nodeName"],) if pod["spec"].get("nodeName") else ()
        )
        self._pods_of_claim = self._pods.index("claims", _claim_keys)
        #: None for the kubelet of one node: it may only get single claims.
        self._claims = None if options.node else informers.device_kind(RESOURCE_CLAIMS, options.features)
        self._controller = Controller(NAME, self.reconcile, workers=8)
        self._registration = Registration(client, informers, options, self._slices_changed)
        self._random = random.Random(options.seed)  # noqa: S311 - no secret
        self._addresses = PodAddresses(options.node)
        self._dra_metrics = DraMetrics()
        self._plugins = self._plugin_host(options.plugin_node) if options.plugin_dirs is not None else None
        self._kubelets: dict[str, _RunningKubelet] = {}
        self._run_server: RunServer | None = None
        self._endpoint: KubeletEndpoint | None = None
        self._gone: dict[str, Json] = {}
        self._group: asyncio.TaskGroup | None = None
        self._readiness = NodeReadiness()
        #: None for the kubelet of one node: the agent of the others warns.
        self._warnings = None if options.node else AnnotationWarnings(self._client, self._nodes, self._pods)
        for informer in (self._nodes, self._pods, self._claims, self._registration.slices):
            if informer is not None:
                self._controller.require(informer)
        self._nodes.on(self._node_changed, lambda _, node: self._node_changed(node), self._node_gone)
        self._pods.on(self._pod_changed, self._pod_updated, self._pod_gone)
        self._jobs = JobDurations(informers, options, self._job_durations_changed)
        if self._claims is not None:
            self._claims.on(self._claim_changed, lambda _, claim: self._claim_changed(claim))
        self._requests: Informer | None = None
        if self._features.enabled(CERTIFICATES_GATE):
            # Not required: pods without certificates must start even if this kind is not served.
            selector = f"spec.nodeName={options.node}" if options.node else ""
            self._requests = informers.of(POD_CERTIFICATE_REQUESTS, field_selector=selector)
            self._requests.on(self._request_changed, lambda _, new: self._request_changed(new), self._request_changed)

    @property
    def due(self) -> float | None:
        # The next action of real drivers cannot be predicted.
        return super().due if self._plugins is None else asyncio.get_running_loop().time()

    @property
    def metrics(self) -> Sequence[Family]:
        plugins = self._plugins.metrics if self._plugins is not None else ()
        return (*self._controller.metrics, *self._dra_metrics.families, *plugins)

    @property
    def driver_calls(self) -> Sequence[Json]:
        """The latest calls of real drivers, oldest first."""
        return [call.as_json() for call in self._plugins.calls.calls] if self._plugins is not None else ()

    async def run(self) -> None:
        await self._listen()
        await self._provision()
        async with asyncio.TaskGroup() as group:
            self._group = group
            if self._warnings is not None:
                group.create_task(self._warnings.run())
            try:
                await self._controller.run()
            finally:
                for running in self._kubelets.values():
                    running.stop()
                if self._run_server is not None:
                    await self._run_server.close()
                if self._endpoint is not None:
                    self._endpoint.close()

    async def restart(self) -> None:
        """Create the configured nodes again after the store was emptied. Return when they are Ready.

        Also delete the record of calls.
        """
        if self._plugins is not None:
            self._plugins.calls.calls.clear()
        self._readiness.clear()
        await self._provision()
        await self.wait_nodes()

    async def _provision(self) -> None:
        await self._registration.provision()
        self._readiness.provisioned.set()

    async def wait_nodes(self) -> tuple[int, list[str]]:
        """Return the number of ready nodes once their slices are published, and warnings about them."""
        await self._readiness.provisioned.wait()
        mine = [node for node in self._nodes.objects.values() if self._is_mine(node)]
        ready, warnings = await self._readiness.wait((*self._registration.node_names(), *map(key_of, mine)))
        return ready, [*warnings, *self._registration.differences(mine)]

    def _node_changed(self, node: Json) -> None:
        self._registration.record(node)
        if self._is_mine(node):
            self._controller.queue.add(f"node:{key_of(node)}")
            for pod in self._pods_of_node.get(key_of(node)):
                self._controller.queue.add(f"pod:{key_of(pod)}")

    def _slices_changed(self, node: str) -> None:
        self._controller.queue.add(f"node:{node}")

    def _node_gone(self, node: Json) -> None:
        self._controller.queue.drop(f"node:{key_of(node)}")
        self._registration.remove(node)
        self._readiness.remove(key_of(node))
        running = self._kubelets.pop(key_of(node), None)
        if running is not None:
            running.stop()

    def _pod_changed(self, pod: Json) -> None:
        name = pod["spec"].get("nodeName")
        if name:
            self._addresses.record(pod)
            node = self._nodes.get(name)
            if node is not None and self._is_mine(node):
                # Pods of a node that appears later are queued with the node.
                self._controller.queue.add(f"pod:{key_of(pod)}")

    def _pod_updated(self, old: Json, pod: Json) -> None:
        if old["metadata"]["uid"] != pod["metadata"]["uid"]:
            self._pod_gone(old)
        elif _has_ended(old) and _has_ended(pod):
            return  # changes of finalizers and conditions do not concern the node
        self._pod_changed(pod)

    def _pod_gone(self, pod: Json) -> None:
        self._controller.queue.drop(f"pod:{key_of(pod)}")
        self._addresses.remove(pod)
        uid = pod["metadata"]["uid"]
        running = self._kubelets.get(pod["spec"].get("nodeName", ""))
        if running is not None:
            running.kubelet.remove(pod)
        if running is not None and running.kubelet.claims.might_need_unprepare(uid):
            self._gone[uid] = pod
            self._controller.queue.add(f"gone:{uid}")

    def _claim_changed(self, claim: Json) -> None:
        for pod in self._pods_of_claim.get(key_of(claim)):
            self._invalidate(pod)
            self._pod_changed(pod)

    def _invalidate(self, pod: Json) -> None:
        """Make the next sync of a pod run in full because a dependency has changed."""
        running = self._kubelets.get(pod["spec"].get("nodeName", ""))
        if running is not None:
            running.kubelet.invalidate(pod)

    def _job_durations_changed(self, namespace: str) -> None:
        for pod in self._pods.objects.values():
            if pod["metadata"]["namespace"] == namespace:
                self._invalidate(pod)
                self._pod_changed(pod)

    def _request_changed(self, request: Json) -> None:
        pod = self._pods.get(f"{request['metadata']['namespace']}/{request['spec']['podName']}")
        if pod is not None:
            self._invalidate(pod)
            self._pod_changed(pod)

    async def reconcile(self, key: str) -> timedelta | None:
        kind, _, name = key.partition(":")
        if kind == "node":
            node = self._nodes.get(name)
            if node is None or not self._is_mine(node):
                return None
            if name == self._options.plugin_node:
                # Drivers register with the node even if it has no pods.
                self._kubelet(name)
            again = await self._registration.reconcile(node)
            self._readiness.mark(name)
            return again
        return await (self._release(name) if kind == "gone" else self._sync(name))

    async def _sync(self, name: str) -> timedelta | None:
        pod = self._newest.get(name)
        node = self._nodes.get(pod["spec"]["nodeName"]) if pod is not None else None
        if pod is None or node is None or not self._is_mine(node):
            return None
        try:
            return await self._kubelet(key_of(node)).sync(pod, node)
        except StatusError as error:
            # The pod was force-deleted or replaced meanwhile (a changed uid is Invalid): there is nothing left to
            # report.
            now = self._pods.get(name)
            gone = now is None or now["metadata"]["uid"] != pod["metadata"]["uid"]
            if not gone and not is_reason(error, "NotFound"):
                raise
            if gone:
                self._pod_gone(pod)
            return None

    async def _release(self, uid: str) -> timedelta | None:
        """Release the claims of a deleted pod. The drivers of a deleted node are gone and are not called."""
        pod = self._gone[uid]
        running = self._kubelets.get(pod["spec"]["nodeName"])
        requeue_after = await running.kubelet.release(pod) if running is not None else None
        if requeue_after is None:
            del self._gone[uid]
        return requeue_after

    def _is_mine(self, node: Json) -> bool:
        return key_of(node) == self._options.node if self._options.node else is_emulated(node)

    def _kubelet(self, node: str) -> Kubelet:
        """Return the node's kubelet, started on first use. Its events name the node as their host."""
        running = self._kubelets.get(node)
        if running is None:
            recorder = CoreEventRecorder(self._client, "kubelet", node)
            frequency = self._options.sync_frequency
            timings = Timings(frequency, min(Timings().backoff, frequency))
            host = Host(
                self._client, self._addresses, timings, self._random.random, self._newest.wrote,
                self._features.enabled(COMPARISON_GATE),
            )  # fmt: skip
            assert self._group is not None
            tasks = [self._group.create_task(recorder.run())]
            plugins = self._plugins if node == self._options.plugin_node else None
            if plugins is None:
                features, metrics = self._dra_features(), self._dra_metrics
                drivers = EmulatedDrivers(lambda: self._faults(node), self._allocation_results)
                manager = DraManager(drivers, self._read_claim, NoCheckpoint(), features, metrics)
                health: WithHealth | None = self._emulated_health(node, manager)
            else:
                manager, health = plugins.claims, plugins.with_health
                tasks.append(self._group.create_task(plugins.run()))
            emulated = EmulatedContainers(lambda pod: self._jobs.of(pod, self._nodes.get(node)))
            containers = self._containers(node, manager, emulated)
            kubelet = Kubelet(
                host, manager, recorder, health, containers or emulated, lambda: self._pods_of_node.get(node),
                self._certificates(node, recorder),
            )  # fmt: skip
            running = self._kubelets[node] = _RunningKubelet(kubelet, tasks, containers)
        return running.kubelet

    def _certificates(self, node: str, recorder: CoreEventRecorder) -> PodCertificates | None:
        if self._requests is None:
            return None
        run = self._options.run
        directory = None if run is None else run.directory / node
        return PodCertificates(self._client, self._requests.get, recorder, self._random.random, directory)

    def _containers(self, node: str, claims: DraManager, emulated: EmulatedContainers) -> ProcessContainers | None:
        """Return the process runner of a node, or None if containers are emulated."""
        options = self._options.run
        if options is None:
            return None
        from controllers.kubelet.run.containers import ProcessContainers
        from controllers.kubelet.run.server import RunServer

        assert self._group is not None
        if options.announcements is not None:
            if self._run_server is None:
                self._run_server = RunServer(options.announcements, self._find_pod)
            self._group.create_task(self._run_server.announce(node))

        def changed(pod: Json) -> None:
            self._controller.queue.add(f"pod:{key_of(pod)}")

        directory = options.directory / node
        return ProcessContainers(self._client, directory, options.cdi, claims.container_devices, changed, emulated)

    def _find_pod(self, uid: str) -> tuple[Json, ProcessContainers] | None:
        """Return the pod with a uid and the process runner of its node."""
        for pod in self._pods.objects.values():
            if pod["metadata"]["uid"] == uid:
                running = self._kubelets.get(pod["spec"].get("nodeName", ""))
                return (pod, running.containers) if running is not None and running.containers is not None else None
        return None

    def _find_named_pod(self, namespace: str, name: str) -> tuple[Json, ProcessContainers] | None:
        pod = self._pods.get(f"{namespace}/{name}")
        return None if pod is None else self._find_pod(pod["metadata"]["uid"])

    async def _listen(self) -> None:
        """Serve the containers of a node that runs processes, and let its Node say where."""
        options = self._options.run
        if options is None or options.announcements is not None:
            return
        from controllers.kubelet.run.endpoint import ADDRESS, KubeletEndpoint

        self._endpoint = KubeletEndpoint(self._client, self._find_named_pod)
        try:
            found = await self._endpoint.start()
        except OSError as error:
            log.warning("logs and exec are unavailable: %s", error)
        else:
            self._registration.endpoint = Endpoint(ADDRESS, found.port, found.certificate)

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
            return self._pods_of_node.get(node) if self._pods.synced else None

        def changed(uids: set[str]) -> None:
            for pod in self._pods_of_node.get(node):
                if pod["metadata"]["uid"] in uids:
                    self._invalidate(pod)
                    self._controller.queue.add(f"pod:{key_of(pod)}")

        return PluginHost(self._client, self._read_live, options, self._dra_metrics, pods, changed)

    def _faults(self, node: str) -> DeviceFaults:
        found = self._nodes.get(node)
        return NO_FAULTS if found is None else device_faults(found)

    def _allocation_results(self, claim: ClaimId) -> Sequence[Json]:
        """Return the claim's cached allocation results; empty if unknown."""
        found = self._claims.get(f"{claim.namespace}/{claim.name}") if self._claims is not None else None
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
        claim = self._claims.get(f"{pod['metadata']['namespace']}/{name}") if self._claims is not None else None
        if claim is not None and (claim.get("status") or {}).get("allocation"):
            gates = self._dra_features()
            if is_reserved_for_pod(pod, claim, gates.workload_claims, gates.for_workloads):
                return claim
        return await self._read_live(pod, name)


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


def _has_ended(pod: Json) -> bool:
    """Return whether a pod is terminal and not being deleted."""
    return pod.get("status", {}).get("phase") in TERMINAL and "deletionTimestamp" not in pod["metadata"]


def _claim_keys(pod: Json) -> Iterator[str]:
    return (f"{pod['metadata']['namespace']}/{name}" for name in claim_names(pod))
