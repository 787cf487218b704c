"""Validate the spec of a persistent volume, also inside an attachment.

Facts: pkg/apis/core/validation, ValidatePersistentVolumeSpec.
"""

from __future__ import annotations

import posixpath
from typing import Final

from apiserver.api.errors.field_errors import FieldError, Path, forbidden, invalid, not_supported, required
from apiserver.api.objects import Json
from apiserver.api.types.core.persistentvolumes import PersistentVolumeSpec
from apiserver.api.types.core.persistentvolumesources import PersistentVolumeSource
from apiserver.api.types.core.volumes import PersistentVolumeAccessMode
from apiserver.api.validation.compile import At
from apiserver.api.values.quantity import Quantity
from apiserver.resources.common.core_rules import RULES
from apiserver.resources.common.node_selectors import validate_node_selector
from apiserver.resources.common.volume_sources import SECOND_PATHS, source_errors

__all__ = ["access_modes", "positive", "validate_spec", "whole"]


_STORAGE: Final = "storage"
_INLINE: Final = "may not be specified in the context of inline volumes"
#: Sources in upstream's order, which decides the error for a volume's second source.
_ORDER: Final = (
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
)
_MORE_THAN_ONE: Final = "may not specify more than 1 volume type"


def access_modes(at: At) -> list[FieldError]:
    """Validate the access modes of a claim or volume. ReadWriteOncePod excludes the others."""
    modes, known = at.value.get("accessModes") or (), PersistentVolumeAccessMode.enum
    errors = at.field("accessModes")
    if "ReadWriteOncePod" in modes and any(mode in known and mode != "ReadWriteOncePod" for mode in modes):
        detail = "may not use ReadWriteOncePod with other access modes"
        errors.append(forbidden(at.path / "accessModes", detail))
    return errors


def positive(path: Path, amount: Quantity) -> list[FieldError]:
    return [] if amount.sign > 0 else [invalid(path, str(amount), "must be greater than zero")]


def whole(path: Path, amount: Quantity) -> list[FieldError]:
    """Reject a negative quantity. The error shows the number rounded up."""
    return [invalid(path, amount.value(), "must be a valid resource quantity")] if amount.value() < 0 else []


def _capacity(path: Path, given: Json | None) -> list[FieldError]:
    capacity = given or {}
    errors = [] if capacity else [required(path)]
    if _STORAGE not in capacity or len(capacity) > 1:
        shown = None if given is None else dict(sorted(capacity.items()))
        errors.append(not_supported(path, shown, [_STORAGE]))
    for name, text in capacity.items():
        amount = Quantity.parse(text)
        errors += whole(path.key(name), amount) + positive(path.key(name), amount)
    return errors


def _inline(path: Path, spec: Json) -> list[FieldError]:
    errors = [] if spec.get("claimRef") is None else [forbidden(path / "claimRef", _INLINE)]
    if spec.get("capacity"):
        errors.append(forbidden(path / "capacity", _INLINE))
    if spec.get("csi") is None:
        errors.append(required(path / "csi", "has to be specified in the context of inline volumes"))
    return errors


def _reclaim_policy(at: At, inline: bool) -> list[FieldError]:
    if not inline:
        return at.field("persistentVolumeReclaimPolicy")
    if at.value.get("persistentVolumeReclaimPolicy", "") in ("", "Retain"):
        return []
    return [forbidden(at.path / "persistentVolumeReclaimPolicy", "may only be Retain in the context of inline volumes")]


def _node_affinity(at: At, inline: bool, label_values: bool) -> list[FieldError]:
    affinity = at.value.get("nodeAffinity")
    if affinity is None:
        return []
    if inline:
        return [forbidden(at.path / "nodeAffinity", _INLINE)]
    if affinity.get("required") is None:
        return at.field("nodeAffinity")
    return validate_node_selector(at.path / "nodeAffinity" / "required", affinity["required"], label_values)


def _sources(path: Path, spec: Json, name: str, inline: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    chosen = 0
    for field in _ORDER:
        source = spec.get(field)
        if source is None:
            continue
        # A flexVolume is counted but never rejected as the second source.
        if chosen and field != "flexVolume":
            errors.append(forbidden(path / SECOND_PATHS.get(field, field), _MORE_THAN_ONE))
            continue
        chosen += 1
        errors += source_errors(PersistentVolumeSource, field, path, source, name)
        if field == "local" and (inline or spec.get("nodeAffinity") is None):
            errors.append(required(path / "nodeAffinity", "Local volume requires node affinity"))
    if not chosen:
        errors.append(required(path, "must specify a volume type"))
    recycled = spec.get("hostPath") is not None and spec.get("persistentVolumeReclaimPolicy") == "Recycle"
    if recycled and posixpath.normpath(spec["hostPath"].get("path", "") or ".") in ("/", "//"):
        errors.append(
            forbidden(path / "persistentVolumeReclaimPolicy", "may not be 'recycle' for a hostPath mount of '/'")
        )
    return errors


def _classes(at: At, inline: bool, attributes_class: bool) -> list[FieldError]:
    spec, path = at.value, at.path
    if not inline:
        errors = at.fields("storageClassName", "volumeMode")
    else:
        errors = [forbidden(path / "storageClassName", _INLINE)] if spec.get("storageClassName") else []
        if spec.get("volumeMode") not in (None, "Filesystem"):
            detail = "may not specify volumeMode other than Filesystem in the context of inline volumes"
            errors.append(forbidden(path / "volumeMode", detail))
    if spec.get("volumeAttributesClassName") is not None and attributes_class:
        errors += at.field("volumeAttributesClassName")
        if spec.get("csi") is None:
            errors.append(required(path / "csi", "has to be specified when using volumeAttributesClassName"))
    return errors


def validate_spec(
    path: Path,
    spec: Json,
    name: str = "",
    *,
    inline: bool = False,
    label_values: bool = True,
    attributes_class: bool = False,
) -> list[FieldError]:
    """Validate the spec of the volume `name`.

    `inline`: the spec is part of a VolumeAttachment. `label_values` is off if the stored volume selects nodes by
    invalid labels. `attributes_class`: the field of that name is validated.
    """
    at = RULES.of(PersistentVolumeSpec).at(path, spec)
    errors = (_inline(path, spec) if inline else []) + access_modes(at)
    if not inline:
        errors += _capacity(path / "capacity", spec.get("capacity"))
    errors += _reclaim_policy(at, inline) + _node_affinity(at, inline, label_values)
    return errors + _sources(path, spec, name, inline) + _classes(at, inline, attributes_class)


RULES.set(PersistentVolumeSpec, by_rules=tuple(PersistentVolumeSpec.fields))
