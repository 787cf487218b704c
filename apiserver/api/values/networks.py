"""IP addresses and CIDRs of fields: the strict form, and the lax form of older fields (which permits leading zeros)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from apiserver.api.errors.field_errors import FieldError, Path, invalid

if TYPE_CHECKING:
    import ipaddress

__all__ = [
    "canonical_cidr",
    "canonical_interface",
    "canonical_ip",
    "cidr_family",
    "ip_family",
    "ip_texts",
    "is_plain_ipv4",
    "legacy_cidr",
    "legacy_ip",
    "parse_address",
    "parse_interface",
]

_CIDR = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"
_SUBNET = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
_ZEROS = "must not have leading 0s"
_MAPPED = "must not be an IPv4-mapped IPv6 address"
_IP = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"


_OCTET: Final = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_PLAIN: Final = re.compile(rf"{_OCTET}(?:\.{_OCTET}){{3}}").fullmatch


def is_plain_ipv4(text: str) -> bool:
    """Return whether a text is an IPv4 address in canonical form, as nearly all are."""
    return _PLAIN(text) is not None


def _without_zeros(address: str) -> str:
    """Return an address without leading zeros in its IPv4 octets."""
    octets = address.split(".")
    if len(octets) != 4 or not all(octet.isascii() and octet.isdigit() for octet in octets):
        return address
    return ".".join(str(int(octet)) for octet in octets)


def parse_interface(text: str) -> ipaddress.IPv4Interface | ipaddress.IPv6Interface | None:
    """Parse an address with a prefix length. Leading zeros of octets are allowed."""
    import ipaddress  # not needed for most objects

    address, slash, length = text.partition("/")
    if not slash or not (length.isascii() and length.isdigit()) or "%" in address:
        return None
    try:
        return ipaddress.ip_interface(f"{_without_zeros(address)}/{int(length)}")
    except ValueError:
        return None


def canonical_interface(path: Path, text: str) -> list[FieldError]:
    """Check an interface address in canonical form (host bits are kept)."""
    parsed = parse_interface(text)
    if parsed is None:
        return [invalid(path, text, _CIDR)]
    mapped = getattr(parsed.ip, "ipv4_mapped", None)
    # A mapped address is shown as its IPv4 address, with the rest of the prefix length in 32 bits.
    canonical = str(parsed) if mapped is None else f"{mapped}/{max(parsed.network.prefixlen - 96, 0)}"
    return [] if canonical == text else [invalid(path, text, f'must be in canonical form ("{canonical}")')]


def cidr_family(text: str) -> int:
    """Return 4 or 6, or 0 for an invalid CIDR."""
    parsed = parse_interface(text)
    return 0 if parsed is None else parsed.version


def legacy_cidr(path: Path, text: str, strict: bool = False) -> list[FieldError]:
    """Check a CIDR; `strict` as in `legacy_ip`."""
    parsed = parse_interface(text)
    if parsed is None:
        return [invalid(path, text, _SUBNET)]
    if not strict:
        return []
    address, _, length = text.partition("/")
    if str(int(length)) != length or (parsed.version == 4 and str(parsed.ip) != address):
        return [invalid(path, text, "must not have leading 0s in IP or prefix length")]
    if getattr(parsed.ip, "ipv4_mapped", None) is not None:
        return [invalid(path, text, "must not have an IPv4-mapped IPv6 address")]
    if parsed.ip != parsed.network.network_address:
        return [invalid(path, text, "must not have bits set beyond the prefix length")]
    return []


def parse_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Parse an address. Leading zeros of octets are allowed."""
    import ipaddress  # not needed for most objects

    try:
        return ipaddress.ip_address(_without_zeros(text)) if "%" not in text else None
    except ValueError:
        return None


def ip_family(text: str) -> int:
    """Return 4 or 6, or 0 for an invalid address."""
    if _PLAIN(text):
        return 4
    parsed = parse_address(text)
    return 0 if parsed is None else parsed.version


def legacy_ip(path: Path, text: str, strict: bool = False) -> list[FieldError]:
    """Check an address.

    `strict` (gate StrictIPCIDRValidation) also rejects forms that parsers read differently.
    """
    if _PLAIN(text):
        return []
    parsed = parse_address(text)
    if parsed is None:
        return [invalid(path, text, _IP)]
    if strict and parsed.version == 4 and str(parsed) != text:
        return [invalid(path, text, _ZEROS)]
    if strict and getattr(parsed, "ipv4_mapped", None) is not None:
        return [invalid(path, text, _MAPPED)]
    return []


def ip_texts(text: str) -> list[str]:
    """Return the errors of an address that must be in canonical form."""
    if _PLAIN(text):
        return []
    parsed = parse_address(text)
    if parsed is None:
        return [_IP]
    if parsed.version == 4 and str(parsed) != text:
        return [_ZEROS]
    if getattr(parsed, "ipv4_mapped", None) is not None:
        return [_MAPPED]
    return [] if str(parsed) == text else [f'must be in canonical form ("{parsed}")']


def canonical_ip(path: Path, text: str) -> list[FieldError]:
    """Check an address in canonical form."""
    return [invalid(path, text, wrong) for wrong in ip_texts(text)]


def canonical_cidr(path: Path, text: str) -> list[FieldError]:
    """Check a CIDR in canonical form."""
    parsed = parse_interface(text)
    errors = legacy_cidr(path, text, strict=True)
    if errors or parsed is None or str(parsed.network) == text:
        return errors
    return [invalid(path, text, f'must be in canonical form ("{parsed.network}")')]
