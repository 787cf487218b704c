"""ComponentStatus of core/v1."""

from __future__ import annotations

from apiserver.api.schema.language import STRING, ListOf, Struct, field, string
from apiserver.api.types.meta import TYPE_META, ConditionStatus, ObjectMeta, list_of

ComponentConditionType = string("v1.ComponentConditionType")

ComponentCondition = Struct("io.k8s.api.core.v1.ComponentCondition", lambda: (
    field("type", 1, ComponentConditionType, omit=False, required=True, doc="Aspect: Healthy."),
    field("status", 2, ConditionStatus, omit=False, required=True, doc="True, False or Unknown."),
    field("message", 3, STRING, doc="Response of the component, or the reason that it could not be reached."),
    field("error", 4, STRING, doc="Error of the health check."),
), doc="ComponentCondition is one aspect of a component.")
ComponentStatus = Struct("io.k8s.api.core.v1.ComponentStatus", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
    field("conditions", 2, ListOf(ComponentCondition, "map", ("type",), merge_key="type"),
        doc="Conditions of the component."),
), gvk=("", "v1", "ComponentStatus"), doc="ComponentStatus is the state of a part of the control plane. Deprecated.")

ComponentStatusList = list_of(ComponentStatus)
