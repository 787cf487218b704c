"""Define Endpoints of services. Rules: pkg/apis/core/validation (ValidateEndpoints)."""

from __future__ import annotations

from typing import Final

from apiserver.api.errors.field_errors import FieldError, Path, required
from apiserver.api.objects import Json
from apiserver.api.schema.equality import semantic_equal
from apiserver.api.schema.language import ListOf
from apiserver.api.types.core.endpoints import EndpointAddress, EndpointPort, Endpoints, EndpointSubset
from apiserver.api.values.networks import ip_family, legacy_ip
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.resource import Column, Resource, Version
from apiserver.registry.definition.strategy import Strategy
from apiserver.resources.common.addresses import address_warnings, reachable
from apiserver.resources.common.columns import name_and_age
from apiserver.resources.common.core_rules import RULES

_SUBSETS: Final = Path("subsets")
_ADDRESSES: Final = ("addresses", "notReadyAddresses")
_SHOWN: Final = 3
#: Endpoints with this label mirror slices, so their writer gets no deprecation warning.
_MANAGED_BY: Final = ("endpoints.kubernetes.io/managed-by", "endpoint-controller")


def _address(path: Path, address: Json, strict: bool) -> list[FieldError]:
    errors = legacy_ip(path / "ip", address.get("ip", ""), strict)
    return errors + RULES.of(EndpointAddress).errors(path, address) + reachable(path / "ip", address.get("ip", ""))


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


class EndpointsStrategy(Strategy):
    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        return _subsets(obj.get("subsets") or [], ctx.features.enabled("StrictIPCIDRValidation"))

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        """Validate an update. Unchanged subsets were accepted before."""
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
            for text in address_warnings((_SUBSETS[index] / field)[position] / "ip", address.get("ip", ""))
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
