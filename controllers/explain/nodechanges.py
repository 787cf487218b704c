"""Candidate changes of nodes, pods and volumes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Final

from apiserver.api.helpers.pod_requests import amounts as parse_amounts
from apiserver.api.helpers.tolerations import is_tolerated
from apiserver.api.objects import Json
from controllers.explain.amounts import amount_text
from controllers.explain.details import affinity_terms, insufficient_resources, pods_with_ports, taint_text
from controllers.explain.storage import size_of, users_of_exclusive_claims, waits_for_consumer
from controllers.explain.world import Edit, Trial, World
from controllers.runtime.kinds import CSI_NODES, NODES, PODS, VOLUME_CLAIMS, VOLUMES, key_of
from controllers.scheduler.framework.status import Code, Rejection
from controllers.scheduler.plugins.interpod import NAME as INTER_POD
from controllers.scheduler.plugins.interpod import NOT_NEAR, InterPodState
from controllers.scheduler.plugins.resources import FIT
from controllers.scheduler.plugins.spread import NAME as SPREAD
from controllers.scheduler.state.nodes import NodeInfo
from controllers.scheduler.state.pod_info import PodInfo
from controllers.scheduler.storage.binding_plugin import NAME as BINDING
from controllers.scheduler.storage.binding_plugin import VolumeState
from controllers.scheduler.storage.limit_plugins import LIMITS, RESTRICTIONS, ZONE, zones_of
from controllers.volumes import BIND_COMPLETED, class_name, is_fully_bound, volume_mode

__all__ = ["Change", "another_node", "node_changes"]

#: Pods per node to try deleting, lowest priority first.
_PODS: Final = 100
#: Try at most this many nodes per identical rejection. They may differ in what they lack besides.
_SIMILAR_NODES: Final = 5
#: Plugins that another node of the same kind may satisfy.
_CROWDED: Final = frozenset((FIT, "NodePorts", SPREAD, INTER_POD, LIMITS, RESTRICTIONS))


@dataclass(frozen=True, slots=True)
class Change:
    """One candidate change.

    `sort` groups changes of which a few examples suffice. `pod` is set if the change edits the pod itself. `preempts`
    is true if it helps by preemption. `answers` is the addressed rejection and `position` the index of the changed node
    among the nodes with this rejection; changing one of them suffices.
    """

    sort: str
    text: str
    edits: tuple[Edit, ...] = ()
    pod: Json | None = None
    preempts: bool = False
    answers: object = None
    position: int = 0


def node_changes(world: World, trial: Trial) -> Iterator[Change]:
    """Yield candidates for each rejection: on the first node with that rejection, then on the next ones."""
    yield from _bind_claims(world, trial)
    similar: dict[object, list[str]] = {}
    for name, rejection in trial.diagnosis.rejections.items():
        similar.setdefault((rejection.plugin, rejection.reasons), []).append(name)
    for position in range(_SIMILAR_NODES):
        for answered, names in similar.items():
            if position < len(names):
                for change in _of_node(world, trial, names[position]):
                    yield replace(change, answers=answered, position=position)
        if not position:
            yield from _raise_priority(world, trial)


def _of_node(world: World, trial: Trial, name: str) -> Iterator[Change]:
    node, rejection = world.scheduler.cache.nodes[name], trial.diagnosis.rejections[name]
    found = _CHANGES.get(rejection.plugin)
    if found is not None:
        yield from found(world, trial, node, rejection)
    if rejection.plugin in _CROWDED:
        yield _add_node(node)


def _with_spec(pod: Json, **fields: object) -> Json:
    return {**pod, "spec": {**pod["spec"], **fields}}


def _uncordon(_: World, __: Trial, node: NodeInfo, ___: Rejection) -> Iterator[Change]:
    raw = node.node or {}
    opened = {**raw, "spec": {key: v for key, v in raw["spec"].items() if key != "unschedulable"}}
    yield Change("node", f"uncordon node {node.name}", ((NODES, node.name, opened),))


def _tolerate_taints(world: World, trial: Trial, node: NodeInfo, _: Rejection) -> Iterator[Change]:
    pod = trial.pod.pod
    taints = [taint for taint in node.taints if not is_tolerated(taint, trial.pod.tolerations, world.compares)]
    tolerations = [
        {"key": taint["key"], "operator": "Equal", "value": taint.get("value", ""), "effect": taint["effect"]}
        for taint in taints
    ]
    sets = [[each] for each in range(len(taints))] + ([list(range(len(taints)))] if len(taints) > 1 else [])
    for chosen in sets:
        more = [*(pod["spec"].get("tolerations") or ()), *(tolerations[each] for each in chosen)]
        text = " and ".join(taint_text(taints[each]) for each in chosen)
        text = f"tolerate node taint{'s' * (len(chosen) != 1)} {text} in the pod"
        yield Change("node", text, pod=_with_spec(pod, tolerations=more))


def _satisfy_affinity(_: World, trial: Trial, node: NodeInfo, ___: Rejection) -> Iterator[Change]:
    """Add the labels that would satisfy the node selector or the first satisfiable affinity term."""
    labels = dict(trial.pod.spec.get("nodeSelector") or {})
    for term in affinity_terms(trial.pod):
        expressions = term.get("matchExpressions") or ()
        if not term.get("matchFields") and all(e["operator"] in ("In", "Exists") for e in expressions):
            labels |= {e["key"]: (e.get("values") or ["true"])[0] for e in expressions if e["key"] not in node.labels
                       or (e["operator"] == "In" and node.labels[e["key"]] not in e["values"])}  # fmt: skip
            break
    if labels := {key: value for key, value in labels.items() if node.labels.get(key) != value}:
        yield _add_labels(node, labels)


def _add_labels(node: NodeInfo, new_labels: dict[str, str]) -> Change:
    raw = node.node or {}
    labels = {**(raw["metadata"].get("labels") or {}), **new_labels}
    text = ", ".join(f"{key}={value}" for key, value in new_labels.items())
    edit = (NODES, node.name, {**raw, "metadata": {**raw["metadata"], "labels": labels}})
    return Change("node", f"label node {node.name} {text}", (edit,))


def _deletions(pods: Sequence[PodInfo], node: str) -> Iterator[Change]:
    for pod in sorted(pods, key=lambda pod: (pod.priority, pod.key))[:_PODS]:
        yield Change("pod", f"delete pod {pod.key}" + (f" on node {node}" if node else ""), ((PODS, pod.key, None),))


def _free_resources(_: World, trial: Trial, node: NodeInfo, ___: Rejection) -> Iterator[Change]:
    yield from _deletions(list(node.pods.values()), node.name)
    pod = trial.pod
    left = {
        name: node.allocatable.get(name, 0) - node.requested.get(name, 0)
        for name in insufficient_resources(trial, node)
    }
    if left and all(amount > 0 for amount in left.values()):
        yield _lower_requests(pod, left)
    lacking = {name: pod.requests[name] for name in left if pod.requests[name] > node.allocatable.get(name, 0)}
    if lacking:
        yield _add_larger_node(node, lacking)


def _lower_requests(pod: PodInfo, left: dict[str, int]) -> Change:
    """Lower the requests of the pod, or of its first containers, to the amounts left on the node."""
    less = deepcopy(pod.pod)
    spec = less["spec"]
    for name, amount in left.items():
        whole = _request_of(spec, name)
        _reduce(spec, name, max(0, whole - amount))
        excess = (sum(_request_of(each, name) for each in spec["containers"]) if whole else pod.requests[name]) - amount
        for container in spec["containers"]:
            cut = max(0, min(excess, _request_of(container, name)))
            excess -= cut
            _reduce(container, name, cut)
    limits = ", ".join(f"{amount_text(name, amount)} {name}" for name, amount in left.items())
    return Change("ask", f"request at most {limits}", pod=less)


def _reduce(spec: Json, name: str, cut: int) -> None:
    """Reduce a request and its limit in a container or pod spec, in place."""
    for part in ("requests", "limits") if cut else ():
        amounts = spec["resources"].get(part) or {}
        if name in amounts:
            amounts[name] = amount_text(name, _amount(name, amounts[name]) - cut)


def _request_of(spec: Json, name: str) -> int:
    requests = (spec.get("resources") or {}).get("requests") or {}
    return _amount(name, requests[name]) if name in requests else 0


def _amount(name: str, text: str) -> int:
    return parse_amounts({name: text})[name]


def _add_larger_node(node: NodeInfo, lacking: dict[str, int]) -> Change:
    """Add a node like this one with the amounts that even an empty one lacks."""
    text = {name: amount_text(name, value) for name, value in lacking.items()}
    kind, key, raw = another_node(node, f"more-like-{node.name}")
    if raw is not None:
        for part in ("allocatable", "capacity"):
            raw["status"][part] = {**(raw["status"].get(part) or {}), **text}
    amounts = ", ".join(f"{value} {name}" for name, value in text.items())
    return Change("more", f"add one more node like {node.name}, but with {amounts}", ((kind, key, raw),))


def _free_ports(_: World, trial: Trial, node: NodeInfo, ___: Rejection) -> Iterator[Change]:
    return _deletions([other for other, _ in pods_with_ports(trial.pod, node)], node.name)


def another_node(node: NodeInfo, name: str) -> Edit:
    """Return the edit that adds a node like this one, without pods and devices."""
    raw = deepcopy(node.node or {})
    labels = {**(raw["metadata"].get("labels") or {}), "kubernetes.io/hostname": name}
    raw["metadata"] = {"name": name, "uid": name, "resourceVersion": "0", "labels": labels}
    return NODES, name, raw


def _add_node(node: NodeInfo) -> Change:
    return Change("more", f"add one more node like {node.name}", (another_node(node, f"more-like-{node.name}"),))


def _soften_spread(_: World, trial: Trial, node: NodeInfo, __: Rejection) -> Iterator[Change]:
    pod = trial.pod.pod
    constraints = pod["spec"].get("topologySpreadConstraints") or ()
    for position, each in enumerate(constraints):
        if each["whenUnsatisfiable"] != "DoNotSchedule":
            continue
        softer = [
            {**c, "whenUnsatisfiable": "ScheduleAnyway"} if p == position else c for p, c in enumerate(constraints)
        ]
        text = f"set whenUnsatisfiable: ScheduleAnyway for the spread over {each['topologyKey']}"
        yield Change("spread", text, pod=_with_spec(pod, topologySpreadConstraints=softer))
        if each["topologyKey"] not in node.labels:
            yield _add_labels(node, {each["topologyKey"]: "new"})


def _satisfy_inter_pod(world: World, trial: Trial, node: NodeInfo, rejection: Rejection) -> Iterator[Change]:
    state = trial.cycle.active(INTER_POD)
    if not isinstance(state, InterPodState):
        return
    if rejection is not NOT_NEAR:
        yield from _deletions(state.conflicting_pods(node, world.nodes), "")
        return
    term = trial.pod.required_affinity[0]
    if len(trial.pod.required_affinity) == 1 and not term.selector.nothing:
        labels = {
            r.key: (r.values or ("x",))[0]
            for r in term.selector.requirements
            if r.operator in ("In", "=", "==", "Exists", "exists", "in")
        }
        namespace = next(iter(sorted(term.namespaces)), trial.pod.namespace)
        meta = {"name": "wanted", "namespace": namespace, "uid": "wanted", "resourceVersion": "0", "labels": labels}
        other = {"metadata": meta, "spec": {"containers": [], "nodeName": node.name}, "status": {"phase": "Running"}}
        text = ", ".join(f"{key}={value}" for key, value in labels.items())
        edit = (PODS, f"{namespace}/wanted", other)
        yield Change("near", f"run a pod with {text} in namespace {namespace} on node {node.name}", (edit,))


# Volumes


def _bind_claims(world: World, trial: Trial) -> Iterator[Change]:
    """Bind the claims for which the pod is rejected on all nodes."""
    if not trial.diagnosis.prefilter or not trial.diagnosis.plugins & {BINDING, RESTRICTIONS, ZONE}:
        return
    edits: list[Edit] = []
    texts = []
    for name, made_for_pod in trial.pod.volume_claims:
        claim = world.scheduler.volumes.claims.get(f"{trial.pod.namespace}/{name}")
        if not made_for_pod and (claim is None or not waits_for_consumer(world, claim)):
            for text, more in _bind(world, trial.pod.namespace, name, claim):
                texts.append(text)
                edits += more
    if edits:
        yield Change("volume", " and ".join(texts), tuple(edits))


def _bind(world: World, namespace: str, name: str, claim: Json | None) -> Iterator[tuple[str, list[Edit]]]:
    """Yield the edits that bind an unbound claim, with their text."""
    if claim is None:
        meta = {"name": name, "namespace": namespace, "uid": f"{namespace}/{name}", "resourceVersion": "0"}
        claim = {"metadata": meta, "spec": {"accessModes": ["ReadWriteOnce"]}}
        yield f"create volume claim {name} and bind it to a volume reachable from every node", _bound_pair(claim)
        return
    volume_name = claim["spec"].get("volumeName")
    volume = world.scheduler.volumes.volumes.get(volume_name) if volume_name else None
    if is_fully_bound(claim):
        if volume is None:
            text = f"recreate volume {volume_name} of claim {name}, reachable from every node"
            yield text, [(VOLUMES, volume_name, _volume(volume_name, claim))]
    elif volume is not None:
        yield f"bind volume claim {name} to its volume {volume_name}", _bound_pair(claim, volume)
    elif volume_name:
        yield f"create volume {volume_name} for claim {name}, reachable from every node", _bound_pair(claim)
    else:
        kind = f"{size_of(claim)} of class {class_name(claim) or 'none'}"
        yield f"bind volume claim {name} to a volume ({kind}) reachable from every node", _bound_pair(claim)


def _bound_pair(claim: Json, volume: Json | None = None) -> list[Edit]:
    """Bind the claim to this volume, or to a new matching one."""
    meta = claim["metadata"]
    name = claim["spec"].get("volumeName") or f"more-for-{meta['name']}"
    spec = {**claim["spec"], "volumeName": name}
    annotations = {**(meta.get("annotations") or {}), BIND_COMPLETED: "yes"}
    bound = {**claim, "metadata": {**meta, "annotations": annotations}, "spec": spec, "status": {"phase": "Bound"}}
    ref = {"namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]}
    pv = {**volume, "spec": {**volume["spec"], "claimRef": ref}} if volume else _volume(name, claim, claimRef=ref)
    return [(VOLUMES, name, pv), (VOLUME_CLAIMS, key_of(claim), bound)]


def _volume(name: str, claim: Json, **spec: object) -> Json:
    """Return a volume that matches a claim."""
    volume_spec = {
        "capacity": {"storage": size_of(claim)},
        "accessModes": claim["spec"].get("accessModes") or [],
        "volumeMode": volume_mode(claim),
        **({"storageClassName": class_name(claim)} if class_name(claim) else {}),
        **spec,
    }
    labels = dict((claim["spec"].get("selector") or {}).get("matchLabels") or {})
    metadata = {"name": name, "uid": name, "resourceVersion": "0", "labels": labels}
    return {"metadata": metadata, "spec": volume_spec, "status": {"phase": "Available"}}


def _satisfy_binding(world: World, trial: Trial, node: NodeInfo, _: Rejection) -> Iterator[Change]:
    state = trial.cycle.active(BINDING)
    if not isinstance(state, VolumeState):
        return
    for claim in state.bound:
        volume = world.scheduler.volumes.volumes.get(claim["spec"]["volumeName"])
        labels = _reach_labels(volume) if volume is not None else {}
        if labels := {key: value for key, value in labels.items() if node.labels.get(key) != value}:
            yield _add_labels(node, labels)
    if state.waiting:
        hostname = node.labels.get("kubernetes.io/hostname")
        term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [hostname]}]}
        reach = {"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}} if hostname else {}
        names = [f"more-for-{claim['metadata']['name']}" for claim in state.waiting]
        edits = tuple((VOLUMES, n, _volume(n, claim, **reach)) for n, claim in zip(names, state.waiting, strict=True))
        kinds = " and ".join(f"a volume of {size_of(claim)} of class {class_name(claim)}" for claim in state.waiting)
        yield Change("volume", f"add {kinds} reachable from node {node.name}", edits)


def _reach_labels(volume: Json) -> dict[str, str]:
    """Return the labels that would satisfy the first term of a volume's node affinity."""
    terms = ((volume["spec"].get("nodeAffinity") or {}).get("required") or {}).get("nodeSelectorTerms") or ()
    expressions = [e for term in list(terms)[:1] for e in term.get("matchExpressions") or ()]
    return {e["key"]: e["values"][0] for e in expressions if e["operator"] == "In"}


