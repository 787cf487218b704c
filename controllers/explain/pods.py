"""Explain why a pod waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator
from typing import Final

from apiserver.api.objects import Json
from apiserver.api.values.times import timestamp
from apiserver.cel.environments.missing_attributes import find_missing
from controllers.allocator.explain import Explanation, RequestExplanation
from controllers.explain.changes import Changes, signature
from controllers.explain.details import details
from controllers.explain.findings import ClaimState, NodeGroup, PodFindings, PreemptionState, QueueState, plural
from controllers.explain.starting import starting_lines
from controllers.explain.storage import claim_states
from controllers.explain.taintrules import rule_lines
from controllers.explain.world import Trial, World
from controllers.resourceclaims import ClaimReferenceError, claim_reference
from controllers.runtime.kinds import RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from controllers.scheduler.dra.claim_state import results_of
from controllers.scheduler.dra.dynamic_resources import NAME as DYNAMIC_RESOURCES
from controllers.scheduler.framework.events import ClusterEvent
from controllers.scheduler.framework.framework import hints_of
from controllers.scheduler.preemption.default import NOT_HELPFUL
from controllers.scheduler.queue.queued_pod import QueuedPod, SubQueue

__all__ = ["explain_pod", "node_groups", "queue_state"]

#: Descriptions of the events that requeue a pod.
REQUEUE_EVENTS: Final = {
    ClusterEvent.NODE_ADD: "a node is added",
    ClusterEvent.NODE_ALLOCATABLE: "the allocatable resources of a node change",
    ClusterEvent.NODE_LABEL: "the labels of a node change",
    ClusterEvent.NODE_TAINT: "the taints of a node change",
    ClusterEvent.NODE_CONDITION: "the conditions of a node change",
    ClusterEvent.NODE_ANNOTATION: "the annotations of a node change",
    ClusterEvent.NODE_OTHER: "another field of a node changes",
    ClusterEvent.NODE_DELETE: "a node is deleted",
    ClusterEvent.POD_ADD: "another pod is bound",
    ClusterEvent.POD_LABEL: "the labels of a pod change",
    ClusterEvent.POD_SCALE_DOWN: "a pod lowers its requests",
    ClusterEvent.POD_GATES_ELIMINATED: "its scheduling gates are removed",
    ClusterEvent.POD_TOLERATION: "it gets a toleration",
    ClusterEvent.POD_GENERATED_CLAIM: "its claims are generated from their templates",
    ClusterEvent.POD_OTHER: "another field of a pod changes",
    ClusterEvent.POD_DELETE: "a pod ends or is deleted",
    ClusterEvent.CLAIM_ADD: "its claim is created",
    ClusterEvent.CLAIM_UPDATE: "its claim changes or any claim is deallocated",
    ClusterEvent.CLASS_ADD: "a device class is added",
    ClusterEvent.CLASS_UPDATE: "a device class changes",
    ClusterEvent.SLICE_ADD: "devices are added",
    ClusterEvent.SLICE_UPDATE: "devices change",
    ClusterEvent.POD_GROUP_ADD: "its pod group is created",
    ClusterEvent.GROUP_MEMBER_ADD: "another pod joins its group",
    ClusterEvent.VOLUME_CLAIM_ADD: "its volume claim is created",
    ClusterEvent.VOLUME_CLAIM_UPDATE: "its volume claim changes",
    ClusterEvent.VOLUME_ADD: "a volume is added",
    ClusterEvent.VOLUME_UPDATE: "a volume changes",
    ClusterEvent.STORAGE_CLASS_ADD: "a storage class is added",
    ClusterEvent.STORAGE_CLASS_UPDATE: "a storage class changes",
    ClusterEvent.CSI_NODE_ADD: "volume drivers are registered on a node",
    ClusterEvent.CSI_NODE_UPDATE: "the volume drivers of a node change",
    ClusterEvent.CSI_DRIVER_UPDATE: "a volume driver changes",
    ClusterEvent.STORAGE_CAPACITY_ADD: "storage capacity is published",
    ClusterEvent.STORAGE_CAPACITY_UPDATE: "storage capacity changes",
    ClusterEvent.VOLUME_ATTACHMENT_DELETE: "a volume is detached",
}
_SUB_QUEUES: Final = {
    SubQueue.ACTIVE: "ready for its next attempt",
    SubQueue.BACKOFF: "backing off",
    SubQueue.ERROR_BACKOFF: "backing off after an error",
    SubQueue.UNSCHEDULABLE: "unschedulable, waiting for an event",
    SubQueue.GATED: "gated",
    SubQueue.IN_FLIGHT: "being scheduled",
}


def queue_state(queued: QueuedPod | None) -> QueueState | None:
    """Convert the queue entry of a running scheduler."""
    if queued is None:
        return None
    return QueueState(
        _SUB_QUEUES[queued.sub_queue], queued.attempts, timestamp(queued.timestamp), sorted(queued.plugins)
    )


def explain_pod(world: World, pod: Json, queue: QueueState | None = None) -> PodFindings:
    """Explain one pod. Pass `queue` where the scheduler runs in this process."""
    metadata, spec = pod["metadata"], pod["spec"]
    found = PodFindings(metadata["namespace"], metadata["name"], "", "", queue, claims=list(_claims(world, pod)))
    found.volumes = list(claim_states(world, pod))
    found.unread = dict(world.unread)
    phase = (pod.get("status") or {}).get("phase", "Pending")
    if spec.get("nodeName"):
        found.verdict, found.text = "scheduled", f"on node {spec['nodeName']}, {phase}"
        found.starting = starting_lines(world, pod) if phase in ("Pending", "Running") else []
        return found
    if phase in ("Succeeded", "Failed"):
        found.verdict, found.text = "ended", phase
        return found
    if not world.is_ours(pod):
        found.verdict, found.text = "elsewhere", f"waits for scheduler {spec['schedulerName']}"
        return found
    found.nominated = (pod.get("status") or {}).get("nominatedNodeName") or ""
    trial = world.try_pod(pod)
    found.verdict = "fits" if trial.fitting else "gated" if trial.gated_by else "unschedulable"
    found.text = f"best on {trial.fitting[0].name}" if trial.fitting else trial.text
    explained = world.explanations(trial)
    found.nodes = _groups(world, trial, explained)
    found.rules = rule_lines(world, explained)
    if not trial.fitting:
        found.wakes = list(_requeue_events(world, trial))
        found.absent = list(_unknown_attributes(world, trial))
        if not trial.gated_by:
            found.preemption = _preemption(world, trial)
            changes = Changes(world, trial, explained)
            found.changes = changes.find()
            found.tried = changes.tried
    return found


def _claims(world: World, pod: Json) -> Iterator[ClaimState]:
    for entry in pod["spec"].get("resourceClaims") or ():
        try:
            name = claim_reference(pod, entry).name
        except ClaimReferenceError as error:
            yield ClaimState(entry["name"], f"missing: {_why_missing(world, pod, entry) or error}")
            continue
        if name is not None:
            claim = world.of(RESOURCE_CLAIMS).get(f"{pod['metadata']['namespace']}/{name}")
            yield ClaimState(name, "missing") if claim is None else claim_state(claim, world.gone)


def _why_missing(world: World, pod: Json, entry: Json) -> str:
    """Return why no claim was generated from the template of an entry; "" if unknown."""
    namespace, template = pod["metadata"]["namespace"], entry.get("resourceClaimTemplateName")
    templates = world.of(RESOURCE_CLAIM_TEMPLATES)
    if template is None or str(templates.kind) in world.unread:
        return ""
    if templates.get(f"{namespace}/{template}") is None:
        return f'ResourceClaimTemplate "{template}" does not exist in namespace "{namespace}"; create it'
    failed = [
        event.get("message", "")
        for event in world.warnings.get(pod["metadata"]["uid"], ())
        if event["reason"] == "FailedResourceClaimCreation"
    ]
    return f"not generated from ResourceClaimTemplate {template} yet{': ' + failed[-1] if failed else ''}"


def claim_state(claim: Json, gone: Container[str] = ()) -> ClaimState:
    """Return the devices and users of a claim. `gone` are the uids of users that do not exist."""
    status = claim.get("status") or {}
    allocation = status.get("allocation")
    devices = [f"{r['driver']}/{r['pool']}/{r['device']}" for r in results_of(allocation)] if allocation else []
    users = status.get("reservedFor") or ()
    names = [f"{user['resource']}/{user['name']}{' (does not exist)' * (user['uid'] in gone)}" for user in users]
    return ClaimState(claim["metadata"]["name"], "allocated" if allocation else "pending", devices, names)


def _preemption(world: World, trial: Trial) -> PreemptionState:
    plan = world.preemption(trial)
    if plan.chosen is None:
        reasons = Counter(reason for rejection in plan.rejections.values() for reason in rejection.reasons)
        candidates = [node for node in world.nodes if node.name not in plan.rejections] if plan.eligible else []
        if candidates:
            reasons[NOT_HELPFUL.reasons[0]] += len(candidates)
        return PreemptionState(plan.text, nodes=dict(reasons))
    chosen = plan.chosen
    return PreemptionState("", chosen.node, [victim.key for victim in chosen.victims], chosen.violations)


def node_groups(world: World, trial: Trial) -> list[NodeGroup]:
    """Group the nodes by their verdict on a pod."""
    return _groups(world, trial, world.explanations(trial))


def _groups(world: World, trial: Trial, explained: dict[str, Explanation]) -> list[NodeGroup]:
    """Group the nodes by verdict: fitting nodes first, then the largest groups."""
    groups: dict[object, NodeGroup] = {}
    refused = trial.diagnosis.rejections
    fitting = [node.name for node in trial.fitting]
    # An error ends the attempt before all nodes are evaluated.
    unevaluated = [node for node in explained if node not in refused and node not in fitting]
    for node in (*fitting, *refused, *unevaluated):
        rejection, explanation = refused.get(node), explained.get(node)
        plugin, reasons = (rejection.plugin, list(rejection.reasons)) if rejection is not None else ("", [])
        if node in unevaluated and explanation is not None:
            plugin, reasons = DYNAMIC_RESOURCES, [explanation.error or f"not evaluated ({explanation.outcome})"]
        key = (plugin, tuple(reasons), signature(explanation))
        group = groups.get(key)
        if group is None:
            group = groups[key] = NodeGroup([], plugin, reasons)
            if rejection is not None:
                group.details = details(world, trial, world.scheduler.cache.nodes[node], rejection)
            if explanation is not None:
                group.requests, group.nearest_miss = explanation.requests, explanation.nearest_miss
                group.unusable_pools = explanation.unusable_pools
        group.nodes.append(node)
        for reason in (reason for request in group_requests(explanation) for reason in request.reasons):
            for claim, count in reason.claims.items():
                group.held[claim] = max(group.held.get(claim, 0), count)
    return sorted(groups.values(), key=lambda group: (bool(group.plugin), -len(group.nodes)))


def group_requests(explanation: Explanation | None) -> list[RequestExplanation]:
    return explanation.requests if explanation is not None else []


def _requeue_events(world: World, trial: Trial) -> Iterator[str]:
    enabled = world.options.features.enabled("SchedulerQueueingHints")
    hints = {plugin.name: hints_of(plugin, enabled) for plugin in world.scheduler.plugins}
    events: Iterable[ClusterEvent] = (
        event for event in ClusterEvent if any(event in hints.get(name, {}) for name in trial.plugins)
    )
    return (REQUEUE_EVENTS[event] for event in events)


def _unknown_attributes(world: World, trial: Trial) -> Iterator[str]:
    """Describe attributes that the selectors use although no device has them."""
    if trial.allocator is None:
        return
    allocator = world.scheduler.allocator
    devices = {
        device.id: device for node in world.nodes for device in allocator.inventory.view(node.node or {}).devices
    }
    expressions = {
        expression
        for request in trial.allocator.plan.requests
        for alternative in request.alternatives
        for expression in alternative.chain.expressions
    }
    for expression in sorted(expressions):
        for absent in find_missing(expression, ((device.driver, device) for device in devices.values())):
            near = f"; did you mean {absent.nearest} ({plural(absent.having, 'device')})?" if absent.nearest else ""
            yield f"no device has {absent} ({expression}){near}"
