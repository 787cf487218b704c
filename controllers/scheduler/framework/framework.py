"""Scheduler plugins: values that declare what they read and provide functions for the points of an attempt.

    pre_enqueue  may the pod be tried at all?             filter      is the node feasible?
    pre_filter   once per attempt: its state, a           pre_score   once, if several nodes are feasible: a state,
                 rejection, or SKIP (no filter)                       or SKIP
    reserve, unreserve   in memory, for the chosen node   score       how good is this node?
    post_filter  attempt_metrics for a pod without a node        pre_bind    writes that precede the binding
    placements, placement_score   the parts of the cluster for a group of pods, and how good they are

What a plugin reads decides whether verdicts are cacheable and for which pods (`node_results`), and which events wake a
rejected pod (`hints_of`). A plugin without declarations is never cached, and its pods are woken by every event: slow,
never wrong.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from apiserver.api.objects import Json
from controllers.scheduler.framework.events import (
    DEVICE_EVENTS,
    NODE_UPDATES,
    POD_UPDATES,
    ClusterEvent,
    Event,
    Hint,
    Hints,
    is_own,
)
from controllers.scheduler.framework.status import Diagnosis, Rejection, SchedulingError
from controllers.scheduler.state.nodes import NodeInfo
from controllers.scheduler.state.pod_info import PodInfo


class Skip:
    """The type of SKIP."""

    def __repr__(self) -> str:
        return "SKIP"


SKIP: Final = Skip()
"""The plugin has nothing to do for this pod."""


@dataclass(frozen=True, slots=True)
class PodField:
    """A pod field that plugins read; its value can be encoded as JSON."""

    name: str
    read: Callable[[PodInfo], Any]


@dataclass(frozen=True, slots=True)
class NodeField:
    """A node field that plugins read."""

    name: str
    read: Callable[[Json], Any]


def _at(obj: Json, steps: Sequence[str]) -> Any:
    value: Any = obj
    for step in steps:
        if not value:
            return None
        value = value.get(step)
    return value


def pod_field(*steps: str) -> PodField:
    """Return the pod field at a path: `pod_field("metadata", "annotations", "example.com/rack")`."""
    return PodField(".".join(steps), lambda pod: _at(pod.pod, steps))


def node_field(*steps: str) -> NodeField:
    """Return the node field at a path."""
    return NodeField(".".join(steps), lambda node: _at(node, steps))


@dataclass(frozen=True, slots=True)
class Reads:
    """The inputs of a plugin's verdicts and scores."""

    pod: tuple[PodField, ...] = ()
    node: tuple[NodeField, ...] = ()
    pods_on_node: bool = False
    """The pods on the node: their requests, ports and labels."""
    devices: bool = False
    """The devices that the node can reach, and which of them are free."""
    elsewhere: bool = False
    """Anything else: other nodes, other objects."""


ANYTHING: Final = Reads(elsewhere=True)


@dataclass(slots=True)
class Outcome:
    """The filter results of one node for pods of the same shape, until the node changes."""

    passed: int = 0
    """Cacheable filters before this index in the list of plugins passed."""
    refused_at: int = -1
    """The index of the first filter that rejected; -1: none, or not known yet."""
    rejection: Rejection | None = None
    complete: bool = False
    """Whether all cacheable filters ran, up to the first rejection."""


REFUSED, FITS, UNKNOWN = range(3)
"""The marks of nodes, as bytes."""


class NodeOutcomes(dict[str, Outcome]):
    """The outcomes by node for one shape of pods, and a row of marks in node order for a fast search."""

    __slots__ = ("_marks", "_order", "scores")

    def __init__(self) -> None:
        super().__init__()
        #: By node: the weighted sum of the scores without normalization, then each raw score to normalize.
        self.scores: dict[str, tuple[int, ...]] = {}
        self._order: list[NodeInfo] | None = None
        self._marks = bytearray()

    def marks(self, order: list[NodeInfo]) -> bytearray:
        """Return the row of marks for the cache's own list of nodes; the caller updates it in place."""
        if self._order is not order:
            self._order, self._marks = order, bytearray(self.mark(node.name) for node in order)
        return self._marks

    def mark(self, name: str) -> int:
        outcome = self.get(name)
        if outcome is None or not outcome.complete:
            return UNKNOWN
        return FITS if outcome.rejection is None else REFUSED

    def rejection(self, name: str) -> Rejection | None:
        outcome = self.get(name)
        return outcome.rejection if outcome is not None else None

    def invalidate(self, name: str, order: list[NodeInfo], position: int | None) -> None:
        """Drop a changed node. `position` is its index in `order`, if it has one."""
        self.scores.pop(name, None)
        if self.pop(name, None) is not None and position is not None and self._order is order:
            self._marks[position] = UNKNOWN

    def invalidate_all(self) -> None:
        self.clear()
        self.scores.clear()
        self._order = None


