"""Explain claims (their devices, or why they wait) and nodes (their devices and users)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from apiserver.api.objects import Json
from controllers.explain.amounts import amount_text
from controllers.explain.findings import ClaimState, PodFindings, plural, unread_lines
from controllers.explain.podgroups import explain_group, group_of
from controllers.explain.pods import claim_state, explain_pod, queue_state
from controllers.explain.starting import warning_lines
from controllers.explain.taintrules import rule_lines_of
from controllers.explain.world import World
from controllers.resourceclaims import claim_names
from controllers.runtime.kinds import NODES, POD_GROUPS, PODS, RESOURCE_CLAIMS, Kind
from controllers.scheduler.podgroups.gangs import GATE as GROUPS_GATE
from controllers.scheduler.queue.queued_pod import QueuedPod

__all__ = ["ClaimFindings", "NodeFindings", "NotThereError", "explain"]

Queued = Mapping[str, QueuedPod]


class NotThereError(LookupError):
    """The object does not exist, or its collection cannot be read; the text names it."""


@dataclass(slots=True)
class ClaimFindings:
    """One claim: its state, the pods that reference it, and why the waiting ones wait."""

    namespace: str
    claim: ClaimState
    pods: list[str]
    waiting: list[PodFindings]
    warnings: list[str] = field(default_factory=list)
    """The last warning events about the claim."""
    unread: dict[str, str] = field(default_factory=dict)
    """Errors by unreadable collection. Other findings may be wrong because of them."""

    def as_json(self) -> Json:
        return {"kind": "ResourceClaim", **asdict(self), "report": "\n".join(self.lines)}

    @property
    def lines(self) -> list[str]:
        lines = [self.claim.text, f"referenced by pods: {', '.join(self.pods) or 'none'}"]
        if not self.pods and self.claim.state == "pending":
            lines.append("it will be allocated when a pod references it")
        lines += self.warnings
        lines += [line for pod in self.waiting for line in pod.lines]
        return lines if self.waiting else lines + unread_lines(self.unread)


@dataclass(slots=True)
class NodeFindings:
    """One node: the status of its pools, its devices and the claims that hold them."""

    name: str
    ready: bool
    unschedulable: bool
    taints: list[str]
    pods: int
    pools: dict[str, str]
    devices: int
    free: int
    """Devices that no claim uses, not even a share of them."""
    shared: int
    """Devices that claims use in shares. They may have capacity left."""
    tainted: int
    held: dict[str, int] = field(default_factory=dict)
    """Allocated devices per claim."""
    reserved: dict[str, str] = field(default_factory=dict)
    """Requested of allocatable amounts per resource, `0.5 of 4`."""
    rules: list[str] = field(default_factory=list)
    """The DeviceTaintRules that select its devices."""
    unread: dict[str, str] = field(default_factory=dict)
    """Errors by unreadable collection. Other findings may be wrong because of them."""

    def as_json(self) -> Json:
        return {"kind": "Node", **asdict(self), "report": "\n".join(self.lines)}

    @property
    def lines(self) -> list[str]:
        state = "ready" if self.ready else "not ready"
        lines = [f"node {self.name}: {state}{', cordoned' if self.unschedulable else ''}, {plural(self.pods, 'pod')}"]
        lines += [f"taint {taint}" for taint in self.taints]
        lines += [f"{resource}: {amounts} requested" for resource, amounts in self.reserved.items()]
        lines += [f"pool {pool}: {status}" for pool, status in self.pools.items()]
        tainted = f", {self.tainted} tainted" if self.tainted else ""
        shared = f", {self.shared} shared" if self.shared else ""
        lines.append(f"{plural(self.devices, 'device')}: {self.free} free{shared}{tainted}")
        lines += [f"  {count} allocated to claim {claim}" for claim, count in self.held.items()]
        lines += self.rules
        return lines + unread_lines(self.unread)


def explain(world: World, kind: str, namespace: str, name: str, queue: Queued | None = None) -> Any:
    """Explain a pod, claim, node or podgroup.

    Args:
        world: A snapshot of the cluster.
        kind: "pod", "claim", "node" or "podgroup".
        namespace: Ignored for nodes.
        name: The name of the object.
        queue: Waiting pods of a running scheduler, by uid.

    Raises:
        NotThereError: The object does not exist or cannot be read.
    """
    queue = queue or {}
    if kind == "node":
        return _node(world, name)
    if kind == "podgroup":
        group = world.of(POD_GROUPS).get(f"{namespace}/{name}") if world.scheduler.gangs is not None else None
        if group is None:
            off = "" if world.scheduler.gangs is not None else f" (the feature gate {GROUPS_GATE} is off)"
            raise _not_there(world, POD_GROUPS, name, f' in namespace "{namespace}"{off}')
        return explain_group(world, group)
    of = PODS if kind == "pod" else RESOURCE_CLAIMS
    obj = world.of(of).get(f"{namespace}/{name}")
    if obj is None:
        raise _not_there(world, of, name, f' in namespace "{namespace}"')
    if kind == "pod":
        return _pod(world, obj, queue)
    return _claim(world, obj, queue)


def _not_there(world: World, kind: Kind, name: str, where: str = "") -> NotThereError:
    why = world.unread.get(str(kind))
    return NotThereError(f"{kind.plural} cannot be read: {why}" if why else f'{kind.plural} "{name}" not found{where}')


def _pod(world: World, pod: Json, queue: Queued) -> PodFindings:
    """Explain a pod and, where it waits, its pod group."""
    found = explain_pod(world, pod, queue_state(queue.get(pod["metadata"]["uid"])))
    group = group_of(world, pod) if found.verdict in ("fits", "unschedulable", "gated") else None
    if group is not None:
        of_group = explain_group(world, group)
        found.group = of_group.lines
        if found.verdict == "fits" and of_group.verdict != "fits":
            found.verdict, found.text = of_group.verdict, f"its group waits: {of_group.text}"
    return found


def _claim(world: World, claim: Json, queue: Queued) -> ClaimFindings:
    namespace, name = claim["metadata"]["namespace"], claim["metadata"]["name"]
    pods = [
        pod for pod in world.objects(PODS) if pod["metadata"]["namespace"] == namespace and name in claim_names(pod)
    ]
    found = [(pod, _pod(world, pod, queue)) for pod in pods]
    waiting = [each for pod, each in found if not pod["spec"].get("nodeName") or each.starting]
    names = [pod["metadata"]["name"] for pod in pods]
    warnings = list(warning_lines(world, claim))
    return ClaimFindings(namespace, claim_state(claim, world.gone), names, waiting, warnings, dict(world.unread))


def _node(world: World, name: str) -> NodeFindings:
    info = world.scheduler.cache.nodes.get(name)
    if info is None or info.node is None:
        raise _not_there(world, NODES, name)
    allocator = world.scheduler.allocator
    view = allocator.inventory.view(info.node)
    held: Counter[str] = Counter()
    for device in view.devices:
        held.update(allocator.allocated.users(device.id))
    conditions = (info.node.get("status") or {}).get("conditions") or ()
    return NodeFindings(
        name,
        ready=any(c["type"] == "Ready" and c["status"] == "True" for c in conditions),
        unschedulable=info.unschedulable,
        taints=[
            f"{taint['key']}={taint.get('value', '')}:{taint['effect']}"
            for taint in info.node["spec"].get("taints") or ()
        ],
        pods=len(info.pods),
        pools={str(pool): pool.status + (f": {pool.reason}" if pool.reason else "") for pool in view.pools},
        devices=view.size,
        free=sum(not allocator.allocated.is_used(device.id) for device in view.devices),
        shared=sum(device.id in allocator.allocated.shared for device in view.devices),
        tainted=sum(bool(device.taints) for device in view.devices),
        held=dict(held.most_common()),
        rules=rule_lines_of(world, [name]),
        reserved={
            resource: " of ".join(
                amount_text(resource, each) for each in (requested, info.allocatable.get(resource, 0))
            )
            for resource, requested in sorted(info.requested.items())
            if requested and resource in info.allocatable  # the claim of a pod has those that the node lacks
        },
        unread=dict(world.unread),
    )
