"""Volume mounts and block devices of a container."""

from __future__ import annotations

from typing import Any, Final

from apiserver.api.fielderrors import FieldError, Named, Path, forbidden, invalid, not_found, not_supported, required
from apiserver.resources.pods.environment import no_backsteps

__all__ = ["descending", "validate_devices", "validate_mounts"]

Json = dict[str, Any]

_PROPAGATION: Final = ("Bidirectional", "HostToContainer", "None")
_RECURSIVE: Final = ("Disabled", "Enabled", "IfPossible")


def descending(path: Path, target: str) -> list[FieldError]:
    errors = [invalid(path, target, "must be a relative path")] if target.startswith("/") else []
    return errors + no_backsteps(path, target)


def validate_mounts(path: Path, container: Json, volumes: dict[str, Json]) -> list[FieldError]:
    devices = container.get("volumeDevices") or []
    device_names, device_paths = {d.get("name", "") for d in devices}, {d.get("devicePath", "") for d in devices}
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, mount in enumerate(container["volumeMounts"]):
        at = path[index]
        name, target = mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            errors.append(required(at / "name"))
        if name not in volumes:
            errors.append(not_found(at / "name", name))
        if not target:
            errors.append(required(at / "mountPath"))
        if target in seen:
            errors.append(invalid(at / "mountPath", target, "must be unique"))
        seen.add(target)
        if name in device_names:
            errors.append(invalid(at / "name", name, "must not already exist in volumeDevices"))
        if target in device_paths:
            errors.append(invalid(at / "mountPath", target, "must not already exist as a path in volumeDevices"))
        errors += _options(path, at, mount, container)
    return errors


def _options(path: Path, at: Path, mount: Json, container: Json) -> list[FieldError]:
    """(Errors of sub paths and propagation stand at the list, as upstream's do.)"""
    errors: list[FieldError] = []
    sub, expression = mount.get("subPath", ""), mount.get("subPathExpr", "")
    if sub:
        errors += descending(path / "subPath", sub)
    if expression:
        if sub:
            errors.append(invalid(at / "subPathExpr", expression, "subPathExpr and subPath are mutually exclusive"))
        errors += descending(path / "subPathExpr", expression)
    propagation = mount.get("mountPropagation")
    if propagation is not None:
        if propagation not in _PROPAGATION:
            errors.append(not_supported(path / "mountPropagation", Named(propagation), _PROPAGATION))
        if propagation == "Bidirectional" and not (container.get("securityContext") or {}).get("privileged"):
            errors.append(
                forbidden(
                    path / "mountPropagation",
                    "Bidirectional mount propagation is available only to privileged containers",
                )
            )
    recursive = mount.get("recursiveReadOnly")
    if recursive in ("Enabled", "IfPossible"):
        if not mount.get("readOnly"):
            errors.append(forbidden(path / "recursiveReadOnly", "may only be specified when readOnly is true"))
        if propagation not in (None, "None"):
            errors.append(
                forbidden(
                    path / "recursiveReadOnly", "may only be specified when mountPropagation is None or not specified"
                )
            )
    elif recursive not in (None, "Disabled"):
        errors.append(not_supported(path / "recursiveReadOnly", Named(recursive), _RECURSIVE))
    return errors


def validate_devices(path: Path, container: Json, volumes: dict[str, Json]) -> list[FieldError]:
    mounts = container.get("volumeMounts") or []
    mount_names, mount_paths = {m.get("name", "") for m in mounts}, {m.get("mountPath", "") for m in mounts}
    errors: list[FieldError] = []
    names: set[str] = set()
    paths: set[str] = set()
    for index, device in enumerate(container["volumeDevices"]):
        at = path[index]
        name, target = device.get("name", ""), device.get("devicePath", "")
        if not name:
            errors.append(required(at / "name"))
        if name in names:
            errors.append(invalid(at / "name", name, "must be unique"))
        volume = volumes.get(name)
        if volume is None:
            errors.append(not_found(at / "name", name))
        elif "persistentVolumeClaim" not in volume and "ephemeral" not in volume:
            detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            errors.append(invalid(at / "name", name, detail))
        if not target:
            errors.append(required(at / "devicePath"))
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
