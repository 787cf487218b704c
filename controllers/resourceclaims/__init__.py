"""Rules on resource claims shared by all clients: claims of a pod, consumers of a claim, device taints.

Pure functions over plain dicts as the API serves them. `pods` resolves the claims of pods, `results` finds the
configuration of an allocated device, and `taints` applies DeviceTaintRules to slices.

Source of facts: Kubernetes 1.36, package dynamic-resource-allocation/resourceclaim.
"""

from controllers.resourceclaims.pods import (
    ClaimNotCreated,
    ClaimReference,
    ClaimReferenceError,
    bind_to,
    claim_names,
    claim_reference,
    group_claim_reference,
    is_reserved_for_pod,
    not_for_group,
    not_for_pod,
    pod_statuses_equal,
)
from controllers.resourceclaims.results import base_request, config_for_result
from controllers.resourceclaims.taints import SliceChange, SliceTracker, rule_matches

__all__ = [
    "ClaimNotCreated",
    "ClaimReference",
    "ClaimReferenceError",
    "SliceChange",
    "SliceTracker",
    "base_request",
    "bind_to",
    "claim_names",
    "claim_reference",
    "config_for_result",
    "group_claim_reference",
    "is_reserved_for_pod",
    "not_for_group",
    "not_for_pod",
    "pod_statuses_equal",
    "rule_matches",
]
