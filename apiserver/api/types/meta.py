"""Types of meta/v1: object and list metadata, statuses, options, label selectors, conditions, discovery and tables.

Facts of all modules here (names, numbers, encoding of empty fields, list kinds): k8s.io/apimachinery.
"""

from __future__ import annotations

from apiserver.api.features.gated_fields import gated
from apiserver.api.schema.language import (
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
from apiserver.api.schema.limits import FIXED, Limits
from apiserver.api.schema.markers import If, knows, selector_values

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
    field("selector", 1, STRING, omit=False, required=True, doc="The shard selector of the request."),
), doc="ShardInfo identifies the shard of a list.")
TypeMeta = Struct("io.k8s.apimachinery.pkg.apis.meta.v1.TypeMeta", lambda: (
    field("kind", 1, STRING,
        doc="Kind of the object, in CamelCase; the server infers it from the path when it is not given."),
    field("apiVersion", 2, STRING,
        doc="APIVersion defines the group and version of this representation of the object, such as apps/v1; without a "
            "group for the core group."),
), doc="TypeMeta has the kind and API version of an object.")
#: The first fields of every top-level kind. Protobuf carries them outside of the object, so they have no number.
TYPE_META: Field = field("", 0, TypeMeta, inline=True)

ListMeta = Struct("io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta", lambda: (
    field("selfLink", 1, STRING, doc="Deprecated: always empty."),
    field("resourceVersion", 2, STRING,
        doc="Version of the whole collection at which the list is complete; a watch can start from it. Compare it only "
            "for equality."),
    field("continue", 3, STRING,
        doc="Token for the next page, to be sent back as the parameter continue; empty on the last page."),
    field("remainingItemCount", 4, INT64, pointer=True,
        doc="Estimated number of objects on later pages; not set with a label or field selector, or on the last page."),
    field("shardInfo", 5, ShardInfo, pointer=True, gate=gated("ShardedListAndWatch", "never"),
        doc="Which shard of the collection the list holds; not set when it holds all."),
), doc="ListMeta is the metadata of a list.")
OwnerReference = Struct("io.k8s.apimachinery.pkg.apis.meta.v1.OwnerReference", lambda: (
    field("apiVersion", 5, STRING, omit=False, required=True, doc="Group and version of the owner."),
    field("kind", 1, STRING, omit=False, required=True, doc="Kind of the owner."),
    field("name", 3, STRING, omit=False, required=True, doc="Name of the owner."),
    field("uid", 4, UID, omit=False, required=True, doc="UID of the owner."),
    field("controller", 6, BOOL, pointer=True, doc="True when the owner manages the object; at most one owner does."),
    field("blockOwnerDeletion", 7, BOOL, pointer=True,
        doc="True to keep the owner, when it is deleted in the foreground, until this object is gone."),
), atomic=True,
    doc="OwnerReference points to an object that another one depends on; the dependent is deleted with its last owner.")
