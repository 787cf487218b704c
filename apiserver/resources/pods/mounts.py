"""Validate volume mounts and block devices of a container."""

from __future__ import annotations

from apiserver.api.errors.field_errors import FieldError, Path, forbidden, invalid, not_found
from apiserver.api.objects import Json
from apiserver.api.types.core.containers import VolumeDevice, VolumeMount
from apiserver.api.validation.compile import At
from apiserver.resources.common.core_rules import RULES

__all__ = ["validate_devices", "validate_mounts"]


def validate_mounts(path: Path, container: Json, volumes: dict[str, Json]) -> list[FieldError]:
    """Validate the mounts: each refers to a volume of the pod and has a unique path."""
    devices = container.get("volumeDevices") or []
    device_names, device_paths = {d.get("name", "") for d in devices}, {d.get("devicePath", "") for d in devices}
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, mount in enumerate(container["volumeMounts"]):
        at = RULES.of(VolumeMount).at(path[index], mount)
        name, target = mount.get("name", ""), mount.get("mountPath", "")
        errors += at.field("name")
        if name not in volumes:
            errors.append(not_found(at.path / "name", name))
        errors += at.field("mountPath")
        if target in seen:
            errors.append(invalid(at.path / "mountPath", target, "must be unique"))
        seen.add(target)
        if name in device_names:
            errors.append(invalid(at.path / "name", name, "must not already exist in volumeDevices"))
        if target in device_paths:
            errors.append(invalid(at.path / "mountPath", target, "must not already exist as a path in volumeDevices"))
        errors += _options(at, RULES.of(VolumeMount).at(path, mount), container)
    return errors


def _options(at: At, listed: At, container: Json) -> list[FieldError]:
    """Validate sub paths and propagation. The path of their errors is the list (`listed`), as upstream's is."""
    mount, path, errors = at.value, listed.path, listed.field("subPath")
    if mount.get("subPathExpr"):
        if mount.get("subPath"):
            detail = "subPathExpr and subPath are mutually exclusive"
            errors.append(invalid(at.path / "subPathExpr", mount["subPathExpr"], detail))
        errors += listed.field("subPathExpr")
    errors += listed.field("mountPropagation")
    propagation = mount.get("mountPropagation")
    if propagation == "Bidirectional" and not (container.get("securityContext") or {}).get("privileged"):
        detail = "Bidirectional mount propagation is available only to privileged containers"
        errors.append(forbidden(path / "mountPropagation", detail))
    errors += listed.field("recursiveReadOnly")
    if mount.get("recursiveReadOnly") in ("Enabled", "IfPossible"):
        if not mount.get("readOnly"):
            errors.append(forbidden(path / "recursiveReadOnly", "may only be specified when readOnly is true"))
        if propagation not in (None, "None"):
            detail = "may only be specified when mountPropagation is None or not specified"
            errors.append(forbidden(path / "recursiveReadOnly", detail))
    return errors


def validate_devices(path: Path, container: Json, volumes: dict[str, Json]) -> list[FieldError]:
    """Validate the block devices: each refers to a claim of the pod and has a unique path."""
    mounts = container.get("volumeMounts") or []
    mount_names, mount_paths = {m.get("name", "") for m in mounts}, {m.get("mountPath", "") for m in mounts}
    errors: list[FieldError] = []
    names: set[str] = set()
    paths: set[str] = set()
    for index, device in enumerate(container["volumeDevices"]):
        here, at = RULES.of(VolumeDevice).at(path[index], device), path[index]
        name, target = device.get("name", ""), device.get("devicePath", "")
        errors += here.field("name")
        if name in names:
            errors.append(invalid(at / "name", name, "must be unique"))
        volume = volumes.get(name)
        if volume is None:
            errors.append(not_found(at / "name", name))
        elif "persistentVolumeClaim" not in volume and "ephemeral" not in volume:
            detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            errors.append(invalid(at / "name", name, detail))
        errors += here.field("devicePath")
        if target in paths:
            errors.append(invalid(at / "devicePath", target, "must be unique"))
        if target and ".." in target.split("/"):
            errors.append(invalid(at / "devicePath", target, "can not contain backsteps ('..')"))
        if name in mount_names:
            errors.append(invalid(at / "name", name, "must not already exist in volumeMounts"))
        if target in mount_paths:
            errors.append(invalid(at / "devicePath", target, "must not already exist as a path in volumeMounts"))
        names.add(name)
        paths.add(target)
    return errors


RULES.set(
    VolumeMount, by_rules=("name", "mountPath", "subPath", "subPathExpr", "mountPropagation", "recursiveReadOnly")
)
RULES.set(VolumeDevice, by_rules=("name", "devicePath"))
