"""The size limit of a stored object: etcd's 1.5 MiB per request, with etcd's errors.

Upstream stores protobuf messages. They are shorter than the JSON stored here, so only objects with JSON over the limit
are measured as messages. If managed fields make the object too large, they are dropped. An apply needs them, so an
apply fails (k8s.io/apiserver, pkg/endpoints/handlers).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from apiserver.api.errors.status import StatusError
from apiserver.registry.body.convert import encode_stored

if TYPE_CHECKING:
    from apiserver.api.objects import Hub, Stored
    from apiserver.api.schema.language import Struct

__all__ = ["ENVELOPE", "REQUEST_LIMIT", "encode_large"]

#: The size limits in bytes: of a request to etcd, and of a message of its client.
REQUEST_LIMIT: Final = 1536 * 1024
CALL_LIMIT: Final = 2 * 1024 * 1024
#: Overhead of a request to etcd: the key twice, a condition, the envelope of the message.
ENVELOPE: Final = 64


def encode_large(key: str, obj: Hub, schema: Struct, *, keep_managers: bool = False) -> Stored:
    """Encode an object that may be too large; `schema` is that of its hub form.

    Unless `keep_managers`, managed fields are dropped if the object fits without them.
    Raises StatusError (500) if it is too large.
    """
    encoded = encode_stored(obj)
    size = _message_size(key, obj, schema)
    if size > REQUEST_LIMIT and not keep_managers and obj["metadata"].pop("managedFields", None) is not None:
        size, encoded = _message_size(key, obj, schema), encode_stored(obj)
    if size > CALL_LIMIT:
        text = f"trying to send message larger than max ({size} vs. {CALL_LIMIT})"
        raise StatusError(500, "", f"rpc error: code = ResourceExhausted desc = {text}")
    if size > REQUEST_LIMIT:
        raise StatusError(500, "", "etcdserver: request is too large")
    return encoded


def _message_size(key: str, obj: Hub, schema: Struct) -> int:
    from apiserver.api import protobuf

    return len(protobuf.encode(schema, obj)) + 2 * len(key) + ENVELOPE
