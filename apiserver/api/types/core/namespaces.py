"""Namespace of core/v1."""

from __future__ import annotations

from apiserver.api.schema.language import STRING, TIME, ListOf, Struct, field, string
from apiserver.api.types.core.pods import ConditionStatus
from apiserver.api.types.meta import TYPE_META, ObjectMeta, list_of

FinalizerName = string("v1.FinalizerName")
NamespaceConditionType = string("v1.NamespaceConditionType")
NamespacePhase = string("v1.NamespacePhase", "Active", "Terminating")

NamespaceSpec = Struct("io.k8s.api.core.v1.NamespaceSpec", lambda: (
    field("finalizers", 1, ListOf(FinalizerName),
        doc="Names that must all be removed before the namespace is gone; kubernetes stands for the deletion of its "
            "objects."),
), doc="NamespaceSpec has the finalizers of a namespace.")
NamespaceCondition = Struct("io.k8s.api.core.v1.NamespaceCondition", lambda: (
    field("type", 1, NamespaceConditionType, omit=False, required=True,
        doc="Aspect, such as NamespaceContentRemaining or NamespaceDeletionContentFailure."),
    field("status", 2, ConditionStatus, omit=False, required=True, doc="True, False or Unknown."),
    field("lastTransitionTime", 4, TIME, omit=False, doc="Time of the last change of status."),
    field("reason", 5, STRING, doc="Reason for the status as one CamelCase word, for programs."),
    field("message", 6, STRING, doc="Reason for the status as text, for people."),
), doc="NamespaceCondition is one aspect of a namespace's deletion.")
NamespaceStatus = Struct("io.k8s.api.core.v1.NamespaceStatus", lambda: (
    field("phase", 1, NamespacePhase,
        doc="Active, or Terminating once the namespace is being deleted; nothing can be created in it then."),
    field("conditions", 2, ListOf(NamespaceCondition, "map", ("type",), merge_key="type"),
        doc="Latest conditions, at most one of each type."),
), doc="NamespaceStatus reports the deletion of a namespace.")
Namespace = Struct("io.k8s.api.core.v1.Namespace", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
    field("spec", 2, NamespaceSpec, omit=False, doc="Finalizers of the namespace."),
    field("status", 3, NamespaceStatus, omit=False, doc="Whether the namespace is in use or being deleted."),
), gvk=("", "v1", "Namespace"), doc="Namespace is a scope for names; deleting it deletes all objects in it.")

NamespaceList = list_of(Namespace)
