"""Pod of core/v1, its template and Binding."""

from __future__ import annotations

from apiserver.api.features.gated_fields import EVERY_GATE, gated
from apiserver.api.schema.language import (
    BOOL,
    INT32,
    INT64,
    QUANTITY,
    STRING,
    TIME,
    ListOf,
    MapOf,
    Struct,
    field,
    string,
)
from apiserver.api.schema.limits import FIXED, Limits, between
from apiserver.api.types.core.container_statuses import ContainerStatus
from apiserver.api.types.core.containers import Container, EphemeralContainer
from apiserver.api.types.core.references import LocalObjectReference, ObjectReference
from apiserver.api.types.core.resources import ResourceList, ResourceRequirements
from apiserver.api.types.core.scheduling import Affinity, Toleration, TopologySpreadConstraint
from apiserver.api.types.core.security import PodSecurityContext
from apiserver.api.types.core.volumes import Volume
from apiserver.api.types.meta import TYPE_META, ObjectMeta, list_of

PodConditionType = string("v1.PodConditionType")
OSName = string("v1.OSName")
RestartPolicy = string("v1.RestartPolicy", "Always", "Never", "OnFailure")
DNSPolicy = string("v1.DNSPolicy", "ClusterFirst", "ClusterFirstWithHostNet", "Default", "None")
PreemptionPolicy = string("v1.PreemptionPolicy", "Never", "PreemptLowerPriority")
ConditionStatus = string("v1.ConditionStatus")
PodPhase = string("v1.PodPhase", "Failed", "Pending", "Running", "Succeeded", "Unknown")
PodQOSClass = string("v1.PodQOSClass", "BestEffort", "Burstable", "Guaranteed")
PodResizeStatus = string("v1.PodResizeStatus")

HostAlias = Struct("io.k8s.api.core.v1.HostAlias", lambda: (
    field("ip", 1, STRING, omit=False, required=True, limits=Limits(format="ip"),
        doc="Address that the names resolve to."),
    field("hostnames", 2, ListOf(STRING), limits=Limits(format="subdomain"),
        doc="Names for the address."),
), doc="HostAlias is a line of the pod's hosts file.")
PodDNSConfigOption = Struct("io.k8s.api.core.v1.PodDNSConfigOption", lambda: (
    field("name", 1, STRING, doc="Name of the option, such as ndots."),
    field("value", 2, STRING, pointer=True, doc="Value of the option; not set for options that have none."),
), doc="PodDNSConfigOption is one option of the resolver.")
PodDNSConfig = Struct("io.k8s.api.core.v1.PodDNSConfig", lambda: (
    field("nameservers", 1, ListOf(STRING), limits=Limits(format="ip"),
        doc="Addresses of further name servers, three at most in all; with the policy None at least one."),
    field("searches", 2, ListOf(STRING), limits=Limits(format="search-domain"),
        doc="Further search domains for short names."),
    field("options", 3, ListOf(PodDNSConfigOption),
        doc="Further options; an option overrides the one of the same name from dnsPolicy."),
), doc="PodDNSConfig adds to the resolver configuration of dnsPolicy.")
PodReadinessGate = Struct("io.k8s.api.core.v1.PodReadinessGate", lambda: (
    field("conditionType", 1, PodConditionType, omit=False, required=True, limits=Limits(format="label-key"),
        doc="Type of the condition in the pod's status, set by another controller."),
), doc="PodReadinessGate names a condition that must be true for the pod to be ready.")
PodOS = Struct("io.k8s.api.core.v1.PodOS", lambda: (
    field("name", 1, OSName, omit=False, required=True, limits=Limits(values=("linux", "windows")),
        doc="linux or windows."),
), doc="PodOS is the operating system of a pod.")
PodSchedulingGate = Struct("io.k8s.api.core.v1.PodSchedulingGate", lambda: (
    field("name", 1, STRING, omit=False, required=True,
        doc="Name of the gate; the controller that set it removes it when the pod may be scheduled."),
), doc="PodSchedulingGate holds a pod back from scheduling.")
PodResourceClaim = Struct("io.k8s.api.core.v1.PodResourceClaim", lambda: (
    field("name", 1, STRING, omit=False, required=True, limits=Limits(required=True, format="dns-label"),
        doc="Name by which containers refer to the claim: a DNS label, unique in the pod."),
    field("resourceClaimName", 3, STRING, pointer=True, limits=Limits(format="subdomain"),
        doc="An existing ResourceClaim of the pod's namespace."),
    field("resourceClaimTemplateName", 4, STRING, pointer=True, limits=Limits(format="subdomain"),
        doc="A ResourceClaimTemplate of the pod's namespace, from which a claim is made for this pod and deleted with "
            "it."),
),
    doc="PodResourceClaim gives a pod access to a claim, directly or made from a template; exactly one of the two is "
        "set.")
