"""Types of meta/v1: object and list metadata, statuses, options, label selectors, conditions, discovery and tables.

The facts (names, numbers, what is written when empty, list kinds) are those of k8s.io/apimachinery; so in all modules
here.
"""

from __future__ import annotations

from apiserver.api.schema import (
    ANY,
    BOOL,
    FIELDS_V1,
    INT32,
    INT64,
    RAW,
    STRING,
    TIME,
    Field,
    ListOf,
    MapOf,
    Struct,
    field,
    string,
)

UID = string("types.UID")
ManagedFieldsOperationType = string("v1.ManagedFieldsOperationType")
LabelSelectorOperator = string("v1.LabelSelectorOperator")
ConditionStatus = string("v1.ConditionStatus")
DeletionPropagation = string("v1.DeletionPropagation")
CauseType = string("v1.CauseType")
StatusReason = string("v1.StatusReason")
RowConditionType = string("v1.RowConditionType")
Verbs = ListOf(STRING, "", go="v1.Verbs")

ShardInfo = Struct("io.k8s.apimachinery.pkg.apis.meta.v1.ShardInfo", lambda: (
    field("selector", 1, STRING, omit=False, required=True),
))
TypeMeta = Struct("io.k8s.apimachinery.pkg.apis.meta.v1.TypeMeta", lambda: (
    field("kind", 1, STRING),
    field("apiVersion", 2, STRING),
))
#: What every top-level kind begins with; protobuf carries it outside of the object, hence no number.
TYPE_META: Field = field("", 0, TypeMeta, inline=True)

