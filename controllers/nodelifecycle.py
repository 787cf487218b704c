"""A node's conditions as taints, so that the scheduler keeps pods off a node that is not ready.

Facts: upstream's pkg/controller/nodelifecycle. Not here: marking a node Unknown when its heartbeats stop, and eviction
by taint.
"""

from __future__ import annotations

from apiserver import clock
from controllers.options import Options
from controllers.runtime.client import Client, is_reason
from controllers.runtime.controller import Controller, ControllerComponent
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import NODES, Json
from controllers.runtime.times import go_time

NAME = "node-lifecycle-controller"
#: Condition type → status → the taint's key.
_TAINTS: dict[str, dict[str, str]] = {
    "Ready": {"False": "node.kubernetes.io/not-ready", "Unknown": "node.kubernetes.io/unreachable"},
    "MemoryPressure": {"True": "node.kubernetes.io/memory-pressure"},
    "DiskPressure": {"True": "node.kubernetes.io/disk-pressure"},
    "NetworkUnavailable": {"True": "node.kubernetes.io/network-unavailable"},
    "PIDPressure": {"True": "node.kubernetes.io/pid-pressure"},
}
_UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_OURS = frozenset({_UNSCHEDULABLE, *(key for by_status in _TAINTS.values() for key in by_status.values())})


def build(client: Client, informers: Informers, options: Options) -> NodeLifecycle:
    """The component, for the manager."""
    return NodeLifecycle(client, informers)


def wanted_taints(node: Json) -> set[str]:
    """Keys of the NoSchedule taints that a node's conditions and spec.unschedulable ask for. Without a Ready condition
    nothing is known of the node, and the taint that it was created with stays."""
    conditions = {c["type"]: c["status"] for c in node.get("status", {}).get("conditions") or ()}
    keys = {key for kind, by_status in _TAINTS.items() if (key := by_status.get(conditions.get(kind, "")))}
    if "Ready" not in conditions:
        keys |= {
            taint["key"] for taint in node["spec"].get("taints") or () if taint["key"] in _TAINTS["Ready"].values()
        }
    return keys | ({_UNSCHEDULABLE} if node["spec"].get("unschedulable") else set())


class NodeLifecycle(ControllerComponent):
    """The component. Keys are node names."""

    name = NAME

    def __init__(self, client: Client, informers: Informers) -> None:
        self._client = client.named("node-controller")
        self._nodes = informers.of(NODES)
        self._controller = Controller(NAME, self.reconcile)
        self._controller.follow(self._nodes)

    async def reconcile(self, name: str) -> None:
        node = self._nodes.get(name)
        if node is None:
            return
        taints = node.get("spec", {}).get("taints") or []
        present = {taint["key"] for taint in taints if taint["key"] in _OURS and taint["effect"] == "NoSchedule"}
        wanted = wanted_taints({"spec": {}, **node})
        if present == wanted:
            return
        kept = [taint for taint in taints if not (taint["key"] in present - wanted and taint["effect"] == "NoSchedule")]
        added = [
            {"key": key, "effect": "NoSchedule", "timeAdded": go_time(clock.now())} for key in sorted(wanted - present)
        ]
        # The version makes this fail, and be tried again, when somebody else changed the node's taints meanwhile.
        body = {
            "metadata": {"resourceVersion": node["metadata"]["resourceVersion"]},
            "spec": {"taints": [*kept, *added] or None},
        }
        try:
            await self._client.patch(NODES, name, body, type="merge")
        except Exception as error:
            if not is_reason(error, "NotFound"):
                raise
