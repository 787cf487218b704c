"""Define PriorityClasses (scheduling.k8s.io): named priorities. Every server has two system classes.

Rules: pkg/apis/scheduling/validation, pkg/registry/scheduling/priorityclass.
"""

from __future__ import annotations

from typing import Final

from apiserver.api.errors import status
from apiserver.api.errors.field_errors import FieldError, Path, forbidden
from apiserver.api.objects import Json
from apiserver.api.types.scheduling import HIGHEST_PRIORITY, PriorityClass
from apiserver.api.validation.changes import changes
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.resource import Column, Resource, Version
from apiserver.registry.definition.strategy import Strategy
from apiserver.resources.common.columns import AGE, NAME
from apiserver.resources.common.core_rules import RULES

__all__ = ["PRIORITY_CLASSES", "SYSTEM_CLASSES"]


_PREEMPT: Final = "PreemptLowerPriority"
_CHANGES: Final = changes(PriorityClass)
_SYSTEM: Final = "system-"
#: Value and description of the system classes by name.
SYSTEM_CLASSES: Final[dict[str, tuple[int, str]]] = {
    "system-node-critical": (
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
    "system-cluster-critical": (
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
}


def _system_problem(obj: Json) -> str:
    """Return why a class may not use a system name; "" if it equals the system class."""
    name = obj["metadata"].get("name", "")
    if name not in SYSTEM_CLASSES:
        return f"{name} is not a known system priority class"
    value, _ = SYSTEM_CLASSES[name]
    if obj.get("value", 0) != value:
        return f"value of {name} PriorityClass must be {value}"
    return f"globalDefault of {name} PriorityClass must be false" if obj.get("globalDefault") else ""


RULES.set(PriorityClass, by_rules=("value", "preemptionPolicy"))


class PriorityClassStrategy(Strategy):
    revalidates_metadata = False

    def prepare_for_create(self, ctx: Context, obj: Json) -> None:
        obj["metadata"]["generation"] = 1

    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        errors: list[FieldError] = []
        if obj["metadata"].get("name", "").startswith(_SYSTEM):
            if problem := _system_problem(obj):
                text = (
                    f"priority class names with '{_SYSTEM}' prefix are reserved for system use only. error: {problem}"
                )
                errors.append(forbidden(Path("metadata.name"), text))
        elif obj.get("value", 0) > HIGHEST_PRIORITY:
            errors.append(
                forbidden(Path("value"), f"maximum allowed value of a user defined priority is {HIGHEST_PRIORITY}")
            )
        return errors + RULES.of(PriorityClass).at(Path(), obj).field("preemptionPolicy")

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        return _CHANGES.errors(Path(), obj, old)

    def check_delete(self, ctx: Context) -> None:
        if ctx.name in SYSTEM_CLASSES:
            raise status.forbidden(
                ctx.resource.plural,
                ctx.resource.group,
                ctx.name,
                "this is a system priority class and cannot be deleted",
            )


PRIORITY_CLASSES: Final = Resource(
    group="scheduling.k8s.io",
    kind="PriorityClass",
    plural="priorityclasses",
    singular="priorityclass",
    namespaced=False,
    short_names=("pc",),
    versions=(Version(name="v1", schema=PriorityClass),),
    strategy=PriorityClassStrategy(),
    storage_prefix="priorityclasses",
    columns=(
        NAME,
        Column(name="Value", cell=lambda obj: obj.get("value", 0), type="integer", description="The priority."),
        Column(
            name="Global-Default",
            cell=lambda obj: bool(obj.get("globalDefault")),
            type="boolean",
            description="Whether it is the default for pods without a class.",
        ),
        AGE,
        Column(
            name="PreemptionPolicy",
            cell=lambda obj: obj.get("preemptionPolicy") or "",
            description="Whether pods of the class may preempt others.",
        ),
    ),
)
