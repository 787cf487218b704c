"""FlowSchema and PriorityLevelConfiguration of flowcontrol.apiserver.k8s.io/v1."""

from __future__ import annotations

from apiserver.api.schema.language import BOOL, INT32, STRING, TIME, ListOf, Struct, field, string
from apiserver.api.schema.limits import Limits, between
from apiserver.api.schema.markers import Enum, Forbidden, If, Required, Union, UntilError, differs, equals
from apiserver.api.types.meta import TYPE_META, ObjectMeta, list_of

SubjectKind = string("v1.SubjectKind")
FlowDistinguisherMethodType = string("v1.FlowDistinguisherMethodType")
FlowSchemaConditionType = string("v1.FlowSchemaConditionType")
ConditionStatus = string("v1.ConditionStatus")
LimitResponseType = string("v1.LimitResponseType")
PriorityLevelEnablement = string("v1.PriorityLevelEnablement")
PriorityLevelConfigurationConditionType = string("v1.PriorityLevelConfigurationConditionType")

_VERBS = Limits(required="verbs must contain at least one value")
_SHARES = Limits(least=0, words="must be a non-negative integer")
#: Subjects by their kinds, in the order in which they are checked.
_SUBJECTS = {"ServiceAccount": "serviceAccount", "User": "user", "Group": "group"}
UserSubject = Struct("io.k8s.api.flowcontrol.v1.UserSubject", lambda: (
    field("name", 1, STRING, omit=False, required=True, limits=Limits(required=True),
        doc="Name of the user; * for all."),
), doc="UserSubject means one user.")
GroupSubject = Struct("io.k8s.api.flowcontrol.v1.GroupSubject", lambda: (
    field("name", 1, STRING, omit=False, required=True, limits=Limits(required=True),
        doc="Name of the group; * for all."),
), doc="GroupSubject means the users of a group.")
ServiceAccountSubject = Struct("io.k8s.api.flowcontrol.v1.ServiceAccountSubject", lambda: (
    field("namespace", 1, STRING, omit=False, required=True,
        limits=Limits(required="must specify namespace for service account", format="dns-label"),
        doc="Namespace of the accounts."),
    field("name", 2, STRING, omit=False, required=True, limits=Limits(required=True, format="subdomain"),
        doc="Name of the account; * for all of the namespace."),
), doc="ServiceAccountSubject means service accounts.", rules=(
    If(differs("name", "*"), ("name",)),
    "namespace",
))
Subject = Struct("io.k8s.api.flowcontrol.v1.Subject", lambda: (
    field("kind", 1, SubjectKind, omit=False, required=True, doc="User, Group or ServiceAccount."),
    field("user", 2, UserSubject, pointer=True, doc="For kind User."),
    field("group", 3, GroupSubject, pointer=True, doc="For kind Group."),
    field("serviceAccount", 4, ServiceAccountSubject, pointer=True, doc="For kind ServiceAccount."),
), union=("kind", ("group", "serviceAccount", "user")),
    doc="Subject is a user, a group or a service account; only the field of its kind is set.", rules=(
    Enum("kind", ("Group", "ServiceAccount", "User")),
    *(Required(field, f"{field} is required when subject kind is '{kind}'", when=equals("kind", kind))
        for kind, field in _SUBJECTS.items()),
    *(If(equals("kind", kind), (field,)) for kind, field in _SUBJECTS.items()),
    If(equals("kind", *_SUBJECTS), tuple(
        Forbidden(field, f"{field} is forbidden when subject kind is not '{kind}'", when=differs("kind", kind))
        for kind, field in _SUBJECTS.items()
    )),
))
ResourcePolicyRule = Struct("io.k8s.api.flowcontrol.v1.ResourcePolicyRule", lambda: (
    field("verbs", 1, ListOf(STRING, "set"), omit=False, required=True, limits=_VERBS, doc="Verbs; only * for all."),
    field("apiGroups", 2, ListOf(STRING, "set"), omit=False, required=True,
        limits=Limits(required="resource rules must supply at least one api group"),
        doc="API groups; only * for all."),
    field("resources", 3, ListOf(STRING, "set"), omit=False, required=True,
        limits=Limits(required="resource rules must supply at least one resource"),
        doc="Resources in the plural, with their subresources as in pods/status; only * for all."),
    field("clusterScope", 4, BOOL, doc="True to match requests that name no namespace."),
    field("namespaces", 5, ListOf(STRING, "set"), omit=False, doc="Namespaces; only * for all."),
), doc="ResourcePolicyRule matches requests for resources.")
NonResourcePolicyRule = Struct("io.k8s.api.flowcontrol.v1.NonResourcePolicyRule", lambda: (
    field("verbs", 1, ListOf(STRING, "set"), omit=False, required=True, limits=_VERBS, doc="Verbs; only * for all."),
    field("nonResourceURLs", 6, ListOf(STRING, "set"), omit=False, required=True,
        limits=Limits(required="nonResourceURLs must contain at least one value"),
        doc="Paths such as /healthz or /healthz/*; only * for all."),
), doc="NonResourcePolicyRule matches requests for paths that are no resources.")
PolicyRulesWithSubjects = Struct("io.k8s.api.flowcontrol.v1.PolicyRulesWithSubjects", lambda: (
    field("subjects", 1, ListOf(Subject), omit=False, required=True,
        limits=Limits(required="subjects must contain at least one value"),
        doc="Users, groups and service accounts, any of which matches; at least one."),
    field("resourceRules", 2, ListOf(ResourcePolicyRule), doc="Requested resources, any of which matches."),
    field("nonResourceRules", 3, ListOf(NonResourcePolicyRule),
        doc="Other requested paths, any of which matches."),
), doc="PolicyRulesWithSubjects matches requests by their user and target.", rules=(
    "subjects",
    Union(("resourceRules", "nonResourceRules"),
        none=Required("", "at least one of resourceRules and nonResourceRules has to be non-empty")),
    "resourceRules",
    "nonResourceRules",
))
FlowDistinguisherMethod = Struct("io.k8s.api.flowcontrol.v1.FlowDistinguisherMethod", lambda: (
    field("type", 1, FlowDistinguisherMethodType, omit=False, required=True, doc="ByUser or ByNamespace."),
), doc="FlowDistinguisherMethod divides the requests of a schema into flows.")
PriorityLevelConfigurationReference = Struct("io.k8s.api.flowcontrol.v1.PriorityLevelConfigurationReference", lambda: (
    field("name", 1, STRING, omit=False, required=True,
        limits=Limits(required="must reference a priority level", format="subdomain"),
        doc="Name of the level."),
), doc="PriorityLevelConfigurationReference names a priority level.")
FlowSchemaSpec = Struct("io.k8s.api.flowcontrol.v1.FlowSchemaSpec", lambda: (
    field("priorityLevelConfiguration", 1, PriorityLevelConfigurationReference, omit=False, required=True,
        doc="Level of the requests that match."),
    field("matchingPrecedence", 2, INT32, omit=False, fills=1000,
        limits=Limits(least=1, most=10000, words="must be a positive value",
            most_words="must not be greater than 10000"),
        doc="Of the schemas that match a request the one with the lowest number counts, 1 to 10000; 1000 when "
            "not set."),
    field("distinguisherMethod", 3, FlowDistinguisherMethod, pointer=True,
        doc="How the requests are divided into flows; one flow when not set."),
    field("rules", 4, ListOf(PolicyRulesWithSubjects),
        doc="Requests that match, by any of the rules; none when empty."),
), doc="FlowSchemaSpec assigns matching requests to a priority level.")
FlowSchemaCondition = Struct("io.k8s.api.flowcontrol.v1.FlowSchemaCondition", lambda: (
    field("type", 1, FlowSchemaConditionType, doc="Aspect: Dangling."),
    field("status", 2, ConditionStatus, doc="True, False or Unknown."),
    field("lastTransitionTime", 3, TIME, omit=False, doc="Time of the last change of status."),
    field("reason", 4, STRING, doc="Reason as one CamelCase word, for programs."),
    field("message", 5, STRING, doc="Reason as text, for people."),
), doc="FlowSchemaCondition is one aspect of a schema's state.")
FlowSchemaStatus = Struct("io.k8s.api.flowcontrol.v1.FlowSchemaStatus", lambda: (
    field("conditions", 1, ListOf(FlowSchemaCondition, "map", ("type",), merge_key="type"),
        doc="Latest conditions, at most one of each type."),
), doc="FlowSchemaStatus is the state of a schema.")
FlowSchema = Struct("io.k8s.api.flowcontrol.v1.FlowSchema", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
    field("spec", 2, FlowSchemaSpec, omit=False, doc="Requests and their level."),
    field("status", 3, FlowSchemaStatus, omit=False, doc="State of the schema."),
), gvk=("flowcontrol.apiserver.k8s.io", "v1", "FlowSchema"), doc="FlowSchema assigns requests to a priority level.")
QueuingConfiguration = Struct("io.k8s.api.flowcontrol.v1.QueuingConfiguration", lambda: (
    field("queues", 1, INT32, omit=False, fills=64,
        limits=Limits(least=1, most=10_000_000, words="must be positive",
            most_words="must not be greater than 10000000"),
        doc="Number of queues, 64 when not set."),
    field("handSize", 2, INT32, omit=False, fills=8, limits=Limits(least=1, words="must be positive"),
        doc="Number of queues from which a flow takes the shortest, 8 when not set, at most the value of queues."),
    field("queueLengthLimit", 3, INT32, omit=False, fills=50, limits=Limits(least=1, words="must be positive"),
        doc="Requests that may wait in one queue, 50 when not set."),
), doc="QueuingConfiguration has the settings of the queues.")
LimitResponse = Struct("io.k8s.api.flowcontrol.v1.LimitResponse", lambda: (
    field("type", 1, LimitResponseType, omit=False, required=True, limits=Limits(values=("Queue", "Reject")),
        doc="Queue or Reject."),
    field("queuing", 2, QueuingConfiguration, pointer=True, doc="Queue settings, for type Queue."),
), union=("type", ("queuing",)), doc="LimitResponse decides about requests that cannot be served immediately.",
    rules=(
    UntilError((
        "type",
        Forbidden("queuing", "must be nil if limited.limitResponse.type is not Limited", when=equals("type", "Reject")),
        Required("queuing", "must not be empty if limited.limitResponse.type is Limited", when=equals("type", "Queue")),
        "queuing",
    )),
))
LimitedPriorityLevelConfiguration = Struct("io.k8s.api.flowcontrol.v1.LimitedPriorityLevelConfiguration", lambda: (
    field("nominalConcurrencyShares", 1, INT32, omit=False, pointer=True, fills=30, limits=_SHARES,
        doc="Share of the server's seats, beside those of other levels; 30 when not set."),
    field("limitResponse", 2, LimitResponse, omit=False, doc="Treatment of further requests."),
    field("lendablePercent", 3, INT32, pointer=True, fills=0, limits=between(0, 100),
        doc="Percent of its seats that other levels may borrow, 0 to 100."),
    field("borrowingLimitPercent", 4, INT32, pointer=True,
        limits=Limits(least=0, words="if specified, must be a non-negative integer"),
        doc="Percent of its seats that it may borrow at most; without a bound when not set."),
), doc="LimitedPriorityLevelConfiguration limits the concurrent requests of a level.")
ExemptPriorityLevelConfiguration = Struct("io.k8s.api.flowcontrol.v1.ExemptPriorityLevelConfiguration", lambda: (
    field("nominalConcurrencyShares", 1, INT32, pointer=True, fills=0, limits=_SHARES,
        doc="Share of the server's seats that is set aside, 0 when not set."),
    field("lendablePercent", 2, INT32, pointer=True, fills=0, limits=between(0, 100),
        doc="Percent of these seats that other levels may borrow, 0 to 100."),
), doc="ExemptPriorityLevelConfiguration has the seats that an exempt level lends.")
PriorityLevelConfigurationSpec = Struct("io.k8s.api.flowcontrol.v1.PriorityLevelConfigurationSpec", lambda: (
    field("type", 1, PriorityLevelEnablement, omit=False, required=True,
        doc="Limited, or Exempt, which only the level exempt has."),
    field("limited", 2, LimitedPriorityLevelConfiguration, pointer=True, doc="For type Limited."),
    field("exempt", 3, ExemptPriorityLevelConfiguration, pointer=True, doc="For type Exempt."),
), union=("type", ("exempt", "limited")),
    doc="PriorityLevelConfigurationSpec has the limits of a level.")
