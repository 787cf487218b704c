"""Findings about pods, nodes and their groups: `as_json` is plain data, `lines` and `text` are the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Final

from apiserver.api.objects import Json
from controllers.allocator.explain import NearestMiss, RequestExplanation

__all__ = [
    "ClaimState",
    "NodeGroup",
    "PodFindings",
    "PreemptionState",
    "QueueState",
    "Remedy",
    "VolumeClaimState",
    "change_lines",
    "columns",
    "plural",
    "unread_lines",
]

#: Node names printed per group.
_NODES: Final = 3
#: Claims printed per group.
_CLAIMS: Final = 8


def plural(count: int, word: str) -> str:
    """Format a count and its noun: `1 node`, `2 nodes`."""
    return f"{count} {word}{'s' * (count != 1)}"


def columns(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Align the rows of a table. The first row holds the column titles."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    padded = ([cell.ljust(width) for cell, width in zip(row, widths, strict=False)] for row in rows)
    return ["  ".join([*cells, row[-1]]).rstrip() for cells, row in zip(padded, rows, strict=True)]


@dataclass(slots=True)
class QueueState:
    """Position of the pod in the queue of the running scheduler."""

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
    """One resource claim of the pod. `state`: allocated, pending or missing."""

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
    """One PersistentVolumeClaim of the pod.

    `state`: bound, waiting (for its first consumer), unbound, missing or lost.
    """

    name: str
    state: str
    size: str = ""
    storage_class: str = ""
    volume: str = ""
    why: str = ""
    """Why an unbound claim is not bound."""

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
    """Nodes with the same verdict.

    `plugin` is the rejecting plugin, "" where the pod fits. `requests` describes the first node.
    """

    nodes: list[str]
    plugin: str
    reasons: list[str]
    requests: list[RequestExplanation] = field(default_factory=list)
    nearest_miss: NearestMiss | None = None
    unusable_pools: dict[str, str] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)
    """Allocated devices per claim, on all nodes of the group."""
    details: list[str] = field(default_factory=list)
    """Details of the reasons on the first node."""

    @property
    def lines(self) -> list[str]:
        names = ", ".join(self.nodes[:_NODES]) + (", …" if len(self.nodes) > _NODES else "")
        verdict = "; ".join(self.reasons) if self.reasons else "fits"
        lines = [
            f"{plural(len(self.nodes), 'node')} ({names}): {verdict}" + (f" [{self.plugin}]" if self.plugin else "")
        ]
        lines += [f"  {'on ' + self.nodes[0] + ': ' if len(self.nodes) > 1 else ''}{detail}" for detail in self.details]
        first = f"on {self.nodes[0]} (same counts on the others): " if len(self.nodes) > 1 else ""
        lines += [f"  pool {pool}: {reason}" for pool, reason in self.unusable_pools.items()]
        lines += [f"  {first}{request.text}" for request in self.requests]
        if len(self.nodes) > 1 and self.held:
            held = sorted(self.held.items(), key=lambda item: (-item[1], item[0]))
            counts = ", ".join(f"{claim}: {count}" for claim, count in held[:_CLAIMS])
            more = ", …" if len(held) > _CLAIMS else ""
            lines.append(f"  devices on these nodes allocated to {plural(len(held), 'claim')}: {counts}{more}")
        if self.nearest_miss is not None:
            lines.append(f"  nearest miss: {self.nearest_miss.text}")
        return lines


@dataclass(slots=True)
class PreemptionState:
    """Result of a preemption dry run: the pods to evict from a node, or the reason for evicting none."""

    text: str
    """The scheduler's message where it would evict no pods."""
    node: str = ""
    """"" for a group, whose victims may run on several nodes."""
    victims: list[str] = field(default_factory=list)
    violations: int = 0
    """Number of victims protected by a disruption budget."""
    nodes: dict[str, int] = field(default_factory=dict)
    """Number of nodes per reason for evicting no pods there."""

    @property
    def line(self) -> str:
        if self.victims:
            against = f" ({self.violations} of them against a disruption budget)" if self.violations else ""
            where = f" from node {self.node}" if self.node else ""
            victims = f"{plural(len(self.victims), 'pod')}{where}: {', '.join(self.victims)}"
            return f"preemption would evict {victims}{against}"
        why = "; ".join(f"{plural(count, 'node')}: {reason}" for reason, count in self.nodes.items())
        return f"preemption would evict no pods: {why or self.text}"


@dataclass(slots=True)
class Remedy:
    """A set of changes after which the pod or group fits. `node` is where, "" for a group."""

    changes: list[str]
    node: str

    @property
    def text(self) -> str:
        return " and ".join(self.changes) + (f" (then it fits on {self.node})" if self.node else "")


@dataclass(slots=True)
class PodFindings:
    """Everything about one pod.

    `verdict`: scheduled, ended, fits, unschedulable, gated or elsewhere (the pod of another scheduler).
    """

    namespace: str
    name: str
    verdict: str
    text: str
    """The node of the pod, or the scheduler's message about why it waits."""
    queue: QueueState | None = None
    wakes: list[str] = field(default_factory=list)
    claims: list[ClaimState] = field(default_factory=list)
    volumes: list[VolumeClaimState] = field(default_factory=list)
    nodes: list[NodeGroup] = field(default_factory=list)
    preemption: PreemptionState | None = None
    group: list[str] = field(default_factory=list)
    """The report on its pod group, in lines."""
    rules: list[str] = field(default_factory=list)
    """The DeviceTaintRules behind taints, and rules without effect."""
    absent: list[str] = field(default_factory=list)
    changes: list[Remedy] = field(default_factory=list)
    tried: int = 0
    """Number of changes tried in the search for remedies."""
    nominated: str = ""
    """The nominated node: chosen by the scheduler, and not bound yet."""
    starting: list[str] = field(default_factory=list)
    """What a pod with a node waits for."""
    unread: dict[str, str] = field(default_factory=dict)
    """Errors by unreadable collection. Other findings may be wrong because of them."""

    def as_json(self) -> Json:
        """Plain data."""
        return {"kind": "Pod", **asdict(self), "report": "\n".join(self.lines)}

    @property
    def lines(self) -> list[str]:
        """The report, line by line."""
        lines = [f"pod {self.namespace}/{self.name}: {self.verdict}" + (f": {self.text}" if self.text else "")]
        if self.queue is not None:
            lines.append(f"queue: {self.queue.text}")
        if self.nominated:
            lines.append(
                f"node {self.nominated} is nominated: the pod waits for volumes, devices or evicted pods to terminate"
            )
        lines += [claim.text for claim in self.claims]
        lines += [claim.text for claim in self.volumes]
        lines += self.starting
        for group in self.nodes:
            lines += group.lines
        lines += self.rules
        if self.preemption is not None:
            lines.append(self.preemption.line)
        lines += self.absent
        lines += change_lines(self.changes, self.tried)
        lines += self.group
        if self.wakes:
            lines.append(f"retried when: {'; '.join(self.wakes)}")
        return lines + unread_lines(self.unread)


def unread_lines(unread: Mapping[str, str]) -> list[str]:
    """Return one line per unreadable collection."""
    return [f"could not read {collection}: {error}" for collection, error in unread.items()]


def change_lines(changes: Sequence[Remedy], tried: int) -> Sequence[str]:
    """List the remedies, or report how many changes were tried without success."""
    if changes:
        return ["what would help (each tried separately):", *(f"  - {each.text}" for each in changes)]
    if tried:
        return [f"what would help: nothing found ({plural(tried, 'change')} tried)"]
    return []
