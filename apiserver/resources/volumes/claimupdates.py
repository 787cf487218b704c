"""Validate updates of claims: the volume once, size and class while the claim is bound.

Facts: pkg/apis/core/validation, ValidatePersistentVolumeClaimUpdate.
"""

from __future__ import annotations

import copy
from typing import Final

from apiserver.api.errors.field_errors import FieldError, Named, Path, forbidden, invalid, not_supported, required
from apiserver.api.helpers.storage_classes import CLASS_ANNOTATION
from apiserver.api.objects import Json
from apiserver.api.schema.equality import semantic_equal
from apiserver.api.types.core.volumes import PersistentVolumeClaimSpec
from apiserver.api.validation.changes import changes
from apiserver.api.validation.internal_values import internal, shown_diff
from apiserver.api.values.names import label_key
from apiserver.api.values.quantity import Quantity
from apiserver.registry.definition.context import Context
from apiserver.resources.common.persistent_spec import whole
from apiserver.resources.common.resource_names import is_native, nonnegative

__all__ = ["recovers", "validate_claim_status", "validate_claim_update"]


_CHANGES: Final = changes(PersistentVolumeClaimSpec)
_SPEC: Final = Path("spec")
_STATUS: Final = Path("status")
_STORAGE: Final = "storage"
_CLASS: Final = _SPEC / "volumeAttributesClassName"
_IMMUTABLE: Final = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
)
_RESIZES: Final = (
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
)


def recovers(ctx: Context, old: Json) -> bool:
    """Return whether a failed expansion may be undone: by the gate, or if one is in progress."""
    status = old.get("status") or {}
    return ctx.features.enabled("RecoverVolumeExpansionFailure") or any(
        status.get(field) is not None for field in ("allocatedResources", "allocatedResourceStatuses")
    )


def _size(part: Json | None, *steps: str) -> Quantity:
    for step in steps:
        part = (part or {}).get(step)
    return Quantity.parse((part or {}).get(_STORAGE, "0"))


def _storage_class(obj: Json, old: Json, spec: Json) -> tuple[bool, list[FieldError]]:
    """Return whether the class may be set now, and the errors of the legacy class annotation."""
    given, before = obj["metadata"].get("annotations") or {}, old["metadata"].get("annotations") or {}
    name, unnamed, annotated = (
        spec.get("storageClassName"),
        "storageClassName" not in old["spec"],
        before.get(CLASS_ANNOTATION),
    )
    if annotated is not None and unnamed and name == annotated and given.get(CLASS_ANNOTATION, annotated) == annotated:
        return True, []
    errors = []
    if given.get(CLASS_ANNOTATION, "") != before.get(CLASS_ANNOTATION, ""):
        errors.append(
            invalid(
                Path("metadata.annotations") / CLASS_ANNOTATION, given.get(CLASS_ANNOTATION, ""), "field is immutable"
            )
        )
    return name is not None and unnamed and annotated in (None, name), errors


def _comparable(obj: Json, old: Json, class_may_change: bool) -> tuple[Json, Json]:
    """Return both specs, the new one without the allowed changes."""
    new, before = copy.deepcopy(obj["spec"]), copy.deepcopy(old["spec"])
    if not before.get("volumeName") and new.get("volumeName"):
        before["volumeName"] = new["volumeName"]
    kept = ["storageClassName"] if class_may_change else []
    if (obj.get("status") or {}).get("phase") == "Bound":
        kept.append("volumeAttributesClassName")
        if (new.get("resources") or {}).get("requests") is not None:
            new["resources"]["requests"][_STORAGE] = ((before.get("resources") or {}).get("requests") or {}).get(
                _STORAGE, "0"
            )
    for field in kept:
        new.pop(field, None)
        if field in before:
            new[field] = before[field]
    return new, before


def validate_claim_update(ctx: Context, obj: Json, old: Json) -> list[FieldError]:
    spec, stored = obj["spec"], old["spec"]
    class_may_change, errors = _storage_class(obj, old, spec)
    new, before = _comparable(obj, old, class_may_change)
    if not semantic_equal(PersistentVolumeClaimSpec, new, before):
        diff = shown_diff(internal(PersistentVolumeClaimSpec, before), internal(PersistentVolumeClaimSpec, new))
        errors.append(forbidden(_SPEC, f"{_IMMUTABLE}\n{diff}"))
    size = _size(spec, "resources", "requests")
    if size < _size(stored, "resources", "requests"):
        at = _SPEC / "resources" / "requests" / _STORAGE
        if not recovers(ctx, old):
            errors.append(forbidden(at, "field can not be less than previous value"))
        elif size.compare(_size(old.get("status"), "capacity")) <= 0:
            errors.append(forbidden(at, "field can not be less than status.capacity"))
    errors += _CHANGES.errors(Path(), spec, stored)
    return errors + _attributes_class(ctx, spec.get("volumeAttributesClassName"), old)


def _attributes_class(ctx: Context, name: str | None, old: Json) -> list[FieldError]:
    """Validate a change of the attributes class. A class that was applied cannot be removed."""
    if name == old["spec"].get("volumeAttributesClassName"):
        return []
    errors: list[FieldError] = []
    if not ctx.features.enabled("VolumeAttributesClass"):
        errors.append(forbidden(_CLASS, "update is forbidden when the VolumeAttributesClass feature gate is disabled"))
    if not name and (old.get("status") or {}).get("currentVolumeAttributesClassName") is not None:
        to = "nil" if name is None else "empty string"
        errors.append(
            forbidden(_CLASS, f"update to {to} is forbidden when status.currentVolumeAttributesClassName is not nil")
        )
    return errors


def _resource_key(path: Path, name: str) -> list[FieldError]:
    if texts := label_key(name):
        return [invalid(path, name, text) for text in texts]
    return [not_supported(path, name, [_STORAGE])] if is_native(name) and name != _STORAGE else []


def validate_claim_status(obj: Json, recovering: bool) -> list[FieldError]:
    status = obj.get("status") or {}
    errors = [] if obj["spec"].get("accessModes") else [required(Path("Spec.accessModes"))]
    for name, amount in (status.get("capacity") or {}).items():
        errors += whole((_STATUS / "capacity").key(name), Quantity.parse(amount))
    if not recovering:
        return errors
    for name, state in (status.get("allocatedResourceStatuses") or {}).items():
        at = _STATUS / "allocatedResourceStatuses"
        errors += _resource_key(at, name)
        if state not in _RESIZES:
            errors.append(not_supported(at, Named(name), _RESIZES))
    for name, text in (status.get("allocatedResources") or {}).items():
        amount, at = Quantity.parse(text), _STATUS / "allocatedResources"
        errors += _resource_key(at, name) or whole(at.key(name), amount) or nonnegative(at.key(name), amount)
    return errors
