"""Convert to and from autoscaling/v1, which keeps fields it does not have as JSON in annotations.

Metrics and conditions in annotations have v1's own types. Behavior has the internal type, with capitalized field names.
Facts: pkg/apis/autoscaling/v1/conversion.go.
"""

from __future__ import annotations

import json
from typing import Any, Final

from apiserver.api.objects import Json
from apiserver.api.schema.language import ListOf, Struct, Type
from apiserver.api.types.autoscaling_v2 import HorizontalPodAutoscalerBehavior
from apiserver.api.validation.internal_values import internal
from apiserver.resources.autoscaling.defaults import CPU_PERCENT, cpu_metric

__all__ = ["from_hub", "to_hub"]


_PREFIX: Final = "autoscaling.alpha.kubernetes.io/"
_METRICS, _CURRENT = f"{_PREFIX}metrics", f"{_PREFIX}current-metrics"
_BEHAVIOR, _CONDITIONS = f"{_PREFIX}behavior", f"{_PREFIX}conditions"
_ANNOTATIONS: Final = (_METRICS, _CURRENT, _BEHAVIOR, _CONDITIONS)
_REFERENCE: Final = ("kind", "name", "apiVersion")
#: By source field: the v1 fields in order, each with its path in v2. Fields in `_ALWAYS` are always present.
_SPEC_FIELDS: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "object": (
        ("target", "describedObject"), ("metricName", "metric.name"), ("targetValue", "target.value"),
        ("selector", "metric.selector"), ("averageValue", "target.averageValue"),
    ),
    "pods": (
        ("metricName", "metric.name"), ("targetAverageValue", "target.averageValue"), ("selector", "metric.selector"),
    ),
    "resource": (
        ("name", "name"), ("targetAverageUtilization", "target.averageUtilization"),
        ("targetAverageValue", "target.averageValue"),
    ),
    "containerResource": (
        ("name", "name"), ("targetAverageUtilization", "target.averageUtilization"),
        ("targetAverageValue", "target.averageValue"), ("container", "container"),
    ),
    "external": (
        ("metricName", "metric.name"), ("metricSelector", "metric.selector"), ("targetValue", "target.value"),
        ("targetAverageValue", "target.averageValue"),
    ),
}  # fmt: skip
_STATUS_FIELDS: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "object": (
        ("target", "describedObject"), ("metricName", "metric.name"), ("currentValue", "current.value"),
        ("selector", "metric.selector"), ("averageValue", "current.averageValue"),
    ),
    "pods": (
        ("metricName", "metric.name"), ("currentAverageValue", "current.averageValue"),
        ("selector", "metric.selector"),
    ),
    "resource": (
        ("name", "name"), ("currentAverageUtilization", "current.averageUtilization"),
        ("currentAverageValue", "current.averageValue"),
    ),
    "containerResource": (
        ("name", "name"), ("currentAverageUtilization", "current.averageUtilization"),
        ("currentAverageValue", "current.averageValue"), ("container", "container"),
    ),
    "external": (
        ("metricName", "metric.name"), ("metricSelector", "metric.selector"), ("currentValue", "current.value"),
        ("currentAverageValue", "current.averageValue"),
    ),
}  # fmt: skip
#: Quantities that v1 requires, by source field.
_AMOUNTS: Final = {
    "object": ("targetValue", "currentValue"),
    "pods": ("targetAverageValue", "currentAverageValue"),
    "resource": ("currentAverageValue",),
    "containerResource": ("currentAverageValue",),
    "external": ("currentValue",),
}
_ALWAYS: Final = ("metricName", "name", "container")
_CONDITION: Final = ("type", "status", "lastTransitionTime", "reason", "message")


