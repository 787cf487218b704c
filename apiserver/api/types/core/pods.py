"""Pod of core/v1, its template and Binding."""

from __future__ import annotations

from apiserver.api.schema import BOOL, INT32, INT64, QUANTITY, STRING, TIME, ListOf, MapOf, Struct, field, string
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
    field("ip", 1, STRING, omit=False, required=True),
    field("hostnames", 2, ListOf(STRING)),
))
PodDNSConfigOption = Struct("io.k8s.api.core.v1.PodDNSConfigOption", lambda: (
    field("name", 1, STRING),
    field("value", 2, STRING, pointer=True),
))
PodDNSConfig = Struct("io.k8s.api.core.v1.PodDNSConfig", lambda: (
    field("nameservers", 1, ListOf(STRING)),
    field("searches", 2, ListOf(STRING)),
    field("options", 3, ListOf(PodDNSConfigOption)),
))
PodReadinessGate = Struct("io.k8s.api.core.v1.PodReadinessGate", lambda: (
    field("conditionType", 1, PodConditionType, omit=False, required=True),
))
PodOS = Struct("io.k8s.api.core.v1.PodOS", lambda: (
    field("name", 1, OSName, omit=False, required=True),
))
PodSchedulingGate = Struct("io.k8s.api.core.v1.PodSchedulingGate", lambda: (
    field("name", 1, STRING, omit=False, required=True),
))
PodResourceClaim = Struct("io.k8s.api.core.v1.PodResourceClaim", lambda: (
    field("name", 1, STRING, omit=False, required=True),
    field("resourceClaimName", 3, STRING, pointer=True),
    field("resourceClaimTemplateName", 4, STRING, pointer=True),
))
PodSchedulingGroup = Struct("io.k8s.api.core.v1.PodSchedulingGroup", lambda: (
    field("podGroupName", 1, STRING, pointer=True),
))
PodSpec = Struct("io.k8s.api.core.v1.PodSpec", lambda: (
    field("volumes", 1, ListOf(Volume, "map", ("name",), merge_key="name", strategy="merge,retainKeys")),
    field("initContainers", 20, ListOf(Container, "map", ("name",), merge_key="name")),
    field("containers", 2, ListOf(Container, "map", ("name",), merge_key="name"), omit=False, required=True),
    field("ephemeralContainers", 34, ListOf(EphemeralContainer, "map", ("name",), merge_key="name")),
    field("restartPolicy", 3, RestartPolicy),
    field("terminationGracePeriodSeconds", 4, INT64, pointer=True),
    field("activeDeadlineSeconds", 5, INT64, pointer=True),
    field("dnsPolicy", 6, DNSPolicy),
    field("nodeSelector", 7, MapOf(STRING, atomic=True)),
    field("serviceAccountName", 8, STRING),
    field("serviceAccount", 9, STRING),
    field("automountServiceAccountToken", 21, BOOL, pointer=True),
    field("nodeName", 10, STRING),
    field("hostNetwork", 11, BOOL),
    field("hostPID", 12, BOOL),
    field("hostIPC", 13, BOOL),
    field("shareProcessNamespace", 27, BOOL, pointer=True),
    field("securityContext", 14, PodSecurityContext, pointer=True),
    field("imagePullSecrets", 15, ListOf(LocalObjectReference, "map", ("name",), merge_key="name")),
    field("hostname", 16, STRING),
    field("subdomain", 17, STRING),
    field("affinity", 18, Affinity, pointer=True),
    field("schedulerName", 19, STRING),
    field("tolerations", 22, ListOf(Toleration)),
    field("hostAliases", 23, ListOf(HostAlias, "map", ("ip",), merge_key="ip")),
    field("priorityClassName", 24, STRING),
    field("priority", 25, INT32, pointer=True),
    field("dnsConfig", 26, PodDNSConfig, pointer=True),
    field("readinessGates", 28, ListOf(PodReadinessGate)),
    field("runtimeClassName", 29, STRING, pointer=True),
    field("enableServiceLinks", 30, BOOL, pointer=True),
    field("preemptionPolicy", 31, PreemptionPolicy, pointer=True),
    field("overhead", 32, ResourceList),
    field("topologySpreadConstraints", 33, ListOf(TopologySpreadConstraint, "map", ("topologyKey",
        "whenUnsatisfiable"), merge_key="topologyKey")),
    field("setHostnameAsFQDN", 35, BOOL, pointer=True),
    field("os", 36, PodOS, pointer=True),
    field("hostUsers", 37, BOOL, pointer=True),
    field("schedulingGates", 38, ListOf(PodSchedulingGate, "map", ("name",), merge_key="name")),
    field("resourceClaims", 39, ListOf(PodResourceClaim, "map", ("name",), merge_key="name",
        strategy="merge,retainKeys"),
        gate="DynamicResourceAllocation"),
    field("resources", 40, ResourceRequirements, pointer=True, gate="PodLevelResources"),
    field("hostnameOverride", 41, STRING, pointer=True, gate="HostnameOverride"),
    field("schedulingGroup", 43, PodSchedulingGroup, pointer=True, gate="GenericWorkload"),
))
PodTemplateSpec = Struct("io.k8s.api.core.v1.PodTemplateSpec", lambda: (
    field("metadata", 1, ObjectMeta, omit=False),
    field("spec", 2, PodSpec, omit=False),
))
PodCondition = Struct("io.k8s.api.core.v1.PodCondition", lambda: (
    field("type", 1, PodConditionType, omit=False, required=True),
    field("observedGeneration", 7, INT64),
    field("status", 2, ConditionStatus, omit=False, required=True),
    field("lastProbeTime", 3, TIME, omit=False),
    field("lastTransitionTime", 4, TIME, omit=False),
    field("reason", 5, STRING),
    field("message", 6, STRING),
))
HostIP = Struct("io.k8s.api.core.v1.HostIP", lambda: (
    field("ip", 1, STRING, omit=False, required=True),
))
PodIP = Struct("io.k8s.api.core.v1.PodIP", lambda: (
    field("ip", 1, STRING, omit=False, required=True),
))
PodResourceClaimStatus = Struct("io.k8s.api.core.v1.PodResourceClaimStatus", lambda: (
    field("name", 1, STRING, omit=False, required=True),
    field("resourceClaimName", 2, STRING, pointer=True),
))
ContainerExtendedResourceRequest = Struct("io.k8s.api.core.v1.ContainerExtendedResourceRequest", lambda: (
    field("containerName", 1, STRING, omit=False, required=True),
    field("resourceName", 2, STRING, omit=False, required=True),
    field("requestName", 3, STRING, omit=False, required=True),
))
PodExtendedResourceClaimStatus = Struct("io.k8s.api.core.v1.PodExtendedResourceClaimStatus", lambda: (
    field("requestMappings", 1, ListOf(ContainerExtendedResourceRequest), omit=False, required=True),
    field("resourceClaimName", 2, STRING, omit=False, required=True),
))
NodeAllocatableResourceClaimStatus = Struct("io.k8s.api.core.v1.NodeAllocatableResourceClaimStatus", lambda: (
    field("resourceClaimName", 1, STRING, omit=False, required=True),
    field("containers", 2, ListOf(STRING, "set")),
    field("resources", 3, MapOf(QUANTITY, key="v1.ResourceName"), omit=False, required=True),
))
PodStatus = Struct("io.k8s.api.core.v1.PodStatus", lambda: (
    field("observedGeneration", 17, INT64),
    field("phase", 1, PodPhase),
    field("conditions", 2, ListOf(PodCondition, "map", ("type",), merge_key="type")),
    field("message", 3, STRING),
    field("reason", 4, STRING),
    field("nominatedNodeName", 11, STRING),
    field("hostIP", 5, STRING),
    field("hostIPs", 16, ListOf(HostIP, merge_key="ip")),
    field("podIP", 6, STRING),
    field("podIPs", 12, ListOf(PodIP, "map", ("ip",), merge_key="ip")),
    field("startTime", 7, TIME, pointer=True),
    field("initContainerStatuses", 10, ListOf(ContainerStatus)),
    field("containerStatuses", 8, ListOf(ContainerStatus)),
    field("qosClass", 9, PodQOSClass),
    field("ephemeralContainerStatuses", 13, ListOf(ContainerStatus)),
    field("resize", 14, PodResizeStatus, gate="InPlacePodVerticalScaling"),
    field("resourceClaimStatuses", 15, ListOf(PodResourceClaimStatus, "map", ("name",), merge_key="name",
        strategy="merge,retainKeys"),
        gate="DynamicResourceAllocation"),
    field("extendedResourceClaimStatus", 18, PodExtendedResourceClaimStatus, pointer=True, gate="DRAExtendedResource"),
    field("allocatedResources", 19, ResourceList, gate="InPlacePodLevelResourcesVerticalScaling"),
    field("resources", 20, ResourceRequirements, pointer=True, gate="InPlacePodLevelResourcesVerticalScaling"),
    field("nodeAllocatableResourceClaimStatuses", 21, ListOf(NodeAllocatableResourceClaimStatus),
        gate="DRANodeAllocatableResources"),
))
Pod = Struct("io.k8s.api.core.v1.Pod", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False),
    field("spec", 2, PodSpec, omit=False),
    field("status", 3, PodStatus, omit=False),
), gvk=("", "v1", "Pod"))
Binding = Struct("io.k8s.api.core.v1.Binding", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False),
    field("target", 2, ObjectReference, omit=False, required=True),
), gvk=("", "v1", "Binding"))

PodList = list_of(Pod)
