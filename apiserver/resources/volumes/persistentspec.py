"""The spec of a persistent volume, also as it stands inside of an attachment (pkg/apis/core/validation,
ValidatePersistentVolumeSpec).
"""

from __future__ import annotations

import posixpath
from typing import Any, Final

from apiserver.api.fielderrors import FieldError, Named, Path, forbidden, invalid, not_supported, required
from apiserver.api.names import dns_subdomain
from apiserver.api.quantity import Quantity
from apiserver.resources.nodeselectors import validate_node_selector
from apiserver.resources.volumes.sources import OWN_PATHS, SECOND_PATHS, persistent_sources

__all__ = ["access_modes", "class_name", "positive", "validate_spec", "volume_mode", "whole"]

Json = dict[str, Any]

_STORAGE: Final = "storage"
_ACCESS_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_RECLAIM_POLICIES: Final = ("Delete", "Recycle", "Retain")
_MODES: Final = ("Block", "Filesystem")
_INLINE: Final = "may not be specified in the context of inline volumes"
_MORE_THAN_ONE: Final = "may not specify more than 1 volume type"


def access_modes(path: Path, modes: list[str]) -> list[FieldError]:
    """Known modes; the one of a single pod stands alone."""
    errors = [not_supported(path, Named(mode), _ACCESS_MODES) for mode in modes if mode not in _ACCESS_MODES]
    if "ReadWriteOncePod" in modes and any(mode in _ACCESS_MODES and mode != "ReadWriteOncePod" for mode in modes):
        errors.append(forbidden(path, "may not use ReadWriteOncePod with other access modes"))
    return errors


def class_name(path: Path, name: str) -> list[FieldError]:
    return [invalid(path, name, text) for text in dns_subdomain(name)]


def volume_mode(path: Path, mode: str | None) -> list[FieldError]:
    return [] if mode is None or mode in _MODES else [not_supported(path, Named(mode), _MODES)]


def positive(path: Path, amount: Quantity) -> list[FieldError]:
    return [] if amount.sign > 0 else [invalid(path, str(amount), "must be greater than zero")]


def whole(path: Path, amount: Quantity) -> list[FieldError]:
    """(The error shows the number, rounded up.)"""
    return [invalid(path, amount.value(), "must be a valid resource quantity")] if amount.value() < 0 else []


def _capacity(path: Path, capacity: Json) -> list[FieldError]:
    errors = [] if capacity else [required(path)]
    if _STORAGE not in capacity or len(capacity) > 1:
        errors.append(not_supported(path, dict(sorted(capacity.items())) or None, [_STORAGE]))
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


def _reclaim_policy(path: Path, policy: str, inline: bool) -> list[FieldError]:
    if inline:
        return (
            [] if policy in ("", "Retain") else [forbidden(path, "may only be Retain in the context of inline volumes")]
        )
    return [] if not policy or policy in _RECLAIM_POLICIES else [not_supported(path, Named(policy), _RECLAIM_POLICIES)]


def _node_affinity(path: Path, affinity: Json | None, inline: bool, label_values: bool) -> list[FieldError]:
    if affinity is None:
        return []
    if inline:
        return [forbidden(path, _INLINE)]
    if affinity.get("required") is None:
        return [required(path / "required", "must specify required node constraints")]
    return validate_node_selector(path / "required", affinity["required"], label_values)


def _sources(path: Path, spec: Json, name: str, inline: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    chosen = 0
    for field, check in persistent_sources(name).items():
        source = spec.get(field)
        if source is None:
            continue
        # A flexVolume is counted but never refused for being the second.
        if chosen and field != "flexVolume":
            errors.append(forbidden(path / SECOND_PATHS.get(field, field), _MORE_THAN_ONE))
            continue
        chosen += 1
        errors += check(path / OWN_PATHS.get(field, field), source)
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


def _classes(path: Path, spec: Json, inline: bool, attributes_class: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    name, mode, attributes = (
        spec.get("storageClassName", ""),
        spec.get("volumeMode"),
        spec.get("volumeAttributesClassName"),
    )
    if name:
        errors += (
            [forbidden(path / "storageClassName", _INLINE)] if inline else class_name(path / "storageClassName", name)
        )
    if inline and mode not in (None, "Filesystem"):
        errors.append(
            forbidden(
                path / "volumeMode", "may not specify volumeMode other than Filesystem in the context of inline volumes"
            )
        )
    elif not inline:
        errors += volume_mode(path / "volumeMode", mode)
    if attributes is not None and attributes_class:
        at = path / "volumeAttributesClassName"
        errors += class_name(at, attributes) if attributes else [required(at, "an empty string is disallowed")]
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
    """`name` is the volume's; `inline` as in a VolumeAttachment. `label_values` off: the stored volume selects nodes by
    invalid labels;
    `attributes_class` on: the field of that name counts."""
    modes = spec.get("accessModes") or []
    errors = _inline(path, spec) if inline else []
    errors += [] if modes else [required(path / "accessModes")]
    errors += access_modes(path / "accessModes", modes)
    if not inline:
        errors += _capacity(path / "capacity", spec.get("capacity") or {})
    errors += _reclaim_policy(
        path / "persistentVolumeReclaimPolicy", spec.get("persistentVolumeReclaimPolicy", ""), inline
    )
    errors += _node_affinity(path / "nodeAffinity", spec.get("nodeAffinity"), inline, label_values)
    return errors + _sources(path, spec, name, inline) + _classes(path, spec, inline, attributes_class)
