"""Simulate pods: whether they fit, where, and how full the nodes get.

Pods are placed one by one in a world, the pods of a group together. Each placement is applied as if the pod were
bound. No pod terminates, except for pods preempted with `preempt`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from itertools import count

from apiserver.api.objects import Json
from controllers.explain.emulated_controllers import EmulatedControllers
from controllers.explain.findings import PodFindings, columns, plural
from controllers.explain.hypothetical import UNLIMITED, with_server_fields
from controllers.explain.podgroups import LONG_AGO, GroupFindings, explain_group, group_of
from controllers.explain.pods import explain_pod
from controllers.explain.world import Trial, World, run_synchronously
from controllers.resourceclaims.generated_claims import generated_claim
from controllers.resourceclaims.pods import group_key
from controllers.runtime.kinds import NODES, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, RESOURCE_SLICES, key_of
from controllers.scheduler.cycle.group_cycle import Decision, Outcome, sort_members
from controllers.scheduler.dra.claim_state import results_of
from controllers.scheduler.dra.dynamic_resources import NAME as DYNAMIC_RESOURCES
from controllers.scheduler.dra.extended_resources import IN_MEMORY
from controllers.scheduler.dra.state import DynamicState
from controllers.scheduler.framework.framework import Cycle
from controllers.scheduler.queue.queued_pod import QueuedPod
from controllers.scheduler.state.nodes import NodeInfo
from controllers.scheduler.state.pod_info import PodInfo
from controllers.scheduler.storage.binding_plugin import NAME as VOLUME_BINDING
from controllers.scheduler.storage.binding_plugin import VolumeState

__all__ = ["NodeUse", "PodPlacement", "Simulation", "SimulationResult"]

#: Stands for the node of devices that belong to no single node.
SHARED = "(shared)"


@dataclass(slots=True)
class PodPlacement:
    """One pod. `node` is "" if it does not fit; `reason` is the scheduler's message then."""

    pod: str
    node: str
    devices: list[str] = field(default_factory=list)
    reason: str = ""
    ended: list[str] = field(default_factory=list)
    """Pods preempted by this one."""

    @property
    def text(self) -> str:
        """Its devices or the reason for not fitting, and the preempted pods."""
        preempted = f"preempts {', '.join(self.ended)}" if self.ended else ""
        return "; ".join(filter(None, (", ".join(self.devices) or self.reason, preempted)))


@dataclass(slots=True)
class NodeUse:
    """Usage of one node. CPU is in cores, memory in bytes."""

    node: str
    devices: int
    used_before: int
    used: int
    pods: int
    cpu: float
    cpu_used: float
    memory: int
    memory_used: int
    limited: bool
    """False if its cpu and memory are unknown and unlimited."""


@dataclass(slots=True)
class SimulationResult:
    """The result of a simulation."""

    pods: list[PodPlacement]
    nodes: list[NodeUse]
    fitting: int
    why: PodFindings | GroupFindings | None
    """Findings about the first pod or group that does not fit, in the world at that point."""
    left_out: list[str]
    """Kinds from the files without effect on the simulation."""
    filled: bool
    """True if pods were added until one did not fit."""

    def as_json(self) -> Json:
        why = None if self.why is None else self.why.as_json()
        return {**asdict(self), "why": why}


