"""How grpclib encodes and decodes our messages."""

from __future__ import annotations

from typing import Any

from grpclib.encoding.base import CodecBase


class MessageCodec(CodecBase):
    """Messages that know their own bytes."""

    __content_subtype__ = "proto"

    def encode(self, message: Any, message_type: Any) -> bytes:
        encoded: bytes = message.encode()
        return encoded

    def decode(self, data: bytes, message_type: Any) -> Any:
        return message_type.decode(data)
