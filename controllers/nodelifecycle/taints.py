"""The taints that reflect a node's condition."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from apiserver.api.objects import Json
from apiserver.runtime import clock
from controllers.runtime.client import Client
from controllers.runtime.kinds import NODES
from controllers.runtime.times import go_time

NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
#: Taint key by condition type and status.
_TAINTS: Final[dict[str, dict[str, str]]] = {
    "Ready": {"False": NOT_READY, "Unknown": UNREACHABLE},
    "MemoryPressure": {"True": "node.kubernetes.io/memory-pressure"},
    "DiskPressure": {"True": "node.kubernetes.io/disk-pressure"},
    "NetworkUnavailable": {"True": "node.kubernetes.io/network-unavailable"},
    "PIDPressure": {"True": "node.kubernetes.io/pid-pressure"},
}
_UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
OURS: Final = frozenset({_UNSCHEDULABLE, *(key for by_status in _TAINTS.values() for key in by_status.values())})


def required_taints(node: Json) -> set[str]:
    """Return the keys of the NoSchedule taints for a node's conditions and spec.unschedulable."""
    conditions = {c["type"]: c["status"] for c in node.get("status", {}).get("conditions") or ()}
    keys = {key for kind, by_status in _TAINTS.items() if (key := by_status.get(conditions.get(kind, "")))}
    return keys | ({_UNSCHEDULABLE} if node["spec"].get("unschedulable") else set())


def has_taint(node: Json, key: str, effect: str) -> bool:
    taints = node.get("spec", {}).get("taints") or ()
    return any((taint["key"], taint["effect"]) == (key, effect) for taint in taints)


async def swap_taints(client: Client, node: Json, add: Collection[str], remove: Collection[str], effect: str) -> None:
    """Add and remove taints of one effect by key, if needed.

    Raise StatusError, with Conflict if the node has changed meanwhile.
    """
    if not add and not remove:
        return
    taints = node.get("spec", {}).get("taints") or []
    kept = [taint for taint in taints if not (taint["key"] in remove and taint["effect"] == effect)]
    added = [{"key": key, "effect": effect, "timeAdded": go_time(clock.now())} for key in sorted(add)]
    body = {
        "metadata": {"resourceVersion": node["metadata"]["resourceVersion"]},
        "spec": {"taints": [*kept, *added] or None},
    }
    await client.patch(NODES, node["metadata"]["name"], body, type="merge")
