"""A cluster as it was read once, with a scheduler that decides and writes nothing.

    world = await World.read(client, options)
    trial = world.try_pod(pod)                 what each node says
    with world.as_if([(NODES, "n1", node)]):   the same in a world that is a little different
        …

The scheduler is the one that runs, plugins and all: its informers are read once instead of followed, and a change that
is only imagined reaches it like one that was watched. Its queue holds the pods that wait, but nobody takes them out.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from apiserver.api.helpers.tolerations import COMPARISON_GATE
from controllers.allocator import PodAllocator
from controllers.allocator.explain import Explanation
from controllers.options.options import Options
from controllers.runtime.client import Client
from controllers.runtime.informer import Informer, Informers
from controllers.runtime.kinds import Json, Kind
from controllers.runtime.transport import NoTransport
from controllers.scheduler.config.configuration import SCHEDULER_NAME
from controllers.scheduler.dra.claims import ClaimWalkError
from controllers.scheduler.dra.dynamic_resources import NAME as DYNAMIC_RESOURCES
from controllers.scheduler.dra.state import DynamicState
from controllers.scheduler.framework.framework import Cycle, PluginError
from controllers.scheduler.framework.status import NO_NODES, Diagnosis, Rejection, SchedulingError
from controllers.scheduler.podgroups.gangs import NAME as GANG_SCHEDULING
from controllers.scheduler.preemption.default import NAME as PREEMPTION
from controllers.scheduler.preemption.default import Plan
from controllers.scheduler.scheduler import Scheduler
from controllers.scheduler.state.nodes import NodeInfo
from controllers.scheduler.state.pod_info import PodInfo

__all__ = ["Edit", "Trial", "World", "finish"]

T = TypeVar("T")
#: A change: the object of this key becomes another, or goes.
Edit = tuple[Kind, str, Json | None]


@dataclass(slots=True)
class Trial:
    """What the scheduler says of a pod, node by node."""

    pod: PodInfo
    cycle: Cycle
    gated_by: str = ""
    """The plugin that does not let the pod into the queue."""
    gate: str = ""
    """Why, where it says so."""
    error: str = ""
    """Why the attempt fails, whatever the nodes say."""
    diagnosis: Diagnosis = field(default_factory=lambda: Diagnosis(0))
    fitting: list[NodeInfo] = field(default_factory=list)

    @property
    def text(self) -> str:
        """As the event and the condition of the pod say it; "" where it fits."""
        if self.fitting:
            return ""
        return self.gate or self.error or self.diagnosis.text

    @property
    def plugins(self) -> set[str]:
        """Who rejects the pod: only their events can change that."""
        if self.gated_by:
            return {self.gated_by}
        return self.diagnosis.plugins | {rejection.plugin for rejection in self.diagnosis.rejections.values()}

    @property
    def state(self) -> DynamicState | None:
        """What is known of its claims."""
        state = self.cycle.active(DYNAMIC_RESOURCES)
        return state if isinstance(state, DynamicState) else None

    @property
    def allocator(self) -> PodAllocator | None:
        """The pod's claims that have to be allocated; None where there are none."""
        state = self.state
        if state is None:
            return None
        variants = [variant for variant in state.variants.values() if variant.allocator is not None]
        return next(
            (v.allocator for v in variants if v.special is not None), variants[0].allocator if variants else None
        )


def finish(work: Coroutine[Any, Any, T]) -> T:
    """The result of something that waits for nobody, and would only let others have their turn."""
    try:
        while True:
            work.send(None)
    except StopIteration as ended:
        result: T = ended.value
        return result


