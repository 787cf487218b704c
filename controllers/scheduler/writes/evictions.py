"""The writes of preemption.

Victims get a condition and are deleted. Less important pods that were nominated to the node lose their nomination.
Victims that are not bound yet, because they wait for volumes or devices, return to the queue instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.runtime import clock
from controllers.runtime.client import Client
from controllers.runtime.conditions import condition_patch
from controllers.runtime.events import EventRecorder
from controllers.runtime.kinds import PODS
from controllers.runtime.times import go_time
from controllers.scheduler.framework.attempt_metrics import AttemptMetrics
from controllers.scheduler.state.nodes import Nominator
from controllers.scheduler.state.pod_info import PodInfo
from controllers.scheduler.writes.waiting_pods import Waits

REASON = "PreemptionByScheduler"
_GONE = (404, 409)
"""The pod is gone, or another pod has its name."""


@dataclass(frozen=True, slots=True)
class Preemptor:
    """The pod or group that pods are evicted for: `kind` is "pod" or "podgroup"."""

    kind: str
    obj: Json
    scheduler: str


class Evictions:
    """The evictions of one scheduler."""

    def __init__(
        self,
        client: Client,
        nominator: Nominator,
        recorder: EventRecorder,
        waits: Waits | None = None,
        attempt_metrics: AttemptMetrics | None = None,
    ) -> None:
        self._metrics = attempt_metrics or AttemptMetrics()
        self._client, self._nominator, self._recorder = client, nominator, recorder
        self._waits = waits or Waits()

    async def evict_for_pod(self, preemptor: PodInfo, node: str, victims: Sequence[PodInfo]) -> None:
        """Evict the victims from the node. Raise StatusError or TransportError."""
        scheduler = preemptor.spec.get("schedulerName", "")
        await self._evict_all(victims, Preemptor("pod", preemptor.pod, scheduler), node)
        for other in list(self._nominator.waiting.get(node, {}).values()):
            if other.priority < preemptor.priority:
                self._nominator.remove(other.uid)
                await self._clear_nomination(other)

    async def evict_for_group(self, group: Json, scheduler: str, victims: Sequence[PodInfo]) -> None:
        """Evict the victims from the whole cluster. Raise StatusError or TransportError."""
        await self._evict_all(victims, Preemptor("podgroup", group, scheduler), "cluster")

    async def _evict_all(self, victims: Sequence[PodInfo], preemptor: Preemptor, place: str) -> None:
        self._metrics.victims.observe(len(victims))
        begun, result = clock.now(), "error"
        try:
            await asyncio.gather(*(self._evict(preemptor, victim, place) for victim in victims))
            result = "success"
        finally:
            self._metrics.evictions.inc(result)
            self._metrics.eviction_durations.observe((clock.now() - begun).total_seconds(), result)

    async def _evict(self, preemptor: Preemptor, victim: PodInfo, place: str) -> None:
        pod = victim.pod
        if pod["metadata"].get("deletionTimestamp"):
            return
        note = f"Preempted by {preemptor.kind} {preemptor.obj['metadata']['uid']} on node {place}"
        if self._waits.cancel(victim.uid):
            note += " (in kube-scheduler memory)."
        elif not await self._delete(pod, preemptor):
            return
        self._recorder.record(pod, "Normal", "Preempted", "Preempting", note, related=preemptor.obj)

    async def _delete(self, pod: Json, preemptor: Preemptor) -> bool:
        """Set the condition and delete the pod; return whether it existed. Raise StatusError or TransportError."""
        metadata = pod["metadata"]
        name, namespace, uid = metadata["name"], metadata["namespace"], metadata["uid"]
        condition = {
            "lastProbeTime": None,
            "lastTransitionTime": go_time(clock.now()),
            "message": f"{preemptor.scheduler}: preempting to accommodate a higher priority {preemptor.kind}",
            "observedGeneration": pod["metadata"].get("generation"),
            "reason": REASON,
            "status": "True",
            "type": "DisruptionTarget",
        }
        status = condition_patch(pod, condition)
        try:
            if status:
                patch = {"metadata": {"uid": uid}, "status": status}
                await self._client.patch(PODS, name, patch, namespace, subresource="status")
            await self._client.delete(PODS, name, namespace, uid=uid, parse=False)
        except StatusError as error:
            if error.code not in _GONE:
                raise
            return False
        return True

    async def _clear_nomination(self, pod: PodInfo) -> None:
        patch = {"metadata": {"uid": pod.uid}, "status": {"nominatedNodeName": None}}
        try:
            await self._client.patch(PODS, pod.name, patch, pod.namespace, subresource="status")
        except StatusError as error:
            if error.code not in _GONE:
                raise
