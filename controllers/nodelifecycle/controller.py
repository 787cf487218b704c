"""The node lifecycle controller: sets silent nodes to Unknown and mirrors node conditions in taints.

NoSchedule taints follow the conditions immediately (`reconcile`). Every five seconds all nodes are checked (`zones`)
for heartbeats and NoExecute taints; the nodes of a zone are tainted one after the other. Pods of unready nodes are set
unready. Facts: upstream's pkg/controller/nodelifecycle.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from apiserver.api.objects import Json
from apiserver.runtime.metrics import Family
from controllers.nodelifecycle.taints import OURS, required_taints, swap_taints
from controllers.nodelifecycle.zones import NodeMonitor
from controllers.options.options import Options
from controllers.runtime.client import Client, is_reason
from controllers.runtime.conditions import condition_of
from controllers.runtime.controller import ComponentOfSeveral, Controller
from controllers.runtime.events import CoreEventRecorder
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import NODES, PODS, key_of
from controllers.workloads.common.pod_states import is_ready

NAME = "node-lifecycle-controller"
#: Numbers of workers, as upstream.
_NODE_WORKERS: Final = 8
_POD_WORKERS: Final = 4
#: Deprecated copies of labels, by the current label.
_LABELS: Final = {"kubernetes.io/os": "beta.kubernetes.io/os", "kubernetes.io/arch": "beta.kubernetes.io/arch"}


def build(client: Client, informers: Informers, options: Options) -> NodeLifecycle:
    """Build the component for the manager."""
    return NodeLifecycle(client, informers, options)


class NodeLifecycle(ComponentOfSeveral):
    """The node lifecycle controller. Keys are names of nodes, keys of pods, and names of zones."""

    name = NAME

    def __init__(self, client: Client, informers: Informers, options: Options) -> None:
        self._client = client.for_controller("node-controller")
        self._nodes, self._pods = informers.of(NODES), informers.of(PODS)
        self._on_node = self._pods.index("node name", lambda pod: (pod["spec"].get("nodeName", ""),))
        self._recorder = CoreEventRecorder(self._client, "node-controller")
        self._node_controller = Controller(
            NAME, self.reconcile, workers=_NODE_WORKERS, queue="node_lifecycle_controller"
        )
        self._node_controller.follow(self._nodes)
        self._pod_controller = Controller(
            NAME, self.set_unready, workers=_POD_WORKERS, queue="node_lifecycle_controller_pods"
        )
        self._pod_controller.require(self._nodes)
        self._pod_controller.require(self._pods)
        self._pods.on(self._pod_changed, self._pod_updated)
        self._monitor = NodeMonitor(NAME, self._client, informers, self._recorder, options, self._enqueue_pods)
        self._controllers = (self._node_controller, self._pod_controller, *self._monitor.controllers)
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
        required = required_taints({"spec": {}, **node})
        try:
            await swap_taints(self._client, node, required - present, present - required, "NoSchedule")
            await self._label(node)
        except Exception as error:
            if not is_reason(error, "NotFound"):
                raise

    async def _label(self, node: Json) -> None:
        labels = node["metadata"].get("labels") or {}
        missing = {old: labels[new] for new, old in _LABELS.items() if new in labels and labels.get(old) != labels[new]}
        if missing:
            await self._client.patch(NODES, node["metadata"]["name"], {"metadata": {"labels": missing}})

    def _pod_changed(self, pod: Json) -> None:
        name = pod["spec"].get("nodeName")
        if name and (name not in self._nodes.objects or self._is_unready(name)):
            self._pod_controller.queue.add(key_of(pod))

    def _is_unready(self, name: str) -> bool:
        """Return whether a node is known and reports that it is not ready."""
        node = self._nodes.get(name)
        ready = condition_of(node, "Ready") if node is not None else None
        return ready is not None and ready["status"] != "True"

    def _pod_updated(self, before: Json, pod: Json) -> None:
        if pod["spec"].get("nodeName") != before["spec"].get("nodeName"):
            self._pod_changed(pod)

    def _enqueue_pods(self, node: str) -> None:
        """Enqueue the pods of a node that has become unready."""
        for key in self._on_node.keys(node):
            self._pod_controller.queue.add(key)

    async def set_unready(self, key: str) -> timedelta | None:
        """Set a pod unready if its node is unready."""
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