ListMeta = Struct("io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta", lambda: (
    field("selfLink", 1, STRING),
    field("resourceVersion", 2, STRING),
    field("continue", 3, STRING),
    field("remainingItemCount", 4, INT64, pointer=True),
    field("shardInfo", 5, ShardInfo, pointer=True, gate="ShardedListAndWatch"),
))
OwnerReference = Struct("io.k8s.apimachinery.pkg.apis.meta.v1.OwnerReference", lambda: (
    field("apiVersion", 5, STRING, omit=False, required=True),
    field("kind", 1, STRING, omit=False, required=True),
    field("name", 3, STRING, omit=False, required=True),
    field("uid", 4, UID, omit=False, required=True),
    field("controller", 6, BOOL, pointer=True),
    field("blockOwnerDeletion", 7, BOOL, pointer=True),
), atomic=True)
ManagedFieldsEntry = Struct("io.k8s.apimachinery.pkg.apis.meta.v1.ManagedFieldsEntry", lambda: (
    field("manager", 1, STRING),
    field("operation", 2, ManagedFieldsOperationType),
    field("apiVersion", 3, STRING),
    field("time", 4, TIME, pointer=True),
    field("fieldsType", 6, STRING),
    field("fieldsV1", 7, FIELDS_V1, pointer=True),
    field("subresource", 8, STRING),
))
ObjectMeta = Struct("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", lambda: (
    field("name", 1, STRING),
    field("generateName", 2, STRING),
    field("namespace", 3, STRING),
    field("selfLink", 4, STRING),
    field("uid", 5, UID),
    field("resourceVersion", 6, STRING),
    field("generation", 7, INT64),
    field("creationTimestamp", 8, TIME),
    field("deletionTimestamp", 9, TIME, pointer=True),
    field("deletionGracePeriodSeconds", 10, INT64, pointer=True),
    field("labels", 11, MapOf(STRING)),
    field("annotations", 12, MapOf(STRING)),
    field("ownerReferences", 13, ListOf(OwnerReference, "map", ("uid",), merge_key="uid")),
    field("finalizers", 14, ListOf(STRING, "set", merge_key="")),
    field("managedFields", 17, ListOf(ManagedFieldsEntry)),
))
LabelSelectorRequirement = Struct("io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelectorRequirement", lambda: (
    field("key", 1, STRING, omit=False, required=True),
    field("operator", 2, LabelSelectorOperator, omit=False, required=True),
    field("values", 3, ListOf(STRING)),
))
LabelSelector = Struct("io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector", lambda: (
    field("matchLabels", 1, MapOf(STRING)),
    field("matchExpressions", 2, ListOf(LabelSelectorRequirement)),
), atomic=True)
Condition = Struct("io.k8s.apimachinery.pkg.apis.meta.v1.Condition", lambda: (
    field("type", 1, STRING, omit=False, required=True),
    field("status", 2, ConditionStatus, omit=False, required=True),
    field("observedGeneration", 3, INT64),
    field("lastTransitionTime", 4, TIME, omit=False, required=True),
    field("reason", 5, STRING, omit=False, required=True),
    field("message", 6, STRING, omit=False, required=True),
))
Preconditions = Struct("io.k8s.apimachinery.pkg.apis.meta.v1.Preconditions", lambda: (
    field("uid", 1, UID, pointer=True),
    field("resourceVersion", 2, STRING, pointer=True),
))
DeleteOptions = Struct("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions", lambda: (
    TYPE_META,
    field("gracePeriodSeconds", 1, INT64, pointer=True),
    field("preconditions", 2, Preconditions, pointer=True),
    field("orphanDependents", 3, BOOL, pointer=True),
    field("propagationPolicy", 4, DeletionPropagation, pointer=True),
    field("dryRun", 5, ListOf(STRING)),
    field("ignoreStoreReadErrorWithClusterBreakingPotential", 6, BOOL, pointer=True),
))
StatusCause = Struct("io.k8s.apimachinery.pkg.apis.meta.v1.StatusCause", lambda: (
    field("reason", 1, CauseType),
    field("message", 2, STRING),
    field("field", 3, STRING),
))
StatusDetails = Struct("io.k8s.apimachinery.pkg.apis.meta.v1.StatusDetails", lambda: (
    field("name", 1, STRING),
    field("group", 2, STRING),
    field("kind", 3, STRING),
    field("uid", 6, UID),
    field("causes", 4, ListOf(StatusCause)),
    field("retryAfterSeconds", 5, INT32),
))
Status = Struct("io.k8s.apimachinery.pkg.apis.meta.v1.Status", lambda: (
    TYPE_META,
    field("metadata", 1, ListMeta, omit=False),
    field("status", 2, STRING),
    field("message", 3, STRING),
    field("reason", 4, StatusReason),
    field("details", 5, StatusDetails, pointer=True),
    field("code", 6, INT32),
))
ServerAddressByClientCIDR = Struct("io.k8s.apimachinery.pkg.apis.meta.v1.ServerAddressByClientCIDR", lambda: (
    field("clientCIDR", 1, STRING, omit=False, required=True),
    field("serverAddress", 2, STRING, omit=False, required=True),
))
GroupVersionForDiscovery = Struct("io.k8s.apimachinery.pkg.apis.meta.v1.GroupVersionForDiscovery", lambda: (
    field("groupVersion", 1, STRING, omit=False, required=True),
    field("version", 2, STRING, omit=False, required=True),
))
APIGroup = Struct("io.k8s.apimachinery.pkg.apis.meta.v1.APIGroup", lambda: (
    TYPE_META,
    field("name", 1, STRING, omit=False, required=True),
    field("versions", 2, ListOf(GroupVersionForDiscovery), omit=False, required=True),
    field("preferredVersion", 3, GroupVersionForDiscovery, omit=False),
    field("serverAddressByClientCIDRs", 4, ListOf(ServerAddressByClientCIDR)),
))
APIGroupList = Struct("io.k8s.apimachinery.pkg.apis.meta.v1.APIGroupList", lambda: (
    TYPE_META,
    field("groups", 1, ListOf(APIGroup), omit=False, required=True),
))
APIVersions = Struct("io.k8s.apimachinery.pkg.apis.meta.v1.APIVersions", lambda: (
    TYPE_META,
    field("versions", 1, ListOf(STRING), omit=False, required=True),
    field("serverAddressByClientCIDRs", 2, ListOf(ServerAddressByClientCIDR), omit=False, required=True),
))
APIResource = Struct("io.k8s.apimachinery.pkg.apis.meta.v1.APIResource", lambda: (
    field("name", 1, STRING, omit=False, required=True),
    field("singularName", 6, STRING, omit=False, required=True),
    field("namespaced", 2, BOOL, omit=False, required=True),
    field("group", 8, STRING),
    field("version", 9, STRING),
    field("kind", 3, STRING, omit=False, required=True),
    field("verbs", 4, Verbs, omit=False, required=True),
    field("shortNames", 5, ListOf(STRING)),
    field("categories", 7, ListOf(STRING)),
    field("storageVersionHash", 10, STRING),
))
APIResourceList = Struct("io.k8s.apimachinery.pkg.apis.meta.v1.APIResourceList", lambda: (
    TYPE_META,
    field("groupVersion", 1, STRING, omit=False, required=True),
    field("resources", 2, ListOf(APIResource), omit=False, required=True),
))
TableColumnDefinition = Struct("io.k8s.apimachinery.pkg.apis.meta.v1.TableColumnDefinition", lambda: (
    field("name", 0, STRING, omit=False),
    field("type", 0, STRING, omit=False),
    field("format", 0, STRING, omit=False),
    field("description", 0, STRING, omit=False),
    field("priority", 0, INT32, omit=False),
))
TableRowCondition = Struct("io.k8s.apimachinery.pkg.apis.meta.v1.TableRowCondition", lambda: (
    field("type", 0, RowConditionType, omit=False),
    field("status", 0, ConditionStatus, omit=False),
    field("reason", 0, STRING),
    field("message", 0, STRING),
))
TableRow = Struct("io.k8s.apimachinery.pkg.apis.meta.v1.TableRow", lambda: (
    field("cells", 0, ListOf(ANY), omit=False),
    field("conditions", 0, ListOf(TableRowCondition)),
    field("object", 0, RAW, omit=False),
))
Table = Struct("io.k8s.apimachinery.pkg.apis.meta.v1.Table", lambda: (
    TYPE_META,
    field("metadata", 0, ListMeta, omit=False),
    field("columnDefinitions", 0, ListOf(TableColumnDefinition), omit=False),
    field("rows", 0, ListOf(TableRow), omit=False),
))
PartialObjectMetadata = Struct("io.k8s.apimachinery.pkg.apis.meta.v1.PartialObjectMetadata", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False),
))
PartialObjectMetadataList = Struct("io.k8s.apimachinery.pkg.apis.meta.v1.PartialObjectMetadataList", lambda: (
    TYPE_META,
    field("metadata", 1, ListMeta, omit=False),
    field("items", 2, ListOf(PartialObjectMetadata, ""), omit=False),
))


def list_of(kind: Struct) -> Struct:
    """The list type of a top-level kind."""
    gvk = (kind.gvk[0], kind.gvk[1], kind.gvk[2] + "List") if kind.gvk else None
    return Struct(kind.name + "List", lambda: (
        TYPE_META,
        field("metadata", 1, ListMeta, omit=False),
        field("items", 2, ListOf(kind, ""), omit=False, required=True),
    ), gvk=gvk, doc=f"{kind.kind}List is a list of {kind.kind} objects.")


#: One event of a watch; the server writes it without building it.
WatchEvent = Struct("io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent", lambda: (
    field("type", 1, STRING, omit=False, required=True),
    field("object", 2, RAW, omit=False, required=True),
))
#: The body of a PATCH: whatever its media type says.
Patch = Struct("io.k8s.apimachinery.pkg.apis.meta.v1.Patch", ())
