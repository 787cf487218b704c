"""Define Secrets. Rules: pkg/apis/core/validation (ValidateSecret)."""

from __future__ import annotations

import base64
import binascii
import json
from datetime import datetime
from typing import Final

from apiserver.api.errors.field_errors import FieldError, Path, invalid, required, too_long
from apiserver.api.objects import Json
from apiserver.api.types.core.configuration import Secret
from apiserver.api.validation.changes import changes
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.resource import Column, Resource, Version
from apiserver.registry.definition.strategy import Strategy
from apiserver.resources.common.columns import name_and_age
from apiserver.resources.core.configmaps import SIZE_LIMIT, bad_keys, changed_though_immutable, decoded_size

_CHANGES: Final = changes(Secret)
_DATA: Final = Path("data")
_ACCOUNT_NAME: Final = "kubernetes.io/service-account.name"
_DOCKER: Final = {"kubernetes.io/dockercfg": ".dockercfg", "kubernetes.io/dockerconfigjson": ".dockerconfigjson"}
_REDACTED: Final = "<secret contents redacted>"


def default(obj: Json, now: datetime) -> None:
    if not obj.get("type"):
        obj["type"] = "Opaque"


def to_hub(obj: Json) -> Json:
    """Move stringData, which is write-only, to data."""
    for key, text in (obj.pop("stringData", None) or {}).items():
        obj.setdefault("data", {})[key] = base64.b64encode(text.encode()).decode()
    return obj


def _docker_config(data: Json, key: str) -> list[FieldError]:
    path = _DATA.key(key)
    if key not in data:
        return [required(path)]
    try:
        value = json.loads(base64.b64decode(data[key]))
    except (ValueError, binascii.Error) as error:
        return [invalid(path, _REDACTED, f"invalid JSON: {error}")]
    if not isinstance(value, dict):
        return [invalid(path, _REDACTED, "json: cannot unmarshal into Go value of type map[string]interface {}")]
    return []


def _of_type(obj: Json, data: Json) -> list[FieldError]:
    """Validate the data that a known type requires."""
    kind = obj.get("type", "")
    if kind in _DOCKER:
        return _docker_config(data, _DOCKER[kind])
    if kind == "kubernetes.io/service-account-token":
        named = (obj["metadata"].get("annotations") or {}).get(_ACCOUNT_NAME)
        return [] if named else [required(Path("metadata.annotations").key(_ACCOUNT_NAME))]
    if kind == "kubernetes.io/basic-auth":
        return (
            []
            if "username" in data or "password" in data
            else [required(_DATA.key("username")), required(_DATA.key("password"))]
        )
    if kind == "kubernetes.io/ssh-auth":
        return [] if data.get("ssh-privatekey") else [required(_DATA.key("ssh-privatekey"))]
    if kind == "kubernetes.io/tls":
        return [required(_DATA.key(key)) for key in ("tls.crt", "tls.key") if key not in data]
    return []


class SecretStrategy(Strategy):
    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        data = obj.get("data") or {}
        errors = bad_keys(data, _DATA)
        if sum(decoded_size(value or "") for value in data.values()) > SIZE_LIMIT:
            errors.append(too_long(_DATA, SIZE_LIMIT))
        return errors + _of_type(obj, data)

    def prepare_for_update(self, ctx: Context, obj: Json, old: Json) -> None:
        if not obj.get("type") and old.get("type"):
            obj["type"] = old["type"]

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        errors = _CHANGES.errors(Path(), obj, old) + changed_though_immutable(obj, old, "data")
        return errors + self.validate(ctx, obj)


def _type(obj: Json) -> str:
    kind: str = obj.get("type", "")
    return kind


SECRETS = Resource(
    group="", kind="Secret", plural="secrets", singular="secret", namespaced=True,
    versions=(Version(name="v1", schema=Secret, default=default, to_hub=to_hub),),
    strategy=SecretStrategy(), storage_prefix="secrets",
    columns=name_and_age(
        Column(name="Type", cell=_type, description="Type of the secret."),
        Column(name="Data", cell=lambda obj: len(obj.get("data") or ()), description="Number of entries."),
    ),
    field_labels={"type": _type}, field_error_style="plain",
)  # fmt: skip
