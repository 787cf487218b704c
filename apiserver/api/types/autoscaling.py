"""Scale of autoscaling/v1, the body of scale subresources."""

from __future__ import annotations

from apiserver.api.schema import INT32, STRING, Struct, field
from apiserver.api.types.meta import TYPE_META, ObjectMeta

ScaleSpec = Struct("io.k8s.api.autoscaling.v1.ScaleSpec", lambda: (
    field("replicas", 1, INT32, default=0),
))
ScaleStatus = Struct("io.k8s.api.autoscaling.v1.ScaleStatus", lambda: (
    field("replicas", 1, INT32, omit=False, required=True),
    field("selector", 2, STRING),
))
Scale = Struct("io.k8s.api.autoscaling.v1.Scale", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False),
    field("spec", 2, ScaleSpec, omit=False),
    field("status", 3, ScaleStatus, omit=False),
), gvk=("autoscaling", "v1", "Scale"))

