"""Messages about unavailable metrics. Facts: upstream's horizontal.go and replica_calculator.go."""

from __future__ import annotations

from apiserver.api.objects import Json
from controllers.runtime.gotext import label_selector_text


def unavailable_message(field: str, source: Json, namespace: str, error: object) -> str:
    """Return the error for an unavailable metric.

    `field` is the field of the metric's source: resource, containerResource, pods, object or external.
    """
    if field in ("resource", "containerResource"):
        return f"unable to get metrics for resource {source['name']}: {error}"
    metric = source["metric"]
    if field == "pods":
        return f"unable to get metric {metric['name']}: {error}"
    if field == "object":
        reference = source["describedObject"]
        # The odd order is upstream's.
        return f"unable to get metric {metric['name']}: {reference['kind']} on {namespace} {reference['name']}/{error}"
    selector = label_selector_text(metric.get("selector"))
    return f"unable to get external metric {namespace}/{metric['name']}/{selector}: {error}"


def failure_message(field: str, source: Json, error: object) -> str:
    """Return the message of condition and event for a failed metric."""
    if field in ("resource", "containerResource"):
        return f"failed to get {source['name']} {'usage' if is_average(source) else 'utilization'}: {error}"
    return str(error)


def list_failure_message(field: str, source: Json, error: str) -> str:
    """Return the message for a failed metric in a list; `error` is the message of its condition."""
    if field == "resource":
        return f"failed to get {source['name']} resource metric value: {error}"
    if field == "containerResource":
        return f"failed to get {source['container']} container metric value: {error}"
    if field == "pods":
        return f"failed to get pods metric value: {error}"
    name = source["metric"]["name"]
    if field == "object":
        among = f"failed to get {name} object metric: " if is_average(source) else ""
        return f"failed to get object metric value: {among}{error}"
    value = f"{name} external metric" if is_average(source) else f"external metric {name}"
    return f"failed to get {name} external metric value: failed to get {value}: {error}"


def is_average(source: Json) -> bool:
    """Return whether the target is an average per pod."""
    return source["target"].get("averageValue") is not None
