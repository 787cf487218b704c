"""Define RuntimeClasses. Rules: pkg/apis/node/validation.

The admission plugin RuntimeClass applies them to pods.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from apiserver.api.errors.field_errors import FieldError, Path, duplicate
from apiserver.api.objects import Json
from apiserver.api.types.core.scheduling import Toleration
from apiserver.api.types.node import RuntimeClass
from apiserver.api.validation.changes import changes
from apiserver.api.validation.internal_values import internal
from apiserver.api.validation.items import each_unique
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.resource import Column, Resource, Version
from apiserver.registry.definition.strategy import Strategy
from apiserver.resources.common.columns import name_and_age
from apiserver.resources.common.core_rules import RULES
from apiserver.resources.common.template_metadata import validate_labels
from apiserver.resources.pods.containervalidation import validate_resources
from apiserver.resources.pods.defaults import round_amounts
from apiserver.resources.pods.scheduling import validate_tolerations
from apiserver.resources.pods.warnings import OLD_LABELS

_CHANGES: Final = changes(RuntimeClass)
_SCHEDULING: Final = Path("scheduling")


def default(obj: Json, now: datetime) -> None:
    amounts = (obj.get("overhead") or {}).get("podFixed")
    if amounts:
        round_amounts(amounts)


def _scheduling(scheduling: Json) -> list[FieldError]:
    tolerations, path = scheduling.get("tolerations") or [], _SCHEDULING / "tolerations"
    errors = validate_labels(scheduling.get("nodeSelector") or {}, _SCHEDULING / "nodeSelector")
    errors += validate_tolerations(path, tolerations)
    return errors + [
        duplicate(at, internal(Toleration, toleration))
        for at, toleration, is_repeated in each_unique(path, tolerations, "key", "operator", "value", "effect")
        if is_repeated
    ]


RULES.set(RuntimeClass, by_rules=("handler", "scheduling"))


class RuntimeClassStrategy(Strategy):
    checks_finalizer_names = False

    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        errors = RULES.of(RuntimeClass).at(Path(), obj).field("handler")
        if obj.get("overhead") is not None:
            # The path ends in limits, as upstream's does.
            errors += validate_resources(Path("overhead"), {"limits": obj["overhead"].get("podFixed")}, set())
        return errors + _scheduling(obj["scheduling"]) if obj.get("scheduling") is not None else errors

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        return self.validate(ctx, obj) + _CHANGES.errors(Path(), obj, old)

    def warnings_on_create(self, ctx: Context, obj: Json) -> list[str]:
        chosen = (obj.get("scheduling") or {}).get("nodeSelector") or {}
        return [
            f"{_SCHEDULING / 'nodeSelector'}: {OLD_LABELS[label]}" for label in sorted(chosen) if label in OLD_LABELS
        ]

    def warnings_on_update(self, ctx: Context, obj: Json, old: Json) -> list[str]:
        return self.warnings_on_create(ctx, obj)


def _handler(obj: Json) -> str:
    handler: str = obj.get("handler", "")
    return handler


RUNTIME_CLASSES: Final = Resource(
    group="node.k8s.io", kind="RuntimeClass", plural="runtimeclasses", singular="runtimeclass", namespaced=False,
    versions=(Version(name="v1", schema=RuntimeClass, default=default),),
    strategy=RuntimeClassStrategy(), storage_prefix="runtimeclasses",
    columns=name_and_age(Column(name="Handler", cell=_handler, description="Name of the handler on the node.")),
    unconditional_update=False, create_on_update=True,
)  # fmt: skip
