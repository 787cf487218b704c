"""Volume sources, those of pods and of persistent volumes: what each must name (pkg/apis/core/validation).

A check takes the path of a source and the source; `SHARED` are the checks that are the same in both places.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from apiserver.api.fielderrors import FieldError, Named, Path, invalid, not_supported, required
from apiserver.api.names import dns_label, dns_subdomain
from apiserver.api.validation.formats import driver_name
from apiserver.resources.pods.environment import no_backsteps

__all__ = ["OWN_PATHS", "SECOND_PATHS", "SHARED", "Check", "long_portal", "needs", "persistent_sources", "pod_iscsi"]

Json = dict[str, Any]
Check = Callable[[Path, Json], list[FieldError]]

_HOST_PATHS: Final = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
#: Where the path of a source's own errors is not the field's name.
OWN_PATHS: Final = {"gcePersistentDisk": "persistentDisk"}
#: And where that of the error about a second source is not.
SECOND_PATHS: Final = {"cephfs": "cephFS"}
_PARTITION: Final = "must be between 1 and 255, inclusive"
_BYTE: Final = "must be between 0 and 255, inclusive"
_PORTAL_LIMIT: Final = 64
_LONG_PORTAL: Final = (
    "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters "
    "if iscsi.initiatorName is specified."
)
_TENANT_LIMIT: Final = 64
_HOST_PORT: Final = "must be a host:port pair or multiple pairs separated by commas"
_CACHING: Final = ("None", "ReadOnly", "ReadWrite")
_DISK_KINDS: Final = ("Dedicated", "Managed", "Shared")
_MANAGED_DISK: Final = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
_BLOB_DISK: Final = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
#: The three forms of an iSCSI name, by their first three letters.
_ISCSI_NAMES: Final = {
    "iqn": re.compile(r"iqn\.\d{4}-\d{2}\.[A-Za-z0-9.-]+:[^,;*&$|\s]+\Z", re.ASCII),
    "eui": re.compile(r"\Aeui.[A-Za-z0-9]{16}\Z"),
    "naa": re.compile(r"\Anaa.[A-Za-z0-9]{32}\Z"),
}


def needs(*fields: str) -> Check:
    """Fields that may not be empty."""
    return lambda path, source: [required(path / field) for field in fields if not source.get(field)]


def _host_path(path: Path, source: Json) -> list[FieldError]:
    if not source.get("path"):
        return [required(path / "path")]
    errors = no_backsteps(path / "path", source["path"])
    if source.get("type", "") not in _HOST_PATHS:
        errors.append(not_supported(path / "type", Named(source["type"]), _HOST_PATHS))
    return errors


def _local(path: Path, source: Json) -> list[FieldError]:
    return no_backsteps(path / "path", source["path"]) if source.get("path") else [required(path / "path")]


def _partitioned(name: str) -> Check:
    def check(path: Path, source: Json) -> list[FieldError]:
        errors = [] if source.get(name) else [required(path / name)]
        partition = source.get("partition", 0)
        return errors if 0 <= partition <= 255 else [*errors, invalid(path / "partition", partition, _PARTITION)]

    return check


def _network_file_system(path: Path, source: Json) -> list[FieldError]:
    errors = needs("server", "path")(path, source)
    if not source.get("path", "").startswith("/"):
        errors.append(invalid(path / "path", source.get("path", ""), "must be an absolute path"))
    return errors


def _flocker(path: Path, source: Json) -> list[FieldError]:
    name, uid = source.get("datasetName", ""), source.get("datasetUUID", "")
    errors = [] if name or uid else [required(path, "one of datasetName and datasetUUID is required")]
    if name and uid:
        errors.append(invalid(path, "resource", "datasetName and datasetUUID can not be specified simultaneously"))
    if "/" in name:
        errors.append(invalid(path / "datasetName", name, "must not contain '/'"))
    return errors


def _is_host_port(text: str) -> bool:
    """Whether Go's net.SplitHostPort takes it."""
    host, colon, port = text.rpartition(":")
    if not colon or set(port) & set("[]"):
        return False
    if host.startswith("["):
        return host.endswith("]") and not set(host[1:-1]) & set("[]")
    return not set(host) & set("[]:")


