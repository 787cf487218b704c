"""scheduling.k8s.io: PriorityClass of v1; Workload and PodGroup of v1alpha2."""

from __future__ import annotations

from apiserver.api.features.gated_fields import gated
from apiserver.api.schema.language import BOOL, INT32, STRING, ListOf, Struct, field, string
from apiserver.api.schema.limits import FIXED, FIXED_UNSHOWN, Immutable, Limits
from apiserver.api.schema.markers import one_of
from apiserver.api.types.core.pods import PreemptionPolicy
from apiserver.api.types.meta import TYPE_META, Condition, ObjectMeta, list_of

GROUP = "scheduling.k8s.io"
#: The highest priority that users may define.
HIGHEST_PRIORITY = 1_000_000_000
_V1 = "io.k8s.api.scheduling.v1."
_ALPHA = "io.k8s.api.scheduling.v1alpha2."

PriorityClass = Struct(_V1 + "PriorityClass", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
    field("value", 2, INT32, omit=False,
        limits=Limits(most=HIGHEST_PRIORITY,
            immutable=Immutable(words="may not be changed in an update.", forbids=True)),
        doc="The priority that pods of the class get; more is served first."),
    field("globalDefault", 3, BOOL, doc="True for the class of pods without a class; at most one class has it."),
    field("description", 4, STRING, doc="Purpose of the class."),
    field("preemptionPolicy", 5, PreemptionPolicy, pointer=True, fills="PreemptLowerPriority",
        limits=Limits(immutable=FIXED, required=True, values=("PreemptLowerPriority", "Never")),
        doc="Whether pods of the class may preempt others: Never or PreemptLowerPriority."),
), gvk=(GROUP, "v1", "PriorityClass"), doc="PriorityClass names a priority.")
PriorityClassList = list_of(PriorityClass)

DisruptionMode = string("v1alpha2.DisruptionMode", "Pod", "PodGroup")

BasicSchedulingPolicy = Struct(_ALPHA + "BasicSchedulingPolicy", (),
    doc="BasicSchedulingPolicy schedules the pods of a group one by one.")
