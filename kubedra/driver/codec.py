"""The codec of our messages for grpclib, and Go's names of status codes."""

from __future__ import annotations

from typing import Any

from grpclib.const import Status
from grpclib.encoding.base import CodecBase


class MessageCodec(CodecBase):
    """A codec of messages that encode and decode themselves."""

    __content_subtype__ = "proto"

    def encode(self, message: Any, message_type: Any) -> bytes:
        encoded: bytes = message.encode()
        return encoded

    def decode(self, data: bytes, message_type: Any) -> Any:
        return message_type.decode(data)


def code_name(status: Status) -> str:
    """Return Go's name of a status code."""
    if status is Status.OK:
        return "OK"
    return "Canceled" if status is Status.CANCELLED else "".join(part.title() for part in status.name.split("_"))
