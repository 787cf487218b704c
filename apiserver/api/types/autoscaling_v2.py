"""HorizontalPodAutoscaler of autoscaling/v2."""

from __future__ import annotations

from apiserver.api.features.gated_fields import gated
from apiserver.api.schema.language import INT32, INT64, QUANTITY, STRING, TIME, ListOf, Struct, field, string
from apiserver.api.schema.limits import Limits
from apiserver.api.schema.markers import Forbidden, Invalid, Required, differs, is_set, is_unset
from apiserver.api.types.core.containers import ResourceName
from apiserver.api.types.core.pods import ConditionStatus
from apiserver.api.types.meta import TYPE_META, LabelSelector, ObjectMeta, list_of

MetricTargetType = string("v2.MetricTargetType")
MetricSourceType = string("v2.MetricSourceType")
HPAScalingPolicyType = string("v2.HPAScalingPolicyType")
ScalingPolicySelect = string("v2.ScalingPolicySelect")
HorizontalPodAutoscalerConditionType = string("v2.HorizontalPodAutoscalerConditionType")
#: The target of a resource's use: in percent or as an amount.
ONE_TARGET = (
    Required("target.averageUtilization", "must set either a target raw value or a target utilization",
        when=is_unset("target.averageValue")),
    Forbidden("target.averageValue", "may not set both a target raw value and a target utilization",
        when=is_set("target.averageUtilization")),
)

