"""Validate rules across fields of volume sources, of pods and persistent volumes (pkg/apis/core/validation).

The types define the rules of single fields.
"""

from __future__ import annotations

import re
from typing import Final

from apiserver.api.errors.field_errors import FieldError, Path, invalid, not_supported, required
from apiserver.api.objects import Json
from apiserver.api.schema.language import Struct
from apiserver.api.types.core.persistentvolumesources import (
    CSIPersistentVolumeSource,
    FlexPersistentVolumeSource,
    GlusterfsPersistentVolumeSource,
    ISCSIPersistentVolumeSource,
)
from apiserver.api.types.core.volumes import HostPathVolumeSource
from apiserver.api.types.core.volumesources import (
    AzureDiskVolumeSource,
    FCVolumeSource,
    FlexVolumeSource,
    FlockerVolumeSource,
    ISCSIVolumeSource,
    NFSVolumeSource,
    QuobyteVolumeSource,
)
from apiserver.api.validation.compile import At, most_bytes
from apiserver.resources.common.core_rules import RULES

__all__ = ["SECOND_PATHS", "long_portal", "source_errors"]


#: The paths of a source's own errors that differ from the field name.
_OWN_PATHS: Final = {"gcePersistentDisk": "persistentDisk"}
#: The paths of errors about a second source that differ from the field name.
SECOND_PATHS: Final = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}
_BYTE: Final = "must be between 0 and 255, inclusive"
_PORTAL_LIMIT: Final = 64
_LONG_PORTAL: Final = (
    "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters "
    "if iscsi.initiatorName is specified."
)
_HOST_PORT: Final = "must be a host:port pair or multiple pairs separated by commas"
_MANAGED_DISK: Final = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
_BLOB_DISK: Final = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
#: The three formats of iSCSI names, by their first three letters.
_ISCSI_NAMES: Final = {
    "iqn": re.compile(r"iqn\.\d{4}-\d{2}\.[A-Za-z0-9.-]+:[^,;*&$|\s]+\Z", re.ASCII),
    "eui": re.compile(r"\Aeui.[A-Za-z0-9]{16}\Z"),
    "naa": re.compile(r"\Anaa.[A-Za-z0-9]{32}\Z"),
}


def source_errors(kind: Struct, name: str, path: Path, source: Json, volume: str = "") -> list[FieldError]:
    """Validate the source in the field `name` of a type: a pod's volume or a persistent volume.

    `volume` is the name of a persistent volume.
    """
    held = kind.fields[name].type
    assert isinstance(held, Struct)
    return RULES.of(held).errors(path / _OWN_PATHS.get(name, name), source, volume)


def _host_path(at: At) -> list[FieldError]:
    return at.fields("path", "type") if at.value.get("path") else at.field("path")


def _absolute(at: At) -> list[FieldError]:
    path = at.value.get("path", "")
    return [] if path.startswith("/") else [invalid(at.path / "path", path, "must be an absolute path")]


def _flocker(at: At) -> list[FieldError]:
    path, name, uid = at.path, at.value.get("datasetName", ""), at.value.get("datasetUUID", "")
    errors = [] if name or uid else [required(path, "one of datasetName and datasetUUID is required")]
    if name and uid:
        errors.append(invalid(path, "resource", "datasetName and datasetUUID can not be specified simultaneously"))
    if "/" in name:
        errors.append(invalid(path / "datasetName", name, "must not contain '/'"))
    return errors


def _is_host_port(text: str) -> bool:
    """Return whether Go's net.SplitHostPort accepts the text."""
    host, colon, port = text.rpartition(":")
    if not colon or set(port) & set("[]"):
        return False
    if host.startswith("["):
        return host.endswith("]") and not set(host[1:-1]) & set("[]")
    return not set(host) & set("[]:")


def _quobyte(at: At) -> list[FieldError]:
    """Validate a Quobyte source. Upstream reports a tenant that is too long as missing."""
    registry, longest = at.value.get("registry", ""), most_bytes(QuobyteVolumeSource, "tenant")
    errors = at.field("registry")
    if not errors and len(at.value.get("tenant", "").encode()) > longest:
        detail = f"must be a UUID and may not exceed a length of {longest} characters"
        errors.append(required(at.path / "tenant", detail))
    elif not errors:
        errors += [
            invalid(at.path / "registry", registry, _HOST_PORT)
            for pair in registry.split(",")
            if not _is_host_port(pair)
        ]
    return errors + at.field("volume")


def _is_iscsi_name(name: str) -> bool:
    pattern = _ISCSI_NAMES.get(name[:3])
    return pattern is not None and pattern.search(name) is not None


def long_portal(path: Path, shown: str, source: Json, volume: str) -> list[FieldError]:
    """Limit the length of volume name and portal, which together identify the initiator."""
    fits = (
        source.get("initiatorName") is None
        or len(f"{volume}:{source.get('targetPortal', '')}".encode()) <= _PORTAL_LIMIT
    )
    return [] if fits else [invalid(path, shown, _LONG_PORTAL)]


