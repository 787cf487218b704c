"""APIService of apiregistration.k8s.io/v1."""

from __future__ import annotations

from apiserver.api.schema.language import BOOL, BYTES, INT32, STRING, TIME, ListOf, Struct, field, string
from apiserver.api.schema.limits import Limits
from apiserver.api.schema.markers import Required
from apiserver.api.types.meta import TYPE_META, ObjectMeta, list_of

APIServiceConditionType = string("v1.APIServiceConditionType")
ConditionStatus = string("v1.ConditionStatus")

ServiceReference = Struct("io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.ServiceReference", lambda: (
    field("namespace", 1, STRING, doc="Namespace of the service."),
    field("name", 2, STRING, doc="Name of the service."),
    field("port", 3, INT32, pointer=True, fills=443,
        limits=Limits(least=1, most=65535, words="port is not valid: must be between 1 and 65535, inclusive"),
        doc="Port of the service, 443 when not set."),
), doc="ServiceReference names a service that serves an API.",
    rules=(Required("namespace"), Required("name"), "port"))
APIServiceSpec = Struct("io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIServiceSpec", lambda: (
    field("service", 1, ServiceReference, pointer=True,
        doc="The service that serves it; this server itself when not set."),
    field("group", 2, STRING, limits=Limits(format="subdomain"), doc="The API group."),
    field("version", 3, STRING, limits=Limits(format="dns-1035-label", empty=True), doc="The version of the group."),
    field("insecureSkipTLSVerify", 4, BOOL, doc="True to take any certificate of the service."),
    field("caBundle", 5, BYTES, atomic=True,
        doc="Authorities that the service's certificate may be of, in PEM and base64; the system's when not set."),
    field("groupPriorityMinimum", 7, INT32, omit=False, required=True,
        limits=Limits(least=1, most=20000, words="must be positive and less than 20000"),
        doc="Where the group stands in lists, at least: the highest first, 1 to 20000."),
    field("versionPriority", 8, INT32, omit=False, required=True,
        limits=Limits(least=1, most=1000, words="must be positive and less than 1000"),
        doc="Where the version stands among those of its group: the highest first, 1 to 1000."),
), doc="APIServiceSpec says who serves a group and version, and where it stands among others.")
APIServiceCondition = Struct("io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIServiceCondition", lambda: (
    field("type", 1, APIServiceConditionType, omit=False, required=True, doc="What it is about: Available."),
    field("status", 2, ConditionStatus, omit=False, required=True, doc="True, False or Unknown."),
    field("lastTransitionTime", 3, TIME, omit=False, doc="When status changed last."),
    field("reason", 4, STRING, doc="Why, as a CamelCase word."),
    field("message", 5, STRING, doc="Why, for people."),
), doc="APIServiceCondition says something of an API's state.")
APIServiceStatus = Struct("io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIServiceStatus", lambda: (
    field("conditions", 1, ListOf(APIServiceCondition, "map", ("type",), merge_key="type"),
        doc="Latest conditions, at most one of each type."),
), doc="APIServiceStatus says whether an API is there.")
APIService = Struct("io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIService", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
    field("spec", 2, APIServiceSpec, omit=False, doc="Who serves it."),
    field("status", 3, APIServiceStatus, omit=False, doc="Whether it is there."),
), gvk=("apiregistration.k8s.io", "v1", "APIService"), doc="APIService says who serves an API group and version.")

APIServiceList = list_of(APIService)
