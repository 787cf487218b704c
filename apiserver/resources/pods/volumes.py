"""Validate volumes of a pod (pkg/apis/core/validation, ValidateVolumes)."""

from __future__ import annotations

from typing import Final

from apiserver.api.errors.field_errors import FieldError, Path, duplicate, forbidden, invalid, required
from apiserver.api.objects import Json
from apiserver.api.types.core.volumes import (
    ConfigMapVolumeSource,
    CSIVolumeSource,
    DownwardAPIVolumeFile,
    DownwardAPIVolumeSource,
    EmptyDirVolumeSource,
    EphemeralVolumeSource,
    ProjectedVolumeSource,
    SecretVolumeSource,
    ServiceAccountTokenProjection,
    Volume,
    VolumeProjection,
    VolumeSource,
)
from apiserver.api.types.meta import ObjectMeta
from apiserver.api.validation.compile import At
from apiserver.api.validation.formats import FORMATS
from apiserver.api.values.quantity import Quantity
from apiserver.resources.common.core_rules import RULES
from apiserver.resources.common.template_metadata import validate_annotations, validate_labels
from apiserver.resources.common.volume_claim_spec import validate_claim_spec
from apiserver.resources.common.volume_sources import SECOND_PATHS, long_portal, source_errors
from apiserver.resources.pods.environment import VOLUME_FIELDS

__all__ = ["validate_volumes"]


def _empty_dir(at: At) -> list[FieldError]:
    limit = at.value.get("sizeLimit")
    if limit is None or Quantity.parse(limit).sign >= 0:
        return []
    return [forbidden(at.path / "sizeLimit", "SizeLimit field must be a valid resource quantity")]


def _shown_in_file(at: At) -> list[FieldError]:
    """Validate the source of a file: a pod field, or a container's resources."""
    path, field, resource = at.path, at.value.get("fieldRef"), at.value.get("resourceFieldRef")
    if field is None:
        if resource is None:
            return [required(path, "one of fieldRef and resourceFieldRef is required")]
        return at.field("resourceFieldRef", True)
    errors = at.field("fieldRef", VOLUME_FIELDS)
    if resource is not None:
        errors.append(invalid(path, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously"))
    return errors


def _downward_files(at: At) -> list[FieldError]:
    """Validate the files. The path of all errors is the volume, as upstream's is."""
    checks = RULES.of(DownwardAPIVolumeFile)
    return [error for item in at.value.get("items") or () for error in checks.errors(at.path, item)]


def _projected(at: At) -> list[FieldError]:
    """Validate files from several sources, whose paths must not collide."""
    errors = at.field("defaultMode")
    files: set[str] = set()

    def unique(file: str, shown: str) -> None:
        if file and file in files:
            errors.append(invalid(at.path, shown, "conflicting duplicate paths"))
        files.add(file)

    for index, projection in enumerate(at.value.get("sources") or ()):
        here = RULES.of(VolumeProjection).at((at.path / "sources")[index], projection)
        for kind in ("secret", "configMap"):
            part = projection.get(kind)
            if part is not None:
                errors += here.field(kind)
                for item in part.get("items") or ():
                    unique(item.get("path", ""), part.get("name", ""))
        downward = projection.get("downwardAPI")
        for item in (downward or {}).get("items") or ():
            errors += RULES.of(DownwardAPIVolumeFile).errors(here.path / "downwardAPI", item)
            unique(item.get("path", ""), item.get("path", ""))
        token = projection.get("serviceAccountToken")
        if token is not None:
            errors += here.field("serviceAccountToken", at.path / "path")
            unique(token.get("path", ""), token.get("path", ""))
        if sum(value is not None for value in projection.values()) > 1:
            errors.append(forbidden(here.path, "may not specify more than 1 volume type per source"))
    return errors


def _token_file(at: At) -> list[FieldError]:
    """Validate a token's file. `env` is the path of upstream's errors: the volume."""
    path = at.value.get("path", "")
    return FORMATS["file-path"].errors(at.env, path) if path else [required(at.env)]


def _secret_of_driver(at: At) -> list[FieldError]:
    """Validate the secret of a driver. The path of an invalid name is the source, as upstream's is."""
    secret = at.value.get("nodePublishSecretRef")
    if secret is None:
        return []
    name = secret.get("name", "")
    if not name:
        return [required(at.path / "nodePublishSecretRef" / "name")]
    return FORMATS["subdomain"].errors(at.path / "name", name)


def _claim_template(at: At) -> list[FieldError]:
    """Validate a generated claim. Only labels and annotations of its metadata can be set."""
    template, path = at.value.get("volumeClaimTemplate"), at.path / "volumeClaimTemplate"
    if template is None:
        return at.field("volumeClaimTemplate")
    metadata = template.get("metadata") or {}
    errors = validate_annotations(metadata.get("annotations") or {}, path / "metadata" / "annotations")
    errors += validate_labels(metadata.get("labels") or {}, path / "metadata" / "labels")
    others = [name for name in ObjectMeta.fields if metadata.get(name) and name not in ("annotations", "labels")]
    errors += [forbidden(path / "metadata" / name, "cannot be set") for name in others]
    return errors + validate_claim_spec(path / "spec", template.get("spec") or {})


RULES.set(EmptyDirVolumeSource, _empty_dir)
RULES.set(SecretVolumeSource, "secretName", "defaultMode", "items")
RULES.set(ConfigMapVolumeSource, "name", "defaultMode", "items")
RULES.set(DownwardAPIVolumeFile, "path", _shown_in_file, "mode", by_rules=("fieldRef", "resourceFieldRef"))
RULES.set(DownwardAPIVolumeSource, "defaultMode", _downward_files, by_rules=("items",))
#: The content of trust bundle and pod certificate sources is not validated.
RULES.set(
    VolumeProjection, by_rules=("secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle")
)
RULES.set(ServiceAccountTokenProjection, "expirationSeconds", _token_file, by_rules=("path",))
RULES.set(ProjectedVolumeSource, _projected, by_rules=("sources", "defaultMode"))
RULES.set(CSIVolumeSource, "driver", _secret_of_driver)
RULES.set(EphemeralVolumeSource, _claim_template, by_rules=("volumeClaimTemplate",))
#: In upstream's order, which decides the error for a volume's second source.
_SOURCES: Final = (
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


def _source(path: Path, volume: Json, *, in_pod: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    chosen = 0
    for name in _SOURCES:
        source = volume.get(name)
        if source is None:
            continue
        chosen += 1
        if chosen > 1:
            errors.append(forbidden(path / SECOND_PATHS.get(name, name), "may not specify more than 1 volume type"))
            continue
        if name == "image" and in_pod and not source.get("reference"):
            errors.append(required(path / "image" / "reference"))
        errors += source_errors(Volume, name, path, source)
        if name == "iscsi":
            errors += long_portal(path / "name", volume.get("name", ""), source, volume.get("name", ""))
    return errors if chosen else [required(path, "must specify a volume type")]


def validate_volumes(
    path: Path, volumes: list[Json], pod_name: str, *, in_pod: bool
) -> tuple[dict[str, Json], list[FieldError]]:
    """Return the valid volumes by name, for the mounts, and the errors of the others.

    `in_pod` is false for the volumes of a template.
    """
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
        found = _source(at, volume, in_pod=in_pod)
        found += RULES.of(Volume).at(at, volume).field("name")
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


RULES.set(Volume, by_rules=("name", *VolumeSource.fields))
