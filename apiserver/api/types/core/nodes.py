"""Node of core/v1."""

from __future__ import annotations

from apiserver.api.schema import BOOL, INT32, INT64, STRING, TIME, ListOf, Struct, field, string
from apiserver.api.types.core.pods import ConditionStatus
from apiserver.api.types.core.resources import ResourceList
from apiserver.api.types.core.scheduling import Taint
from apiserver.api.types.meta import TYPE_META, UID, ObjectMeta, list_of

NodeConditionType = string("v1.NodeConditionType")
NodeAddressType = string("v1.NodeAddressType")
UniqueVolumeName = string("v1.UniqueVolumeName")
NodePhase = string("v1.NodePhase", "Pending", "Running", "Terminated")

ConfigMapNodeConfigSource = Struct("io.k8s.api.core.v1.ConfigMapNodeConfigSource", lambda: (
    field("namespace", 1, STRING, omit=False, required=True),
    field("name", 2, STRING, omit=False, required=True),
    field("uid", 3, UID),
    field("resourceVersion", 4, STRING),
    field("kubeletConfigKey", 5, STRING, omit=False, required=True),
))
NodeConfigSource = Struct("io.k8s.api.core.v1.NodeConfigSource", lambda: (
    field("configMap", 2, ConfigMapNodeConfigSource, pointer=True),
))
NodeSpec = Struct("io.k8s.api.core.v1.NodeSpec", lambda: (
    field("podCIDR", 1, STRING),
    field("podCIDRs", 7, ListOf(STRING, "set", merge_key="")),
    field("providerID", 3, STRING),
    field("unschedulable", 4, BOOL),
    field("taints", 5, ListOf(Taint)),
    field("configSource", 6, NodeConfigSource, pointer=True),
    field("externalID", 2, STRING),
))
NodeCondition = Struct("io.k8s.api.core.v1.NodeCondition", lambda: (
    field("type", 1, NodeConditionType, omit=False, required=True),
    field("status", 2, ConditionStatus, omit=False, required=True),
    field("lastHeartbeatTime", 3, TIME, omit=False),
    field("lastTransitionTime", 4, TIME, omit=False),
    field("reason", 5, STRING),
    field("message", 6, STRING),
))
NodeAddress = Struct("io.k8s.api.core.v1.NodeAddress", lambda: (
    field("type", 1, NodeAddressType, omit=False, required=True),
    field("address", 2, STRING, omit=False, required=True),
))
DaemonEndpoint = Struct("io.k8s.api.core.v1.DaemonEndpoint", lambda: (
    field("Port", 1, INT32, omit=False, required=True),
))
NodeDaemonEndpoints = Struct("io.k8s.api.core.v1.NodeDaemonEndpoints", lambda: (
    field("kubeletEndpoint", 1, DaemonEndpoint, omit=False),
))
NodeSwapStatus = Struct("io.k8s.api.core.v1.NodeSwapStatus", lambda: (
    field("capacity", 1, INT64, pointer=True),
))
NodeSystemInfo = Struct("io.k8s.api.core.v1.NodeSystemInfo", lambda: (
    field("machineID", 1, STRING, omit=False, required=True),
    field("systemUUID", 2, STRING, omit=False, required=True),
    field("bootID", 3, STRING, omit=False, required=True),
    field("kernelVersion", 4, STRING, omit=False, required=True),
    field("osImage", 5, STRING, omit=False, required=True),
    field("containerRuntimeVersion", 6, STRING, omit=False, required=True),
    field("kubeletVersion", 7, STRING, omit=False, required=True),
    field("kubeProxyVersion", 8, STRING, omit=False, required=True),
    field("operatingSystem", 9, STRING, omit=False, required=True),
    field("architecture", 10, STRING, omit=False, required=True),
    field("swap", 11, NodeSwapStatus, pointer=True),
))
ContainerImage = Struct("io.k8s.api.core.v1.ContainerImage", lambda: (
    field("names", 1, ListOf(STRING), omit=False),
    field("sizeBytes", 2, INT64),
))
AttachedVolume = Struct("io.k8s.api.core.v1.AttachedVolume", lambda: (
    field("name", 1, UniqueVolumeName, omit=False, required=True),
    field("devicePath", 2, STRING, omit=False, required=True),
))
NodeConfigStatus = Struct("io.k8s.api.core.v1.NodeConfigStatus", lambda: (
    field("assigned", 1, NodeConfigSource, pointer=True),
    field("active", 2, NodeConfigSource, pointer=True),
    field("lastKnownGood", 3, NodeConfigSource, pointer=True),
    field("error", 4, STRING),
))
NodeRuntimeHandlerFeatures = Struct("io.k8s.api.core.v1.NodeRuntimeHandlerFeatures", lambda: (
    field("recursiveReadOnlyMounts", 1, BOOL, pointer=True),
    field("userNamespaces", 2, BOOL, pointer=True),
))
NodeRuntimeHandler = Struct("io.k8s.api.core.v1.NodeRuntimeHandler", lambda: (
    field("name", 1, STRING, omit=False),
    field("features", 2, NodeRuntimeHandlerFeatures, pointer=True),
))
NodeFeatures = Struct("io.k8s.api.core.v1.NodeFeatures", lambda: (
    field("supplementalGroupsPolicy", 1, BOOL, pointer=True),
))
NodeStatus = Struct("io.k8s.api.core.v1.NodeStatus", lambda: (
    field("capacity", 1, ResourceList),
    field("allocatable", 2, ResourceList),
    field("phase", 3, NodePhase),
    field("conditions", 4, ListOf(NodeCondition, "map", ("type",), merge_key="type")),
    field("addresses", 5, ListOf(NodeAddress, "map", ("type",), merge_key="type")),
    field("daemonEndpoints", 6, NodeDaemonEndpoints, omit=False),
    field("nodeInfo", 7, NodeSystemInfo, omit=False),
    field("images", 8, ListOf(ContainerImage)),
    field("volumesInUse", 9, ListOf(UniqueVolumeName)),
    field("volumesAttached", 10, ListOf(AttachedVolume)),
    field("config", 11, NodeConfigStatus, pointer=True),
    field("runtimeHandlers", 12, ListOf(NodeRuntimeHandler)),
    field("features", 13, NodeFeatures, pointer=True, gate="SupplementalGroupsPolicy"),
    field("declaredFeatures", 14, ListOf(STRING), gate="NodeDeclaredFeatures"),
))
Node = Struct("io.k8s.api.core.v1.Node", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False),
    field("spec", 2, NodeSpec, omit=False),
    field("status", 3, NodeStatus, omit=False),
), gvk=("", "v1", "Node"))

NodeList = list_of(Node)
