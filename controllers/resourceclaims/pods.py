"""Claims of pods: names, ownership, reservations.

Source of facts: Kubernetes 1.36, package dynamic-resource-allocation/resourceclaim.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

Object = Mapping[str, Any]

#: Annotation of a generated claim: the name of the pod's entry.
POD_CLAIM_NAME: Final = "resource.kubernetes.io/pod-claim-name"
#: Finalizer of allocated claims, against deletion while their devices are in use.
FINALIZER: Final = "resource.kubernetes.io/delete-protection"

_SCHEDULING_GROUP: Final = "scheduling.k8s.io"
_UNSUPPORTED: Final = "none of the supported fields are set"
_NOT_CREATED: Final = "ResourceClaim not created yet"


class ClaimReferenceError(ValueError):
    """A pod's reference to a claim cannot be resolved; the text names the pod and the reason."""


class ClaimNotCreated(ClaimReferenceError):
    """The claim is not generated from its template yet."""


@dataclass(frozen=True, slots=True)
class ClaimReference:
    """The claim referenced by an entry of `spec.resourceClaims`."""

    name: str | None
    """None if deliberately no claim was generated; ignore the entry."""
    check_owner: bool
    """True for generated claims: verify the owner with `not_for_pod`."""


def _identity(item: Object) -> tuple[str, str]:
    metadata = item.get("metadata") or {}
    return metadata.get("namespace") or "", metadata.get("name") or ""


def _qualified(item: Object) -> str:
    return "/".join(_identity(item))


def claim_reference(pod: Object, entry: Object) -> ClaimReference:
    """Resolve one entry of the pod's `spec.resourceClaims`. Raise ClaimReferenceError."""
    return _reference(pod, entry, f'pod "{_qualified(pod)}"', f'"{entry.get("name", "")}"')


def group_claim_reference(group: Object, entry: Object) -> ClaimReference:
    """Resolve one entry of a PodGroup's `spec.resourceClaims`. Raise ClaimReferenceError."""
    return _reference(group, entry, f"PodGroup {_qualified(group)}", str(entry.get("name", "")))


def _reference(owner: Object, entry: Object, label: str, entry_label: str) -> ClaimReference:
    if entry.get("resourceClaimName") is not None:
        return ClaimReference(entry["resourceClaimName"], False)
    if entry.get("resourceClaimTemplateName") is None:
        raise ClaimReferenceError(f"{label}, spec.resourceClaim {entry_label}: {_UNSUPPORTED}")
    for status in (owner.get("status") or {}).get("resourceClaimStatuses") or ():
        if status.get("name") == entry.get("name"):
            return ClaimReference(status.get("resourceClaimName"), True)
    raise ClaimNotCreated(f"{label}: {_NOT_CREATED}")


def claim_names(pod: Object) -> Iterator[str]:
    """Yield the names of all resolvable claims of a pod, including the one for extended resources."""
    for entry in (pod.get("spec") or {}).get("resourceClaims") or ():
        try:
            name = claim_reference(pod, entry).name
        except ClaimReferenceError:
            continue
        if name:
            yield name
    extended = (pod.get("status") or {}).get("extendedResourceClaimStatus")
    if extended:
        yield extended["resourceClaimName"]


def is_done(pod: Object) -> bool:
    """Return whether a pod no longer needs its claims: finished, or deleted before it was bound."""
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return True
    return bool(pod["metadata"].get("deletionTimestamp")) and not pod["spec"].get("nodeName")


def controller_of(item: Object) -> Object | None:
    """Return the controlling owner reference of an object."""
    # Called for each pod of an owner whenever one of them changes: a plain loop is fastest.
    for owner in (item.get("metadata") or {}).get("ownerReferences") or ():
        if owner.get("controller"):
            found: Object = owner
            return found
    return None


def _is_controlled_by(item: Object, owner: Object) -> bool:
    controller = controller_of(item)
    uid = (owner.get("metadata") or {}).get("uid") or ""
    return controller is not None and controller.get("uid", "") == uid


def group_name(pod: Object) -> str | None:
    """Return the name of the pod's PodGroup."""
    group = (pod.get("spec") or {}).get("schedulingGroup") or {}
    name: str | None = group.get("podGroupName")
    return name


def group_key(pod: Object) -> str:
    """Return the key (`namespace/name`) of the pod's PodGroup; "" without one."""
    name = group_name(pod)
    return "" if name is None else f"{_identity(pod)[0]}/{name}"


def not_for_pod(pod: Object, claim: Object, workload_claims: bool = False) -> str | None:
    """Return why a claim was not generated for this pod (or, with workload claims, its group); None if it was."""
    pod_name, claim_name = _qualified(pod), _qualified(claim)
    if _identity(claim)[0] != _identity(pod)[0]:
        return f"ResourceClaim {claim_name} is not in the same namespace as Pod {pod_name}"
    if _is_controlled_by(claim, pod):
        return None
    group = group_name(pod) if workload_claims else None
    if group is None:
        return f"ResourceClaim {claim_name} was not created for Pod {pod_name} (Pod is not owner)"
    controller = controller_of(claim) or {}
    if (
        controller.get("kind") == "PodGroup"
        and controller.get("name") == group
        and str(controller.get("apiVersion", "")).startswith(f"{_SCHEDULING_GROUP}/")
    ):
        return None
    neither = f"neither Pod nor PodGroup {group} is the owner"
    return f"ResourceClaim {claim_name} was not created for Pod {pod_name} ({neither})"


