"""storage.k8s.io/v1: classes, CSI drivers and what nodes have of them, attachments."""

from __future__ import annotations

from apiserver.api.schema import BOOL, INT32, INT64, QUANTITY, STRING, TIME, ListOf, MapOf, Struct, field, string
from apiserver.api.types.core.persistentvolumes import PersistentVolumeReclaimPolicy, PersistentVolumeSpec
from apiserver.api.types.meta import TYPE_META, LabelSelector, ObjectMeta, list_of

VolumeBindingMode = string("v1.VolumeBindingMode", "Immediate", "WaitForFirstConsumer")
VolumeLifecycleMode = string("v1.VolumeLifecycleMode")
FSGroupPolicy = string("v1.FSGroupPolicy")

TopologySelectorLabelRequirement = Struct("io.k8s.api.core.v1.TopologySelectorLabelRequirement", lambda: (
    field("key", 1, STRING, omit=False, required=True),
    field("values", 2, ListOf(STRING), omit=False, required=True),
))
TopologySelectorTerm = Struct("io.k8s.api.core.v1.TopologySelectorTerm", lambda: (
    field("matchLabelExpressions", 1, ListOf(TopologySelectorLabelRequirement)),
), atomic=True)
StorageClass = Struct("io.k8s.api.storage.v1.StorageClass", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False),
    field("provisioner", 2, STRING, omit=False, required=True),
    field("parameters", 3, MapOf(STRING)),
    field("reclaimPolicy", 4, PersistentVolumeReclaimPolicy, pointer=True),
    field("mountOptions", 5, ListOf(STRING)),
    field("allowVolumeExpansion", 6, BOOL, pointer=True),
    field("volumeBindingMode", 7, VolumeBindingMode, pointer=True),
    field("allowedTopologies", 8, ListOf(TopologySelectorTerm)),
), gvk=("storage.k8s.io", "v1", "StorageClass"))
VolumeAttachmentSource = Struct("io.k8s.api.storage.v1.VolumeAttachmentSource", lambda: (
    field("persistentVolumeName", 1, STRING, pointer=True),
    field("inlineVolumeSpec", 2, PersistentVolumeSpec, pointer=True),
))
VolumeAttachmentSpec = Struct("io.k8s.api.storage.v1.VolumeAttachmentSpec", lambda: (
    field("attacher", 1, STRING, omit=False, required=True),
    field("source", 2, VolumeAttachmentSource, omit=False, required=True),
    field("nodeName", 3, STRING, omit=False, required=True),
))
VolumeError = Struct("io.k8s.api.storage.v1.VolumeError", lambda: (
    field("time", 1, TIME, omit=False),
    field("message", 2, STRING),
    field("errorCode", 3, INT32, pointer=True, gate="MutableCSINodeAllocatableCount"),
))
VolumeAttachmentStatus = Struct("io.k8s.api.storage.v1.VolumeAttachmentStatus", lambda: (
    field("attached", 1, BOOL, omit=False, required=True),
    field("attachmentMetadata", 2, MapOf(STRING)),
    field("attachError", 3, VolumeError, pointer=True),
    field("detachError", 4, VolumeError, pointer=True),
))
VolumeAttachment = Struct("io.k8s.api.storage.v1.VolumeAttachment", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False),
    field("spec", 2, VolumeAttachmentSpec, omit=False, required=True),
    field("status", 3, VolumeAttachmentStatus, omit=False),
), gvk=("storage.k8s.io", "v1", "VolumeAttachment"))
TokenRequest = Struct("io.k8s.api.storage.v1.TokenRequest", lambda: (
    field("audience", 1, STRING, omit=False, required=True),
    field("expirationSeconds", 2, INT64, pointer=True),
))
CSIDriverSpec = Struct("io.k8s.api.storage.v1.CSIDriverSpec", lambda: (
    field("attachRequired", 1, BOOL, pointer=True),
    field("podInfoOnMount", 2, BOOL, pointer=True),
    field("volumeLifecycleModes", 3, ListOf(VolumeLifecycleMode, "set")),
    field("storageCapacity", 4, BOOL, pointer=True),
    field("fsGroupPolicy", 5, FSGroupPolicy, pointer=True),
    field("tokenRequests", 6, ListOf(TokenRequest)),
    field("requiresRepublish", 7, BOOL, pointer=True),
    field("seLinuxMount", 8, BOOL, pointer=True, gate="SELinuxMountReadWriteOncePod"),
    field("nodeAllocatableUpdatePeriodSeconds", 9, INT64, pointer=True, gate="MutableCSINodeAllocatableCount"),
    field("serviceAccountTokenInSecrets", 10, BOOL, pointer=True, gate="CSIServiceAccountTokenSecrets"),
    field("preventPodSchedulingIfMissing", 11, BOOL, pointer=True, gate="VolumeLimitScaling"),
))
CSIDriver = Struct("io.k8s.api.storage.v1.CSIDriver", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False),
    field("spec", 2, CSIDriverSpec, omit=False, required=True),
), gvk=("storage.k8s.io", "v1", "CSIDriver"))
VolumeNodeResources = Struct("io.k8s.api.storage.v1.VolumeNodeResources", lambda: (
    field("count", 1, INT32, pointer=True),
))
CSINodeDriver = Struct("io.k8s.api.storage.v1.CSINodeDriver", lambda: (
    field("name", 1, STRING, omit=False, required=True),
    field("nodeID", 2, STRING, omit=False, required=True),
    field("topologyKeys", 3, ListOf(STRING), omit=False),
    field("allocatable", 4, VolumeNodeResources, pointer=True),
))
CSINodeSpec = Struct("io.k8s.api.storage.v1.CSINodeSpec", lambda: (
    field("drivers", 1, ListOf(CSINodeDriver, "map", ("name",), merge_key="name"), omit=False, required=True),
))
CSINode = Struct("io.k8s.api.storage.v1.CSINode", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False),
    field("spec", 2, CSINodeSpec, omit=False, required=True),
), gvk=("storage.k8s.io", "v1", "CSINode"))
CSIStorageCapacity = Struct("io.k8s.api.storage.v1.CSIStorageCapacity", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False),
    field("nodeTopology", 2, LabelSelector, pointer=True),
    field("storageClassName", 3, STRING, omit=False, required=True),
    field("capacity", 4, QUANTITY, pointer=True),
    field("maximumVolumeSize", 5, QUANTITY, pointer=True),
), gvk=("storage.k8s.io", "v1", "CSIStorageCapacity"))
VolumeAttributesClass = Struct("io.k8s.api.storage.v1.VolumeAttributesClass", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False),
    field("driverName", 2, STRING, omit=False, required=True),
    field("parameters", 3, MapOf(STRING)),
), gvk=("storage.k8s.io", "v1", "VolumeAttributesClass"))

StorageClassList = list_of(StorageClass)
VolumeAttachmentList = list_of(VolumeAttachment)
CSIDriverList = list_of(CSIDriver)
CSINodeList = list_of(CSINode)
CSIStorageCapacityList = list_of(CSIStorageCapacity)
VolumeAttributesClassList = list_of(VolumeAttributesClass)
