"""What is said of metrics that cannot be had. Facts: upstream's horizontal.go and replica_calculator.go."""

from __future__ import annotations

from controllers.runtime.gotext import label_selector_text
from controllers.runtime.kinds import Json


def unread(field: str, source: Json, namespace: str, why: object) -> str:
    """Nobody tells a metric. `field` is that of a metric's source: resource, containerResource, pods, object or
    external.
    """
    if field in ("resource", "containerResource"):
        return f"unable to get metrics for resource {source['name']}: {why}"
    metric = source["metric"]
    if field == "pods":
        return f"unable to get metric {metric['name']}: {why}"
    if field == "object":
        reference = source["describedObject"]
        # In this order, with the reason where the name belongs: so upstream.
        return f"unable to get metric {metric['name']}: {reference['kind']} on {namespace} {reference['name']}/{why}"
    selector = label_selector_text(metric.get("selector"))
    return f"unable to get external metric {namespace}/{metric['name']}/{selector}: {why}"


def failed(field: str, source: Json, why: object) -> str:
    """No size follows from a metric, as its condition and event say it."""
    if field in ("resource", "containerResource"):
        return f"failed to get {source['name']} {'usage' if is_average(source) else 'utilization'}: {why}"
    return str(why)


def failed_among(field: str, source: Json, why: str) -> str:
    """The same where it is told of all metrics; `why` is what the condition says."""
    if field == "resource":
        return f"failed to get {source['name']} resource metric value: {why}"
    if field == "containerResource":
        return f"failed to get {source['container']} container metric value: {why}"
    if field == "pods":
        return f"failed to get pods metric value: {why}"
    name = source["metric"]["name"]
    if field == "object":
        among = f"failed to get {name} object metric: " if is_average(source) else ""
        return f"failed to get object metric value: {among}{why}"
    value = f"{name} external metric" if is_average(source) else f"external metric {name}"
    return f"failed to get {name} external metric value: failed to get {value}: {why}"


def is_average(source: Json) -> bool:
    """Whether the target is what each pod should have."""
    return source["target"].get("averageValue") is not None
