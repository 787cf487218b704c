"""Rules that kinds of apps/v1 share: templates of pods that always run, numbers or percentages, counts of a status
(pkg/apis/apps/validation).
"""

from __future__ import annotations

from typing import Any

from apiserver.api.errors.field_errors import FieldError, Named, Path, forbidden, invalid, not_supported
from apiserver.api.selectors.selectors import SelectorError, from_object
from apiserver.api.types.meta import LabelSelector
from apiserver.api.validation.internal_values import internal
from apiserver.api.values.names import PERCENT
from apiserver.api.values.numbers import int64
from apiserver.resources.common.workloads import selects_template, validate_required_selector
from apiserver.resources.pods.gates import PodGates
from apiserver.resources.pods.template import validate_template

__all__ = [
    "always_runs", "at_most_100_percent", "collisions_only_grow", "is_empty", "number",
    "selector_and_template", "shown_number",
]  # fmt: skip

Json = dict[str, Any]


def is_empty(selector: Json) -> bool:
    return not selector.get("matchLabels") and not selector.get("matchExpressions")


def selector_and_template(path: Path, spec: Json, gates: PodGates) -> list[FieldError]:
    """Of a Deployment or ReplicaSet (both call themselves deployment). `gates`: what they say of pods."""
    selector = spec.get("selector")
    errors = validate_required_selector(path / "selector", selector)
    if selector is not None and is_empty(selector):
        errors.append(
            invalid(path / "selector", internal(LabelSelector, selector), "empty selector is invalid for deployment")
        )
    try:
        from_object(selector)
    except SelectorError:
        return [*errors, invalid(path / "selector", internal(LabelSelector, selector), "invalid label selector")]
    template, at = spec["template"], path / "template"
    return (
        errors
        + selects_template(at, selector, template)
        + validate_template(at, template, gates=gates)
        + always_runs(at, template, "ReplicaSet")
    )


def always_runs(path: Path, template: Json, kind: str) -> list[FieldError]:
    """Pods that end are replaced: none may ask to end."""
    policy = template["spec"].get("restartPolicy", "")
    errors = [] if policy == "Always" else [not_supported(path / "spec" / "restartPolicy", Named(policy), ("Always",))]
    if template["spec"].get("activeDeadlineSeconds") is not None:
        errors.append(
            forbidden(path / "spec" / "activeDeadlineSeconds", f"activeDeadlineSeconds in {kind} is not Supported")
        )
    return errors


def shown_number(value: int | str) -> int | str:
    """A number or percentage as errors show it."""
    return Named(value) if isinstance(value, str) else value


def number(value: int | str) -> int:
    """The number, of a percentage as well; of any other text 0."""
    if isinstance(value, int):
        return value
    text = value.removesuffix("%") if PERCENT.matches(value) else value
    return int64(text) or 0


def at_most_100_percent(path: Path, value: int | str) -> list[FieldError]:
    if not isinstance(value, str) or not PERCENT.matches(value) or number(value) <= 100:
        return []
    return [invalid(path, Named(value), "must not be greater than 100%")]


def collisions_only_grow(status: Json, old: Json) -> list[FieldError]:
    before, count = old.get("collisionCount"), status.get("collisionCount")
    if before is None or (count is not None and count >= before):
        return []
    return [invalid(Path("status.collisionCount"), count or 0, "cannot be decremented")]
