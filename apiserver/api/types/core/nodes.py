"""Node of core/v1."""

from __future__ import annotations

from apiserver.api.schema.language import BOOL, INT32, INT64, STRING, TIME, ListOf, Struct, field, string
from apiserver.api.schema.limits import Immutable, Limits
from apiserver.api.types.core.pods import ConditionStatus
from apiserver.api.types.core.resources import ResourceList
from apiserver.api.types.core.scheduling import Taint
from apiserver.api.types.meta import TYPE_META, UID, ObjectMeta, list_of


def _once(name: str) -> Immutable:
    return Immutable(once=True, words=f'node updates may not change {name} except from "" to valid', forbids=True)


NodeConditionType = string("v1.NodeConditionType")
NodeAddressType = string("v1.NodeAddressType")
UniqueVolumeName = string("v1.UniqueVolumeName")
NodePhase = string("v1.NodePhase", "Pending", "Running", "Terminated")

ConfigMapNodeConfigSource = Struct("io.k8s.api.core.v1.ConfigMapNodeConfigSource", lambda: (
    field("namespace", 1, STRING, omit=False, required=True, doc="Namespace of the ConfigMap."),
    field("name", 2, STRING, omit=False, required=True, doc="Name of the ConfigMap."),
    field("uid", 3, UID, doc="UID of the ConfigMap; only in status."),
    field("resourceVersion", 4, STRING, doc="Version of the ConfigMap; only in status."),
    field("kubeletConfigKey", 5, STRING, omit=False, required=True,
        doc="Key of the ConfigMap that has the configuration."),
), doc="ConfigMapNodeConfigSource named a ConfigMap with a kubelet's configuration; kubelets ignore it.")
NodeConfigSource = Struct("io.k8s.api.core.v1.NodeConfigSource", lambda: (
    field("configMap", 2, ConfigMapNodeConfigSource, pointer=True, doc="The ConfigMap with the configuration."),
), doc="NodeConfigSource was the place of a kubelet's configuration; kubelets ignore it.")
NodeSpec = Struct("io.k8s.api.core.v1.NodeSpec", lambda: (
    field("podCIDR", 1, STRING, doc="Address range of the node's pods, in CIDR notation; the first of podCIDRs."),
    field("podCIDRs", 7, ListOf(STRING, "set", merge_key=""),
        limits=Limits(immutable=_once("podCIDR")),
        doc="Address ranges of the node's pods, at most one of each IP family; fixed once set."),
    field("providerID", 3, STRING,
        limits=Limits(immutable=_once("providerID")),
        doc="Identity of the machine at its cloud provider, as provider://id; fixed once set."),
    field("unschedulable", 4, BOOL,
        doc="True to keep new pods away (kubectl cordon); pods that tolerate node.kubernetes.io/unschedulable still "
            "come."),
    field("taints", 5, ListOf(Taint), doc="Taints that keep pods without a matching toleration away."),
    field("configSource", 6, NodeConfigSource, pointer=True,
        doc="Deprecated: place of the kubelet's configuration. It has no effect."),
    field("externalID", 2, STRING, limits=Limits(immutable=Immutable(words="may not be updated", forbids=True)),
        doc="Deprecated: an identity outside of the cluster. It has no effect."),
), doc="NodeSpec has the settings of a node.")
NodeCondition = Struct("io.k8s.api.core.v1.NodeCondition", lambda: (
    field("type", 1, NodeConditionType, omit=False, required=True,
        doc="Aspect: Ready, MemoryPressure, DiskPressure, PIDPressure, NetworkUnavailable or another."),
    field("status", 2, ConditionStatus, omit=False, required=True, doc="True, False or Unknown."),
    field("lastHeartbeatTime", 3, TIME, omit=False, doc="Time of the last report of the condition."),
    field("lastTransitionTime", 4, TIME, omit=False, doc="Time of the last change of status."),
    field("reason", 5, STRING, doc="Reason for the status as one CamelCase word, for programs."),
    field("message", 6, STRING, doc="Reason for the status as text, for people."),
), doc="NodeCondition is one aspect of a node's state.")
NodeAddress = Struct("io.k8s.api.core.v1.NodeAddress", lambda: (
    field("type", 1, NodeAddressType, omit=False, required=True,
        doc="Hostname, InternalIP, ExternalIP, InternalDNS or ExternalDNS."),
    field("address", 2, STRING, omit=False, required=True, doc="The address or name."),
), doc="NodeAddress is one address of a node.")
DaemonEndpoint = Struct("io.k8s.api.core.v1.DaemonEndpoint", lambda: (
    field("Port", 1, INT32, omit=False, required=True, doc="Port number that the program listens on."),
), doc="DaemonEndpoint is the port of a program on a node.")
NodeDaemonEndpoints = Struct("io.k8s.api.core.v1.NodeDaemonEndpoints", lambda: (
    field("kubeletEndpoint", 1, DaemonEndpoint, omit=False, doc="Where the kubelet serves logs, exec and metrics."),
), doc="NodeDaemonEndpoints has the ports of the programs that run a node.")
NodeSwapStatus = Struct("io.k8s.api.core.v1.NodeSwapStatus", lambda: (
    field("capacity", 1, INT64, pointer=True, doc="Size of the swap memory, in bytes."),
), doc="NodeSwapStatus has figures about swap memory.")
NodeSystemInfo = Struct("io.k8s.api.core.v1.NodeSystemInfo", lambda: (
    field("machineID", 1, STRING, omit=False, required=True,
        doc="Identity of the installed system, as in /etc/machine-id."),
    field("systemUUID", 2, STRING, omit=False, required=True, doc="Identity of the machine, from its firmware."),
    field("bootID", 3, STRING, omit=False, required=True,
        doc="Identity of the present boot; another one after each restart."),
    field("kernelVersion", 4, STRING, omit=False, required=True, doc="Version of the kernel, as uname -r shows it."),
    field("osImage", 5, STRING, omit=False, required=True,
        doc="Name and version of the operating system, such as Debian GNU/Linux 12."),
    field("containerRuntimeVersion", 6, STRING, omit=False, required=True,
        doc="Name and version of the container runtime, such as containerd://2.0.0."),
    field("kubeletVersion", 7, STRING, omit=False, required=True, doc="Version of the kubelet."),
    field("kubeProxyVersion", 8, STRING, omit=False, required=True,
        doc="Deprecated: version of kube-proxy. It is not reported reliably."),
    field("operatingSystem", 9, STRING, omit=False, required=True,
        doc="Operating system of the node: linux or windows."),
    field("architecture", 10, STRING, omit=False, required=True, doc="Processor architecture, such as amd64 or arm64."),
    field("swap", 11, NodeSwapStatus, pointer=True, doc="Figures about swap memory."),
), doc="NodeSystemInfo describes the machine and its software.")
ContainerImage = Struct("io.k8s.api.core.v1.ContainerImage", lambda: (
    field("names", 1, ListOf(STRING), omit=False, doc="References by which the image is known, with tag or digest."),
    field("sizeBytes", 2, INT64, doc="Size of the image, in bytes."),
), doc="ContainerImage is an image that a node has.")
AttachedVolume = Struct("io.k8s.api.core.v1.AttachedVolume", lambda: (
    field("name", 1, UniqueVolumeName, omit=False, required=True, doc="Name of the volume, unique among all volumes."),
    field("devicePath", 2, STRING, omit=False, required=True,
        doc="Path of the device under which the volume is available."),
), doc="AttachedVolume is a volume that is attached to a node.")
NodeConfigStatus = Struct("io.k8s.api.core.v1.NodeConfigStatus", lambda: (
    field("assigned", 1, NodeConfigSource, pointer=True, doc="Configuration that the kubelet was to use next."),
    field("active", 2, NodeConfigSource, pointer=True, doc="Configuration that the kubelet used."),
    field("lastKnownGood", 3, NodeConfigSource, pointer=True,
        doc="Configuration that the kubelet would have fallen back to."),
    field("error", 4, STRING, doc="Why the assigned configuration was not used."),
), doc="NodeConfigStatus reported which configuration a kubelet used; it is not written any more.")
NodeRuntimeHandlerFeatures = Struct("io.k8s.api.core.v1.NodeRuntimeHandlerFeatures", lambda: (
    field("recursiveReadOnlyMounts", 1, BOOL, pointer=True,
        doc="True when mounts can be read-only with all mounts below."),
    field("userNamespaces", 2, BOOL, pointer=True, doc="True when pods can have user namespaces of their own."),
), doc="NodeRuntimeHandlerFeatures lists the features of a runtime handler.")
NodeRuntimeHandler = Struct("io.k8s.api.core.v1.NodeRuntimeHandler", lambda: (
    field("name", 1, STRING, omit=False,
        doc="Name of the handler, as RuntimeClasses use it; empty for the default one."),
    field("features", 2, NodeRuntimeHandlerFeatures, pointer=True, doc="Features of the handler."),
), doc="NodeRuntimeHandler is one handler of the container runtime.")
NodeFeatures = Struct("io.k8s.api.core.v1.NodeFeatures", lambda: (
    field("supplementalGroupsPolicy", 1, BOOL, pointer=True,
        doc="True when containers can have the supplemental groups policy Strict."),
), doc="NodeFeatures lists the features of the container runtime for all handlers.")
NodeStatus = Struct("io.k8s.api.core.v1.NodeStatus", lambda: (
    field("capacity", 1, ResourceList, doc="Amount of each resource that the node has."),
    field("allocatable", 2, ResourceList,
        doc="Amount of each resource that pods can have: the capacity without what is kept for the system."),
    field("phase", 3, NodePhase, doc="Deprecated: it is not written any more. See conditions."),
    field("conditions", 4, ListOf(NodeCondition, "map", ("type",), merge_key="type"),
        doc="Latest conditions, at most one of each type."),
    field("addresses", 5, ListOf(NodeAddress, "map", ("type",), merge_key="type"),
        doc="Addresses of the node, at most one of each type for merging patches."),
    field("daemonEndpoints", 6, NodeDaemonEndpoints, omit=False, doc="Ports of the programs that run the node."),
    field("nodeInfo", 7, NodeSystemInfo, omit=False, doc="The machine and its software."),
    field("images", 8, ListOf(ContainerImage),
        doc="Images that the node has, the largest ones if there are many; the scheduler prefers nodes that have a "
            "pod's images."),
    field("volumesInUse", 9, ListOf(UniqueVolumeName),
        doc="Volumes that pods of the node use; they must not be detached."),
    field("volumesAttached", 10, ListOf(AttachedVolume), doc="Volumes that are attached to the node."),
    field("config", 11, NodeConfigStatus, pointer=True,
        doc="Deprecated: state of the kubelet's configuration. It is not written any more."),
    field("runtimeHandlers", 12, ListOf(NodeRuntimeHandler),
        doc="Handlers of the container runtime and what each supports."),
    field("features", 13, NodeFeatures, pointer=True, gate="SupplementalGroupsPolicy",
        doc="Features of the container runtime for all handlers."),
    field("declaredFeatures", 14, ListOf(STRING), gate="NodeDeclaredFeatures",
        doc="Features that the node declares to have, in order; the scheduler compares them with what a pod needs."),
), doc="NodeStatus is the report of a node.")
Node = Struct("io.k8s.api.core.v1.Node", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
    field("spec", 2, NodeSpec, omit=False, doc="Settings of the node."),
    field("status", 3, NodeStatus, omit=False, doc="Report of the node."),
), gvk=("", "v1", "Node"), doc="Node is a machine that runs pods.")

NodeList = list_of(Node)
