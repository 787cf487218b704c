"""Ingress, IngressClass and NetworkPolicy of networking.k8s.io/v1."""

from __future__ import annotations

from apiserver.api.schema.language import INT32, INT_OR_STRING, STRING, ListOf, Struct, field, string
from apiserver.api.schema.limits import FIXED, Limits, between
from apiserver.api.schema.markers import Enum, Forbidden, Required, UntilError, equals
from apiserver.api.types.core.containers import PORT_OR_NAME, Protocol
from apiserver.api.types.core.references import TypedLocalObjectReference
from apiserver.api.types.meta import TYPE_META, LabelSelector, ObjectMeta, list_of

PolicyType = string("v1.PolicyType", "Egress", "Ingress")
PathType = string("v1.PathType", "Exact", "ImplementationSpecific", "Prefix")

IPBlock = Struct("io.k8s.api.networking.v1.IPBlock", lambda: (
    field("cidr", 1, STRING, omit=False, required=True,
        doc="The range in CIDR notation, such as 192.168.1.0/24 or 2001:db8::/64."),
    field("except", 2, ListOf(STRING), doc="Ranges inside of cidr that are left out."),
), doc="IPBlock is a range of addresses with exceptions.")
NetworkPolicyPort = Struct("io.k8s.api.networking.v1.NetworkPolicyPort", lambda: (
    field("protocol", 1, Protocol, pointer=True, fills="TCP", limits=Limits(values=("TCP", "UDP", "SCTP")),
        doc="TCP (the default), UDP or SCTP."),
    field("port", 2, INT_OR_STRING, pointer=True, limits=PORT_OR_NAME,
        doc="Port of the pod by number or name; all ports of the protocol when not set."),
    field("endPort", 3, INT32, pointer=True, limits=between(1, 65535),
        doc="Last port of a range that begins with port, which is a number then."),
), doc="NetworkPolicyPort is a port, or a range of ports, that traffic may use.")
NetworkPolicyPeer = Struct("io.k8s.api.networking.v1.NetworkPolicyPeer", lambda: (
    field("podSelector", 1, LabelSelector, pointer=True,
        doc="Labels of pods, in the namespaces of namespaceSelector or, without that, of the policy."),
    field("namespaceSelector", 2, LabelSelector, pointer=True,
        doc="Labels of namespaces, all of whose pods are meant unless podSelector chooses among them."),
    field("ipBlock", 3, IPBlock, pointer=True, doc="Addresses, usually outside of the cluster."),
), doc="NetworkPolicyPeer selects sources or destinations of traffic; ipBlock excludes the other fields.")
NetworkPolicyIngressRule = Struct("io.k8s.api.networking.v1.NetworkPolicyIngressRule", lambda: (
    field("ports", 1, ListOf(NetworkPolicyPort), doc="Allowed ports; all when empty."),
    field("from", 2, ListOf(NetworkPolicyPeer), doc="Allowed sources; all when empty."),
), doc="NetworkPolicyIngressRule allows traffic to pods that matches both ports and from.")
NetworkPolicyEgressRule = Struct("io.k8s.api.networking.v1.NetworkPolicyEgressRule", lambda: (
    field("ports", 1, ListOf(NetworkPolicyPort), doc="Allowed ports; all when empty."),
    field("to", 2, ListOf(NetworkPolicyPeer), doc="Allowed destinations; all when empty."),
), doc="NetworkPolicyEgressRule allows traffic from pods that matches both ports and to.")
NetworkPolicySpec = Struct("io.k8s.api.networking.v1.NetworkPolicySpec", lambda: (
    field("podSelector", 1, LabelSelector, omit=False,
        doc="Labels of the affected pods; all pods of the namespace when empty."),
    field("ingress", 2, ListOf(NetworkPolicyIngressRule),
        doc="Rules for incoming traffic, any of which allows it; none is allowed when empty."),
    field("egress", 3, ListOf(NetworkPolicyEgressRule),
        doc="Rules for outgoing traffic, any of which allows it; none is allowed when empty, if policyTypes has "
            "Egress."),
    field("policyTypes", 4, ListOf(PolicyType),
        doc="Ingress, Egress or both; when not set, Ingress, and Egress if it has rules."),
), doc="NetworkPolicySpec selects pods and their allowed traffic.")
NetworkPolicy = Struct("io.k8s.api.networking.v1.NetworkPolicy", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
    field("spec", 2, NetworkPolicySpec, omit=False, doc="Allowed traffic."),
), gvk=("networking.k8s.io", "v1", "NetworkPolicy"),
    doc="NetworkPolicy limits the network traffic of a namespace's pods.")
