"""Validate autoscalers. Rules: pkg/apis/autoscaling/validation, in its order."""

from __future__ import annotations

from typing import Final, NamedTuple

from apiserver.api.errors.field_errors import FieldError, Named, Path, forbidden, invalid, not_supported, required
from apiserver.api.features.gates import Features
from apiserver.api.objects import Json
from apiserver.api.schema.markers import Invalid, Required, UntilError, is_set, is_unset
from apiserver.api.types.autoscaling_v2 import (
    ONE_TARGET,
    ContainerResourceMetricSource,
    HorizontalPodAutoscalerSpec,
    HorizontalPodAutoscalerStatus,
    MetricIdentifier,
    MetricSpec,
    ObjectMetricSource,
)
from apiserver.api.validation.compile import At, Rules
from apiserver.resources.pods.containervalidation import container_resource_name

__all__ = ["validate_spec", "validate_status"]

Errors = list[FieldError]

_RULES: Final = Rules()
_SOURCES: Final = ("ContainerResource", "External", "Object", "Pods", "Resource")
#: Source fields in validation order. Only the first of several is validated.
_FIELDS: Final = ("object", "external", "pods", "resource", "containerResource")


class _Env(NamedTuple):
    """Context of the rules. `least` is the minimum of minReplicas; `version`: metrics may refer to any API version."""

    least: int
    any_version: bool


def validate_spec(spec: Json, old: Json | None, features: Features) -> Errors:
    """Validate a spec. A stored reference may stay as it is."""
    zero = features.enabled("HPAScaleToZero") or (old is not None and old.get("minReplicas") == 0)
    any_version = any(
        _version(Path(), (metric.get("object") or {}).get("describedObject") or {}, core=True)
        for metric in (old or {}).get("metrics") or ()
        if metric.get("type") == "Object"
    )
    return _RULES.of(HorizontalPodAutoscalerSpec).errors(Path("spec"), spec, _Env(0 if zero else 1, any_version), old)


def validate_status(status: Json) -> Errors:
    return _RULES.of(HorizontalPodAutoscalerStatus).errors(Path("status"), status)


def _least(at: At) -> Errors:
    least, bound = at.value["minReplicas"], at.env.least
    path = at.path / "minReplicas"
    return [invalid(path, least, f"must be greater than or equal to {bound}")] if least < bound else []


def _target_version(at: At) -> Errors:
    target, before = at.value.get("scaleTargetRef") or {}, (at.old or {}).get("scaleTargetRef") or {}
    if at.old is not None and all(before.get(name, "") == target.get(name, "") for name in ("apiVersion", "kind")):
        return []
    return _version(at.path / "scaleTargetRef", target, core=target.get("kind") == "ReplicationController")


def _version(path: Path, reference: Json, *, core: bool) -> Errors:
    """Validate an API version. `core`: versions without a group are allowed."""
    version = reference.get("apiVersion", "")
    if version.count("/") > 1:
        return [invalid(path / "apiVersion", version, f"unexpected GroupVersion string: {version}")]
    if core or ("/" in version and not version.startswith("/")):
        return []
    return [invalid(path / "apiVersion", version, "apiVersion must specify API group")]


def _needs_metric(at: At) -> Errors:
    """Require a metric that can scale up from zero replicas."""
    if at.value.get("minReplicas") != 0:
        return []
    if any(metric.get("type") in ("Object", "External") for metric in at.value.get("metrics") or ()):
        return []
    text = "must specify at least one Object or External metric to support scaling to zero replicas"
    return [forbidden(at.path / "metrics", text)]


def _metric(at: At) -> Errors:
    kind, path = at.value.get("type", ""), at.path
    unknown = [] if kind in _SOURCES else [not_supported(path / "type", Named(kind), _SOURCES)]
    errors = ([] if kind else [required(path / "type", "must specify a metric source type")]) + unknown
    present = [name for name in _FIELDS if at.value.get(name) is not None]
    errors += at.fields(*present[:1])
    expected = kind[:1].lower() + kind[1:]
    if unknown:
        errors += unknown
    elif expected not in present:
        errors.append(required(path / expected, "must populate information for the given metric source"))
    if len(present) > 1:
        text = "must populate the given metric source only"
        errors += [forbidden(path / name, text) for name in sorted(present) if name != expected]
    return errors


def _described_version(at: At) -> Errors:
    reference = at.value.get("describedObject") or {}
    return [] if at.env.any_version else _version(at.path / "describedObject", reference, core=True)


def _resource_name(at: At) -> Errors:
    return container_resource_name(at.path / "name", at.value["name"])


_RULES.set(MetricIdentifier, "name", by_rules=("selector",))
_RULES.set(HorizontalPodAutoscalerStatus, "currentReplicas", "desiredReplicas", by_rules=("currentMetrics",))
_RULES.set(
    ObjectMetricSource, "describedObject", _described_version, "metric", "target",
    Required(
        "target.averageValue", "must set either a target value or averageValue", when=is_unset("target.value")
    ),
)  # fmt: skip
_RULES.set(ContainerResourceMetricSource, UntilError(("name", _resource_name)), "container", "target", *ONE_TARGET)
_RULES.set(MetricSpec, _metric, by_rules=_FIELDS)
_RULES.set(
    HorizontalPodAutoscalerSpec,
    ("minReplicas", _least), "maxReplicas",
    Invalid(
        "maxReplicas", "must be greater than or equal to `minReplicas`",
        when=(is_set("minReplicas"), lambda at: at.value.get("maxReplicas", 0) < at.value["minReplicas"]),
    ),
    "scaleTargetRef", _target_version, "metrics",
    _needs_metric, "behavior",
)  # fmt: skip