def _text(value: Any) -> str:
    """Encode JSON as Go does."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _read(text: str | None, kind: type) -> Any:
    """Parse an annotation; return None if it is missing or not JSON of that type."""
    if text is None:
        return None
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, kind) else None


def _get(source: Json, path: str) -> Any:
    first, _, second = path.partition(".")
    value = source.get(first)
    return (value or {}).get(second) if second else value


def _put(source: Json, path: str, value: Any) -> None:
    first, _, second = path.partition(".")
    if second:
        source.setdefault(first, {})[second] = value
    else:
        source[first] = value


def _older(item: Json, tables: dict[str, tuple[tuple[str, str], ...]]) -> Json:
    """Convert a metric or its status to v1."""
    made: Json = {"type": item.get("type", "")}
    for field, table in tables.items():
        source = item.get(field)
        if source is None:
            continue
        part: Json = {}
        for name, path in table:
            value = _get(source, path)
            if value is None and name in _AMOUNTS.get(field, ()):
                value = "0"
            elif value is None and name in _ALWAYS:
                value = ""
            if name == "target":
                value = {key: value[key] for key in _REFERENCE if (value or {}).get(key)}
            if value is not None:
                part[name] = value
        made[field] = part
    return made


def _newer(item: Json, tables: dict[str, tuple[tuple[str, str], ...]]) -> Json:
    """Convert a metric or its status to v2. The target type is derived from its values."""
    made: Json = {"type": item.get("type", "")}
    for field, table in tables.items():
        source = item.get(field)
        if not isinstance(source, dict):
            continue
        part: Json = {}
        for name, path in table:
            value = source.get(name)
            if field == "object" and name == "targetValue" and source.get("averageValue") is not None and value == "0":
                continue
            if value is not None:
                _put(part, path, value)
        if tables is _SPEC_FIELDS:
            part.setdefault("target", {})["type"] = _target_type(field, source)
        made[field] = part
    return made


def _target_type(field: str, source: Json) -> str:
    if field == "pods":
        return "AverageValue"
    if field == "external":
        return "AverageValue" if source.get("targetValue") is None else "Value"
    if field == "object":
        return "Value" if source.get("averageValue") is None else "AverageValue"
    return "AverageValue" if source.get("targetAverageUtilization") is None else "Utilization"


def _is_cpu(metric: Json) -> bool:
    """Return whether the metric is the CPU utilization, the only metric that has a field in v1."""
    resource = metric.get("resource") or {}
    percent = (resource.get("target") or {}).get("averageUtilization")
    return metric.get("type") == "Resource" and resource.get("name") == "cpu" and percent is not None


def from_hub(obj: Json) -> Json:
    metadata, spec, status = obj["metadata"], obj["spec"], obj.get("status") or {}
    annotations = {key: text for key, text in (metadata.get("annotations") or {}).items() if key not in _ANNOTATIONS}
    metrics, behavior = spec.pop("metrics", None) or [], spec.pop("behavior", None)
    cpu = next((metric for metric in metrics if _is_cpu(metric)), None)
    if cpu is not None:
        spec["targetCPUUtilizationPercentage"] = cpu["resource"]["target"]["averageUtilization"]
    others = [_older(metric, _SPEC_FIELDS) for metric in metrics if not _is_cpu(metric)]
    current, conditions = status.pop("currentMetrics", None) or [], status.pop("conditions", None) or []
    for found in current:
        resource = found.get("resource") or {}
        percent = (resource.get("current") or {}).get("averageUtilization")
        if found.get("type") == "Resource" and resource.get("name") == "cpu" and percent is not None:
            status["currentCPUUtilizationPercentage"] = percent
    status.setdefault("currentReplicas", 0)
    if others:
        annotations[_METRICS] = _text(others)
    if current:
        annotations[_CURRENT] = _text([_older(item, _STATUS_FIELDS) for item in current])
    if behavior is not None:
        annotations[_BEHAVIOR] = _text(internal(HorizontalPodAutoscalerBehavior, behavior))
    if conditions:
        shown = [{**item, "lastTransitionTime": item.get("lastTransitionTime")} for item in conditions]
        annotations[_CONDITIONS] = _text([{key: item[key] for key in _CONDITION if key in item} for item in shown])
    metadata.pop("annotations", None)
    if annotations:
        metadata["annotations"] = annotations
    obj["status"] = status
    return obj


def to_hub(obj: Json) -> Json:
    metadata, spec, status = obj["metadata"], obj["spec"], obj.setdefault("status", {})
    annotations = metadata.get("annotations") or {}
    percent = spec.pop("targetCPUUtilizationPercentage", None)
    metrics = [] if percent is None else [cpu_metric(percent)]
    used = status.pop("currentCPUUtilizationPercentage", None)
    if used is not None:
        resource = {"name": "cpu", "current": {"averageUtilization": used}}
        status["currentMetrics"] = [{"type": "Resource", "resource": resource}]
    others = _read(annotations.get(_METRICS), list)
    if others is not None:
        metrics = [_newer(metric, _SPEC_FIELDS) for metric in others] + metrics
    spec["metrics"] = metrics or [cpu_metric(CPU_PERCENT)]
    behavior = _read(annotations.get(_BEHAVIOR), dict)
    if behavior:
        spec["behavior"] = _lowered(HorizontalPodAutoscalerBehavior, behavior)
    current = _read(annotations.get(_CURRENT), list)
    if current is not None:
        status["currentMetrics"] = [_newer(item, _STATUS_FIELDS) for item in current]
    conditions = _read(annotations.get(_CONDITIONS), list)
    if conditions is not None:
        status["conditions"] = [{key: item[key] for key in _CONDITION if item.get(key)} for item in conditions]
    kept = {key: text for key, text in annotations.items() if key not in _ANNOTATIONS}
    metadata.pop("annotations", None)
    if kept:
        metadata["annotations"] = kept
    return obj


def _lowered(kind: Type, value: Any) -> Any:
    """Convert a value of an internal type to its versioned form. Field names are matched regardless of case."""
    if isinstance(kind, ListOf) and isinstance(value, list):
        return [_lowered(kind.item, item) for item in value]
    if isinstance(kind, Struct) and isinstance(value, dict):
        names = {name.lower(): name for name in kind.fields}
        known = {names[key.lower()]: item for key, item in value.items() if key.lower() in names and item is not None}
        return {name: _lowered(kind.fields[name].type, item) for name, item in known.items()}
    return value
