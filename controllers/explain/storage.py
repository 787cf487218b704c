"""The volumes of a pod: what its claims are bound to or wait for, and what each node makes of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from apiserver.api.selectors.node_selectors import InvalidNodeSelector
from controllers.explain.findings import VolumeClaimState
from controllers.explain.world import Trial, World
from controllers.runtime.kinds import VOLUMES, Json
from controllers.scheduler.framework.status import Rejection
from controllers.scheduler.state.nodes import NodeInfo
from controllers.scheduler.state.pod_info import PodInfo
from controllers.scheduler.storage.binding_plugin import NAME as BINDING
from controllers.scheduler.storage.binding_plugin import VolumeState
from controllers.scheduler.storage.limit_plugins import LIMITS, RESTRICTIONS, ZONE, Exclusive, attach_counts, zones_of
from controllers.volumes import (
    NO_PROVISIONER,
    SELECTED_NODE,
    annotations_of,
    class_name,
    has_access_modes,
    in_topologies,
    is_bound_to,
    is_fully_bound,
    mode,
    reaches,
    requested,
    storage,
    waits,
)

__all__ = ["claim_states", "size_of", "volume_details", "waits_for_consumer", "who_uses"]


def size_of(claim: Json) -> str:
    """`10Gi`."""
    return str(((claim["spec"].get("resources") or {}).get("requests") or {}).get("storage", "0"))


def claim_states(world: World, pod: Json) -> Iterator[VolumeClaimState]:
    """The claims of the pod's volumes."""
    trial_pod = PodInfo(pod)
    volumes = world.scheduler.volumes
    for name, made_for_pod in trial_pod.volume_claims:
        claim = volumes.claims.get(f"{trial_pod.namespace}/{name}")
        if claim is None:
            made = "it is made for the pod by the ephemeral volume controller" if made_for_pod else ""
            yield VolumeClaimState(name, "missing", why=made)
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
    """Whether the claim is bound where its first pod goes."""
    of_class = world.scheduler.volumes.storage_class(class_name(claim))
    return of_class is not None and bool(of_class.get("volumeBindingMode")) and waits(claim, of_class)


def _why_unbound(world: World, claim: Json, storage_class: Json | None) -> str:
    """Of a claim that is to be bound at once."""
    of_class = class_name(claim)
    if named := claim["spec"].get("volumeName"):
        volume = world.scheduler.volumes.volumes.get(named)
        return f"it names {named}, " + ("which is not there" if volume is None else "which is not bound to it yet")
    if of_class and storage_class is None:
        return f"there is no storage class {of_class}"
    provisioner = (storage_class or {}).get("provisioner", NO_PROVISIONER)
    found = _volumes_said(world, claim, None)
    if provisioner == NO_PROVISIONER:
        return f"a volume has to be made by hand; {found}"
    return f"{found}; the provisioner {provisioner} has not made one"


def _volumes_said(world: World, claim: Json, node: Json | None) -> str:
    """What is wrong with the volumes that there are, in numbers."""
    reasons = Counter(
        _unfit(volume, claim, node) for volume in world.objects(VOLUMES) if class_name(volume) == class_name(claim)
    )
    if not reasons:
        return f"there is no volume of class {class_name(claim) or 'none'}"
    return "of its class " + ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))


def _unfit(volume: Json, claim: Json, node: Json | None) -> str:
    """Why a volume of the right class is not taken for a claim, to be read behind a number."""
    if volume["spec"].get("claimRef") is not None and not is_bound_to(volume, claim):
        return "bound to others"
    if storage(volume["spec"].get("capacity")).compare(requested(claim)) < 0:
        return "too small"
    if not has_access_modes(volume, claim) or mode(volume) != mode(claim):
        return "without its access modes"
    if node is not None and not _reaches(volume, node):
        return "out of the node's reach"
    phase = (volume.get("status") or {}).get("phase", "Pending")
    return (
        "that its selector refuses" if phase == "Available" and claim["spec"].get("selector") else f"in phase {phase}"
    )