GangSchedulingPolicy = Struct(_ALPHA + "GangSchedulingPolicy", lambda: (
    field("minCount", 1, INT32, omit=False, required=True, limits=Limits(required=True, least=1),
        doc="Number of pods that must be schedulable at the same time."),
), doc="GangSchedulingPolicy schedules enough pods of a group, or none.")
PodGroupSchedulingPolicy = Struct(_ALPHA + "PodGroupSchedulingPolicy", lambda: (
    field("basic", 1, BasicSchedulingPolicy, pointer=True, doc="Pods are scheduled one by one."),
    field("gang", 2, GangSchedulingPolicy, pointer=True, doc="Enough pods are scheduled together, or none."),
), union=("", ("basic", "gang")), doc="PodGroupSchedulingPolicy is exactly one of its members.", rules=(
    one_of("basic", "gang"),
    "gang",
))
TopologyConstraint = Struct(_ALPHA + "TopologyConstraint", lambda: (
    field("key", 1, STRING, omit=False, required=True, limits=Limits(required=True, format="label-key"),
        doc="Key of the node label whose value all pods of a group share."),
), doc="TopologyConstraint keeps the pods of a group in one domain.")
PodGroupSchedulingConstraints = Struct(_ALPHA + "PodGroupSchedulingConstraints", lambda: (
    field("topology", 1, ListOf(TopologyConstraint), limits=Limits(items=1), doc="Domains that the group stays in."),
), doc="PodGroupSchedulingConstraints limits the placement of the pods of a group.")
PodGroupResourceClaim = Struct(_ALPHA + "PodGroupResourceClaim", lambda: (
    field("name", 1, STRING, omit=False, required=True, limits=Limits(required=True, format="short-name"),
        doc="Name of the entry, unique in the group; pods that use it have an equal entry."),
    field("resourceClaimName", 2, STRING, pointer=True, limits=Limits(format="long-name"),
        doc="A claim of the namespace; it is reserved for the group as a whole."),
    field("resourceClaimTemplateName", 3, STRING, pointer=True, limits=Limits(format="long-name"),
        doc="A template of the namespace, from which the group gets a claim of its own."),
), doc="PodGroupResourceClaim is a claim that pods of a group share.", rules=(
    one_of("resourceClaimName", "resourceClaimTemplateName"),
    "name",
    "resourceClaimName",
    "resourceClaimTemplateName",
))
_CLAIMS = ListOf(PodGroupResourceClaim, "map", ("name",), merge_key="name", strategy="merge,retainKeys")
PodGroupResourceClaimStatus = Struct(_ALPHA + "PodGroupResourceClaimStatus", lambda: (
    field("name", 1, STRING, omit=False, required=True, doc="Name of the entry in the spec."),
    field("resourceClaimName", 2, STRING, pointer=True, limits=Limits(format="long-name"),
        doc="The created claim; not set if none was needed."),
), doc="PodGroupResourceClaimStatus names the claim that was created from a template.")
WorkloadPodGroupTemplateReference = Struct(_ALPHA + "WorkloadPodGroupTemplateReference", lambda: (
    field("workloadName", 1, STRING, omit=False, required=True, limits=Limits(required=True, format="long-name"),
        doc="The Workload."),
    field("podGroupTemplateName", 2, STRING, omit=False, required=True,
        limits=Limits(required=True, format="short-name"),
        doc="The template in it."),
), doc="WorkloadPodGroupTemplateReference names a template of a Workload.")
PodGroupTemplateReference = Struct(_ALPHA + "PodGroupTemplateReference", lambda: (
    field("workload", 1, WorkloadPodGroupTemplateReference, omit=False, pointer=True, doc="A template of a Workload."),
), union=("", ("workload",)), doc="PodGroupTemplateReference names the template that a group was made from.", rules=(
    one_of("workload"),
    "workload",
))
TypedLocalObjectReference = Struct(_ALPHA + "TypedLocalObjectReference", lambda: (
    field("apiGroup", 1, STRING, limits=Limits(format="long-name"),
        doc="Group of the object; empty for the core group."),
    field("kind", 2, STRING, omit=False, required=True, limits=Limits(required=True, format="path-segment"),
        doc="Kind of the object."),
    field("name", 3, STRING, omit=False, required=True, limits=Limits(required=True, format="path-segment"),
        doc="Name of the object."),
), doc="TypedLocalObjectReference names an object of the same namespace.")

PodGroupTemplate = Struct(_ALPHA + "PodGroupTemplate", lambda: (
    field("name", 1, STRING, omit=False, required=True, limits=Limits(required=True, format="short-name"),
        doc="Name of the template, unique in the Workload."),
    field("schedulingPolicy", 2, PodGroupSchedulingPolicy, omit=False, required=True,
        doc="Scheduling policy of such a group."),
    field("schedulingConstraints", 3, PodGroupSchedulingConstraints, omit=False, pointer=True,
        gate=gated("TopologyAwareWorkloadScheduling", "place"),
        doc="Limits of the placement."),
    field("resourceClaims", 4, _CLAIMS, gate=gated("DRAWorkloadResourceClaims", "place"),
        limits=Limits(items=4, unique="name", whole=True),
        doc="Claims that they share."),
    field("disruptionMode", 5, DisruptionMode, pointer=True, gate=gated("WorkloadAwarePreemption", "place"),
        doc="Whether they are preempted one by one (Pod) or together (PodGroup)."),
    field("priorityClassName", 6, STRING, gate=gated("WorkloadAwarePreemption", "place"),
        limits=Limits(format="long-name"),
        doc="PriorityClass of such groups."),
    field("priority", 7, INT32, pointer=True, gate=gated("WorkloadAwarePreemption", "place"),
        limits=Limits(most=HIGHEST_PRIORITY),
        doc="Priority of such groups."),
), doc="PodGroupTemplate is the template of pod groups.")
WorkloadSpec = Struct(_ALPHA + "WorkloadSpec", lambda: (
    field("controllerRef", 1, TypedLocalObjectReference, pointer=True, limits=Limits(immutable=FIXED_UNSHOWN),
        doc="The object that the workload belongs to (a Job)."),
    field("podGroupTemplates", 2, ListOf(PodGroupTemplate, "map", ("name",)), omit=False, required=True,
        limits=Limits(required=True, items=8, unique="name", whole=True, immutable=FIXED_UNSHOWN),
        doc="Templates of the groups."),
), doc="WorkloadSpec lists the templates of the groups of a workload.")
Workload = Struct(_ALPHA + "Workload", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
    field("spec", 2, WorkloadSpec, omit=False, required=True, doc="Owner and group templates."),
), gvk=(GROUP, "v1alpha2", "Workload"), doc="Workload has the scheduling rules of groups of pods.")
WorkloadList = list_of(Workload)

