"""Metrics of emulated pods, which use nothing: annotations say what they do.

On a Pod, `kubedra.dev/usage.RESOURCE` is what it uses, `kubedra.dev/usage.RESOURCE.CONTAINER` what one of its
containers does, and `kubedra.dev/metric.NAME` another metric of it. On a HorizontalPodAutoscaler the same is said of
each of its pods that does not say it itself, and `kubedra.dev/load.RESOURCE` (or `load.NAME`) is what all of them share
evenly; `kubedra.dev/metric.NAME` is the value of an external metric. On an object that a metric describes,
`kubedra.dev/metric.NAME` is its value.

Where no annotation says anything, metrics.k8s.io is asked for what pods use, as upstream does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final
from urllib.parse import quote

from apiserver.api.errors.status import StatusError
from apiserver.api.values.quantity import Quantity
from controllers.runtime.client import Client
from controllers.runtime.discovery import served_at
from controllers.runtime.kinds import Json
from controllers.workloads.common.pod_states import is_ready, phase

_PREFIX: Final = "kubedra.dev"
#: By name of the pod.
Values = dict[str, int]


class MetricError(Exception):
    """A metric cannot be read; the text says why."""


def milli(text: str) -> int:
    """A quantity in thousandths. Raises MetricError."""
    try:
        return Quantity.parse(text).value(-3)
    except ValueError as error:
        raise MetricError(f'"{text}" is not a quantity: {error}') from error


def shown(thousandths: int, *, binary: bool = False) -> str:
    """The quantity as statuses have it."""
    whole, rest = divmod(thousandths, 1000)
    if rest:
        return f"{thousandths}m"
    return str(Quantity.of(whole, _BINARY if binary else _DECIMAL))


_DECIMAL, _BINARY = Quantity.parse("1").format, Quantity.parse("1Ki").format


def _said(obj: Json, name: str) -> int | None:
    text = (obj["metadata"].get("annotations") or {}).get(f"{_PREFIX}/{name}")
    return None if text is None else milli(str(text))


class Usage:
    """Where metrics come from."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def of_resource(
        self, scaler: Json, pods: Sequence[Json], resource: str, container: str, selector: str
    ) -> Values:
        """What pods use of a resource, by name. Raises MetricError."""
        end = f".{container}" if container else ""
        found = _of_pods(scaler, pods, f"usage.{resource}{end}", f"load.{resource}{end}")
        if not container:
            for pod in pods:
                names = [each["name"] for each in pod["spec"]["containers"]]
                parts = [part for name in names if (part := _said(pod, f"usage.{resource}.{name}")) is not None]
                if parts and _said(pod, f"usage.{resource}") is None:
                    found[pod["metadata"]["name"]] = sum(parts)
        return found or await self._measured(scaler["metadata"]["namespace"], resource, container, selector)

    async def _measured(self, namespace: str, resource: str, container: str, selector: str) -> Values:
        """Asks the metrics API."""
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
        """Another metric of pods. Raises MetricError."""
        found = _of_pods(scaler, pods, f"metric.{name}", f"load.{name}")
        if not found:
            raise MetricError(f"no pod has the annotation {_PREFIX}/metric.{name}")
        return found

    @staticmethod
    def external(scaler: Json, name: str) -> int:
        """Raises MetricError."""
        found = _said(scaler, f"metric.{name}")
        if found is None:
            raise MetricError(f"the autoscaler has no annotation {_PREFIX}/metric.{name}")
        return found

    async def of_object(self, namespace: str, reference: Json, name: str) -> int:
        """A metric of another object. Raises MetricError, StatusError."""
        kind = await served_at(self._client, reference.get("apiVersion") or "v1", reference["kind"])
        if kind is None:
            version = reference.get("apiVersion") or "v1"
            raise MetricError(f'no matches for kind "{reference["kind"]}" in version "{version}"')
        obj = await self._client.get(kind, reference["name"], namespace if kind.namespaced else "")
        found = _said(obj, f"metric.{name}")
        if found is None:
            raise MetricError(f"the {reference['kind']} has no annotation {_PREFIX}/metric.{name}")
        return found


def _of_pods(scaler: Json, pods: Iterable[Json], each: str, shared: str) -> Values:
    """What pods say, or the autoscaler says of them; pods that do not run use nothing."""
    running = [pod for pod in pods if phase(pod) == "Running"]
    default, load = _said(scaler, each), _said(scaler, shared)
    if default is None and load is not None:
        default = load // max(1, sum(map(is_ready, running)))
    found: Values = {}
    for pod in running:
        own = _said(pod, each)
        value = own if own is not None else default
        if value is not None:
            found[pod["metadata"]["name"]] = value
    return found
