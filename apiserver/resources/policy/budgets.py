"""Define PodDisruptionBudgets of policy/v1.

The disruption controller counts pods and writes the status; evictions read it.
Facts: pkg/apis/policy/validation, pkg/registry/policy/poddisruptionbudget.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from apiserver.api.errors.field_errors import FieldError, Path
from apiserver.api.objects import Json
from apiserver.api.schema.markers import Invalid, Union
from apiserver.api.types.policy import PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.resource import Column, Resource, Subresource, Version
from apiserver.resources.apps.rules import at_most_100_percent
from apiserver.resources.common.columns import name_and_age
from apiserver.resources.common.conditions import validate_conditions
from apiserver.resources.common.core_rules import RULES
from apiserver.resources.common.status import StatusStrategy

__all__ = ["POD_DISRUPTION_BUDGETS"]


_SPEC: Final = Path("spec")
_STATUS: Final = Path("status")
_BOUNDS: Final = ("minAvailable", "maxUnavailable")
_COUNTS: Final = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")


RULES.set(
    PodDisruptionBudgetSpec,
    Union(_BOUNDS, many=Invalid("", "minAvailable and maxUnavailable cannot be both set")),
    *(step for field in _BOUNDS for step in (field, at_most_100_percent(field))),
    "selector", "unhealthyPodEvictionPolicy",
)  # fmt: skip
RULES.set(PodDisruptionBudgetStatus, *_COUNTS)


class PodDisruptionBudgetStrategy(StatusStrategy):
    new_status: ClassVar[Json] = dict.fromkeys(_COUNTS, 0)
    spec_type = PodDisruptionBudgetSpec
    status_reset_fields = ("spec",)
    checks_metadata = False

    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        return RULES.of(PodDisruptionBudgetSpec).errors(_SPEC, obj["spec"])

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        return self.validate(ctx, obj)

    def validate_status_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        status = obj.get("status") or {}
        errors = validate_conditions(_STATUS / "conditions", status.get("conditions"))
        return errors + RULES.of(PodDisruptionBudgetStatus).errors(_STATUS, status)


def _bound(field: str) -> Any:
    return lambda obj: "N/A" if obj["spec"].get(field) is None else str(obj["spec"][field])


POD_DISRUPTION_BUDGETS: Final = Resource(
    group="policy",
    kind="PodDisruptionBudget",
    plural="poddisruptionbudgets",
    singular="poddisruptionbudget",
    namespaced=True,
    short_names=("pdb",),
    versions=(Version(name="v1", schema=PodDisruptionBudget),),
    strategy=PodDisruptionBudgetStrategy(),
    storage_prefix="poddisruptionbudgets",
    unconditional_update=False,
    columns=name_and_age(
        Column(name="Min Available", cell=_bound("minAvailable"), description="Minimum number of available pods."),
        Column(
            name="Max Unavailable", cell=_bound("maxUnavailable"), description="Maximum number of unavailable pods."
        ),
        Column(
            name="Allowed Disruptions",
            cell=lambda obj: (obj.get("status") or {}).get("disruptionsAllowed", 0),
            type="integer",
            description="Currently allowed disruptions.",
        ),
    ),
    subresources=(Subresource(name="status"),),
)
