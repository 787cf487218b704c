"""Validate environment variables, and the pod fields that variables and volumes can refer to."""

from __future__ import annotations

from typing import Any, Final

from apiserver.api.errors.field_errors import FieldError, Path, invalid, not_found, not_supported, required
from apiserver.api.objects import Json
from apiserver.api.types.core.containers import EnvFromSource, EnvVar, EnvVarSource
from apiserver.api.types.core.references import FileKeySelector, ObjectFieldSelector, ResourceFieldSelector
from apiserver.api.validation.compile import At
from apiserver.api.validation.formats import FORMATS
from apiserver.api.values.quantity import Quantity
from apiserver.resources.common.core_rules import RULES

__all__ = ["VOLUME_FIELDS", "env_from", "validate_file_volumes"]


ENV_FIELDS: Final = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
VOLUME_FIELDS: Final = (
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
)
#: All valid field paths. Variables and volumes each support some of them.
_CONVERTIBLE: Final = frozenset(
    {*ENV_FIELDS, *VOLUME_FIELDS, "spec.restartPolicy", "spec.schedulerName", "status.phase"}
)
_RESOURCES: Final = (
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
)
_HUGE: Final = ("requests.hugepages-", "limits.hugepages-")
_SOURCES: Final = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
#: The `env` of a source's rules: the supported pod fields, and whether a container name is required.
_WHAT_ENV_SHOWS: Final[dict[str, Any]] = {"fieldRef": ENV_FIELDS, "resourceFieldRef": False}
_NONE: Final = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
_BYTES: Final = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")
_UNIT_OF: Final = {
    "cpu": "cpu",
    "memory": "memory",
    "ephemeral-storage": "local ephemeral storage",
    "hugepages": "hugepages",
}


def _value_from(at: At) -> list[FieldError]:
    """Validate a variable's source: exactly one, and no value beside it."""
    source = at.value["valueFrom"]
    here = RULES.of(EnvVarSource).at(at.path / "valueFrom", source)
    chosen = [name for name in _SOURCES if source.get(name) is not None]
    errors = [error for name in chosen for error in here.field(name, _WHAT_ENV_SHOWS.get(name))]
    if not chosen:
        errors.append(invalid(here.path, "", _NONE))
    elif at.value.get("value"):
        errors.append(invalid(here.path, "", "may not be specified when `value` is not empty"))
    elif len(chosen) > 1:
        errors.append(invalid(here.path, "", "may not have more than one field specified at a time"))
    return errors


def validate_file_volumes(root: Path, spec: Json) -> list[FieldError]:
    """Require that files with variables are in the pod's emptyDir volumes."""
    volumes = {volume.get("name", ""): volume for volume in spec.get("volumes") or ()}
    errors: list[FieldError] = []
    for field in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(field) or ()):
            for place, variable in enumerate(container.get("env") or ()):
                reference = (variable.get("valueFrom") or {}).get("fileKeyRef")
                if reference is None:
                    continue
                name = reference.get("volumeName", "")
                at = ((root / field)[index] / "env")[place] / "valueFrom" / "fileKeyRef" / "volumeName"
                if name not in volumes:
                    errors.append(not_found(at, name))
                elif volumes[name].get("emptyDir") is None:
                    errors.append(invalid(at, name, "referenced volume must be of type emptyDir"))
    return errors


def _field_reference(at: At) -> list[FieldError]:
    """Validate a reference to a pod field, or to an annotation or label by subscript.

    `env` are the supported fields.
    """
    if missing := at.field("apiVersion") or at.field("fieldPath"):
        return missing
    path, field, version = at.path, at.value["fieldPath"], at.value["apiVersion"]
    base, bracket, rest = field.partition("['")
    subscripted = bool(bracket) and rest.endswith("']")
    known = base in ("metadata.annotations", "metadata.labels") if subscripted else field in _CONVERTIBLE
    if version != "v1" or not known:
        what = f"field label not supported: {field}" if version == "v1" else f"unsupported pod version: {version}"
        if subscripted and not known:
            what = f"field label does not support subscript: {field}"
        return [invalid(path / "fieldPath", field, f"error converting fieldPath: {what}")]
    if subscripted:
        key = rest.removesuffix("']")
        shown = key.lower() if base == "metadata.annotations" else key
        return FORMATS["label-key"].errors(path, shown)
    return [] if field in at.env else [not_supported(path / "fieldPath", field, at.env)]


def _resource_field(at: At) -> list[FieldError]:
    """Validate a reference to a container's requests or limits. `env`: the container's name is required."""
    resource = at.value.get("resource", "")
    if at.env and not at.value.get("containerName"):
        errors = [required(at.path / "containerName")]
    else:
        errors = at.field("resource")
        if resource and resource not in _RESOURCES and not resource.startswith(_HUGE):
            errors.append(not_supported(at.path / "resource", resource, _RESOURCES))
    return errors + _divisor(at.path, resource, at.value.get("divisor", "0"))


def _divisor(path: Path, resource: str, divisor: str) -> list[FieldError]:
    """Validate the unit of a quantity."""
    kind = "hugepages" if resource.startswith(_HUGE) else resource.partition(".")[2]
    if kind not in _UNIT_OF or Quantity.parse(divisor).is_zero:
        return []
    if kind == "cpu":
        known: tuple[str, ...] = ("1m", "1")
        listed = "1m and 1"
    else:
        known, listed = _BYTES, ", ".join(_BYTES)
    if divisor in known:
        return []
    return [
        invalid(
            path / "divisor",
            resource,
            f"only divisor's values {listed} are supported with the {_UNIT_OF[kind]} resource",
        )
    ]


def env_from(path: Path, sources: list[Json]) -> list[FieldError]:
    """Validate sources of many variables.

    A missing source is reported at the path of the list, as upstream's is.
    """
    errors: list[FieldError] = []
    for index, source in enumerate(sources):
        errors += RULES.of(EnvFromSource).errors(path[index], source)
        chosen = [name for name in ("configMapRef", "secretRef") if source.get(name) is not None]
        if not chosen:
            errors.append(invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif len(chosen) > 1:
            errors.append(invalid(path, "", "may not have more than one field specified at a time"))
    return errors


RULES.set(EnvVarSource, by_rules=_SOURCES)
RULES.set(EnvVar, "name", ("valueFrom", _value_from))
RULES.set(ObjectFieldSelector, _field_reference, by_rules=("apiVersion", "fieldPath"))
RULES.set(ResourceFieldSelector, _resource_field, by_rules=("resource",))
RULES.set(FileKeySelector, "key", "volumeName", "path")
