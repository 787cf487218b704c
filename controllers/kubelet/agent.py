"""The node agent: a kubelet for every emulated node of a cluster, or the kubelet of one node.

A node with plugin directories has real drivers (`PluginHost`); the others have emulated ones.

Keys are `node:NAME`, `pod:NS/NAME`, and `gone:UID` for a deleted pod whose claims are still prepared.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.runtime.metrics import Family
from controllers.kubelet.emulation.addresses import PodAddresses
from controllers.kubelet.emulation.annotation_check import AnnotationWarnings
from controllers.kubelet.emulation.annotations import is_emulated
from controllers.kubelet.emulation.jobs import JobDurations
from controllers.kubelet.emulation.readiness import NodeReadiness
from controllers.kubelet.emulation.registration import Endpoint, Registration
from controllers.kubelet.kubelet import TERMINAL
from controllers.kubelet.kubelets import Caches, Kubelets
from controllers.kubelet.pods.certificates import GATE as CERTIFICATES_GATE
from controllers.options.options import Options
from controllers.resourceclaims.pods import claim_names
from controllers.runtime.client import Client, is_reason
from controllers.runtime.controller import Controller, ControllerComponent
from controllers.runtime.informer import Informer, Informers
from controllers.runtime.kinds import NODES, POD_CERTIFICATE_REQUESTS, PODS, RESOURCE_CLAIMS, key_of
from controllers.runtime.newest import Newest

if TYPE_CHECKING:
    from controllers.kubelet.run.endpoint import KubeletEndpoint

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
        self._requests: Informer | None = None
        if self._features.enabled(CERTIFICATES_GATE):
            # Not required: pods without certificates must start even if this kind is not served.
            selector = f"spec.nodeName={options.node}" if options.node else ""
            self._requests = informers.of(POD_CERTIFICATE_REQUESTS, field_selector=selector)
        self._controller = Controller(NAME, self.reconcile, workers=8)
        self._registration = Registration(client, informers, options, self._slices_changed)
        self._addresses = PodAddresses(options.node)
        self._endpoint: KubeletEndpoint | None = None
        self._gone: dict[str, Json] = {}
        self._readiness = NodeReadiness()
        self._jobs = JobDurations(informers, options, self._job_durations_changed)
        caches = Caches(self._nodes, self._pods, self._pods_of_node, self._newest, self._claims, self._requests)
        self._kubelets = Kubelets(self._client, caches, options, self._addresses, self._jobs, self._queue)
        #: None for the kubelet of one node: the agent of the others warns.
        self._warnings = None if options.node else AnnotationWarnings(self._client, self._nodes, self._pods)
        for informer in (self._nodes, self._pods, self._claims, self._registration.slices):
            if informer is not None:
                self._controller.require(informer)
        self._nodes.on(self._node_changed, lambda _, node: self._node_changed(node), self._node_gone)
        self._pods.on(self._pod_changed, self._pod_updated, self._pod_gone)
        if self._claims is not None:
            self._claims.on(self._claim_changed, lambda _, claim: self._claim_changed(claim))
        if self._requests is not None:
            self._requests.on(self._request_changed, lambda _, new: self._request_changed(new), self._request_changed)

    @property
    def due(self) -> float | None:
        # The next action of real drivers cannot be predicted.
        return super().due if self._kubelets.plugins is None else asyncio.get_running_loop().time()

    @property
    def metrics(self) -> Sequence[Family]:
        return (*self._controller.metrics, *self._kubelets.metrics)

    @property
    def driver_calls(self) -> Sequence[Json]:
        """The latest calls of real drivers, oldest first."""
        plugins = self._kubelets.plugins
        return [call.as_json() for call in plugins.calls.calls] if plugins is not None else ()

    async def run(self) -> None:
        await self._listen()
        await self._provision()
        async with asyncio.TaskGroup() as group:
            self._kubelets.group = group
            if self._warnings is not None:
                group.create_task(self._warnings.run())
            try:
                await self._controller.run()
            finally:
                await self._kubelets.close()
                if self._endpoint is not None:
                    self._endpoint.close()

    async def restart(self) -> None:
        """Create the configured nodes again after the store was emptied. Return when they are Ready.

        Also delete the record of calls.
        """
        if self._kubelets.plugins is not None:
            self._kubelets.plugins.calls.calls.clear()
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
        self._kubelets.stop(key_of(node))

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
        kubelet = self._kubelets.of(pod)
        if kubelet is not None:
            kubelet.remove(pod)
        if kubelet is not None and kubelet.claims.might_need_unprepare(uid):
            self._gone[uid] = pod
            self._controller.queue.add(f"gone:{uid}")

    def _claim_changed(self, claim: Json) -> None:
        for pod in self._pods_of_claim.get(key_of(claim)):
            self._kubelets.invalidate(pod)
            self._pod_changed(pod)

    def _queue(self, pod: Json) -> None:
        self._controller.queue.add(f"pod:{key_of(pod)}")

    def _job_durations_changed(self, namespace: str) -> None:
        for pod in self._pods.objects.values():
            if pod["metadata"]["namespace"] == namespace:
                self._kubelets.invalidate(pod)
                self._pod_changed(pod)

    def _request_changed(self, request: Json) -> None:
        pod = self._pods.get(f"{request['metadata']['namespace']}/{request['spec']['podName']}")
        if pod is not None:
            self._kubelets.invalidate(pod)
            self._pod_changed(pod)

    async def reconcile(self, key: str) -> timedelta | None:
        kind, _, name = key.partition(":")
        if kind == "node":
            node = self._nodes.get(name)
            if node is None or not self._is_mine(node):
                return None
            if name == self._options.plugin_node:
                # Drivers register with the node even if it has no pods.
                self._kubelets.start(name)
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
            return await self._kubelets.start(key_of(node)).sync(pod, node)
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
        kubelet = self._kubelets.of(pod)
        requeue_after = await kubelet.release(pod) if kubelet is not None else None
        if requeue_after is None:
            del self._gone[uid]
        return requeue_after

    def _is_mine(self, node: Json) -> bool:
        return key_of(node) == self._options.node if self._options.node else is_emulated(node)

    async def _listen(self) -> None:
        """Serve the containers of a node that runs processes, and let its Node say where."""
        options = self._options.run
        if options is None or options.announcements is not None:
            return
        from controllers.kubelet.run.endpoint import ADDRESS, KubeletEndpoint
        from kubedra.runtime.extras import MissingExtraError

        self._endpoint = KubeletEndpoint(self._client, self._kubelets.find_named_pod)
        try:
            found = await self._endpoint.start()
        except (OSError, MissingExtraError) as error:
            log.warning("logs and exec are unavailable: %s", error)
        else:
            self._registration.endpoint = Endpoint(ADDRESS, found.port, found.certificate)


def _has_ended(pod: Json) -> bool:
    """Return whether a pod is terminal and not being deleted."""
    return pod.get("status", {}).get("phase") in TERMINAL and "deletionTimestamp" not in pod["metadata"]


def _claim_keys(pod: Json) -> Iterator[str]:
    return (f"{pod['metadata']['namespace']}/{name}" for name in claim_names(pod))