def _quobyte(path: Path, source: Json) -> list[FieldError]:
    registry = source.get("registry", "")
    errors: list[FieldError] = []
    if not registry:
        errors.append(required(path / "registry", _HOST_PORT))
    elif len(source.get("tenant", "").encode()) > _TENANT_LIMIT:
        errors.append(required(path / "tenant", "must be a UUID and may not exceed a length of 64 characters"))
    else:
        errors += [
            invalid(path / "registry", registry, _HOST_PORT) for pair in registry.split(",") if not _is_host_port(pair)
        ]
    return errors + needs("volume")(path, source)


def _is_iscsi_name(name: str) -> bool:
    pattern = _ISCSI_NAMES.get(name[:3])
    return pattern is not None and pattern.search(name) is not None


def long_portal(path: Path, shown: str, source: Json, volume: str) -> list[FieldError]:
    """Initiators are told apart by the names of volume and portal."""
    fits = (
        source.get("initiatorName") is None
        or len(f"{volume}:{source.get('targetPortal', '')}".encode()) <= _PORTAL_LIMIT
    )
    return [] if fits else [invalid(path, shown, _LONG_PORTAL)]


def _iscsi_name(path: Path, name: str, other_form: str) -> list[FieldError]:
    """`other_form` is said of names that are of none of the three forms."""
    if _is_iscsi_name(name):
        return []
    return [invalid(path, name, "must be valid format" if name[:3] in _ISCSI_NAMES else other_form)]


def _iscsi(path: Path, source: Json, other_form: str) -> tuple[list[FieldError], list[FieldError]]:
    """What is wrong up to the secret, and with the initiator."""
    name, initiator, lun = source.get("iqn", ""), source.get("initiatorName"), source.get("lun", 0)
    errors = _iscsi_name(path / "iqn", name, other_form) if name else [required(path / "iqn")]
    if not 0 <= lun <= 255:
        errors.append(invalid(path / "lun", lun, _BYTE))
    if source.get("secretRef") is None and (source.get("chapAuthDiscovery") or source.get("chapAuthSession")):
        errors.append(required(path / "secretRef"))
    return errors, [] if initiator is None else _iscsi_name(path / "initiatorname", initiator, other_form)


def pod_iscsi(path: Path, source: Json) -> list[FieldError]:
    errors, last = _iscsi(path, source, "must be valid format starting with iqn, eui, or naa")
    return needs("targetPortal")(path, source) + errors + last


def _persistent_iscsi(path: Path, source: Json, volume: str) -> list[FieldError]:
    errors, last = _iscsi(path, source, "must be valid format")
    secret = source.get("secretRef")
    if secret is not None and not secret.get("name"):
        errors.append(required(path / "secretRef" / "name"))
    portal = needs("targetPortal")(path, source) + long_portal(
        path / "targetportal", source.get("targetPortal", ""), source, volume
    )
    return portal + errors + last


def _fibre_channel(path: Path, source: Json) -> list[FieldError]:
    targets, identifiers, lun = source.get("targetWWNs") or [], source.get("wwids") or [], source.get("lun")
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


def _flex_volume(path: Path, source: Json) -> list[FieldError]:
    errors = needs("driver")(path, source)
    for key in source.get("options") or ():
        domain = "." + key.partition("/")[0].lower()
        if domain.endswith((".kubernetes.io", ".k8s.io")):
            errors.append(invalid((path / "options").key(key), key, "kubernetes.io and k8s.io namespaces are reserved"))
    return errors


def _azure_disk(path: Path, source: Json) -> list[FieldError]:
    errors = needs("diskName", "diskURI")(path, source)
    caching, kind, location = source.get("cachingMode"), source.get("kind"), source.get("diskURI", "")
    if caching is not None and caching not in _CACHING:
        errors.append(not_supported(path / "cachingMode", Named(caching), _CACHING))
    if kind is not None and kind not in _DISK_KINDS:
        errors.append(not_supported(path / "kind", Named(kind), _DISK_KINDS))
    if kind == "Managed" and not location.startswith("/subscriptions/"):
        errors.append(not_supported(path / "diskURI", location, [_MANAGED_DISK]))
    if kind is not None and kind != "Managed" and not location.startswith("https://"):
        errors.append(not_supported(path / "diskURI", location, [_BLOB_DISK]))
    return errors


