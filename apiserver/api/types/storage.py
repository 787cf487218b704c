"""storage.k8s.io/v1: classes, CSI drivers, their state on nodes, attachments."""

from __future__ import annotations

from apiserver.api.features.gated_fields import EVERY_GATE, gated
from apiserver.api.schema.language import (
    BOOL,
    INT32,
    INT64,
    QUANTITY,
    STRING,
    TIME,
    ListOf,
    MapOf,
    Struct,
    field,
    string,
)
from apiserver.api.schema.limits import FIXED, Immutable, Limits
from apiserver.api.types.core.persistentvolumes import PersistentVolumeReclaimPolicy, PersistentVolumeSpec
from apiserver.api.types.core.volumes import TOO_LONG_A_LIFE, TOO_SHORT_A_LIFE
from apiserver.api.types.meta import TYPE_META, LabelSelector, ObjectMeta, list_of

VolumeBindingMode = string("v1.VolumeBindingMode", "Immediate", "WaitForFirstConsumer")
VolumeLifecycleMode = string("v1.VolumeLifecycleMode")
FSGroupPolicy = string("v1.FSGroupPolicy")

TopologySelectorLabelRequirement = Struct("io.k8s.api.core.v1.TopologySelectorLabelRequirement", lambda: (
    field("key", 1, STRING, omit=False, required=True, limits=Limits(format="label-key"),
        doc="Key of the label."),
    field("values", 2, ListOf(STRING), omit=False, required=True, limits=Limits(required=True, unique="*"),
        doc="Values of which the label must have one."),
), doc="TopologySelectorLabelRequirement is one condition on a label of a topology domain.")
TopologySelectorTerm = Struct("io.k8s.api.core.v1.TopologySelectorTerm", lambda: (
    field("matchLabelExpressions", 1, ListOf(TopologySelectorLabelRequirement), doc="Conditions on labels."),
), atomic=True, doc="TopologySelectorTerm is a group of conditions that must hold together.")
StorageClass = Struct("io.k8s.api.storage.v1.StorageClass", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
    field("provisioner", 2, STRING, omit=False, required=True,
        limits=Limits(required=True, format="caseless-label-key", immutable=FIXED),
        doc="Name of the CSI driver or other provisioner that makes the volumes; fixed."),
    field("parameters", 3, MapOf(STRING), limits=Limits(immutable=FIXED), keep_empty=True,
        doc="Parameters for the provisioner, as its documentation lists them; at most 512, and fixed."),
    field("reclaimPolicy", 4, PersistentVolumeReclaimPolicy, pointer=True, fills="Delete",
        limits=Limits(immutable=FIXED, values=("Delete", "Retain"), empty=False),
        doc="Treatment of a volume when its claim is deleted: Delete (the default) or Retain; fixed."),
    field("mountOptions", 5, ListOf(STRING), doc="Options for mount of the volumes, such as ro; they are not checked."),
    field("allowVolumeExpansion", 6, BOOL, pointer=True, doc="True when claims of the class can be expanded."),
    field("volumeBindingMode", 7, VolumeBindingMode, pointer=True, fills="Immediate", limits=Limits(immutable=FIXED),
        doc="Time of provisioning: Immediate (the default), or WaitForFirstConsumer once a pod is being scheduled; "
            "fixed."),
    field("allowedTopologies", 8, ListOf(TopologySelectorTerm),
        doc="Domains in which volumes may be provisioned; all when empty."),
), gvk=("storage.k8s.io", "v1", "StorageClass"), doc="StorageClass defines the provisioning of volumes for claims.")
VolumeAttachmentSource = Struct("io.k8s.api.storage.v1.VolumeAttachmentSource", lambda: (
    field("persistentVolumeName", 1, STRING, pointer=True, limits=Limits(format="subdomain"),
        doc="Name of a PersistentVolume."),
    field("inlineVolumeSpec", 2, PersistentVolumeSpec, pointer=True, ungated=EVERY_GATE,
        doc="The volume as a spec, for volumes that a pod names itself and that were migrated to CSI."),
), doc="VolumeAttachmentSource is the volume to attach; exactly one field is set.")
VolumeAttachmentSpec = Struct("io.k8s.api.storage.v1.VolumeAttachmentSpec", lambda: (
    field("attacher", 1, STRING, omit=False, required=True,
        limits=Limits(required=True, length=63, format="driver-name"),
        doc="Name of the CSI driver that does it."),
    field("source", 2, VolumeAttachmentSource, omit=False, required=True, doc="The volume to attach."),
    field("nodeName", 3, STRING, omit=False, required=True, limits=Limits(format="subdomain"),
        doc="Node to which the volume is attached."),
), doc="VolumeAttachmentSpec has the volume, the node and the driver of an attachment.")
VolumeError = Struct("io.k8s.api.storage.v1.VolumeError", lambda: (
    field("time", 1, TIME, omit=False, doc="Time of the failure."),
    field("message", 2, STRING, doc="Error as text, for people."),
    field("errorCode", 3, INT32, pointer=True, gate=gated("MutableCSINodeAllocatableCount", "place"),
        limits=Limits(least=0, words="must be between 0 and 2147483647, inclusive"),
        doc="gRPC code of the failure, such as 8 for exhausted resources."),
), doc="VolumeError is the last failure of an operation.")
VolumeAttachmentStatus = Struct("io.k8s.api.storage.v1.VolumeAttachmentStatus", lambda: (
    field("attached", 1, BOOL, omit=False, required=True,
        doc="True when the volume is attached; only the driver's attacher sets it."),
    field("attachmentMetadata", 2, MapOf(STRING), doc="Facts from the driver that are needed to mount the volume."),
    field("attachError", 3, VolumeError, pointer=True, doc="Last failure of attaching."),
    field("detachError", 4, VolumeError, pointer=True, doc="Last failure of detaching."),
), doc="VolumeAttachmentStatus reports whether a volume is attached.")
VolumeAttachment = Struct("io.k8s.api.storage.v1.VolumeAttachment", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
    field("spec", 2, VolumeAttachmentSpec, omit=False, required=True, limits=Limits(immutable=FIXED),
        doc="Volume, node and driver; fixed."),
    field("status", 3, VolumeAttachmentStatus, omit=False, doc="Whether the volume is attached."),
), gvk=("storage.k8s.io", "v1", "VolumeAttachment"), doc="VolumeAttachment requests the attachment of a volume to a "
    "node.")
