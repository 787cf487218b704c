"""PodDisruptionBudget of policy/v1, and Eviction, the body of pods/eviction."""

from __future__ import annotations

from apiserver.api.schema.language import INT32, INT64, INT_OR_STRING, TIME, ListOf, MapOf, Struct, field, string
from apiserver.api.schema.limits import Limits
from apiserver.api.types.meta import TYPE_META, Condition, DeleteOptions, LabelSelector, ObjectMeta, list_of

UnhealthyPodEvictionPolicyType = string("v1.UnhealthyPodEvictionPolicyType", "AlwaysAllow", "IfHealthyBudget")

PodDisruptionBudgetSpec = Struct("io.k8s.api.policy.v1.PodDisruptionBudgetSpec", lambda: (
    field("minAvailable", 1, INT_OR_STRING, pointer=True, limits=Limits(least=0, format="percent"),
        doc="How many pods must stay healthy, as a number or a percentage of the expected ones; not together with "
            "maxUnavailable."),
    field("selector", 2, LabelSelector, pointer=True, strategy="replace",
        doc="Labels of the pods that the budget protects; no pods when not set, all of the namespace when empty."),
    field("maxUnavailable", 3, INT_OR_STRING, pointer=True, limits=Limits(least=0, format="percent"),
        doc="How many pods may be unhealthy, as a number or a percentage of the expected ones; not together with "
            "minAvailable."),
    field("unhealthyPodEvictionPolicy", 4, UnhealthyPodEvictionPolicyType, pointer=True,
        doc="When pods that are not ready may be evicted: IfHealthyBudget (the default) if enough others are healthy, "
            "or AlwaysAllow."),
), doc="PodDisruptionBudgetSpec limits the number of pods that evictions may remove.")
PodDisruptionBudgetStatus = Struct("io.k8s.api.policy.v1.PodDisruptionBudgetStatus", lambda: (
    field("observedGeneration", 1, INT64,
        doc="metadata.generation that this status reflects; it is outdated if smaller than the object's."),
    field("disruptedPods", 2, MapOf(TIME),
        doc="Pods whose eviction was allowed and that are not gone yet, with the time; each stops counting after two "
            "minutes."),
    field("disruptionsAllowed", 3, INT32, omit=False, limits=Limits(least=0),
        doc="Number of pods that may be evicted now."),
    field("currentHealthy", 4, INT32, omit=False, limits=Limits(least=0),
        doc="Number of healthy pods."),
    field("desiredHealthy", 5, INT32, omit=False, limits=Limits(least=0),
        doc="Number of pods that must be healthy."),
    field("expectedPods", 6, INT32, omit=False, limits=Limits(least=0),
        doc="Expected number of pods, by the scale of their controllers."),
    field("conditions", 7, ListOf(Condition, "map", ("type",), merge_key="type"),
        doc="Latest conditions, at most one of each type."),
), doc="PodDisruptionBudgetStatus has the number of evictions that are allowed now.")
PodDisruptionBudget = Struct("io.k8s.api.policy.v1.PodDisruptionBudget", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
    field("spec", 2, PodDisruptionBudgetSpec, omit=False, doc="The limit."),
    field("status", 3, PodDisruptionBudgetStatus, omit=False, doc="Number of evictions that are allowed now."),
), gvk=("policy", "v1", "PodDisruptionBudget"),
    doc="PodDisruptionBudget limits how many pods of an application are evicted together.")
Eviction = Struct("io.k8s.api.policy.v1.Eviction", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Name and namespace of the pod."),
    field("deleteOptions", 2, DeleteOptions, pointer=True, doc="Options of the deletion."),
), gvk=("policy", "v1", "Eviction"),
    doc="Eviction deletes a pod if no budget forbids it; it is the body of the subresource eviction.")

PodDisruptionBudgetList = list_of(PodDisruptionBudget)
