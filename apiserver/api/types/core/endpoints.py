"""Endpoints of core/v1."""

from __future__ import annotations

from apiserver.api.schema import INT32, STRING, ListOf, Struct, field
from apiserver.api.types.core.containers import Protocol
from apiserver.api.types.core.references import ObjectReference
from apiserver.api.types.meta import TYPE_META, ObjectMeta, list_of

EndpointAddress = Struct("io.k8s.api.core.v1.EndpointAddress", lambda: (
    field("ip", 1, STRING, omit=False, required=True),
    field("hostname", 3, STRING),
    field("nodeName", 4, STRING, pointer=True),
    field("targetRef", 2, ObjectReference, pointer=True),
), atomic=True)
EndpointPort = Struct("io.k8s.api.core.v1.EndpointPort", lambda: (
    field("name", 1, STRING),
    field("port", 2, INT32, omit=False, required=True),
    field("protocol", 3, Protocol),
    field("appProtocol", 4, STRING, pointer=True),
), atomic=True)
EndpointSubset = Struct("io.k8s.api.core.v1.EndpointSubset", lambda: (
    field("addresses", 1, ListOf(EndpointAddress)),
    field("notReadyAddresses", 2, ListOf(EndpointAddress)),
    field("ports", 3, ListOf(EndpointPort)),
))
Endpoints = Struct("io.k8s.api.core.v1.Endpoints", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False),
    field("subsets", 2, ListOf(EndpointSubset)),
), gvk=("", "v1", "Endpoints"))

EndpointsList = list_of(Endpoints)
