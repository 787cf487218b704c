"""Service of core/v1."""

from __future__ import annotations

from apiserver.api.schema import BOOL, INT32, INT_OR_STRING, STRING, ListOf, MapOf, Struct, field, string
from apiserver.api.types.core.containers import Protocol
from apiserver.api.types.meta import TYPE_META, Condition, ObjectMeta, list_of

ServiceType = string("v1.ServiceType", "ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
ServiceAffinity = string("v1.ServiceAffinity", "ClientIP", "None")
ServiceExternalTrafficPolicy = string("v1.ServiceExternalTrafficPolicy", "Cluster", "Local")
IPFamily = string("v1.IPFamily", "", "IPv4", "IPv6")
IPFamilyPolicy = string("v1.IPFamilyPolicy", "PreferDualStack", "RequireDualStack", "SingleStack")
ServiceInternalTrafficPolicy = string("v1.ServiceInternalTrafficPolicy", "Cluster", "Local")
LoadBalancerIPMode = string("v1.LoadBalancerIPMode")

ServicePort = Struct("io.k8s.api.core.v1.ServicePort", lambda: (
    field("name", 1, STRING),
    field("protocol", 2, Protocol, default="TCP"),
    field("appProtocol", 6, STRING, pointer=True),
    field("port", 3, INT32, omit=False, required=True),
    field("targetPort", 4, INT_OR_STRING, omit=False),
    field("nodePort", 5, INT32),
))
ClientIPConfig = Struct("io.k8s.api.core.v1.ClientIPConfig", lambda: (
    field("timeoutSeconds", 1, INT32, pointer=True),
))
SessionAffinityConfig = Struct("io.k8s.api.core.v1.SessionAffinityConfig", lambda: (
    field("clientIP", 1, ClientIPConfig, pointer=True),
))
ServiceSpec = Struct("io.k8s.api.core.v1.ServiceSpec", lambda: (
    field("ports", 1, ListOf(ServicePort, "map", ("port", "protocol"), merge_key="port")),
    field("selector", 2, MapOf(STRING, atomic=True)),
    field("clusterIP", 3, STRING),
    field("clusterIPs", 18, ListOf(STRING)),
    field("type", 4, ServiceType),
    field("externalIPs", 5, ListOf(STRING)),
    field("sessionAffinity", 7, ServiceAffinity),
    field("loadBalancerIP", 8, STRING),
    field("loadBalancerSourceRanges", 9, ListOf(STRING)),
    field("externalName", 10, STRING),
    field("externalTrafficPolicy", 11, ServiceExternalTrafficPolicy),
    field("healthCheckNodePort", 12, INT32),
    field("publishNotReadyAddresses", 13, BOOL),
    field("sessionAffinityConfig", 14, SessionAffinityConfig, pointer=True),
    field("ipFamilies", 19, ListOf(IPFamily)),
    field("ipFamilyPolicy", 17, IPFamilyPolicy, pointer=True),
    field("allocateLoadBalancerNodePorts", 20, BOOL, pointer=True),
    field("loadBalancerClass", 21, STRING, pointer=True),
    field("internalTrafficPolicy", 22, ServiceInternalTrafficPolicy, pointer=True),
    field("trafficDistribution", 23, STRING, pointer=True),
))
PortStatus = Struct("io.k8s.api.core.v1.PortStatus", lambda: (
    field("port", 1, INT32, omit=False, required=True),
    field("protocol", 2, Protocol, omit=False, required=True),
    field("error", 3, STRING, pointer=True),
))
LoadBalancerIngress = Struct("io.k8s.api.core.v1.LoadBalancerIngress", lambda: (
    field("ip", 1, STRING),
    field("hostname", 2, STRING),
    field("ipMode", 3, LoadBalancerIPMode, pointer=True),
    field("ports", 4, ListOf(PortStatus)),
))
LoadBalancerStatus = Struct("io.k8s.api.core.v1.LoadBalancerStatus", lambda: (
    field("ingress", 1, ListOf(LoadBalancerIngress)),
))
ServiceStatus = Struct("io.k8s.api.core.v1.ServiceStatus", lambda: (
    field("loadBalancer", 1, LoadBalancerStatus, omit=False),
    field("conditions", 2, ListOf(Condition, "map", ("type",), merge_key="type")),
))
Service = Struct("io.k8s.api.core.v1.Service", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False),
    field("spec", 2, ServiceSpec, omit=False),
    field("status", 3, ServiceStatus, omit=False),
), gvk=("", "v1", "Service"))

ServiceList = list_of(Service)