SHARED: Final[dict[str, Check]] = {
    "hostPath": _host_path,
    "gcePersistentDisk": _partitioned("pdName"),
    "awsElasticBlockStore": _partitioned("volumeID"),
    "nfs": _network_file_system,
    "glusterfs": needs("endpoints", "path"),
    "flocker": _flocker,
    "rbd": needs("monitors", "image"),
    "cephfs": needs("monitors"),
    "quobyte": _quobyte,
    "fc": _fibre_channel,
    "flexVolume": _flex_volume,
    "azureFile": needs("secretName", "shareName"),
    "vsphereVolume": needs("volumePath"),
    "photonPersistentDisk": needs("pdID"),
    "portworxVolume": needs("volumeID"),
    "azureDisk": _azure_disk,
    "scaleIO": needs("gateway", "system", "volumeName"),
}


# --- persistent volumes: what they name may lie in any namespace
# -----------------------------------------------------------------------------


def _named_in_namespace(path: Path, secret: Json | None) -> list[FieldError]:
    return [] if secret is None else needs("name", "namespace")(path / "secretRef", secret)


def _glusterfs(path: Path, source: Json) -> list[FieldError]:
    errors = needs("endpoints", "path")(path, source)
    namespace, at = source.get("endpointsNamespace"), path / "endpointsNamespace"
    if namespace == "":
        errors.append(invalid(at, namespace, "if the endpointnamespace is set, it must be a valid namespace name"))
    elif namespace is not None:
        errors += [invalid(at, namespace, text) for text in dns_label(namespace)]
    return errors


def _cinder(path: Path, source: Json) -> list[FieldError]:
    return needs("volumeID")(path, source) + _named_in_namespace(path, source.get("secretRef"))


def _azure_file(path: Path, source: Json) -> list[FieldError]:
    errors = needs("secretName", "shareName")(path, source)
    return [*errors, required(path / "secretNamespace")] if source.get("secretNamespace") == "" else errors


def _storage_os(path: Path, source: Json) -> list[FieldError]:
    name, namespace = source.get("volumeName", ""), source.get("volumeNamespace", "")
    errors = (
        [invalid(path / "volumeName", name, text) for text in dns_label(name)]
        if name
        else [required(path / "volumeName")]
    )
    if namespace:
        errors += [invalid(path / "volumeNamespace", namespace, text) for text in dns_label(namespace)]
    return errors + _named_in_namespace(path, source.get("secretRef"))


def _storage_interface(path: Path, source: Json) -> list[FieldError]:
    """(A node's stage secret is the one that nobody looks at.)"""
    errors = driver_name(path / "driver", source.get("driver", "")) + needs("volumeHandle")(path, source)
    for field in (
        "controllerPublishSecretRef",
        "controllerExpandSecretRef",
        "nodePublishSecretRef",
        "nodeExpandSecretRef",
    ):
        secret = source.get(field)
        if secret is not None:
            for part, check in (("name", dns_subdomain), ("namespace", dns_label)):
                value, at = secret.get(part, ""), path / field / part
                errors += [invalid(at, value, text) for text in check(value)] if value else [required(at)]
    return errors


def persistent_sources(volume: str) -> dict[str, Check]:
    """Checks of a persistent volume named `volume`, in upstream's order, which decides what the second source of a
    volume is told.
    """
    own: dict[str, Check] = {
        "glusterfs": _glusterfs,
        "iscsi": lambda path, source: _persistent_iscsi(path, source, volume),
        "cinder": _cinder,
        "azureFile": _azure_file,
        "local": _local,
        "storageos": _storage_os,
        "csi": _storage_interface,
    }
    return {name: own.get(name) or SHARED[name] for name in _PERSISTENT_ORDER}


_PERSISTENT_ORDER: Final = (
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