PodSchedulingGroup = Struct("io.k8s.api.core.v1.PodSchedulingGroup", lambda: (
    field("podGroupName", 1, STRING, pointer=True, limits=Limits(format="subdomain"),
        doc="PodGroup of the pod's namespace that the pod belongs to."),
), union=("", ("podGroupName",)), doc="PodSchedulingGroup names the group that a pod is scheduled with.")
PodSpec = Struct("io.k8s.api.core.v1.PodSpec", lambda: (
    field("volumes", 1, ListOf(Volume, "map", ("name",), merge_key="name", strategy="merge,retainKeys"),
        doc="Volumes that containers of the pod can mount."),
    field("initContainers", 20, ListOf(Container, "map", ("name",), merge_key="name"),
        doc="Containers that run to their end, one after the other, before the others start; those with restartPolicy "
            "Always keep on running."),
    field("containers", 2, ListOf(Container, "map", ("name",), merge_key="name"), omit=False, required=True,
        limits=Limits(required=True),
        doc="Containers of the pod, at least one; the list is fixed once the pod exists."),
    field("ephemeralContainers", 34, ListOf(EphemeralContainer, "map", ("name",), merge_key="name"),
        doc="Containers added to the running pod for debugging, through the subresource ephemeralcontainers."),
    field("restartPolicy", 3, RestartPolicy, fills="Always",
        limits=Limits(required=True, values=("Always", "OnFailure", "Never")),
        doc="When containers that have ended are restarted: Always (the default), OnFailure or Never."),
    field("terminationGracePeriodSeconds", 4, INT64, pointer=True, fills=30, limits=Limits(required=True),
        doc="Seconds between the stop signal and the kill when the pod is deleted; 30 when not set. 0 kills "
            "immediately."),
    field("activeDeadlineSeconds", 5, INT64, pointer=True, limits=between(1, 2147483647),
        doc="Seconds after its start at which the pod is failed and its containers are killed; no limit when not set."),
    field("dnsPolicy", 6, DNSPolicy, fills="ClusterFirst",
        limits=Limits(required=True, values=("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")),
        doc="Resolver configuration: ClusterFirst (the default), ClusterFirstWithHostNet, Default (the node's) or "
            "None."),
    field("nodeSelector", 7, MapOf(STRING, atomic=True), limits=Limits(format="label-key", value_format="label-value"),
        doc="Labels that a node must have, all of them, for the pod to be placed on it."),
    field("serviceAccountName", 8, STRING, limits=Limits(format="subdomain"),
        doc="ServiceAccount that the pod runs as; default when not set."),
    field("serviceAccount", 9, STRING, doc="Deprecated name of serviceAccountName; the two are kept equal."),
    field("automountServiceAccountToken", 21, BOOL, pointer=True,
        doc="Whether a token of the service account is mounted; the account's setting when not set."),
    field("nodeName", 10, STRING, limits=Limits(format="subdomain"),
        doc="Node that the pod runs on. The scheduler sets it; one that is set at creation bypasses the scheduler."),
    field("hostNetwork", 11, BOOL,
        doc="True to use the node's network instead of one of the pod's own; false when not set."),
    field("hostPID", 12, BOOL,
        doc="True to share the process namespace of the node; false when not set. Not together with "
            "shareProcessNamespace."),
    field("hostIPC", 13, BOOL, doc="True to share the IPC namespace of the node; false when not set."),
    field("shareProcessNamespace", 27, BOOL, pointer=True,
        doc="True for one process namespace for all containers of the pod; false when not set."),
    field("securityContext", 14, PodSecurityContext, pointer=True, fills={},
        doc="Security settings for all containers and for volumes."),
    field("imagePullSecrets", 15, ListOf(LocalObjectReference, "map", ("name",), merge_key="name"),
        doc="Secrets of the namespace with credentials for registries of the pod's images."),
    field("hostname", 16, STRING, limits=Limits(format="dns-label"),
        doc="Host name in the pod; the pod's name when not set."),
    field("subdomain", 17, STRING, limits=Limits(format="dns-label"),
        doc="When set, the pod's full name is HOSTNAME.SUBDOMAIN.NAMESPACE.svc.DOMAIN; otherwise it has none."),
    field("affinity", 18, Affinity, pointer=True,
        doc="Rules that draw the pod to nodes and other pods, or keep it away."),
    field("schedulerName", 19, STRING, fills="default-scheduler",
        doc="Scheduler that places the pod; default-scheduler when not set."),
    field("tolerations", 22, ListOf(Toleration), doc="Taints of nodes that the pod tolerates."),
    field("hostAliases", 23, ListOf(HostAlias, "map", ("ip",), merge_key="ip"),
        doc="Lines that are added to the pod's hosts file."),
    field("priorityClassName", 24, STRING, limits=Limits(format="subdomain"),
        doc="PriorityClass from which the priority is taken; the cluster's default class when not set."),
    field("priority", 25, INT32, pointer=True,
        doc="Priority of the pod, filled in from the class. Pods with a greater one are scheduled first and may "
            "preempt others."),
    field("dnsConfig", 26, PodDNSConfig, pointer=True, doc="Additions to the resolver's configuration."),
    field("readinessGates", 28, ListOf(PodReadinessGate),
        doc="Conditions that must be true, besides ready containers, for the pod to be ready."),
    field("runtimeClassName", 29, STRING, pointer=True, limits=Limits(format="subdomain"),
        doc="RuntimeClass that runs the pod; the node's default handler when not set."),
    field("enableServiceLinks", 30, BOOL, pointer=True,
        doc="Whether containers get environment variables for the services of the namespace; true when not set."),
    field("preemptionPolicy", 31, PreemptionPolicy, pointer=True,
        limits=Limits(required=True, values=("PreemptLowerPriority", "Never")),
        doc="Whether the pod may preempt pods with a lower priority: PreemptLowerPriority (the default) or Never."),
    field("overhead", 32, ResourceList,
        doc="Resources that running the pod takes in addition to its containers; filled in from the RuntimeClass."),
    field("topologySpreadConstraints", 33, ListOf(TopologySpreadConstraint, "map", ("topologyKey",
        "whenUnsatisfiable"), merge_key="topologyKey"),
        doc="Rules that spread pods over zones, nodes and other domains; all of them hold."),
    field("setHostnameAsFQDN", 35, BOOL, pointer=True,
        doc="True to make the full domain name the kernel's host name; false when not set. No effect without a full "
            "name."),
    field("os", 36, PodOS, pointer=True,
        doc="Operating system of the pod's images; some fields are only allowed for one of them."),
    field("hostUsers", 37, BOOL, pointer=True, gate="UserNamespacesSupport",
        doc="False to run the pod in a user namespace of its own; true when not set."),
    field("schedulingGates", 38, ListOf(PodSchedulingGate, "map", ("name",), merge_key="name"),
        doc="Gates that hold the pod back from scheduling. They can be removed at any time, but only be set at "
            "creation."),
    field("resourceClaims", 39, ListOf(PodResourceClaim, "map", ("name",), merge_key="name",
        strategy="merge,retainKeys"), gate=gated("DynamicResourceAllocation", "object"),
        doc="Claims for devices, which must be allocated and reserved before the pod starts; containers name those "
            "that they use."),
    field("resources", 40, ResourceRequirements, pointer=True,
        gate=gated("PodLevelResources", members=("requests", "limits")), ungated=EVERY_GATE,
        doc="Resources of the pod as a whole, shared by its containers: cpu, memory and huge pages."),
    field("hostnameOverride", 41, STRING, pointer=True, gate="HostnameOverride",
        limits=Limits(length=64, format="subdomain"),
        doc="Host name in the pod instead of the one from name, hostname and subdomain; at most 64 characters. Not "
            "with hostNetwork."),
    field("schedulingGroup", 43, PodSchedulingGroup, pointer=True, gate="GenericWorkload",
        doc="The group that the pod is scheduled with; fixed once the pod exists."),
), doc="PodSpec describes the containers of a pod and the rules for running them.")
PodTemplateSpec = Struct("io.k8s.api.core.v1.PodTemplateSpec", lambda: (
    field("metadata", 1, ObjectMeta, omit=False, doc="Labels, annotations and finalizers of the pods."),
    field("spec", 2, PodSpec, omit=False, doc="Spec of the pods."),
), doc="PodTemplateSpec is the template from which controllers create pods.")
PodCondition = Struct("io.k8s.api.core.v1.PodCondition", lambda: (
    field("type", 1, PodConditionType, omit=False, required=True,
        doc="Aspect, such as PodScheduled, Initialized, ContainersReady, Ready or DisruptionTarget."),
    field("observedGeneration", 7, INT64, gate="PodObservedGenerationTracking",
        doc="metadata.generation of the pod that the condition reflects."),
    field("status", 2, ConditionStatus, omit=False, required=True, doc="True, False or Unknown."),
    field("lastProbeTime", 3, TIME, omit=False, doc="Time of the last check of the condition."),
    field("lastTransitionTime", 4, TIME, omit=False, doc="Time of the last change of status."),
    field("reason", 5, STRING, doc="Reason for the status as one CamelCase word, for programs."),
    field("message", 6, STRING, doc="Reason for the status as text, for people."),
), doc="PodCondition is one aspect of a pod's state.")
HostIP = Struct("io.k8s.api.core.v1.HostIP", lambda: (
    field("ip", 1, STRING, omit=False, required=True, doc="IPv4 or IPv6 address of the node that the pod runs on."),
), doc="HostIP is an address of the node.")
PodIP = Struct("io.k8s.api.core.v1.PodIP", lambda: (
    field("ip", 1, STRING, omit=False, required=True, doc="IPv4 or IPv6 address of the pod in the cluster."),
), doc="PodIP is an address of the pod.")
PodResourceClaimStatus = Struct("io.k8s.api.core.v1.PodResourceClaimStatus", lambda: (
    field("name", 1, STRING, omit=False, required=True, doc="Name of the entry in spec.resourceClaims."),
    field("resourceClaimName", 2, STRING, pointer=True,
        doc="The claim that was made from the template; not set when none was needed."),
), doc="PodResourceClaimStatus names the claim that was created for an entry of spec.resourceClaims.")
ContainerExtendedResourceRequest = Struct("io.k8s.api.core.v1.ContainerExtendedResourceRequest", lambda: (
    field("containerName", 1, STRING, omit=False, required=True, doc="Container that requests the extended resource."),
    field("resourceName", 2, STRING, omit=False, required=True,
        doc="The extended resource, as in the container's requests."),
    field("requestName", 3, STRING, omit=False, required=True, doc="Request of the claim for the extended resource."),
), doc="ContainerExtendedResourceRequest connects an extended resource of a container with a request of a claim.")
PodExtendedResourceClaimStatus = Struct("io.k8s.api.core.v1.PodExtendedResourceClaimStatus", lambda: (
    field("requestMappings", 1, ListOf(ContainerExtendedResourceRequest), omit=False, required=True,
        doc="Requests of the claim by container and extended resource."),
    field("resourceClaimName", 2, STRING, omit=False, required=True,
        doc="The claim that the scheduler made in the pod's namespace."),
), doc="PodExtendedResourceClaimStatus names the claim that the scheduler created for extended resources.")
NodeAllocatableResourceClaimStatus = Struct("io.k8s.api.core.v1.NodeAllocatableResourceClaimStatus", lambda: (
    field("resourceClaimName", 1, STRING, omit=False, required=True,
        doc="The claim whose devices count against the node."),
    field("containers", 2, ListOf(STRING, "set"), doc="Containers of the pod that use the claim."),
    field("resources", 3, MapOf(QUANTITY, key="v1.ResourceName"), omit=False, required=True,
        doc="Amounts that the claim's devices take from the node's allocatable resources."),
), doc="NodeAllocatableResourceClaimStatus has the amounts that devices of a claim take from the node's allocatable "
    "resources.")
