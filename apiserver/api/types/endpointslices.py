"""EndpointSlice of discovery.k8s.io/v1."""

from __future__ import annotations

from apiserver.api.features.gated_fields import gated
from apiserver.api.schema.language import BOOL, INT32, STRING, ListOf, MapOf, Struct, field, string
from apiserver.api.schema.limits import FIXED, Limits
from apiserver.api.types.core.containers import Protocol
from apiserver.api.types.core.references import ObjectReference
from apiserver.api.types.meta import TYPE_META, ObjectMeta, list_of

AddressType = string("v1.AddressType", "FQDN", "IPv4", "IPv6")

EndpointConditions = Struct("io.k8s.api.discovery.v1.EndpointConditions", lambda: (
    field("ready", 1, BOOL, pointer=True,
        doc="Whether the endpoint should get traffic: it is serving and not terminating, or its service "
            "publishes it anyway. Not set means true."),
    field("serving", 2, BOOL, pointer=True,
        doc="Whether the endpoint can take traffic, even while it is terminating. Not set means true."),
    field("terminating", 3, BOOL, pointer=True, doc="Whether the endpoint is terminating. Not set means false."),
), doc="EndpointConditions reports whether an endpoint takes traffic.")
ForZone = Struct("io.k8s.api.discovery.v1.ForZone", lambda: (
    field("name", 1, STRING, omit=False, required=True, doc="Name of the zone."),
), doc="ForZone names a zone.")
ForNode = Struct("io.k8s.api.discovery.v1.ForNode", lambda: (
    field("name", 1, STRING, omit=False, required=True, doc="Name of the node."),
), doc="ForNode names a node.")
EndpointHints = Struct("io.k8s.api.discovery.v1.EndpointHints", lambda: (
    field("forZones", 1, ListOf(ForZone), limits=Limits(items=8),
        doc="Zones whose traffic the endpoint should get, at most 8."),
    field("forNodes", 2, ListOf(ForNode), limits=Limits(items=8), gate=gated("PreferSameTrafficDistribution", "object"),
        doc="Nodes whose traffic the endpoint should get, at most 8."),
), doc="EndpointHints has the zones and nodes whose traffic an endpoint should get.")
Endpoint = Struct("io.k8s.api.discovery.v1.Endpoint", lambda: (
    field("addresses", 1, ListOf(STRING, "set"), omit=False, required=True,
        limits=Limits(required="must contain at least 1 address", items=100),
        doc="Addresses of the endpoint, 1 to 100; only the first one is used."),
    field("conditions", 2, EndpointConditions, omit=False, doc="Whether the endpoint takes traffic."),
    field("hostname", 3, STRING, pointer=True, limits=Limits(format="dns-label"),
        doc="Host name of the endpoint, for records in DNS."),
    field("targetRef", 4, ObjectReference, pointer=True, doc="Object that the endpoint belongs to, usually a pod."),
    field("deprecatedTopology", 5, MapOf(STRING),
        doc="Topology labels of the endpoint, from a removed API version; writes to it are dropped."),
    field("nodeName", 6, STRING, pointer=True, limits=Limits(format="subdomain"), doc="Node of the endpoint."),
    field("zone", 7, STRING, pointer=True, doc="Zone of the endpoint."),
    field("hints", 8, EndpointHints, pointer=True, doc="Zones and nodes that should send traffic to the endpoint."),
), doc="Endpoint is one destination of a service's traffic.")
EndpointPort = Struct("io.k8s.api.discovery.v1.EndpointPort", lambda: (
    field("name", 1, STRING, pointer=True, fills="", limits=Limits(format="dns-label", empty=False),
        doc="Name of the port: empty or a DNS label, unique in the slice; that of the service's port."),
    field("protocol", 2, Protocol, pointer=True, fills="TCP", doc="TCP (the default), UDP or SCTP."),
    field("port", 3, INT32, pointer=True, doc="Port number of the endpoints; all ports when not set."),
    field("appProtocol", 4, STRING, pointer=True, limits=Limits(format="label-key"),
        doc="Application protocol of the port, such as http or kubernetes.io/h2c."),
), atomic=True, doc="EndpointPort is a port of every endpoint of a slice.")
EndpointSlice = Struct("io.k8s.api.discovery.v1.EndpointSlice", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
    field("addressType", 4, AddressType, omit=False, required=True, limits=Limits(required=True, immutable=FIXED),
        doc="Type of the addresses: IPv4, IPv6, or FQDN (deprecated); fixed."),
    field("endpoints", 2, ListOf(Endpoint), omit=False, limits=Limits(items=1000), doc="Endpoints, at most 1000."),
    field("ports", 3, ListOf(EndpointPort), omit=False, limits=Limits(items=20000),
        doc="Ports of every endpoint, each with a name of its own."),
), gvk=("discovery.k8s.io", "v1", "EndpointSlice"), doc="EndpointSlice has some of the endpoints of a service.")

EndpointSliceList = list_of(EndpointSlice)
