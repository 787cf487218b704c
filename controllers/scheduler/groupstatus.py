"""What a PodGroup says of its scheduling: the condition PodGroupScheduled, with the gate GenericWorkload.

True once as many members have a node as the group's policy asks for (a gang's minCount; one of a basic group), and then
for good; before that False, with the reason and the words of a member that found no node. Members are placed one by
one: see docs/fidelity.md. Facts: Kubernetes 1.36, pkg/scheduler.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from apiserver import clock
from controllers.claims.pods import group_key
from controllers.runtime.client import Client
from controllers.runtime.conditions import condition_patch
from controllers.runtime.controller import Controller
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import POD_GROUPS, PODS, Json
from controllers.runtime.times import go_time

GATE: Final = "GenericWorkload"
CONDITION: Final = "PodGroupScheduled"


def _condition(obj: Json, of_type: str) -> Json:
    found = (obj.get("status") or {}).get("conditions") or ()
    return next((condition for condition in found if condition["type"] == of_type), {})


def needed(group: Json) -> int:
    """How many members must have a node."""
    gang = group["spec"].get("schedulingPolicy", {}).get("gang") or {}
    return int(gang.get("minCount", 1))


def judged(group: Json, members: list[Json]) -> Json | None:
    """The condition as it has to be, but for its times; None where there is nothing new to say."""
    if _condition(group, CONDITION).get("status") == "True":
        return None
    if sum(1 for pod in members if pod["spec"].get("nodeName")) >= needed(group):
        return {"type": CONDITION, "status": "True", "reason": "Scheduled", "message": ""}
    for pod in sorted(members, key=lambda pod: str(pod["metadata"]["name"])):
        said = _condition(pod, "PodScheduled")
        if not pod["spec"].get("nodeName") and said.get("status") == "False":
            return {"type": CONDITION, **{name: said.get(name, "") for name in ("status", "reason", "message")}}
    return None


class GroupStatus:
    """Writes the condition, as part of the scheduler whose profiles have `names`: of other schedulers' groups it says
    nothing.
    """

    def __init__(self, client: Client, informers: Informers, names: Container[str]) -> None:
        self._client, self._names = client, names
        self._groups = informers.of(POD_GROUPS)
        pods = informers.of(PODS)
        self._members = pods.index("group", lambda pod: (key,) if (key := group_key(pod)) else ())
        self.controller = Controller("podgroup-status", self._reconcile)
        self.controller.follow(self._groups)
        self.controller.follow(pods, lambda pod: (key,) if (key := group_key(pod)) else ())

    async def _reconcile(self, key: str) -> None:
        group = self._groups.get(key)
        if group is None:
            return
        members = [pod for pod in self._members.get(key) if pod["spec"].get("schedulerName") in self._names]
        condition = judged(group, members)
        if condition is None:
            return
        metadata = group["metadata"]
        observed = {"observedGeneration": metadata["generation"]} if metadata.get("generation") else {}
        status = condition_patch(group, {**condition, **observed, "lastTransitionTime": go_time(clock.now())})
        if status:
            patch = {"metadata": {"uid": metadata["uid"]}, "status": status}
            await self._client.patch(POD_GROUPS, metadata["name"], patch, metadata["namespace"], subresource="status")
