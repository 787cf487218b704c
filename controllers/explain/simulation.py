"""Would these pods fit, where, and how full do the nodes get?

Pods are tried one after the other in a world, groups of them together; what each gets is taken in as if it had been
bound. Nothing ends but the pods that are preempted, where that is wanted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from itertools import count

from controllers.explain.findings import PodFindings, columns, plural
from controllers.explain.hypothetical import UNLIMITED, stored
from controllers.explain.imagined import Imagined
from controllers.explain.podgroups import LONG_AGO, GroupFindings, explain_group, group_of
from controllers.explain.pods import explain_pod
from controllers.explain.world import Trial, World, finish
from controllers.resourceclaims.generated_claims import generated_claim
from controllers.resourceclaims.pods import group_key
from controllers.runtime.kinds import (
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Json,
    key_of,
)
from controllers.scheduler.dra.claim_state import results_of
from controllers.scheduler.dra.dynamic_resources import NAME as DYNAMIC_RESOURCES
from controllers.scheduler.dra.extended_resources import IN_MEMORY
from controllers.scheduler.dra.state import DynamicState
from controllers.scheduler.framework.framework import Cycle
from controllers.scheduler.podgroups.cycle import Fate, Outcome, in_order
from controllers.scheduler.queue.queued_pod import QueuedPod
from controllers.scheduler.state.nodes import NodeInfo
from controllers.scheduler.state.pod_info import PodInfo
from controllers.scheduler.storage.binding_plugin import NAME as VOLUME_BINDING
from controllers.scheduler.storage.binding_plugin import VolumeState

__all__ = ["NodeUse", "Placed", "Simulated", "Simulation"]

#: Where devices are that belong to no single node.
SHARED = "(shared)"


@dataclass(slots=True)
class Placed:
    """One pod. `node` is "" where it does not fit, and `reason` says why."""

    pod: str
    node: str
    devices: list[str] = field(default_factory=list)
    reason: str = ""
    ended: list[str] = field(default_factory=list)
    """Pods that end for it."""

    @property
    def said(self) -> str:
        """Its devices, or why it has no node; and who ends for it."""
        ends = [f"ends {', '.join(self.ended)}"] if self.ended else []
        return "; ".join([*([", ".join(self.devices) or self.reason] if self.devices or self.reason else []), *ends])


@dataclass(slots=True)
class NodeUse:
    """How full a node is. Amounts of cpu are in cores, of memory in bytes; None: nothing is known."""

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
    """Whether its cpu and memory are known."""


@dataclass(slots=True)
class Simulated:
    """The whole answer."""

    pods: list[Placed]
    nodes: list[NodeUse]
    fitting: int
    why: PodFindings | GroupFindings | None
    """The first pod or group that does not fit, explained in the world as it is then."""
    left_out: list[str]
    filled: bool
    """Whether more and more were tried until one did not fit."""

    def as_json(self) -> Json:
        why = None if self.why is None else self.why.as_json()
        return {**asdict(self), "why": why}


class Simulation:
    """Pods come into a world one by one, those of a group together. `preempt`: others end for pods that fit nowhere."""

    def __init__(self, world: World, *, preempt: bool = False) -> None:
        self._world, self._preempt = world, preempt
        self._imagined = Imagined(world)
        self._imagined.groups()
        self._imagined.settle()
        self._numbers = count(1)
        self._before = self._used()
        self._placed: list[Placed] = []
        self._why: PodFindings | GroupFindings | None = None

    def place_all(self, pods: Iterable[Json]) -> bool:
        """Whether all of them fit; those that do are there."""
        together: dict[str, list[Json]] = {}
        for pod in pods:
            key = group_key(pod) if self._world.scheduler.gangs is not None else ""
            together.setdefault(key or f"pod {key_of(pod)} {len(together)}", []).append(pod)
        fit = [
            self._place(members[0]) if key.startswith("pod ") else self._place_group(key, members)
            for key, members in together.items()
        ]
        return all(fit)

    def _arrived(self, pod: Json) -> Json:
        """A pod as the server and its controllers leave it before it is scheduled."""
        pod = {**pod, "spec": self._imagined.with_priority(pod["spec"])}
        self._imagined.volumes_of(pod)
        return self._with_claims(pod)

    def _place(self, pod: Json) -> bool:
        pod = self._arrived(pod)
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
            self._settle(pod, trial.cycle, trial.fitting[0], ended)
            return True
        self._placed.append(Placed(key_of(pod), "", reason=trial.text, ended=ended))
        if self._why is None:
            self._why = explain_pod(self._world, pod)
        return False

    def _place_group(self, key: str, pods: list[Json]) -> bool:
        """As many of a group as it needs, or none."""
        world, scheduler = self._world, self._world.scheduler
        pods = [self._arrived(pod) for pod in pods]
        for pod in pods:
            world.set(PODS, key_of(pod), pod)
        members = in_order(QueuedPod(scheduler.info(pod), LONG_AGO) for pod in pods)
        outcome = Outcome([], text=self._incomplete(members[0].info))
        if not outcome.text:
            scheduler.claims.begin_group()
            try:
                outcome = finish(scheduler.group_cycle.decide(key, members))
            finally:
                scheduler.claims.end_group()
        fits = outcome.fate is Fate.FITS
        if not fits and self._why is None:
            group = group_of(world, pods[0])
            self._why = explain_group(world, group) if group is not None else explain_pod(world, pods[0])
        attempts = {attempt.queued.info.uid: attempt for attempt in outcome.attempts}
        for pod in pods:
            attempt = attempts.get(pod["metadata"]["uid"])
            if fits and attempt is not None and attempt.node is not None:
                self._settle(pod, attempt.cycle, attempt.node, [])
                continue
            why = attempt.text if attempt is not None and attempt.text else outcome.text
            self._placed.append(Placed(key_of(pod), "", reason=why))
            world.set(PODS, key_of(pod), None)
        return fits and all(attempt.node is not None for attempt in outcome.attempts)

    def _incomplete(self, member: PodInfo) -> str:
        """Why the group is not tried."""
        gangs = self._world.scheduler.gangs
        return (gangs.problem(member) or "") if gangs is not None else ""

    def _with_claims(self, pod: Json) -> Json:
        """The pod with the claims that its templates give."""
        statuses = []
        for entry in pod["spec"].get("resourceClaims") or ():
            name = entry.get("resourceClaimTemplateName")
            template = self._world.of(RESOURCE_CLAIM_TEMPLATES).get(f"{pod['metadata']['namespace']}/{name}")
            if not name or template is None:
                continue
            claim = generated_claim(pod, PODS, entry["name"], template)
            claim["metadata"] = stored(claim["metadata"], str(next(self._numbers)), namespaced=True)
            self._world.set(RESOURCE_CLAIMS, key_of(claim), claim)
            statuses.append({"name": entry["name"], "resourceClaimName": claim["metadata"]["name"]})
        status = {"phase": "Pending", **(pod.get("status") or {})}
        return {**pod, "status": {**status, "resourceClaimStatuses": statuses}} if statuses else pod

    def _reserve(self, trial: Trial, node: NodeInfo) -> None:
        """Devices and volumes on the node, as the scheduler does."""
        for plugin in self._world.scheduler.profile_of(trial.pod).plugins:
            state = trial.cycle.active(plugin.name)
            if plugin.reserve is not None and state is not None:
                refused = plugin.reserve(trial.pod, state, node)
                assert refused is None, f"{node.name} was found to fit: {refused}"

    def _settle(self, pod: Json, cycle: Cycle, node: NodeInfo, ended: list[str]) -> None:
        """What was reserved is written, and the pod is bound."""
        devices = self._allocated(cycle)
        volumes = cycle.active(VOLUME_BINDING)
        if isinstance(volumes, VolumeState):
            self._imagined.decided(volumes)
        self._world.set(PODS, key_of(pod), {**pod, "spec": {**pod["spec"], "nodeName": node.name}})
        self._placed.append(Placed(key_of(pod), node.name, devices, ended=ended))

    def _allocated(self, cycle: Cycle) -> list[str]:
        """Makes the claims say what was reserved; the devices."""
        state = cycle.active(DYNAMIC_RESOURCES)
        taken: list[str] = []
        for claim, allocation in state.reserved.values() if isinstance(state, DynamicState) else ():
            self._world.scheduler.claims.confirm(claim)
            made = claim if claim["metadata"]["name"] != IN_MEMORY else self._named(claim, cycle.pod)
            known = self._world.of(RESOURCE_CLAIMS).get(key_of(made)) or made
            user = {"resource": "pods", "name": cycle.pod.name, "uid": cycle.pod.uid}
            users = [*((known.get("status") or {}).get("reservedFor") or ()), user]
            status = {**(made.get("status") or {}), "allocation": allocation, "reservedFor": users}
            self._world.set(RESOURCE_CLAIMS, key_of(made), {**made, "status": status})
            taken += [f"{r['driver']}/{r['pool']}/{r['device']}" for r in results_of(allocation)]
        return taken

    def _named(self, claim: Json, pod: PodInfo) -> Json:
        """The claim for a pod's extended resources as the server would have it."""
        number = str(next(self._numbers))
        meta = {**claim["metadata"], "name": f"{pod.name}-extended-{number}", "uid": f"imagined-{number}"}
        return {**claim, "metadata": {"resourceVersion": "0", **meta}}

    def _used(self) -> Counter[str]:
        """Devices in use by the node that they are on."""
        allocated = self._world.scheduler.allocator.allocated
        used: Counter[str] = Counter()
        for slice_ in self._world.objects(RESOURCE_SLICES):
            spec = slice_["spec"]
            for device in spec.get("devices") or ():
                if allocated.is_used((spec["driver"], spec["pool"]["name"], device["name"])):
                    used[spec.get("nodeName") or SHARED] += 1
        return used

    def result(self, left_out: Iterable[str] = (), *, filled: bool = False) -> Simulated:
        """What came of it."""
        devices: Counter[str] = Counter()
        for slice_ in self._world.objects(RESOURCE_SLICES):
            spec = slice_["spec"]
            devices[spec.get("nodeName") or SHARED] += len(spec.get("devices") or ())
        used = self._used()
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
        return Simulated(self._placed, nodes, fitting, self._why, list(left_out), filled)