TokenRequest = Struct("io.k8s.api.storage.v1.TokenRequest", lambda: (
    field("audience", 1, STRING, omit=False, required=True, doc="Audience of the token; the API server when empty."),
    field("expirationSeconds", 2, INT64, pointer=True,
        limits=Limits(least=600, most=1 << 32, words=TOO_SHORT_A_LIFE, most_words=TOO_LONG_A_LIFE),
        doc="Lifetime of the token in seconds, at least 600; 3600 (1 hour) when not set."),
), doc="TokenRequest describes a token of a pod's service account for a driver.")
CSIDriverSpec = Struct("io.k8s.api.storage.v1.CSIDriverSpec", lambda: (
    field("attachRequired", 1, BOOL, pointer=True, fills=True,
        limits=Limits(immutable=Immutable(name="attachedRequired")),
        doc="Whether volumes must be attached before they are mounted; true when not set. Fixed."),
    field("podInfoOnMount", 2, BOOL, pointer=True, fills=False,
        doc="True when the driver gets the pod's name, namespace, uid and service account for mounting; false when not "
            "set."),
    field("volumeLifecycleModes", 3, ListOf(VolumeLifecycleMode, "set"), fills=["Persistent"],
        limits=Limits(immutable=FIXED, values=("Persistent", "Ephemeral")),
        doc="How volumes may be used: Persistent (the default) through claims, Ephemeral in pods; fixed."),
    field("storageCapacity", 4, BOOL, pointer=True, fills=False,
        doc="True when the scheduler checks CSIStorageCapacity objects before it places pods; false when not set."),
    field("fsGroupPolicy", 5, FSGroupPolicy, pointer=True, fills="ReadWriteOnceWithFSType",
        limits=Limits(values=("File", "None", "ReadWriteOnceWithFSType")),
        doc="When files get the pod's fsGroup: ReadWriteOnceWithFSType (the default), File for always, None for "
            "never."),
    field("tokenRequests", 6, ListOf(TokenRequest),
        doc="Tokens of the pod's service account that the driver gets for mounting; each has an audience of its own."),
    field("requiresRepublish", 7, BOOL, pointer=True, fills=False,
        doc="True when the driver is called periodically for mounted volumes, to refresh their content; false when not "
            "set."),
    field("seLinuxMount", 8, BOOL, pointer=True, gate=gated("SELinuxMountReadWriteOncePod", "place"), fills=False,
        doc="True when the driver can mount volumes with the option context of SELinux; false when not set."),
    field("nodeAllocatableUpdatePeriodSeconds", 9, INT64, pointer=True,
        gate=gated("MutableCSINodeAllocatableCount", "place"),
        limits=Limits(least=10, words="must be greater than or equal to 10 seconds"),
        doc="Seconds between updates of a node's volume limit, at least 10; no updates when not set."),
    field("serviceAccountTokenInSecrets", 10, BOOL, pointer=True, gate=gated("CSIServiceAccountTokenSecrets", "place"),
        doc="True when tokens come in the secrets of the call, instead of its volume context. Needs tokenRequests."),
    field("preventPodSchedulingIfMissing", 11, BOOL, pointer=True, gate=gated("VolumeLimitScaling", "place"),
        doc="True to keep pods with volumes of the driver away from nodes where it is not registered; false when not "
            "set."),
), doc="CSIDriverSpec lists the requirements and capabilities of a CSI driver.")
CSIDriver = Struct("io.k8s.api.storage.v1.CSIDriver", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
    field("spec", 2, CSIDriverSpec, omit=False, required=True, doc="Requirements and capabilities of the driver."),
), gvk=("storage.k8s.io", "v1", "CSIDriver"),
    doc="CSIDriver describes a CSI driver that the cluster has; its name is the driver's.")
