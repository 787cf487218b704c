"""Define EndpointSlices (discovery.k8s.io).

Rules: pkg/apis/discovery/validation, pkg/registry/discovery/endpointslice.
"""

from __future__ import annotations

from typing import Any, Final

from apiserver.api.errors.field_errors import (
    FieldError,
    Path,
    duplicate,
    invalid,
    too_many,
)
from apiserver.api.objects import Json
from apiserver.api.schema.dropping import drop_disabled
from apiserver.api.schema.equality import semantic_equal
from apiserver.api.schema.language import ListOf
from apiserver.api.schema.markers import Required
from apiserver.api.types.endpointslices import Endpoint, EndpointHints, EndpointPort, EndpointSlice
from apiserver.api.validation.changes import changes
from apiserver.api.validation.compile import At, most_items
from apiserver.api.validation.items import each_item, each_unique
from apiserver.api.values.names import dns_subdomain, fully_qualified_domain_name, label_value
from apiserver.api.values.networks import canonical_ip, ip_family, legacy_ip
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.resource import Column, Resource, Version
from apiserver.registry.definition.strategy import Strategy
from apiserver.resources.common.addresses import address_warnings, reachable
from apiserver.resources.common.columns import name_and_age
from apiserver.resources.common.core_rules import RULES
from apiserver.resources.common.template_metadata import validate_labels

_SHOWN: Final = 3
_TOPOLOGY_LIMIT: Final = 16
_ZONE: Final = "topology.kubernetes.io/zone"
_HOSTNAME: Final = "kubernetes.io/hostname"
_ENDPOINTS: Final = Path("endpoints")
_MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
#: Controllers that copy addresses which were already validated.
_CONTROLLERS: Final = ("endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io")
_CHANGES: Final = changes(EndpointSlice)


def _addresses(at: At) -> list[FieldError]:
    """Validate addresses. `env` is the address type and whether notations of addresses are strict."""
    (kind, strict), path, errors = at.env, at.path / "addresses", at.field("addresses")
    for here, address in each_item(path, at.value.get("addresses")):
        if kind == "FQDN":
            errors += fully_qualified_domain_name(here, address)
        elif kind in ("IPv4", "IPv6"):
            wrong = legacy_ip(here, address, strict) if kind == "IPv4" else canonical_ip(here, address)
            errors += wrong
            if not wrong and ip_family(address) != int(kind[-1]):
                errors.append(invalid(path, address, f"must be an {kind} address"))
            errors += [] if wrong else reachable(here, address)
    return errors


def _topology(at: At) -> list[FieldError]:
    labels, path = at.value.get("deprecatedTopology") or {}, at.path / "deprecatedTopology"
    errors = [too_many(path, len(labels), _TOPOLOGY_LIMIT)] if len(labels) > _TOPOLOGY_LIMIT else []
    return errors + validate_labels(labels, path)


def _names_once(path: Path, items: list[Json], check: Any) -> list[FieldError]:
    errors: list[FieldError] = []
    for at, item, is_repeated in each_unique(path, items, "name"):
        name = item.get("name", "")
        if is_repeated:
            errors.append(duplicate(at / "name", name))
        errors += [invalid(at / "name", name, text) for text in check(name)]
    return errors


def _hints(at: At) -> list[FieldError]:
    """Validate the hints. If there are too many zones or nodes, stop there."""
    errors: list[FieldError] = []
    for field, check in (("forZones", label_value), ("forNodes", dns_subdomain)):
        items, most = at.value.get(field) or [], most_items(EndpointHints, field)
        if len(items) > most:
            return [*errors, too_many(at.path / field, len(items), most)]
        errors += _names_once(at.path / field, items, check)
    return errors


def _ports(ports: list[Json]) -> list[FieldError]:
    path, most = Path("ports"), most_items(EndpointSlice, "ports")
    if len(ports) > most:
        return [too_many(path, len(ports), most)]
    errors: list[FieldError] = []
    for at, port, is_repeated in each_unique(path, ports, "name"):
        checks, name = RULES.of(EndpointPort), port.get("name", "")
        errors += checks.at(at, port).field("name")
        if is_repeated:
            errors.append(duplicate(at / "name", name))
        errors += checks.errors(at, port)
    return errors


RULES.set(EndpointHints, _hints, by_rules=("forZones", "forNodes"))
RULES.set(EndpointPort, Required("protocol"), "protocol", "appProtocol", by_rules=("name",))
RULES.set(Endpoint, _addresses, "nodeName", _topology, "hostname", "hints", by_rules=("addresses",))
RULES.set(EndpointSlice, "addressType", "endpoints", by_rules=("ports",))