PodStatus = Struct("io.k8s.api.core.v1.PodStatus", lambda: (
    field("observedGeneration", 17, INT64, gate="PodObservedGenerationTracking",
        doc="The metadata.generation that the node has taken into account."),
    field("phase", 1, PodPhase,
        doc="Pending, Running, Succeeded, Failed or Unknown; a summary of containers and conditions."),
    field("conditions", 2, ListOf(PodCondition, "map", ("type",), merge_key="type"),
        doc="Latest conditions, at most one of each type."),
    field("message", 3, STRING, doc="Reason for the state as text, for people."),
    field("reason", 4, STRING, doc="Reason for the state as one CamelCase word, such as Evicted."),
    field("nominatedNodeName", 11, STRING,
        doc="Node on which the scheduler intends to place the pod, for example once preempted pods have left it."),
    field("hostIP", 5, STRING, doc="Main address of the node; empty until the pod is placed."),
    field("hostIPs", 16, ListOf(HostIP, merge_key="ip"),
        doc="All addresses of the node, hostIP first; at most one of each IP family."),
    field("podIP", 6, STRING, doc="Main address of the pod; empty until it has one."),
    field("podIPs", 12, ListOf(PodIP, "map", ("ip",), merge_key="ip"),
        doc="All addresses of the pod, podIP first; at most one of each IP family."),
    field("startTime", 7, TIME, pointer=True, doc="When the node accepted the pod, before images are pulled."),
    field("initContainerStatuses", 10, ListOf(ContainerStatus), doc="Reports on the init containers."),
    field("containerStatuses", 8, ListOf(ContainerStatus), doc="Reports on the containers."),
    field("qosClass", 9, PodQOSClass, limits=Limits(immutable=FIXED),
        doc="Guaranteed, Burstable or BestEffort, derived from requests and limits; BestEffort pods are evicted "
            "first."),
    field("ephemeralContainerStatuses", 13, ListOf(ContainerStatus), doc="Reports on the ephemeral containers."),
    field("resize", 14, PodResizeStatus, gate=gated("InPlacePodVerticalScaling", "never"),
        doc="Deprecated: state of a resize; replaced by the conditions PodResizePending and PodResizeInProgress."),
    field("resourceClaimStatuses", 15, ListOf(PodResourceClaimStatus, "map", ("name",), merge_key="name",
        strategy="merge,retainKeys"), gate=gated("DynamicResourceAllocation", "object", counts=False),
        doc="Claims that were made from templates, by the name of their entry in spec.resourceClaims."),
    field("extendedResourceClaimStatus", 18, PodExtendedResourceClaimStatus, pointer=True, gate="DRAExtendedResource",
        doc="The claim that was made for extended resources which devices stand for."),
    field("allocatedResources", 19, ResourceList, gate="InPlacePodLevelResourcesVerticalScaling",
        doc="Amounts that the node has set aside for the pod as a whole."),
    field("resources", 20, ResourceRequirements, pointer=True, gate="InPlacePodLevelResourcesVerticalScaling",
        ungated=EVERY_GATE,
        doc="Requests and limits that are in force for the pod as a whole."),
    field("nodeAllocatableResourceClaimStatuses", 21, ListOf(NodeAllocatableResourceClaimStatus),
        gate="DRANodeAllocatableResources",
        doc="What devices of claims take from the node's cpu, memory and other allocatable resources."),
), doc="PodStatus is the state of a pod; most of it comes from the node.")
Pod = Struct("io.k8s.api.core.v1.Pod", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
    field("spec", 2, PodSpec, omit=False, doc="Containers and rules; most of it is fixed once the pod exists."),
    field("status", 3, PodStatus, omit=False, doc="State of the pod."),
), gvk=("", "v1", "Pod"), doc="Pod is a group of containers that run together on one node.")
Binding = Struct("io.k8s.api.core.v1.Binding", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False,
        doc="Name and namespace of the pod; uid and resourceVersion guard against another pod of that name."),
    field("target", 2, ObjectReference, omit=False, required=True, doc="The node, with its name."),
), gvk=("", "v1", "Binding"), doc="Binding places a pod on a node; it is the body of the subresource binding.")

PodList = list_of(Pod)
