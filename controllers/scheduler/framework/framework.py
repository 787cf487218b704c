"""What a scheduler plugin is: a value that says what it reads and what it does at each point of an attempt.

    pre_enqueue  may the pod be tried at all?             filter      can this node take the pod?
    pre_filter   once an attempt: its state, a rejection, pre_score   once, if several nodes can: a state, or SKIP
                 or SKIP (its filter is not asked)        score       how good is this node?
    reserve, unreserve   in memory, for the chosen node   pre_bind    writes that come before the binding
    post_filter  what can be done for a pod that fits nowhere
    placements, placement_score   the parts of the cluster that a group of pods may be in, and how good they are

From what a plugin reads the rest follows: whether a verdict may be remembered and for which pods it holds (`memory`),
and which events wake a pod that it rejected (`hints_of`). A plugin that declares nothing is asked every time, and
its pods are woken by everything: slow, never wrong.
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
    """Something that plugins read of the pod; its value can be encoded as JSON."""

    name: str
    read: Callable[[PodInfo], Any]


@dataclass(frozen=True, slots=True)
class NodeField:
    """Something that plugins read of a Node object."""

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
    """A field of the pod by its path: `pod_field("metadata", "annotations", "example.com/rack")`."""
    return PodField(".".join(steps), lambda pod: _at(pod.pod, steps))


def node_field(*steps: str) -> NodeField:
    """A field of the node by its path."""
    return NodeField(".".join(steps), lambda node: _at(node, steps))


@dataclass(frozen=True, slots=True)
class Reads:
    """What the verdicts and scores of a plugin depend on."""

    pod: tuple[PodField, ...] = ()
    node: tuple[NodeField, ...] = ()
    pods_on_node: bool = False
    """The pods on the node: what they request, their ports, their labels."""
    devices: bool = False
    """The devices that the node can reach, and which of them are free."""
    elsewhere: bool = False
    """Anything else: other nodes, other objects."""


ANYTHING: Final = Reads(elsewhere=True)


@dataclass(slots=True)
class Outcome:
    """What is known of one node for pods that ask the same, until the node changes."""

    passed: int = 0
    """Filters before this place in the list of plugins let the pod in (as far as they are remembered)."""
    refused_at: int = -1
    """The place of the first that does not; -1: not found out, or none."""
    rejection: Rejection | None = None
    complete: bool = False
    """Whether all remembered filters were asked, up to the first that refuses."""


REFUSED, FITS, UNKNOWN = range(3)
"""What is known of a node, as a byte."""


class Known(dict[str, Outcome]):
    """The outcomes of one question by node; and as a row of bytes in the order of the nodes, which is searched without
    a look at each.
    """

    __slots__ = ("_marks", "_order", "scores")

    def __init__(self) -> None:
        super().__init__()
        #: By node: the weighted sum of the scores that need no normalisation, then the others as they are.
        self.scores: dict[str, tuple[int, ...]] = {}
        self._order: list[NodeInfo] | None = None
        self._marks = bytearray()

    def marks(self, order: list[NodeInfo]) -> bytearray:
        """The row for this list of nodes (the cache's own); whoever finds out about a node notes it there."""
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

    def forget(self, name: str, order: list[NodeInfo], position: int | None) -> None:
        """Where the node has its place now, if it has one."""
        self.scores.pop(name, None)
        if self.pop(name, None) is not None and position is not None and self._order is order:
            self._marks[position] = UNKNOWN

    def forget_all(self) -> None:
        self.clear()
        self.scores.clear()
        self._order = None


@dataclass(slots=True)
class Cycle:
    """What the plugins keep for one attempt to place one pod."""

    pod: PodInfo
    states: dict[str, Any] = field(default_factory=dict)
    """What pre_filter gave, by plugin (SKIP too); plugins that were not reached have none."""
    filters: list[tuple[int, Plugin, Any, bool]] = field(default_factory=list)
    """The filters to ask, in order: place in the list of plugins, plugin, state, whether its verdicts are kept."""
    only: frozenset[str] | None = None
    """The nodes that the pod names, if it does."""
    narrowed_by: tuple[str, ...] = ()
    """The plugins that know these nodes."""
    within: frozenset[str] | None = None
    """The nodes of the part of the cluster that the pod has to be in; for it there are no others."""
    known: Known = field(default_factory=Known)
    """Remembered outcomes by node."""
    live: bool = False
    """Whether some filter has to be asked although the outcome of the others is known."""
    timed: bool = False
    """Whether the time of each plugin is taken."""

    def count(self, other: PodInfo, node: NodeInfo, sign: int) -> None:
        """Considers a pod as having come to a node (1) or left it (-1)."""
        for _, plugin, state, _ in self.filters:
            if plugin.count is not None:
                plugin.count(state, other, node, sign)

    def ask(self, node: NodeInfo) -> Rejection | None:
        """The first filter that says no, for a node as it might be: nothing is remembered. Raises SchedulingError."""
        for _, plugin, state, _ in self.filters:
            if (refused := filtered(plugin, self.pod, state, node)) is not None:
                return refused
        return None

    def ask_with(self, node: NodeInfo, others: Sequence[PodInfo]) -> Rejection | None:
        """The same with other pods on the node."""
        crowded = node.copy()
        for other in others:
            crowded.add_pod(other)
            self.count(other, crowded, 1)
        try:
            return self.ask(crowded)
        finally:
            for other in others:
                self.count(other, crowded, -1)

    def active(self, name: str) -> Any:
        """The state of a plugin that has something to do for the pod; None otherwise."""
        state = self.states.get(name, SKIP)
        return None if state is SKIP else state


class PluginError(Exception):
    """A plugin cannot answer; the attempt fails with this text."""


def filtered(plugin: Plugin, pod: PodInfo, state: Any, node: NodeInfo) -> Rejection | None:
    """What the filter of a plugin says. Raises SchedulingError."""
    assert plugin.filter is not None
    try:
        return plugin.filter(pod, state, node)
    except PluginError as error:
        raise SchedulingError(f'running "{plugin.name}" filter plugin: {error}') from error


@dataclass(frozen=True, slots=True)
class Placement:
    """The pods of a group that fit into a part of the cluster, and its nodes, where they do not count yet."""

    pods: tuple[PodInfo, ...]
    nodes: tuple[NodeInfo, ...]


@dataclass(frozen=True, slots=True)
class PostFilterResult:
    """What was done for a pod that fits nowhere."""

    text: str = ""
    nominated: str | None = None
    """The node that is being made free; "" for none; None leaves the pod's nomination as it is."""
    final: bool = False
    """Whether later plugins are not asked."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Plugin:
    """One plugin. Errors are raised as PluginError."""

    name: str
    reads: Reads = ANYTHING
    hints: Hints | None = None
    """Events that may change a rejection; None: derived from `reads`."""
    pre_enqueue: Callable[[PodInfo], bool] | None = None
    pre_filter: Callable[[PodInfo], Any] | None = None
    """A state, SKIP or a Rejection. Without it the filter is always asked, with the state None."""
    nodes: Callable[[PodInfo, Any], frozenset[str] | None] | None = None
    """The only nodes that can take the pod, where that is known beforehand (pod, state)."""
    shape: Callable[[Any], bytes | None] | None = None
    """What of the state (SKIP too), apart from the declared fields of the pod, verdicts and scores depend on; it gives
    None where they must not be remembered."""
    filter: Callable[[PodInfo, Any, NodeInfo], Rejection | None] | None = None
    count: Callable[[Any, PodInfo, NodeInfo, int], None] | None = None
    """Keeps the state right while a pod is considered on a node (1) or off it (-1)."""
    pre_score: Callable[[PodInfo, Any], Any] | None = None
    """The state of scoring, or SKIP, from the pod and the state of filtering."""
    score: Callable[[PodInfo, Any, NodeInfo], int] | None = None
    scores: Callable[[PodInfo, Any, list[NodeInfo]], list[int] | None] | None = None
    """All nodes together, instead of `score`; None where all are alike."""
    normalize: Callable[[list[int]], list[int]] | None = None
    weight: int = 1
    reserve: Callable[[PodInfo, Any, NodeInfo], Rejection | None] | None = None
    assumed: Callable[[PodInfo, Any], PodInfo] | None = None
    """The pod as it counts on its node once `reserve` went well, where that is more than it says itself."""
    unreserve: Callable[[PodInfo, Any], Awaitable[None]] | None = None
    revert: Callable[[Any], None] | None = None
    """Undoes `reserve` in memory (state), where the attempt was made to see what would be: nobody is told."""
    pre_bind: Callable[[PodInfo, Any, str], Awaitable[None]] | None = None
    """With the name of the node."""
    writes: Callable[[Any], bool] | None = None
    """Whether `pre_bind` has something to do (state); None: always."""
    post_filter: Callable[[Cycle, Diagnosis], Awaitable[PostFilterResult]] | None = None
    placements: Callable[[str], Mapping[str, frozenset[str]] | None] | None = None
    """The parts of the cluster, names of nodes by name, of which a group (its key) has to be in one; None: anywhere."""
    placement_score: Callable[[str, Placement], int] | None = None
    """How good a part is for a group (its key)."""
    placement_normalize: Callable[[list[int]], list[int]] | None = None
    """Makes scores of all parts 0 to 100, where they are not."""

    @property
    def remembered(self) -> bool:
        """Whether verdicts and scores hold until something declared changes."""
        return not self.reads.elsewhere

    @property
    def scoring(self) -> bool:
        return self.score is not None or self.scores is not None


EVERY_EVENT: Hints = dict.fromkeys(ClusterEvent)


def hints_of(plugin: Plugin, asked: bool = True) -> Hints:
    """The events that may change the plugin's mind: its own hints, or those that follow from what it reads.

    `asked` is whether hints are asked at all (the gate SchedulerQueueingHints): if not, each of these events wakes.
    Who wants to know of new nodes also hears of changed taints: a node may have been added while a taint of it was in
    the way of an earlier plugin.
    """
    hints = plugin.hints if plugin.hints is not None else _derived(plugin.reads)
    if ClusterEvent.NODE_ADD in hints and ClusterEvent.NODE_TAINT not in hints:
        hints = {**hints, ClusterEvent.NODE_TAINT: None}
    return hints if asked else dict.fromkeys(hints)


def _derived(reads: Reads) -> Hints:
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
    """Whether one of the fields of a node is another."""
    return any(item.read(old) != item.read(new) for item in fields)