def _same_endpoints(obj: Json, old: Json | None) -> bool:
    return old is not None and semantic_equal(ListOf(Endpoint), obj.get("endpoints"), old.get("endpoints"))


def _drop_topology(obj: Json, old: Json | None) -> None:
    """Drop the deprecated topology. A node that the stored topology names moves to nodeName."""
    endpoints = obj.get("endpoints") or ()
    if _same_endpoints(obj, old):
        return
    before = (old or {}).get("endpoints") or ()
    known = {(endpoint.get("deprecatedTopology") or {}).get(_HOSTNAME) for endpoint in before} - {None, ""}
    for endpoint in endpoints:
        node = (endpoint.pop("deprecatedTopology", None) or {}).get(_HOSTNAME)
        if node and node in known and endpoint.get("nodeName") is None and not dns_subdomain(node):
            endpoint["nodeName"] = node


class EndpointSliceStrategy(Strategy):
    compares_metadata = False

    def prepare_for_create(self, ctx: Context, obj: Json) -> None:
        obj["metadata"]["generation"] = 1
        drop_disabled(ctx, obj, None)
        _drop_topology(obj, None)

    def prepare_for_update(self, ctx: Context, obj: Json, old: Json) -> None:
        metadata, before = obj["metadata"], old["metadata"]
        same = (metadata.get("labels") or {}) == (before.get("labels") or {}) and all(
            semantic_equal(EndpointSlice.fields[name].type, obj.get(name), old.get(name))
            for name in ("addressType", "endpoints", "ports")
        )
        if not same:
            metadata["generation"] = before.get("generation", 0) + 1
        drop_disabled(ctx, obj, old)
        _drop_topology(obj, old)

    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        return self._errors(ctx, obj, None)

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        return self._errors(ctx, obj, old) + _CHANGES.errors(Path(), obj, old)

    def _errors(self, ctx: Context, obj: Json, old: Json | None) -> list[FieldError]:
        """Validate a slice. Unchanged endpoints were accepted before."""
        at = RULES.of(EndpointSlice).at(Path(), obj)
        env = obj.get("addressType", ""), ctx.features.enabled("StrictIPCIDRValidation")
        errors = at.field("addressType") + _ports(obj.get("ports") or [])
        wrong = at.field("endpoints", env)
        return errors if wrong and _same_endpoints(obj, old) else errors + wrong

    def warnings_on_create(self, ctx: Context, obj: Json) -> list[str]:
        deprecated = obj.get("addressType") == "FQDN"
        return (["spec.addressType: FQDN endpoints are deprecated"] if deprecated else []) + _odd_addresses(obj)

    def warnings_on_update(self, ctx: Context, obj: Json, old: Json) -> list[str]:
        return _odd_addresses(obj)


def _odd_addresses(obj: Json) -> list[str]:
    if (obj["metadata"].get("labels") or {}).get(_MANAGED_BY) in _CONTROLLERS:
        return []
    return [
        text
        for index, endpoint in enumerate(obj.get("endpoints") or ())
        for position, address in enumerate(endpoint.get("addresses") or ())
        for text in address_warnings((_ENDPOINTS[index] / "addresses")[position], address)
    ]


def _shortened(items: list[str]) -> str:
    shown = ",".join(items[:_SHOWN])
    return f"{shown} + {len(items) - _SHOWN} more..." if len(items) > _SHOWN else shown or "<unset>"


def _port_cell(obj: Json) -> str:
    return _shortened([str(port.get("port", port.get("name", "*"))) for port in obj.get("ports") or ()])


def _endpoint_cell(obj: Json) -> str:
    return _shortened([ip for endpoint in obj.get("endpoints") or () for ip in endpoint.get("addresses") or ()])


ENDPOINT_SLICES: Final = Resource(
    group="discovery.k8s.io", kind="EndpointSlice", plural="endpointslices", singular="endpointslice", namespaced=True,
    versions=(Version(name="v1", schema=EndpointSlice),),
    strategy=EndpointSliceStrategy(), storage_prefix="endpointslices",
    columns=name_and_age(
        Column(name="AddressType", cell=lambda obj: obj.get("addressType", ""), description="Type of the addresses."),
        Column(name="Ports", cell=_port_cell, description="The first ports."),
        Column(name="Endpoints", cell=_endpoint_cell, description="The first addresses."),
    ),
)  # fmt: skip
