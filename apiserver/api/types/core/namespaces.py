"""Namespace of core/v1."""

from __future__ import annotations

from apiserver.api.schema import STRING, TIME, ListOf, Struct, field, string
from apiserver.api.types.core.pods import ConditionStatus
from apiserver.api.types.meta import TYPE_META, ObjectMeta, list_of

FinalizerName = string("v1.FinalizerName")
NamespaceConditionType = string("v1.NamespaceConditionType")
NamespacePhase = string("v1.NamespacePhase", "Active", "Terminating")

NamespaceSpec = Struct("io.k8s.api.core.v1.NamespaceSpec", lambda: (
    field("finalizers", 1, ListOf(FinalizerName)),
))
NamespaceCondition = Struct("io.k8s.api.core.v1.NamespaceCondition", lambda: (
    field("type", 1, NamespaceConditionType, omit=False, required=True),
    field("status", 2, ConditionStatus, omit=False, required=True),
    field("lastTransitionTime", 4, TIME, omit=False),
    field("reason", 5, STRING),
    field("message", 6, STRING),
))
NamespaceStatus = Struct("io.k8s.api.core.v1.NamespaceStatus", lambda: (
    field("phase", 1, NamespacePhase),
    field("conditions", 2, ListOf(NamespaceCondition, "map", ("type",), merge_key="type")),
))
Namespace = Struct("io.k8s.api.core.v1.Namespace", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False),
    field("spec", 2, NamespaceSpec, omit=False),
    field("status", 3, NamespaceStatus, omit=False),
), gvk=("", "v1", "Namespace"))

NamespaceList = list_of(Namespace)
