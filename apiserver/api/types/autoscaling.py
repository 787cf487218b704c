"""HorizontalPodAutoscaler of autoscaling/v1, and Scale, the body of scale subresources."""

from __future__ import annotations

from apiserver.api.schema.language import INT32, INT64, STRING, TIME, Struct, field
from apiserver.api.types.meta import TYPE_META, ObjectMeta, list_of

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
CrossVersionObjectReference = Struct("io.k8s.api.autoscaling.v1.CrossVersionObjectReference", lambda: (
    field("kind", 1, STRING, omit=False, required=True, doc="Kind of the object."),
    field("name", 2, STRING, omit=False, required=True, doc="Name of the object."),
    field("apiVersion", 3, STRING, doc="API version of the object, such as apps/v1."),
), atomic=True, doc="CrossVersionObjectReference names an object of any kind in the same namespace.")
HorizontalPodAutoscalerSpec = Struct("io.k8s.api.autoscaling.v1.HorizontalPodAutoscalerSpec", lambda: (
    field("scaleTargetRef", 1, CrossVersionObjectReference, omit=False, required=True,
        doc="What is scaled: an object with the subresource scale."),
    field("minReplicas", 2, INT32, pointer=True, fills=1,
        doc="Smallest size, 1 when not set; 0 needs a feature gate and a metric of an object or from outside."),
    field("maxReplicas", 3, INT32, omit=False, required=True, doc="Largest size, not below minReplicas."),
    field("targetCPUUtilizationPercentage", 4, INT32, pointer=True,
        doc="Wanted use of the requested CPU, in percent on average; 80 when nothing else is said."),
), doc="HorizontalPodAutoscalerSpec says what is scaled, by which use of CPU, and how far.")
HorizontalPodAutoscalerStatus = Struct("io.k8s.api.autoscaling.v1.HorizontalPodAutoscalerStatus", lambda: (
    field("observedGeneration", 1, INT64, pointer=True, doc="Generation of the spec that this status is about."),
    field("lastScaleTime", 2, TIME, pointer=True, doc="When the size was changed last."),
    field("currentReplicas", 3, INT32, omit=False, required=True, doc="Size that was last seen."),
    field("desiredReplicas", 4, INT32, omit=False, required=True, doc="Size that was last wanted."),
    field("currentCPUUtilizationPercentage", 5, INT32, pointer=True,
        doc="Use of the requested CPU, in percent on average."),
), doc="HorizontalPodAutoscalerStatus says what an autoscaler does.")
HorizontalPodAutoscaler = Struct("io.k8s.api.autoscaling.v1.HorizontalPodAutoscaler", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
    field("spec", 2, HorizontalPodAutoscalerSpec, omit=False, required=True, doc="What is scaled, and how far."),
    field("status", 3, HorizontalPodAutoscalerStatus, omit=False, doc="What it does."),
), gvk=("autoscaling", "v1", "HorizontalPodAutoscaler"),
    doc="HorizontalPodAutoscaler changes the size of a workload by its use of CPU.")

HorizontalPodAutoscalerList = list_of(HorizontalPodAutoscaler)
