"""ReplicationController and PodTemplate of core/v1."""

from __future__ import annotations

from apiserver.api.schema.language import INT32, INT64, STRING, TIME, ListOf, MapOf, Struct, field, string
from apiserver.api.schema.limits import Limits
from apiserver.api.types.core.pods import ConditionStatus, PodTemplateSpec
from apiserver.api.types.meta import TYPE_META, ObjectMeta, list_of

ReplicationControllerConditionType = string("v1.ReplicationControllerConditionType")

ReplicationControllerSpec = Struct("io.k8s.api.core.v1.ReplicationControllerSpec", lambda: (
    field("replicas", 1, INT32, pointer=True, default=1, limits=Limits(least=0),
        doc="Desired number of pods; 1 when not set."),
    field("minReadySeconds", 4, INT32, default=0, limits=Limits(least=0),
        doc="Seconds for which a pod must be ready to count as available; 0 when not set."),
    field("selector", 2, MapOf(STRING, atomic=True), limits=Limits(required=True),
        doc="Labels of the pods that are counted; those of the template when empty."),
    field("template", 3, PodTemplateSpec, pointer=True,
        doc="Pattern of new pods; its labels must match the selector, and its restartPolicy must be Always."),
), doc="ReplicationControllerSpec describes the desired pods and their number.")
ReplicationControllerCondition = Struct("io.k8s.api.core.v1.ReplicationControllerCondition", lambda: (
    field("type", 1, ReplicationControllerConditionType, omit=False, required=True,
        doc="Aspect: ReplicaFailure, when pods cannot be created or deleted."),
    field("status", 2, ConditionStatus, omit=False, required=True, doc="True, False or Unknown."),
    field("lastTransitionTime", 3, TIME, omit=False, doc="Time of the last change of status."),
    field("reason", 4, STRING, doc="Reason for the status as one CamelCase word, for programs."),
    field("message", 5, STRING, doc="Reason for the status as text, for people."),
), doc="ReplicationControllerCondition is one aspect of a controller's state.")
ReplicationControllerStatus = Struct("io.k8s.api.core.v1.ReplicationControllerStatus", lambda: (
    field("replicas", 1, INT32, omit=False, required=True, limits=Limits(least=0),
        doc="Number of pods, without those that are being deleted."),
    field("fullyLabeledReplicas", 2, INT32, limits=Limits(least=0),
        doc="Number of pods that have all labels of the template."),
    field("readyReplicas", 4, INT32, limits=Limits(least=0),
        doc="Number of pods that are ready."),
    field("availableReplicas", 5, INT32, limits=Limits(least=0),
        doc="Number of pods that have been ready for minReadySeconds."),
    field("observedGeneration", 3, INT64, limits=Limits(least=0),
        doc="metadata.generation that this status reflects; it is outdated if smaller than the object's."),
    field("conditions", 6, ListOf(ReplicationControllerCondition, "map", ("type",), merge_key="type"),
        doc="Latest conditions, at most one of each type."),
), doc="ReplicationControllerStatus counts the existing pods.")
ReplicationController = Struct("io.k8s.api.core.v1.ReplicationController", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
    field("spec", 2, ReplicationControllerSpec, omit=False, doc="The desired pods."),
    field("status", 3, ReplicationControllerStatus, omit=False, doc="The existing pods."),
), gvk=("", "v1", "ReplicationController"),
    doc="ReplicationController keeps a number of equal pods running; ReplicaSet is its successor.")
PodTemplate = Struct("io.k8s.api.core.v1.PodTemplate", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
    field("template", 2, PodTemplateSpec, omit=False, doc="The pattern."),
), gvk=("", "v1", "PodTemplate"), doc="PodTemplate is a pattern for pods as an object of its own.")

ReplicationControllerList = list_of(ReplicationController)
PodTemplateList = list_of(PodTemplate)
