"""HorizontalPodAutoscaler of autoscaling/v1, and Scale, the body of scale subresources."""

from __future__ import annotations

from apiserver.api.schema.language import INT32, INT64, STRING, TIME, Struct, field
from apiserver.api.types.meta import TYPE_META, ObjectMeta, list_of

ScaleSpec = Struct("io.k8s.api.autoscaling.v1.ScaleSpec", lambda: (
    field("replicas", 1, INT32, default=0, doc="Desired number of pods; 0 when not set."),
), doc="ScaleSpec is the desired size.")
ScaleStatus = Struct("io.k8s.api.autoscaling.v1.ScaleStatus", lambda: (
    field("replicas", 1, INT32, omit=False, required=True, doc="Number of existing pods."),
    field("selector", 2, STRING, doc="Label selector of the pods, as text."),
), doc="ScaleStatus is the actual size.")
Scale = Struct("io.k8s.api.autoscaling.v1.Scale", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Metadata of the workload."),
    field("spec", 2, ScaleSpec, omit=False, doc="The desired size."),
    field("status", 3, ScaleStatus, omit=False, doc="The actual size."),
), gvk=("autoscaling", "v1", "Scale"), doc="Scale is the size of a workload; it is the body of the subresource scale.")
CrossVersionObjectReference = Struct("io.k8s.api.autoscaling.v1.CrossVersionObjectReference", lambda: (
    field("kind", 1, STRING, omit=False, required=True, doc="Kind of the object."),
    field("name", 2, STRING, omit=False, required=True, doc="Name of the object."),
    field("apiVersion", 3, STRING, doc="API version of the object, such as apps/v1."),
), atomic=True, doc="CrossVersionObjectReference names an object of any kind in the same namespace.")
HorizontalPodAutoscalerSpec = Struct("io.k8s.api.autoscaling.v1.HorizontalPodAutoscalerSpec", lambda: (
    field("scaleTargetRef", 1, CrossVersionObjectReference, omit=False, required=True,
        doc="The target: an object with the subresource scale."),
    field("minReplicas", 2, INT32, pointer=True, fills=1,
        doc="Smallest size, 1 when not set; 0 needs a feature gate and an Object or External metric."),
    field("maxReplicas", 3, INT32, omit=False, required=True, doc="Largest size, not below minReplicas."),
    field("targetCPUUtilizationPercentage", 4, INT32, pointer=True,
        doc="Desired use of the requested CPU, in percent on average; 80 when not set."),
), doc="HorizontalPodAutoscalerSpec has the target, its size limits and the desired use of CPU.")
HorizontalPodAutoscalerStatus = Struct("io.k8s.api.autoscaling.v1.HorizontalPodAutoscalerStatus", lambda: (
    field("observedGeneration", 1, INT64, pointer=True, doc="metadata.generation that this status reflects."),
    field("lastScaleTime", 2, TIME, pointer=True, doc="Time of the last change of the size."),
    field("currentReplicas", 3, INT32, omit=False, required=True, doc="Last observed size."),
    field("desiredReplicas", 4, INT32, omit=False, required=True, doc="Last desired size."),
    field("currentCPUUtilizationPercentage", 5, INT32, pointer=True,
        doc="Use of the requested CPU, in percent on average."),
), doc="HorizontalPodAutoscalerStatus is the state of an autoscaler.")
HorizontalPodAutoscaler = Struct("io.k8s.api.autoscaling.v1.HorizontalPodAutoscaler", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
    field("spec", 2, HorizontalPodAutoscalerSpec, omit=False, required=True, doc="Target and limits."),
    field("status", 3, HorizontalPodAutoscalerStatus, omit=False, doc="State of the autoscaler."),
), gvk=("autoscaling", "v1", "HorizontalPodAutoscaler"),
    doc="HorizontalPodAutoscaler changes the size of a workload by its use of CPU.")

HorizontalPodAutoscalerList = list_of(HorizontalPodAutoscaler)
