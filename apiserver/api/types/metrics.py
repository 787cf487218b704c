"""NodeMetrics and PodMetrics of metrics.k8s.io/v1beta1."""

from __future__ import annotations

from apiserver.api.schema.language import DURATION, STRING, TIME, ListOf, Struct, field
from apiserver.api.types.core.resources import ResourceList
from apiserver.api.types.meta import TYPE_META, ObjectMeta, list_of

_PREFIX = "io.k8s.metrics.pkg.apis.metrics.v1beta1."
_METADATA = field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata.")
_TIMESTAMP = field("timestamp", 2, TIME, omit=False, required=True, doc="End of the interval of the measurement.")
_WINDOW = field("window", 3, DURATION, omit=False, required=True, doc="Length of the interval.")

NodeMetrics = Struct(_PREFIX + "NodeMetrics", lambda: (
    TYPE_META,
    _METADATA,
    _TIMESTAMP,
    _WINDOW,
    field("usage", 4, ResourceList, omit=False, required=True, doc="Used amounts of cpu and memory."),
), gvk=("metrics.k8s.io", "v1beta1", "NodeMetrics"), doc="NodeMetrics is the resource usage of a node.")
ContainerMetrics = Struct(_PREFIX + "ContainerMetrics", lambda: (
    field("name", 1, STRING, omit=False, required=True, doc="Name of the container that used the resources."),
    field("usage", 2, ResourceList, omit=False, required=True, doc="Used amounts of cpu and memory."),
), doc="ContainerMetrics is the resource usage of a container.")
PodMetrics = Struct(_PREFIX + "PodMetrics", lambda: (
    TYPE_META,
    _METADATA,
    _TIMESTAMP,
    _WINDOW,
    field("containers", 4, ListOf(ContainerMetrics), omit=False, required=True, doc="Usage of each container."),
), gvk=("metrics.k8s.io", "v1beta1", "PodMetrics"), doc="PodMetrics is the resource usage of a pod.")

NodeMetricsList, PodMetricsList = list_of(NodeMetrics), list_of(PodMetrics)