def table(found: Simulated) -> str:
    """For people: the pods, the nodes, the verdict."""
    pods = [("POD", "NODE", "DEVICES")]
    pods += [(each.pod, each.node or "-", each.said or "-") for each in found.pods]
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
    return "\n".join([*columns(pods), "", *columns(nodes), "", *verdict(found)])


def plot(found: Simulated, width: int = 40) -> str:
    """A bar for each node: devices in use before, by these pods, and free."""
    name = max((len(each.node) for each in found.nodes), default=0)
    lines = []
    for each in found.nodes:
        before = round(width * each.used_before / each.devices) if each.devices else 0
        now = round(width * each.used / each.devices) if each.devices else 0
        bar = "█" * before + "▓" * (now - before) + "░" * (width - now)
        lines.append(f"{each.node:{name}}  {bar}  {each.used}/{each.devices}")
    return "\n".join([*lines, "█ in use before, ▓ by these pods, ░ free", "", *verdict(found)])


def verdict(found: Simulated) -> list[str]:
    """How many fit, and why the first one that does not."""
    if found.filled:
        lines = [f"{plural(found.fitting, 'pod')} fit{', the next does not' if found.why else ' at least'}"]
    else:
        lines = [f"{found.fitting} of {plural(len(found.pods), 'pod')} fit"]
    if found.why is not None:
        lines += ["", *found.why.lines]
    if found.left_out:
        lines.append(f"left out: {', '.join(found.left_out)}")
    return lines


def nodes_named(slices: Iterable[Json]) -> list[str]:
    """The nodes that slices belong to, in order."""
    return sorted({name for slice_ in slices if (name := slice_["spec"].get("nodeName"))})


def has_node(world: World, name: str) -> bool:
    return world.of(NODES).get(name) is not None
