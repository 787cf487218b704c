"""A cluster snapshot with a scheduler that decides but never writes.

    world = await World.read(client, options)
    trial = world.try_pod(pod)                 the verdict of each node
    with world.as_if([(NODES, "n1", node)]):   the same world with hypothetical edits
        …

The scheduler is the real one, plugins included. Its informers list once and do not watch; a hypothetical edit reaches
it like a watch event. Its queue holds the waiting pods, but no loop pops them.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from apiserver.api.helpers.tolerations import COMPARISON_GATE
from apiserver.api.objects import Json
from controllers.allocator import PodAllocator
from controllers.allocator.explain import Explanation
from controllers.explain.consumers import find_gone
from controllers.options.options import Options
from controllers.runtime.client import Client
from controllers.runtime.informer import Informer, Informers
from controllers.runtime.kinds import (
    CORE_EVENTS,
    DEVICE_TAINT_RULES,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    Kind,
)
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

__all__ = ["EXPLAINED_KINDS", "Edit", "Trial", "World", "run_synchronously"]

T = TypeVar("T")
#: Kinds that explanations need besides those of the scheduler.
EXPLAINED_KINDS: Final = (RESOURCE_CLAIM_TEMPLATES, DEVICE_TAINT_RULES)
#: A hypothetical write: replace the object at this key, or delete it (None).
Edit = tuple[Kind, str, Json | None]


@dataclass(slots=True)
class Trial:
    """The scheduler's verdict on a pod, node by node."""

    pod: PodInfo
    cycle: Cycle
    gated_by: str = ""
    """The plugin whose PreEnqueue rejects the pod."""
    gate: str = ""
    """The reason for that rejection."""
    error: str = ""
    """The error that ended the attempt before all nodes were evaluated."""
    diagnosis: Diagnosis = field(default_factory=lambda: Diagnosis(0))
    fitting: list[NodeInfo] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The message of the pod's event and condition; "" where the pod fits."""
        if self.fitting:
            return ""
        return self.gate or self.error or self.diagnosis.text

    @property
    def plugins(self) -> set[str]:
        """The rejecting plugins. Only their events can requeue the pod."""
        if self.gated_by:
            return {self.gated_by}
        return self.diagnosis.plugins | {rejection.plugin for rejection in self.diagnosis.rejections.values()}

    @property
    def state(self) -> DynamicState | None:
        """The DynamicResources state of the pod, if it has claims."""
        state = self.cycle.active(DYNAMIC_RESOURCES)
        return state if isinstance(state, DynamicState) else None

    @property
    def allocator(self) -> PodAllocator | None:
        """The allocator for the pod's pending claims; None without such claims."""
        state = self.state
        if state is None:
            return None
        variants = [variant for variant in state.variants.values() if variant.allocator is not None]
        return next(
            (v.allocator for v in variants if v.special is not None), variants[0].allocator if variants else None
        )


def run_synchronously(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never awaits I/O to its end, and return its result."""
    try:
        while True:
            work.send(None)
    except StopIteration as ended:
        result: T = ended.value
        return result


class World:
    """A cluster snapshot. `unread` holds the error of each unreadable collection."""

    def __init__(self, informers: Informers, options: Options) -> None:
        self.options, self._informers = options, informers
        self.compares = options.features.enabled(COMPARISON_GATE)
        """True if tolerations may compare numbers (Gt, Lt)."""
        self.scheduler = Scheduler(Client(NoTransport(), release=options.emulated_version), informers, options)
        self.unread: Mapping[str, str] = {}
        #: The warning events of the namespace that `read` was given, by the uid of their object.
        self.warnings: Mapping[str, Sequence[Json]] = {}
        #: The uids of workloads in `status.reservedFor` of claims that do not exist.
        self.gone: frozenset[str] = frozenset()

    @classmethod
    async def read(
        cls, client: Client, options: Options, more_kinds: Iterable[Kind] = (), *, namespace: str = ""
    ) -> World:
        """List the kinds that the scheduler watches. Raise TransportError.

        Args:
            client: The client.
            options: The options of the scheduler.
            more_kinds: Further kinds to list.
            namespace: The namespace whose warning events to list.
        """
        informers = Informers(client)
        world = cls(informers, options)
        for kind in more_kinds:
            informers.of(kind)
        events = informers.of(CORE_EVENTS, namespace=namespace, field_selector="type=Warning") if namespace else None
        world.unread = await informers.read()
        world.gone = await find_gone(client, world.objects(RESOURCE_CLAIMS))
        warnings: dict[str, list[Json]] = {}
        for event in events.objects.values() if events is not None else ():
            warnings.setdefault(event["involvedObject"].get("uid", ""), []).append(event)
        world.warnings = warnings
        return world

    @classmethod
    def empty(cls, options: Options) -> World:
        """Return a world without objects."""
        client = Client(NoTransport(), release=options.emulated_version)
        return cls(Informers(client), options)

    def of(self, kind: Kind) -> Informer:
        """Return the informer that the scheduler uses for a kind."""
        return self._informers.of(kind)

    def objects(self, kind: Kind) -> list[Json]:
        """Return all objects of a kind."""
        return list(self.of(kind).objects.values())

    def set(self, kind: Kind, key: str, obj: Json | None) -> Json | None:
        """Replace an object, or delete it (None). Return the old one."""
        return self.of(kind).set_object(key, obj)

    @contextmanager
    def as_if(self, edits: Sequence[Edit]) -> Iterator[None]:
        """Apply hypothetical edits until the block ends."""
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
        """All nodes in the scheduler's order."""
        return [node for node in self.scheduler.cache.list() if node.node is not None]

    def is_ours(self, pod: Json) -> bool:
        """Return whether one of this scheduler's profiles is responsible for the pod."""
        return pod["spec"].get("schedulerName", SCHEDULER_NAME) in self.scheduler.profiles

    def try_pod(self, pod: Json, *, first: bool = False, within: frozenset[str] | None = None) -> Trial:
        """Evaluate a pod on every node, without the scheduler's limit on the number of nodes.

        Args:
            pod: The pod, which need not exist.
            first: Stop at the first fitting node.
            within: Evaluate only the nodes with these names.
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
            self._evaluate(trial, nodes, first)
        except (SchedulingError, PluginError) as error:
            trial.error = str(error)
        return trial

    def explanations(self, trial: Trial) -> dict[str, Explanation]:
        """Explain the allocation on each node that no other plugin rejects, by node name."""
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
        """Plan preemption for a pod that fits nowhere. No pod is evicted."""
        profile = self.scheduler.profile_of(trial.pod)
        if profile.preemption is None:
            return Plan(f"{PREEMPTION} is off", eligible=False)
        if trial.gated_by or trial.error:
            return Plan("not tried", eligible=False)
        try:
            return run_synchronously(profile.preemption.plan(trial.cycle, trial.diagnosis))
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
        return f"scheduling gates: {gates}" if gates else f"gated by {plugin}"

    def _evaluate(self, trial: Trial, nodes: list[NodeInfo], first: bool) -> None:
        """Filter and score the nodes into `trial`. Raise SchedulingError."""
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
