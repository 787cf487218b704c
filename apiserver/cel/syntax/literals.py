"""Parse literal tokens. A conversion returns its ValueError, whose text is the message, instead of raising it."""

from __future__ import annotations

import math
import re
from typing import Final

from apiserver.cel.language.values import Uint

_MAX_INT: Final = (1 << 63) - 1
_MAX_UINT: Final = (1 << 64) - 1
_ESCAPED: Final = re.compile(
    r"\\(?:[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))", re.DOTALL
)
_SIMPLE: Final = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "`": "`", "?": "?",
}  # fmt: skip
_TOO_LONG: Final = 4000


class _Invalid(ValueError):
    pass


def int_value(text: str) -> int | ValueError:
    """Parse `12` or `-0xff`."""
    value = _integer(text)
    if value is None or not -_MAX_INT - 1 <= value <= _MAX_INT:
        return ValueError("invalid int literal")
    return value


def uint_value(text: str) -> Uint | ValueError:
    """Parse `12u` or `0xFFu`."""
    value = _integer(text[:-1])
    return ValueError("invalid uint literal") if value is None or value > _MAX_UINT else Uint(value)


def _integer(text: str) -> int | None:
    if len(text) > _TOO_LONG:
        return None
    return int(text, 16) if "0x" in text else int(text)


def double_value(text: str) -> float | ValueError:
    """Parse `1.5e3`."""
    value = float(text)
    return ValueError("invalid double literal") if math.isinf(value) else value


def string_value(text: str) -> str | ValueError:
    """Parse a quoted string of any form."""
    body, raw = _unquote(text)
    if raw or "\\" not in body:
        return body
    try:
        return _ESCAPED.sub(_code_point, body)
    except _Invalid as error:
        return error


def bytes_value(text: str) -> bytes | ValueError:
    """Parse a quoted string after `b`; octal and hex escapes are bytes, not code points."""
    body, raw = _unquote(text[1:])
    if raw or "\\" not in body:
        return body.encode()
    parts: list[bytes] = []
    last = 0
    for found in _ESCAPED.finditer(body):
        parts.append(body[last : found.start()].encode())
        hexadecimal, short, long, octal, simple = found.groups()
        if short or long:
            return ValueError("unable to unescape string")
        if simple:
            parts.append(_SIMPLE[simple].encode())
        else:
            parts.append(bytes([int(hexadecimal, 16) if hexadecimal else int(octal, 8)]))
        last = found.end()
    parts.append(body[last:].encode())
    return b"".join(parts)


def _unquote(text: str) -> tuple[str, bool]:
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    raw = text[0] in "rR"
    if raw:
        text = text[1:]
    quotes = 3 if len(text) >= 6 and text[:3] in ('"""', "'''") else 1
    return text[quotes:-quotes], raw


def _code_point(found: re.Match[str]) -> str:
    hexadecimal, short, long, octal, simple = found.groups()
    if simple:
        return _SIMPLE[simple]
    value = int(octal, 8) if octal else int(hexadecimal or short or long, 16)
    if value > 0x10FFFF or 0xD800 <= value <= 0xDFFF:
        raise _Invalid("invalid unicode code point")
    return chr(value)
