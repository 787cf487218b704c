"""Workloads of apps/v1: Deployment, ReplicaSet, StatefulSet, DaemonSet, and ControllerRevision, which keeps their
history.
"""

from __future__ import annotations

from apiserver.api.schema import BOOL, INT32, INT64, INT_OR_STRING, RAW, STRING, TIME, ListOf, Struct, field, string
from apiserver.api.types.core.persistentvolumes import PersistentVolumeClaim
from apiserver.api.types.core.pods import ConditionStatus, PodTemplateSpec
from apiserver.api.types.meta import TYPE_META, LabelSelector, ObjectMeta, list_of

PodManagementPolicyType = string("v1.PodManagementPolicyType", "OrderedReady", "Parallel")
StatefulSetUpdateStrategyType = string("v1.StatefulSetUpdateStrategyType", "OnDelete", "RollingUpdate")
PersistentVolumeClaimRetentionPolicyType = string("v1.PersistentVolumeClaimRetentionPolicyType")
StatefulSetConditionType = string("v1.StatefulSetConditionType")
DeploymentStrategyType = string("v1.DeploymentStrategyType", "Recreate", "RollingUpdate")
DeploymentConditionType = string("v1.DeploymentConditionType")
DaemonSetUpdateStrategyType = string("v1.DaemonSetUpdateStrategyType", "OnDelete", "RollingUpdate")
DaemonSetConditionType = string("v1.DaemonSetConditionType")
ReplicaSetConditionType = string("v1.ReplicaSetConditionType")

