"""PersistentVolume and PersistentVolumeClaim of core/v1."""

from __future__ import annotations

from apiserver.api.features.gated_fields import gated
from apiserver.api.schema.language import STRING, TIME, ListOf, MapOf, Struct, field, string
from apiserver.api.schema.limits import FIXED, Limits
from apiserver.api.types.core.persistentvolumesources import PersistentVolumeSource
from apiserver.api.types.core.pods import ConditionStatus
from apiserver.api.types.core.references import ObjectReference
from apiserver.api.types.core.resources import ResourceList
from apiserver.api.types.core.scheduling import NodeSelector
from apiserver.api.types.core.volumes import PersistentVolumeAccessMode, PersistentVolumeClaimSpec, PersistentVolumeMode
from apiserver.api.types.meta import TYPE_META, ObjectMeta, list_of

ClaimResourceStatus = string(
    "v1.ClaimResourceStatus", "ControllerResizeInProgress", "ControllerResizeInfeasible", "NodeResizeInProgress",
    "NodeResizeInfeasible", "NodeResizePending",
)
PersistentVolumeReclaimPolicy = string("v1.PersistentVolumeReclaimPolicy", "Delete", "Recycle", "Retain")
PersistentVolumePhase = string("v1.PersistentVolumePhase", "Available", "Bound", "Failed", "Pending", "Released")
PersistentVolumeClaimConditionType = string("v1.PersistentVolumeClaimConditionType")
PersistentVolumeClaimModifyVolumeStatus = string("v1.PersistentVolumeClaimModifyVolumeStatus", "InProgress",
    "Infeasible", "Pending")
PersistentVolumeClaimPhase = string("v1.PersistentVolumeClaimPhase", "Bound", "Lost", "Pending")

VolumeNodeAffinity = Struct("io.k8s.api.core.v1.VolumeNodeAffinity", lambda: (
    field("required", 1, NodeSelector, pointer=True, limits=Limits(required="must specify required node constraints"),
        doc="Nodes from which the volume can be reached; pods with it are placed on one of them."),
), doc="VolumeNodeAffinity selects the nodes that can access a volume.")
PersistentVolumeSpec = Struct("io.k8s.api.core.v1.PersistentVolumeSpec", lambda: (
    field("capacity", 1, ResourceList, keep_empty=True, doc="Size of the volume, under the key storage."),
    field("", 2, PersistentVolumeSource, inline=True),
    field("accessModes", 3, ListOf(PersistentVolumeAccessMode), limits=Limits(required=True),
        doc="Ways in which the volume can be mounted: ReadWriteOnce, ReadOnlyMany, ReadWriteMany, ReadWriteOncePod."),
    field("claimRef", 4, ObjectReference.as_granular(), pointer=True,
        doc="Claim that the volume is bound to, or reserved for while it has no uid."),
    field("persistentVolumeReclaimPolicy", 5, PersistentVolumeReclaimPolicy,
        doc="Treatment of the volume when its claim is deleted: Retain (the default), Delete, or Recycle, which is "
            "deprecated."),
    field("storageClassName", 6, STRING, limits=Limits(format="subdomain"),
        doc="StorageClass that the volume belongs to; it can only be claimed by that name. Empty for none."),
    field("mountOptions", 7, ListOf(STRING),
        doc="Options for mount, such as ro; they are not checked, and mounting fails if one is wrong."),
    field("volumeMode", 8, PersistentVolumeMode, pointer=True, limits=Limits(immutable=FIXED),
        doc="Filesystem (the default) to mount a directory, Block for a raw device."),
    field("nodeAffinity", 9, VolumeNodeAffinity, pointer=True,
        doc="Nodes from which the volume can be reached; all nodes when not set."),
    field("volumeAttributesClassName", 10, STRING, pointer=True, gate=gated("VolumeAttributesClass", "place"),
        limits=Limits(required="an empty string is disallowed", format="subdomain"),
        doc="VolumeAttributesClass whose parameters the volume has; empty or not set for none."),
), doc="PersistentVolumeSpec describes a volume and the rules for its use; it has exactly one source.")
PersistentVolumeStatus = Struct("io.k8s.api.core.v1.PersistentVolumeStatus", lambda: (
    field("phase", 1, PersistentVolumePhase, fills="Pending",
        doc="Pending, Available, Bound, Released (its claim is gone) or Failed."),
    field("message", 2, STRING, doc="Reason for the state as text, for people."),
    field("reason", 3, STRING, doc="Reason for the failure as one CamelCase word."),
    field("lastPhaseTransitionTime", 4, TIME, pointer=True, doc="When phase last changed."),
), doc="PersistentVolumeStatus reports whether a volume is in use.")
PersistentVolume = Struct("io.k8s.api.core.v1.PersistentVolume", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
    field("spec", 2, PersistentVolumeSpec, omit=False,
        doc="The volume and the rules for its use; the source is fixed."),
    field("status", 3, PersistentVolumeStatus, omit=False, doc="Whether the volume is in use."),
), gvk=("", "v1", "PersistentVolume"),
    doc="PersistentVolume is a piece of storage in the cluster that claims can be bound to.")
