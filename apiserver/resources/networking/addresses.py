"""Define IPAddresses, which name the owner of an address, and ServiceCIDRs, the address ranges of services."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from apiserver.api.errors.field_errors import FieldError, Path, invalid, required
from apiserver.api.objects import Json
from apiserver.api.types.addresses import V1, V1BETA1
from apiserver.api.validation.changes import changes
from apiserver.api.validation.internal_values import internal
from apiserver.api.values.networks import canonical_cidr, cidr_family
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.metadata import keep_metadata_for_status
from apiserver.registry.definition.resource import Column, Resource, Subresource, Version, prerelease
from apiserver.registry.definition.strategy import Strategy
from apiserver.resources.common.columns import AGE, NAME, name_and_age
from apiserver.resources.common.core_rules import RULES

__all__ = ["IP_ADDRESSES", "SERVICE_CIDRS"]


_CIDRS: Final = Path("spec") / "cidrs"
_CHANGES: Final = changes(V1.IPAddressSpec)
_FIXED: Final = "field is immutable"


class IPAddressStrategy(Strategy):
    name_rule = "ip"

    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        return RULES.of(V1.IPAddressSpec).errors(Path("spec"), obj["spec"])

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        return self.validate(ctx, obj) + _CHANGES.errors(Path("spec"), obj["spec"], old["spec"])


def _cidrs(spec: Json) -> list[FieldError]:
    cidrs = spec.get("cidrs") or []
    if not cidrs:
        return [required(_CIDRS, "at least one CIDR required")]
    if len(cidrs) > 2:
        return [invalid(_CIDRS, internal(V1.ServiceCIDRSpec, spec), "may only hold up to 2 values")]
    errors = [error for index, cidr in enumerate(cidrs) for error in canonical_cidr(_CIDRS[index], cidr)]
    families = [cidr_family(cidr) for cidr in cidrs]
    if len(families) == 2 and families[0] == families[1] != 0:
        text = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"
        errors.append(invalid(_CIDRS, cidrs, text))
    return errors


class ServiceCIDRStrategy(Strategy):
    revalidates_metadata = False
    reset_fields = ("status",)

    def prepare_for_create(self, ctx: Context, obj: Json) -> None:
        if ctx.features.enabled("ServiceCIDRStatusFieldWiping"):
            obj["status"] = {}

    def prepare_for_update(self, ctx: Context, obj: Json, old: Json) -> None:
        if ctx.features.enabled("ServiceCIDRStatusFieldWiping"):
            obj["status"] = old["status"]

    def prepare_for_status_update(self, ctx: Context, obj: Json, old: Json) -> None:
        obj["spec"] = old["spec"]
        keep_metadata_for_status(obj, old)

    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        return _cidrs(obj["spec"])

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        """Allow only the addition of a range of a second family."""
        new, before = obj["spec"].get("cidrs") or [], old["spec"].get("cidrs") or []
        if len(new) != len(before) and (len(before), len(new)) != (1, 2):
            return [invalid(_CIDRS, obj["spec"].get("cidrs"), _FIXED)]
        errors = [invalid(_CIDRS[index], new[index], _FIXED) for index, cidr in enumerate(before) if new[index] != cidr]
        return errors if len(new) == len(before) else errors + _cidrs(obj["spec"])


def _parent_cell(obj: Json) -> str:
    parent = obj["spec"].get("parentRef")
    if parent is None:
        return "<none>"
    resource = ".".join(filter(None, (parent.get("resource", ""), parent.get("group", "")))).lower()
    return "/".join((*filter(None, (resource, parent.get("namespace", ""))), parent.get("name", "")))


def _versions(kind: str) -> tuple[Version, ...]:
    return (
        Version(name="v1", schema=getattr(V1, kind), introduced=(1, 33)),
        prerelease("v1beta1", getattr(V1BETA1, kind), (1, 31)),
    )  # fmt: skip


IP_ADDRESSES: Final = Resource(
    group="networking.k8s.io", kind="IPAddress", plural="ipaddresses", singular="ipaddress", namespaced=False,
    short_names=("ip",), versions=_versions("IPAddress"),
    strategy=IPAddressStrategy(), storage_prefix="ipaddresses",
    columns=(
        NAME,
        Column(name="ParentRef", cell=_parent_cell, description="Object that uses the address."),
        # Rows include the age, but the column definitions do not, as upstream's.
        replace(AGE, is_defined=False),
    ),
)  # fmt: skip
SERVICE_CIDRS: Final = Resource(
    group="networking.k8s.io", kind="ServiceCIDR", plural="servicecidrs", singular="servicecidr", namespaced=False,
    versions=_versions("ServiceCIDR"),
    strategy=ServiceCIDRStrategy(), storage_prefix="servicecidrs",
    columns=name_and_age(
        Column(name="CIDRs", cell=lambda obj: ",".join(obj["spec"].get("cidrs") or ()), description="Address ranges."),
    ),
    subresources=(Subresource(name="status"),),
)  # fmt: skip