ServiceBackendPort = Struct("io.k8s.api.networking.v1.ServiceBackendPort", lambda: (
    field("name", 1, STRING, limits=Limits(format="port-name"), doc="Name of the port."),
    field("number", 2, INT32, limits=between(1, 65535, empty=False), doc="Number of the port."),
), atomic=True, doc="ServiceBackendPort names a port of a service: by name or by number.")
IngressServiceBackend = Struct("io.k8s.api.networking.v1.IngressServiceBackend", lambda: (
    field("name", 1, STRING, omit=False, required=True, doc="Name of the service, in the ingress's namespace."),
    field("port", 2, ServiceBackendPort, omit=False, doc="Port of the service."),
), doc="IngressServiceBackend is a service that gets requests.")
IngressBackend = Struct("io.k8s.api.networking.v1.IngressBackend", lambda: (
    field("service", 4, IngressServiceBackend, pointer=True, doc="The service."),
    field("resource", 3, TypedLocalObjectReference, pointer=True,
        doc="Another object of the ingress's namespace, for the ingress's controller to understand."),
), doc="IngressBackend is the receiver of requests: either a service or another object.")
HTTPIngressPath = Struct("io.k8s.api.networking.v1.HTTPIngressPath", lambda: (
    field("path", 1, STRING,
        doc="Path of the request, beginning with a slash; all paths when empty, with pathType ImplementationSpecific."),
    field("pathType", 3, PathType, omit=False, pointer=True, required=True,
        doc="Exact, Prefix (by whole elements of the path) or ImplementationSpecific."),
    field("backend", 2, IngressBackend, omit=False, required=True, doc="Receiver of the requests."),
), doc="HTTPIngressPath sends the requests of a path to a backend.")
HTTPIngressRuleValue = Struct("io.k8s.api.networking.v1.HTTPIngressRuleValue", lambda: (
    field("paths", 1, ListOf(HTTPIngressPath), omit=False, required=True, keep_empty=True, limits=Limits(required=True),
        doc="Paths, at least one."),
), doc="HTTPIngressRuleValue lists the paths of a host.")
IngressRuleValue = Struct("io.k8s.api.networking.v1.IngressRuleValue", lambda: (
    field("http", 1, HTTPIngressRuleValue, pointer=True, doc="Paths and their backends."),
), doc="IngressRuleValue has the paths of a host.")
IngressRule = Struct("io.k8s.api.networking.v1.IngressRule", lambda: (
    field("host", 1, STRING, limits=Limits(format="host"),
        doc="Name of the host, such as foo.example.com or *.example.com; all hosts when empty."),
    field("", 2, IngressRuleValue, inline=True),
), doc="IngressRule has the paths and backends of one host.")
IngressTLS = Struct("io.k8s.api.networking.v1.IngressTLS", lambda: (
    field("hosts", 1, ListOf(STRING), limits=Limits(format="host"),
        doc="Hosts of the certificate; those of the ingress's controller when empty."),
    field("secretName", 2, STRING, limits=Limits(format="subdomain"), doc="Secret with the certificate and its key."),
), doc="IngressTLS names the certificate of some hosts.")
IngressSpec = Struct("io.k8s.api.networking.v1.IngressSpec", lambda: (
    field("ingressClassName", 4, STRING, pointer=True, limits=Limits(format="subdomain"),
        doc="IngressClass whose controller handles the ingress; the default class when not set."),
    field("defaultBackend", 1, IngressBackend, pointer=True, doc="Receiver of the requests that no rule matches."),
    field("tls", 2, ListOf(IngressTLS), doc="Certificates for the hosts."),
    field("rules", 3, ListOf(IngressRule), keep_empty=True, doc="Rules by host."),
), doc="IngressSpec routes requests from outside the cluster.")
IngressPortStatus = Struct("io.k8s.api.networking.v1.IngressPortStatus", lambda: (
    field("port", 1, INT32, omit=False, required=True, doc="Port number of the load balancer."),
    field("protocol", 2, Protocol, omit=False, required=True, doc="TCP, UDP or SCTP."),
    field("error", 3, STRING, pointer=True, doc="Error of the port as a CamelCase word or example.com/Word."),
), doc="IngressPortStatus reports on a port of a load balancer.")
IngressLoadBalancerIngress = Struct("io.k8s.api.networking.v1.IngressLoadBalancerIngress", lambda: (
    field("ip", 1, STRING, doc="Address of the load balancer, if it is known by address."),
    field("hostname", 2, STRING, limits=Limits(format="host-name"),
        doc="DNS name of the load balancer, if it is known by name."),
    field("ports", 4, ListOf(IngressPortStatus), doc="Report on each port."),
), doc="IngressLoadBalancerIngress is one address of a load balancer.")
IngressLoadBalancerStatus = Struct("io.k8s.api.networking.v1.IngressLoadBalancerStatus", lambda: (
    field("ingress", 1, ListOf(IngressLoadBalancerIngress), doc="Addresses of the load balancer."),
), doc="IngressLoadBalancerStatus lists the addresses of a load balancer.")
IngressStatus = Struct("io.k8s.api.networking.v1.IngressStatus", lambda: (
    field("loadBalancer", 1, IngressLoadBalancerStatus, omit=False, doc="Addresses of the ingress."),
), doc="IngressStatus has the addresses of an ingress.")
Ingress = Struct("io.k8s.api.networking.v1.Ingress", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
    field("spec", 2, IngressSpec, omit=False, doc="Rules and backends."),
    field("status", 3, IngressStatus, omit=False, doc="Addresses in use."),
), gvk=("networking.k8s.io", "v1", "Ingress"),
    doc="Ingress sends HTTP requests from outside the cluster to services inside.")
