"""What the scheduler writes to pods: the PodScheduled condition, the nominated node, the binding.

Nothing is sent when nothing changed.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta

from apiserver.api.errors.status import StatusError
from apiserver.api.helpers.pod_requests import CLAIM_STATUSES
from apiserver.api.objects import Json
from apiserver.runtime import clock
from controllers.runtime.client import Client
from controllers.runtime.conditions import condition_patch
from controllers.runtime.kinds import PODS, key_of
from controllers.runtime.times import go_time
from controllers.runtime.transport import TransportError
from controllers.scheduler.framework.framework import PluginError

log = logging.getLogger(__name__)
_TRIES, _PAUSE, _FACTOR = 4, timedelta(milliseconds=10), 5


def not_scheduled(pod: Json, reason: str, message: str, now: str) -> Json:
    """The condition that states that the pod is not scheduled."""
    generation = pod["metadata"].get("generation")
    observed = {"observedGeneration": generation} if generation else {}
    times = {"lastProbeTime": None, "lastTransitionTime": now}
    return {**times, "message": message, **observed, "reason": reason, "status": "False", "type": "PodScheduled"}


class PodWriter:
    """Writes for one scheduler."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def unscheduled(self, pod: Json, reason: str, message: str, nominated: str | None) -> None:
        """States why the pod is not scheduled. `nominated`: the node that it waits for ("" for none; None: leave
        it).
        """
        status = condition_patch(pod, not_scheduled(pod, reason, message, go_time(clock.now())))
        if nominated is not None and nominated != (pod.get("status") or {}).get("nominatedNodeName", ""):
            status["nominatedNodeName"] = nominated or None
        await self._patch(pod, status)

    async def nominate(self, pod: Json, node: str) -> None:
        """States where the pod is about to go."""
        if (pod.get("status") or {}).get("nominatedNodeName") != node:
            await self._patch(pod, {"nominatedNodeName": node})

    async def state_extended(self, pod: Json, claim: str, mappings: list[Json]) -> None:
        """States which claim serves the extended resources of which containers. Raises PluginError."""
        if not mappings:
            raise PluginError(
                f"nil or empty request mappings, no update of pod {key_of(pod)} ExtendedResourceClaimStatus"
            )
        status = {"extendedResourceClaimStatus": {"requestMappings": mappings, "resourceClaimName": claim}}
        try:
            await self._send(pod, status)
        except (StatusError, TransportError) as error:
            raise PluginError(f"update pod {key_of(pod)} ExtendedResourceClaimStatus: {error}") from error

    async def state_node_resources(self, pod: Json, statuses: list[Json]) -> None:
        """States what the pod's claims take of its node's resources. Raises PluginError."""
        try:
            await self._send(pod, {CLAIM_STATUSES: statuses})
        except (StatusError, TransportError) as error:
            raise PluginError(f"updating pod {key_of(pod)} NodeAllocatableResourceClaimStatuses: {error}") from error

    async def clear_node_resources(self, pod: Json) -> None:
        """States that they take nothing after all."""
        await self._patch(pod, {CLAIM_STATUSES: None})

    async def _patch(self, pod: Json, status: Json) -> None:
        try:
            await self._send(pod, status)
        except (StatusError, TransportError) as error:
            log.info("cannot update pod %s: %s", key_of(pod), error)

    async def _send(self, pod: Json, status: Json) -> None:
        """Patches the status, again if that may help. Raises StatusError, TransportError."""
        if not status:
            return
        metadata = pod["metadata"]
        # Of another pod of that name the server says Conflict.
        patch = {"metadata": {"uid": metadata["uid"]}, "status": status}
        pause = _PAUSE
        for left in reversed(range(_TRIES)):
            try:
                await self._client.patch(
                    PODS, metadata["name"], patch, metadata["namespace"], subresource="status", wanted=False
                )
            except (StatusError, TransportError) as error:
                again = isinstance(error, TransportError) or error.code == 429 or error.code >= 500
                if not (left and again):
                    raise
            else:
                return
            await asyncio.sleep(pause.total_seconds())
            pause *= _FACTOR

    async def bind(self, pod: Json, node: str) -> None:
        metadata = pod["metadata"]
        await self._client.bind(metadata["namespace"], metadata["name"], metadata["uid"], node)