ManagedFieldsEntry = Struct("io.k8s.apimachinery.pkg.apis.meta.v1.ManagedFieldsEntry", lambda: (
    field("manager", 1, STRING, doc="Name of the program or person that set the fields."),
    field("operation", 2, ManagedFieldsOperationType, doc="Apply for server-side apply, Update for every other write."),
    field("apiVersion", 3, STRING, doc="Version of the object in which the fields are named."),
    field("time", 4, TIME, pointer=True, doc="When the set of fields last changed."),
    field("fieldsType", 6, STRING, doc="Format of fieldsV1: always FieldsV1."),
    field("fieldsV1", 7, FIELDS_V1, pointer=True,
        doc="The fields as a tree, with f: before names, k: before keys of list items and v: before values of sets."),
    field("subresource", 8, STRING, doc="Subresource through which the fields were set; empty for the object itself."),
), doc="ManagedFieldsEntry lists the fields that one manager has set, by operation and version.")
ObjectMeta = Struct("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", lambda: (
    field("name", 1, STRING, limits=Limits(immutable=FIXED),
        doc="Name of the object, unique among objects of its kind in the namespace, or in the cluster; fixed."),
    field("generateName", 2, STRING,
        doc="Prefix to which five random characters are added to make the name, when name is empty."),
    field("namespace", 3, STRING, limits=Limits(immutable=FIXED),
        doc="Namespace of the object; default when it is not known from the path, empty for objects of the whole "
            "cluster. Fixed."),
    field("selfLink", 4, STRING, doc="Deprecated: always empty."),
    field("uid", 5, UID, limits=Limits(immutable=FIXED),
        doc="Unique ID of the object over all time; set by the server."),
    field("resourceVersion", 6, STRING,
        doc="Version of the object. Compare it only for equality; when it is sent with an update, the update fails if "
            "the object has changed."),
    field("generation", 7, INT64, doc="Number that grows with each change of the desired state; set by the server."),
    field("creationTimestamp", 8, TIME, limits=Limits(immutable=FIXED),
        doc="CreationTimestamp is a timestamp of the object's creation; set by the server."),
    field("deletionTimestamp", 9, TIME, pointer=True, limits=Limits(immutable=FIXED),
        doc="Time at which the grace period ends; set by the server when a deletion begins."),
    field("deletionGracePeriodSeconds", 10, INT64, pointer=True, limits=Limits(immutable=FIXED),
        doc="Seconds of grace that the deletion gives; set together with deletionTimestamp."),
    field("labels", 11, MapOf(STRING), doc="Keys and values by which objects can be selected."),
    field("annotations", 12, MapOf(STRING),
        doc="Keys and values for any further facts, at most 256 KiB together; they cannot be selected by."),
    field("ownerReferences", 13, ListOf(OwnerReference, "map", ("uid",), merge_key="uid"),
        doc="Objects that this one depends on; it is deleted when none of them is left."),
    field("finalizers", 14, ListOf(STRING, "set", merge_key=""),
        doc="Names that must all be removed before a deleted object is gone; controllers add them to do something "
            "first."),
    field("managedFields", 17, ListOf(ManagedFieldsEntry),
        doc="Managers of the fields, for server-side apply; maintained by the server."),
), doc="ObjectMeta is the metadata that every object has.")
IN_NEEDS_VALUES = "must be specified when `operator` is 'In' or 'NotIn'"
EXISTS_HAS_NO_VALUES = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
#: For `env`: values of expressions are not validated, because the stored object has invalid ones.
ANY_VALUE = "any value"
LabelSelectorRequirement = Struct("io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelectorRequirement", lambda: (
    field("key", 1, STRING, omit=False, required=True, limits=Limits(format="label-key"),
        doc="Key of the label."),
    field("operator", 2, LabelSelectorOperator, omit=False, required=True, doc="In, NotIn, Exists or DoesNotExist."),
    field("values", 3, ListOf(STRING), limits=Limits(format="label-value"),
        doc="Values to compare with: at least one for In and NotIn, none for Exists and DoesNotExist."),
), doc="LabelSelectorRequirement is one condition on a label.", rules=(
    selector_values(IN_NEEDS_VALUES, EXISTS_HAS_NO_VALUES),
    "key",
    If(knows(lambda env: env != ANY_VALUE), ("values",)),
))
LabelSelector = Struct("io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector", lambda: (
    field("matchLabels", 1, MapOf(STRING), limits=Limits(format="label-key", value_format="label-value"),
        doc="Labels that an object must have with these values."),
    field("matchExpressions", 2, ListOf(LabelSelectorRequirement), doc="Further conditions on labels."),
), atomic=True,
    doc="LabelSelector selects objects by their labels; all conditions must hold, and an empty one selects every "
        "object.")
