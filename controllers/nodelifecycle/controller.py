"""Nodes that are not heard of become Unknown, and what is wrong with a node stands in its taints, so that the scheduler
keeps pods off it and the taint eviction controller takes them away.

NoSchedule taints follow a node's conditions at once (`reconcile`). Every five seconds all nodes are looked at
(`zones`): those that are not heard of, and NoExecute taints, which nodes of a zone get one after the other. Pods of a
node that is not ready are not ready either. Facts: upstream's pkg/controller/nodelifecycle.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from apiserver.runtime.metrics import Family
from controllers.nodelifecycle.taints import OURS, swap_taints, wanted_taints
from controllers.nodelifecycle.zones import NodeMonitor
from controllers.options.options import Options
from controllers.runtime.client import Client, is_reason
from controllers.runtime.conditions import condition_of
from controllers.runtime.controller import ComponentOfSeveral, Controller
from controllers.runtime.events import CoreEventRecorder
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import NODES, PODS, Json, key_of
from controllers.workloads.common.pod_states import is_ready

NAME = "node-lifecycle-controller"
#: How many nodes and pods are worked on at the same time, as upstream.
_NODE_WORKERS: Final = 8
_POD_WORKERS: Final = 4
#: Labels that older clients look at, by the label that they follow.
_LABELS: Final = {"kubernetes.io/os": "beta.kubernetes.io/os", "kubernetes.io/arch": "beta.kubernetes.io/arch"}


def build(client: Client, informers: Informers, options: Options) -> NodeLifecycle:
    """The component, for the manager."""
    return NodeLifecycle(client, informers, options)


class NodeLifecycle(ComponentOfSeveral):
    """The component. Keys are node names, those of pods and of zones."""

    name = NAME

    def __init__(self, client: Client, informers: Informers, options: Options) -> None:
        self._client = client.named("node-controller")
        self._nodes, self._pods = informers.of(NODES), informers.of(PODS)
        self._on_node = self._pods.index("node name", lambda pod: (pod["spec"].get("nodeName", ""),))
        self._recorder = CoreEventRecorder(self._client, "node-controller")
        self._tainting = Controller(NAME, self.reconcile, workers=_NODE_WORKERS, queue="node_lifecycle_controller")
        self._tainting.follow(self._nodes)
        self._marking = Controller(NAME, self.mark, workers=_POD_WORKERS, queue="node_lifecycle_controller_pods")
        self._marking.require(self._nodes)
        self._marking.require(self._pods)
        self._pods.on(self._pod_changed, self._pod_updated)
        self._monitor = NodeMonitor(NAME, self._client, informers, self._recorder, options, self._unready)
        self._controllers = (self._tainting, self._marking, *self._monitor.controllers)
        self._beside = (self._recorder.run,)

    @property
    def metrics(self) -> Sequence[Family]:
        return (*super().metrics, *self._monitor.metrics)

    async def reconcile(self, name: str) -> None:
        node = self._nodes.get(name)
        if node is None:
            return
        taints = node.get("spec", {}).get("taints") or []
        present = {taint["key"] for taint in taints if taint["key"] in OURS and taint["effect"] == "NoSchedule"}
        wanted = wanted_taints({"spec": {}, **node})
        try:
            await swap_taints(self._client, node, wanted - present, present - wanted, "NoSchedule")
            await self._label(node)
        except Exception as error:
            if not is_reason(error, "NotFound"):
                raise

    async def _label(self, node: Json) -> None:
        labels = node["metadata"].get("labels") or {}
        missing = {old: labels[new] for new, old in _LABELS.items() if new in labels and labels.get(old) != labels[new]}
        if missing:
            await self._client.patch(NODES, node["metadata"]["name"], {"metadata": {"labels": missing}})

    # Pods of nodes that are not ready.

    def _pod_changed(self, pod: Json) -> None:
        name = pod["spec"].get("nodeName")
        if name and (name not in self._nodes.objects or self._is_unready(name)):
            self._marking.queue.add(key_of(pod))

    def _is_unready(self, name: str) -> bool:
        """Whether a node is known and says that it is not ready."""
        node = self._nodes.get(name)
        ready = condition_of(node, "Ready") if node is not None else None
        return ready is not None and ready["status"] != "True"

    def _pod_updated(self, before: Json, pod: Json) -> None:
        if pod["spec"].get("nodeName") != before["spec"].get("nodeName"):
            self._pod_changed(pod)

    def _unready(self, node: str) -> None:
        """A node is not ready any more."""
        for key in self._on_node.keys(node):
            self._marking.queue.add(key)

    async def mark(self, key: str) -> timedelta | None:
        """A pod on a node that is not ready is not ready."""
        pod = self._pods.get(key)
        if pod is None or not self._is_unready(pod["spec"].get("nodeName", "")) or not is_ready(pod):
            return None
        conditions = [
            {**each, "status": "False", "lastTransitionTime": self._monitor.now()} if each["type"] == "Ready" else each
            for each in pod["status"]["conditions"]
        ]
        try:
            await self._client.update_status(PODS, {**pod, "status": {**pod["status"], "conditions": conditions}})
        except Exception as error:
            if not is_reason(error, "NotFound"):
                raise
        self._recorder.record(pod, "Warning", "NodeNotReady", "Node is not ready")
        return None
