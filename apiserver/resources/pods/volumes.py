"""Volumes of a pod (pkg/apis/core/validation, ValidateVolumes)."""

from __future__ import annotations

from typing import Any, Final

from apiserver.api.fielderrors import FieldError, Named, Path, duplicate, forbidden, invalid, not_supported, required
from apiserver.api.names import dns_label, dns_subdomain
from apiserver.api.quantity import Quantity
from apiserver.api.types.meta import ObjectMeta
from apiserver.api.validation.formats import driver_name
from apiserver.resources.metadata import validate_annotations, validate_labels
from apiserver.resources.pods.environment import (
    VOLUME_FIELDS,
    no_backsteps,
    validate_field_reference,
    validate_resource_field,
)
from apiserver.resources.volumes.claimspec import validate_claim_spec
from apiserver.resources.volumes.sources import OWN_PATHS, SECOND_PATHS, SHARED, Check, long_portal, needs, pod_iscsi

__all__ = ["validate_volumes"]

Json = dict[str, Any]

_MODE: Final = "must be a number between 0 and 0777 (octal), both inclusive"
_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_LEAST_TOKEN_SECONDS: Final = 600
_MOST_TOKEN_SECONDS: Final = 1 << 32


def _mode(path: Path, mode: int | None) -> list[FieldError]:
    return [] if mode is None or 0 <= mode <= 0o777 else [invalid(path, mode, _MODE)]


def _file(path: Path, target: str) -> list[FieldError]:
    """A relative path inside of a volume."""
    errors = [invalid(path, target, "must be a relative path")] if target.startswith("/") else []
    errors += no_backsteps(path, target)
    if target.startswith("..") and not target.startswith("../"):
        errors.append(invalid(path, target, "must not start with '..'"))
    return errors


def _items(path: Path, items: list[Json] | None) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, item in enumerate(items or ()):
        at = path[index]
        errors += [required(at / field) for field in ("key", "path") if not item.get(field)]
        errors += _file(at / "path", item.get("path", "")) + _mode(at / "mode", item.get("mode"))
    return errors


def _named_files(name: str) -> Check:
    def check(path: Path, source: Json) -> list[FieldError]:
        errors = [] if source.get(name) else [required(path / name)]
        return (
            errors
            + _mode(path / "defaultMode", source.get("defaultMode"))
            + _items(path / "items", source.get("items"))
        )

    return check


def _empty_dir(path: Path, source: Json) -> list[FieldError]:
    if source.get("sizeLimit") is not None and Quantity.parse(source["sizeLimit"]).sign < 0:
        return [forbidden(path / "sizeLimit", "SizeLimit field must be a valid resource quantity")]
    return []