def _reaches(volume: Json, node: Json) -> bool:
    try:
        return reaches(volume, node)
    except InvalidNodeSelector:
        return False


def volume_details(world: World, trial: Trial, node: NodeInfo, rejection: Rejection) -> list[str]:
    """What is behind the rejection of a node by one of the plugins of volumes."""
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
        if volume is None:
            yield f"volume {name} of claim {claim['metadata']['name']} is gone"
        elif not _reaches(volume, raw):
            yield f"volume {name} of claim {claim['metadata']['name']} is only for nodes with {affinity_text(volume)}"
    for claim in state.waiting:
        if why := _not_here(world, claim, node):
            yield f"claim {claim['metadata']['name']} ({size_of(claim)} of class {class_name(claim)}): {why}"


def affinity_text(volume: Json) -> str:
    """The nodes that reach a volume."""
    terms = ((volume["spec"].get("nodeAffinity") or {}).get("required") or {}).get("nodeSelectorTerms") or ()
    said = [
        " and ".join(
            f"{e['key']} {e['operator']} [{', '.join(e.get('values') or ())}]"
            for e in term.get("matchExpressions") or ()
        )
        for term in terms
    ]
    return " or ".join(said)


def _not_here(world: World, claim: Json, node: NodeInfo) -> str:
    """Why a claim that waits gets no volume on a node; "" where one may be made."""
    chosen = annotations_of(claim).get(SELECTED_NODE)
    if chosen not in (None, node.name):
        return f"its volume is being made on node {chosen}"
    storage_class = world.scheduler.volumes.storage_class(class_name(claim)) or {}
    provisioner = storage_class.get("provisioner")
    if not provisioner or provisioner == NO_PROVISIONER:
        return f"{_volumes_said(world, claim, node.node)}, and none is made"
    topologies = storage_class.get("allowedTopologies") or ()
    if not in_topologies(topologies, node.labels):
        keys = ", ".join(
            f"{e['key']} in [{', '.join(e['values'])}]"
            for t in topologies
            for e in t.get("matchLabelExpressions") or ()
        )
        return f"the class makes volumes only for nodes with {keys}"
    rooms = [
        str(each.get("maximumVolumeSize") or each.get("capacity"))
        for each in world.scheduler.volumes.capacities()
        if each.get("storageClassName") == class_name(claim)
    ]
    return f"{provisioner} has no room that the node reaches (it says {', '.join(rooms) or 'nothing'})"


def _limits(world: World, trial: Trial, node: NodeInfo) -> Iterator[str]:
    for driver, (used, more, limit) in attach_counts(world.scheduler.volumes, trial.pod, node).items():
        if limit is not None and used + more > limit:
            yield f"driver {driver} attaches {limit} volumes there, {used} are in use, {more} would come"


def who_uses(world: World, trial: Trial) -> list[str]:
    """The pods that use the claims of the pod that are for one pod alone."""
    state = trial.cycle.active(RESTRICTIONS)
    names = state.claims if isinstance(state, Exclusive) else frozenset[str]()
    return sorted(
        other.key
        for other in world.scheduler.cache.pods()
        if other.namespace == trial.pod.namespace and any(name in names for name, _ in other.volume_claims)
    )


def _restrictions(world: World, trial: Trial, _: NodeInfo) -> Iterator[str]:
    if users := who_uses(world, trial):
        yield f"its claim for one pod alone is used by pod {', '.join(users)}"
    else:
        yield "a pod there uses the same disk"


def _zones(world: World, trial: Trial, node: NodeInfo) -> Iterator[str]:
    for name, _ in trial.pod.volume_claims:
        claim = world.scheduler.volumes.claims.get(f"{trial.pod.namespace}/{name}") or {"spec": {}}
        volume = world.scheduler.volumes.volumes.get(claim["spec"].get("volumeName") or "")
        for label, values in zones_of(volume) if volume is not None else ():
            if node.labels.get(label) not in values:
                has = f"is in {node.labels[label]}" if label in node.labels else f"has no label {label}"
                yield f"volume {claim['spec']['volumeName']} is in {label}={', '.join(sorted(values))}, the node {has}"
