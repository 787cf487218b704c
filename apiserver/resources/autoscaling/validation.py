"""What an autoscaler may say. Rules: pkg/apis/autoscaling/validation, in its order."""

from __future__ import annotations

from typing import Any, Final

from apiserver.api.errors.field_errors import FieldError, Named, Path, forbidden, invalid, not_supported, required
from apiserver.api.features.gates import Features
from apiserver.api.values.names import dns_label, path_segment
from apiserver.api.values.quantity import Quantity
from apiserver.resources.pods.containervalidation import container_resource_name

__all__ = ["validate_spec", "validate_status"]

Json = dict[str, Any]
Errors = list[FieldError]

_SPEC: Final = Path("spec")
_STATUS: Final = Path("status")
_LONGEST_WINDOW: Final = 3600
_LONGEST_PERIOD: Final = 1800
_SELECT: Final = ("Disabled", "Max", "Min")
_POLICIES: Final = ("Percent", "Pods")
_SOURCES: Final = ("ContainerResource", "External", "Object", "Pods", "Resource")
_TARGETS: Final = ("Utilization", "Value", "AverageValue")
#: The fields of sources in the order in which they are looked at: of several only the first one is.
_FIELDS: Final = ("object", "external", "pods", "resource", "containerResource")
_POSITIVE: Final = "must be greater than zero"
_NEITHER: Final = "must set either a target raw value or a target utilization"
_BOTH: Final = "may not set both a target raw value and a target utilization"


def validate_spec(spec: Json, old: Json | None, features: Features) -> Errors:
    """What is wrong with a spec; a stored reference may stay as it is."""
    least, path = spec.get("minReplicas"), _SPEC
    zero = features.enabled("HPAScaleToZero") or (old is not None and old.get("minReplicas") == 0)
    bound, most = 0 if zero else 1, spec.get("maxReplicas", 0)
    errors: Errors = []
    if least is not None and least < bound:
        errors.append(invalid(path / "minReplicas", least, f"must be greater than or equal to {bound}"))
    if most == 0:
        errors.append(required(path / "maxReplicas", "must be set and greater than 0"))
    elif most < 0:
        errors.append(invalid(path / "maxReplicas", most, "must be greater than or equal to 1"))
    if least is not None and most < least:
        errors.append(invalid(path / "maxReplicas", most, "must be greater than or equal to `minReplicas`"))
    target = spec.get("scaleTargetRef") or {}
    errors += _reference(path / "scaleTargetRef", target)
    before = None if old is None else old.get("scaleTargetRef") or {}
    if before is None or any(before.get(name, "") != target.get(name, "") for name in ("apiVersion", "kind")):
        core = target.get("kind") == "ReplicationController"
        errors += _version(path / "scaleTargetRef", target, core=core)
    errors += _metrics(path / "metrics", spec, old)
    behavior = spec.get("behavior") or {}
    for name in ("scaleUp", "scaleDown"):
        if behavior.get(name) is not None:
            errors += _scaling(path / "behavior" / name, behavior[name])
    return errors


def _reference(path: Path, reference: Json) -> Errors:
    errors: Errors = []
    for name in ("kind", "name"):
        value = reference.get(name, "")
        errors += (
            [invalid(path / name, value, text) for text in path_segment(value)] if value else [required(path / name)]
        )
    return errors


def _version(path: Path, reference: Json, *, core: bool) -> Errors:
    """`core`: the version may be one without a group."""
    version = reference.get("apiVersion", "")
    if version.count("/") > 1:
        return [invalid(path / "apiVersion", version, f"unexpected GroupVersion string: {version}")]
    if core or ("/" in version and not version.startswith("/")):
        return []
    return [invalid(path / "apiVersion", version, "apiVersion must specify API group")]


def _metrics(path: Path, spec: Json, old: Json | None) -> Errors:
    metrics = spec.get("metrics") or []
    known = any(
        _version(path, (metric.get("object") or {}).get("describedObject") or {}, core=True)
        for metric in (old or {}).get("metrics") or ()
        if metric.get("type") == "Object"
    )
    errors = [error for index, metric in enumerate(metrics) for error in _metric(path[index], metric, known)]
    if spec.get("minReplicas") == 0 and not any(metric.get("type") in ("Object", "External") for metric in metrics):
        text = "must specify at least one Object or External metric to support scaling to zero replicas"
        errors.append(forbidden(path, text))
    return errors


def _metric(path: Path, metric: Json, any_version: bool) -> Errors:
    kind = metric.get("type", "")
    unknown = [] if kind in _SOURCES else [not_supported(path / "type", Named(kind), _SOURCES)]
    errors = ([] if kind else [required(path / "type", "must specify a metric source type")]) + unknown
    present = [name for name in _FIELDS if metric.get(name) is not None]
    if present:
        first = present[0]
        errors += _CHECKS[first](path / first, metric[first], any_version)
    expected = kind[:1].lower() + kind[1:]
    if unknown:
        errors += unknown
    elif expected not in present:
        errors.append(required(path / expected, "must populate information for the given metric source"))
    if len(present) > 1:
        text = "must populate the given metric source only"
        errors += [forbidden(path / name, text) for name in sorted(present) if name != expected]
    return errors


