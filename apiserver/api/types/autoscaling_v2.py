"""HorizontalPodAutoscaler of autoscaling/v2."""

from __future__ import annotations

from apiserver.api.features.gated_fields import gated
from apiserver.api.schema.language import INT32, INT64, QUANTITY, STRING, TIME, ListOf, Struct, field, string
from apiserver.api.types.core.containers import ResourceName
from apiserver.api.types.core.pods import ConditionStatus
from apiserver.api.types.meta import TYPE_META, LabelSelector, ObjectMeta, list_of

MetricTargetType = string("v2.MetricTargetType")
MetricSourceType = string("v2.MetricSourceType")
HPAScalingPolicyType = string("v2.HPAScalingPolicyType")
ScalingPolicySelect = string("v2.ScalingPolicySelect")
HorizontalPodAutoscalerConditionType = string("v2.HorizontalPodAutoscalerConditionType")

CrossVersionObjectReference = Struct("io.k8s.api.autoscaling.v2.CrossVersionObjectReference", lambda: (
    field("kind", 1, STRING, omit=False, required=True, doc="Kind of the object."),
    field("name", 2, STRING, omit=False, required=True, doc="Name of the object."),
    field("apiVersion", 3, STRING, doc="API version of the object, such as apps/v1."),
), doc="CrossVersionObjectReference names an object of any kind in the same namespace.")
MetricIdentifier = Struct("io.k8s.api.autoscaling.v2.MetricIdentifier", lambda: (
    field("name", 1, STRING, omit=False, required=True, doc="Name of the metric."),
    field("selector", 2, LabelSelector, pointer=True,
        doc="Labels by which the metric's source narrows it down; the whole metric when not set."),
), doc="MetricIdentifier names a metric.")
MetricTarget = Struct("io.k8s.api.autoscaling.v2.MetricTarget", lambda: (
    field("type", 1, MetricTargetType, omit=False, required=True, doc="Utilization, Value or AverageValue."),
    field("value", 2, QUANTITY, pointer=True, doc="Wanted value of the metric."),
    field("averageValue", 3, QUANTITY, pointer=True, doc="Wanted value of the metric for each pod on average."),
    field("averageUtilization", 4, INT32, pointer=True,
        doc="Wanted use of what pods ask for, in percent on average; for resources alone."),
), doc="MetricTarget is what a metric should be.")
MetricValueStatus = Struct("io.k8s.api.autoscaling.v2.MetricValueStatus", lambda: (
    field("value", 1, QUANTITY, pointer=True, doc="Value of the metric."),
    field("averageValue", 2, QUANTITY, pointer=True, doc="Value of the metric for each pod on average."),
    field("averageUtilization", 3, INT32, pointer=True, doc="Use of what pods ask for, in percent on average."),
), doc="MetricValueStatus is what a metric is.")
ObjectMetricSource = Struct("io.k8s.api.autoscaling.v2.ObjectMetricSource", lambda: (
    field("describedObject", 1, CrossVersionObjectReference, omit=False, required=True, doc="The object."),
    field("target", 2, MetricTarget, omit=False, required=True, doc="What the metric should be."),
    field("metric", 3, MetricIdentifier, omit=False, required=True, doc="The metric."),
), doc="ObjectMetricSource is a metric of one object, such as the requests of an ingress.")
PodsMetricSource = Struct("io.k8s.api.autoscaling.v2.PodsMetricSource", lambda: (
    field("metric", 1, MetricIdentifier, omit=False, required=True, doc="The metric."),
    field("target", 2, MetricTarget, omit=False, required=True, doc="What it should be on average."),
), doc="PodsMetricSource is a metric of each pod, such as transactions per second.")
ResourceMetricSource = Struct("io.k8s.api.autoscaling.v2.ResourceMetricSource", lambda: (
    field("name", 1, ResourceName, omit=False, required=True, doc="Name of the resource, such as cpu."),
    field("target", 2, MetricTarget, omit=False, required=True, doc="What the use should be on average."),
), doc="ResourceMetricSource is the use of a resource by the pods.")
ContainerResourceMetricSource = Struct("io.k8s.api.autoscaling.v2.ContainerResourceMetricSource", lambda: (
    field("name", 1, ResourceName, omit=False, required=True, doc="Name of the resource, such as cpu."),
    field("target", 2, MetricTarget, omit=False, required=True, doc="What the use should be on average."),
    field("container", 3, STRING, omit=False, required=True, doc="Name of the container."),
), doc="ContainerResourceMetricSource is the use of a resource by one container of each pod.")
ExternalMetricSource = Struct("io.k8s.api.autoscaling.v2.ExternalMetricSource", lambda: (
    field("metric", 1, MetricIdentifier, omit=False, required=True, doc="The metric."),
    field("target", 2, MetricTarget, omit=False, required=True, doc="What the metric should be."),
), doc="ExternalMetricSource is a metric of something outside of the cluster, such as the length of a queue.")
MetricSpec = Struct("io.k8s.api.autoscaling.v2.MetricSpec", lambda: (
    field("type", 1, MetricSourceType, omit=False, required=True,
        doc="Which source is set: Object, Pods, Resource, ContainerResource or External."),
    field("object", 2, ObjectMetricSource, pointer=True, doc="A metric of one object."),
    field("pods", 3, PodsMetricSource, pointer=True, doc="A metric of each pod."),
    field("resource", 4, ResourceMetricSource, pointer=True, doc="The use of a resource by the pods."),
    field("containerResource", 7, ContainerResourceMetricSource, pointer=True,
        doc="The use of a resource by one container of each pod."),
    field("external", 5, ExternalMetricSource, pointer=True, doc="A metric of something outside of the cluster."),
), doc="MetricSpec is one metric to scale by.")
HPAScalingPolicy = Struct("io.k8s.api.autoscaling.v2.HPAScalingPolicy", lambda: (
    field("type", 1, HPAScalingPolicyType, omit=False, required=True,
        doc="Pods (a number of them) or Percent (of the present size)."),
    field("value", 2, INT32, omit=False, required=True, doc="How many pods or percent, more than 0."),
    field("periodSeconds", 3, INT32, omit=False, required=True,
        doc="Seconds in which that much may change, 1 to 1800."),
), doc="HPAScalingPolicy bounds how much may change in a period.")
HPAScalingRules = Struct("io.k8s.api.autoscaling.v2.HPAScalingRules", lambda: (
    field("stabilizationWindowSeconds", 3, INT32, pointer=True,
        doc="Seconds whose recommendations are looked at, 0 to 3600, so that the size does not flap; 0 up, and "
            "the controller's setting down, when not set."),
    field("selectPolicy", 1, ScalingPolicySelect, pointer=True,
        doc="Max (the policy that allows most, the default), Min, or Disabled for no change in this direction."),
    field("policies", 2, ListOf(HPAScalingPolicy), keep_empty=True, doc="Bounds, at least one."),
    field("tolerance", 4, QUANTITY, pointer=True, gate=gated("HPAConfigurableTolerance"),
        doc="How far a metric may be off before the size changes, such as 0.05; the cluster's setting when not set."),
), doc="HPAScalingRules says how fast the size may change in one direction.")
HorizontalPodAutoscalerBehavior = Struct("io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerBehavior", lambda: (
    field("scaleUp", 1, HPAScalingRules, pointer=True,
        doc="Upwards: by 4 pods or double in 15 seconds, whichever is more, when not set."),
    field("scaleDown", 2, HPAScalingRules, pointer=True,
        doc="Downwards: as far as it goes, by the recommendations of some minutes, when not set."),
), doc="HorizontalPodAutoscalerBehavior says how fast the size may change.")
HorizontalPodAutoscalerSpec = Struct("io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerSpec", lambda: (
    field("scaleTargetRef", 1, CrossVersionObjectReference, omit=False, required=True,
        doc="What is scaled: an object with the subresource scale."),
    field("minReplicas", 2, INT32, pointer=True, fills=1,
        doc="Smallest size, 1 when not set; 0 needs a feature gate and a metric of an object or from outside."),
    field("maxReplicas", 3, INT32, omit=False, required=True, doc="Largest size, not below minReplicas."),
    field("metrics", 4, ListOf(MetricSpec),
        doc="What the size goes by; of several the one that wants most. 80 % of the requested CPU when empty."),
    field("behavior", 5, HorizontalPodAutoscalerBehavior, pointer=True, doc="How fast the size may change."),
), doc="HorizontalPodAutoscalerSpec says what is scaled, by what, and how far.")
ObjectMetricStatus = Struct("io.k8s.api.autoscaling.v2.ObjectMetricStatus", lambda: (
    field("metric", 1, MetricIdentifier, omit=False, required=True, doc="The metric."),
    field("current", 2, MetricValueStatus, omit=False, required=True, doc="Its value."),
    field("describedObject", 3, CrossVersionObjectReference, omit=False, required=True, doc="The object."),
), doc="ObjectMetricStatus is what a metric of one object is.")
PodsMetricStatus = Struct("io.k8s.api.autoscaling.v2.PodsMetricStatus", lambda: (
    field("metric", 1, MetricIdentifier, omit=False, required=True, doc="The metric."),
    field("current", 2, MetricValueStatus, omit=False, required=True, doc="Its value."),
), doc="PodsMetricStatus is what a metric of each pod is.")
ResourceMetricStatus = Struct("io.k8s.api.autoscaling.v2.ResourceMetricStatus", lambda: (
    field("name", 1, ResourceName, omit=False, required=True, doc="Name of the resource."),
    field("current", 2, MetricValueStatus, omit=False, required=True, doc="The use."),
), doc="ResourceMetricStatus is how the pods use a resource.")
ContainerResourceMetricStatus = Struct("io.k8s.api.autoscaling.v2.ContainerResourceMetricStatus", lambda: (
    field("name", 1, ResourceName, omit=False, required=True, doc="Name of the resource."),
    field("current", 2, MetricValueStatus, omit=False, required=True, doc="The use."),
    field("container", 3, STRING, omit=False, required=True, doc="Name of the container."),
), doc="ContainerResourceMetricStatus is how one container of each pod uses a resource.")
ExternalMetricStatus = Struct("io.k8s.api.autoscaling.v2.ExternalMetricStatus", lambda: (
    field("metric", 1, MetricIdentifier, omit=False, required=True, doc="The metric."),
    field("current", 2, MetricValueStatus, omit=False, required=True, doc="Its value."),
), doc="ExternalMetricStatus is what a metric of something outside is.")
MetricStatus = Struct("io.k8s.api.autoscaling.v2.MetricStatus", lambda: (
    field("type", 1, MetricSourceType, omit=False, required=True, doc="Which of the others is set."),
    field("object", 2, ObjectMetricStatus, pointer=True, doc="Of a metric of one object."),
    field("pods", 3, PodsMetricStatus, pointer=True, doc="Of a metric of each pod."),
    field("resource", 4, ResourceMetricStatus, pointer=True, doc="Of the use of a resource by the pods."),
    field("containerResource", 7, ContainerResourceMetricStatus, pointer=True,
        doc="Of the use of a resource by one container of each pod."),
    field("external", 5, ExternalMetricStatus, pointer=True, doc="Of a metric of something outside."),
), doc="MetricStatus is what one metric was when it was last read.")
HorizontalPodAutoscalerCondition = Struct("io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerCondition", lambda: (
    field("type", 1, HorizontalPodAutoscalerConditionType, omit=False, required=True,
        doc="What it is about: ScalingActive, AbleToScale, ScalingLimited or ScaledToZero."),
    field("status", 2, ConditionStatus, omit=False, required=True, doc="True, False or Unknown."),
    field("lastTransitionTime", 3, TIME, omit=False, doc="When status changed last."),
    field("reason", 4, STRING, doc="Why, as a CamelCase word."),
    field("message", 5, STRING, doc="Why, for people."),
), doc="HorizontalPodAutoscalerCondition says something of an autoscaler's state.")
HorizontalPodAutoscalerStatus = Struct("io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerStatus", lambda: (
    field("observedGeneration", 1, INT64, pointer=True, doc="Generation of the spec that this status is about."),
    field("lastScaleTime", 2, TIME, pointer=True, doc="When the size was changed last."),
    field("currentReplicas", 3, INT32, doc="Size that was last seen."),
    field("desiredReplicas", 4, INT32, omit=False, required=True, doc="Size that was last wanted."),
    field("currentMetrics", 5, ListOf(MetricStatus), omit=False, doc="Metrics as they were last read."),
    field("conditions", 6, ListOf(HorizontalPodAutoscalerCondition, "map", ("type",), merge_key="type"),
        doc="Latest conditions, at most one of each type."),
), doc="HorizontalPodAutoscalerStatus says what an autoscaler does.")
HorizontalPodAutoscaler = Struct("io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
    field("spec", 2, HorizontalPodAutoscalerSpec, omit=False, required=True,
        doc="What is scaled, by what, and how far."),
    field("status", 3, HorizontalPodAutoscalerStatus, omit=False, doc="What it does."),
), gvk=("autoscaling", "v2", "HorizontalPodAutoscaler"),
    doc="HorizontalPodAutoscaler changes the size of a workload by its metrics.")

HorizontalPodAutoscalerList = list_of(HorizontalPodAutoscaler)
