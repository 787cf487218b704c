"""PodGroups and their claims (gate DRAWorkloadResourceClaims): a common claim is reserved for the group.

Without the gate every claim is reserved for its pod. Facts: Kubernetes 1.36, plugin dynamicresources.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from apiserver.api.helpers.pod_lifecycle import is_finished
from apiserver.api.objects import Json
from controllers.resourceclaims import (
    ClaimReferenceError,
    bind_to,
    claim_reference,
    group_claim_reference,
    is_reserved_for_pod,
    not_for_group,
    not_for_pod,
)
from controllers.resourceclaims.pods import group_key, group_name
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import POD_GROUPS, PODS

__all__ = ["NO_GROUPS", "PodGroups"]


class PodGroups:
    """The groups of one scheduler.

    `informers` is None without the gate. `is_assumed` returns whether a pod, by uid, is being bound.
    """

    def __init__(
        self,
        informers: Informers | None = None,
        is_assumed: Callable[[str], bool] = lambda _: False,
        for_workloads: bool = False,
    ) -> None:
        """Create it.

        Args:
            informers: The informers; None without the gate.
            is_assumed: Returns whether a pod, by uid, is being bound.
            for_workloads: Whether claims may be reserved for all pods of a workload (gate DRAReservedForWorkloads).
        """
        self.for_workloads = for_workloads
        self.enabled = informers is not None
        self._is_assumed = is_assumed
        if informers is not None:
            self.informer = informers.of(POD_GROUPS)
            self._members = informers.of(PODS).index("group", lambda pod: (key,) if (key := group_key(pod)) else ())

    def foreign_reason(self, pod: Json, claim: Json) -> str | None:
        """Return the reason why a generated claim is neither the pod's nor its group's."""
        return not_for_pod(pod, claim, self.enabled)

    def is_reserved(self, pod: Json, claim: Json) -> bool:
        """Return whether the claim is reserved for the pod, its group, or any pod that names it."""
        return is_reserved_for_pod(pod, claim, self.enabled, self.for_workloads)

    def is_reserved_for_group(self, pod: Json, claim: Json) -> bool:
        """Return whether the claim is reserved for the pod or its group by name."""
        return is_reserved_for_pod(pod, claim, self.enabled)

    def of(self, pod: Json) -> Json | None:
        """Return the group of a pod; None for a pod without one. Raise LookupError if it is missing."""
        if not self.enabled or not (key := group_key(pod)):
            return None
        group = self.informer.get(key)
        if group is None:
            raise LookupError(f'podgroup.scheduling.k8s.io "{group_name(pod)}" not found')
        return group

    def consumers(self, pod: Json) -> list[Json]:
        """Return the consumer for each claim of the pod, in order. Raise LookupError or ClaimReferenceError."""
        group = self.of(pod)
        return [
            bind_to(pod, group, entry)
            for entry in pod["spec"].get("resourceClaims") or ()
            if claim_reference(pod, entry).name is not None
        ]

    def is_placed(self, group: Json) -> bool:
        """Return whether a member has a node or is being bound."""
        members = self._members.get(f"{group['metadata']['namespace']}/{group['metadata']['name']}")
        return any(
            pod["spec"].get("nodeName") or self._is_assumed(pod["metadata"]["uid"])
            for pod in members
            if not is_finished(pod)
        )

    def claims_of(self, group: Json, claim_of: Callable[[str], Json | None]) -> Iterator[Json]:
        """Yield the existing claims of a group, by `claim_of`, without generated claims of other groups."""
        for entry in group["spec"].get("resourceClaims") or ():
            try:
                reference = group_claim_reference(group, entry)
            except ClaimReferenceError:
                continue
            claim = claim_of(f"{group['metadata']['namespace']}/{reference.name}") if reference.name else None
            if claim is not None and not (reference.check_owner and not_for_group(group, claim)):
                yield claim


#: Pods without groups.
NO_GROUPS = PodGroups()