def _add_zone_node(world: World, trial: Trial, node: NodeInfo, _: Rejection) -> Iterator[Change]:
    for name, __ in trial.pod.volume_claims:
        claim = world.scheduler.volumes.claims.get(f"{trial.pod.namespace}/{name}") or {"spec": {}}
        volume = world.scheduler.volumes.volumes.get(claim["spec"].get("volumeName") or "")
        zone_labels = {label: min(values) for label, values in zones_of(volume)} if volume is not None else {}
        if any(node.labels.get(label) != value for label, value in zone_labels.items()):
            another = _add_node(node)
            raw = another.edits[0][2] or {}
            raw["metadata"]["labels"].update(zone_labels)
            text = ", ".join(f"{label}={value}" for label, value in zone_labels.items())
            yield Change("more", f"add a node like {node.name} in {text}", another.edits)


def _raise_limits(world: World, trial: Trial, node: NodeInfo, _: Rejection) -> Iterator[Change]:
    yield from _deletions([other for other in node.pods.values() if other.volume_claims], node.name)
    csi_node = world.scheduler.volumes.csi_node(node.name)
    if csi_node is not None:
        raised = deepcopy(csi_node)
        for driver in raised["spec"].get("drivers") or ():
            if (driver.get("allocatable") or {}).get("count") is not None:
                driver["allocatable"]["count"] += len(trial.pod.volume_claims)
        text = f"raise the volume limit of the drivers on node {node.name} by {len(trial.pod.volume_claims)}"
        yield Change("volume", text, ((CSI_NODES, node.name, raised),))


