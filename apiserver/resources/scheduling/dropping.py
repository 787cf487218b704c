"""Fields of groups and their templates that a disabled gate drops, unless the stored object uses them already (api.md
5.4).
"""

from __future__ import annotations

from typing import Any, Final

from apiserver.api.types.scheduling import PodGroupTemplate
from apiserver.registry.context import Context
from apiserver.resources.gating import Rule, drop, rule

__all__ = [
    "DISRUPTION_MODE",
    "SPEC_RULES",
    "STATUS_RULES",
    "drop_from_group",
    "drop_from_group_status",
    "drop_from_template",
]

Json = dict[str, Any]

#: What a group without a mode has, by default.
DISRUPTION_MODE: Final = "Pod"
_PREEMPTION: Final = "WorkloadAwarePreemption"
_CLAIMS: Final = "DRAWorkloadResourceClaims"

#: Of a group's spec or a template.
SPEC_RULES: Final[tuple[Rule, ...]] = (
    rule(
        "TopologyAwareWorkloadScheduling",
        lambda spec: spec.get("schedulingConstraints") is not None,
        "schedulingConstraints",
    ),
    rule(_CLAIMS, lambda spec: bool(spec.get("resourceClaims")), "resourceClaims"),
    rule(_PREEMPTION, lambda spec: spec.get("disruptionMode") is not None, "disruptionMode"),
    rule(_PREEMPTION, lambda spec: bool(spec.get("priorityClassName")), "priorityClassName"),
    rule(_PREEMPTION, lambda spec: spec.get("priority") is not None, "priority"),
)
#: Of a group's status; asked about the stored spec.
STATUS_RULES: Final[tuple[Rule, ...]] = (
    rule(_CLAIMS, lambda spec: bool(spec.get("resourceClaims")), "resourceClaimStatuses"),
)


def drop_from_group(ctx: Context, spec: Json, old: Json | None) -> None:
    """Changes a group's new spec in place. That the default is dropped is no loss: it comes back."""
    stored = old or {}
    if (
        spec.get("disruptionMode") == DISRUPTION_MODE
        and stored.get("disruptionMode") is None
        and not ctx.features.enabled(_PREEMPTION)
    ):
        del spec["disruptionMode"]
    drop(ctx, SPEC_RULES, spec, "spec", stored)


def drop_from_group_status(ctx: Context, status: Json, spec: Json) -> None:
    """Changes a group's new status in place; `spec` is the stored one."""
    drop(ctx, STATUS_RULES, status, "status", spec)


def drop_from_template(ctx: Context, template: Json, old: Json | None, at: str) -> None:
    """Changes a template in place; `old` is the one that stood in its place of the list."""
    given = template.get("schedulingConstraints")
    if given is None:
        drop(ctx, SPEC_RULES[1:], template, at, old or {})
        return
    drop(ctx, SPEC_RULES, template, at, old or {})
    if "schedulingConstraints" not in template:
        # Always written, also when there are none, and in its place.
        kept = {**template, "schedulingConstraints": None}
        template.clear()
        template.update((name, kept[name]) for name in PodGroupTemplate.fields if name in kept)