def _iscsi_name(path: Path, name: str, other_form: str) -> list[FieldError]:
    """Validate an iSCSI name. `other_form` is the error for an unknown format."""
    if _is_iscsi_name(name):
        return []
    return [invalid(path, name, "must be valid format" if name[:3] in _ISCSI_NAMES else other_form)]


def _names(at: At, other_form: str) -> tuple[list[FieldError], list[FieldError]]:
    """Validate names and secret. Return the errors up to the secret, and those of the initiator."""
    name, initiator = at.value.get("iqn", ""), at.value.get("initiatorName")
    errors = at.field("iqn") or _iscsi_name(at.path / "iqn", name, other_form)
    errors += at.field("lun")
    if at.value.get("secretRef") is None and (at.value.get("chapAuthDiscovery") or at.value.get("chapAuthSession")):
        errors.append(required(at.path / "secretRef"))
    return errors, [] if initiator is None else _iscsi_name(at.path / "initiatorname", initiator, other_form)


def _iscsi(at: At) -> list[FieldError]:
    errors, last = _names(at, "must be valid format starting with iqn, eui, or naa")
    return at.field("targetPortal") + errors + last


def _persistent_iscsi(at: At) -> list[FieldError]:
    """Validate the iSCSI source of a persistent volume. `env` is the volume's name."""
    errors, last = _names(at, "must be valid format")
    portal = at.field("targetPortal") + long_portal(
        at.path / "targetportal", at.value.get("targetPortal", ""), at.value, at.env
    )
    return portal + errors + at.field("secretRef") + last


def _fibre_channel(at: At) -> list[FieldError]:
    targets, identifiers = at.value.get("targetWWNs") or [], at.value.get("wwids") or []
    path, lun = at.path, at.value.get("lun")
    errors: list[FieldError] = []
    if not targets and not identifiers:
        errors.append(required(path / "targetWWNs", "must specify either targetWWNs or wwids, but not both"))
    if targets and identifiers:
        errors.append(invalid(path / "targetWWNs", targets, "targetWWNs and wwids can not be specified simultaneously"))
    if targets and lun is None:
        errors.append(required(path / "lun", "lun is required if targetWWNs is specified"))
    elif targets and lun is not None and not 0 <= lun <= 255:
        errors.append(invalid(path / "lun", lun, _BYTE))
    return errors


def _reserved_options(at: At) -> list[FieldError]:
    errors: list[FieldError] = []
    for key in at.value.get("options") or ():
        domain = "." + key.partition("/")[0].lower()
        if domain.endswith((".kubernetes.io", ".k8s.io")):
            detail = "kubernetes.io and k8s.io namespaces are reserved"
            errors.append(invalid((at.path / "options").key(key), key, detail))
    return errors


def _disk_location(at: At) -> list[FieldError]:
    kind, location = at.value.get("kind"), at.value.get("diskURI", "")
    if kind == "Managed" and not location.startswith("/subscriptions/"):
        return [not_supported(at.path / "diskURI", location, [_MANAGED_DISK])]
    if kind is not None and kind != "Managed" and not location.startswith("https://"):
        return [not_supported(at.path / "diskURI", location, [_BLOB_DISK])]
    return []


def _endpoints_namespace(at: At) -> list[FieldError]:
    if at.value.get("endpointsNamespace") != "":
        return at.field("endpointsNamespace")
    detail = "if the endpointnamespace is set, it must be a valid namespace name"
    return [invalid(at.path / "endpointsNamespace", "", detail)]


RULES.set(HostPathVolumeSource, _host_path, by_rules=("path", "type"))
RULES.set(NFSVolumeSource, "server", "path", _absolute)
RULES.set(FlockerVolumeSource, _flocker)
RULES.set(QuobyteVolumeSource, _quobyte, by_rules=("registry", "tenant", "volume"))
RULES.set(ISCSIVolumeSource, _iscsi, by_rules=("targetPortal", "iqn", "lun"))
RULES.set(ISCSIPersistentVolumeSource, _persistent_iscsi, by_rules=("targetPortal", "iqn", "lun", "secretRef"))
RULES.set(FCVolumeSource, _fibre_channel)
RULES.set(FlexVolumeSource, "driver", _reserved_options)
RULES.set(FlexPersistentVolumeSource, "driver", _reserved_options)
RULES.set(AzureDiskVolumeSource, "diskName", "diskURI", "cachingMode", "kind", _disk_location)
RULES.set(
    CSIPersistentVolumeSource,
    "driver",
    "volumeHandle",
    "controllerPublishSecretRef",
    "controllerExpandSecretRef",
    "nodePublishSecretRef",
    "nodeExpandSecretRef",
)
RULES.set(GlusterfsPersistentVolumeSource, "endpoints", "path", _endpoints_namespace, by_rules=("endpointsNamespace",))
