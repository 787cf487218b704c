"""Fill in the defaults of autoscalers (pkg/apis/autoscaling/v2/defaults.go)."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from apiserver.api.objects import Json

__all__ = ["CPU_PERCENT", "cpu_metric", "default"]


CPU_PERCENT: Final = 80
_PERIOD: Final = 15


def cpu_metric(percent: int) -> Json:
    """Return the metric for a CPU utilization in percent."""
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def _double() -> Json:
    return {"type": "Percent", "value": 100, "periodSeconds": _PERIOD}


def default(obj: Json, now: datetime) -> None:
    spec = obj["spec"]
    if not spec.get("metrics"):
        spec["metrics"] = [cpu_metric(CPU_PERCENT)]
    behavior = spec.get("behavior")
    if behavior is not None:
        more = {"type": "Pods", "value": 4, "periodSeconds": _PERIOD}
        behavior["scaleUp"] = _rules(behavior.get("scaleUp"), [more, _double()])
        behavior["scaleUp"].setdefault("stabilizationWindowSeconds", 0)
        behavior["scaleDown"] = _rules(behavior.get("scaleDown"), [_double()])


def _rules(given: Json | None, policies: list[Json]) -> Json:
    rules = given if given is not None else {}
    rules.setdefault("selectPolicy", "Max")
    if rules.get("policies") is None:
        rules["policies"] = policies
    return rules