PriorityLevelConfigurationCondition = Struct("io.k8s.api.flowcontrol.v1.PriorityLevelConfigurationCondition", lambda: (
    field("type", 1, PriorityLevelConfigurationConditionType, doc="Aspect that the condition is about."),
    field("status", 2, ConditionStatus, doc="True, False or Unknown."),
    field("lastTransitionTime", 3, TIME, omit=False, doc="Time of the last change of status."),
    field("reason", 4, STRING, doc="Reason as one CamelCase word, for programs."),
    field("message", 5, STRING, doc="Reason as text, for people."),
), doc="PriorityLevelConfigurationCondition is one aspect of a level's state.")
PriorityLevelConfigurationStatus = Struct("io.k8s.api.flowcontrol.v1.PriorityLevelConfigurationStatus", lambda: (
    field("conditions", 1, ListOf(PriorityLevelConfigurationCondition, "map", ("type",), merge_key="type"),
        doc="Latest conditions, at most one of each type."),
), doc="PriorityLevelConfigurationStatus is the state of a level.")
PriorityLevelConfiguration = Struct("io.k8s.api.flowcontrol.v1.PriorityLevelConfiguration", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
    field("spec", 2, PriorityLevelConfigurationSpec, omit=False, doc="Limits of the level."),
    field("status", 3, PriorityLevelConfigurationStatus, omit=False, doc="State of the level."),
), gvk=("flowcontrol.apiserver.k8s.io", "v1", "PriorityLevelConfiguration"),
    doc="PriorityLevelConfiguration is a priority level.")

FlowSchemaList = list_of(FlowSchema)
PriorityLevelConfigurationList = list_of(PriorityLevelConfiguration)
