"""The pod garbage collector: pods that nobody will ever end or delete.

Every 20 s: the oldest of the pods that ended, where there are too many; pods that are being deleted and have no node,
or one that is out of service; pods of nodes that have been missing for 40 s. They go at once, and are Failed before, so
that whoever counts pods knows. Facts: upstream's pkg/controller/podgc.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import timedelta

from apiserver.api.errors.status import StatusError
from apiserver.runtime import clock
from apiserver.runtime.metrics import Counter, Family
from controllers.options.options import Options
from controllers.runtime.client import Client, is_reason
from controllers.runtime.conditions import condition_of, condition_patch
from controllers.runtime.controller import Controller, ControllerComponent
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import NODES, PODS, Json
from controllers.runtime.times import go_time
from controllers.runtime.workqueue import Resync
from controllers.workloads.common.pod_control import all_of

NAME = "pod-garbage-collector-controller"
PERIOD = Resync(seconds=20)
#: How long a node has to be missing before its pods are.
QUARANTINE = timedelta(seconds=40)
_AT_ONCE = 50
_OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
_GOING_ON = frozenset({"Pending", "Running", "Unknown"})
_ORPHANED = {
    "type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC",
    "message": "PodGC: node no longer exists", "lastProbeTime": None,
}  # fmt: skip
log = logging.getLogger(__name__)


def build(client: Client, informers: Informers, options: Options) -> PodGarbage:
    """The component, for the manager."""
    return PodGarbage(client, informers, options)


class PodGarbage(ControllerComponent):
    """The component. Its queue has one key, which stands for all pods."""

    name = NAME

    def __init__(self, client: Client, informers: Informers, options: Options) -> None:
        self._client = client.named("pod-garbage-collector")
        self._threshold = options.terminated_pod_gc_threshold
        self._observed = options.features.enabled("PodObservedGenerationTracking")
        self._pods, self._nodes = informers.of(PODS), informers.of(NODES)
        self._on_node = self._pods.index("node name", lambda pod: (pod["spec"].get("nodeName", ""),))
        self._ended = self._pods.index("ended", lambda pod: () if _phase(pod) in _GOING_ON else ("",))
        self._deleted = self._pods.index(
            "being deleted", lambda pod: ("",) if pod["metadata"].get("deletionTimestamp") else ()
        )
        #: Since when nodes are missing that pods name, in the loop's time.
        self._missing: dict[str, float] = {}
        labels = ("namespace", "reason")
        self._deletions = Counter("pod_gc_collector_force_delete_pods_total", "Pods that were deleted.", labels)
        self._errors = Counter("pod_gc_collector_force_delete_pod_errors_total", "Deletions that failed.", labels)
        self._controller = Controller(NAME, self.reconcile, queue="pod_garbage_collector")
        self._controller.require(self._pods)
        self._controller.require(self._nodes)
        self._controller.queue.add("")

    @property
    def metrics(self) -> Sequence[Family]:
        return (*self._controller.metrics, self._deletions, self._errors)

    async def reconcile(self, key: str) -> timedelta:
        if self._threshold:
            await self._collect("terminated", self._too_many())
        deleted = self._deleted.get("")
        await self._collect("out-of-service", [pod for pod in deleted if self._is_out_of_service(pod)])
        await self._collect("orphaned", await self._orphans(), _ORPHANED)
        await self._collect("unscheduled", [pod for pod in deleted if not pod["spec"].get("nodeName")])
        return PERIOD

    def _too_many(self) -> list[Json]:
        """The oldest of the pods that ended, evicted ones first."""
        ended = self._ended.get("")
        number = len(ended) - self._threshold
        return sorted(ended, key=_oldest_first)[:number] if number > 0 else []

    def _is_out_of_service(self, pod: Json) -> bool:
        node = self._nodes.get(pod["spec"].get("nodeName", ""))
        if node is None:
            return False
        ready = condition_of(node, "Ready")
        taints = node.get("spec", {}).get("taints") or ()
        return (ready is None or ready["status"] != "True") and any(t["key"] == _OUT_OF_SERVICE for t in taints)

    async def _orphans(self) -> list[Json]:
        now = asyncio.get_running_loop().time()
        missing = [name for name in self._on_node.values() if name and self._nodes.get(name) is None]
        self._missing = {name: self._missing.get(name, now) for name in missing}
        found: list[Json] = []
        for name, since in self._missing.items():
            if now - since >= QUARANTINE.total_seconds() and not await self._is_there(name):
                found += self._on_node.get(name)
        return found

    async def _is_there(self, node: str) -> bool:
        """Asks the server: the informer may be behind. A node of which nothing can be learned counts as there."""
        try:
            await self._client.get(NODES, node)
        except StatusError as error:
            return not is_reason(error, "NotFound")
        return True

    async def _collect(self, reason: str, pods: Sequence[Json], condition: Json | None = None) -> None:
        for start in range(0, len(pods), _AT_ONCE):
            failures = await all_of(self._end(pod, reason, condition) for pod in pods[start : start + _AT_ONCE])
            for failure in failures:
                log.warning("%s: cannot delete a pod (%s): %s", NAME, reason, failure)

    async def _end(self, pod: Json, reason: str, condition: Json | None) -> None:
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
        """Nobody else would say that it has ended."""
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
