"""Hashes of pod templates and revisions, and the names made of them, byte for byte as upstream's.

Upstream hashes a template's Go value as printed by the library spew (`%#v`, sorted keys, no addresses), so every field
counts, set or not. The schema provides order, types and pointers. `_GO_NAMES` has the Go names that cannot be derived
from JSON names. Facts: k8s.io/utils/dump, pkg/controller (ComputeHash), pkg/controller/history, apimachinery's
rand.SafeEncodeString.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

from apiserver.api.objects import Json
from apiserver.api.schema.language import ListOf, MapOf, Scalar, Struct, Type, go_name
from apiserver.api.types.core.pods import PodTemplateSpec
from apiserver.api.values.names import object_name
from apiserver.api.values.quantity import Quantity
from controllers.runtime.times import parse_time

_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_PREFIX: Final = 223
_WORD: Final = 1 << 64
#: Go counts the seconds of a time from here.
_GO_EPOCH: Final = datetime(1, 1, 1, tzinfo=UTC)
_UTC: Final = (
    "{name:(string)UTC zone:([]time.zone)<nil> tx:([]time.zoneTrans)<nil> extend:(string) "
    "cacheStart:(int64)0 cacheEnd:(int64)0 cacheZone:(*time.zone)<nil>}"
)

#: Go names of fields that differ from the JSON name by more than the initial. Keys may be limited to a type.
_GO_NAMES: Final[Mapping[str, str]] = {
    "metadata": "ObjectMeta", "uid": "UID", "apiVersion": "APIVersion", "apiGroup": "APIGroup", "fsType": "FSType",
    "dnsPolicy": "DNSPolicy", "dnsConfig": "DNSConfig", "serviceAccount": "DeprecatedServiceAccount", "os": "OS",
    "tty": "TTY", "ip": "IP", "httpGet": "HTTPGet", "tcpSocket": "TCPSocket", "grpc": "GRPC",
    "httpHeaders": "HTTPHeaders", "seLinuxOptions": "SELinuxOptions", "seLinuxChangePolicy": "SELinuxChangePolicy",
    "fsGroup": "FSGroup", "fsGroupChangePolicy": "FSGroupChangePolicy", "gcePersistentDisk": "GCEPersistentDisk",
    "awsElasticBlockStore": "AWSElasticBlockStore", "nfs": "NFS", "iscsi": "ISCSI", "rbd": "RBD", "cephfs": "CephFS",
    "fc": "FC", "storageos": "StorageOS", "csi": "CSI", "pdName": "PDName", "iqn": "IQN", "wwids": "WWIDs",
    "iscsiInterface": "ISCSIInterface", "chapAuthDiscovery": "DiscoveryCHAPAuth", "chapAuthSession": "SessionCHAPAuth",
    "diskURI": "DataDiskURI", "sslEnabled": "SSLEnabled", "gmsaCredentialSpecName": "GMSACredentialSpecName",
    "gmsaCredentialSpec": "GMSACredentialSpec", "GlusterfsVolumeSource.endpoints": "EndpointsName",
    "RBDVolumeSource.monitors": "CephMonitors", "RBDVolumeSource.image": "RBDImage", "RBDVolumeSource.pool": "RBDPool",
    "RBDVolumeSource.user": "RadosUser",
}  # fmt: skip


def template_hash(template: Json, collisions: int | None) -> str:
    """Return the value of `pod-template-hash`; `collisions` is the owner's status.collisionCount."""
    count = b"" if collisions is None else (collisions & 0xFFFFFFFF).to_bytes(8, "little")
    return safe_encode(_fnv1a(dump(PodTemplateSpec, template).encode() + count))


def revision_hash(data: Json, collisions: int | None) -> str:
    """Return the value of `controller.kubernetes.io/hash` for a ControllerRevision's data."""
    count = b"" if collisions is None else str(collisions).encode()
    return safe_encode(_fnv1(go_json(data).encode() + count))


def text_hash(text: str) -> str:
    """Return the hash suffix of a name made from a text."""
    return safe_encode(_fnv1a(text.encode()))


def revision_name(prefix: str, hash: str) -> str:
    """Return the name of an owner's revision, truncated to the limit."""
    return f"{prefix.encode()[:_PREFIX].decode(errors='ignore')}-{hash}"


def pod_prefix(owner: str) -> str:
    """Return the generateName of an owner's pods."""
    return f"{owner}-" if not object_name("subdomain", f"{owner}-", prefix=True) else owner


def build_pod(template: Json, owner: Json, reference: Json) -> Json:
    """Build a pod from a template: generated name, the template's metadata, and the owner reference."""
    metadata: Json = {"generateName": pod_prefix(owner["metadata"]["name"])}
    given = template.get("metadata") or {}
    for name in ("labels", "annotations", "finalizers"):
        if given.get(name):
            metadata[name] = given[name]
    metadata["namespace"] = owner["metadata"]["namespace"]
    metadata["ownerReferences"] = [reference]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template.get("spec") or {}}


