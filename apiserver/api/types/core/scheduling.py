"""Pod placement of core/v1: node selectors, affinity, taints, tolerations, topology spread."""

from __future__ import annotations

from apiserver.api.schema.language import INT32, INT64, STRING, TIME, ListOf, Struct, field, string
from apiserver.api.schema.limits import Limits
from apiserver.api.schema.markers import If, Required, equals, knows, selector_values
from apiserver.api.types.meta import ANY_VALUE, EXISTS_HAS_NO_VALUES, IN_NEEDS_VALUES, LabelSelector

#: In the order in which errors list them.
TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_WEIGHTS = "must be in the range 1-100"

NodeSelectorOperator = string("v1.NodeSelectorOperator", "DoesNotExist", "Exists", "Gt", "In", "Lt", "NotIn")
TaintEffect = string("v1.TaintEffect", "NoExecute", "NoSchedule", "PreferNoSchedule")
TolerationOperator = string("v1.TolerationOperator", "Equal", "Exists", "Gt", "Lt")
UnsatisfiableConstraintAction = string("v1.UnsatisfiableConstraintAction", "DoNotSchedule", "ScheduleAnyway")
NodeInclusionPolicy = string("v1.NodeInclusionPolicy", "Honor", "Ignore")

NodeSelectorRequirement = Struct("io.k8s.api.core.v1.NodeSelectorRequirement", lambda: (
    field("key", 1, STRING, omit=False, required=True, limits=Limits(format="label-key"),
        doc="Key of the label, or in matchFields the name of the field."),
    field("operator", 2, NodeSelectorOperator, omit=False, required=True,
        doc="How the value is compared: In, NotIn, Exists, DoesNotExist, or Gt and Lt for whole numbers."),
    field("values", 3, ListOf(STRING), limits=Limits(format="label-value"),
        doc="Values to compare with: at least one for In and NotIn, none for Exists and DoesNotExist, exactly one for "
            "Gt and Lt."),
), doc="NodeSelectorRequirement is one condition on a label or field of a node.", rules=(
    selector_values(IN_NEEDS_VALUES, EXISTS_HAS_NO_VALUES, "Gt", "Lt"),
    Required("values", "must be specified single value when `operator` is 'Lt' or 'Gt'", anyway=True,
        when=(equals("operator", "Gt", "Lt"), lambda at: len(at.value.get("values") or ()) != 1)),
    "key",
    If(knows(lambda env: env != ANY_VALUE), ("values",)),
))
NodeSelectorTerm = Struct("io.k8s.api.core.v1.NodeSelectorTerm", lambda: (
    field("matchExpressions", 1, ListOf(NodeSelectorRequirement), doc="Conditions on the node's labels."),
    field("matchFields", 2, ListOf(NodeSelectorRequirement),
        doc="Conditions on the node's fields; metadata.name is the only such field."),
), atomic=True,
    doc="NodeSelectorTerm is a group of conditions that a node must meet together; a term without any matches no node.")
