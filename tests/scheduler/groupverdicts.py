"""What a scheduler makes of groups of pods: played on a server, compared."""

from __future__ import annotations

import asyncio
import re
from typing import Final

from apiserver.api.objects import Json
from controllers.runtime.client import Client
from controllers.runtime.kinds import POD_GROUPS, PODS
from tests.scheduler.situations import Situation
from tests.scheduler.verdicts import bare, items, prepare
from tests.scheduler.world import scheduled
from tests.support.patience import Deadline

#: Two members of a group that share a claim are bound at the same time, and one of them fails (docs/data/fidelity/differences.md). Or
#: they are placed where its devices are not reached: then one is left behind, or bound where it cannot run.
_DEFECT = "got allocated elsewhere in the meantime"
#: Seconds after which a group that is called scheduled stays without members that it needs.
_LEFT_BEHIND: Final = 10

#: What the condition of a group says while the pods end that make room for it, and nothing else.
_UNSCHEDULABLE = "pod group is unschedulable"
_MAKING_ROOM = (_UNSCHEDULABLE, f"0/1 placements are available, first placement status: {_UNSCHEDULABLE}")


_SEVERAL = re.compile("0/([2-9]|[0-9]{2,}) placements")


async def played_groups(client: Client, situation: Situation, *, preempting: bool = False) -> list[Json]:
    """What became of each group once it was there. `preempting`: with WorkloadAwarePreemption."""
    await prepare(client, situation)
    verdicts = []
    for obj in situation.pods:
        await client.create(POD_GROUPS if obj["kind"] == "PodGroup" else PODS, bare(obj))
        if obj["kind"] == "PodGroup":
            verdicts.append(await _verdict(client, obj, preempting))
    return verdicts


async def _verdict(client: Client, group: Json, preempting: bool) -> Json:
    name = group["metadata"]["name"]
    minimum = group["spec"]["schedulingPolicy"].get("gang", {}).get("minCount", 0)

    async def members(of: str = name) -> list[Json]:
        pods = await items(client, PODS, "ns")
        return [pod for pod in pods if (pod["spec"].get("schedulingGroup") or {}).get("podGroupName") == of]

    async def settled() -> tuple[Json, list[Json]] | None:
        condition = await _condition(client, name)
        pods = await members()
        if len(pods) < minimum:
            return {}, pods
        if preempting and condition.get("message") in _MAKING_ROOM:
            return None
        if condition.get("status") == "True" and _bound(pods) < minimum and not late.passed:
            # Pods that are on their way still say what was said of them before.
            return None
        decided = all(pod["spec"].get("nodeName") or scheduled(pod).get("message") for pod in pods)
        return (condition, pods) if condition and decided else None

    deadline, late = Deadline(), Deadline(_LEFT_BEHIND)
    while (found := await settled()) is None:
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
    """Whether members share a claim and are on different nodes, of which one alone reaches its devices."""
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
    """How many could be compared: once the same number of pods went to other nodes, what follows may differ."""
    for compared, (ours, other) in enumerate(zip(found, expected, strict=True)):
        assert not ours["torn"], f"{what}: {ours}"
        if other["torn"] or any(_DEFECT in text for text in other["texts"]):
            return compared
        if len(ours["nodes"]) == len(other["nodes"]) and ours["nodes"] != other["nodes"]:
            return compared
        if ours["condition"]["status"] == "True" and other["condition"]["status"] == "False" and other["nodes"]:
            # kube-scheduler tries the rest again at once, and does not know yet that the group has been scheduled.
            other = {**other, "condition": ours["condition"]}
        if _SEVERAL.match(ours["condition"]["message"] or ""):
            # kube-scheduler tries places in the order of a map, which differs from run to run, and says of the pods what
            # was found in the first.
            other = {**other, "texts": ours["texts"]}
        assert ours == other, f"{what}: {ours} instead of {other}"
    return len(found)
