"""Types of apidiscovery.k8s.io/v2: aggregated discovery."""

from __future__ import annotations

from apiserver.api.schema import STRING, ListOf, Struct, field
from apiserver.api.types.meta import TYPE_META, ListMeta, ObjectMeta

GroupVersionKind = Struct("io.k8s.apimachinery.pkg.apis.meta.v1.GroupVersionKind", lambda: (
    field("group", 1, STRING, omit=False),
    field("version", 2, STRING, omit=False),
    field("kind", 3, STRING, omit=False),
))
APISubresourceDiscovery = Struct("io.k8s.api.apidiscovery.v2.APISubresourceDiscovery", lambda: (
    field("subresource", 1, STRING, omit=False),
    field("responseKind", 2, GroupVersionKind, pointer=True),
    field("acceptedTypes", 3, ListOf(GroupVersionKind)),
    field("verbs", 4, ListOf(STRING), omit=False),
))
APIResourceDiscovery = Struct("io.k8s.api.apidiscovery.v2.APIResourceDiscovery", lambda: (
    field("resource", 1, STRING, omit=False),
    field("responseKind", 2, GroupVersionKind, pointer=True),
    field("scope", 3, STRING, omit=False),
    field("singularResource", 4, STRING, omit=False),
    field("verbs", 5, ListOf(STRING), omit=False),
    field("shortNames", 6, ListOf(STRING)),
    field("categories", 7, ListOf(STRING)),
    field("subresources", 8, ListOf(APISubresourceDiscovery)),
))
APIVersionDiscovery = Struct("io.k8s.api.apidiscovery.v2.APIVersionDiscovery", lambda: (
    field("version", 1, STRING, omit=False),
    field("resources", 2, ListOf(APIResourceDiscovery)),
    field("freshness", 3, STRING),
))
APIGroupDiscovery = Struct("io.k8s.api.apidiscovery.v2.APIGroupDiscovery", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False),
    field("versions", 2, ListOf(APIVersionDiscovery)),
))
APIGroupDiscoveryList = Struct("io.k8s.api.apidiscovery.v2.APIGroupDiscoveryList", lambda: (
    TYPE_META,
    field("metadata", 1, ListMeta, omit=False),
    field("items", 2, ListOf(APIGroupDiscovery), omit=False),
))
