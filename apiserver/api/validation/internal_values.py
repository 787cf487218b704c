"""Whole structs as errors show them: JSON of upstream's internal types, which have no JSON tags.

Field names are Go's. All fields are shown in order of declaration, including empty ones; unset fields are null. Types
of meta/v1 and raw extensions keep their ordinary form. A field that upstream's release lacks is shown only when set, so
that texts about other objects equal upstream's.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable
from typing import Any, Final

from apiserver.api.schema.language import Field, ListOf, MapOf, Struct, Type

__all__ = ["internal", "shown_diff"]

_CACHE: Final = "internal"
_METADATA: Final = "ObjectMeta"
#: Types of meta/v1 have no internal form: metadata, conditions.
_TAGGED: Final = "io.k8s.apimachinery."
#: Go names that differ from the capitalized JSON name, by JSON name, or by type and JSON name.
_GO_NAMES: Final = {
    "cel": "CEL",
    "cidrs": "CIDRs",
    "jsonPath": "JSONPath",
    "id": "ID",
    "$ref": "Ref",
    "$schema": "Schema",
    "x-kubernetes-preserve-unknown-fields": "XPreserveUnknownFields",
    "x-kubernetes-embedded-resource": "XEmbeddedResource",
    "x-kubernetes-int-or-string": "XIntOrString",
    "x-kubernetes-list-map-keys": "XListMapKeys",
    "x-kubernetes-list-type": "XListType",
    "x-kubernetes-map-type": "XMapType",
    "x-kubernetes-validations": "XValidations",
    "uid": "UID",
    "pkixPublicKey": "PKIXPublicKey",
    "ip": "IP",
    "ips": "IPs",
    "apiVersion": "APIVersion",
    "apiGroup": "APIGroup",
    "apiGroups": "APIGroups",
    "dnsPolicy": "DNSPolicy",
    "dnsConfig": "DNSConfig",
    "os": "OS",
    "tty": "TTY",
    "fsGroup": "FSGroup",
    "fsGroupChangePolicy": "FSGroupChangePolicy",
    "seLinuxOptions": "SELinuxOptions",
    "seLinuxChangePolicy": "SELinuxChangePolicy",
    "httpGet": "HTTPGet",
    "httpHeaders": "HTTPHeaders",
    "tcpSocket": "TCPSocket",
    "grpc": "GRPC",
    "nfs": "NFS",
    "iscsi": "ISCSI",
    "rbd": "RBD",
    "fc": "FC",
    "csi": "CSI",
    "cephfs": "CephFS",
    "gmsaCredentialSpecName": "GMSACredentialSpecName",
    "gmsaCredentialSpec": "GMSACredentialSpec",
    "gcePersistentDisk": "GCEPersistentDisk",
    "awsElasticBlockStore": "AWSElasticBlockStore",
    "storageos": "StorageOS",
    "fsType": "FSType",
    "pdName": "PDName",
    "iqn": "IQN",
    "iscsiInterface": "ISCSIInterface",
    "chapAuthDiscovery": "DiscoveryCHAPAuth",
    "chapAuthSession": "SessionCHAPAuth",
    "sslEnabled": "SSLEnabled",
    "wwids": "WWIDs",
    "diskURI": "DataDiskURI",
}
_TYPED_NAMES: Final = {
    ("DeviceAttribute", "int"): "IntValue",
    ("DeviceAttribute", "bool"): "BoolValue",
    ("DeviceAttribute", "string"): "StringValue",
    ("DeviceAttribute", "version"): "VersionValue",
    ("DeviceAttribute", "ints"): "IntValues",
    ("DeviceAttribute", "bools"): "BoolValues",
    ("DeviceAttribute", "strings"): "StringValues",
    ("DeviceAttribute", "versions"): "VersionValues",
    **{
        (owner, name): go
        for owner in ("RBDVolumeSource", "RBDPersistentVolumeSource")
        for name, go in (
            ("monitors", "CephMonitors"),
            ("image", "RBDImage"),
            ("pool", "RBDPool"),
            ("user", "RadosUser"),
        )
    },
    ("GlusterfsVolumeSource", "endpoints"): "EndpointsName",
    ("GlusterfsPersistentVolumeSource", "endpoints"): "EndpointsName",
}
#: Fields by type that upstream's release lacks.
_AHEAD: Final = {("ResourceClaimSpec", "reservedFor"), ("AllocationResult", "reservedForAnyPod")}
#: Fields by type with another internal position: before the field named here.
_BEFORE: Final = {
    ("VolumeSource", "quobyte"): "flexVolume",
    ("Volume", "quobyte"): "flexVolume",
    **{
        (owner, name): following
        for owner in ("PersistentVolumeSource", "PersistentVolumeSpec")
        for name, following in (("quobyte", "iscsi"), ("flexVolume", "cinder"))
    },
    ("PodSpec", "setHostnameAsFQDN"): "affinity",
    ("PodSpec", "preemptionPolicy"): "dnsConfig",
    ("PodSpec", "overhead"): "enableServiceLinks",
    ("PodSecurityContext", "fsGroupChangePolicy"): "sysctls",
    ("JSONSchemaProps", "nullable"): "format",
}
_ZERO: Final[dict[str, Any]] = {
    "string": "",
    "bool": False,
    "int32": 0,
    "int64": 0,
    "float64": 0,
    "quantity": "0",
    "time": None,
    "microTime": None,
}

Writer = Callable[[Any], Any]


def internal(kind: Type, value: Any) -> Any:
    """Return the value in the form in which an error prints it."""
    return _writer(kind)(value)


def shown_diff(old: Any, new: Any) -> str:
    """Return the diff for the error of a forbidden update: unified, in internal form, without file names."""
    return "".join(list(difflib.unified_diff(_lines(old), _lines(new), n=3))[2:])


def _lines(shown: Any) -> list[str]:
    text = json.dumps(shown, indent=1, ensure_ascii=False)
    for char, escaped in (("&", "\\u0026"), ("<", "\\u003c"), (">", "\\u003e")):
        text = text.replace(char, escaped)
    return [line + "\n" for line in text.split("\n")]


def _writer(kind: Type) -> Writer:
    if isinstance(kind, ListOf):
        item = _writer(kind.item)
        return lambda value: None if value is None else [item(element) for element in value]
    if isinstance(kind, MapOf):
        entry = _writer(kind.value)
        return lambda value: None if value is None else {key: entry(element) for key, element in sorted(value.items())}
    if isinstance(kind, Struct):
        return _struct(kind)
    zero = _ZERO.get(kind.name)
    return lambda value: zero if value is None else value


def _in_order(kind: Struct) -> list[tuple[str, Field]]:
    """Return the fields in the order of the internal type."""
    names = list(kind.fields)
    for (owner, name), following in _BEFORE.items():
        if owner == kind.kind:
            names.remove(name)
            names.insert(names.index(following), name)
    return [(name, kind.fields[name]) for name in names]


def _struct(kind: Struct) -> Writer:
    if kind.name.startswith(_TAGGED):
        maps = {name for name, field in kind.fields.items() if isinstance(field.type, MapOf)}
        return lambda value: {
            name: dict(sorted(part.items())) if name in maps else part for name, part in (value or {}).items()
        }
    known: Writer | None = kind.cache.get(_CACHE)
    if known is None:
        fields: list[tuple[str, str, Writer]] = []
        ahead = {name for owner, name in _AHEAD if owner == kind.kind}
        # Set before the fields are read, because types may be recursive.
        known = kind.cache[_CACHE] = lambda value: {
            go: write((value or {}).get(name))
            for name, go, write in fields
            if name not in ahead or (value or {}).get(name) is not None
        }
        for name, field in _in_order(kind):
            if name in ("kind", "apiVersion") and kind.gvk:
                continue
            if isinstance(field.type, Struct) and field.type.kind == _METADATA:
                fields.append((name, "", _writer(field.type)))
                continue
            fields.append((name, _go_name(kind, field), _optional(field) if field.pointer else _writer(field.type)))
        if any(not go for _, go, _ in fields):
            known = kind.cache[_CACHE] = _embedding(fields)
    return known


def _embedding(fields: list[tuple[str, str, Writer]]) -> Writer:
    """Return a writer with embedded metadata: its members are members of the struct."""

    def write(value: Any) -> Any:
        out: dict[str, Any] = {}
        for name, go, writer in fields:
            written = writer((value or {}).get(name))
            if go:
                out[go] = written
            else:
                out.update(written)
        return out

    return write


def _optional(field: Field) -> Writer:
    write = _writer(field.type)
    return lambda value: None if value is None else write(value)


def _go_name(kind: Struct, field: Field) -> str:
    name = field.name
    return _TYPED_NAMES.get((kind.kind, name)) or _GO_NAMES.get(name) or name[:1].upper() + name[1:]
