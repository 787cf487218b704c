"""The node agent: a kubelet for every emulated node of a cluster.

Keys are `node:NAME`, `pod:NS/NAME` and, for a pod that is gone while its claims are held, `gone:UID`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from datetime import timedelta

from apiserver.api.metrics import Family
from apiserver.api.status import StatusError
from controllers.claims.pods import claim_names, is_reserved_for_pod
from controllers.node.addresses import PodAddresses
from controllers.node.annotations import is_emulated
from controllers.node.dra.checkpoint import NoCheckpoint
from controllers.node.dra.emulated import EmulatedDrivers
from controllers.node.dra.manager import DraFeatures, DraManager
from controllers.node.dra.metrics import DraMetrics
from controllers.node.kubelet import Host, Kubelet
from controllers.node.registration import Registration
from controllers.options import Options
from controllers.runtime.client import Client, is_reason
from controllers.runtime.clock import Clock
from controllers.runtime.controller import Controller, ControllerComponent
from controllers.runtime.events import CoreEventRecorder
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import NODES, PODS, RESOURCE_CLAIMS, Json, key_of

NAME = "node-agent"


class NodeAgent(ControllerComponent):
    """The component."""

    name = NAME

    def __init__(self, client: Client, informers: Informers, clock: Clock, options: Options) -> None:
        self._client = client.named("kubelet")
        self._clock, self._features = clock, options.features
        self._nodes, self._pods = informers.of(NODES), informers.of(PODS)
        self._claims = informers.device_kind(RESOURCE_CLAIMS, options.features)
        self._pods_of_node = self._pods.index(
            "node", lambda pod: (pod["spec"]["nodeName"],) if pod["spec"].get("nodeName") else ()
        )
        self._pods_of_claim = self._pods.index("claims", _claim_keys)
        self._registration = Registration(client, informers, clock, options)
        self._addresses = PodAddresses()
        self._dra_metrics = DraMetrics()
        self._kubelets: dict[str, _Running] = {}
        self._gone: dict[str, Json] = {}
        self._group: asyncio.TaskGroup | None = None
        self._controller = Controller(NAME, self.reconcile, clock, workers=8)
        for informer in (self._nodes, self._pods, self._claims, self._registration.slices):
            self._controller.require(informer)
        self._nodes.on(self._node_changed, lambda _, node: self._node_changed(node), self._node_gone)
        self._pods.on(self._pod_changed, self._pod_updated, self._pod_gone)
        self._claims.on(self._claim_changed, lambda _, claim: self._claim_changed(claim))

    @property
    def metrics(self) -> Sequence[Family]:
        return (*self._controller.metrics, *self._dra_metrics.families)

    async def run(self) -> None:
        await self._registration.provision()
        async with asyncio.TaskGroup() as group:
            self._group = group
            await self._controller.run()

    async def begin_anew(self) -> None:
        """The nodes that were asked for, once more: the store was emptied."""
        await self._registration.provision()

    def _node_changed(self, node: Json) -> None:
        self._registration.note(node)
        if is_emulated(node):
            self._controller.queue.add(f"node:{key_of(node)}")
            for pod in self._pods_of_node.get(key_of(node)):
                self._controller.queue.add(f"pod:{key_of(pod)}")

    def _node_gone(self, node: Json) -> None:
        self._registration.forget(node)
        running = self._kubelets.pop(key_of(node), None)
        if running is not None:
            running.task.cancel()

    def _pod_changed(self, pod: Json) -> None:
        if pod["spec"].get("nodeName"):
            self._addresses.note(pod)
            self._controller.queue.add(f"pod:{key_of(pod)}")

    def _pod_updated(self, old: Json, pod: Json) -> None:
        if old["metadata"]["uid"] != pod["metadata"]["uid"]:
            self._pod_gone(old)
        self._pod_changed(pod)

    def _pod_gone(self, pod: Json) -> None:
        self._addresses.forget(pod)
        uid = pod["metadata"]["uid"]
        running = self._kubelets.get(pod["spec"].get("nodeName", ""))
        if running is not None and running.kubelet.claims.might_need_unprepare(uid):
            self._gone[uid] = pod
            self._controller.queue.add(f"gone:{uid}")

    def _claim_changed(self, claim: Json) -> None:
        for pod in self._pods_of_claim.get(key_of(claim)):
            self._pod_changed(pod)

    async def reconcile(self, key: str) -> timedelta | None:
        kind, _, name = key.partition(":")
        if kind == "node":
            node = self._nodes.get(name)
            return await self._registration.keep(node) if node is not None and is_emulated(node) else None
        return await (self._release(name) if kind == "gone" else self._sync(name))

    async def _sync(self, name: str) -> timedelta | None:
        pod = self._pods.get(name)
        node = self._nodes.get(pod["spec"]["nodeName"]) if pod is not None else None
        if pod is None or node is None or not is_emulated(node):
            return None
        try:
            return await self._kubelet(key_of(node)).sync(pod, node)
        except StatusError as error:
            # The pod was deleted by force meanwhile, or is another one by now (its uid cannot be changed: Invalid).
            # There is nothing left to report on this one.
            now = self._pods.get(name)
            gone = now is None or now["metadata"]["uid"] != pod["metadata"]["uid"]
            if not gone and not is_reason(error, "NotFound"):
                raise
            if gone:
                self._pod_gone(pod)
            return None

    async def _release(self, uid: str) -> timedelta | None:
        """A pod that is gone; a node that is gone took its drivers with it."""
        pod = self._gone[uid]
        running = self._kubelets.get(pod["spec"]["nodeName"])
        again = await running.kubelet.release(pod) if running is not None else None
        if again is None:
            del self._gone[uid]
        return again

    def _kubelet(self, node: str) -> Kubelet:
        """The node's kubelet; its events come from the node."""
        running = self._kubelets.get(node)
        if running is None:
            recorder = CoreEventRecorder(self._client, self._clock, "kubelet", node)
            features = DraFeatures(
                self._features.enabled("DRAExtendedResource"), self._features.enabled("DRAWorkloadResourceClaims")
            )
            manager = DraManager(EmulatedDrivers(), self._read_claim, NoCheckpoint(), features, self._dra_metrics)
            assert self._group is not None
            kubelet = Kubelet(Host(self._client, self._clock, self._addresses), manager, recorder)
            running = self._kubelets[node] = _Running(kubelet, self._group.create_task(recorder.run()))
        return running.kubelet

    async def _read_claim(self, pod: Json, name: str) -> Json:
        """The claim as it was last seen, where that serves the pod; else as it is."""
        namespace = pod["metadata"]["namespace"]
        claim = self._claims.get(f"{namespace}/{name}")
        if (
            claim is not None
            and (claim.get("status") or {}).get("allocation")
            and is_reserved_for_pod(pod, claim, self._features.enabled("DRAWorkloadResourceClaims"))
        ):
            return claim
        return await self._client.get(RESOURCE_CLAIMS, name, namespace)


class _Running:
    """A kubelet, and the task that writes its events."""

    def __init__(self, kubelet: Kubelet, task: asyncio.Task[None]) -> None:
        self.kubelet, self.task = kubelet, task


def _claim_keys(pod: Json) -> Iterator[str]:
    return (f"{pod['metadata']['namespace']}/{name}" for name in claim_names(pod))
