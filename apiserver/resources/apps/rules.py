"""Share the rules of the kinds of apps/v1.

They cover pod templates that always restart, numbers or percentages, and the counts of a status
(pkg/apis/apps/validation).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from apiserver.api.errors.field_errors import FieldError
from apiserver.api.objects import Json
from apiserver.api.schema.markers import Enum, Forbidden, If, Invalid, is_set, is_unset
from apiserver.api.selectors.selectors import SelectorError, from_object
from apiserver.api.validation.compile import At, Step
from apiserver.api.values.names import PERCENT
from apiserver.api.values.numbers import int64
from apiserver.registry.definition.context import Context
from apiserver.resources.common.workloads import selects_template
from apiserver.resources.pods.gates import PodGates
from apiserver.resources.pods.template import validate_template

__all__ = [
    "COLLISIONS", "SELECTOR_AND_TEMPLATE", "Env", "always_runs", "are_zero", "at_most_100_percent",
    "has_usable_selector", "nonempty_selector", "number", "selected_template", "template",
]  # fmt: skip

_DECREMENTED: Final = "cannot be decremented"


class Env(NamedTuple):
    """Context of the rules of a spec. `gates` are the pod gates; `whole`: the template is validated."""

    gates: PodGates
    metadata: Json = {}  # noqa: RUF012 - nothing changes it
    creation: Context | None = None
    whole: bool = True


def nonempty_selector(kind: str) -> Invalid:
    empty = is_unset("selector.matchLabels", "selector.matchExpressions")
    return Invalid("selector", f"empty selector is invalid for {kind}", when=(is_set("selector"), empty))


def has_usable_selector(at: At) -> bool:
    try:
        from_object(at.value.get("selector"))
    except SelectorError:
        return False
    return True


def selected_template(at: At) -> list[FieldError]:
    return selects_template(at.path / "template", at.value.get("selector"), at.value["template"])


def template(at: At) -> list[FieldError]:
    return validate_template(at.path / "template", at.value["template"], gates=at.env.gates)


def always_runs(kind: str) -> tuple[Step, ...]:
    """Return the rules for pods that are always restarted: no other restart policy and no active deadline."""
    deadline = f"activeDeadlineSeconds in {kind} is not Supported"
    return Enum("template.spec.restartPolicy", ("Always",)), Forbidden("template.spec.activeDeadlineSeconds", deadline)


#: Of a Deployment or ReplicaSet; upstream's messages call both deployment.
SELECTOR_AND_TEMPLATE: Final[tuple[Step, ...]] = (
    "selector", nonempty_selector("deployment"),
    If(
        has_usable_selector,
        (selected_template, template, *always_runs("ReplicaSet")),
        otherwise=(Invalid("selector", "invalid label selector"),),
    ),
)  # fmt: skip


def number(value: int | str) -> int:
    """Return the number of an integer or percentage; 0 for any other text."""
    if isinstance(value, int):
        return value
    text = value.removesuffix("%") if PERCENT.matches(value) else value
    return int64(text) or 0


def at_most_100_percent(field: str) -> Invalid:
    return Invalid(field, "must not be greater than 100%", when=lambda at: _exceeds_100_percent(at.value.get(field)))


def _exceeds_100_percent(value: int | str | None) -> bool:
    return isinstance(value, str) and PERCENT.matches(value) and number(value) > 100


def are_zero(at: At, *fields: str) -> bool:
    """Return whether numbers or percentages are zero."""
    return not any(number(at.value.get(field, 0)) for field in fields)


def _shrinks(at: At) -> bool:
    before, count = (at.old or {}).get("collisionCount"), at.value.get("collisionCount")
    return before is not None and (count is None or count < before)


#: The collision count never decreases.
COLLISIONS: Final = If(
    _shrinks,
    (If(
        is_set("collisionCount"),
        (Invalid("collisionCount", _DECREMENTED),),
        otherwise=(Invalid("collisionCount", _DECREMENTED, shown=0),),
    ),),
)  # fmt: skip
