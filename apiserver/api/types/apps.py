"""Workloads of apps/v1: Deployment, ReplicaSet, StatefulSet, DaemonSet, and ControllerRevision for their history."""

from __future__ import annotations

from apiserver.api.features.gated_fields import EVERY_GATE, gated
from apiserver.api.schema.language import (
    BOOL,
    INT32,
    INT64,
    INT_OR_STRING,
    RAW,
    STRING,
    TIME,
    ListOf,
    Struct,
    field,
    string,
)
from apiserver.api.schema.limits import FIXED, Limits
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
    field("partition", 1, INT32, pointer=True, limits=Limits(least=0),
        doc="Ordinal from which on pods are updated; those below keep the old revision. 0 when not set."),
    field("maxUnavailable", 2, INT_OR_STRING, pointer=True, gate=gated("MaxUnavailableStatefulSet", "place"),
        limits=Limits(least=0, format="percent"),
        doc="How many pods may be unavailable during the update, as a number or a percentage of replicas; 1 when not "
            "set."),
), doc="RollingUpdateStatefulSetStrategy has the settings of a rolling update.")
StatefulSetUpdateStrategy = Struct("io.k8s.api.apps.v1.StatefulSetUpdateStrategy", lambda: (
    field("type", 1, StatefulSetUpdateStrategyType,
        doc="RollingUpdate (the default) replaces pods, OnDelete waits until they are deleted."),
    field("rollingUpdate", 2, RollingUpdateStatefulSetStrategy, pointer=True, doc="Settings for RollingUpdate."),
), doc="StatefulSetUpdateStrategy defines the update of pods to a new revision.")
StatefulSetPersistentVolumeClaimRetentionPolicy = Struct(
    "io.k8s.api.apps.v1.StatefulSetPersistentVolumeClaimRetentionPolicy", lambda: (
    field("whenDeleted", 1, PersistentVolumeClaimRetentionPolicyType, fills="Retain",
        limits=Limits(empty=True, values=("Retain", "Delete")),
        doc="Retain (the default) or Delete for the claims of a StatefulSet that is deleted."),
    field("whenScaled", 2, PersistentVolumeClaimRetentionPolicyType, fills="Retain",
        limits=Limits(empty=True, values=("Retain", "Delete")),
        doc="Retain (the default) or Delete for the claims of pods that are removed by scaling down."),
), doc="StatefulSetPersistentVolumeClaimRetentionPolicy decides whether unused claims are kept or deleted.")
StatefulSetOrdinals = Struct("io.k8s.api.apps.v1.StatefulSetOrdinals", lambda: (
    field("start", 1, INT32, omit=False, limits=Limits(least=0),
        doc="Ordinal of the first pod; 0 when not set."),
), doc="StatefulSetOrdinals has the settings for the numbers of pods.")
StatefulSetSpec = Struct("io.k8s.api.apps.v1.StatefulSetSpec", lambda: (
    field("replicas", 1, INT32, pointer=True, fills=1, limits=Limits(least=0),
        doc="Desired number of pods; 1 when not set."),
    field("selector", 2, LabelSelector, omit=False, pointer=True, required=True, limits=Limits(required=True),
        doc="Labels of the pods that belong to the set; must match the template and is fixed."),
    field("template", 3, PodTemplateSpec, omit=False, required=True,
        doc="Pattern of the pods; their names are the set's with an ordinal, and restartPolicy must be Always."),
    field("volumeClaimTemplates", 4, ListOf(PersistentVolumeClaim), ungated=EVERY_GATE,
        doc="Patterns of claims; each pod gets one of each, which it keeps under its name."),
    field("serviceName", 5, STRING, omit=False, limits=Limits(format="dns-label", empty=False),
        doc="Headless Service that gives the pods their DNS names; fixed."),
    field("podManagementPolicy", 6, PodManagementPolicyType, fills="OrderedReady",
        doc="OrderedReady (the default) starts and stops pods one after the other, Parallel all together; fixed."),
    field("updateStrategy", 7, StatefulSetUpdateStrategy, omit=False, doc="Update of pods to a new revision."),
    field("revisionHistoryLimit", 8, INT32, pointer=True, fills=10,
        doc="How many old revisions are kept for rolling back; 10 when not set."),
    field("minReadySeconds", 9, INT32, limits=Limits(least=0),
        doc="Seconds for which a pod must be ready to count as available; 0 when not set."),
    field("persistentVolumeClaimRetentionPolicy", 10, StatefulSetPersistentVolumeClaimRetentionPolicy, pointer=True,
        fills={},
        doc="Retention of unused claims; they are kept when not set."),
    field("ordinals", 11, StatefulSetOrdinals, pointer=True, doc="How pods are numbered; from 0 when not set."),
), doc="StatefulSetSpec describes the desired pods, their number and their claims.")
StatefulSetCondition = Struct("io.k8s.api.apps.v1.StatefulSetCondition", lambda: (
    field("type", 1, StatefulSetConditionType, omit=False, required=True, doc="Aspect that the condition is about."),
    field("status", 2, ConditionStatus, omit=False, required=True, doc="True, False or Unknown."),
    field("lastTransitionTime", 3, TIME, omit=False, doc="Time of the last change of status."),
    field("reason", 4, STRING, doc="Reason for the status as one CamelCase word, for programs."),
    field("message", 5, STRING, doc="Reason for the status as text, for people."),
), doc="StatefulSetCondition is one aspect of a StatefulSet's state.")
StatefulSetStatus = Struct("io.k8s.api.apps.v1.StatefulSetStatus", lambda: (
    field("observedGeneration", 1, INT64, limits=Limits(least=0),
        doc="metadata.generation that this status reflects; it is outdated if smaller than the object's."),
    field("replicas", 2, INT32, omit=False, required=True, limits=Limits(least=0),
        doc="Number of pods."),
    field("readyReplicas", 3, INT32, limits=Limits(least=0),
        doc="Number of pods that are ready."),
    field("currentReplicas", 4, INT32, limits=Limits(least=0),
        doc="Number of pods of currentRevision."),
    field("updatedReplicas", 5, INT32, limits=Limits(least=0),
        doc="Number of pods of updateRevision."),
    field("currentRevision", 6, STRING,
        doc="Revision that pods had before the update; equal to updateRevision when it is complete."),
    field("updateRevision", 7, STRING, doc="Revision that pods are brought to."),
    field("collisionCount", 9, INT32, pointer=True, limits=Limits(least=0),
        doc="Number of name collisions of revisions; part of the hash of the next name."),
    field("conditions", 10, ListOf(StatefulSetCondition, "map", ("type",), merge_key="type"),
        doc="Latest conditions, at most one of each type."),
    field("availableReplicas", 11, INT32, omit=False, limits=Limits(least=0),
        doc="Number of pods that have been ready for minReadySeconds."),
), doc="StatefulSetStatus counts the existing pods.")
StatefulSet = Struct("io.k8s.api.apps.v1.StatefulSet", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
    field("spec", 2, StatefulSetSpec, omit=False, doc="The desired pods and claims."),
    field("status", 3, StatefulSetStatus, omit=False, doc="The existing pods."),
), gvk=("apps", "v1", "StatefulSet"), doc="StatefulSet runs pods that each have a lasting name and storage.")
RollingUpdateDeployment = Struct("io.k8s.api.apps.v1.RollingUpdateDeployment", lambda: (
    field("maxUnavailable", 1, INT_OR_STRING, pointer=True, limits=Limits(least=0, format="percent"),
        doc="How many pods may be missing, as a number or a percentage of replicas, rounded down; 25% when not set."),
    field("maxSurge", 2, INT_OR_STRING, pointer=True, limits=Limits(least=0, format="percent"),
        doc="How many pods there may be in excess of replicas, as a number or a percentage, rounded up; 25% when not "
            "set."),
), doc="RollingUpdateDeployment limits the missing and extra pods during an update.")
DeploymentStrategy = Struct("io.k8s.api.apps.v1.DeploymentStrategy", lambda: (
    field("type", 1, DeploymentStrategyType, fills="RollingUpdate",
        doc="RollingUpdate (the default) replaces pods step by step, Recreate deletes all old pods first."),
    field("rollingUpdate", 2, RollingUpdateDeployment, pointer=True,
        doc="Settings for RollingUpdate; not allowed with Recreate."),
), doc="DeploymentStrategy defines the replacement of old pods by new ones.")
DeploymentSpec = Struct("io.k8s.api.apps.v1.DeploymentSpec", lambda: (
    field("replicas", 1, INT32, pointer=True, fills=1, limits=Limits(least=0),
        doc="Desired number of pods; 1 when not set."),
    field("selector", 2, LabelSelector, omit=False, pointer=True, required=True,
        limits=Limits(required=True, immutable=FIXED),
        doc="Labels of the pods that belong to the deployment; must match the template and is fixed."),
    field("template", 3, PodTemplateSpec, omit=False, required=True,
        doc="Pattern of the pods; a change of it starts an update. restartPolicy must be Always."),
    field("strategy", 4, DeploymentStrategy, omit=False, strategy="retainKeys",
        doc="How an update of the pods proceeds; step by step when not set."),
    field("minReadySeconds", 5, INT32, limits=Limits(least=0),
        doc="Seconds for which a pod must be ready to count as available; 0 when not set."),
    field("revisionHistoryLimit", 6, INT32, pointer=True, fills=10, limits=Limits(least=0),
        doc="How many old ReplicaSets are kept for rolling back; 10 when not set."),
    field("paused", 7, BOOL, doc="True to hold back updates of the pods; false when not set."),
    field("progressDeadlineSeconds", 9, INT32, pointer=True, fills=600, limits=Limits(least=0),
        doc="Seconds without progress after which the condition Progressing turns False; 600 when not set."),
), doc="DeploymentSpec describes the desired pods, their number and their updates.")
DeploymentCondition = Struct("io.k8s.api.apps.v1.DeploymentCondition", lambda: (
    field("type", 1, DeploymentConditionType, omit=False, required=True,
        doc="Aspect: Available, Progressing or ReplicaFailure."),
    field("status", 2, ConditionStatus, omit=False, required=True, doc="True, False or Unknown."),
    field("lastUpdateTime", 6, TIME, omit=False, doc="Time of the last change of the condition."),
    field("lastTransitionTime", 7, TIME, omit=False, doc="Time of the last change of status."),
    field("reason", 4, STRING, doc="Reason for the status as one CamelCase word, for programs."),
    field("message", 5, STRING, doc="Reason for the status as text, for people."),
), doc="DeploymentCondition is one aspect of a Deployment's state.")
DeploymentStatus = Struct("io.k8s.api.apps.v1.DeploymentStatus", lambda: (
    field("observedGeneration", 1, INT64, limits=Limits(least=0),
        doc="metadata.generation that this status reflects; it is outdated if smaller than the object's."),
    field("replicas", 2, INT32, limits=Limits(least=0),
        doc="Number of pods, without those that are being deleted."),
    field("updatedReplicas", 3, INT32, limits=Limits(least=0),
        doc="Number of pods that are made from the present template."),
    field("readyReplicas", 7, INT32, limits=Limits(least=0),
        doc="Number of pods that are ready."),
    field("availableReplicas", 4, INT32, limits=Limits(least=0),
        doc="Number of pods that have been ready for minReadySeconds."),
    field("unavailableReplicas", 5, INT32, limits=Limits(least=0),
        doc="Number of pods that are still missing or not yet available."),
    field("terminatingReplicas", 9, INT32, pointer=True, gate="DeploymentReplicaSetTerminatingReplicas",
        limits=Limits(least=0),
        doc="Number of pods that are being deleted."),
    field("conditions", 6, ListOf(DeploymentCondition, "map", ("type",), merge_key="type"),
        doc="Latest conditions, at most one of each type."),
    field("collisionCount", 8, INT32, pointer=True, limits=Limits(least=0),
        doc="Number of name collisions of ReplicaSets; part of the hash of the next name."),
), doc="DeploymentStatus counts the existing pods.")
Deployment = Struct("io.k8s.api.apps.v1.Deployment", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
    field("spec", 2, DeploymentSpec, omit=False, doc="The desired pods and their updates."),
    field("status", 3, DeploymentStatus, omit=False, doc="The existing pods."),
), gvk=("apps", "v1", "Deployment"), doc="Deployment runs equal pods and updates them step by step.")
RollingUpdateDaemonSet = Struct("io.k8s.api.apps.v1.RollingUpdateDaemonSet", lambda: (
    field("maxUnavailable", 1, INT_OR_STRING, pointer=True, limits=Limits(least=0, format="percent"),
        doc="On how many nodes the pod may be missing, as a number or a percentage of the nodes, rounded up; 1 when "
            "not set."),
    field("maxSurge", 2, INT_OR_STRING, pointer=True, limits=Limits(least=0, format="percent"),
        doc="On how many nodes the new pod may run beside the old one, as a number or a percentage, rounded up; 0 when "
            "not set."),
), doc="RollingUpdateDaemonSet limits the missing and extra pods during an update.")
DaemonSetUpdateStrategy = Struct("io.k8s.api.apps.v1.DaemonSetUpdateStrategy", lambda: (
    field("type", 1, DaemonSetUpdateStrategyType, fills="RollingUpdate",
        doc="RollingUpdate (the default) replaces pods, OnDelete waits until they are deleted."),
    field("rollingUpdate", 2, RollingUpdateDaemonSet, pointer=True, doc="Settings for RollingUpdate."),
), doc="DaemonSetUpdateStrategy defines the replacement of old pods by new ones.")
DaemonSetSpec = Struct("io.k8s.api.apps.v1.DaemonSetSpec", lambda: (
    field("selector", 1, LabelSelector, omit=False, pointer=True, required=True, limits=Limits(immutable=FIXED),
        doc="Labels of the pods that belong to the set; must match the template and is fixed."),
    field("template", 2, PodTemplateSpec, omit=False, required=True,
        doc="Template of the pods; its node selector and affinity choose the nodes. restartPolicy must be Always."),
    field("updateStrategy", 3, DaemonSetUpdateStrategy, omit=False,
        doc="How the pod of each node is replaced by a new one."),
    field("minReadySeconds", 4, INT32, limits=Limits(least=0),
        doc="Seconds for which a pod must be ready to count as available; 0 when not set."),
    field("revisionHistoryLimit", 6, INT32, pointer=True, fills=10, limits=Limits(least=0),
        doc="How many old revisions are kept for rolling back; 10 when not set."),
), doc="DaemonSetSpec describes the pod of every node.")
DaemonSetCondition = Struct("io.k8s.api.apps.v1.DaemonSetCondition", lambda: (
    field("type", 1, DaemonSetConditionType, omit=False, required=True, doc="Aspect that the condition is about."),
    field("status", 2, ConditionStatus, omit=False, required=True, doc="True, False or Unknown."),
    field("lastTransitionTime", 3, TIME, omit=False, doc="Time of the last change of status."),
    field("reason", 4, STRING, doc="Reason for the status as one CamelCase word, for programs."),
    field("message", 5, STRING, doc="Reason for the status as text, for people."),
), doc="DaemonSetCondition is one aspect of a DaemonSet's state.")
DaemonSetStatus = Struct("io.k8s.api.apps.v1.DaemonSetStatus", lambda: (
    field("currentNumberScheduled", 1, INT32, omit=False, required=True, limits=Limits(least=0),
        doc="Number of nodes that have a pod and should."),
    field("numberMisscheduled", 2, INT32, omit=False, required=True, limits=Limits(least=0),
        doc="Number of nodes that have a pod and should not."),
    field("desiredNumberScheduled", 3, INT32, omit=False, required=True, limits=Limits(least=0),
        doc="Number of nodes that should have a pod."),
    field("numberReady", 4, INT32, omit=False, required=True, limits=Limits(least=0),
        doc="Number of nodes that should have a pod and have a ready one."),
    field("observedGeneration", 5, INT64, limits=Limits(least=0),
        doc="metadata.generation that this status reflects; it is outdated if smaller than the object's."),
    field("updatedNumberScheduled", 6, INT32, limits=Limits(least=0),
        doc="Number of nodes whose pod is made from the present template."),
    field("numberAvailable", 7, INT32, limits=Limits(least=0),
        doc="Number of nodes that should have a pod and have one that has been ready for minReadySeconds."),
    field("numberUnavailable", 8, INT32, limits=Limits(least=0),
        doc="Number of nodes that should have a pod and have no available one."),
    field("collisionCount", 9, INT32, pointer=True, limits=Limits(least=0),
        doc="Number of name collisions of revisions; part of the hash of the next name."),
    field("conditions", 10, ListOf(DaemonSetCondition, "map", ("type",), merge_key="type"),
        doc="Latest conditions, at most one of each type."),
), doc="DaemonSetStatus counts the nodes by the state of their pods.")
DaemonSet = Struct("io.k8s.api.apps.v1.DaemonSet", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
    field("spec", 2, DaemonSetSpec, omit=False, doc="The desired pod and its updates."),
    field("status", 3, DaemonSetStatus, omit=False, doc="The nodes, counted by the state of their pods."),
), gvk=("apps", "v1", "DaemonSet"),
    doc="DaemonSet runs one pod on every node, or on every node that its template selects.")