CrossVersionObjectReference = Struct("io.k8s.api.autoscaling.v2.CrossVersionObjectReference", lambda: (
    field("kind", 1, STRING, omit=False, required=True, limits=Limits(required=True, format="path-segment"),
        doc="Kind of the object."),
    field("name", 2, STRING, omit=False, required=True, limits=Limits(required=True, format="path-segment"),
        doc="Name of the object."),
    field("apiVersion", 3, STRING, doc="API version of the object, such as apps/v1."),
), doc="CrossVersionObjectReference names an object of any kind in the same namespace.")
MetricIdentifier = Struct("io.k8s.api.autoscaling.v2.MetricIdentifier", lambda: (
    field("name", 1, STRING, omit=False, required=True,
        limits=Limits(required="must specify a metric name", format="path-segment"),
        doc="Name of the metric."),
    field("selector", 2, LabelSelector, pointer=True,
        doc="Labels that select series of the metric; all series when not set."),
), doc="MetricIdentifier names a metric.")
MetricTarget = Struct("io.k8s.api.autoscaling.v2.MetricTarget", lambda: (
    field("type", 1, MetricTargetType, omit=False, required=True, doc="Utilization, Value or AverageValue."),
    field("value", 2, QUANTITY, pointer=True, limits=Limits(least=1, words="must be positive"),
        doc="Desired value of the metric."),
    field("averageValue", 3, QUANTITY, pointer=True, limits=Limits(least=1, words="must be positive"),
        doc="Desired value of the metric per pod, on average."),
    field("averageUtilization", 4, INT32, pointer=True, limits=Limits(least=1, words="must be greater than 0"),
        doc="Desired use of the requested amount, in percent on average; only for resources."),
), doc="MetricTarget is the desired value of a metric.", rules=(
    Required("type", "must specify a metric target type"),
    Invalid("type", "must be either Utilization, Value, or AverageValue",
        when=differs("type", "Utilization", "Value", "AverageValue")),
    "value",
    "averageValue",
    "averageUtilization",
))
MetricValueStatus = Struct("io.k8s.api.autoscaling.v2.MetricValueStatus", lambda: (
    field("value", 1, QUANTITY, pointer=True, doc="Value of the metric."),
    field("averageValue", 2, QUANTITY, pointer=True, doc="Value of the metric per pod, on average."),
    field("averageUtilization", 3, INT32, pointer=True, doc="Use of the requested amount, in percent on average."),
), doc="MetricValueStatus is the actual value of a metric.")
ObjectMetricSource = Struct("io.k8s.api.autoscaling.v2.ObjectMetricSource", lambda: (
    field("describedObject", 1, CrossVersionObjectReference, omit=False, required=True, doc="The object."),
    field("target", 2, MetricTarget, omit=False, required=True, doc="Desired value."),
    field("metric", 3, MetricIdentifier, omit=False, required=True, doc="The metric."),
), doc="ObjectMetricSource is a metric of one object, such as the requests of an ingress.")
PodsMetricSource = Struct("io.k8s.api.autoscaling.v2.PodsMetricSource", lambda: (
    field("metric", 1, MetricIdentifier, omit=False, required=True, doc="The metric."),
    field("target", 2, MetricTarget, omit=False, required=True, doc="Desired average."),
), doc="PodsMetricSource is a metric of each pod, such as transactions per second.", rules=(
    "metric",
    "target",
    Required("target.averageValue", "must specify a positive target averageValue"),
))
ResourceMetricSource = Struct("io.k8s.api.autoscaling.v2.ResourceMetricSource", lambda: (
    field("name", 1, ResourceName, omit=False, required=True, limits=Limits(required="must specify a resource name"),
        doc="Name of the resource, such as cpu."),
    field("target", 2, MetricTarget, omit=False, required=True, doc="Desired average use."),
), doc="ResourceMetricSource is the use of a resource by the pods.", rules=(
    "name",
    "target",
    *ONE_TARGET,
))
ContainerResourceMetricSource = Struct("io.k8s.api.autoscaling.v2.ContainerResourceMetricSource", lambda: (
    field("name", 1, ResourceName, omit=False, required=True, limits=Limits(required="must specify a resource name"),
        doc="Name of the resource, such as cpu."),
    field("target", 2, MetricTarget, omit=False, required=True, doc="Desired average use."),
    field("container", 3, STRING, omit=False, required=True,
        limits=Limits(required="must specify a container", format="dns-label"),
        doc="Name of the container."),
), doc="ContainerResourceMetricSource is the use of a resource by one container of each pod.")
ExternalMetricSource = Struct("io.k8s.api.autoscaling.v2.ExternalMetricSource", lambda: (
    field("metric", 1, MetricIdentifier, omit=False, required=True, doc="The metric."),
    field("target", 2, MetricTarget, omit=False, required=True, doc="Desired value."),
), doc="ExternalMetricSource is a metric from outside the cluster, such as the length of a queue.", rules=(
    "metric",
    "target",
    Required("target.averageValue", "must set either a target value for metric or a per-pod target",
        when=is_unset("target.value")),
    Forbidden("target.value", "may not set both a target value for metric and a per-pod target",
        when=is_set("target.averageValue")),
))
MetricSpec = Struct("io.k8s.api.autoscaling.v2.MetricSpec", lambda: (
    field("type", 1, MetricSourceType, omit=False, required=True,
        doc="Source of the metric: Object, Pods, Resource, ContainerResource or External."),
    field("object", 2, ObjectMetricSource, pointer=True, doc="A metric of one object."),
    field("pods", 3, PodsMetricSource, pointer=True, doc="A metric of each pod."),
    field("resource", 4, ResourceMetricSource, pointer=True, doc="The use of a resource by the pods."),
    field("containerResource", 7, ContainerResourceMetricSource, pointer=True,
        doc="The use of a resource by one container of each pod."),
    field("external", 5, ExternalMetricSource, pointer=True, doc="A metric from outside the cluster."),
), doc="MetricSpec is one metric to scale by.")
HPAScalingPolicy = Struct("io.k8s.api.autoscaling.v2.HPAScalingPolicy", lambda: (
    field("type", 1, HPAScalingPolicyType, omit=False, required=True, limits=Limits(values=("Percent", "Pods")),
        doc="Pods (a number of them) or Percent (of the present size)."),
    field("value", 2, INT32, omit=False, required=True, limits=Limits(least=1, words="must be greater than zero"),
        doc="Number of pods or percentage, more than 0."),
    field("periodSeconds", 3, INT32, omit=False, required=True,
        limits=Limits(least=1, most=1800, words="must be greater than zero",
            most_words="must be less than or equal to 1800"),
        doc="Period of the limit in seconds, 1 to 1800."),
), doc="HPAScalingPolicy limits the change of the size in a period.")
HPAScalingRules = Struct("io.k8s.api.autoscaling.v2.HPAScalingRules", lambda: (
    field("stabilizationWindowSeconds", 3, INT32, pointer=True,
        limits=Limits(least=0, most=3600, words="must be greater than or equal to zero",
            most_words="must be less than or equal to 3600"),
        doc="Seconds of past recommendations to consider, 0 to 3600, so that the size does not flap; when not set, 0 "
            "up and the controller's setting down."),
    field("selectPolicy", 1, ScalingPolicySelect, pointer=True, limits=Limits(values=("Disabled", "Max", "Min")),
        doc="Max (the policy that allows most, the default), Min, or Disabled for no change in this direction."),
    field("policies", 2, ListOf(HPAScalingPolicy), keep_empty=True,
        limits=Limits(required="must specify at least one Policy"),
        doc="Bounds, at least one."),
    field("tolerance", 4, QUANTITY, pointer=True, gate=gated("HPAConfigurableTolerance"), limits=Limits(least=0),
        doc="Deviation of a metric below which the size does not change, such as 0.05; the cluster's setting when not "
            "set."),
), doc="HPAScalingRules limits the changes of the size in one direction.", rules=(
    "stabilizationWindowSeconds",
    "selectPolicy",
    "policies",
    "tolerance",
))
HorizontalPodAutoscalerBehavior = Struct("io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerBehavior", lambda: (
    field("scaleUp", 1, HPAScalingRules, pointer=True,
        doc="Scaling up; when not set, by 4 pods or to double the size in 15 seconds, whichever is more."),
    field("scaleDown", 2, HPAScalingRules, pointer=True,
        doc="Scaling down; when not set, without limit, by the recommendations of the last minutes."),
), doc="HorizontalPodAutoscalerBehavior limits the changes of the size.")
HorizontalPodAutoscalerSpec = Struct("io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerSpec", lambda: (
    field("scaleTargetRef", 1, CrossVersionObjectReference, omit=False, required=True,
        doc="The target: an object with the subresource scale."),
    field("minReplicas", 2, INT32, pointer=True, fills=1,
        doc="Smallest size, 1 when not set; 0 needs a feature gate and an Object or External metric."),
    field("maxReplicas", 3, INT32, omit=False, required=True,
        limits=Limits(required="must be set and greater than 0", least=1),
        doc="Largest size, not below minReplicas."),
    field("metrics", 4, ListOf(MetricSpec),
        doc="Metrics; the one with the largest desired size decides. 80 % of the requested CPU when empty."),
    field("behavior", 5, HorizontalPodAutoscalerBehavior, pointer=True, doc="Limits of changes of the size."),
), doc="HorizontalPodAutoscalerSpec has the target, its size limits and its metrics.")
ObjectMetricStatus = Struct("io.k8s.api.autoscaling.v2.ObjectMetricStatus", lambda: (
    field("metric", 1, MetricIdentifier, omit=False, required=True, doc="The metric."),
    field("current", 2, MetricValueStatus, omit=False, required=True, doc="Its value."),
    field("describedObject", 3, CrossVersionObjectReference, omit=False, required=True, doc="The object."),
), doc="ObjectMetricStatus is the value of a metric of one object.")
PodsMetricStatus = Struct("io.k8s.api.autoscaling.v2.PodsMetricStatus", lambda: (
    field("metric", 1, MetricIdentifier, omit=False, required=True, doc="The metric."),
    field("current", 2, MetricValueStatus, omit=False, required=True, doc="Its value."),
), doc="PodsMetricStatus is the value of a metric of the pods.")
ResourceMetricStatus = Struct("io.k8s.api.autoscaling.v2.ResourceMetricStatus", lambda: (
    field("name", 1, ResourceName, omit=False, required=True, doc="Name of the resource."),
    field("current", 2, MetricValueStatus, omit=False, required=True, doc="The use."),
), doc="ResourceMetricStatus is the use of a resource by the pods.")
ContainerResourceMetricStatus = Struct("io.k8s.api.autoscaling.v2.ContainerResourceMetricStatus", lambda: (
    field("name", 1, ResourceName, omit=False, required=True, doc="Name of the resource."),
    field("current", 2, MetricValueStatus, omit=False, required=True, doc="The use."),
    field("container", 3, STRING, omit=False, required=True, doc="Name of the container."),
), doc="ContainerResourceMetricStatus is the use of a resource by one container of each pod.")
ExternalMetricStatus = Struct("io.k8s.api.autoscaling.v2.ExternalMetricStatus", lambda: (
    field("metric", 1, MetricIdentifier, omit=False, required=True, doc="The metric."),
    field("current", 2, MetricValueStatus, omit=False, required=True, doc="Its value."),
), doc="ExternalMetricStatus is the value of an external metric.")
MetricStatus = Struct("io.k8s.api.autoscaling.v2.MetricStatus", lambda: (
    field("type", 1, MetricSourceType, omit=False, required=True,
        doc="Type of the metric; the field of that type is set."),
    field("object", 2, ObjectMetricStatus, pointer=True, doc="For type Object."),
    field("pods", 3, PodsMetricStatus, pointer=True, doc="For type Pods."),
    field("resource", 4, ResourceMetricStatus, pointer=True, doc="For type Resource."),
    field("containerResource", 7, ContainerResourceMetricStatus, pointer=True,
        doc="For type ContainerResource."),
    field("external", 5, ExternalMetricStatus, pointer=True, doc="For type External."),
), doc="MetricStatus is the last value of one metric.")
HorizontalPodAutoscalerCondition = Struct("io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerCondition", lambda: (
    field("type", 1, HorizontalPodAutoscalerConditionType, omit=False, required=True,
        doc="Aspect: ScalingActive, AbleToScale, ScalingLimited or ScaledToZero."),
    field("status", 2, ConditionStatus, omit=False, required=True, doc="True, False or Unknown."),
    field("lastTransitionTime", 3, TIME, omit=False, doc="Time of the last change of status."),
    field("reason", 4, STRING, doc="Reason as one CamelCase word, for programs."),
    field("message", 5, STRING, doc="Reason as text, for people."),
), doc="HorizontalPodAutoscalerCondition is one aspect of an autoscaler's state.")
HorizontalPodAutoscalerStatus = Struct("io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerStatus", lambda: (
    field("observedGeneration", 1, INT64, pointer=True, doc="metadata.generation that this status reflects."),
    field("lastScaleTime", 2, TIME, pointer=True, doc="Time of the last change of the size."),
    field("currentReplicas", 3, INT32, limits=Limits(least=0), doc="Last observed size."),
    field("desiredReplicas", 4, INT32, omit=False, required=True, limits=Limits(least=0),
        doc="Last desired size."),
    field("currentMetrics", 5, ListOf(MetricStatus), omit=False, doc="Last values of the metrics."),
    field("conditions", 6, ListOf(HorizontalPodAutoscalerCondition, "map", ("type",), merge_key="type"),
        doc="Latest conditions, at most one of each type."),
), doc="HorizontalPodAutoscalerStatus is the state of an autoscaler.")
HorizontalPodAutoscaler = Struct("io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
    field("spec", 2, HorizontalPodAutoscalerSpec, omit=False, required=True,
        doc="Target, metrics and limits."),
    field("status", 3, HorizontalPodAutoscalerStatus, omit=False, doc="State of the autoscaler."),
), gvk=("autoscaling", "v2", "HorizontalPodAutoscaler"),
    doc="HorizontalPodAutoscaler changes the size of a workload by its metrics.")

HorizontalPodAutoscalerList = list_of(HorizontalPodAutoscaler)