def _delete_exclusive_users(world: World, trial: Trial, node: NodeInfo, _: Rejection) -> Iterator[Change]:
    names = set(users_of_exclusive_claims(world, trial))
    users = [pod for pod in world.scheduler.cache.pods() if pod.key in names] or list(node.pods.values())
    return _deletions(users, "")


# Preemption


def _raise_priority(world: World, trial: Trial) -> Iterator[Change]:
    """Yield priorities and a policy with which the pod would preempt others."""
    pod = trial.pod
    nodes = [node for node in world.nodes if trial.diagnosis.code_of(node.name) is Code.UNSCHEDULABLE]
    others = {other.priority for node in nodes for other in node.pods.values()}
    never = pod.spec.get("preemptionPolicy") == "Never"
    if never and any(priority < pod.priority for priority in others):
        allowed = _with_spec(pod.pod, preemptionPolicy="PreemptLowerPriority")
        yield Change(
            "priority", "use a priority class that may preempt (preemptionPolicy is Never)", pod=allowed, preempts=True
        )
    for priority in sorted(each for each in others if each >= pod.priority):
        raised = _with_spec(pod.pod, priority=priority + 1, preemptionPolicy="PreemptLowerPriority")
        yield Change("priority", f"raise the priority above {priority} (now {pod.priority})", pod=raised, preempts=True)


_CHANGES: Final[dict[str, Callable[[World, Trial, NodeInfo, Rejection], Iterator[Change]]]] = {
    "NodeUnschedulable": _uncordon,
    "TaintToleration": _tolerate_taints,
    "NodeAffinity": _satisfy_affinity,
    "NodePorts": _free_ports,
    FIT: _free_resources,
    SPREAD: _soften_spread,
    INTER_POD: _satisfy_inter_pod,
    BINDING: _satisfy_binding,
    ZONE: _add_zone_node,
    LIMITS: _raise_limits,
    RESTRICTIONS: _delete_exclusive_users,
}
