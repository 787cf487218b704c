"""What the scheduler writes to pods: the PodScheduled condition, the nominated node, the binding.

Status patches are the difference between two statuses in strategic-merge form, as client-go makes it: only changed keys, list
order stated. Nothing is sent when nothing changed.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

from apiserver.api.status import StatusError
from controllers.runtime.client import Client
from controllers.runtime.clock import Clock, go_time
from controllers.runtime.kinds import PODS
from controllers.runtime.transport import TransportError

Json = dict[str, Any]
log = logging.getLogger(__name__)
_TRIES, _PAUSE, _FACTOR = 4, timedelta(milliseconds=10), 5


def condition_patch(pod: Json, reason: str, message: str, now: str) -> Json:
    """The part of a status patch that states that the pod is not scheduled; empty if it says so already."""
    conditions = (pod.get("status") or {}).get("conditions") or []
    wanted: Json = {"lastProbeTime": None, "lastTransitionTime": now, "message": message}
    if generation := pod["metadata"].get("generation"):
        wanted["observedGeneration"] = generation
    wanted |= {"reason": reason, "status": "False", "type": "PodScheduled"}
    known = next((c for c in conditions if c["type"] == "PodScheduled"), None)
    if known is None:
        order = [{"type": c["type"]} for c in (*conditions, wanted)]
        return {**({"$setElementOrder/conditions": order} if conditions else {}), "conditions": [wanted]}
    if known["status"] == "False":
        wanted["lastTransitionTime"] = known.get("lastTransitionTime")
    changed = {name: value for name, value in wanted.items() if known.get(name) != value}
    if not changed:
        return {}
    order = [{"type": c["type"]} for c in conditions]
    return {"$setElementOrder/conditions": order, "conditions": [{**changed, "type": "PodScheduled"}]}


class PodWriter:
    """Writes for one scheduler."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client, self._clock = client, clock

    async def unscheduled(self, pod: Json, reason: str, message: str, nominated: str | None) -> None:
        """States why the pod is not scheduled. `nominated`: the node that it waits for ("" for none; None: leave it)."""
        status = condition_patch(pod, reason, message, go_time(self._clock.now()))
        if nominated is not None and nominated != (pod.get("status") or {}).get("nominatedNodeName", ""):
            status["nominatedNodeName"] = nominated or None
        await self._patch(pod, status)

    async def nominate(self, pod: Json, node: str) -> None:
        """States where the pod is about to go."""
        if (pod.get("status") or {}).get("nominatedNodeName") != node:
            await self._patch(pod, {"nominatedNodeName": node})

    async def _patch(self, pod: Json, status: Json) -> None:
        if not status:
            return
        metadata = pod["metadata"]
        pause = _PAUSE
        for left in reversed(range(_TRIES)):
            try:
                await self._client.patch(
                    PODS, metadata["name"], {"status": status}, metadata["namespace"], subresource="status"
                )
            except (StatusError, TransportError) as error:
                again = isinstance(error, TransportError) or error.code == 429 or error.code >= 500
                if not (left and again):
                    log.info("cannot update pod %s/%s: %s", metadata["namespace"], metadata["name"], error)
                    return
                await self._clock.sleep(pause)
                pause *= _FACTOR
            else:
                return

    async def bind(self, pod: Json, node: str) -> None:
        metadata = pod["metadata"]
        await self._client.bind(metadata["namespace"], metadata["name"], metadata["uid"], node)
