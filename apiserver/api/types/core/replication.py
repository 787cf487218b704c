"""ReplicationController and PodTemplate of core/v1."""

from __future__ import annotations

from apiserver.api.schema import INT32, INT64, STRING, TIME, ListOf, MapOf, Struct, field, string
from apiserver.api.types.core.pods import ConditionStatus, PodTemplateSpec
from apiserver.api.types.meta import TYPE_META, ObjectMeta, list_of

ReplicationControllerConditionType = string("v1.ReplicationControllerConditionType")

ReplicationControllerSpec = Struct("io.k8s.api.core.v1.ReplicationControllerSpec", lambda: (
    field("replicas", 1, INT32, pointer=True, default=1),
    field("minReadySeconds", 4, INT32, default=0),
    field("selector", 2, MapOf(STRING, atomic=True)),
    field("template", 3, PodTemplateSpec, pointer=True),
))
ReplicationControllerCondition = Struct("io.k8s.api.core.v1.ReplicationControllerCondition", lambda: (
    field("type", 1, ReplicationControllerConditionType, omit=False, required=True),
    field("status", 2, ConditionStatus, omit=False, required=True),
    field("lastTransitionTime", 3, TIME, omit=False),
    field("reason", 4, STRING),
    field("message", 5, STRING),
))
ReplicationControllerStatus = Struct("io.k8s.api.core.v1.ReplicationControllerStatus", lambda: (
    field("replicas", 1, INT32, omit=False, required=True),
    field("fullyLabeledReplicas", 2, INT32),
    field("readyReplicas", 4, INT32),
    field("availableReplicas", 5, INT32),
    field("observedGeneration", 3, INT64),
    field("conditions", 6, ListOf(ReplicationControllerCondition, "map", ("type",), merge_key="type")),
))
ReplicationController = Struct("io.k8s.api.core.v1.ReplicationController", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False),
    field("spec", 2, ReplicationControllerSpec, omit=False),
    field("status", 3, ReplicationControllerStatus, omit=False),
), gvk=("", "v1", "ReplicationController"))
PodTemplate = Struct("io.k8s.api.core.v1.PodTemplate", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False),
    field("template", 2, PodTemplateSpec, omit=False),
), gvk=("", "v1", "PodTemplate"))

ReplicationControllerList = list_of(ReplicationController)
PodTemplateList = list_of(PodTemplate)
