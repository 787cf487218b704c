"""PEM, as Go's encoding/pem finds it: blocks between lines of dashes, surrounded by any text."""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from typing import Final, NamedTuple

__all__ = ["Block", "blocks"]

_BLOCK: Final = re.compile(rb"(?:^|\n)-----BEGIN ([^\n]*?)-----[ \t\r]*\n(.*?)-----END \1-----", re.DOTALL)
_HEADER: Final = re.compile(rb"[^\n:]+:[^\n]*\n")


class Block(NamedTuple):
    """One PEM block; `kind` is "CERTIFICATE" in BEGIN CERTIFICATE."""

    kind: str
    headers: bool
    data: bytes


def blocks(text: bytes) -> list[Block]:
    """Return all blocks with base64 data."""
    found = []
    for match in _BLOCK.finditer(text):
        body, headers = match[2], False
        while header := _HEADER.match(body):
            body, headers = body[header.end() :], True
        try:
            data = b64decode(b"".join(body.split()), validate=True)
        except (binascii.Error, ValueError):
            continue
        found.append(Block(match[1].decode(errors="replace"), headers, data))
    return found
