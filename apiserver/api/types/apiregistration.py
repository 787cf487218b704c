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
        doc="Service of the API server; this server itself when not set."),
    field("group", 2, STRING, limits=Limits(format="subdomain"), doc="The API group."),
    field("version", 3, STRING, limits=Limits(format="dns-1035-label", empty=True), doc="The version of the group."),
    field("insecureSkipTLSVerify", 4, BOOL, doc="True to accept any certificate of the service."),
    field("caBundle", 5, BYTES, atomic=True,
        doc="Certificate authorities for the service's certificate, in PEM and base64; the system's when not set."),
    field("groupPriorityMinimum", 7, INT32, omit=False, required=True,
        limits=Limits(least=1, most=20000, words="must be positive and less than 20000"),
        doc="Least priority of the group in lists, 1 to 20000; the highest is first."),
    field("versionPriority", 8, INT32, omit=False, required=True,
        limits=Limits(least=1, most=1000, words="must be positive and less than 1000"),
        doc="Priority of the version in its group, 1 to 1000; the highest is first."),
), doc="APIServiceSpec names the server of a group and version, and its priority in discovery.")
APIServiceCondition = Struct("io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIServiceCondition", lambda: (
    field("type", 1, APIServiceConditionType, omit=False, required=True, doc="Aspect: Available."),
    field("status", 2, ConditionStatus, omit=False, required=True, doc="True, False or Unknown."),
    field("lastTransitionTime", 3, TIME, omit=False, doc="Time of the last change of status."),
    field("reason", 4, STRING, doc="Reason as one CamelCase word, for programs."),
    field("message", 5, STRING, doc="Reason as text, for people."),
), doc="APIServiceCondition is one aspect of an API's state.")
APIServiceStatus = Struct("io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIServiceStatus", lambda: (
    field("conditions", 1, ListOf(APIServiceCondition, "map", ("type",), merge_key="type"),
        doc="Latest conditions, at most one of each type."),
), doc="APIServiceStatus reports whether an API is available.")
APIService = Struct("io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIService", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
    field("spec", 2, APIServiceSpec, omit=False, doc="The server of the API."),
    field("status", 3, APIServiceStatus, omit=False, doc="Availability of the API."),
), gvk=("apiregistration.k8s.io", "v1", "APIService"), doc="APIService registers the server of an API group and "
    "version.")

APIServiceList = list_of(APIService)