Condition = Struct("io.k8s.apimachinery.pkg.apis.meta.v1.Condition", lambda: (
    field("type", 1, STRING, omit=False, required=True,
        doc="Aspect that the condition is about, in CamelCase or as example.com/CamelCase; unique in the list."),
    field("status", 2, ConditionStatus, omit=False, required=True, doc="True, False or Unknown."),
    field("observedGeneration", 3, INT64,
        doc="metadata.generation that the condition reflects; it is outdated if smaller than the object's."),
    field("lastTransitionTime", 4, TIME, omit=False, required=True, doc="Time of the last change of status."),
    field("reason", 5, STRING, omit=False, required=True,
        doc="Reason for the status as one CamelCase word, for programs."),
    field("message", 6, STRING, omit=False, required=True,
        doc="Reason for the status as text, for people; may be empty."),
), doc="Condition is one aspect of an object's state.")
Preconditions = Struct("io.k8s.apimachinery.pkg.apis.meta.v1.Preconditions", lambda: (
    field("uid", 1, UID, pointer=True, doc="UID that the object must have."),
    field("resourceVersion", 2, STRING, pointer=True, doc="Version that the object must have."),
), doc="Preconditions must hold for a deletion, or it fails with a conflict.")
DeleteOptions = Struct("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions", lambda: (
    TYPE_META,
    field("gracePeriodSeconds", 1, INT64, pointer=True,
        doc="Seconds until the object is gone, where its kind has a grace period; 0 for no delay, the object's own "
            "period when not set."),
    field("preconditions", 2, Preconditions, pointer=True, doc="Preconditions of the deletion."),
    field("orphanDependents", 3, BOOL, pointer=True,
        doc="Deprecated: true is propagationPolicy Orphan, false is Background; not allowed together with it."),
    field("propagationPolicy", 4, DeletionPropagation, pointer=True,
        doc="Treatment of dependents: Orphan keeps them, Background deletes them afterwards, Foreground before the "
            "object itself."),
    field("dryRun", 5, ListOf(STRING), doc="With the value All everything is checked, but nothing is deleted."),
    field("ignoreStoreReadErrorWithClusterBreakingPotential", 6, BOOL, pointer=True,
        doc="True to delete an object that can no longer be read from the store, without finalizers and preconditions; "
            "false when not set."),
), doc="DeleteOptions are the options of a deletion.")
StatusCause = Struct("io.k8s.apimachinery.pkg.apis.meta.v1.StatusCause", lambda: (
    field("reason", 1, CauseType, doc="Cause as one CamelCase word for programs, such as FieldValueRequired."),
    field("message", 2, STRING, doc="Cause as text for people."),
    field("field", 3, STRING, doc="Path of the field that caused it, such as spec.containers[0].name."),
), doc="StatusCause is one of several reasons why a request failed.")
StatusDetails = Struct("io.k8s.apimachinery.pkg.apis.meta.v1.StatusDetails", lambda: (
    field("name", 1, STRING, doc="Name of the object that the request was about."),
    field("group", 2, STRING, doc="API group of the object."),
    field("kind", 3, STRING, doc="Kind of the object, or in most cases its plural resource name."),
    field("uid", 6, UID, doc="UID of the object, when there is one of that name."),
    field("causes", 4, ListOf(StatusCause), doc="The single causes."),
    field("retryAfterSeconds", 5, INT32, doc="Seconds to wait before the request is worth repeating."),
), doc="StatusDetails has facts about a failure, by its reason.")
Status = Struct("io.k8s.apimachinery.pkg.apis.meta.v1.Status", lambda: (
    TYPE_META,
    field("metadata", 1, ListMeta, omit=False, doc="Standard list metadata."),
    field("status", 2, STRING, doc="Success or Failure."),
    field("message", 3, STRING, doc="Description as text, for people."),
    field("reason", 4, StatusReason,
        doc="Why the request failed, as one CamelCase word for programs, such as NotFound; empty for success."),
    field("details", 5, StatusDetails, pointer=True, doc="Facts about the failure."),
    field("code", 6, INT32, doc="HTTP status code of the response."),
), doc="Status is the response of a request that has no object to return, such as one that failed.")
ServerAddressByClientCIDR = Struct("io.k8s.apimachinery.pkg.apis.meta.v1.ServerAddressByClientCIDR", lambda: (
    field("clientCIDR", 1, STRING, omit=False, required=True, doc="Address range of the clients, in CIDR notation."),
    field("serverAddress", 2, STRING, omit=False, required=True,
        doc="Address for these clients, as a host name or address with or without a port."),
), doc="ServerAddressByClientCIDR is the address of the server for a range of clients.")
GroupVersionForDiscovery = Struct("io.k8s.apimachinery.pkg.apis.meta.v1.GroupVersionForDiscovery", lambda: (
    field("groupVersion", 1, STRING, omit=False, required=True, doc="Group and version, as group/version."),
    field("version", 2, STRING, omit=False, required=True, doc="The version without the group."),
), doc="GroupVersionForDiscovery is one version of an API group.")
APIGroup = Struct("io.k8s.apimachinery.pkg.apis.meta.v1.APIGroup", lambda: (
    TYPE_META,
    field("name", 1, STRING, omit=False, required=True, doc="Name of the group."),
    field("versions", 2, ListOf(GroupVersionForDiscovery), omit=False, required=True,
        doc="Versions that the server has."),
    field("preferredVersion", 3, GroupVersionForDiscovery, omit=False, doc="Version that clients should use."),
    field("serverAddressByClientCIDRs", 4, ListOf(ServerAddressByClientCIDR),
        doc="Addresses of the server; the one whose range fits the client best is to be used."),
), doc="APIGroup lists the versions of an API group.")
APIGroupList = Struct("io.k8s.apimachinery.pkg.apis.meta.v1.APIGroupList", lambda: (
    TYPE_META,
    field("groups", 1, ListOf(APIGroup), omit=False, required=True,
        doc="The API groups; the core group is not among them."),
), doc="APIGroupList lists the API groups of a server.")
APIVersions = Struct("io.k8s.apimachinery.pkg.apis.meta.v1.APIVersions", lambda: (
    TYPE_META,
    field("versions", 1, ListOf(STRING), omit=False, required=True, doc="Versions of the core group."),
    field("serverAddressByClientCIDRs", 2, ListOf(ServerAddressByClientCIDR), omit=False, required=True,
        doc="Addresses of the server; the one whose range fits the client best is to be used."),
), doc="APIVersions lists the versions of the core group.")
APIResource = Struct("io.k8s.apimachinery.pkg.apis.meta.v1.APIResource", lambda: (
    field("name", 1, STRING, omit=False, required=True,
        doc="Plural name of the resource; with a subresource as pods/status."),
    field("singularName", 6, STRING, omit=False, required=True, doc="Singular name of the resource."),
    field("namespaced", 2, BOOL, omit=False, required=True, doc="True when objects of the resource are in namespaces."),
    field("group", 8, STRING, doc="Group of the kind when it differs from that of the list."),
    field("version", 9, STRING, doc="Version of the kind when it differs from that of the list."),
    field("kind", 3, STRING, omit=False, required=True, doc="Kind of the resource's objects."),
    field("verbs", 4, Verbs, omit=False, required=True,
        doc="Verbs that the resource supports, such as get, list and watch."),
    field("shortNames", 5, ListOf(STRING), doc="Short names for command lines, such as po."),
    field("categories", 7, ListOf(STRING), doc="Groups of resources that it belongs to, such as all."),
    field("storageVersionHash", 10, STRING,
        doc="Hash of the version that objects are stored in; it changes with that version."),
), doc="APIResource describes a resource of a group version.")
APIResourceList = Struct("io.k8s.apimachinery.pkg.apis.meta.v1.APIResourceList", lambda: (
    TYPE_META,
    field("groupVersion", 1, STRING, omit=False, required=True, doc="Group and version that the resources belong to."),
    field("resources", 2, ListOf(APIResource), omit=False, required=True, doc="The resources, subresources included."),
), doc="APIResourceList lists the resources of a group version.")
TableColumnDefinition = Struct("io.k8s.apimachinery.pkg.apis.meta.v1.TableColumnDefinition", lambda: (
    field("name", 0, STRING, omit=False, doc="Title of the column."),
    field("type", 0, STRING, omit=False, doc="OpenAPI type of the cells: string, integer, number, boolean or date."),
    field("format", 0, STRING, omit=False,
        doc="OpenAPI format of the cells; name marks the column with the object's name."),
    field("description", 0, STRING, omit=False, doc="Description of the column."),
    field("priority", 0, INT32, omit=False,
        doc="0 for columns that are always shown, more for those that only a wide output has."),
), doc="TableColumnDefinition describes a column of a table.")
TableRowCondition = Struct("io.k8s.apimachinery.pkg.apis.meta.v1.TableRowCondition", lambda: (
    field("type", 0, RowConditionType, omit=False, doc="Aspect: Completed, for objects that have run to their end."),
    field("status", 0, ConditionStatus, omit=False, doc="True, False or Unknown."),
    field("reason", 0, STRING, doc="Reason for the status as one CamelCase word, for programs."),
    field("message", 0, STRING, doc="Reason for the status as text, for people."),
), doc="TableRowCondition is a hint for showing a row.")
TableRow = Struct("io.k8s.apimachinery.pkg.apis.meta.v1.TableRow", lambda: (
    field("cells", 0, ListOf(ANY), omit=False, doc="Values of the row, one for each column."),
    field("conditions", 0, ListOf(TableRowCondition), doc="Hints for showing the row."),
    field("object", 0, RAW, omit=False,
        doc="The object: its metadata, all of it, or nothing, according to the parameter includeObject."),
), doc="TableRow shows one object.")
Table = Struct("io.k8s.apimachinery.pkg.apis.meta.v1.Table", lambda: (
    TYPE_META,
    field("metadata", 0, ListMeta, omit=False, doc="Standard list metadata."),
    field("columnDefinitions", 0, ListOf(TableColumnDefinition), omit=False, doc="The columns, in order."),
    field("rows", 0, ListOf(TableRow), omit=False, doc="The rows, one for each object."),
), doc="Table shows objects as rows, as kubectl get prints them.")
PartialObjectMetadata = Struct("io.k8s.apimachinery.pkg.apis.meta.v1.PartialObjectMetadata", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
), doc="PartialObjectMetadata is an object of any kind, reduced to its metadata.")
PartialObjectMetadataList = Struct("io.k8s.apimachinery.pkg.apis.meta.v1.PartialObjectMetadataList", lambda: (
    TYPE_META,
    field("metadata", 1, ListMeta, omit=False, doc="Standard list metadata."),
    field("items", 2, ListOf(PartialObjectMetadata, ""), omit=False, doc="The objects."),
), doc="PartialObjectMetadataList is a list of objects, reduced to their metadata.")