@dataclass(slots=True)
class Cycle:
    """The plugins' state of one attempt to schedule one pod."""

    pod: PodInfo
    states: dict[str, Any] = field(default_factory=dict)
    """The results of pre_filter by plugin, SKIP included; plugins that did not run have none."""
    filters: list[tuple[int, Plugin, Any, bool]] = field(default_factory=list)
    """The filters to run, in order: index in the list of plugins, plugin, state, whether verdicts are cacheable."""
    only: frozenset[str] | None = None
    """The only possible nodes, if plugins restrict them."""
    narrowed_by: tuple[str, ...] = ()
    """The plugins that restrict the nodes."""
    within: frozenset[str] | None = None
    """The nodes of the part of the cluster for the pod's group; other nodes do not exist for the attempt."""
    outcomes: NodeOutcomes = field(default_factory=NodeOutcomes)
    """Cached outcomes by node."""
    has_uncached_filters: bool = False
    """Whether some filter must run despite a cached outcome."""
    is_timed: bool = False
    """Whether the plugins are timed."""
    hinted: bool = False
    """Whether results for alike pods were known."""
    evaluated: set[str] = field(default_factory=set)
    """The nodes that were filtered, not looked up."""

    def count(self, other: PodInfo, node: NodeInfo, sign: int) -> None:
        """Update the plugins' states for a pod added to a node (1) or removed from it (-1)."""
        for _, plugin, state, _ in self.filters:
            if plugin.count is not None:
                plugin.count(state, other, node, sign)

    def filter_node(self, node: NodeInfo) -> Rejection | None:
        """Run all filters on a hypothetical node, without caching. Raise SchedulingError."""
        for _, plugin, state, _ in self.filters:
            if (refused := run_filter(plugin, self.pod, state, node)) is not None:
                return refused
        return None

    def filter_node_with(self, node: NodeInfo, others: Sequence[PodInfo]) -> Rejection | None:
        """Run all filters with other pods added to the node. Raise SchedulingError."""
        crowded = node.copy()
        for other in others:
            crowded.add_pod(other)
            self.count(other, crowded, 1)
        try:
            return self.filter_node(crowded)
        finally:
            for other in others:
                self.count(other, crowded, -1)

    def active(self, name: str) -> Any:
        """Return the state of a plugin that has something to do for the pod; None otherwise."""
        state = self.states.get(name, SKIP)
        return None if state is SKIP else state


class PluginError(Exception):
    """A failure of a plugin; the attempt fails with this text."""


def run_filter(plugin: Plugin, pod: PodInfo, state: Any, node: NodeInfo) -> Rejection | None:
    """Run the filter of a plugin. Raise SchedulingError."""
    assert plugin.filter is not None
    try:
        return plugin.filter(pod, state, node)
    except PluginError as error:
        raise SchedulingError(f'running "{plugin.name}" filter plugin: {error}') from error


@dataclass(frozen=True, slots=True)
class Placement:
    """The pods of a group that fit into a part of the cluster, not counted there yet, and its nodes."""

    pods: tuple[PodInfo, ...]
    nodes: tuple[NodeInfo, ...]


