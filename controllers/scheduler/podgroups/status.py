"""The condition PodGroupScheduled of PodGroups, with the gate GenericWorkload.

It becomes True once enough members for the group have nodes, and stays True. Before that it is False with the reason of
the last attempt. Facts: Kubernetes 1.36, pkg/scheduler.
"""

from __future__ import annotations

import logging
from typing import Final

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.runtime import clock
from controllers.runtime.client import Client
from controllers.runtime.conditions import condition_patch
from controllers.runtime.informer import Informer
from controllers.runtime.kinds import POD_GROUPS
from controllers.runtime.times import go_time
from controllers.runtime.transport import TransportError
from controllers.scheduler.writes.ordered import OrderedWrites

CONDITION: Final = "PodGroupScheduled"
log = logging.getLogger(__name__)


class GroupStatus:
    """A writer of the condition in the background."""

    def __init__(self, client: Client, groups: Informer, writes: OrderedWrites) -> None:
        self._client, self._groups, self._writes = client, groups, writes

    def write(self, key: str, *, scheduled: bool, reason: str, message: str) -> None:
        """Write the result of the last attempt."""
        condition = {"type": CONDITION, "status": str(scheduled), "reason": reason, "message": message}
        self._writes.run(f"group {key}", lambda: self._write(key, condition), f"the condition of pod group {key}")

    async def _write(self, key: str, condition: Json) -> None:
        group = self._groups.get(key)
        if group is None or (_status(group) == "True" and condition["status"] != "True"):
            return
        metadata = group["metadata"]
        observed = {"observedGeneration": metadata["generation"]} if metadata.get("generation") else {}
        status = condition_patch(group, {**condition, **observed, "lastTransitionTime": go_time(clock.now())})
        if status:
            patch = {"metadata": {"uid": metadata["uid"]}, "status": status}
            try:
                await self._client.patch(
                    POD_GROUPS, metadata["name"], patch, metadata["namespace"], subresource="status"
                )
            except (StatusError, TransportError) as error:
                log.info("cannot update pod group %s: %s", key, error)


def _status(group: Json) -> str | None:
    conditions = (group.get("status") or {}).get("conditions") or ()
    return next((condition["status"] for condition in conditions if condition["type"] == CONDITION), None)
