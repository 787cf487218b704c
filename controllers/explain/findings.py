"""What is found out, as data: `as_json` for programs, `text` for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from controllers.allocator.explain import NearestMiss, RequestExplanation

__all__ = [
    "ClaimState",
    "NodeGroup",
    "PodFindings",
    "Possible",
    "PreemptionState",
    "QueueState",
    "VolumeClaimState",
    "change_lines",
    "columns",
    "plural",
    "unread_lines",
]

Json = dict[str, Any]
#: Nodes of a group that are named in words.
_NAMED: Final = 3
#: Claims of a group that are named in words.
_CLAIMS: Final = 8


def plural(count: int, word: str) -> str:
    """`1 node`, `2 nodes`."""
    return f"{count} {word}{'s' * (count != 1)}"


def columns(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Rows of a table, whose first has the heads."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    padded = ([cell.ljust(width) for cell, width in zip(row, widths, strict=False)] for row in rows)
    return ["  ".join([*cells, row[-1]]).rstrip() for cells, row in zip(padded, rows, strict=True)]


@dataclass(slots=True)
class QueueState:
    """Where the pod is in the queue of the scheduler that runs."""

    place: str
    attempts: int
    since: str
    rejected_by: list[str]

    @property
    def text(self) -> str:
        by = f", rejected by {', '.join(self.rejected_by)}" if self.rejected_by else ""
        return f"{self.place} since {self.since} after {plural(self.attempts, 'attempt')}{by}"


@dataclass(slots=True)
class ClaimState:
    """A claim of the pod. `state`: allocated, pending, missing."""

    name: str
    state: str
    devices: list[str] = field(default_factory=list)
    reserved_for: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        held = f": {', '.join(self.devices)}" if self.devices else ""
        users = f", reserved for {', '.join(self.reserved_for)}" if self.reserved_for else ""
        return f"claim {self.name} is {self.state}{held}{users}"


@dataclass(slots=True)
class VolumeClaimState:
    """A claim on a volume. `state`: bound, waiting (for its first consumer), unbound, missing or lost."""

    name: str
    state: str
    size: str = ""
    storage_class: str = ""
    volume: str = ""
    why: str = ""
    """Of one that is not bound and ought to be: what is known."""

    @property
    def text(self) -> str:
        what = {
            "bound": f"is bound to {self.volume}",
            "waiting": f"waits for its first consumer ({self.size} of class {self.storage_class})",
            "unbound": f"is not bound ({self.size} of class {self.storage_class or 'none'})",
            "lost": f"has lost its volume {self.volume}",
        }.get(self.state, f"is {self.state}")
        return f"volume claim {self.name} {what}" + (f": {self.why}" if self.why else "")


@dataclass(slots=True)
class NodeGroup:
    """Nodes that say the same. `plugin` is who rejects; the requests are those of the first of them."""

    nodes: list[str]
    plugin: str
    reasons: list[str]
    requests: list[RequestExplanation] = field(default_factory=list)
    nearest_miss: NearestMiss | None = None
    unusable_pools: dict[str, str] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)
    """Devices by the claim that has them, on all of the nodes."""
    details: list[str] = field(default_factory=list)
    """What is behind the reasons on the first of them."""

    @property
    def lines(self) -> list[str]:
        named = ", ".join(self.nodes[:_NAMED]) + (", …" if len(self.nodes) > _NAMED else "")
        said = "; ".join(self.reasons) if self.reasons else "fits"
        lines = [f"{plural(len(self.nodes), 'node')} ({named}): {said}" + (f" [{self.plugin}]" if self.plugin else "")]
        lines += [f"  {'on ' + self.nodes[0] + ': ' if len(self.nodes) > 1 else ''}{detail}" for detail in self.details]
        first = f"on {self.nodes[0]}, as on the others: " if len(self.nodes) > 1 else ""
        lines += [f"  pool {pool}: {reason}" for pool, reason in self.unusable_pools.items()]
        lines += [f"  {first}{request.text}" for request in self.requests]
        if len(self.nodes) > 1 and self.held:
            held = sorted(self.held.items(), key=lambda item: (-item[1], item[0]))
            named = ", ".join(f"{claim}: {count}" for claim, count in held[:_CLAIMS])
            lines.append(
                f"  held on them by {plural(len(held), 'claim')}: {named}{', …' if len(held) > _CLAIMS else ''}"
            )
        if self.nearest_miss is not None:
            lines.append(f"  nearest miss: {self.nearest_miss.text}")
        return lines


@dataclass(slots=True)
class PreemptionState:
    """What preemption would do for the pod: the pods that would end on a node, or why none."""

    text: str
    """The scheduler's words where nobody would end."""
    node: str = ""
    """"" for a group: they end wherever they are."""
    victims: list[str] = field(default_factory=list)
    violations: int = 0
    """How many of them a disruption budget would keep."""
    nodes: dict[str, int] = field(default_factory=dict)
    """Why it does not help: nodes by reason."""

    @property
    def line(self) -> str:
        if self.victims:
            against = f", {self.violations} of them against a disruption budget" if self.violations else ""
            where = f" on node {self.node}" if self.node else ""
            victims = f"{plural(len(self.victims), 'pod')} would end{where} ({', '.join(self.victims)})"
            return f"preemption: {victims}{against}"
        why = "; ".join(f"{plural(count, 'node')}: {reason}" for reason, count in self.nodes.items())
        return f"preemption: nobody would end: {why or self.text}"


