"""Endpoints of core/v1."""

from __future__ import annotations

from apiserver.api.schema.language import INT32, STRING, ListOf, Struct, field
from apiserver.api.schema.limits import Limits, between
from apiserver.api.types.core.containers import Protocol
from apiserver.api.types.core.references import ObjectReference
from apiserver.api.types.meta import TYPE_META, ObjectMeta, list_of

EndpointAddress = Struct("io.k8s.api.core.v1.EndpointAddress", lambda: (
    field("ip", 1, STRING, omit=False, required=True,
        doc="IPv4 or IPv6 address; loopback, link-local and multicast addresses are not allowed."),
    field("hostname", 3, STRING, limits=Limits(format="dns-label"),
        doc="Host name of the endpoint, for records in DNS."),
    field("nodeName", 4, STRING, pointer=True, limits=Limits(format="subdomain"),
        doc="Node of the endpoint."),
    field("targetRef", 2, ObjectReference, pointer=True, doc="Object that the address belongs to, usually a pod."),
), atomic=True, doc="EndpointAddress is one address behind a service.")
EndpointPort = Struct("io.k8s.api.core.v1.EndpointPort", lambda: (
    field("name", 1, STRING, limits=Limits(format="dns-label"),
        doc="Name of the service's port; may be empty if there is only one."),
    field("port", 2, INT32, omit=False, required=True, limits=between(1, 65535),
        doc="Port number of the endpoint."),
    field("protocol", 3, Protocol, fills="TCP", limits=Limits(required=True),
        doc="TCP (the default), UDP or SCTP."),
    field("appProtocol", 4, STRING, pointer=True, limits=Limits(format="label-key"),
        doc="Application protocol of the port, such as http or kubernetes.io/h2c."),
), atomic=True, doc="EndpointPort is one port behind a service.")
EndpointSubset = Struct("io.k8s.api.core.v1.EndpointSubset", lambda: (
    field("addresses", 1, ListOf(EndpointAddress), doc="Addresses that are ready for traffic."),
    field("notReadyAddresses", 2, ListOf(EndpointAddress), doc="Addresses that are not ready for traffic."),
    field("ports", 3, ListOf(EndpointPort), doc="Ports of every address here."),
), doc="EndpointSubset is a set of addresses that have the same ports.")
Endpoints = Struct("io.k8s.api.core.v1.Endpoints", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
    field("subsets", 2, ListOf(EndpointSubset), doc="Addresses, grouped by the ports that they have."),
), gvk=("", "v1", "Endpoints"), doc="Endpoints lists the addresses and ports behind the Service of the same name.")

EndpointsList = list_of(Endpoints)
