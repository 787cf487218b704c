"""Parse addresses like Go's netip, with its error texts."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from apiserver.api.errors.field_errors import go_quote

__all__ = ["parse_address"]

#: 16-bit groups of an address, and the number of groups replaced by an embedded IPv4 address.
_GROUPS, _EMBEDDED = 8, 2
_HEX: Final = re.compile(r"[0-9A-Fa-f]*")


class _ParseError(Exception):
    """A problem of an address, and the rest of the text from its position."""

    def __init__(self, reason: str, at: str = "") -> None:
        self.reason = f"{reason} (at {go_quote(at)})" if at else reason


def parse_address(text: str) -> IPv4Address | IPv6Address:
    """Parse an address. Raise ValueError with netip's text."""
    try:
        first = re.search(r"[.:%]", text)
        if first is None:
            raise _ParseError("unable to parse IP")
        if first[0] == "%":
            raise _ParseError("missing IPv6 address")
        if first[0] == ".":
            _check_ipv4(text)
        else:
            _check_ipv6(text)
    except _ParseError as wrong:
        raise ValueError(f"ParseAddr({go_quote(text)}): {wrong.reason}") from None
    address, percent, _ = text.partition("%")
    return ip_address(f"{address}%zone" if percent else address)  # Go accepts any text as a zone


def _check_ipv4(text: str) -> None:
    value = digits = fields = 0
    for index, char in enumerate(text):
        if char in "0123456789":
            if digits == 1 and value == 0:
                raise _ParseError("IPv4 field has octet with leading zero")
            value = value * 10 + int(char)
            digits += 1
            if value > 255:
                raise _ParseError("IPv4 field has value >255")
        elif char == ".":
            if index in (0, len(text) - 1) or text[index - 1] == ".":
                raise _ParseError("IPv4 field must have at least one digit", text[index:])
            if fields == 3:
                raise _ParseError("IPv4 address too long")
            fields += 1
            value = digits = 0
        else:
            raise _ParseError("unexpected character", text[index:])
    if fields < 3:
        raise _ParseError("IPv4 address too short")


def _check_ipv6(text: str) -> None:
    rest, percent, zone = text.partition("%")
    if percent and not zone:
        raise _ParseError("zone must be a non-empty string")
    ellipsis = rest.startswith("::")
    rest = rest[2:] if ellipsis else rest
    groups = 0
    while rest:
        if groups == _GROUPS:
            raise _ParseError("trailing garbage after address", rest)
        after = _after_group(rest)
        if after.startswith("."):
            if not ellipsis and groups != _GROUPS - _EMBEDDED:
                raise _ParseError("embedded IPv4 address must replace the final 2 fields of the address", rest)
            if groups > _GROUPS - _EMBEDDED:
                raise _ParseError("too many hex fields to fit an embedded IPv4 at the end of the address", rest)
            _check_ipv4(rest)
            groups += _EMBEDDED
            break
        groups += 1
        rest, shortened = _after_colon(after)
        if shortened and ellipsis:
            raise _ParseError("multiple :: in address", f":{rest}")
        ellipsis |= shortened
    if groups < _GROUPS and not ellipsis:
        raise _ParseError("address string too short")
    if groups == _GROUPS and ellipsis:
        raise _ParseError("the :: must expand to at least one field of zeros")


def _after_group(rest: str) -> str:
    """Return the text after the leading hexadecimal digits."""
    found = _HEX.match(rest)
    size = found.end() if found else 0
    if size > 4:
        raise _ParseError("each group must have 4 or less digits", rest)
    if not size:
        raise _ParseError("each colon-separated field must have at least one digit", rest)
    return rest[size:]


def _after_colon(rest: str) -> tuple[str, bool]:
    """Return the text after the leading colon, and whether a second one followed."""
    if not rest:
        return "", False
    if rest[0] != ":":
        raise _ParseError("unexpected character, want colon", rest)
    if len(rest) == 1:
        raise _ParseError("colon must be followed by more characters", rest)
    return (rest[2:], True) if rest[1] == ":" else (rest[1:], False)
