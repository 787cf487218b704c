"""Would these pods fit, where, and how full do the nodes get?

Pods are tried one after the other in a world; what each gets is taken in as if it had been bound. Nobody is preempted,
and nothing ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from itertools import count

from controllers.explain.findings import PodFindings, columns, plural
from controllers.explain.hypothetical import UNLIMITED, stored
from controllers.explain.pods import explain_pod
from controllers.explain.world import Trial, World
from controllers.generatedclaims import generated_claim
from controllers.runtime.kinds import (
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Json,
    key_of,
)
from controllers.scheduler.claimstate import results_of
from controllers.scheduler.dynamic import NAME as DYNAMIC_RESOURCES
from controllers.scheduler.extended import IN_MEMORY
from controllers.scheduler.nodes import NodeInfo
from controllers.scheduler.podinfo import PodInfo

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
    why: PodFindings | None
    """The first pod that does not fit, explained in the world as it is then."""
    left_out: list[str]
    filled: bool
    """Whether more and more were tried until one did not fit."""

    def as_json(self) -> Json:
        why = None if self.why is None else self.why.as_json()
        return {**asdict(self), "why": why}


class Simulation:
    """Pods come into a world one by one."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._numbers = count(1)
        self._before = self._used()
        self._placed: list[Placed] = []
        self._why: PodFindings | None = None

    def place(self, pod: Json) -> bool:
        """Whether it fits; then it is there."""
        pod = self._with_claims(pod)
        trial = self._world.try_pod(pod)
        if trial.fitting:
            node = trial.fitting[0]
            devices = self._take(trial, node)
            bound = {**pod, "spec": {**pod["spec"], "nodeName": node.name}}
            self._world.set(PODS, key_of(pod), bound)
            self._placed.append(Placed(key_of(pod), node.name, devices))
            return True
        self._placed.append(Placed(key_of(pod), "", reason=trial.text))
        if self._why is None:
            self._why = explain_pod(self._world, pod)
        return False

    def place_all(self, pods: Iterable[Json]) -> None:
        """All of them, whether they fit or not."""
        for pod in pods:
            self.place(pod)

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

    def _take(self, trial: Trial, node: NodeInfo) -> list[str]:
        """Reserve devices on the node as the scheduler does, and make the claims say so; the devices."""
        state = trial.state
        if state is None:
            return []
        plugin = next(plugin for plugin in self._world.scheduler.plugins if plugin.name == DYNAMIC_RESOURCES)
        assert plugin.reserve is not None
        refused = plugin.reserve(trial.pod, state, node)
        assert refused is None, f"{node.name} was found to fit: {refused}"
        taken: list[str] = []
        for claim, allocation in state.reserved.values():
            self._world.scheduler.claims.confirm(claim)
            made = claim if claim["metadata"]["name"] != IN_MEMORY else self._named(claim, trial.pod)
            users = [{"resource": "pods", "name": trial.pod.name, "uid": trial.pod.uid}]
            status = {**(claim.get("status") or {}), "allocation": allocation, "reservedFor": users}
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
    pods += [(each.pod, each.node or "-", ", ".join(each.devices) or each.reason or "-") for each in found.pods]
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
