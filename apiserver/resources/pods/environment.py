"""Environment variables of a container, and the fields of a pod that they (and volumes) can show."""

from __future__ import annotations

from typing import Any, Final

from apiserver.api.fielderrors import FieldError, Path, invalid, not_found, not_supported, required
from apiserver.api.names import config_map_key, dns_label, dns_subdomain, label_key, object_name, relaxed_env_var_name
from apiserver.api.quantity import Quantity

__all__ = [
    "VOLUME_FIELDS",
    "no_backsteps",
    "validate_env",
    "validate_env_from",
    "validate_field_reference",
    "validate_resource_field",
]

Json = dict[str, Any]

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
#: What a field path may be at all; what one place supports is less.
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
_NONE: Final = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
_BYTES: Final = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")
_UNIT_OF: Final = {
    "cpu": "cpu",
    "memory": "memory",
    "ephemeral-storage": "local ephemeral storage",
    "hugepages": "hugepages",
}


def no_backsteps(path: Path, target: str) -> list[FieldError]:
    return [invalid(path, target, "must not contain '..'")] if ".." in target.split("/") else []


def validate_env(path: Path, variables: list[Json]) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, variable in enumerate(variables):
        at = path[index]
        name = variable.get("name", "")
        errors += (
            [invalid(at / "name", name, text) for text in relaxed_env_var_name(name)]
            if name
            else [required(at / "name")]
        )
        if variable.get("valueFrom") is not None:
            errors += _value_from(at / "valueFrom", variable)
    return errors


def _value_from(path: Path, variable: Json) -> list[FieldError]:
    source = variable["valueFrom"]
    errors: list[FieldError] = []
    chosen = [name for name in _SOURCES if source.get(name) is not None]
    for name in chosen:
        at = path / name
        if name == "fieldRef":
            errors += validate_field_reference(at, source[name], ENV_FIELDS)
        elif name == "resourceFieldRef":
            errors += validate_resource_field(at, source[name], volume=False)
        elif name == "fileKeyRef":
            errors += _file_key(at, source[name])
        else:
            errors += _key(at, source[name])
    if not chosen:
        errors.append(invalid(path, "", _NONE))
    elif variable.get("value"):
        errors.append(invalid(path, "", "may not be specified when `value` is not empty"))
    elif len(chosen) > 1:
        errors.append(invalid(path, "", "may not have more than one field specified at a time"))
    return errors


def _key(path: Path, reference: Json) -> list[FieldError]:
    """A key of a ConfigMap or Secret."""
    name, key = reference.get("name", ""), reference.get("key", "")
    errors = [invalid(path / "name", name, text) for text in dns_subdomain(name)]
    return errors + (
        [invalid(path / "key", key, text) for text in config_map_key(key)] if key else [required(path / "key")]
    )


def _file_key(path: Path, reference: Json) -> list[FieldError]:
    key, volume, file = (reference.get(field, "") for field in ("key", "volumeName", "path"))
    errors = (
        [invalid(path / "key", key, text) for text in relaxed_env_var_name(key)] if key else [required(path / "key")]
    )
    errors += (
        [invalid(path / "volumeName", volume, text) for text in dns_label(volume)]
        if volume
        else [required(path / "volumeName")]
    )
    return errors + (no_backsteps(path / "path", file) if file else [required(path / "path")])


def validate_file_volumes(root: Path, spec: Json) -> list[FieldError]:
    """Files that variables are read from lie in empty volumes of the pod."""
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


def validate_field_reference(path: Path, reference: Json, supported: tuple[str, ...]) -> list[FieldError]:
    """A field of the pod itself, one annotation or label by subscript."""
    field = reference.get("fieldPath", "")
    if not reference.get("apiVersion"):
        return [required(path / "apiVersion")]
    if not field:
        return [required(path / "fieldPath")]
    base, bracket, rest = field.partition("['")
    subscripted = bool(bracket) and rest.endswith("']")
    known = base in ("metadata.annotations", "metadata.labels") if subscripted else field in _CONVERTIBLE
    if reference["apiVersion"] != "v1" or not known:
        what = (
            f"field label not supported: {field}"
            if reference["apiVersion"] == "v1"
            else f"unsupported pod version: {reference['apiVersion']}"
        )
        if subscripted and not known:
            what = f"field label does not support subscript: {field}"
        return [invalid(path / "fieldPath", field, f"error converting fieldPath: {what}")]
    if subscripted:
        key = rest.removesuffix("']")
        shown = key.lower() if base == "metadata.annotations" else key
        return [invalid(path, shown, text) for text in label_key(shown)]
    return [] if field in supported else [not_supported(path / "fieldPath", field, supported)]


def validate_resource_field(path: Path, reference: Json, volume: bool) -> list[FieldError]:
    """Requests or limits of a container."""
    resource = reference.get("resource", "")
    errors: list[FieldError] = []
    if volume and not reference.get("containerName"):
        errors.append(required(path / "containerName"))
    elif not resource:
        errors.append(required(path / "resource"))
    elif resource not in _RESOURCES and not resource.startswith(_HUGE):
        errors.append(not_supported(path / "resource", resource, _RESOURCES))
    return errors + _divisor(path, resource, reference.get("divisor", "0"))


def _divisor(path: Path, resource: str, divisor: str) -> list[FieldError]:
    """The unit in which an amount is shown."""
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


def validate_env_from(path: Path, sources: list[Json]) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, source in enumerate(sources):
        at = path[index]
        prefix = source.get("prefix", "")
        if prefix:
            errors += [invalid(at / "prefix", prefix, text) for text in relaxed_env_var_name(prefix)]
        chosen = [name for name in ("configMapRef", "secretRef") if source.get(name) is not None]
        for field in chosen:
            name = source[field].get("name", "")
            if name:
                errors += [
                    invalid(at / field / "name", name, text) for text in object_name("subdomain", name, prefix=True)
                ]
            else:
                errors.append(required(at / field / "name"))
        if not chosen:
            errors.append(invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif len(chosen) > 1:
            errors.append(invalid(path, "", "may not have more than one field specified at a time"))
    return errors
