"""Validate addresses of endpoints and services beyond their syntax.

The rules cover unreachable addresses and ambiguous notations. Rules: pkg/apis/core/validation (ValidateEndpointIP),
apimachinery/pkg/util/validation (ip.go).
"""

from __future__ import annotations

from typing import Final

from apiserver.api.errors.field_errors import FieldError, Path, go_quote, invalid
from apiserver.api.features.gates import Features
from apiserver.api.objects import Json
from apiserver.api.schema.language import Struct
from apiserver.api.validation.items import each_item
from apiserver.api.values.networks import is_plain_ipv4, legacy_ip, parse_address, parse_interface
from apiserver.resources.common.core_rules import RULES

__all__ = [
    "BALANCER_ADDRESSES",
    "address_warnings",
    "balancer_addresses",
    "reachable",
    "subnet_warnings",
    "validate_balancer_addresses",
]

BALANCER_ADDRESSES: Final = Path("status") / "loadBalancer" / "ingress"


def balancer_addresses(obj: Json) -> list[Json]:
    """Return the load balancer's addresses in the status of a service or an ingress."""
    return ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []


def validate_balancer_addresses(kind: Struct, obj: Json, old: Json, features: Features) -> list[FieldError]:
    """Validate the load balancer's addresses by their type. Stored addresses may stay as they are."""
    known = {item.get("ip") for item in balancer_addresses(old)}
    errors: list[FieldError] = []
    for path, item in each_item(BALANCER_ADDRESSES, balancer_addresses(obj)):
        if item.get("ip") and item["ip"] not in known:
            errors += legacy_ip(path / "ip", item["ip"], features.enabled("StrictIPCIDRValidation"))
        errors += RULES.of(kind).errors(path, item)
    return errors


def reachable(path: Path, text: str) -> list[FieldError]:
    """Reject addresses that other hosts cannot reach."""
    address = parse_address(text)
    if address is None:
        return [invalid(path, text, "must be a valid IP address")]
    errors: list[FieldError] = []
    if address.is_unspecified:
        errors.append(invalid(path, text, f"may not be unspecified ({text})"))
    if address.is_loopback:
        errors.append(invalid(path, text, "may not be in the loopback range (127.0.0.0/8, ::1/128)"))
    if address.is_link_local:
        errors.append(invalid(path, text, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"))
    bits = address.packed
    if bits[:3] == b"\xe0\x00\x00" if address.version == 4 else bits[0] == 0xFF and bits[1] & 0x0F == 2:
        errors.append(invalid(path, text, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"))
    return errors


def address_warnings(path: Path, text: str) -> list[str]:
    """Warn of an address in an ambiguous or non-canonical form."""
    if is_plain_ipv4(text):
        return []
    address = parse_address(text)
    if address is None:
        return []
    mapped = getattr(address, "ipv4_mapped", None)
    if mapped is not None or (address.version == 4 and str(address) != text):
        return [f"{path}: non-standard IP address {go_quote(text)} is invalid: use {go_quote(str(mapped or address))}"]
    if str(address) != text:
        return [
            f"{path}: IPv6 address {go_quote(text)} should be in RFC 5952 canonical format ({go_quote(str(address))})"
        ]
    return []


def subnet_warnings(path: Path, text: str) -> list[str]:
    """Warn of a CIDR in an ambiguous or non-canonical form, or with address bits beyond its prefix."""
    parsed = parse_interface(text)
    if parsed is None:
        return []
    mapped = getattr(parsed.ip, "ipv4_mapped", None)
    network = parsed.network
    shown = str(network) if mapped is None else f"{mapped}/{max(network.prefixlen - 96, 0)}"
    warnings = []
    if parsed.ip != network.network_address:
        alone = f"{parsed.ip}/{parsed.max_prefixlen}"
        warnings.append(
            f"{path}: CIDR value {go_quote(text)} is ambiguous in this context (should be {go_quote(shown)} or"
            f" {go_quote(alone)}?)"
        )
    if mapped is not None or (parsed.version == 4 and f"{parsed.ip}/{network.prefixlen}" != text):
        warnings.append(f"{path}: non-standard CIDR value {go_quote(text)} is invalid: use {go_quote(shown)}")
    elif not warnings and f"{parsed.ip}/{network.prefixlen}" != text:
        warnings.append(
            f"{path}: IPv6 CIDR value {go_quote(text)} should be in RFC 5952 canonical format ({go_quote(shown)})"
        )
    return warnings
