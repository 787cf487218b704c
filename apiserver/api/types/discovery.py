"""Types of apidiscovery.k8s.io/v2: aggregated discovery."""

from __future__ import annotations

from apiserver.api.schema.language import STRING, ListOf, Struct, field
from apiserver.api.types.meta import TYPE_META, ListMeta, ObjectMeta

GroupVersionKind = Struct("io.k8s.apimachinery.pkg.apis.meta.v1.GroupVersionKind", lambda: (
    field("group", 1, STRING, omit=False, doc="API group; empty for the core group."),
    field("version", 2, STRING, omit=False, doc="API version."),
    field("kind", 3, STRING, omit=False, doc="Kind in CamelCase."),
), doc="GroupVersionKind names a kind in a version.")
APISubresourceDiscovery = Struct("io.k8s.api.apidiscovery.v2.APISubresourceDiscovery", lambda: (
    field("subresource", 1, STRING, omit=False, doc="Name of the subresource, such as status."),
    field("responseKind", 2, GroupVersionKind, pointer=True, doc="Kind of the subresource's objects."),
    field("acceptedTypes", 3, ListOf(GroupVersionKind),
        doc="Kinds that the subresource takes as body, where it is not responseKind."),
    field("verbs", 4, ListOf(STRING), omit=False, doc="Verbs that the subresource supports."),
), doc="APISubresourceDiscovery describes a subresource.")
APIResourceDiscovery = Struct("io.k8s.api.apidiscovery.v2.APIResourceDiscovery", lambda: (
    field("resource", 1, STRING, omit=False, doc="Plural name of the resource."),
    field("responseKind", 2, GroupVersionKind, pointer=True,
        doc="Kind of the objects that requests for the resource return."),
    field("scope", 3, STRING, omit=False, doc="Namespaced or Cluster."),
    field("singularResource", 4, STRING, omit=False, doc="Singular name of the resource, such as pod."),
    field("verbs", 5, ListOf(STRING), omit=False, doc="Verbs that the resource supports, such as get, list and watch."),
    field("shortNames", 6, ListOf(STRING), doc="Short names for command lines, such as po."),
    field("categories", 7, ListOf(STRING), doc="Groups of resources that it belongs to, such as all."),
    field("subresources", 8, ListOf(APISubresourceDiscovery), doc="Subresources of the resource."),
), doc="APIResourceDiscovery describes a resource.")
APIVersionDiscovery = Struct("io.k8s.api.apidiscovery.v2.APIVersionDiscovery", lambda: (
    field("version", 1, STRING, omit=False, doc="The version, such as v1."),
    field("resources", 2, ListOf(APIResourceDiscovery), doc="Resources of the version."),
    field("freshness", 3, STRING, doc="Current, or Stale when the server of the version could not be reached."),
), doc="APIVersionDiscovery describes a version of an API group.")
APIGroupDiscovery = Struct("io.k8s.api.apidiscovery.v2.APIGroupDiscovery", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
    field("versions", 2, ListOf(APIVersionDiscovery), doc="Versions of the group, the preferred one first."),
), doc="APIGroupDiscovery describes an API group; its name is the group's.")
APIGroupDiscoveryList = Struct("io.k8s.api.apidiscovery.v2.APIGroupDiscoveryList", lambda: (
    TYPE_META,
    field("metadata", 1, ListMeta, omit=False, doc="Standard list metadata."),
    field("items", 2, ListOf(APIGroupDiscovery), omit=False, doc="The groups, the preferred ones first."),
), doc="APIGroupDiscoveryList describes all API groups of a server.")