def list_of(kind: Struct) -> Struct:
    """Return the list type of a top-level kind."""
    gvk = (kind.gvk[0], kind.gvk[1], kind.gvk[2] + "List") if kind.gvk else None
    return Struct(kind.name + "List", lambda: (
        TYPE_META,
        field("metadata", 1, ListMeta, omit=False,
            doc="Standard list metadata: the version of the list and the token of its next page."),
        field("items", 2, ListOf(kind, ""), omit=False, required=True, doc="Objects of the list."),
    ), gvk=gvk, doc=f"{kind.kind}List is a list of {kind.kind} objects.")


#: One event of a watch. The server writes it without building an object.
WatchEvent = Struct("io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent", lambda: (
    field("type", 1, STRING, omit=False, required=True, doc="ADDED, MODIFIED, DELETED, BOOKMARK or ERROR."),
    field("object", 2, RAW, omit=False, required=True,
        doc="The object as it is after the event, as it last was for DELETED; only a resourceVersion for BOOKMARK, a "
            "Status for ERROR."),
), doc="WatchEvent is one event of a watch.")
#: The body of a PATCH; its media type determines the form.
Patch = Struct("io.k8s.apimachinery.pkg.apis.meta.v1.Patch", (),
    doc="Patch is the body of a PATCH request, in the format that its media type names.")
