"""StorageVersion of internal.apiserver.k8s.io/v1alpha1."""

from __future__ import annotations

from apiserver.api.schema.language import INT64, STRING, TIME, ListOf, Struct, field, string
from apiserver.api.types.meta import TYPE_META, ObjectMeta, list_of

StorageVersionSpec = Struct("io.k8s.api.apiserverinternal.v1alpha1.StorageVersionSpec", lambda: (),
    doc="StorageVersionSpec is empty.")
StorageVersionConditionType = string("v1alpha1.StorageVersionConditionType")
ConditionStatus = string("v1alpha1.ConditionStatus")

ServerStorageVersion = Struct("io.k8s.api.apiserverinternal.v1alpha1.ServerStorageVersion", lambda: (
    field("apiServerID", 1, STRING, required=True, doc="Name of the server."),
    field("encodingVersion", 2, STRING, required=True, doc="Version in which it stores objects."),
    field("decodableVersions", 3, ListOf(STRING, "set"), required=True,
        doc="Versions that it can read; encodingVersion is among them."),
    field("servedVersions", 4, ListOf(STRING, "set"), doc="Versions that it serves, all of which it can read."),
), doc="ServerStorageVersion has the versions in which one server stores and reads a resource.")
StorageVersionCondition = Struct("io.k8s.api.apiserverinternal.v1alpha1.StorageVersionCondition", lambda: (
    field("type", 1, StorageVersionConditionType, omit=False, required=True,
        doc="Aspect, such as AllEncodingVersionsEqual."),
    field("status", 2, ConditionStatus, omit=False, required=True, doc="True, False or Unknown."),
    field("observedGeneration", 3, INT64, doc="metadata.generation that the condition reflects."),
    field("lastTransitionTime", 4, TIME, omit=False, doc="Time of the last change of status."),
    field("reason", 5, STRING, omit=False, required=True, doc="Reason as one CamelCase word, for programs."),
    field("message", 6, STRING, required=True, doc="Reason as text, for people."),
), doc="StorageVersionCondition is one aspect of the state of a StorageVersion.")
StorageVersionStatus = Struct("io.k8s.api.apiserverinternal.v1alpha1.StorageVersionStatus", lambda: (
    field("storageVersions", 1, ListOf(ServerStorageVersion, "map", ("apiServerID",)), doc="Versions of each server."),
    field("commonEncodingVersion", 2, STRING, pointer=True,
        doc="Version in which all of them store it; not set when they differ."),
    field("conditions", 3, ListOf(StorageVersionCondition, "map", ("type",)),
        doc="Latest conditions, at most one of each type."),
), doc="StorageVersionStatus has the versions in which the servers of a cluster store a resource.")
StorageVersion = Struct("io.k8s.api.apiserverinternal.v1alpha1.StorageVersion", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, required=True, doc="Standard object's metadata."),
    field("spec", 2, StorageVersionSpec, omit=False, doc="Empty."),
    field("status", 3, StorageVersionStatus, omit=False, doc="Versions of the servers."),
), gvk=("internal.apiserver.k8s.io", "v1alpha1", "StorageVersion"),
    doc="StorageVersion has the stored versions of a resource; its name is GROUP.RESOURCE.")

StorageVersionList = list_of(StorageVersion)