NodeSelector = Struct("io.k8s.api.core.v1.NodeSelector", lambda: (
    field("nodeSelectorTerms", 1, ListOf(NodeSelectorTerm), omit=False, required=True,
        doc="Alternatives, at least one; a node that matches any of them is selected."),
), atomic=True, doc="NodeSelector selects the nodes that match at least one of its terms.")
PreferredSchedulingTerm = Struct("io.k8s.api.core.v1.PreferredSchedulingTerm", lambda: (
    field("weight", 1, INT32, omit=False, required=True, limits=Limits(least=1, most=100, words=_WEIGHTS),
        doc="Points that a matching node gets, 1 to 100."),
    field("preference", 2, NodeSelectorTerm, omit=False, required=True,
        doc="The term that a node must match to get the points."),
), doc="PreferredSchedulingTerm gives points to nodes that match a term.")
NodeAffinity = Struct("io.k8s.api.core.v1.NodeAffinity", lambda: (
    field("requiredDuringSchedulingIgnoredDuringExecution", 1, NodeSelector, pointer=True,
        doc="Nodes that the pod may be placed on. A later change of a node's labels does not move the pod."),
    field("preferredDuringSchedulingIgnoredDuringExecution", 2, ListOf(PreferredSchedulingTerm),
        doc="Terms whose weights are added up for each possible node; nodes with more points are preferred."),
), doc="NodeAffinity draws a pod to nodes by their labels.")
PodAffinityTerm = Struct("io.k8s.api.core.v1.PodAffinityTerm", lambda: (
    field("labelSelector", 1, LabelSelector, pointer=True,
        doc="Selects pods by labels; no pod when not set, every pod when empty."),
    field("namespaces", 2, ListOf(STRING),
        doc="Namespaces to search for pods, besides those of namespaceSelector; the pod's own when neither is set."),
    field("topologyKey", 3, STRING, omit=False, required=True,
        limits=Limits(required="can not be empty", format="label-key"),
        doc="Node label whose value names a domain, such as kubernetes.io/hostname; pods on nodes with the same value "
            "count as together."),
    field("namespaceSelector", 4, LabelSelector, pointer=True,
        doc="Selects further namespaces by their labels; empty selects all of them, not set none."),
    field("matchLabelKeys", 5, ListOf(STRING), limits=Limits(format="label-key"),
        doc="Label keys whose values the new pod has; other pods must have the same values there. Only allowed with "
            "labelSelector."),
    field("mismatchLabelKeys", 6, ListOf(STRING), limits=Limits(format="label-key"),
        doc="Label keys whose values the new pod has; other pods must have other values there. Only allowed with "
            "labelSelector."),
), doc="PodAffinityTerm selects pods, and the topology domains in which they run.")
WeightedPodAffinityTerm = Struct("io.k8s.api.core.v1.WeightedPodAffinityTerm", lambda: (
    field("weight", 1, INT32, omit=False, required=True, limits=Limits(least=1, most=100, words=_WEIGHTS),
        doc="Points for each matching pod in the domain of the node, 1 to 100."),
    field("podAffinityTerm", 2, PodAffinityTerm, omit=False, required=True,
        doc="Which pods count, and what a domain is."),
), doc="WeightedPodAffinityTerm gives points to nodes for the pods that run near them.")
PodAffinity = Struct("io.k8s.api.core.v1.PodAffinity", lambda: (
    field("requiredDuringSchedulingIgnoredDuringExecution", 1, ListOf(PodAffinityTerm),
        doc="Terms that must all hold on the node that the pod is placed on. Later changes do not move the pod."),
    field("preferredDuringSchedulingIgnoredDuringExecution", 2, ListOf(WeightedPodAffinityTerm),
        doc="Terms whose weights are added up for each possible node; nodes with more points are preferred."),
), doc="PodAffinity draws a pod to where other pods run.")
PodAntiAffinity = Struct("io.k8s.api.core.v1.PodAntiAffinity", lambda: (
    field("requiredDuringSchedulingIgnoredDuringExecution", 1, ListOf(PodAffinityTerm),
        doc="Terms of which none may hold on the node that the pod is placed on. Later changes do not move the pod."),
    field("preferredDuringSchedulingIgnoredDuringExecution", 2, ListOf(WeightedPodAffinityTerm),
        doc="Terms whose weights are subtracted for each possible node; nodes that lose fewer points are preferred."),
), doc="PodAntiAffinity keeps a pod away from where other pods run.")
Affinity = Struct("io.k8s.api.core.v1.Affinity", lambda: (
    field("nodeAffinity", 1, NodeAffinity, pointer=True, doc="Rules by labels of nodes."),
    field("podAffinity", 2, PodAffinity, pointer=True, doc="Rules that bring the pod close to other pods."),
    field("podAntiAffinity", 3, PodAntiAffinity, pointer=True, doc="Rules that keep the pod apart from other pods."),
), doc="Affinity groups the rules that draw a pod to nodes, or keep it away.")
Taint = Struct("io.k8s.api.core.v1.Taint", lambda: (
    field("key", 1, STRING, omit=False, required=True, limits=Limits(format="label-key"),
        doc="Key of the taint, in the form of a label key."),
    field("value", 2, STRING, doc="Value of the taint, in the form of a label value."),
    field("effect", 3, TaintEffect, omit=False, required=True, limits=Limits(required=True, values=TAINT_EFFECTS),
        doc="NoSchedule keeps new pods away, PreferNoSchedule does so if possible, NoExecute also evicts pods that run "
            "there."),
    field("timeAdded", 4, TIME, pointer=True,
        doc="When the taint was set; grace periods of tolerations count from it."),
), doc="Taint keeps pods without a matching toleration away from a node.")
Toleration = Struct("io.k8s.api.core.v1.Toleration", lambda: (
    field("key", 1, STRING, limits=Limits(format="label-key"),
        doc="Key of the taints that are tolerated; every key when empty, for which the operator must be Exists."),
    field("operator", 2, TolerationOperator,
        doc="Exists for any value, Equal (the default) for the same value, Gt or Lt for taints whose number is above "
            "or below value."),
    field("value", 3, STRING, doc="Value that taints are compared with; must be empty for Exists."),
    field("effect", 4, TaintEffect, limits=Limits(values=TAINT_EFFECTS),
        doc="Effect of the taints that are tolerated; every effect when empty."),
    field("tolerationSeconds", 5, INT64, pointer=True,
        doc="How long the pod may stay after a NoExecute taint, in seconds; for ever when not set, not at all when 0 "
            "or less."),
), doc="Toleration lets a pod run on nodes with certain taints.")
TopologySpreadConstraint = Struct("io.k8s.api.core.v1.TopologySpreadConstraint", lambda: (
    field("maxSkew", 1, INT32, omit=False, required=True, limits=Limits(least=1, words="must be greater than zero"),
        doc="How many more matching pods a domain may have than the one with the fewest; at least 1."),
    field("topologyKey", 2, STRING, omit=False, required=True,
        limits=Limits(required="can not be empty"),
        doc="Node label whose values are the domains; nodes without it are left out."),
    field("whenUnsatisfiable", 3, UnsatisfiableConstraintAction, omit=False, required=True,
        doc="DoNotSchedule leaves the pod pending when maxSkew would be exceeded, ScheduleAnyway only prefers other "
            "nodes."),
    field("labelSelector", 4, LabelSelector, pointer=True,
        doc="Selects the pods of the same namespace that are counted; none when not set."),
    field("minDomains", 5, INT32, pointer=True, limits=Limits(least=1, words="must be greater than zero"),
        doc="While fewer domains than this exist, the fewest pods of a domain count as 0. At least 1, and only with "
            "DoNotSchedule."),
    field("nodeAffinityPolicy", 6, NodeInclusionPolicy, pointer=True,
        doc="Honor (the default) counts only nodes that the pod's node affinity and selector allow, Ignore counts "
            "all."),
    field("nodeTaintsPolicy", 7, NodeInclusionPolicy, pointer=True,
        doc="Honor counts only nodes whose taints the pod tolerates, Ignore (the default) counts all."),
    field("matchLabelKeys", 8, ListOf(STRING), gate="MatchLabelKeysInPodTopologySpread",
        limits=Limits(format="label-key"),
        doc="Label keys whose values the new pod has; only pods with the same values are counted. Only allowed with "
            "labelSelector."),
), doc="TopologySpreadConstraint spreads pods evenly over domains such as zones or nodes.")
