"""Verdicts about pod groups: recorded on a server, and compared."""

from __future__ import annotations

import asyncio
import re
from typing import Final

from apiserver.api.objects import Json
from controllers.runtime.client import Client
from controllers.runtime.kinds import POD_GROUPS, PODS
from tests.scheduler.situations import Situation
from tests.scheduler.verdicts import items, prepare
from tests.scheduler.world import bare, kind_of, scheduled
from tests.support.patience import Deadline

#: kube-scheduler binds two members that share a claim at the same time, and one of them fails
#: (docs/data/fidelity/differences.md). Or it places them where the devices are not reached.
_DEFECT = "got allocated elsewhere in the meantime"
#: Seconds after which a scheduled group without enough bound members is a verdict.
_LEFT_BEHIND: Final = 10

#: The messages of a group whose victims are terminating.
_UNSCHEDULABLE = "pod group is unschedulable"
_MAKING_ROOM = (_UNSCHEDULABLE, f"0/1 placements are available, first placement status: {_UNSCHEDULABLE}")


_SEVERAL = re.compile("0/([2-9]|[0-9]{2,}) placements")


async def played_groups(client: Client, situation: Situation, *, preempting: bool = False) -> list[Json]:
    """Return the verdict about each group. `preempting`: with WorkloadAwarePreemption."""
    await prepare(client, situation)
    verdicts = []
    for obj in situation.pods:
        await client.create(kind_of(obj), bare(obj))
        if obj["kind"] == "PodGroup":
            verdicts.append(await _verdict(client, obj, preempting))
    return verdicts


async def _verdict(client: Client, group: Json, preempting: bool) -> Json:
    name = group["metadata"]["name"]
    minimum = group["spec"]["schedulingPolicy"].get("gang", {}).get("minCount", 0)

    async def members(of: str = name) -> list[Json]:
        pods = await items(client, PODS, "ns")
        return [pod for pod in pods if (pod["spec"].get("schedulingGroup") or {}).get("podGroupName") == of]

    async def find_verdict() -> tuple[Json, list[Json]] | None:
        condition = await _condition(client, name)
        pods = await members()
        if len(pods) < minimum:
            return {}, pods
        if preempting and condition.get("message") in _MAKING_ROOM:
            return None
        if condition.get("status") == "True" and _bound(pods) < minimum and not late.passed:
            # Pods in binding still have their earlier conditions.
            return None
        decided = all(pod["spec"].get("nodeName") or scheduled(pod).get("message") for pod in pods)
        return (condition, pods) if condition and decided else None

    deadline, late = Deadline(), Deadline(_LEFT_BEHIND)
    while (found := await find_verdict()) is None:
        assert not deadline.passed, f"group {name} is not decided"
        await asyncio.sleep(0.02)
    condition, pods = found
    others = [pod["metadata"]["name"] for pod in await items(client, PODS, "ns")]
    return {
        "torn": _torn(pods) or (condition.get("status") == "True" and _bound(pods) < minimum),
        "others": sorted(other for other in others if other.startswith("low")),
        "condition": {key: condition.get(key) for key in ("status", "reason", "message")},
        "nodes": sorted(pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")),
        "texts": sorted(str(scheduled(pod).get("message")) for pod in pods if not pod["spec"].get("nodeName")),
    }


def _bound(pods: list[Json]) -> int:
    return sum(1 for pod in pods if pod["spec"].get("nodeName"))


def _torn(pods: list[Json]) -> bool:
    """Return whether members share a claim on different nodes. Only one of them reaches the devices."""
    places: dict[str, set[str]] = {}
    for pod in pods:
        for entry in pod["spec"].get("resourceClaims") or () if pod["spec"].get("nodeName") else ():
            places.setdefault(entry["resourceClaimName"], set()).add(pod["spec"]["nodeName"])
    return any(len(nodes) > 1 for nodes in places.values())


async def _condition(client: Client, name: str) -> Json:
    group = await client.get(POD_GROUPS, name, "ns")
    found = (group.get("status") or {}).get("conditions") or ()
    return next((each for each in found if each["type"] == "PodGroupScheduled"), {})


def same_groups(found: list[Json], expected: list[Json], what: str) -> int:
    """Compare until equally many pods went to other nodes, and return the number of compared groups."""
    for compared, (ours, other) in enumerate(zip(found, expected, strict=True)):
        assert not ours["torn"], f"{what}: {ours}"
        if other["torn"] or any(_DEFECT in text for text in other["texts"]):
            return compared
        if len(ours["nodes"]) == len(other["nodes"]) and ours["nodes"] != other["nodes"]:
            return compared
        if ours["condition"]["status"] == "True" and other["condition"]["status"] == "False" and other["nodes"]:
            # kube-scheduler retries the rest immediately, before it observes that the group is scheduled.
            other = {**other, "condition": ours["condition"]}
        if _SEVERAL.match(ours["condition"]["message"] or ""):
            # kube-scheduler tries placements in random order, and the pods get the reasons of the first.
            other = {**other, "texts": ours["texts"]}
        assert ours == other, f"{what}: {ours} instead of {other}"
    return len(found)
