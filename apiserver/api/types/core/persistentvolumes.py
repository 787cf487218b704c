"""PersistentVolume and PersistentVolumeClaim of core/v1."""

from __future__ import annotations

from apiserver.api.schema import STRING, TIME, ListOf, MapOf, Struct, field, string
from apiserver.api.types.core.pods import ConditionStatus
from apiserver.api.types.core.references import ObjectReference
from apiserver.api.types.core.resources import ResourceList
from apiserver.api.types.core.scheduling import NodeSelector
from apiserver.api.types.core.volumes import PersistentVolumeAccessMode, PersistentVolumeClaimSpec, PersistentVolumeMode
from apiserver.api.types.core.volumesources import PersistentVolumeSource
from apiserver.api.types.meta import TYPE_META, ObjectMeta, list_of

ClaimResourceStatus = string("v1.ClaimResourceStatus")
PersistentVolumeReclaimPolicy = string("v1.PersistentVolumeReclaimPolicy", "Delete", "Recycle", "Retain")
PersistentVolumePhase = string("v1.PersistentVolumePhase", "Available", "Bound", "Failed", "Pending", "Released")
PersistentVolumeClaimConditionType = string("v1.PersistentVolumeClaimConditionType")
PersistentVolumeClaimModifyVolumeStatus = string("v1.PersistentVolumeClaimModifyVolumeStatus", "InProgress",
    "Infeasible", "Pending")
PersistentVolumeClaimPhase = string("v1.PersistentVolumeClaimPhase", "Bound", "Lost", "Pending")

VolumeNodeAffinity = Struct("io.k8s.api.core.v1.VolumeNodeAffinity", lambda: (
    field("required", 1, NodeSelector, pointer=True),
))
PersistentVolumeSpec = Struct("io.k8s.api.core.v1.PersistentVolumeSpec", lambda: (
    field("capacity", 1, ResourceList),
    field("", 2, PersistentVolumeSource, inline=True),
    field("accessModes", 3, ListOf(PersistentVolumeAccessMode)),
    field("claimRef", 4, ObjectReference.as_granular(), pointer=True),
    field("persistentVolumeReclaimPolicy", 5, PersistentVolumeReclaimPolicy),
    field("storageClassName", 6, STRING),
    field("mountOptions", 7, ListOf(STRING)),
    field("volumeMode", 8, PersistentVolumeMode, pointer=True),
    field("nodeAffinity", 9, VolumeNodeAffinity, pointer=True),
    field("volumeAttributesClassName", 10, STRING, pointer=True, gate="VolumeAttributesClass"),
))
PersistentVolumeStatus = Struct("io.k8s.api.core.v1.PersistentVolumeStatus", lambda: (
    field("phase", 1, PersistentVolumePhase),
    field("message", 2, STRING),
    field("reason", 3, STRING),
    field("lastPhaseTransitionTime", 4, TIME, pointer=True),
))
PersistentVolume = Struct("io.k8s.api.core.v1.PersistentVolume", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False),
    field("spec", 2, PersistentVolumeSpec, omit=False),
    field("status", 3, PersistentVolumeStatus, omit=False),
), gvk=("", "v1", "PersistentVolume"))
PersistentVolumeClaimCondition = Struct("io.k8s.api.core.v1.PersistentVolumeClaimCondition", lambda: (
    field("type", 1, PersistentVolumeClaimConditionType, omit=False, required=True),
    field("status", 2, ConditionStatus, omit=False, required=True),
    field("lastProbeTime", 3, TIME, omit=False),
    field("lastTransitionTime", 4, TIME, omit=False),
    field("reason", 5, STRING),
    field("message", 6, STRING),
))
ModifyVolumeStatus = Struct("io.k8s.api.core.v1.ModifyVolumeStatus", lambda: (
    field("targetVolumeAttributesClassName", 1, STRING),
    field("status", 2, PersistentVolumeClaimModifyVolumeStatus, omit=False, required=True),
))
PersistentVolumeClaimStatus = Struct("io.k8s.api.core.v1.PersistentVolumeClaimStatus", lambda: (
    field("phase", 1, PersistentVolumeClaimPhase),
    field("accessModes", 2, ListOf(PersistentVolumeAccessMode)),
    field("capacity", 3, ResourceList),
    field("conditions", 4, ListOf(PersistentVolumeClaimCondition, "map", ("type",), merge_key="type")),
    field("allocatedResources", 5, ResourceList),
    field("allocatedResourceStatuses", 7, MapOf(ClaimResourceStatus, key="v1.ResourceName")),
    field("currentVolumeAttributesClassName", 8, STRING, pointer=True, gate="VolumeAttributesClass"),
    field("modifyVolumeStatus", 9, ModifyVolumeStatus, pointer=True, gate="VolumeAttributesClass"),
))
PersistentVolumeClaim = Struct("io.k8s.api.core.v1.PersistentVolumeClaim", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False),
    field("spec", 2, PersistentVolumeClaimSpec, omit=False),
    field("status", 3, PersistentVolumeClaimStatus, omit=False),
), gvk=("", "v1", "PersistentVolumeClaim"))

PersistentVolumeList = list_of(PersistentVolume)
PersistentVolumeClaimList = list_of(PersistentVolumeClaim)
