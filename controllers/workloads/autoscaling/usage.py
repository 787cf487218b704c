"""Metrics of emulated pods, defined by annotations because the pods use nothing.

On a Pod, `kubedra.dev/usage.RESOURCE` is its usage, `kubedra.dev/usage.RESOURCE.CONTAINER` that of one container, and
`kubedra.dev/metric.NAME` a custom metric. On a HorizontalPodAutoscaler the same annotations are defaults for its pods.
`kubedra.dev/load.RESOURCE` (or `load.NAME`) there is a total shared evenly by all pods, and `kubedra.dev/metric.NAME`
an external metric. On an object described by a metric, `kubedra.dev/metric.NAME` is its value.

Without annotations the usage of pods is read from metrics.k8s.io, as upstream does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final
from urllib.parse import quote

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.api.values.quantity import Quantity
from controllers.runtime.client import Client
from controllers.runtime.discovery import served_at
from controllers.workloads.common.pod_states import is_ready, phase

_PREFIX: Final = "kubedra.dev"
#: Values by name of the pod.
Values = dict[str, int]


class MetricError(Exception):
    """A metric is unavailable; the text gives the reason."""


def milli(text: str) -> int:
    """Parse a quantity into thousandths. Raise MetricError."""
    try:
        return Quantity.parse(text).value(-3)
    except ValueError as error:
        raise MetricError(f'"{text}" is not a quantity: {error}') from error


def format_quantity(thousandths: int, *, binary: bool = False) -> str:
    """Format a quantity as in statuses."""
    whole, rest = divmod(thousandths, 1000)
    if rest:
        return f"{thousandths}m"
    return str(Quantity.of(whole, _BINARY if binary else _DECIMAL))


_DECIMAL, _BINARY = Quantity.parse("1").format, Quantity.parse("1Ki").format


def _annotated_value(obj: Json, name: str) -> int | None:
    text = (obj["metadata"].get("annotations") or {}).get(f"{_PREFIX}/{name}")
    return None if text is None else milli(str(text))


class Usage:
    """The source of metrics."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def of_resource(
        self, scaler: Json, pods: Sequence[Json], resource: str, container: str, selector: str
    ) -> Values:
        """Return the pods' usage of a resource by name. Raise MetricError."""
        end = f".{container}" if container else ""
        found = _annotated_values(scaler, pods, f"usage.{resource}{end}", f"load.{resource}{end}")
        if not container:
            for pod in pods:
                names = [each["name"] for each in pod["spec"]["containers"]]
                parts = [
                    part for name in names if (part := _annotated_value(pod, f"usage.{resource}.{name}")) is not None
                ]
                if parts and _annotated_value(pod, f"usage.{resource}") is None:
                    found[pod["metadata"]["name"]] = sum(parts)
        return found or await self._read_metrics_api(scaler["metadata"]["namespace"], resource, container, selector)

    async def _read_metrics_api(self, namespace: str, resource: str, container: str, selector: str) -> Values:
        """Read the metrics API."""
        path = f"/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods"
        try:
            listed = await self._client.request("GET", path, f"labelSelector={quote(selector)}")
        except StatusError as error:
            raise MetricError(f"unable to fetch metrics from resource metrics API: {error}") from error
        found: Values = {}
        for item in listed.get("items") or ():
            parts = [
                milli(each["usage"][resource])
                for each in item.get("containers") or ()
                if resource in each.get("usage", {}) and (not container or each["name"] == container)
            ]
            if parts:
                found[item["metadata"]["name"]] = sum(parts)
        if not found:
            raise MetricError("no metrics returned from resource metrics API")
        return found

    @staticmethod
    def of_pods(scaler: Json, pods: Sequence[Json], name: str) -> Values:
        """Return a custom metric of pods by name. Raise MetricError."""
        found = _annotated_values(scaler, pods, f"metric.{name}", f"load.{name}")
        if not found:
            raise MetricError(f"no pod has the annotation {_PREFIX}/metric.{name}")
        return found

    @staticmethod
    def external(scaler: Json, name: str) -> int:
        """Return an external metric. Raise MetricError."""
        found = _annotated_value(scaler, f"metric.{name}")
        if found is None:
            raise MetricError(f"the autoscaler has no annotation {_PREFIX}/metric.{name}")
        return found

    async def of_object(self, namespace: str, reference: Json, name: str) -> int:
        """Return a metric of another object. Raise MetricError or StatusError."""
        kind = await served_at(self._client, reference.get("apiVersion") or "v1", reference["kind"])
        if kind is None:
            version = reference.get("apiVersion") or "v1"
            raise MetricError(f'no matches for kind "{reference["kind"]}" in version "{version}"')
        obj = await self._client.get(kind, reference["name"], namespace if kind.namespaced else "")
        found = _annotated_value(obj, f"metric.{name}")
        if found is None:
            raise MetricError(f"the {reference['kind']} has no annotation {_PREFIX}/metric.{name}")
        return found


def _annotated_values(scaler: Json, pods: Iterable[Json], each: str, shared: str) -> Values:
    """Return the annotated values of running pods, with the autoscaler's defaults."""
    running = [pod for pod in pods if phase(pod) == "Running"]
    default, load = _annotated_value(scaler, each), _annotated_value(scaler, shared)
    if default is None and load is not None:
        default = load // max(1, sum(map(is_ready, running)))
    found: Values = {}
    for pod in running:
        own = _annotated_value(pod, each)
        value = own if own is not None else default
        if value is not None:
            found[pod["metadata"]["name"]] = value
    return found
