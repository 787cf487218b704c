"""Serve ComponentStatuses: health of the control plane's components, probed per request and never stored.

Facts: pkg/registry/core/componentstatus.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from apiserver.api.objects import Json
from apiserver.api.types.core.componentstatuses import ComponentStatus
from apiserver.registry.definition.resource import Column, Resource, Version
from apiserver.registry.definition.strategy import Strategy
from apiserver.resources.common.columns import NAME

if TYPE_CHECKING:
    from apiserver.registry.definition.context import Context
    from apiserver.registry.store.store import Store

__all__ = ["COMPONENT_STATUSES"]


_STATES: Final = {"True": "Healthy", "False": "Unhealthy"}


async def _statuses(store: Store, ctx: Context) -> list[Json]:
    look = store.registry.components
    return [
        {
            "metadata": {"name": name},
            "conditions": [{"type": "Healthy", "status": str(healthy), "message": message}],
        }
        for name, healthy, message in (await look() if look is not None else ())
    ]


def _cell(field: str) -> Any:
    def cell(obj: Json) -> str:
        condition: Json = next((each for each in obj.get("conditions") or () if each["type"] == "Healthy"), {})
        value: str = condition.get(field, "")
        return _STATES.get(value, "Unknown") if field == "status" else value

    return cell


COMPONENT_STATUSES: Final = Resource(
    group="",
    kind="ComponentStatus",
    plural="componentstatuses",
    singular="componentstatus",
    namespaced=False,
    short_names=("cs",),
    versions=(
        Version(name="v1", schema=ComponentStatus, warning="v1 ComponentStatus is deprecated in v1.19+"),
    ),
    strategy=Strategy(),
    storage_prefix="componentstatuses",
    verbs=("get", "list"),
    compute_objects=_statuses,
    columns=(
        NAME,
        Column(name="Status", cell=_cell("status"), description="Health of the component."),
        Column(name="Message", cell=_cell("message"), description="Message from the health check."),
        Column(name="Error", cell=_cell("error"), description="Error of the health check."),
    ),
)  # fmt: skip
