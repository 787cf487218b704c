"""Scale of autoscaling/v1, the body of scale subresources."""

from __future__ import annotations

from apiserver.api.schema import INT32, STRING, Struct, field
from apiserver.api.types.meta import TYPE_META, ObjectMeta

ScaleSpec = Struct("io.k8s.api.autoscaling.v1.ScaleSpec", lambda: (
    field("replicas", 1, INT32, default=0, doc="Number of pods that are wanted; 0 when not set."),
), doc="ScaleSpec is the wanted size.")
ScaleStatus = Struct("io.k8s.api.autoscaling.v1.ScaleStatus", lambda: (
    field("replicas", 1, INT32, omit=False, required=True, doc="Number of pods that there are."),
    field("selector", 2, STRING, doc="Label selector of the pods, as text."),
), doc="ScaleStatus is the present size.")
Scale = Struct("io.k8s.api.autoscaling.v1.Scale", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Metadata of the workload."),
    field("spec", 2, ScaleSpec, omit=False, doc="The wanted size."),
    field("status", 3, ScaleStatus, omit=False, doc="The present size."),
), gvk=("autoscaling", "v1", "Scale"), doc="Scale is the size of a workload; it is the body of the subresource scale.")

