"""IP addresses and networks."""

from __future__ import annotations

import re
from collections.abc import Callable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import Final

from apiserver.api.errors.field_errors import go_quote
from apiserver.cel.language.declarations import Function, function, method, overload
from apiserver.cel.language.types import BOOL, INT, STRING, opaque
from apiserver.cel.language.values import CelError, LibraryValue
from apiserver.cel.library.netip import parse_address

IP_TYPE: Final = opaque("net.IP")
CIDR_TYPE: Final = opaque("net.CIDR")


class IP(LibraryValue):
    """An address without a zone."""

    __slots__ = ("address",)
    type_name = "net.IP"

    def __init__(self, address: IPv4Address | IPv6Address) -> None:
        self.address = address

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IP) and self.address == other.address

    def __hash__(self) -> int:
        return hash(self.address)

    def size(self) -> int:
        """Return the bytes of the address."""
        return self.address.max_prefixlen // 8


class CIDR(LibraryValue):
    """An address with the length of its network's prefix."""

    __slots__ = ("address", "bits")
    type_name = "net.CIDR"

    def __init__(self, address: IPv4Address | IPv6Address, bits: int) -> None:
        self.address, self.bits = address, bits

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CIDR) and (self.address, self.bits) == (other.address, other.bits)

    def __hash__(self) -> int:
        return hash((self.address, self.bits))

    def size(self) -> int:
        """Return the bytes of the prefix."""
        return -(-self.bits // 8)

    @property
    def network(self) -> IPv4Network | IPv6Network:
        """The network of the prefix."""
        return ip_network(f"{self.address}/{self.bits}", strict=False)


def _is_mapped(address: IPv4Address | IPv6Address) -> bool:
    return isinstance(address, IPv6Address) and address.ipv4_mapped is not None


def _parse_ip(text: str) -> IP:
    try:
        address = parse_address(text)
    except ValueError as error:
        raise CelError(f"IP Address {go_quote(text)} parse error during conversion from string: {error}") from None
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        raise CelError(f"IP address {go_quote(text)} with zone value is not allowed")
    if _is_mapped(address):
        raise CelError(f"IPv4-mapped IPv6 address {go_quote(text)} is not allowed")
    return IP(address)


def _parse_cidr(text: str) -> CIDR:
    prefix = "network address parse error during conversion from string: "

    def wrong(reason: str) -> CelError:
        return CelError(f"{prefix}{prefix}netip.ParsePrefix({go_quote(text)}): {reason}")

    address_text, slash, bits_text = text.rpartition("/")
    if not slash:
        raise wrong("no '/'")
    try:
        address = parse_address(address_text)
    except ValueError as error:
        raise wrong(str(error)) from None
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        raise wrong("IPv6 zones cannot be present in a prefix")
    if not re.fullmatch(r"0|[1-9][0-9]*", bits_text):
        raise wrong(f"bad bits after slash: {go_quote(bits_text)}")
    bits = int(bits_text[:4])
    if bits > address.max_prefixlen:
        raise wrong("prefix length out of range")
    if _is_mapped(address):
        raise CelError(f"{prefix}IPv4-mapped IPv6 address {go_quote(text)} is not allowed")
    return CIDR(address, bits)


def _succeeds(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def test(text: str) -> bool:
        try:
            parse(text)
        except CelError:
            return False
        return True

    return test


def _contains_ip(network: CIDR, address: IP) -> bool:
    return network.address.version == address.address.version and address.address in network.network


def _address_of(text: str) -> IP:
    """Parse an address; report a failure as an argument of the wrong type, as upstream does."""
    try:
        return _parse_ip(text)
    except CelError:
        raise CelError("no such overload") from None


def _contains_cidr(network: CIDR, other: CIDR) -> bool:
    if network.address.version != other.address.version or network.bits > other.bits:
        return False
    return other.network.network_address in network.network


def _is_global_unicast(value: IP) -> bool:
    address = value.address
    broadcast = address == IPv4Address("255.255.255.255")
    return not (
        address.is_unspecified or broadcast or address.is_loopback or address.is_multicast or address.is_link_local
    )


def _mask(value: CIDR) -> CIDR:
    return CIDR(value.network.network_address, value.bits)


def _is_link_local_multicast(value: IP) -> bool:
    if isinstance(value.address, IPv4Address):
        return value.address in IPv4Network("224.0.0.0/24")
    packed = value.address.packed
    return packed[0] == 0xFF and packed[1] & 0x0F == 0x02


def ips() -> list[Function]:
    """Return the declarations of ip, isIP and the properties of addresses."""

    def question(name: str, id: str, read: Callable[[IP], bool]) -> Function:
        return function(name, method(id, (IP_TYPE,), BOOL, read))

    return [
        function("ip", overload("string_to_ip", (STRING,), IP_TYPE, _parse_ip)),
        function("family", method("ip_family", (IP_TYPE,), INT, lambda value: value.address.version)),
        function(
            "ip.isCanonical",
            overload("ip_is_canonical", (STRING,), BOOL, lambda text: str(_parse_ip(text).address) == text),
        ),
        question("isUnspecified", "ip_is_unspecified", lambda value: value.address.is_unspecified),
        question("isLoopback", "ip_is_loopback", lambda value: value.address.is_loopback),
        question("isLinkLocalMulticast", "ip_is_link_local_multicast", _is_link_local_multicast),
        question("isLinkLocalUnicast", "ip_is_link_local_unicast", lambda value: value.address.is_link_local),
        question("isGlobalUnicast", "ip_is_global_unicast", _is_global_unicast),
        function("isIP", overload("is_ip", (STRING,), BOOL, _succeeds(_parse_ip))),
        function("string", overload("ip_to_string", (IP_TYPE,), STRING, lambda value: str(value.address))),
    ]


def cidrs() -> list[Function]:
    """Return the declarations of cidr, isCIDR and the methods of networks."""
    return [
        function("cidr", overload("string_to_cidr", (STRING,), CIDR_TYPE, _parse_cidr)),
        function(
            "containsIP",
            method(
                "cidr_contains_ip_string", (CIDR_TYPE, STRING), BOOL,
                lambda network, text: _contains_ip(network, _address_of(text)),
            ),
            method("cidr_contains_ip_ip", (CIDR_TYPE, IP_TYPE), BOOL, _contains_ip),
        ),
        function(
            "containsCIDR",
            method(
                "cidr_contains_cidr_string", (CIDR_TYPE, STRING), BOOL,
                lambda network, text: _contains_cidr(network, _parse_cidr(text)),
            ),
            method("cidr_contains_cidr", (CIDR_TYPE, CIDR_TYPE), BOOL, _contains_cidr),
        ),
        function("ip", method("cidr_ip", (CIDR_TYPE,), IP_TYPE, lambda value: IP(value.address))),
        function("prefixLength", method("cidr_prefix_length", (CIDR_TYPE,), INT, lambda value: value.bits)),
        function("masked", method("cidr_masked", (CIDR_TYPE,), CIDR_TYPE, _mask)),
        function("isCIDR", overload("is_cidr", (STRING,), BOOL, _succeeds(_parse_cidr))),
        function(
            "string", overload("cidr_to_string", (CIDR_TYPE,), STRING, lambda value: f"{value.address}/{value.bits}")
        ),
    ]  # fmt: skip
