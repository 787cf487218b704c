"""Define PodGroups: pods that are scheduled together and share claims. Their spec is immutable.

Facts: pkg/apis/scheduling/validation.
"""

from __future__ import annotations

from typing import Final

from apiserver.api.errors.field_errors import FieldError, Path, forbidden, invalid, too_many
from apiserver.api.objects import Json
from apiserver.api.schema.defaulting import fill_defaults
from apiserver.api.schema.dropping import drop_disabled
from apiserver.api.types.scheduling import PodGroup, PodGroupSpec
from apiserver.api.validation.changes import changes
from apiserver.api.validation.compile import most_items
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.resource import Column, Resource, Subresource, Version
from apiserver.resources.common.columns import name_and_age
from apiserver.resources.common.conditions import validate_conditions
from apiserver.resources.common.status import StatusStrategy
from apiserver.resources.scheduling.groupvalidation import RULES, claim_statuses

_SPEC: Final = Path("spec")
_STATUS: Final = Path("status")
_MOST_CLAIMS: Final = most_items(PodGroupSpec, "resourceClaims")
_CHANGES: Final = changes(PodGroupSpec)
#: Fields that cannot be changed while their gate is disabled.
_FORBIDDEN: Final = frozenset({"schedulingConstraints", "disruptionMode", "priorityClassName", "priority"})


class PodGroupStrategy(StatusStrategy):
    reset_fields = ()
    keeps_metadata = True

    def drop_gated(self, ctx: Context, obj: Json, old: Json | None) -> None:
        drop_disabled(ctx, obj, old)

    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        return RULES.of(PodGroupSpec).errors(_SPEC, obj["spec"])

    def canonicalize(self, ctx: Context, obj: Json) -> None:
        """Set the defaults, because upstream also defaults stored objects, including fields of disabled gates."""
        fill_defaults(PodGroup, obj, ctx.now)

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        errors: list[FieldError] = []
        for name, field in PodGroupSpec.fields.items():
            changed, new = _CHANGES.field(name, _SPEC, obj["spec"], old["spec"]), obj["spec"].get(name)
            if not changed:
                continue
            if name not in _FORBIDDEN or ctx.features.enabled(str(field.gate)):
                errors += changed
            elif new not in (None, ""):
                errors.append(forbidden(_SPEC / name, ""))
            if name == "resourceClaims" and len(new or ()) > _MOST_CLAIMS:
                errors.append(too_many(_SPEC / name, len(new), _MOST_CLAIMS))
        return errors

    def prepare_for_status_update(self, ctx: Context, obj: Json, old: Json) -> None:
        super().prepare_for_status_update(ctx, obj, old)
        obj.setdefault("status", {})
        drop_disabled(ctx, obj, old)

    def validate_status_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        status = obj.get("status") or {}
        statuses, at = status.get("resourceClaimStatuses") or [], _STATUS / "resourceClaimStatuses"
        known = {claim.get("name", "") for claim in obj["spec"].get("resourceClaims") or ()}
        errors = validate_conditions(_STATUS / "conditions", status.get("conditions"))
        for index, entry in enumerate(statuses):
            if entry.get("name", "") not in known:
                errors.append(
                    invalid(
                        at[index] / "name",
                        entry.get("name", ""),
                        "must match the name of an entry in `spec.resourceClaims`",
                    )
                )
        return errors + claim_statuses(status, old.get("status") or {})


def _policy(obj: Json) -> str:
    return "Gang" if (obj["spec"].get("schedulingPolicy") or {}).get("gang") is not None else "Basic"


def _workload(obj: Json) -> str:
    reference = obj["spec"].get("podGroupTemplateRef")
    name: str = "<none>" if reference is None else (reference.get("workload") or {}).get("workloadName", "")
    return name


def _state(obj: Json) -> str:
    conditions = {condition["type"]: condition for condition in (obj.get("status") or {}).get("conditions") or ()}
    if "DisruptionTarget" in conditions:
        reason: str = conditions["DisruptionTarget"].get("reason", "")
        return reason
    if "PodGroupScheduled" not in conditions:
        return "Pending"
    return "Scheduled" if conditions["PodGroupScheduled"]["status"] == "True" else "Unschedulable"


POD_GROUPS: Final = Resource(
    group="scheduling.k8s.io",
    kind="PodGroup",
    plural="podgroups",
    singular="podgroup",
    namespaced=True,
    gate="GenericWorkload",
    versions=(Version(name="v1alpha2", schema=PodGroup, on_by_default=False),),
    strategy=PodGroupStrategy(),
    storage_prefix="podgroups",
    subresources=(Subresource(name="status"),),
    columns=name_and_age(
        Column(
            name="Policy",
            cell=_policy,
            description="How the pods are scheduled: one by one (Basic) or together (Gang).",
        ),
        Column(name="Workload", cell=_workload, description="Name of the referenced Workload object"),
        Column(name="Status", cell=_state, description="Status of the PodGroup"),
    ),
)
