"""Explain the volumes of a pod: the state of its claims, and why nodes are rejected for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from apiserver.api.objects import Json
from apiserver.api.selectors.node_selectors import InvalidNodeSelector
from controllers.explain.findings import VolumeClaimState, plural
from controllers.explain.world import Trial, World
from controllers.runtime.kinds import VOLUMES
from controllers.scheduler.framework.status import Rejection
from controllers.scheduler.state.nodes import NodeInfo
from controllers.scheduler.state.pod_info import PodInfo
from controllers.scheduler.storage.binding_plugin import NAME as BINDING
from controllers.scheduler.storage.binding_plugin import VolumeState
from controllers.scheduler.storage.limit_plugins import (
    LIMITS,
    RESTRICTIONS,
    ZONE,
    ExclusiveVolumes,
    attach_counts,
    zones_of,
)
from controllers.volumes import (
    NO_PROVISIONER,
    SELECTED_NODE,
    annotations_of,
    class_name,
    has_access_modes,
    in_topologies,
    is_bound_to,
    is_fully_bound,
    reaches,
    requested_size,
    storage,
    volume_mode,
    waits_for_first_consumer,
)

__all__ = ["claim_states", "size_of", "users_of_exclusive_claims", "volume_details", "waits_for_consumer"]


def size_of(claim: Json) -> str:
    """Return the requested size of a claim, such as `10Gi`."""
    return str(((claim["spec"].get("resources") or {}).get("requests") or {}).get("storage", "0"))


def claim_states(world: World, pod: Json) -> Iterator[VolumeClaimState]:
    """Describe each PersistentVolumeClaim of the pod."""
    trial_pod = PodInfo(pod)
    volumes = world.scheduler.volumes
    for name, made_for_pod in trial_pod.volume_claims:
        claim = volumes.claims.get(f"{trial_pod.namespace}/{name}")
        if claim is None:
            why = "the ephemeral volume controller creates it" if made_for_pod else ""
            yield VolumeClaimState(name, "missing", why=why)
            continue
        spec, of_class = claim["spec"], class_name(claim)
        found = VolumeClaimState(name, "unbound", size_of(claim), of_class, spec.get("volumeName") or "")
        storage_class = volumes.storage_class(of_class)
        if (claim.get("status") or {}).get("phase") == "Lost":
            found.state = "lost"
        elif is_fully_bound(claim):
            found.state = "bound"
        elif waits_for_consumer(world, claim):
            found.state = "waiting"
        else:
            found.why = _why_unbound(world, claim, storage_class)
        yield found


def waits_for_consumer(world: World, claim: Json) -> bool:
    """Return whether the claim is bound only after its first pod has a node."""
    of_class = world.scheduler.volumes.storage_class(class_name(claim))
    return (
        of_class is not None and bool(of_class.get("volumeBindingMode")) and waits_for_first_consumer(claim, of_class)
    )


def _why_unbound(world: World, claim: Json, storage_class: Json | None) -> str:
    """Explain why a claim with immediate binding is not bound."""
    of_class = class_name(claim)
    if name := claim["spec"].get("volumeName"):
        volume = world.scheduler.volumes.volumes.get(name)
        return f"its volume {name} " + ("does not exist" if volume is None else "is not bound to it yet")
    if of_class and storage_class is None:
        return f"storage class {of_class} does not exist"
    provisioner = (storage_class or {}).get("provisioner", NO_PROVISIONER)
    mismatches = _count_mismatches(world, claim, None)
    if provisioner == NO_PROVISIONER:
        return f"the class has no provisioner, create a volume; {mismatches}"
    return f"{mismatches}; provisioner {provisioner} has not created one"


def _count_mismatches(world: World, claim: Json, node: Json | None) -> str:
    """Count the volumes of the claim's class by the reason for which they do not match."""
    reasons = Counter(
        _mismatch(volume, claim, node) for volume in world.objects(VOLUMES) if class_name(volume) == class_name(claim)
    )
    if not reasons:
        return f"no volumes of class {class_name(claim) or 'none'}"
    return "volumes of its class: " + ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))


def _mismatch(volume: Json, claim: Json, node: Json | None) -> str:
    """Return why a volume of the right class does not match a claim, as a phrase after a count."""
    if volume["spec"].get("claimRef") is not None and not is_bound_to(volume, claim):
        return "bound to other claims"
    if storage(volume["spec"].get("capacity")).compare(requested_size(claim)) < 0:
        return "too small"
    if not has_access_modes(volume, claim) or volume_mode(volume) != volume_mode(claim):
        return "with other access modes or volume mode"
    if node is not None and not _reaches(volume, node):
        return "not reachable from the node"
    phase = (volume.get("status") or {}).get("phase", "Pending")
    if phase == "Available" and claim["spec"].get("selector"):
        return "not matching its selector"
    return f"in phase {phase}"


