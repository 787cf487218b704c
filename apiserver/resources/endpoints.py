"""Endpoints of services, as their author writes them: nothing here fills them. Rules: pkg/apis/core/validation
(ValidateEndpoints).
"""

from __future__ import annotations

from typing import Any, Final

from apiserver.api.equality import semantic_equal
from apiserver.api.fielderrors import FieldError, Path, go_quote, invalid, required
from apiserver.api.networks import ip_family, legacy_ip, parse_address
from apiserver.api.schema import ListOf
from apiserver.api.types.core.endpoints import EndpointAddress, EndpointPort, Endpoints, EndpointSubset
from apiserver.registry.context import Context
from apiserver.registry.resource import Column, Resource, Version
from apiserver.registry.strategy import Strategy
from apiserver.resources.columns import name_and_age
from apiserver.resources.corerules import RULES

Json = dict[str, Any]

_SUBSETS: Final = Path("subsets")
_ADDRESSES: Final = ("addresses", "notReadyAddresses")
_SHOWN: Final = 3
#: Who writes endpoints as a mirror of slices need not be told about them.
_MANAGED_BY: Final = ("endpoints.kubernetes.io/managed-by", "endpoint-controller")


def _special(path: Path, text: str) -> list[FieldError]:
    """Addresses that reach nobody else."""
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


def _address(path: Path, address: Json, strict: bool) -> list[FieldError]:
    errors = legacy_ip(path / "ip", address.get("ip", ""), strict)
    return errors + RULES.of(EndpointAddress).errors(path, address) + _special(path / "ip", address.get("ip", ""))


def _port(path: Path, port: Json, named: bool) -> list[FieldError]:
    missing = [required(path / "name")] if named and not port.get("name") else []
    return missing + RULES.of(EndpointPort).errors(path, port)


def _subsets(subsets: list[Json], strict: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, subset in enumerate(subsets):
        at, ports = _SUBSETS[index], subset.get("ports") or []
        if not any(subset.get(field) for field in _ADDRESSES):
            errors.append(required(at, "must specify `addresses` or `notReadyAddresses`"))
        for field in _ADDRESSES:
            for position, address in enumerate(subset.get(field) or ()):
                errors += _address((at / field)[position], address, strict)
        for position, port in enumerate(ports):
            errors += _port((at / "ports")[position], port, named=len(ports) > 1)
    return errors


def _odd_address(path: Path, text: str) -> list[str]:
    """Forms of an address that not everybody reads in the same way."""
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


class EndpointsStrategy(Strategy):
    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        return _subsets(obj.get("subsets") or [], ctx.features.enabled("StrictIPCIDRValidation"))

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        """What has not changed was accepted before."""
        errors = self.validate(ctx, obj)
        return (
            [] if errors and semantic_equal(ListOf(EndpointSubset), obj.get("subsets"), old.get("subsets")) else errors
        )

    def warnings_on_create(self, ctx: Context, obj: Json) -> list[str]:
        if (obj["metadata"].get("labels") or {}).get(_MANAGED_BY[0]) == _MANAGED_BY[1]:
            return []
        return [
            text
            for index, subset in enumerate(obj.get("subsets") or ())
            for field in _ADDRESSES
            for position, address in enumerate(subset.get(field) or ())
            for text in _odd_address((_SUBSETS[index] / field)[position] / "ip", address.get("ip", ""))
        ]

    def warnings_on_update(self, ctx: Context, obj: Json, old: Json) -> list[str]:
        return self.warnings_on_create(ctx, obj)


def _cell(obj: Json) -> str:
    subsets = obj.get("subsets")
    if not subsets:
        return "<none>"
    listed = [
        ip if port is None else f"[{ip}]:{port}" if ip_family(ip) == 6 else f"{ip}:{port}"
        for subset in subsets
        for port in ([port.get("port", 0) for port in subset.get("ports") or ()] or [None])
        for ip in (address.get("ip", "") for address in subset.get("addresses") or ())
    ]
    shown = ",".join(listed[:_SHOWN])
    return f"{shown} + {len(listed) - _SHOWN} more..." if len(listed) > _SHOWN else shown


ENDPOINTS: Final = Resource(
    group="",
    kind="Endpoints",
    plural="endpoints",
    singular="endpoints",
    namespaced=True,
    short_names=("ep",),
    versions=(
        Version(
            name="v1",
            schema=Endpoints,
            deprecated=(1, 33),
            successor="discovery.k8s.io/v1 EndpointSlice",
        ),
    ),
    strategy=EndpointsStrategy(),
    storage_prefix="services/endpoints",
    columns=name_and_age(Column(name="Endpoints", cell=_cell, description="The first addresses, with their ports.")),
    create_on_update=True,
)
