"""How large a stored object may be: what etcd takes in one request, 1.5 MiB, in etcd's words.

Upstream stores messages, which are shorter than the JSON kept here; so only an object whose JSON is over the limit is
measured as a message. Where managed fields alone make it too large they are left out, but not by an apply, for which
they are the point (k8s.io/apiserver, pkg/endpoints/handlers).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from apiserver.api.errors.status import StatusError
from apiserver.registry.body.convert import encode_stored

if TYPE_CHECKING:
    from apiserver.api.objects import Hub, Stored
    from apiserver.api.schema.language import Struct

__all__ = ["ENVELOPE", "REQUEST_LIMIT", "encode_large"]

#: Bytes that etcd takes in one request, and that its client sends at most.
REQUEST_LIMIT: Final = 1536 * 1024
CALL_LIMIT: Final = 2 * 1024 * 1024
#: What else a request to etcd holds: the key twice, a condition, the envelope of the message.
ENVELOPE: Final = 64


def encode_large(key: str, obj: Hub, schema: Struct, *, keep_managers: bool = False) -> Stored:
    """The bytes of an object to store that may be too large; `schema` is of its hub form. Raises StatusError (500)
    where it is. Unless `keep_managers`, managed fields are dropped from the object where it fits without them.
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
