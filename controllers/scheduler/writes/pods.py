"""The scheduler's writes to pods: the PodScheduled condition, the nominated node, the binding.

Unchanged fields are not written.
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


def unscheduled_condition(pod: Json, reason: str, message: str, now: str) -> Json:
    """Build the PodScheduled condition with status False."""
    generation = pod["metadata"].get("generation")
    observed = {"observedGeneration": generation} if generation else {}
    times = {"lastProbeTime": None, "lastTransitionTime": now}
    return {**times, "message": message, **observed, "reason": reason, "status": "False", "type": "PodScheduled"}


class PodWriter:
    """The writes of one scheduler."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def write_unscheduled(self, pod: Json, reason: str, message: str, nominated: str | None) -> None:
        """Write why the pod is not scheduled, and its nominated node: "" for none; None leaves it unchanged."""
        status = condition_patch(pod, unscheduled_condition(pod, reason, message, go_time(clock.now())))
        if nominated is not None and nominated != (pod.get("status") or {}).get("nominatedNodeName", ""):
            status["nominatedNodeName"] = nominated or None
        await self._patch(pod, status)

    async def nominate(self, pod: Json, node: str) -> None:
        """Write the node that the pod is about to be bound to."""
        if (pod.get("status") or {}).get("nominatedNodeName") != node:
            await self._patch(pod, {"nominatedNodeName": node})

    async def write_extended_claim(self, pod: Json, claim: str, mappings: list[Json]) -> None:
        """Write the mapping of extended resources to the claim's requests. Raise PluginError."""
        if not mappings:
            raise PluginError(
                f"nil or empty request mappings, no update of pod {key_of(pod)} ExtendedResourceClaimStatus"
            )
        status = {"extendedResourceClaimStatus": {"requestMappings": mappings, "resourceClaimName": claim}}
        try:
            await self._send(pod, status)
        except (StatusError, TransportError) as error:
            raise PluginError(f"update pod {key_of(pod)} ExtendedResourceClaimStatus: {error}") from error

    async def write_node_resources(self, pod: Json, statuses: list[Json]) -> None:
        """Write the node resources that the pod's claims use. Raise PluginError."""
        try:
            await self._send(pod, {CLAIM_STATUSES: statuses})
        except (StatusError, TransportError) as error:
            raise PluginError(f"updating pod {key_of(pod)} NodeAllocatableResourceClaimStatuses: {error}") from error

    async def clear_node_resources(self, pod: Json) -> None:
        """Clear the node resources of the pod's claims."""
        await self._patch(pod, {CLAIM_STATUSES: None})

    async def _patch(self, pod: Json, status: Json) -> None:
        try:
            await self._send(pod, status)
        except (StatusError, TransportError) as error:
            log.info("cannot update pod %s: %s", key_of(pod), error)

    async def _send(self, pod: Json, status: Json) -> None:
        """Patch the status, with retries for temporary errors. Raise StatusError or TransportError."""
        if not status:
            return
        metadata = pod["metadata"]
        # The uid makes the server answer Conflict for another pod of that name.
        patch = {"metadata": {"uid": metadata["uid"]}, "status": status}
        pause = _PAUSE
        for left in reversed(range(_TRIES)):
            try:
                await self._client.patch(
                    PODS, metadata["name"], patch, metadata["namespace"], subresource="status", parse=False
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
