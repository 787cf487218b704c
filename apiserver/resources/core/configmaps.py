"""ConfigMaps. Rules: pkg/apis/core/validation (ValidateConfigMap)."""

from __future__ import annotations

from typing import Final

from apiserver.api.errors.field_errors import FieldError, Path, forbidden, invalid, too_long
from apiserver.api.objects import Json
from apiserver.api.types.core.configuration import ConfigMap
from apiserver.api.values.names import config_map_key
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.resource import Column, Resource, Version
from apiserver.registry.definition.strategy import Strategy
from apiserver.resources.common.columns import name_and_age

#: Limit for all data of a ConfigMap, and of a Secret, in bytes.
SIZE_LIMIT: Final = 1024 * 1024
IMMUTABLE: Final = "field is immutable when `immutable` is set"


def decoded_size(base64: str) -> int:
    """Return the number of bytes that a base64 text encodes."""
    return len(base64) * 3 // 4 - base64[-2:].count("=")


def bad_keys(data: Json, path: Path) -> list[FieldError]:
    return [invalid(path.key(key), key, text) for key in data for text in config_map_key(key)]


def changed_though_immutable(obj: Json, old: Json, *fields: str) -> list[FieldError]:
    """Reject changes of `immutable: true` and of the fields that it protects."""
    if not old.get("immutable"):
        return []
    errors = [] if obj.get("immutable") else [forbidden(Path("immutable"), IMMUTABLE)]
    return errors + [
        forbidden(Path(field), IMMUTABLE) for field in fields if (obj.get(field) or {}) != (old.get(field) or {})
    ]


class ConfigMapStrategy(Strategy):
    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
        errors = bad_keys(data, Path("data"))
        errors += [
            invalid(Path("data").key(key), key, "duplicate of key present in binaryData")
            for key in data
            if key in binary
        ]
        errors += bad_keys(binary, Path("binaryData"))
        size = sum(len(value.encode()) for value in data.values()) + sum(map(decoded_size, binary.values()))
        if size > SIZE_LIMIT:
            errors.append(too_long(Path("[]"), SIZE_LIMIT))
        return errors

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        return changed_though_immutable(obj, old, "data", "binaryData") + self.validate(ctx, obj)


CONFIG_MAPS = Resource(
    group="",
    kind="ConfigMap",
    plural="configmaps",
    singular="configmap",
    namespaced=True,
    short_names=("cm",),
    versions=(Version(name="v1", schema=ConfigMap),),
    strategy=ConfigMapStrategy(),
    storage_prefix="configmaps",
    columns=name_and_age(
        Column(
            name="Data",
            cell=lambda obj: len(obj.get("data") or ()) + len(obj.get("binaryData") or ()),
            description="Number of entries.",
        )
    ),
)