RollingUpdateStatefulSetStrategy = Struct("io.k8s.api.apps.v1.RollingUpdateStatefulSetStrategy", lambda: (
    field("partition", 1, INT32, pointer=True),
    field("maxUnavailable", 2, INT_OR_STRING, pointer=True, gate="MaxUnavailableStatefulSet"),
))
StatefulSetUpdateStrategy = Struct("io.k8s.api.apps.v1.StatefulSetUpdateStrategy", lambda: (
    field("type", 1, StatefulSetUpdateStrategyType),
    field("rollingUpdate", 2, RollingUpdateStatefulSetStrategy, pointer=True),
))
StatefulSetPersistentVolumeClaimRetentionPolicy = Struct(
    "io.k8s.api.apps.v1.StatefulSetPersistentVolumeClaimRetentionPolicy", lambda: (
    field("whenDeleted", 1, PersistentVolumeClaimRetentionPolicyType),
    field("whenScaled", 2, PersistentVolumeClaimRetentionPolicyType),
))
StatefulSetOrdinals = Struct("io.k8s.api.apps.v1.StatefulSetOrdinals", lambda: (
    field("start", 1, INT32, omit=False),
))
StatefulSetSpec = Struct("io.k8s.api.apps.v1.StatefulSetSpec", lambda: (
    field("replicas", 1, INT32, pointer=True),
    field("selector", 2, LabelSelector, omit=False, pointer=True, required=True),
    field("template", 3, PodTemplateSpec, omit=False, required=True),
    field("volumeClaimTemplates", 4, ListOf(PersistentVolumeClaim)),
    field("serviceName", 5, STRING, omit=False),
    field("podManagementPolicy", 6, PodManagementPolicyType),
    field("updateStrategy", 7, StatefulSetUpdateStrategy, omit=False),
    field("revisionHistoryLimit", 8, INT32, pointer=True),
    field("minReadySeconds", 9, INT32),
    field("persistentVolumeClaimRetentionPolicy", 10, StatefulSetPersistentVolumeClaimRetentionPolicy, pointer=True),
    field("ordinals", 11, StatefulSetOrdinals, pointer=True),
))
StatefulSetCondition = Struct("io.k8s.api.apps.v1.StatefulSetCondition", lambda: (
    field("type", 1, StatefulSetConditionType, omit=False, required=True),
    field("status", 2, ConditionStatus, omit=False, required=True),
    field("lastTransitionTime", 3, TIME, omit=False),
    field("reason", 4, STRING),
    field("message", 5, STRING),
))
StatefulSetStatus = Struct("io.k8s.api.apps.v1.StatefulSetStatus", lambda: (
    field("observedGeneration", 1, INT64),
    field("replicas", 2, INT32, omit=False, required=True),
    field("readyReplicas", 3, INT32),
    field("currentReplicas", 4, INT32),
    field("updatedReplicas", 5, INT32),
    field("currentRevision", 6, STRING),
    field("updateRevision", 7, STRING),
    field("collisionCount", 9, INT32, pointer=True),
    field("conditions", 10, ListOf(StatefulSetCondition, "map", ("type",), merge_key="type")),
    field("availableReplicas", 11, INT32, omit=False),
))
StatefulSet = Struct("io.k8s.api.apps.v1.StatefulSet", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False),
    field("spec", 2, StatefulSetSpec, omit=False),
    field("status", 3, StatefulSetStatus, omit=False),
), gvk=("apps", "v1", "StatefulSet"))
RollingUpdateDeployment = Struct("io.k8s.api.apps.v1.RollingUpdateDeployment", lambda: (
    field("maxUnavailable", 1, INT_OR_STRING, pointer=True),
    field("maxSurge", 2, INT_OR_STRING, pointer=True),
))
DeploymentStrategy = Struct("io.k8s.api.apps.v1.DeploymentStrategy", lambda: (
    field("type", 1, DeploymentStrategyType),
    field("rollingUpdate", 2, RollingUpdateDeployment, pointer=True),
))
DeploymentSpec = Struct("io.k8s.api.apps.v1.DeploymentSpec", lambda: (
    field("replicas", 1, INT32, pointer=True),
    field("selector", 2, LabelSelector, omit=False, pointer=True, required=True),
    field("template", 3, PodTemplateSpec, omit=False, required=True),
    field("strategy", 4, DeploymentStrategy, omit=False, strategy="retainKeys"),
    field("minReadySeconds", 5, INT32),
    field("revisionHistoryLimit", 6, INT32, pointer=True),
    field("paused", 7, BOOL),
    field("progressDeadlineSeconds", 9, INT32, pointer=True),
))
DeploymentCondition = Struct("io.k8s.api.apps.v1.DeploymentCondition", lambda: (
    field("type", 1, DeploymentConditionType, omit=False, required=True),
    field("status", 2, ConditionStatus, omit=False, required=True),
    field("lastUpdateTime", 6, TIME, omit=False),
    field("lastTransitionTime", 7, TIME, omit=False),
    field("reason", 4, STRING),
    field("message", 5, STRING),
))
DeploymentStatus = Struct("io.k8s.api.apps.v1.DeploymentStatus", lambda: (
    field("observedGeneration", 1, INT64),
    field("replicas", 2, INT32),
    field("updatedReplicas", 3, INT32),
    field("readyReplicas", 7, INT32),
    field("availableReplicas", 4, INT32),
    field("unavailableReplicas", 5, INT32),
    field("terminatingReplicas", 9, INT32, pointer=True),
    field("conditions", 6, ListOf(DeploymentCondition, "map", ("type",), merge_key="type")),
    field("collisionCount", 8, INT32, pointer=True),
))
Deployment = Struct("io.k8s.api.apps.v1.Deployment", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False),
    field("spec", 2, DeploymentSpec, omit=False),
    field("status", 3, DeploymentStatus, omit=False),
), gvk=("apps", "v1", "Deployment"))
RollingUpdateDaemonSet = Struct("io.k8s.api.apps.v1.RollingUpdateDaemonSet", lambda: (
    field("maxUnavailable", 1, INT_OR_STRING, pointer=True),
    field("maxSurge", 2, INT_OR_STRING, pointer=True),
))
DaemonSetUpdateStrategy = Struct("io.k8s.api.apps.v1.DaemonSetUpdateStrategy", lambda: (
    field("type", 1, DaemonSetUpdateStrategyType),
    field("rollingUpdate", 2, RollingUpdateDaemonSet, pointer=True),
))
DaemonSetSpec = Struct("io.k8s.api.apps.v1.DaemonSetSpec", lambda: (
    field("selector", 1, LabelSelector, omit=False, pointer=True, required=True),
    field("template", 2, PodTemplateSpec, omit=False, required=True),
    field("updateStrategy", 3, DaemonSetUpdateStrategy, omit=False),
    field("minReadySeconds", 4, INT32),
    field("revisionHistoryLimit", 6, INT32, pointer=True),
))
DaemonSetCondition = Struct("io.k8s.api.apps.v1.DaemonSetCondition", lambda: (
    field("type", 1, DaemonSetConditionType, omit=False, required=True),
    field("status", 2, ConditionStatus, omit=False, required=True),
    field("lastTransitionTime", 3, TIME, omit=False),
    field("reason", 4, STRING),
    field("message", 5, STRING),
))
DaemonSetStatus = Struct("io.k8s.api.apps.v1.DaemonSetStatus", lambda: (
    field("currentNumberScheduled", 1, INT32, omit=False, required=True),
    field("numberMisscheduled", 2, INT32, omit=False, required=True),
    field("desiredNumberScheduled", 3, INT32, omit=False, required=True),
    field("numberReady", 4, INT32, omit=False, required=True),
    field("observedGeneration", 5, INT64),
    field("updatedNumberScheduled", 6, INT32),
    field("numberAvailable", 7, INT32),
    field("numberUnavailable", 8, INT32),
    field("collisionCount", 9, INT32, pointer=True),
    field("conditions", 10, ListOf(DaemonSetCondition, "map", ("type",), merge_key="type")),
))
DaemonSet = Struct("io.k8s.api.apps.v1.DaemonSet", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False),
    field("spec", 2, DaemonSetSpec, omit=False),
    field("status", 3, DaemonSetStatus, omit=False),
), gvk=("apps", "v1", "DaemonSet"))
ReplicaSetSpec = Struct("io.k8s.api.apps.v1.ReplicaSetSpec", lambda: (
    field("replicas", 1, INT32, pointer=True),
    field("minReadySeconds", 4, INT32),
    field("selector", 2, LabelSelector, omit=False, pointer=True, required=True),
    field("template", 3, PodTemplateSpec, omit=False),
))
ReplicaSetCondition = Struct("io.k8s.api.apps.v1.ReplicaSetCondition", lambda: (
    field("type", 1, ReplicaSetConditionType, omit=False, required=True),
    field("status", 2, ConditionStatus, omit=False, required=True),
    field("lastTransitionTime", 3, TIME, omit=False),
    field("reason", 4, STRING),
    field("message", 5, STRING),
))
ReplicaSetStatus = Struct("io.k8s.api.apps.v1.ReplicaSetStatus", lambda: (
    field("replicas", 1, INT32, omit=False, required=True),
    field("fullyLabeledReplicas", 2, INT32),
    field("readyReplicas", 4, INT32),
    field("availableReplicas", 5, INT32),
    field("terminatingReplicas", 7, INT32, pointer=True),
    field("observedGeneration", 3, INT64),
    field("conditions", 6, ListOf(ReplicaSetCondition, "map", ("type",), merge_key="type")),
))
ReplicaSet = Struct("io.k8s.api.apps.v1.ReplicaSet", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False),
    field("spec", 2, ReplicaSetSpec, omit=False),
    field("status", 3, ReplicaSetStatus, omit=False),
), gvk=("apps", "v1", "ReplicaSet"))
ControllerRevision = Struct("io.k8s.api.apps.v1.ControllerRevision", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False),
    field("data", 2, RAW, omit=False),
    field("revision", 3, INT64, omit=False, required=True),
), gvk=("apps", "v1", "ControllerRevision"))


ControllerRevisionList = list_of(ControllerRevision)
DaemonSetList = list_of(DaemonSet)
DeploymentList = list_of(Deployment)
ReplicaSetList = list_of(ReplicaSet)
StatefulSetList = list_of(StatefulSet)
