"""IP addresses and CIDRs as fields hold them: the strict form, and the laxer one of older fields (leading zeros pass
there).
"""

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
    """Whether a text is an IPv4 address in its one written form, as nearly all are: nothing is wrong with it."""
    return _PLAIN(text) is not None


def _without_zeros(address: str) -> str:
    """IPv4 octets without leading zeros."""
    octets = address.split(".")
    if len(octets) != 4 or not all(octet.isascii() and octet.isdigit() for octet in octets):
        return address
    return ".".join(str(int(octet)) for octet in octets)


def parse_interface(text: str) -> ipaddress.IPv4Interface | ipaddress.IPv6Interface | None:
    """An address with a prefix length, leading zeros of octets allowed."""
    import ipaddress  # not needed for most objects

    address, slash, length = text.partition("/")
    if not slash or not (length.isascii() and length.isdigit()) or "%" in address:
        return None
    try:
        return ipaddress.ip_interface(f"{_without_zeros(address)}/{int(length)}")
    except ValueError:
        return None


def canonical_interface(path: Path, text: str) -> list[FieldError]:
    """An interface address in its one written form (host bits stay)."""
    parsed = parse_interface(text)
    if parsed is None:
        return [invalid(path, text, _CIDR)]
    mapped = getattr(parsed.ip, "ipv4_mapped", None)
    # A mapped address is shown as the IPv4 address that it is, with what is left of the prefix length in 32 bits.
    canonical = str(parsed) if mapped is None else f"{mapped}/{max(parsed.network.prefixlen - 96, 0)}"
    return [] if canonical == text else [invalid(path, text, f'must be in canonical form ("{canonical}")')]


def cidr_family(text: str) -> int:
    """4 or 6, 0 when it is none."""
    parsed = parse_interface(text)
    return 0 if parsed is None else parsed.version


def legacy_cidr(path: Path, text: str, strict: bool = False) -> list[FieldError]:
    """A range of addresses; `strict` as in `legacy_ip`."""
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
    """An address, leading zeros of octets allowed."""
    import ipaddress  # not needed for most objects

    try:
        return ipaddress.ip_address(_without_zeros(text)) if "%" not in text else None
    except ValueError:
        return None


def ip_family(text: str) -> int:
    """4 or 6, 0 when it is no address."""
    if _PLAIN(text):
        return 4
    parsed = parse_address(text)
    return 0 if parsed is None else parsed.version


def legacy_ip(path: Path, text: str, strict: bool = False) -> list[FieldError]:
    """An address; `strict` (gate StrictIPCIDRValidation), and forms that not everybody reads in the same way are
    refused.
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
    """What is wrong with an address that has to be in its one written form."""
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
    """An address in its one written form."""
    return [invalid(path, text, wrong) for wrong in ip_texts(text)]


def canonical_cidr(path: Path, text: str) -> list[FieldError]:
    """A range of addresses in its one written form."""
    parsed = parse_interface(text)
    errors = legacy_cidr(path, text, strict=True)
    if errors or parsed is None or str(parsed.network) == text:
        return errors
    return [invalid(path, text, f'must be in canonical form ("{parsed.network}")')]
