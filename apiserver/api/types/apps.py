"""Deployment of apps/v1."""

from __future__ import annotations

from apiserver.api.schema import BOOL, INT32, INT64, INT_OR_STRING, STRING, TIME, ListOf, Struct, field, string
from apiserver.api.types.core.pods import ConditionStatus, PodTemplateSpec
from apiserver.api.types.meta import TYPE_META, LabelSelector, ObjectMeta, list_of

DeploymentStrategyType = string("v1.DeploymentStrategyType", "Recreate", "RollingUpdate")
DeploymentConditionType = string("v1.DeploymentConditionType")

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

DeploymentList = list_of(Deployment)