class World:
    """`unread`: collections that could not be read, and why."""

    def __init__(self, informers: Informers, options: Options) -> None:
        self.options, self._informers = options, informers
        self.compares = options.features.enabled(COMPARISON_GATE)
        """Whether tolerations compare numbers."""
        self.scheduler = Scheduler(Client(NoTransport(), release=options.emulated_version), informers, options)
        self.unread: Mapping[str, str] = {}

    @classmethod
    async def read(cls, client: Client, options: Options, also: Iterable[Kind] = ()) -> World:
        """Lists what the scheduler would watch, and other kinds. Raises TransportError."""
        informers = Informers(client)
        world = cls(informers, options)
        for kind in also:
            informers.of(kind)
        world.unread = await informers.read()
        return world

    @classmethod
    def empty(cls, options: Options) -> World:
        """One without any object."""
        client = Client(NoTransport(), release=options.emulated_version)
        return cls(Informers(client), options)

    def of(self, kind: Kind) -> Informer:
        """The collection of a kind that the scheduler reads."""
        return self._informers.of(kind)

    def objects(self, kind: Kind) -> list[Json]:
        """Its objects."""
        return list(self.of(kind).objects.values())

    def set(self, kind: Kind, key: str, obj: Json | None) -> Json | None:
        """Makes an object another, or takes it away; what was there."""
        return self.of(kind).imagine(key, obj)

    @contextmanager
    def as_if(self, edits: Sequence[Edit]) -> Iterator[None]:
        """The world with these changes, until the block ends."""
        before: list[Edit] = []
        try:
            for kind, key, obj in edits:
                before.append((kind, key, self.set(kind, key, obj)))
            yield
        finally:
            for kind, key, obj in reversed(before):
                self.set(kind, key, obj)

    @property
    def nodes(self) -> list[NodeInfo]:
        """The nodes, in the scheduler's order."""
        return [node for node in self.scheduler.cache.list() if node.node is not None]

    def is_ours(self, pod: Json) -> bool:
        """Whether the pod chose this scheduler."""
        return pod["spec"].get("schedulerName", SCHEDULER_NAME) in self.scheduler.profiles

    def try_pod(self, pod: Json, *, first: bool = False, within: frozenset[str] | None = None) -> Trial:
        """Asks every node, whatever limits the scheduler's own search has; with `first`, until one fits. `within`: the
        names of the nodes that there are for the pod.
        """
        info = self.scheduler.info(pod)
        trial = Trial(info, Cycle(info, within=within))
        profile = self.scheduler.profiles[info.spec.get("schedulerName") or SCHEDULER_NAME]
        for plugin in profile.plugins:
            if plugin.pre_enqueue is not None and not plugin.pre_enqueue(info):
                trial.gated_by = plugin.name
                trial.gate = self._gate(plugin.name, pod)
                return trial
        nodes = [node for node in self.nodes if within is None or node.name in within]
        trial.diagnosis = Diagnosis(len(nodes))
        if not nodes:
            trial.error = NO_NODES
            return trial
        try:
            self._ask(trial, nodes, first)
        except (SchedulingError, PluginError) as error:
            trial.error = str(error)
        return trial

    def explanations(self, trial: Trial) -> dict[str, Explanation]:
        """What the allocator says of each node that devices decide about."""
        allocator = trial.allocator
        if allocator is None:
            return {}
        refused = trial.diagnosis.rejections
        return {
            node.name: allocator.explain(node.node or {})
            for node in self.nodes
            if node.name not in refused or refused[node.name].plugin == DYNAMIC_RESOURCES
        }

    def preemption(self, trial: Trial) -> Plan:
        """Whom the scheduler would end for a pod that fits nowhere; nobody ends."""
        profile = self.scheduler.profile_of(trial.pod)
        if profile.preemption is None:
            return Plan(f"{PREEMPTION} is off", eligible=False)
        if trial.gated_by or trial.error:
            return Plan("not tried", eligible=False)
        try:
            return finish(profile.preemption.plan(trial.cycle, trial.diagnosis))
        except SchedulingError as error:
            return Plan(str(error), eligible=False)

    def _gate(self, plugin: str, pod: Json) -> str:
        if plugin == DYNAMIC_RESOURCES:
            try:
                self.scheduler.claims.walk(pod)
            except ClaimWalkError as error:
                return str(error)
        gangs = self.scheduler.gangs
        if plugin == GANG_SCHEDULING and gangs is not None and (why := gangs.problem(PodInfo(pod))):
            return why
        gates = ", ".join(gate["name"] for gate in pod["spec"].get("schedulingGates") or ())
        return f"scheduling gates: {gates}" if gates else f"not let in by {plugin}"

    def _ask(self, trial: Trial, nodes: list[NodeInfo], first: bool) -> None:
        """Raises SchedulingError."""
        cycle, diagnosis = trial.cycle, trial.diagnosis
        evaluator = self.scheduler.profiles[trial.pod.spec.get("schedulerName") or SCHEDULER_NAME].evaluator
        refused = evaluator.prefilter(cycle)
        if refused is not None:
            diagnosis.prefilter = ", ".join(refused.reasons)
            diagnosis.absent = Rejection(refused.plugin, (), refused.code)
            diagnosis.plugins.add(refused.plugin)
            return
        if cycle.only is not None:
            reason = f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(cycle.narrowed_by))}]"
            diagnosis.absent = Rejection(cycle.narrowed_by[0], (reason,))
            diagnosis.plugins.update(cycle.narrowed_by)
            nodes = [node for node in nodes if node.name in cycle.only]
        for node in nodes:
            rejection = evaluator.rejection(cycle, node)
            if rejection is not None:
                diagnosis.rejections[node.name] = rejection
                continue
            trial.fitting.append(node)
            if first:
                return
        if len(trial.fitting) > 1:
            totals = evaluator.totals(cycle, trial.fitting)
            ranked = sorted(zip(totals, trial.fitting, strict=True), key=lambda pair: -pair[0])
            trial.fitting = [node for _, node in ranked]