def _identifier(path: Path, metric: Json) -> Errors:
    name = metric.get("name", "")
    errors = [] if name else [required(path / "name", "must specify a metric name")]
    return errors + [invalid(path / "name", name, text) for text in (path_segment(name) if name else ())]


def _target(path: Path, target: Json) -> Errors:
    kind, percent = target.get("type", ""), target.get("averageUtilization")
    errors = [] if kind else [required(path / "type", "must specify a metric target type")]
    if kind not in _TARGETS:
        errors.append(invalid(path / "type", Named(kind), "must be either Utilization, Value, or AverageValue"))
    for name in ("value", "averageValue"):
        amount = target.get(name)
        if amount is not None and Quantity.parse(amount).sign <= 0:
            errors.append(invalid(path / name, amount, "must be positive"))
    if percent is not None and percent < 1:
        errors.append(invalid(path / "averageUtilization", percent, "must be greater than 0"))
    return errors


def _object(path: Path, source: Json, any_version: bool) -> Errors:
    reference, target = source.get("describedObject") or {}, source.get("target") or {}
    errors = _reference(path / "describedObject", reference)
    errors += [] if any_version else _version(path / "describedObject", reference, core=True)
    errors += _identifier(path / "metric", source.get("metric") or {}) + _target(path / "target", target)
    if target.get("value") is None and target.get("averageValue") is None:
        errors.append(required(path / "target" / "averageValue", "must set either a target value or averageValue"))
    return errors


def _external(path: Path, source: Json, _: bool) -> Errors:
    target = source.get("target") or {}
    errors = _identifier(path / "metric", source.get("metric") or {}) + _target(path / "target", target)
    value, average = target.get("value"), target.get("averageValue")
    if value is None and average is None:
        text = "must set either a target value for metric or a per-pod target"
        errors.append(required(path / "target" / "averageValue", text))
    if value is not None and average is not None:
        text = "may not set both a target value for metric and a per-pod target"
        errors.append(forbidden(path / "target" / "value", text))
    return errors


def _pods(path: Path, source: Json, _: bool) -> Errors:
    target = source.get("target") or {}
    errors = _identifier(path / "metric", source.get("metric") or {}) + _target(path / "target", target)
    if target.get("averageValue") is None:
        text = "must specify a positive target averageValue"
        errors.append(required(path / "target" / "averageValue", text))
    return errors


def _resource(path: Path, source: Json, _: bool) -> Errors:
    target, at = source.get("target") or {}, path / "target"
    errors = [] if source.get("name") else [required(path / "name", "must specify a resource name")]
    errors += _target(at, target)
    percent, average = target.get("averageUtilization"), target.get("averageValue")
    if percent is None and average is None:
        errors.append(required(at / "averageUtilization", _NEITHER))
    if percent is not None and average is not None:
        errors.append(forbidden(at / "averageValue", _BOTH))
    return errors


def _container(path: Path, source: Json, _: bool) -> Errors:
    name, container = source.get("name", ""), source.get("container", "")
    errors = container_resource_name(path / "name", name) if name else []
    whole = _resource(path, source, _)
    errors = errors if name else whole[:1]
    if not container:
        errors.append(required(path / "container", "must specify a container"))
    errors += [invalid(path / "container", container, text) for text in (dns_label(container) if container else ())]
    return errors + (whole if name else whole[1:])


_CHECKS: Final = {
    "object": _object, "external": _external, "pods": _pods, "resource": _resource, "containerResource": _container,
}  # fmt: skip


def _scaling(path: Path, rules: Json) -> Errors:
    window, select, policies = rules.get("stabilizationWindowSeconds"), rules.get("selectPolicy"), rules.get("policies")
    errors: Errors = []
    if window is not None and window < 0:
        errors.append(invalid(path / "stabilizationWindowSeconds", window, "must be greater than or equal to zero"))
    if window is not None and window > _LONGEST_WINDOW:
        text = f"must be less than or equal to {_LONGEST_WINDOW}"
        errors.append(invalid(path / "stabilizationWindowSeconds", window, text))
    if select is not None and select not in _SELECT:
        errors.append(not_supported(path / "selectPolicy", Named(select), _SELECT))
    if not policies:
        errors.append(required(path / "policies", "must specify at least one Policy"))
    for index, policy in enumerate(policies or ()):
        errors += _policy((path / "policies")[index], policy)
    tolerance = rules.get("tolerance")
    if tolerance is not None and Quantity.parse(tolerance).sign < 0:
        errors.append(invalid(path / "tolerance", tolerance, "must be greater than or equal to 0"))
    return errors


def _policy(path: Path, policy: Json) -> Errors:
    kind, value, period = policy.get("type", ""), policy.get("value", 0), policy.get("periodSeconds", 0)
    errors = [] if kind in _POLICIES else [not_supported(path / "type", Named(kind), _POLICIES)]
    if value <= 0:
        errors.append(invalid(path / "value", value, _POSITIVE))
    if period <= 0:
        errors.append(invalid(path / "periodSeconds", period, _POSITIVE))
    if period > _LONGEST_PERIOD:
        errors.append(invalid(path / "periodSeconds", period, f"must be less than or equal to {_LONGEST_PERIOD}"))
    return errors


def validate_status(status: Json) -> Errors:
    return [
        invalid(_STATUS / name, status[name], "must be greater than or equal to 0")
        for name in ("currentReplicas", "desiredReplicas")
        if status.get(name, 0) < 0
    ]
