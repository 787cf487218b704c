"""Define CSINodes: the CSI drivers of a node."""

from __future__ import annotations

from typing import Final

from apiserver.api.errors.field_errors import FieldError, Path, duplicate, invalid, required
from apiserver.api.objects import Json
from apiserver.api.types.storage import CSINode, CSINodeDriver
from apiserver.api.validation.items import each_unique
from apiserver.api.values.names import label_key
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.resource import Column, Resource, Version
from apiserver.registry.definition.strategy import Strategy
from apiserver.resources.common.columns import name_and_age
from apiserver.resources.common.core_rules import RULES
from apiserver.resources.common.workloads import immutable

_DRIVERS: Final = Path("spec.drivers")
_NODE_ID_LIMIT: Final = 256


def _driver(path: Path, driver: Json) -> list[FieldError]:
    here, node = RULES.of(CSINodeDriver).at(path, driver), driver.get("nodeID", "")
    errors = here.fields("name", "nodeID")
    if len(node.encode()) > _NODE_ID_LIMIT:
        errors.append(invalid(path / "nodeID", node, f"must be {_NODE_ID_LIMIT} characters or less"))
    return errors + here.field("allocatable")


def _topology_keys(path: Path, keys: list[str]) -> list[FieldError]:
    errors: list[FieldError] = []
    for _, key, is_repeated in each_unique(path, keys):
        errors += [] if key else [required(path)]
        errors += [duplicate(path, key)] if is_repeated else []
        errors += [invalid(path, key, text) for text in label_key(key)]
    return errors


def _comparable(ctx: Context, driver: Json) -> Json:
    """Return the immutable part of a driver: all but `allocatable` if its gate is enabled."""
    fixed = not ctx.features.enabled("MutableCSINodeAllocatableCount")
    return driver if fixed else {name: value for name, value in driver.items() if name != "allocatable"}


RULES.set(CSINodeDriver, by_rules=("name", "nodeID", "allocatable"))


class CSINodeStrategy(Strategy):
    compares_metadata = False

    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        errors: list[FieldError] = []
        for path, driver, is_repeated in each_unique(_DRIVERS, obj["spec"].get("drivers"), "name"):
            errors += _driver(path, driver)
            if is_repeated:
                errors.append(duplicate(path / "name", driver.get("name", "")))
            errors += _topology_keys(path, driver.get("topologyKeys") or [])
        return errors

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        errors = self.validate(ctx, obj)
        for before in old["spec"].get("drivers") or ():
            for driver in obj["spec"].get("drivers") or ():
                if driver.get("name", "") == before.get("name", ""):
                    errors += immutable(_DRIVERS, CSINodeDriver, _comparable(ctx, driver), _comparable(ctx, before))
        return errors


CSI_NODES: Final = Resource(
    group="storage.k8s.io",
    kind="CSINode",
    plural="csinodes",
    singular="csinode",
    namespaced=False,
    versions=(Version(name="v1", schema=CSINode),),
    strategy=CSINodeStrategy(),
    storage_prefix="csinodes",
    columns=name_and_age(
        Column(
            name="Drivers",
            cell=lambda obj: len(obj["spec"].get("drivers") or ()),
            type="integer",
            description="Number of drivers on the node.",
        )
    ),
    unconditional_update=False,
    delete_returns_object=True,
)