class Simulation:
    """Places pods in a world one by one, those of a group together. `preempt` allows preemption."""

    def __init__(self, world: World, *, preempt: bool = False) -> None:
        self._world, self._preempt = world, preempt
        self._controllers = EmulatedControllers(world)
        self._controllers.set_group_priorities()
        self._controllers.bind_claims()
        self._numbers = count(1)
        self._before = self._count_used()
        self._placed: list[PodPlacement] = []
        self._why: PodFindings | GroupFindings | None = None

    def place_all(self, pods: Iterable[Json]) -> bool:
        """Place pods and groups. Return whether all of them fit."""
        together: dict[str, list[Json]] = {}
        for pod in pods:
            key = group_key(pod) if self._world.scheduler.gangs is not None else ""
            together.setdefault(key or f"pod {key_of(pod)} {len(together)}", []).append(pod)
        fit = [
            self._place(members[0]) if key.startswith("pod ") else self._place_group(key, members)
            for key, members in together.items()
        ]
        return all(fit)

    def _admit(self, pod: Json) -> Json:
        """Return a pod with the effects of admission and controllers before scheduling."""
        pod = {**pod, "spec": self._controllers.with_priority(pod["spec"])}
        self._controllers.create_volume_claims(pod)
        return self._with_claims(pod)

    def _place(self, pod: Json) -> bool:
        pod = self._admit(pod)
        trial = self._world.try_pod(pod)
        ended: list[str] = []
        if not trial.fitting and self._preempt:
            chosen = self._world.preemption(trial).chosen
            ended = [victim.key for victim in chosen.victims] if chosen is not None else []
            for key in ended:
                self._world.set(PODS, key, None)
            if chosen is not None:
                trial = self._world.try_pod(pod)
                trial.fitting.sort(key=lambda node: node.name != chosen.node)
        if trial.fitting:
            self._reserve(trial, trial.fitting[0])
            self._bind(pod, trial.cycle, trial.fitting[0], ended)
            return True
        self._placed.append(PodPlacement(key_of(pod), "", reason=trial.text, ended=ended))
        if self._why is None:
            self._why = explain_pod(self._world, pod)
        return False

    def _place_group(self, key: str, pods: list[Json]) -> bool:
        """Place a group: at least minCount pods, or none. Return whether all its pods fit."""
        world, scheduler = self._world, self._world.scheduler
        pods = [self._admit(pod) for pod in pods]
        for pod in pods:
            world.set(PODS, key_of(pod), pod)
        members = sort_members(QueuedPod(scheduler.info(pod), LONG_AGO) for pod in pods)
        outcome = Outcome([], text=self._incomplete(members[0].info))
        if not outcome.text:
            scheduler.claims.begin_group()
            try:
                outcome = run_synchronously(scheduler.group_cycle.decide(key, members))
            finally:
                scheduler.claims.end_group()
        fits = outcome.decision is Decision.FITS
        if not fits and self._why is None:
            group = group_of(world, pods[0])
            self._why = explain_group(world, group) if group is not None else explain_pod(world, pods[0])
        attempts = {attempt.queued.info.uid: attempt for attempt in outcome.attempts}
        for pod in pods:
            attempt = attempts.get(pod["metadata"]["uid"])
            if fits and attempt is not None and attempt.node is not None:
                self._bind(pod, attempt.cycle, attempt.node, [])
                continue
            why = attempt.text if attempt is not None and attempt.text else outcome.text
            self._placed.append(PodPlacement(key_of(pod), "", reason=why))
            world.set(PODS, key_of(pod), None)
        return fits and all(attempt.node is not None for attempt in outcome.attempts)

    def _incomplete(self, member: PodInfo) -> str:
        """Return why the group cannot be scheduled yet; "" if it can."""
        gangs = self._world.scheduler.gangs
        return (gangs.problem(member) or "") if gangs is not None else ""

    def _with_claims(self, pod: Json) -> Json:
        """Create the claims of the pod's templates, and return the pod with their names."""
        statuses = []
        for entry in pod["spec"].get("resourceClaims") or ():
            name = entry.get("resourceClaimTemplateName")
            template = self._world.of(RESOURCE_CLAIM_TEMPLATES).get(f"{pod['metadata']['namespace']}/{name}")
            if not name or template is None:
                continue
            claim = generated_claim(pod, PODS, entry["name"], template)
            claim["metadata"] = with_server_fields(claim["metadata"], str(next(self._numbers)), namespaced=True)
            self._world.set(RESOURCE_CLAIMS, key_of(claim), claim)
            statuses.append({"name": entry["name"], "resourceClaimName": claim["metadata"]["name"]})
        status = {"phase": "Pending", **(pod.get("status") or {})}
        return {**pod, "status": {**status, "resourceClaimStatuses": statuses}} if statuses else pod

    def _reserve(self, trial: Trial, node: NodeInfo) -> None:
        """Reserve devices and volumes on the node like the scheduler does."""
        for plugin in self._world.scheduler.profile_of(trial.pod).plugins:
            state = trial.cycle.active(plugin.name)
            if plugin.reserve is not None and state is not None:
                refused = plugin.reserve(trial.pod, state, node)
                assert refused is None, f"{node.name} fits but cannot be reserved: {refused}"

    def _bind(self, pod: Json, cycle: Cycle, node: NodeInfo, ended: list[str]) -> None:
        """Apply the reservations and bind the pod."""
        devices = self._allocate(cycle)
        volumes = cycle.active(VOLUME_BINDING)
        if isinstance(volumes, VolumeState):
            self._controllers.bind_chosen(volumes)
        self._world.set(PODS, key_of(pod), {**pod, "spec": {**pod["spec"], "nodeName": node.name}})
        self._placed.append(PodPlacement(key_of(pod), node.name, devices, ended=ended))

    def _allocate(self, cycle: Cycle) -> list[str]:
        """Write the reserved allocations to the claims. Return the devices."""
        state = cycle.active(DYNAMIC_RESOURCES)
        devices: list[str] = []
        for claim, allocation in state.reserved.values() if isinstance(state, DynamicState) else ():
            self._world.scheduler.claims.confirm(claim)
            stored = claim if claim["metadata"]["name"] != IN_MEMORY else self._store(claim, cycle.pod)
            known = self._world.of(RESOURCE_CLAIMS).get(key_of(stored)) or stored
            user = {"resource": "pods", "name": cycle.pod.name, "uid": cycle.pod.uid}
            users = [*((known.get("status") or {}).get("reservedFor") or ()), user]
            status = {**(stored.get("status") or {}), "allocation": allocation, "reservedFor": users}
            self._world.set(RESOURCE_CLAIMS, key_of(stored), {**stored, "status": status})
            devices += [f"{r['driver']}/{r['pool']}/{r['device']}" for r in results_of(allocation)]
        return devices

    def _store(self, claim: Json, pod: PodInfo) -> Json:
        """Return the claim for a pod's extended resources with the metadata of a stored object."""
        number = str(next(self._numbers))
        meta = {**claim["metadata"], "name": f"{pod.name}-extended-{number}", "uid": f"hypothetical-{number}"}
        return {**claim, "metadata": {"resourceVersion": "0", **meta}}

    def _count_used(self) -> Counter[str]:
        """Count the devices in use per node."""
        allocated = self._world.scheduler.allocator.allocated
        used: Counter[str] = Counter()
        for slice_ in self._world.objects(RESOURCE_SLICES):
            spec = slice_["spec"]
            for device in spec.get("devices") or ():
                if allocated.is_used((spec["driver"], spec["pool"]["name"], device["name"])):
                    used[spec.get("nodeName") or SHARED] += 1
        return used

    def result(self, left_out: Iterable[str] = (), *, filled: bool = False) -> SimulationResult:
        """Return the result. `left_out` and `filled` are passed through."""
        devices: Counter[str] = Counter()
        for slice_ in self._world.objects(RESOURCE_SLICES):
            spec = slice_["spec"]
            devices[spec.get("nodeName") or SHARED] += len(spec.get("devices") or ())
        used = self._count_used()
        nodes = [
            NodeUse(
                node.name,
                devices[node.name],
                self._before[node.name],
                used[node.name],
                len(node.pods),
                node.cpu / 1000,
                node.requested.get("cpu", 0) / 1000,
                node.memory,
                node.requested.get("memory", 0),
                limited=(node.node or {})["status"].get("allocatable") != UNLIMITED,
            )
            for node in self._world.nodes
        ]
        if devices[SHARED]:
            shared = (devices[SHARED], self._before[SHARED], used[SHARED])
            nodes.append(NodeUse(SHARED, *shared, 0, 0, 0, 0, 0, limited=False))
        fitting = sum(bool(placed.node) for placed in self._placed)
        return SimulationResult(self._placed, nodes, fitting, self._why, list(left_out), filled)


