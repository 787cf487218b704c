"""Where pods may run, core/v1: node selectors, affinity, taints, tolerations, topology spread."""

from __future__ import annotations

from apiserver.api.schema import INT32, INT64, STRING, TIME, ListOf, Struct, field, string
from apiserver.api.types.meta import LabelSelector

NodeSelectorOperator = string("v1.NodeSelectorOperator", "DoesNotExist", "Exists", "Gt", "In", "Lt", "NotIn")
TaintEffect = string("v1.TaintEffect", "NoExecute", "NoSchedule", "PreferNoSchedule")
TolerationOperator = string("v1.TolerationOperator", "Equal", "Exists", "Gt", "Lt")
UnsatisfiableConstraintAction = string("v1.UnsatisfiableConstraintAction", "DoNotSchedule", "ScheduleAnyway")
NodeInclusionPolicy = string("v1.NodeInclusionPolicy", "Honor", "Ignore")

NodeSelectorRequirement = Struct("io.k8s.api.core.v1.NodeSelectorRequirement", lambda: (
    field("key", 1, STRING, omit=False, required=True),
    field("operator", 2, NodeSelectorOperator, omit=False, required=True),
    field("values", 3, ListOf(STRING)),
))
NodeSelectorTerm = Struct("io.k8s.api.core.v1.NodeSelectorTerm", lambda: (
    field("matchExpressions", 1, ListOf(NodeSelectorRequirement)),
    field("matchFields", 2, ListOf(NodeSelectorRequirement)),
), atomic=True)
NodeSelector = Struct("io.k8s.api.core.v1.NodeSelector", lambda: (
    field("nodeSelectorTerms", 1, ListOf(NodeSelectorTerm), omit=False, required=True),
), atomic=True)
PreferredSchedulingTerm = Struct("io.k8s.api.core.v1.PreferredSchedulingTerm", lambda: (
    field("weight", 1, INT32, omit=False, required=True),
    field("preference", 2, NodeSelectorTerm, omit=False, required=True),
))
NodeAffinity = Struct("io.k8s.api.core.v1.NodeAffinity", lambda: (
    field("requiredDuringSchedulingIgnoredDuringExecution", 1, NodeSelector, pointer=True),
    field("preferredDuringSchedulingIgnoredDuringExecution", 2, ListOf(PreferredSchedulingTerm)),
))
PodAffinityTerm = Struct("io.k8s.api.core.v1.PodAffinityTerm", lambda: (
    field("labelSelector", 1, LabelSelector, pointer=True),
    field("namespaces", 2, ListOf(STRING)),
    field("topologyKey", 3, STRING, omit=False, required=True),
    field("namespaceSelector", 4, LabelSelector, pointer=True),
    field("matchLabelKeys", 5, ListOf(STRING)),
    field("mismatchLabelKeys", 6, ListOf(STRING)),
))
WeightedPodAffinityTerm = Struct("io.k8s.api.core.v1.WeightedPodAffinityTerm", lambda: (
    field("weight", 1, INT32, omit=False, required=True),
    field("podAffinityTerm", 2, PodAffinityTerm, omit=False, required=True),
))
PodAffinity = Struct("io.k8s.api.core.v1.PodAffinity", lambda: (
    field("requiredDuringSchedulingIgnoredDuringExecution", 1, ListOf(PodAffinityTerm)),
    field("preferredDuringSchedulingIgnoredDuringExecution", 2, ListOf(WeightedPodAffinityTerm)),
))
PodAntiAffinity = Struct("io.k8s.api.core.v1.PodAntiAffinity", lambda: (
    field("requiredDuringSchedulingIgnoredDuringExecution", 1, ListOf(PodAffinityTerm)),
    field("preferredDuringSchedulingIgnoredDuringExecution", 2, ListOf(WeightedPodAffinityTerm)),
))
Affinity = Struct("io.k8s.api.core.v1.Affinity", lambda: (
    field("nodeAffinity", 1, NodeAffinity, pointer=True),
    field("podAffinity", 2, PodAffinity, pointer=True),
    field("podAntiAffinity", 3, PodAntiAffinity, pointer=True),
))
Taint = Struct("io.k8s.api.core.v1.Taint", lambda: (
    field("key", 1, STRING, omit=False, required=True),
    field("value", 2, STRING),
    field("effect", 3, TaintEffect, omit=False, required=True),
    field("timeAdded", 4, TIME, pointer=True),
))
Toleration = Struct("io.k8s.api.core.v1.Toleration", lambda: (
    field("key", 1, STRING),
    field("operator", 2, TolerationOperator),
    field("value", 3, STRING),
    field("effect", 4, TaintEffect),
    field("tolerationSeconds", 5, INT64, pointer=True),
))
TopologySpreadConstraint = Struct("io.k8s.api.core.v1.TopologySpreadConstraint", lambda: (
    field("maxSkew", 1, INT32, omit=False, required=True),
    field("topologyKey", 2, STRING, omit=False, required=True),
    field("whenUnsatisfiable", 3, UnsatisfiableConstraintAction, omit=False, required=True),
    field("labelSelector", 4, LabelSelector, pointer=True),
    field("minDomains", 5, INT32, pointer=True),
    field("nodeAffinityPolicy", 6, NodeInclusionPolicy, pointer=True),
    field("nodeTaintsPolicy", 7, NodeInclusionPolicy, pointer=True),
    field("matchLabelKeys", 8, ListOf(STRING)),
))