def safe_encode(number: int) -> str:
    """Encode a hash in characters that form no words."""
    return "".join(_ALPHABET[ord(digit) % len(_ALPHABET)] for digit in str(number))


def go_json(value: Any) -> str:
    """Render a decoded value as encoding/json does: sorted keys, float numbers, escaped HTML."""
    text = json.dumps(_as_read(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def _as_read(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _as_read(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_as_read(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool):
        return int(Decimal(repr(float(value))))
    return value


def _fnv1a(data: bytes) -> int:
    state = 0x811C9DC5
    for byte in data:
        state = ((state ^ byte) * 0x01000193) & 0xFFFFFFFF
    return state


def fnv1a_128(data: bytes) -> int:
    """Return the 128-bit FNV-1a hash."""
    state = 0x6C62272E07BB014262B821756295C58D
    for byte in data:
        state = ((state ^ byte) * 0x0000000001000000000000000000013B) & ((1 << 128) - 1)
    return state


def _fnv1(data: bytes) -> int:
    state = 0x811C9DC5
    for byte in data:
        state = ((state * 0x01000193) & 0xFFFFFFFF) ^ byte
    return state


def dump(struct: Struct, value: Json) -> str:
    """Print an object of a schema's type as upstream does for hashing."""
    return f"({struct.go})" + "".join(_struct(struct, value))


def _struct(struct: Struct, value: Json) -> Iterator[str]:
    yield "{"
    for number, field in enumerate(struct.declared):
        kind = field.type
        # The fields of an embedded struct are inlined in JSON.
        given = value if field.inline else value.get(field.name)
        name = kind.go.rsplit(".", 1)[-1] if field.inline and isinstance(kind, Struct) else _go_name(struct, field.name)
        yield f"{' ' if number else ''}{name}:({'*' if field.pointer else ''}{go_name(kind)})"
        if field.pointer and given is None:
            yield "<nil>"
        else:
            yield from _value(kind, given)
    yield "}"


def _go_name(struct: Struct, name: str) -> str:
    known = _GO_NAMES.get(f"{struct.kind}.{name}") or _GO_NAMES.get(name)
    return known or name[0].upper() + name[1:]


def _value(kind: Type, value: Any) -> Iterator[str]:
    if isinstance(kind, Struct):
        yield from _struct(kind, value or {})
    elif isinstance(kind, ListOf):
        yield from _list(kind, value)
    elif isinstance(kind, MapOf):
        yield from _map(kind, value)
    else:
        yield _scalar(kind, value)


def _list(kind: ListOf, value: list[Any] | None) -> Iterator[str]:
    if not value:
        yield "<nil>"
        return
    for number, item in enumerate(value):
        yield " " if number else "["
        yield from _value(kind.item, item)
    yield "]"


def _map(kind: MapOf, value: Json | None) -> Iterator[str]:
    if not value:
        yield "<nil>"
        return
    for number, key in enumerate(sorted(value)):
        yield f"{' ' if number else 'map['}{key}:"
        yield from _value(kind.value, value[key])
    yield "]"


def _scalar(kind: Scalar, value: Any) -> str:
    if kind.name == "quantity":
        return _quantity(value)
    if kind.name == "intOrString":
        text, number = (value, 0) if isinstance(value, str) else ("", value or 0)
        return f"{{Type:(intstr.Type){int(isinstance(value, str))} IntVal:(int32){number} StrVal:(string){text}}}"
    if kind.name == "time":
        return _time(value)
    if kind.name == "bool":
        return "true" if value else "false"
    if kind.name in ("int32", "int64"):
        return str(value or 0)
    return value or ""


def _time(value: Any) -> str:
    # A decoded time has the local zone: without /etc/localtime, as in upstream's image, that is UTC without rules.
    seconds, zone = 0, "<nil>"
    if value is not None:
        seconds, zone = int((parse_time(value) - _GO_EPOCH).total_seconds()), _UTC
    return f"{{Time:(time.Time){{wall:(uint64)0 ext:(int64){seconds} loc:(*time.Location){zone}}}}}"


def _quantity(value: Any) -> str:
    # Go serializes a missing quantity that is not a pointer as "0".
    amount = Quantity.parse("0" if value is None else str(value))
    number, scale, wide = amount.unscaled, amount.exponent, "<nil>"
    if amount.wide:
        words, rest = [], abs(number)
        while rest:
            words.append(str(rest % _WORD))
            rest //= _WORD
        digits = f"[{' '.join(words)}]" if words else "<nil>"
        sign = "true" if number < 0 else "false"
        wide = f"{{unscaled:(big.Int){{neg:(bool){sign} abs:(big.nat){digits}}} scale:(inf.Scale){-scale}}}"
        number, scale = 0, 0
    return (
        f"{{i:(resource.int64Amount){{value:(int64){number} scale:(resource.Scale){scale}}} "
        f"d:(resource.infDecAmount){{Dec:(*inf.Dec){wide}}} s:(string){amount.verbatim} "
        f"Format:(resource.Format){amount.format.value}}}"
    )