PodGroupSpec = Struct(_ALPHA + "PodGroupSpec", lambda: (
    field("podGroupTemplateRef", 1, PodGroupTemplateReference, omit=False, pointer=True,
        limits=Limits(immutable=FIXED_UNSHOWN),
        doc="The template that the group was made from."),
    field("schedulingPolicy", 2, PodGroupSchedulingPolicy, omit=False, required=True,
        limits=Limits(immutable=FIXED_UNSHOWN),
        doc="Scheduling policy."),
    field("schedulingConstraints", 3, PodGroupSchedulingConstraints, pointer=True,
        gate=gated("TopologyAwareWorkloadScheduling", "place"), limits=Limits(immutable=FIXED_UNSHOWN),
        doc="Limits of the placement."),
    field("resourceClaims", 4, _CLAIMS, gate=gated("DRAWorkloadResourceClaims", "object"),
        limits=Limits(items=4, unique="name", whole=True, immutable=FIXED_UNSHOWN),
        doc="Claims that the pods share."),
    field("disruptionMode", 5, DisruptionMode, pointer=True, default="Pod",
        gate=gated("WorkloadAwarePreemption", "place"), limits=Limits(immutable=FIXED_UNSHOWN),
        doc="Whether the pods are preempted one by one (Pod) or together (PodGroup)."),
    field("priorityClassName", 6, STRING, gate=gated("WorkloadAwarePreemption", "place"),
        limits=Limits(format="long-name", immutable=FIXED_UNSHOWN),
        doc="PriorityClass of the group."),
    field("priority", 7, INT32, pointer=True, gate=gated("WorkloadAwarePreemption", "place"),
        limits=Limits(most=HIGHEST_PRIORITY, immutable=FIXED_UNSHOWN),
        doc="Priority of the group, by its class."),
), doc="PodGroupSpec has the scheduling rules and the shared claims of a group of pods.")
PodGroupStatus = Struct(_ALPHA + "PodGroupStatus", lambda: (
    field("conditions", 1, ListOf(Condition, "map", ("type",), merge_key="type"),
        doc="PodGroupScheduled, DisruptionTarget."),
    field("resourceClaimStatuses", 2, ListOf(PodGroupResourceClaimStatus, "map", ("name",), merge_key="name",
        strategy="merge,retainKeys"), gate=gated("DRAWorkloadResourceClaims", "object", counts=False),
        limits=Limits(items=4, unique="name", whole=True),
        doc="Claims that were created from templates."),
), doc="PodGroupStatus is the state of a group.")
PodGroup = Struct(_ALPHA + "PodGroup", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
    field("spec", 2, PodGroupSpec, omit=False, required=True, doc="Scheduling rules and shared claims."),
    field("status", 3, PodGroupStatus, omit=False, doc="State of the group."),
), gvk=(GROUP, "v1alpha2", "PodGroup"), doc="PodGroup is a group of pods that are scheduled together.")
PodGroupList = list_of(PodGroup)
