"""Define CSIStorageCapacities: the available capacity of a driver for a class, per part of the cluster."""

from __future__ import annotations

from typing import Final

from apiserver.api.errors.field_errors import FieldError, Path
from apiserver.api.objects import Json
from apiserver.api.types.storage import CSIStorageCapacity
from apiserver.api.validation.changes import changes
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.resource import Column, Resource, Version
from apiserver.registry.definition.strategy import Strategy
from apiserver.resources.common.columns import NAME
from apiserver.resources.common.core_rules import RULES, validate_label_selector
from apiserver.resources.pods.warnings import OLD_LABELS

_TOPOLOGY: Final = Path("nodeTopology")
_CHANGES: Final = changes(CSIStorageCapacity)


def _validate(obj: Json, any_selector: bool) -> list[FieldError]:
    here = RULES.of(CSIStorageCapacity).at(Path(), obj)
    return ([] if any_selector else here.field("nodeTopology")) + here.fields("storageClassName", "capacity")


RULES.set(CSIStorageCapacity, by_rules=("nodeTopology", "storageClassName", "capacity"))


class CSIStorageCapacityStrategy(Strategy):
    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        return _validate(obj, any_selector=False)

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        errors = _validate(obj, any_selector=bool(validate_label_selector(_TOPOLOGY, old.get("nodeTopology"))))
        return errors + _CHANGES.errors(Path(), obj, old)

    def warnings_on_create(self, ctx: Context, obj: Json) -> list[str]:
        selector = obj.get("nodeTopology") or {}
        warnings = [
            f"{(_TOPOLOGY / 'matchExpressions')[index] / 'key'}: {expression['key']} is {OLD_LABELS[expression['key']]}"
            for index, expression in enumerate(selector.get("matchExpressions") or ())
            if expression.get("key") in OLD_LABELS
        ]
        return warnings + [
            f"{_TOPOLOGY / 'matchLabels' / label}: {OLD_LABELS[label]}"
            for label in selector.get("matchLabels") or ()
            if label in OLD_LABELS
        ]

    def warnings_on_update(self, ctx: Context, obj: Json, old: Json) -> list[str]:
        return self.warnings_on_create(ctx, obj)


CSI_STORAGE_CAPACITIES: Final = Resource(
    group="storage.k8s.io",
    kind="CSIStorageCapacity",
    plural="csistoragecapacities",
    singular="csistoragecapacity",
    namespaced=True,
    versions=(Version(name="v1", schema=CSIStorageCapacity),),
    strategy=CSIStorageCapacityStrategy(),
    storage_prefix="csistoragecapacities",
    columns=(
        NAME,
        Column(
            name="Created At",
            cell=lambda obj: obj["metadata"].get("creationTimestamp"),
            type="date",
            description="Creation time of the object.",
        ),
    ),
    unconditional_update=False,
)
