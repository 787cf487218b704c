"""Objects in protobuf, as a client writes and reads them."""

from __future__ import annotations

from apiserver.api import protobuf
from apiserver.api.objects import Json
from apiserver.api.schema.language import Struct
from apiserver.api.types import discovery, meta
from apiserver.registry.body.decode import Kinds
from apiserver.resources import CATALOG
from tests.support.wire import Answer, Watch

PROTOBUF = "application/vnd.kubernetes.protobuf"
#: As client-go sends them.
BOTH = {"Accept": f"{PROTOBUF},application/json", "Content-Type": PROTOBUF}
MAPS = "/api/v1/namespaces/default/configmaps"
CLAIMS = "/apis/resource.k8s.io/{}/namespaces/default/resourceclaims"
KINDS = Kinds(CATALOG)
OTHERS = {
    ("v1", "Status"): meta.Status,
    ("v1", "APIGroupList"): meta.APIGroupList,
    ("", "APIVersions"): meta.APIVersions,
    ("", "APIResourceList"): meta.APIResourceList,
    ("v1", "APIResourceList"): meta.APIResourceList,
    ("apidiscovery.k8s.io/v2", "APIGroupDiscoveryList"): discovery.APIGroupDiscoveryList,
    ("meta.k8s.io/v1", "PartialObjectMetadata"): meta.PartialObjectMetadata,
    ("meta.k8s.io/v1", "PartialObjectMetadataList"): meta.PartialObjectMetadataList,
}


def schema(version: str, kind: str) -> Struct:
    found = OTHERS.get((version, kind)) or KINDS.schema(version, kind)
    if found is None and kind.endswith("List"):
        item = KINDS.schema(version, kind.removesuffix("List"))
        found = meta.list_of(item) if item else None
    assert found is not None, (version, kind)
    return found


def decode_message(body: bytes) -> Json:
    """Decode an enveloped message with its kind and version."""
    envelope = protobuf.unwrap(body)
    return {
        "kind": envelope.kind,
        "apiVersion": envelope.api_version,
        **protobuf.decode(schema(envelope.api_version, envelope.kind), envelope.raw),
    }


def decode_answer(answer: Answer) -> Json:
    assert answer.headers["content-type"] == PROTOBUF, answer.body
    return decode_message(answer.body)


def encode_message(version: str, kind: str, obj: Json) -> bytes:
    return protobuf.wrap(version, kind, protobuf.encode(schema(version, kind), obj))


def read_event(watch: Watch) -> tuple[str, Json]:
    """Read the next event: a length in four bytes, then the event with the enveloped object."""
    frame = watch.read(int.from_bytes(watch.read(4), "big"))
    outer = _fields(frame)
    return outer[1].decode(), decode_message(_fields(outer[2])[1])


def _fields(data: bytes) -> dict[int, bytes]:
    """Return the length-delimited fields of a message, read without the code under test."""
    found: dict[int, bytes] = {}
    at = 0
    while at < len(data):
        number, at, size, shift = data[at] >> 3, at + 1, 0, 0
        while True:
            size |= (data[at] & 127) << shift
            shift, at = shift + 7, at + 1
            if data[at - 1] < 128:
                break
        found[number], at = data[at : at + size], at + size
    return found


def config_map(name: str, **data: str) -> bytes:
    return encode_message("v1", "ConfigMap", {"metadata": {"name": name}, "data": data})


def claim(name: str) -> Json:
    return {
        "metadata": {"name": name},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu.example.com"}}]}},
    }
