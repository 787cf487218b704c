"""Service of core/v1."""

from __future__ import annotations

from apiserver.api.schema.language import BOOL, INT32, INT_OR_STRING, STRING, ListOf, MapOf, Struct, field, string
from apiserver.api.schema.limits import Limits, between
from apiserver.api.types.core.containers import PORT_OR_NAME, Protocol
from apiserver.api.types.meta import TYPE_META, Condition, ObjectMeta, list_of

ServiceType = string("v1.ServiceType", "ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
ServiceAffinity = string("v1.ServiceAffinity", "ClientIP", "None")
ServiceExternalTrafficPolicy = string("v1.ServiceExternalTrafficPolicy", "Cluster", "Local")
IPFamily = string("v1.IPFamily", "", "IPv4", "IPv6")
IPFamilyPolicy = string("v1.IPFamilyPolicy", "PreferDualStack", "RequireDualStack", "SingleStack")
ServiceInternalTrafficPolicy = string("v1.ServiceInternalTrafficPolicy", "Cluster", "Local")
LoadBalancerIPMode = string("v1.LoadBalancerIPMode")

ServicePort = Struct("io.k8s.api.core.v1.ServicePort", lambda: (
    field("name", 1, STRING, limits=Limits(format="dns-label"),
        doc="Name of the port: a DNS label, unique in the service; may be empty if there is only one."),
    field("protocol", 2, Protocol, default="TCP", limits=Limits(required=True), doc="TCP (the default), UDP or SCTP."),
    field("appProtocol", 6, STRING, pointer=True, limits=Limits(format="label-key"),
        doc="Application protocol of the port, such as http or kubernetes.io/h2c."),
    field("port", 3, INT32, omit=False, required=True, limits=between(1, 65535),
        doc="Port of the service, 1 to 65535."),
    field("targetPort", 4, INT_OR_STRING, omit=False, limits=PORT_OR_NAME,
        doc="Port of the pods, as a number or by the name that it has there; equal to port when not set."),
    field("nodePort", 5, INT32,
        doc="Port of every node for the types NodePort and LoadBalancer, 30000 to 32767 by default; chosen when not "
            "set."),
), doc="ServicePort is one port of a service.")
ClientIPConfig = Struct("io.k8s.api.core.v1.ClientIPConfig", lambda: (
    field("timeoutSeconds", 1, INT32, pointer=True,
        limits=Limits(least=1, most=86400, words="must be greater than 0 and less than 86400"),
        doc="Seconds for which a client keeps its pod, 1 to 86400; 10800 (3 hours) when not set."),
), doc="ClientIPConfig configures affinity by the client's address.")
SessionAffinityConfig = Struct("io.k8s.api.core.v1.SessionAffinityConfig", lambda: (
    field("clientIP", 1, ClientIPConfig, pointer=True, doc="For sessionAffinity ClientIP."),
), doc="SessionAffinityConfig configures session affinity.")
ServiceSpec = Struct("io.k8s.api.core.v1.ServiceSpec", lambda: (
    field("ports", 1, ListOf(ServicePort, "map", ("port", "protocol"), merge_key="port"),
        doc="Ports of the service; required but for headless services and ExternalName."),
    field("selector", 2, MapOf(STRING, atomic=True),
        doc="Labels of the pods that get the traffic; when empty, the endpoints are not managed by Kubernetes."),
    field("clusterIP", 3, STRING,
        doc="Address of the service in the cluster; chosen when not set. None makes a headless service, without an "
            "address."),
    field("clusterIPs", 18, ListOf(STRING),
        doc="Addresses of the service in the cluster, at most one of each IP family; the first is equal to clusterIP."),
    field("type", 4, ServiceType, limits=Limits(required=True),
        doc="Type of the service: ClusterIP (the default), NodePort, LoadBalancer or ExternalName."),
    field("externalIPs", 5, ListOf(STRING),
        doc="Addresses outside of the cluster's control whose traffic nodes also take for this service."),
    field("sessionAffinity", 7, ServiceAffinity, limits=Limits(required=True),
        doc="ClientIP to send a client to the same pod each time; None when not set."),
    field("loadBalancerIP", 8, STRING,
        doc="Deprecated: address that the load balancer should have, where the provider supports it."),
    field("loadBalancerSourceRanges", 9, ListOf(STRING),
        doc="Address ranges in CIDR notation from which the load balancer accepts clients; all when empty."),
    field("externalName", 10, STRING, doc="DNS name that the service is an alias of; required for ExternalName."),
    field("externalTrafficPolicy", 11, ServiceExternalTrafficPolicy,
        doc="Cluster (the default) sends traffic from outside to any pod, Local only to pods of the node that got it, "
            "keeping the client's address."),
    field("healthCheckNodePort", 12, INT32, limits=between(1, 65535, empty=False),
        doc="Port of every node for health checks of a load balancer, for externalTrafficPolicy Local; chosen when not "
            "set."),
    field("publishNotReadyAddresses", 13, BOOL,
        doc="True to publish the addresses of pods that are not ready as well; false when not set."),
    field("sessionAffinityConfig", 14, SessionAffinityConfig, pointer=True, doc="Settings of session affinity."),
    field("ipFamilies", 19, ListOf(IPFamily),
        doc="IP families of the service in order, such as IPv4; chosen when not set. The first is fixed."),
    field("ipFamilyPolicy", 17, IPFamilyPolicy, pointer=True,
        doc="SingleStack (the default), PreferDualStack for both families if the cluster has them, or "
            "RequireDualStack."),
    field("allocateLoadBalancerNodePorts", 20, BOOL, pointer=True,
        doc="Whether a LoadBalancer service gets node ports; true when not set."),
    field("loadBalancerClass", 21, STRING, pointer=True, limits=Limits(format="label-key"),
        doc="Which implementation provides the load balancer, such as example.com/internal; the default one when not "
            "set. Fixed once set."),
    field("internalTrafficPolicy", 22, ServiceInternalTrafficPolicy, pointer=True,
        doc="Cluster (the default) sends traffic from inside to any pod, Local only to pods of the same node."),
    field("trafficDistribution", 23, STRING, pointer=True,
        doc="Which endpoints are preferred: PreferSameZone (PreferClose is its old name) or PreferSameNode; no "
            "preference when not set."),
), doc="ServiceSpec has the selector, the ports and the addresses of a service.")
PortStatus = Struct("io.k8s.api.core.v1.PortStatus", lambda: (
    field("port", 1, INT32, omit=False, required=True, doc="Port number of the load balancer."),
    field("protocol", 2, Protocol, omit=False, required=True, doc="TCP, UDP or SCTP."),
    field("error", 3, STRING, pointer=True, doc="Error of the port as a CamelCase word or example.com/Word."),
), doc="PortStatus reports on a port of a load balancer.")
LoadBalancerIngress = Struct("io.k8s.api.core.v1.LoadBalancerIngress", lambda: (
    field("ip", 1, STRING, doc="Address of the load balancer, if it is known by address."),
    field("hostname", 2, STRING, limits=Limits(format="host-name"),
        doc="DNS name of the load balancer, if it is known by name."),
    field("ipMode", 3, LoadBalancerIPMode, pointer=True,
        doc="VIP (the default) when packets arrive with the load balancer's address, Proxy when with a node's or "
            "pod's. Needs ip."),
    field("ports", 4, ListOf(PortStatus), doc="Report on each port."),
), doc="LoadBalancerIngress is one address of a load balancer.")
LoadBalancerStatus = Struct("io.k8s.api.core.v1.LoadBalancerStatus", lambda: (
    field("ingress", 1, ListOf(LoadBalancerIngress), doc="Addresses of the load balancer; empty until there is one."),
), doc="LoadBalancerStatus lists the addresses of a load balancer.")
ServiceStatus = Struct("io.k8s.api.core.v1.ServiceStatus", lambda: (
    field("loadBalancer", 1, LoadBalancerStatus, omit=False, doc="The load balancer of a service of that type."),
    field("conditions", 2, ListOf(Condition, "map", ("type",), merge_key="type"),
        doc="Latest conditions, at most one of each type."),
), doc="ServiceStatus is the state of a service.")
Service = Struct("io.k8s.api.core.v1.Service", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
    field("spec", 2, ServiceSpec, omit=False, doc="Selector, ports and addresses."),
    field("status", 3, ServiceStatus, omit=False, doc="State of the service."),
), gvk=("", "v1", "Service"), doc="Service gives a set of pods one stable address and name.")

ServiceList = list_of(Service)