def text(found: SimulationResult) -> str:
    """Render the tables and the verdict."""
    return "\n".join([table(found), "", *verdict(found)])


def table(found: SimulationResult) -> str:
    """Render the pods and the nodes as tables."""
    pods = [("POD", "NODE", "DEVICES")]
    pods += [(each.pod, each.node or "-", each.text or "-") for each in found.pods]
    nodes = [("NODE", "DEVICES", "BEFORE", "PODS", "CPU", "MEMORY")]
    nodes += [
        (
            each.node,
            f"{each.used}/{each.devices}",
            str(each.used_before),
            str(each.pods),
            f"{each.cpu_used:g}/{each.cpu:g}" if each.limited else "-",
            f"{each.memory_used >> 20}/{each.memory >> 20} Mi" if each.limited else "-",
        )
        for each in found.nodes
    ]
    return "\n".join([*columns(pods), "", *columns(nodes)])


def plot(found: SimulationResult, width: int = 40) -> str:
    """Render one bar per node: devices used before, used by these pods, and free."""
    name = max((len(each.node) for each in found.nodes), default=0)
    lines = []
    for each in found.nodes:
        before = round(width * each.used_before / each.devices) if each.devices else 0
        now = round(width * each.used / each.devices) if each.devices else 0
        bar = "█" * before + "▓" * (now - before) + "░" * (width - now)
        lines.append(f"{each.node:{name}}  {bar}  {each.used}/{each.devices}")
    return "\n".join([*lines, "█ used before, ▓ used by these pods, ░ free", "", *verdict(found)])


def verdict(found: SimulationResult) -> list[str]:
    """Report how many pods fit, and explain the first that does not."""
    if found.filled:
        fits = f"{plural(found.fitting, 'pod')} fit{'s' * (found.fitting == 1)}"
        lines = [f"{fits}, the next does not" if found.why else f"at least {fits}"]
    else:
        lines = [f"{found.fitting} of {plural(len(found.pods), 'pod')} fit"]
    if found.why is not None:
        lines += ["", *found.why.lines]
    if found.left_out:
        lines.append(f"ignored kinds: {', '.join(found.left_out)}")
    return lines


def node_names(slices: Iterable[Json]) -> list[str]:
    """Return the names of the nodes of slices, sorted."""
    return sorted({name for slice_ in slices if (name := slice_["spec"].get("nodeName"))})


def has_node(world: World, name: str) -> bool:
    return world.of(NODES).get(name) is not None