IngressClassParametersReference = Struct("io.k8s.api.networking.v1.IngressClassParametersReference", lambda: (
    field("apiGroup", 1, STRING, pointer=True, limits=Limits(format="subdomain"),
        doc="API group of the object; the core group when not set."),
    field("kind", 2, STRING, omit=False, required=True, limits=Limits(required=True, format="path-segment"),
        doc="Kind of the object."),
    field("name", 3, STRING, omit=False, required=True, limits=Limits(required=True, format="path-segment"),
        doc="Name of the object."),
    field("scope", 4, STRING, omit=False, pointer=True, fills="Cluster", doc="Cluster (the default) or Namespace."),
    field("namespace", 5, STRING, pointer=True, limits=Limits(format="dns-label"),
        doc="Namespace of the object, only for scope Namespace."),
), doc="IngressClassParametersReference names an object with parameters of a class.", rules=(
    "apiGroup",
    "kind",
    "name",
    UntilError((
        Required("scope"),
        Enum("scope", ("Cluster", "Namespace")),
        Forbidden("namespace", "`parameters.scope` is set to 'Cluster'", when=equals("scope", "Cluster")),
        Required("namespace", "`parameters.scope` is set to 'Namespace'", when=equals("scope", "Namespace")),
        "namespace",
    )),
))
IngressClassSpec = Struct("io.k8s.api.networking.v1.IngressClassSpec", lambda: (
    field("controller", 1, STRING, limits=Limits(length=250, immutable=FIXED),
        doc="Controller that handles ingresses of the class, such as acme.io/ingress-controller; fixed."),
    field("parameters", 2, IngressClassParametersReference, pointer=True,
        doc="Object with further parameters for the controller."),
), doc="IngressClassSpec names the controller of a class.")
IngressClass = Struct("io.k8s.api.networking.v1.IngressClass", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
    field("spec", 2, IngressClassSpec, omit=False, doc="Controller of the class and its parameters."),
), gvk=("networking.k8s.io", "v1", "IngressClass"),
    doc="IngressClass names a kind of ingress controller that ingresses may choose.")

NetworkPolicyList = list_of(NetworkPolicy)
IngressList = list_of(Ingress)
IngressClassList = list_of(IngressClass)
