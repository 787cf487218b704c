"""Protobuf, compiled from the schemas: `encode` and `decode` of any kind, and the envelope of objects.

    encode(schema, obj) -> bytes        an object in normal form as the message of its kind
    decode(schema, data) -> dict        a message in JSON form; `apiserver.api.codec.codec.decode` then normalizes it
    wrap, unwrap                        the envelope: `k8s`, a zero byte, and a runtime.Unknown with apiVersion and kind

Kind and apiVersion are in the envelope only. Written messages equal those of upstream's generated code: fields in the
order of their numbers; a scalar or struct that is no pointer always, even when zero; a pointer when set; map entries
sorted by key, each with key and value. The reader accepts messages of any protobuf writer: any order, repeated fields,
packed numbers, unknown fields (skipped silently).

Facts: the generated.proto files of k8s.io/api and k8s.io/apimachinery and the protobuf wire format.
"""

from __future__ import annotations

from apiserver.api.protobuf.decoding import decode
from apiserver.api.protobuf.encoding import encode
from apiserver.api.protobuf.envelope import Envelope, frame, unwrap, wrap
from apiserver.api.protobuf.wire import WireError

__all__ = ["Envelope", "WireError", "decode", "encode", "frame", "unwrap", "wrap"]
