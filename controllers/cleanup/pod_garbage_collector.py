"""The pod garbage collector: deletes pods that no kubelet will end or delete.

It runs every 20 s and collects four groups: the oldest terminated pods above the threshold, terminating pods without a
node, terminating pods on out-of-service nodes, and pods of nodes missing for 40 s. They are deleted without grace
period. Before that they are set to Failed, so that their controllers count them correctly. Facts: upstream's
pkg/controller/podgc.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import timedelta

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.runtime import clock
from apiserver.runtime.metrics import Counter, Family
from controllers.options.options import Options
from controllers.runtime.client import Client, is_reason
from controllers.runtime.conditions import condition_of, condition_patch
from controllers.runtime.controller import Controller, ControllerComponent
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import NODES, PODS
from controllers.runtime.times import go_time
from controllers.runtime.workqueue import Resync
from controllers.workloads.common.pod_control import all_of

NAME = "pod-garbage-collector-controller"
PERIOD = Resync(seconds=20)
#: Minimum absence of a node before its pods are deleted.
QUARANTINE = timedelta(seconds=40)
_BATCH = 50
_OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
_ACTIVE = frozenset({"Pending", "Running", "Unknown"})
_ORPHANED = {
    "type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC",
    "message": "PodGC: node no longer exists", "lastProbeTime": None,
}  # fmt: skip
log = logging.getLogger(__name__)


def build(client: Client, informers: Informers, options: Options) -> PodGarbage:
    """Build the component for the manager."""
    return PodGarbage(client, informers, options)


class PodGarbage(ControllerComponent):
    """The pod garbage collector. Its queue has one key for all pods."""

    name = NAME

    def __init__(self, client: Client, informers: Informers, options: Options) -> None:
        self._client = client.for_controller("pod-garbage-collector")
        self._threshold = options.terminated_pod_gc_threshold
        self._observed = options.features.enabled("PodObservedGenerationTracking")
        self._pods, self._nodes = informers.of(PODS), informers.of(NODES)
        self._on_node = self._pods.index("node name", lambda pod: (pod["spec"].get("nodeName", ""),))
        self._terminated = self._pods.index("ended", lambda pod: () if _phase(pod) in _ACTIVE else ("",))
        self._deleted = self._pods.index(
            "being deleted", lambda pod: ("",) if pod["metadata"].get("deletionTimestamp") else ()
        )
        #: Loop time at which a node named by pods was first missing.
        self._missing: dict[str, float] = {}
        labels = ("namespace", "reason")
        self._deletions = Counter("pod_gc_collector_force_delete_pods_total", "Deleted pods.", labels)
        self._errors = Counter("pod_gc_collector_force_delete_pod_errors_total", "Failed deletions.", labels)
        self._controller = Controller(NAME, self.reconcile, queue="pod_garbage_collector")
        self._controller.require(self._pods)
        self._controller.require(self._nodes)
        self._controller.queue.add("")

    @property
    def metrics(self) -> Sequence[Family]:
        return (*self._controller.metrics, self._deletions, self._errors)

    async def reconcile(self, key: str) -> timedelta:
        if self._threshold:
            await self._collect("terminated", self._excess_pods())
        deleted = self._deleted.get("")
        await self._collect("out-of-service", [pod for pod in deleted if self._is_out_of_service(pod)])
        await self._collect("orphaned", await self._find_orphans(), _ORPHANED)
        await self._collect("unscheduled", [pod for pod in deleted if not pod["spec"].get("nodeName")])
        return PERIOD

    def _excess_pods(self) -> list[Json]:
        """Return the terminated pods above the threshold: evicted ones first, then the oldest."""
        ended = self._terminated.get("")
        number = len(ended) - self._threshold
        return sorted(ended, key=_oldest_first)[:number] if number > 0 else []

    def _is_out_of_service(self, pod: Json) -> bool:
        node = self._nodes.get(pod["spec"].get("nodeName", ""))
        if node is None:
            return False
        ready = condition_of(node, "Ready")
        taints = node.get("spec", {}).get("taints") or ()
        return (ready is None or ready["status"] != "True") and any(t["key"] == _OUT_OF_SERVICE for t in taints)

    async def _find_orphans(self) -> list[Json]:
        now = asyncio.get_running_loop().time()
        missing = [name for name in self._on_node.values() if name and self._nodes.get(name) is None]
        self._missing = {name: self._missing.get(name, now) for name in missing}
        found: list[Json] = []
        for name, since in self._missing.items():
            if now - since >= QUARANTINE.total_seconds() and not await self._has_node(name):
                found += self._on_node.get(name)
        return found

    async def _has_node(self, node: str) -> bool:
        """Return whether the node exists on the server, because the informer may lag. Errors count as yes."""
        try:
            await self._client.get(NODES, node)
        except StatusError as error:
            return not is_reason(error, "NotFound")
        return True

    async def _collect(self, reason: str, pods: Sequence[Json], condition: Json | None = None) -> None:
        for start in range(0, len(pods), _BATCH):
            failures = await all_of(self._delete(pod, reason, condition) for pod in pods[start : start + _BATCH])
            for failure in failures:
                log.warning("%s: cannot delete a pod (%s): %s", NAME, reason, failure)

    async def _delete(self, pod: Json, reason: str, condition: Json | None) -> None:
        metadata = pod["metadata"]
        self._deletions.inc(metadata["namespace"], reason)
        try:
            if _phase(pod) not in ("Succeeded", "Failed"):
                await self._fail(pod, condition)
            await self._client.delete(PODS, metadata["name"], metadata["namespace"], grace_period=0)
        except StatusError as error:
            if not is_reason(error, "NotFound"):
                self._errors.inc(metadata["namespace"], reason)
                raise

    async def _fail(self, pod: Json, condition: Json | None) -> None:
        """Set the pod to Failed, because no kubelet reports its end."""
        metadata, status = pod["metadata"], {"phase": "Failed"}
        observed = {"observedGeneration": metadata.get("generation", 0)} if self._observed else {}
        if condition is not None:
            status |= condition_patch(pod, {**condition, **observed, "lastTransitionTime": go_time(clock.now())})
        body = {"metadata": {"uid": metadata["uid"]}, "status": {**status, **observed}}
        await self._client.patch(PODS, metadata["name"], body, metadata["namespace"], subresource="status")


def _phase(pod: Json) -> str:
    phase: str = (pod.get("status") or {}).get("phase", "")
    return phase


def _oldest_first(pod: Json) -> tuple[bool, str, str]:
    evicted = _phase(pod) == "Failed" and pod["status"].get("reason") == "Evicted"
    return (not evicted, pod["metadata"]["creationTimestamp"], pod["metadata"]["name"])