def not_for_group(group: Object, claim: Object) -> str | None:
    """Return why a claim was not generated for this PodGroup; None if it was."""
    group_label, claim_name = _qualified(group), _qualified(claim)
    if _identity(claim)[0] != _identity(group)[0]:
        return f"ResourceClaim {claim_name} is not in the same namespace as PodGroup {group_label}"
    if _is_controlled_by(claim, group):
        return None
    return f"ResourceClaim {claim_name} was not created for PodGroup {group_label} (PodGroup is not owner)"


def is_reserved_for_pod(pod: Object, claim: Object, workload_claims: bool = False, for_workloads: bool = False) -> bool:
    """Return whether the allocated claim is reserved for the pod, or with workload claims for its group.

    With `for_workloads` (gate DRAReservedForWorkloads) a claim may be reserved for all pods that reference it.
    """
    if for_workloads and is_for_any_pod(claim):
        return True
    uid = (pod.get("metadata") or {}).get("uid") or ""
    group = group_name(pod) if workload_claims else None
    for consumer in (claim.get("status") or {}).get("reservedFor") or ():
        if consumer.get("uid", "") == uid:
            return True
        is_group = consumer.get("apiGroup") == _SCHEDULING_GROUP and consumer.get("resource") == "podgroups"
        if is_group and group is not None and consumer.get("name") == group:
            return True
    return False


def is_for_any_pod(claim: Object) -> bool:
    """Return whether every pod that references the claim may use it."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    return bool(allocation.get("reservedForAnyPod"))


def with_consumer(
    claim: Object, consumer: Object, for_workloads: bool = False, allocation: Object | None = None
) -> dict[str, Any]:
    """Return the status of a claim with one more consumer (a pod or its group), and with `allocation` if it is new.

    With `for_workloads`, a new allocation of a workload's claim is reserved for the workload and opened for all pods.
    A stored allocation is immutable: one that is not open lists every consumer, also beside a workload.
    """
    status = dict(claim.get("status") or {})
    users = list(status.get("reservedFor") or ())
    workload = (claim.get("spec") or {}).get("reservedFor") if for_workloads else None
    if allocation is not None:
        opens = workload is not None and not users
        status["allocation"] = {**allocation, "reservedForAnyPod": True} if opens else allocation
        users = [workload] if opens else users
    if consumer not in users and not (for_workloads and is_for_any_pod({"status": status})):
        users.append(consumer)
    if users:
        status["reservedFor"] = users
    return status


def is_workload(user: Object) -> bool:
    """Return whether a consumer represents unlisted pods. A PodGroup represents only its members."""
    kind = (user.get("apiGroup") or "", user.get("resource"))
    return kind not in (("", "pods"), (_SCHEDULING_GROUP, "podgroups"))


def pod_consumer(pod: Object) -> dict[str, str]:
    """Return the entry of a pod in `reservedFor`."""
    return _consumer("", "pods", pod)


def bind_to(pod: Object, group: Object | None, entry: Object) -> dict[str, str]:
    """Return the consumer for `reservedFor`: the pod, or its group if the group has the same entry."""
    if entry.get("resourceClaimName") is None and entry.get("resourceClaimTemplateName") is None:
        raise ClaimReferenceError(f"Pod {_qualified(pod)} claim {entry.get('name', '')}: {_UNSUPPORTED}")
    if group is not None:
        _check_membership(pod, group)
        for item in (group.get("spec") or {}).get("resourceClaims") or ():
            if item.get("resourceClaimName") is None and item.get("resourceClaimTemplateName") is None:
                label = f"PodGroup {_qualified(group)} claim {item.get('name', '')}"
                raise ClaimReferenceError(f"{label}: {_UNSUPPORTED}")
            fields = ("name", "resourceClaimName", "resourceClaimTemplateName")
            if all(item.get(field) == entry.get(field) for field in fields):
                return _consumer(_SCHEDULING_GROUP, "podgroups", group)
    return pod_consumer(pod)


def _check_membership(pod: Object, group: Object) -> None:
    name = group_name(pod)
    if name is None:
        raise ClaimReferenceError(f"Pod {_qualified(pod)} does not belong to a PodGroup")
    namespace = _identity(pod)[0]
    if (namespace, name) != _identity(group):
        other = f"PodGroup {namespace}/{name}, not PodGroup {_qualified(group)}"
        raise ClaimReferenceError(f"Pod {_qualified(pod)} belongs to {other}")


def _consumer(api_group: str, resource: str, item: Object) -> dict[str, str]:
    metadata = item["metadata"]
    reference = {"resource": resource, "name": metadata["name"], "uid": metadata.get("uid", "")}
    return {"apiGroup": api_group, **reference} if api_group else reference


def pod_statuses_equal(left: Sequence[Object] | None, right: Sequence[Object] | None) -> bool:
    """Return whether two lists of `status.resourceClaimStatuses` are equal."""
    fields = ("name", "resourceClaimName")
    return [[item.get(field) for field in fields] for item in left or ()] == [
        [item.get(field) for field in fields] for item in right or ()
    ]