@dataclass(frozen=True, slots=True)
class PostFilterResult:
    """The result of PostFilter for a pod without a node."""

    text: str = ""
    nominated: str | None = None
    """The nominated node, "" for none; None keeps the pod's nomination."""
    final: bool = False
    """Whether to skip later plugins."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Plugin:
    """One plugin. Its functions raise PluginError."""

    name: str
    reads: Reads = ANYTHING
    hints: Hints | None = None
    """Events that may change a rejection; None: derived from `reads`."""
    pre_enqueue: Callable[[PodInfo], bool] | None = None
    pre_filter: Callable[[PodInfo], Any] | None = None
    """Return a state, SKIP or a Rejection. Without it the filter always runs, with the state None."""
    nodes: Callable[[PodInfo, Any], frozenset[str] | None] | None = None
    """Return the only possible nodes (pod, state), or None without a restriction."""
    shape: Callable[[Any], bytes | None] | None = None
    """Return what verdicts and scores depend on besides the declared pod fields; None: they are not cacheable.

    The argument is the state, which may be SKIP.
    """
    filter: Callable[[PodInfo, Any, NodeInfo], Rejection | None] | None = None
    count: Callable[[Any, PodInfo, NodeInfo, int], None] | None = None
    """Update the state for a pod added to a node (1) or removed from it (-1)."""
    pre_score: Callable[[PodInfo, Any], Any] | None = None
    """Return the state of scoring, or SKIP (pod, state of filtering)."""
    score: Callable[[PodInfo, Any, NodeInfo], int] | None = None
    scores: Callable[[PodInfo, Any, list[NodeInfo]], list[int] | None] | None = None
    """Score all nodes together, instead of `score`; None for equal scores."""
    normalize: Callable[[list[int]], list[int]] | None = None
    weight: int = 1
    reserve: Callable[[PodInfo, Any, NodeInfo], Rejection | None] | None = None
    assumed: Callable[[PodInfo, Any], PodInfo] | None = None
    """Return the pod as it counts on its node after `reserve`, where its resources grow."""
    unreserve: Callable[[PodInfo, Any], Awaitable[None]] | None = None
    revert: Callable[[Any], None] | None = None
    """Undo `reserve` in memory after a simulated attempt, without notifications."""
    pre_bind: Callable[[PodInfo, Any, str], Awaitable[None]] | None = None
    """Write what must precede the binding (pod, state, name of the node)."""
    writes: Callable[[Any], bool] | None = None
    """Return whether `pre_bind` has something to write (state); None: always."""
    post_filter: Callable[[Cycle, Diagnosis], Awaitable[PostFilterResult]] | None = None
    placements: Callable[[str], Mapping[str, frozenset[str]] | None] | None = None
    """Return the parts of the cluster for a group (its key), as node names by part; None: no restriction."""
    placement_score: Callable[[str, Placement], int] | None = None
    """Score a part of the cluster for a group. The argument is the group's key."""
    placement_normalize: Callable[[list[int]], list[int]] | None = None
    """Scale the scores of all parts to 0 to 100, if they are not."""

    @property
    def cacheable(self) -> bool:
        """Return whether verdicts and scores hold until something declared changes."""
        return not self.reads.elsewhere

    @property
    def has_score(self) -> bool:
        return self.score is not None or self.scores is not None


EVERY_EVENT: Hints = dict.fromkeys(ClusterEvent)


def hints_of(plugin: Plugin, uses_queueing_hints: bool = True) -> Hints:
    """Return the events that may change the plugin's verdict.

    They are the plugin's own hints, or follow from what it reads. A plugin with NODE_ADD gets NODE_TAINT as well: a
    taint may have led an earlier plugin to reject the node when it was added. Without the gate SchedulerQueueingHints
    each of these events wakes the pod.
    """
    hints = plugin.hints if plugin.hints is not None else _derive_hints(plugin.reads)
    if ClusterEvent.NODE_ADD in hints and ClusterEvent.NODE_TAINT not in hints:
        hints = {**hints, ClusterEvent.NODE_TAINT: None}
    return hints if uses_queueing_hints else dict.fromkeys(hints)


def _derive_hints(reads: Reads) -> Hints:
    if reads.elsewhere:
        return EVERY_EVENT
    hints: dict[ClusterEvent, Hint | None] = {ClusterEvent.NODE_ADD: None, ClusterEvent.NODE_TAINT: None}
    if reads.node:
        hints |= dict.fromkeys(NODE_UPDATES, _node_differs(reads.node)) | {ClusterEvent.NODE_TAINT: None}
    if reads.pods_on_node:
        others = (ClusterEvent.POD_ADD, ClusterEvent.POD_DELETE, *POD_UPDATES)
        hints |= dict.fromkeys(others)
    elif reads.pod:
        hints |= dict.fromkeys(POD_UPDATES, _own_differs(reads.pod))
    if reads.devices:
        hints |= dict.fromkeys(DEVICE_EVENTS)
    return hints


def _node_differs(fields: tuple[NodeField, ...]) -> Hint:
    return lambda _, event: event.old is None or event.new is None or differ(fields, event.old, event.new)


def _own_differs(fields: tuple[PodField, ...]) -> Hint:
    def hint(pod: PodInfo, event: Event) -> bool:
        if not is_own(pod, event) or event.new is None:
            return False
        if event.old is None:
            return True
        old, new = PodInfo(event.old), PodInfo(event.new)
        return any(item.read(old) != item.read(new) for item in fields)

    return hint


def differ(fields: Iterable[NodeField], old: Json, new: Json) -> bool:
    """Return whether one of the fields differs."""
    return any(item.read(old) != item.read(new) for item in fields)