ReplicaSetSpec = Struct("io.k8s.api.apps.v1.ReplicaSetSpec", lambda: (
    field("replicas", 1, INT32, pointer=True, fills=1, limits=Limits(least=0),
        doc="Desired number of pods; 1 when not set."),
    field("minReadySeconds", 4, INT32, limits=Limits(least=0),
        doc="Seconds for which a pod must be ready to count as available; 0 when not set."),
    field("selector", 2, LabelSelector, omit=False, pointer=True, required=True,
        limits=Limits(required=True, immutable=FIXED),
        doc="Labels of the pods that belong to the set; must match the template and is fixed."),
    field("template", 3, PodTemplateSpec, omit=False, doc="Pattern of the pods; restartPolicy must be Always."),
), doc="ReplicaSetSpec describes the desired pods and their number.")
ReplicaSetCondition = Struct("io.k8s.api.apps.v1.ReplicaSetCondition", lambda: (
    field("type", 1, ReplicaSetConditionType, omit=False, required=True,
        doc="Aspect: ReplicaFailure, when pods cannot be created or deleted."),
    field("status", 2, ConditionStatus, omit=False, required=True, doc="True, False or Unknown."),
    field("lastTransitionTime", 3, TIME, omit=False, doc="Time of the last change of status."),
    field("reason", 4, STRING, doc="Reason for the status as one CamelCase word, for programs."),
    field("message", 5, STRING, doc="Reason for the status as text, for people."),
), doc="ReplicaSetCondition is one aspect of a ReplicaSet's state.")
ReplicaSetStatus = Struct("io.k8s.api.apps.v1.ReplicaSetStatus", lambda: (
    field("replicas", 1, INT32, omit=False, required=True, limits=Limits(least=0),
        doc="Number of pods, without those that are being deleted."),
    field("fullyLabeledReplicas", 2, INT32, limits=Limits(least=0),
        doc="Number of pods that have all labels of the template."),
    field("readyReplicas", 4, INT32, limits=Limits(least=0),
        doc="Number of pods that are ready."),
    field("availableReplicas", 5, INT32, limits=Limits(least=0),
        doc="Number of pods that have been ready for minReadySeconds."),
    field("terminatingReplicas", 7, INT32, pointer=True, gate="DeploymentReplicaSetTerminatingReplicas",
        limits=Limits(least=0),
        doc="Number of pods that are being deleted."),
    field("observedGeneration", 3, INT64, limits=Limits(least=0),
        doc="metadata.generation that this status reflects; it is outdated if smaller than the object's."),
    field("conditions", 6, ListOf(ReplicaSetCondition, "map", ("type",), merge_key="type"),
        doc="Latest conditions, at most one of each type."),
), doc="ReplicaSetStatus counts the existing pods.")
ReplicaSet = Struct("io.k8s.api.apps.v1.ReplicaSet", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
    field("spec", 2, ReplicaSetSpec, omit=False, doc="The desired pods."),
    field("status", 3, ReplicaSetStatus, omit=False, doc="The existing pods."),
), gvk=("apps", "v1", "ReplicaSet"),
    doc="ReplicaSet keeps a number of equal pods running; usually a Deployment makes it.")
ControllerRevision = Struct("io.k8s.api.apps.v1.ControllerRevision", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
    field("data", 2, RAW, omit=False, limits=Limits(immutable=FIXED),
        doc="The state, as the controller writes it; fixed."),
    field("revision", 3, INT64, omit=False, required=True, limits=Limits(least=0),
        doc="Number of the revision; a greater one is later."),
), gvk=("apps", "v1", "ControllerRevision"),
    doc="ControllerRevision is one state of a DaemonSet's or StatefulSet's template, kept for rolling back.")


ControllerRevisionList = list_of(ControllerRevision)
DaemonSetList = list_of(DaemonSet)
DeploymentList = list_of(Deployment)
ReplicaSetList = list_of(ReplicaSet)
StatefulSetList = list_of(StatefulSet)