@dataclass(slots=True)
class Possible:
    """A set of changes after which the pod or group fits. `node` is where, "" for a group."""

    changes: list[str]
    node: str

    @property
    def text(self) -> str:
        return " and ".join(self.changes) + (f" (then it fits on {self.node})" if self.node else "")


@dataclass(slots=True)
class PodFindings:
    """Everything about one pod. `verdict`: scheduled, fits, unschedulable, gated or elsewhere (another scheduler's)."""

    namespace: str
    name: str
    verdict: str
    text: str
    """Where it is, or why it waits in the scheduler's words."""
    queue: QueueState | None = None
    wakes: list[str] = field(default_factory=list)
    claims: list[ClaimState] = field(default_factory=list)
    volumes: list[VolumeClaimState] = field(default_factory=list)
    nodes: list[NodeGroup] = field(default_factory=list)
    preemption: PreemptionState | None = None
    group: list[str] = field(default_factory=list)
    """What is said of its pod group, in lines."""
    absent: list[str] = field(default_factory=list)
    changes: list[Possible] = field(default_factory=list)
    tried: int = 0
    """How many changes were tried out."""
    nominated: str = ""
    """The node that its scheduler has chosen, before it is bound."""
    unread: dict[str, str] = field(default_factory=dict)
    """Collections that could not be read, so that the rest may be wrong."""

    def as_json(self) -> Json:
        """Plain data."""
        return {"kind": "Pod", **asdict(self), "report": "\n".join(self.lines)}

    @property
    def lines(self) -> list[str]:
        """For people."""
        lines = [f"pod {self.namespace}/{self.name}: {self.verdict}" + (f": {self.text}" if self.text else "")]
        if self.queue is not None:
            lines.append(f"queue: {self.queue.text}")
        if self.nominated:
            lines.append(
                f"node {self.nominated} is chosen: it waits there for its volumes or devices, or for pods to end"
            )
        lines += [claim.text for claim in self.claims]
        lines += [claim.text for claim in self.volumes]
        for group in self.nodes:
            lines += group.lines
        if self.preemption is not None:
            lines.append(self.preemption.line)
        lines += self.absent
        lines += change_lines(self.changes, self.tried)
        lines += self.group
        if self.wakes:
            lines.append(f"tried again when {', or '.join(self.wakes)}")
        return lines + unread_lines(self.unread)


def unread_lines(unread: Mapping[str, str]) -> list[str]:
    """What could not be read, and why."""
    return [f"not read: {what}: {why}" for what, why in unread.items()]


def change_lines(changes: Sequence[Possible], tried: int) -> Sequence[str]:
    """What would help, or that nothing that was tried does."""
    if changes:
        return ["what would help (tried out, each by itself):", *(f"  - {each.text}" for each in changes)]
    if tried:
        return [f"what would help: none of {plural(tried, 'change')} that were tried out does"]
    return []