PersistentVolumeClaimCondition = Struct("io.k8s.api.core.v1.PersistentVolumeClaimCondition", lambda: (
    field("type", 1, PersistentVolumeClaimConditionType, omit=False, required=True,
        doc="Aspect, such as Resizing, FileSystemResizePending or ModifyingVolume."),
    field("status", 2, ConditionStatus, omit=False, required=True, doc="True, False or Unknown."),
    field("lastProbeTime", 3, TIME, omit=False, doc="Time of the last check of the condition."),
    field("lastTransitionTime", 4, TIME, omit=False, doc="Time of the last change of status."),
    field("reason", 5, STRING, doc="Reason for the status as one CamelCase word, for programs."),
    field("message", 6, STRING, doc="Reason for the status as text, for people."),
), doc="PersistentVolumeClaimCondition is one aspect of a claim's state.")
ModifyVolumeStatus = Struct("io.k8s.api.core.v1.ModifyVolumeStatus", lambda: (
    field("targetVolumeAttributesClassName", 1, STRING, doc="VolumeAttributesClass that the volume is changed to."),
    field("status", 2, PersistentVolumeClaimModifyVolumeStatus, omit=False, required=True,
        doc="Pending (the class is missing), InProgress, or Infeasible when the driver has refused the parameters."),
), doc="ModifyVolumeStatus reports on a change of a volume's attributes class.")
PersistentVolumeClaimStatus = Struct("io.k8s.api.core.v1.PersistentVolumeClaimStatus", lambda: (
    field("phase", 1, PersistentVolumeClaimPhase, fills="Pending",
        doc="Pending, Bound, or Lost when the bound volume is gone."),
    field("accessModes", 2, ListOf(PersistentVolumeAccessMode), doc="Access modes of the bound volume."),
    field("capacity", 3, ResourceList, doc="Size of the bound volume, under the key storage."),
    field("conditions", 4, ListOf(PersistentVolumeClaimCondition, "map", ("type",), merge_key="type"),
        doc="Latest conditions, at most one of each type."),
    field("allocatedResources", 5, ResourceList, gate=gated("RecoverVolumeExpansionFailure", "place"),
        doc="Size that a running expansion is to reach, under the key storage."),
    field("allocatedResourceStatuses", 7, MapOf(ClaimResourceStatus, key="v1.ResourceName", granular=True),
        gate=gated("RecoverVolumeExpansionFailure", "place"),
        doc="State of a running expansion, such as ControllerResizeInProgress, under the key storage."),
    field("currentVolumeAttributesClassName", 8, STRING, pointer=True, gate=gated("VolumeAttributesClass", "place"),
        doc="VolumeAttributesClass that the volume has now; not set for none."),
    field("modifyVolumeStatus", 9, ModifyVolumeStatus, pointer=True, gate=gated("VolumeAttributesClass", "place"),
        doc="State of a change of the attributes class; not set when there is none."),
), doc="PersistentVolumeClaimStatus is the state of a claim and of its volume.")
PersistentVolumeClaim = Struct("io.k8s.api.core.v1.PersistentVolumeClaim", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
    field("spec", 2, PersistentVolumeClaimSpec, omit=False, doc="The requested storage; most of it is fixed."),
    field("status", 3, PersistentVolumeClaimStatus, omit=False, doc="State of the claim and of its volume."),
), gvk=("", "v1", "PersistentVolumeClaim"),
    doc="PersistentVolumeClaim requests storage and uses the volume that it is bound to.")

PersistentVolumeList = list_of(PersistentVolume)
PersistentVolumeClaimList = list_of(PersistentVolumeClaim)
