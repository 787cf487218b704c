"""IPAddress and ServiceCIDR of networking.k8s.io: v1 and v1beta1, with the same fields."""

from __future__ import annotations

from apiserver.api.schema.language import STRING, ListOf, Struct, field
from apiserver.api.schema.limits import FIXED, Limits
from apiserver.api.types.meta import TYPE_META, Condition, ObjectMeta, list_of

__all__ = ["V1", "V1BETA1", "Family"]


_REQUIRED = Limits(required=True, format="path-segment")


class Family:
    """The types of one version."""

    def __init__(self, version: str) -> None:
        prefix = f"io.k8s.api.networking.{version}."
        self.ParentReference = Struct(prefix + "ParentReference", lambda: (
            field("group", 1, STRING, limits=Limits(format="subdomain"), doc="API group of the object."),
            field("resource", 2, STRING, required=True, limits=_REQUIRED, doc="Resource of the object, in the plural."),
            field("namespace", 3, STRING, limits=Limits(format="path-segment"), doc="Namespace of the object."),
            field("name", 4, STRING, required=True, limits=_REQUIRED, doc="Name of the object."),
        ), doc="ParentReference names the object that has an address.",
            rules=("group", "resource", "name", "namespace"))
        self.IPAddressSpec = Struct(prefix + "IPAddressSpec", lambda: (
            field("parentRef", 1, self.ParentReference, pointer=True, required=True,
                limits=Limits(required=True, immutable=FIXED),
                doc="Object that has the address; fixed."),
        ), doc="IPAddressSpec names the object that an address belongs to.")
        self.IPAddress = Struct(prefix + "IPAddress", lambda: (
            TYPE_META,
            field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
            field("spec", 2, self.IPAddressSpec, omit=False, required=True,
                doc="The object that the address belongs to."),
        ), gvk=("networking.k8s.io", version, "IPAddress"),
            doc="IPAddress is an address in use. Its name is the address in canonical form.")
        self.ServiceCIDRSpec = Struct(prefix + "ServiceCIDRSpec", lambda: (
            field("cidrs", 1, ListOf(STRING), keep_empty=True,
                doc="Ranges in CIDR notation, one or one of each IP family; only a second family may be added later."),
        ), doc="ServiceCIDRSpec lists ranges of addresses.")
        self.ServiceCIDRStatus = Struct(prefix + "ServiceCIDRStatus", lambda: (
            field("conditions", 1, ListOf(Condition, "map", ("type",), merge_key="type"),
                doc="Latest conditions, at most one of each type."),
        ), doc="ServiceCIDRStatus reports whether a range is in use.")
        self.ServiceCIDR = Struct(prefix + "ServiceCIDR", lambda: (
            TYPE_META,
            field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
            field("spec", 2, self.ServiceCIDRSpec, omit=False, doc="The ranges."),
            field("status", 3, self.ServiceCIDRStatus, omit=False, doc="Whether they are in use."),
        ), gvk=("networking.k8s.io", version, "ServiceCIDR"),
            doc="ServiceCIDR lists the ranges that service addresses are allocated from.")
        self.IPAddressList = list_of(self.IPAddress)
        self.ServiceCIDRList = list_of(self.ServiceCIDR)


V1 = Family("v1")
V1BETA1 = Family("v1beta1")