VolumeNodeResources = Struct("io.k8s.api.storage.v1.VolumeNodeResources", lambda: (
    field("count", 1, INT32, pointer=True, limits=Limits(least=0),
        doc="Greatest number of volumes of the driver that can be used on the node; no limit is known when not set."),
), doc="VolumeNodeResources limits the number of volumes of a node.")
CSINodeDriver = Struct("io.k8s.api.storage.v1.CSINodeDriver", lambda: (
    field("name", 1, STRING, omit=False, required=True, limits=Limits(required=True, length=63, format="driver-name"),
        doc="Name of a CSI driver, unique in the list."),
    field("nodeID", 2, STRING, omit=False, required=True, limits=Limits(required=True),
        doc="Identity of the node at the driver."),
    field("topologyKeys", 3, ListOf(STRING), omit=False,
        doc="Keys of the node labels that the driver has set as topology domains."),
    field("allocatable", 4, VolumeNodeResources, pointer=True, doc="Limit of volumes of the driver on the node."),
), doc="CSINodeDriver is one CSI driver on a node.")
CSINodeSpec = Struct("io.k8s.api.storage.v1.CSINodeSpec", lambda: (
    field("drivers", 1, ListOf(CSINodeDriver, "map", ("name",), merge_key="name"), omit=False, required=True,
        doc="CSI drivers that are registered on the node."),
), doc="CSINodeSpec lists the CSI drivers of a node.")
CSINode = Struct("io.k8s.api.storage.v1.CSINode", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
    field("spec", 2, CSINodeSpec, omit=False, required=True, doc="The CSI drivers of the node."),
), gvk=("storage.k8s.io", "v1", "CSINode"), doc="CSINode lists the CSI drivers of a node; its name is the node's.")
CSIStorageCapacity = Struct("io.k8s.api.storage.v1.CSIStorageCapacity", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
    field("nodeTopology", 2, LabelSelector, pointer=True, limits=Limits(immutable=FIXED),
        doc="Labels of the nodes that reach the storage; none when not set, all when empty. Fixed."),
    field("storageClassName", 3, STRING, omit=False, required=True, limits=Limits(immutable=FIXED, format="subdomain"),
        doc="StorageClass that the figures are for; fixed."),
    field("capacity", 4, QUANTITY, pointer=True, limits=Limits(least=0),
        doc="Free storage; unknown when not set."),
    field("maximumVolumeSize", 5, QUANTITY, pointer=True,
        doc="Greatest size of one volume; unknown when not set."),
), gvk=("storage.k8s.io", "v1", "CSIStorageCapacity"),
    doc="CSIStorageCapacity is the free storage of a class in a part of the cluster.")


def _attributes_class(version: str) -> Struct:
    """Build VolumeAttributesClass, the same in both of its versions."""
    return Struct(f"io.k8s.api.storage.{version}.VolumeAttributesClass", lambda: (
        TYPE_META,
        field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
        field("driverName", 2, STRING, omit=False, required=True,
            limits=Limits(required=True, format="caseless-label-key",
                immutable=Immutable(words="updates to driverName are forbidden.", forbids=True)),
            doc="Name of the CSI driver; fixed."),
        field("parameters", 3, MapOf(STRING),
            limits=Limits(immutable=Immutable(words="updates to parameters are forbidden.", forbids=True)),
            doc="Attributes for the driver, such as its performance tier; at most 512, and fixed."),
    ), gvk=("storage.k8s.io", version, "VolumeAttributesClass"),
        doc="VolumeAttributesClass is a set of volume attributes that claims can select and change later.")


VolumeAttributesClass = _attributes_class("v1")
VolumeAttributesClassV1Beta1 = _attributes_class("v1beta1")

StorageClassList = list_of(StorageClass)
VolumeAttachmentList = list_of(VolumeAttachment)
CSIDriverList = list_of(CSIDriver)
CSINodeList = list_of(CSINode)
CSIStorageCapacityList = list_of(CSIStorageCapacity)
VolumeAttributesClassList = list_of(VolumeAttributesClass)
VolumeAttributesClassV1Beta1List = list_of(VolumeAttributesClassV1Beta1)
