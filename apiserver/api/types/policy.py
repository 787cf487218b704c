"""PodDisruptionBudget of policy/v1, and Eviction, the body of pods/eviction."""

from __future__ import annotations

from apiserver.api.schema import INT32, INT64, INT_OR_STRING, TIME, ListOf, MapOf, Struct, field, string
from apiserver.api.types.meta import TYPE_META, Condition, DeleteOptions, LabelSelector, ObjectMeta, list_of

UnhealthyPodEvictionPolicyType = string("v1.UnhealthyPodEvictionPolicyType", "AlwaysAllow", "IfHealthyBudget")

PodDisruptionBudgetSpec = Struct("io.k8s.api.policy.v1.PodDisruptionBudgetSpec", lambda: (
    field("minAvailable", 1, INT_OR_STRING, pointer=True),
    field("selector", 2, LabelSelector, pointer=True, strategy="replace"),
    field("maxUnavailable", 3, INT_OR_STRING, pointer=True),
    field("unhealthyPodEvictionPolicy", 4, UnhealthyPodEvictionPolicyType, pointer=True),
))
PodDisruptionBudgetStatus = Struct("io.k8s.api.policy.v1.PodDisruptionBudgetStatus", lambda: (
    field("observedGeneration", 1, INT64),
    field("disruptedPods", 2, MapOf(TIME)),
    field("disruptionsAllowed", 3, INT32, omit=False),
    field("currentHealthy", 4, INT32, omit=False),
    field("desiredHealthy", 5, INT32, omit=False),
    field("expectedPods", 6, INT32, omit=False),
    field("conditions", 7, ListOf(Condition, "map", ("type",), merge_key="type")),
))
PodDisruptionBudget = Struct("io.k8s.api.policy.v1.PodDisruptionBudget", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False),
    field("spec", 2, PodDisruptionBudgetSpec, omit=False),
    field("status", 3, PodDisruptionBudgetStatus, omit=False),
), gvk=("policy", "v1", "PodDisruptionBudget"))
Eviction = Struct("io.k8s.api.policy.v1.Eviction", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False),
    field("deleteOptions", 2, DeleteOptions, pointer=True),
), gvk=("policy", "v1", "Eviction"))

PodDisruptionBudgetList = list_of(PodDisruptionBudget)
