"""Define DeviceClasses: selectors and configuration that requests refer to by name (pkg/apis/resource/validation)."""

from __future__ import annotations

from typing import Final

from apiserver.api.errors.field_errors import FieldError, Path, invalid
from apiserver.api.objects import Json
from apiserver.api.schema.dropping import drop_disabled
from apiserver.api.schema.equality import semantic_equal
from apiserver.api.types.resource.v1 import TYPES
from apiserver.api.validation.compile import At, Rule
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.resource import Resource
from apiserver.registry.definition.strategy import Strategy
from apiserver.resources.common.columns import name_and_age
from apiserver.resources.common.resource_names import is_extended
from apiserver.resources.devices.claimvalidation import RULES, Env
from apiserver.resources.devices.versions import versions_of

_SPEC: Final = Path("spec")


def _unless_unchanged(field: str) -> Rule:
    """Return the rule of a field. An unchanged value was accepted before and is validated as stored."""
    kind = TYPES.DeviceClassSpec.fields[field].type

    def rule(at: At) -> list[FieldError]:
        stored = at.old is not None and semantic_equal(kind, at.value.get(field), at.old.get(field))
        return at.field(field, Env(at.env.features, {}, stored=stored))

    return rule


def _extended_name(at: At) -> list[FieldError]:
    name = at.value.get("extendedResourceName")
    if name is None or is_extended(name):
        return []
    return [invalid(at.path / "extendedResourceName", name, "must be a valid extended resource name")]


RULES.set(
    TYPES.DeviceClassSpec,
    _unless_unchanged("selectors"),
    _unless_unchanged("config"),
    _extended_name,
    by_rules=("selectors", "config"),
)


def _validate_spec(ctx: Context, spec: Json, old: Json | None) -> list[FieldError]:
    return RULES.of(TYPES.DeviceClassSpec).errors(_SPEC, spec, Env(ctx.features, {}), old)


class DeviceClassStrategy(Strategy):
    name_rule = "long-name"

    def prepare_for_create(self, ctx: Context, obj: Json) -> None:
        obj["metadata"]["generation"] = 1
        drop_disabled(ctx, obj, None)

    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        return _validate_spec(ctx, obj["spec"], None)

    def prepare_for_update(self, ctx: Context, obj: Json, old: Json) -> None:
        """Drop disabled fields, then increase the generation if the spec changed."""
        drop_disabled(ctx, obj, old)
        if not semantic_equal(TYPES.DeviceClassSpec, obj["spec"], old["spec"]):
            obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        return _validate_spec(ctx, obj["spec"], old["spec"])


DEVICE_CLASSES: Final = Resource(
    group="resource.k8s.io",
    kind="DeviceClass",
    plural="deviceclasses",
    singular="deviceclass",
    namespaced=False,
    versions=versions_of("DeviceClass"),
    strategy=DeviceClassStrategy(),
    storage_prefix="deviceclasses",
    columns=name_and_age(),
    delete_returns_object=True,
)