def _downward_file(path: Path, item: Json) -> list[FieldError]:
    errors = [] if item.get("path") else [required(path / "path")]
    errors += _file(path / "path", item.get("path", ""))
    if item.get("fieldRef") is not None:
        errors += validate_field_reference(path / "fieldRef", item["fieldRef"], VOLUME_FIELDS)
        if item.get("resourceFieldRef") is not None:
            errors.append(
                invalid(path, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
            )
    elif item.get("resourceFieldRef") is not None:
        errors += validate_resource_field(path / "resourceFieldRef", item["resourceFieldRef"], volume=True)
    else:
        errors.append(required(path, "one of fieldRef and resourceFieldRef is required"))
    return errors + _mode(path / "mode", item.get("mode"))


def _downward(path: Path, source: Json) -> list[FieldError]:
    errors = _mode(path / "defaultMode", source.get("defaultMode"))
    for item in source.get("items") or ():
        errors += _downward_file(path, item)
    return errors


def _projected(path: Path, source: Json) -> list[FieldError]:
    errors = _mode(path / "defaultMode", source.get("defaultMode"))
    files: set[str] = set()

    def unique(file: str, shown: str) -> None:
        if file and file in files:
            errors.append(invalid(path, shown, "conflicting duplicate paths"))
        files.add(file)

    for index, projection in enumerate(source.get("sources") or ()):
        at = (path / "sources")[index]
        for kind in ("secret", "configMap"):
            part = projection.get(kind)
            if part is not None:
                errors += [] if part.get("name") else [required(at / kind / "name")]
                errors += _items(at / kind / "items", part.get("items"))
                for item in part.get("items") or ():
                    unique(item.get("path", ""), part.get("name", ""))
        for item in (projection.get("downwardAPI") or {}).get("items") or ():
            errors += _downward_file(at / "downwardAPI", item)
            unique(item.get("path", ""), item.get("path", ""))
        if projection.get("serviceAccountToken") is not None:
            errors += _token(at / "serviceAccountToken", projection["serviceAccountToken"], path / "path")
            unique(projection["serviceAccountToken"].get("path", ""), projection["serviceAccountToken"].get("path", ""))
        if sum(value is not None for value in projection.values()) > 1:
            errors.append(forbidden(at, "may not specify more than 1 volume type per source"))
    return errors


def _token(path: Path, token: Json, unnamed: Path) -> list[FieldError]:
    """`unnamed` is where upstream misses a token's file: at the volume."""
    seconds = token.get("expirationSeconds", 0)
    errors: list[FieldError] = []
    if seconds < _LEAST_TOKEN_SECONDS:
        errors.append(invalid(path / "expirationSeconds", seconds, "may not specify a duration less than 10 minutes"))
    if seconds > _MOST_TOKEN_SECONDS:
        errors.append(
            invalid(path / "expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds")
        )
    if not token.get("path"):
        return [*errors, required(unnamed)]
    return errors + _file(path / "path", token["path"])


def _storage_interface(path: Path, source: Json) -> list[FieldError]:
    errors = driver_name(path / "driver", source.get("driver", ""))
    secret = source.get("nodePublishSecretRef")
    if secret is not None:
        name = secret.get("name", "")
        errors += (
            [invalid(path / "name", name, text) for text in dns_subdomain(name)]
            if name
            else [required(path / "nodePublishSecretRef" / "name")]
        )
    return errors


def _image(path: Path, source: Json) -> list[FieldError]:
    errors = [] if source.get("reference") else [required(path / "reference")]
    policy = source.get("pullPolicy", "")
    return (
        errors
        if policy in _PULL_POLICIES
        else [*errors, not_supported(path / "pullPolicy", Named(policy), _PULL_POLICIES)]
    )


def _ephemeral(path: Path, source: Json) -> list[FieldError]:
    at = path / "volumeClaimTemplate"
    template = source.get("volumeClaimTemplate")
    if template is None:
        return [required(at)]
    metadata = template.get("metadata") or {}
    errors = validate_annotations(metadata.get("annotations") or {}, at / "metadata" / "annotations")
    errors += validate_labels(metadata.get("labels") or {}, at / "metadata" / "labels")
    others = [name for name in ObjectMeta.fields if metadata.get(name) and name not in ("annotations", "labels")]
    errors += [forbidden(at / "metadata" / name, "cannot be set") for name in others]
    return errors + validate_claim_spec(at / "spec", template.get("spec") or {})


def _git_repository(path: Path, source: Json) -> list[FieldError]:
    errors, directory = needs("repository")(path, source), source.get("directory", "")
    if directory.startswith("/"):
        errors.append(invalid(path / "directory", directory, "must be a relative path"))
    return errors + no_backsteps(path / "directory", directory)


def _secret_named(path: Path, source: Json) -> list[FieldError]:
    errors = needs("volumeID")(path, source)
    secret = source.get("secretRef")
    return errors if secret is None or secret.get("name") else [*errors, required(path / "secretRef" / "name")]


def _storage_os(path: Path, source: Json) -> list[FieldError]:
    name, namespace, secret = source.get("volumeName", ""), source.get("volumeNamespace", ""), source.get("secretRef")
    errors = (
        [invalid(path / "volumeName", name, text) for text in dns_label(name)]
        if name
        else [required(path / "volumeName")]
    )
    if namespace:
        errors += [invalid(path / "volumeNamespace", namespace, text) for text in dns_label(namespace)]
    return errors if secret is None or secret.get("name") else [*errors, required(path / "secretRef" / "name")]


#: Sources that only pods have, or that are looked at in another way there.
_OWN: Final[dict[str, Check]] = {
    "emptyDir": _empty_dir,
    "gitRepo": _git_repository,
    "secret": _named_files("secretName"),
    "iscsi": pod_iscsi,
    "persistentVolumeClaim": needs("claimName"),
    "cinder": _secret_named,
    "downwardAPI": _downward,
    "configMap": _named_files("name"),
    "storageos": _storage_os,
    "projected": _projected,
    "csi": _storage_interface,
    "ephemeral": _ephemeral,
    "image": _image,
}
#: In upstream's order, which decides what the second source of a volume is told.
_SOURCES: Final = {
    name: _OWN.get(name) or SHARED[name]
    for name in (
        "emptyDir",
        "hostPath",
        "gitRepo",
        "gcePersistentDisk",
        "awsElasticBlockStore",
        "secret",
        "nfs",
        "iscsi",
        "glusterfs",
        "flocker",
        "persistentVolumeClaim",
        "rbd",
        "cinder",
        "cephfs",
        "quobyte",
        "downwardAPI",
        "fc",
        "flexVolume",
        "configMap",
        "azureFile",
        "vsphereVolume",
        "photonPersistentDisk",
        "portworxVolume",
        "azureDisk",
        "storageos",
        "projected",
        "scaleIO",
        "csi",
        "ephemeral",
        "image",
    )
}


def _source(path: Path, volume: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    chosen = 0
    for name, check in _SOURCES.items():
        source = volume.get(name)
        if source is None:
            continue
        chosen += 1
        if chosen > 1:
            errors.append(forbidden(path / SECOND_PATHS.get(name, name), "may not specify more than 1 volume type"))
            continue
        errors += check(path / OWN_PATHS.get(name, name), source)
        if name == "iscsi":
            errors += long_portal(path / "name", volume.get("name", ""), source, volume.get("name", ""))
    return errors if chosen else [required(path, "must specify a volume type")]


def validate_volumes(path: Path, volumes: list[Json], pod_name: str) -> tuple[dict[str, Json], list[FieldError]]:
    """The valid volumes by name, for the mounts to refer to, and the errors of the others."""
    errors: list[FieldError] = []
    valid: dict[str, Json] = {}
    generated = (
        {f"{pod_name}-{volume.get('name', '')}" for volume in volumes if volume.get("ephemeral") is not None}
        if pod_name
        else set()
    )
    for index, volume in enumerate(volumes):
        at = path[index]
        name = volume.get("name", "")
        found = _source(at, volume)
        found += [invalid(at / "name", name, text) for text in dns_label(name)] if name else [required(at / "name")]
        if name in valid:
            found.append(duplicate(at / "name", name))
        if found:
            errors += found
        else:
            valid[name] = volume
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName", "")
        if claim in generated:
            detail = "must not reference a PVC that gets created for an ephemeral volume"
            errors.append(invalid(at / "persistentVolumeClaim" / "claimName", claim, detail))
    return valid, errors