def _reaches(volume: Json, node: Json) -> bool:
    try:
        return reaches(volume, node)
    except InvalidNodeSelector:
        return False


def volume_details(world: World, trial: Trial, node: NodeInfo, rejection: Rejection) -> list[str]:
    """Describe the rejection of a node by a volume plugin."""
    found = {BINDING: _binding, LIMITS: _limits, RESTRICTIONS: _restrictions, ZONE: _zones}.get(rejection.plugin)
    return list(found(world, trial, node)) if found is not None else []


def _binding(world: World, trial: Trial, node: NodeInfo) -> Iterator[str]:
    state = trial.cycle.active(BINDING)
    raw = node.node or {}
    if not isinstance(state, VolumeState):
        return
    for claim in state.bound:
        name = claim["spec"]["volumeName"]
        volume = world.scheduler.volumes.volumes.get(name)
        subject = f"volume {name} of claim {claim['metadata']['name']}"
        if volume is None:
            yield f"{subject} does not exist"
        elif not _reaches(volume, raw):
            yield f"{subject} is reachable only from nodes with {affinity_text(volume)}"
    for claim in state.waiting:
        if why := _why_no_volume(world, claim, node):
            yield f"claim {claim['metadata']['name']} ({size_of(claim)} of class {class_name(claim)}): {why}"


def affinity_text(volume: Json) -> str:
    """Format the node affinity of a volume."""
    terms = ((volume["spec"].get("nodeAffinity") or {}).get("required") or {}).get("nodeSelectorTerms") or ()
    alternatives = [
        " and ".join(
            f"{e['key']} {e['operator']} [{', '.join(e.get('values') or ())}]"
            for e in term.get("matchExpressions") or ()
        )
        for term in terms
    ]
    return " or ".join(alternatives)


def _why_no_volume(world: World, claim: Json, node: NodeInfo) -> str:
    """Explain why a waiting claim gets no volume on a node; "" where one can be provisioned."""
    chosen = annotations_of(claim).get(SELECTED_NODE)
    if chosen not in (None, node.name):
        return f"its volume is being provisioned for node {chosen}"
    storage_class = world.scheduler.volumes.storage_class(class_name(claim)) or {}
    provisioner = storage_class.get("provisioner")
    if not provisioner or provisioner == NO_PROVISIONER:
        return f"{_count_mismatches(world, claim, node.node)}; the class has no provisioner"
    topologies = storage_class.get("allowedTopologies") or ()
    if not in_topologies(topologies, node.labels):
        keys = ", ".join(
            f"{e['key']} in [{', '.join(e['values'])}]"
            for t in topologies
            for e in t.get("matchLabelExpressions") or ()
        )
        return f"the class provisions volumes only for nodes with {keys}"
    capacities = [
        str(each.get("maximumVolumeSize") or each.get("capacity"))
        for each in world.scheduler.volumes.capacities()
        if each.get("storageClassName") == class_name(claim)
    ]
    return f"{provisioner} has too little storage capacity for the node (published: {', '.join(capacities) or 'none'})"


def _limits(world: World, trial: Trial, node: NodeInfo) -> Iterator[str]:
    for driver, (used, more, limit) in attach_counts(world.scheduler.volumes, trial.pod, node).items():
        if limit is not None and used + more > limit:
            limited = f"driver {driver} attaches at most {plural(limit, 'volume')} on the node"
            yield f"{limited}: {used} in use, {more} more needed"


def users_of_exclusive_claims(world: World, trial: Trial) -> list[str]:
    """List the pods that use the pod's ReadWriteOncePod claims."""
    state = trial.cycle.active(RESTRICTIONS)
    names = state.claims if isinstance(state, ExclusiveVolumes) else frozenset[str]()
    return sorted(
        other.key
        for other in world.scheduler.cache.pods()
        if other.namespace == trial.pod.namespace and any(name in names for name, _ in other.volume_claims)
    )


def _restrictions(world: World, trial: Trial, _: NodeInfo) -> Iterator[str]:
    if users := users_of_exclusive_claims(world, trial):
        yield f"its ReadWriteOncePod claim is used by pod {', '.join(users)}"
    else:
        yield "a pod on the node uses the same disk"


def _zones(world: World, trial: Trial, node: NodeInfo) -> Iterator[str]:
    for name, _ in trial.pod.volume_claims:
        claim = world.scheduler.volumes.claims.get(f"{trial.pod.namespace}/{name}") or {"spec": {}}
        volume = world.scheduler.volumes.volumes.get(claim["spec"].get("volumeName") or "")
        for label, values in zones_of(volume) if volume is not None else ():
            if node.labels.get(label) not in values:
                has = f"is in {node.labels[label]}" if label in node.labels else f"has no label {label}"
                yield f"volume {claim['spec']['volumeName']} is in {label}={', '.join(sorted(values))}, the node {has}"
