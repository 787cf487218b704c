"""Validate and choose the IP families of services.

Rules: pkg/apis/core/validation (ValidateServiceClusterIPsRelatedFields), pkg/registry/core/service/storage.
"""

from __future__ import annotations

from typing import Final

from apiserver.api.errors.field_errors import FieldError, Named, Path, duplicate, invalid, not_supported, required
from apiserver.api.objects import Json
from apiserver.api.values.networks import ip_family, legacy_ip
from apiserver.resources.services.shape import (
    has_addresses,
    is_headless,
    needs_health_check,
    same_fields,
    takes_node_ports,
)

__all__ = ["address_errors", "choose_families", "complete_new", "keep_allocated", "unchanged_dual_stack"]

Errors = list[FieldError]

_SPEC: Final = Path("spec")
_ADDRESSES: Final = _SPEC / "clusterIPs"
_FAMILIES: Final = _SPEC / "ipFamilies"
_POLICY: Final = _SPEC / "ipFamilyPolicy"
_KNOWN: Final = ("IPv4", "IPv6")
_POLICIES: Final = ("PreferDualStack", "RequireDualStack", "SingleStack")


def family_of(address: str) -> str:
    return "IPv6" if ip_family(address) == 6 else "IPv4"


def _other(family: str) -> str:
    return "IPv6" if family == "IPv4" else "IPv4"


def address_errors(spec: Json, before: Json, strict: bool) -> Errors:
    """Validate addresses, families and their policy."""
    if not has_addresses(spec):
        return []
    addresses, families, policy = spec.get("clusterIPs") or [], spec.get("ipFamilies") or [], spec.get("ipFamilyPolicy")
    errors: Errors = []
    if spec.get("clusterIP"):
        if not addresses:
            errors.append(required(_ADDRESSES))
        elif addresses[0] != spec["clusterIP"]:
            errors.append(invalid(_ADDRESSES, addresses, "first value must match `clusterIP`"))
    elif addresses:
        errors.append(invalid(_ADDRESSES, addresses, "must be empty when `clusterIP` is not specified"))
    for index, family in enumerate(families):
        if family not in _KNOWN:
            errors.append(not_supported(_FAMILIES[index], Named(family), _KNOWN))
        if family in families[:index]:
            errors.append(duplicate(_FAMILIES[index], Named(family)))
    if policy is not None and policy not in _POLICIES:
        errors.append(not_supported(_POLICY, Named(policy), _POLICIES))
    wrong = _forms(addresses, before.get("clusterIPs") or [], strict)
    errors += wrong
    if len(addresses) > 2:
        errors.append(invalid(_ADDRESSES, addresses, "may only hold up to 2 values"))
    return errors if wrong else errors + _together(spec, addresses, families)


def _forms(addresses: list[str], before: list[str], strict: bool) -> Errors:
    errors: Errors = []
    for index, address in enumerate(addresses):
        if index == 0 and address == "None":
            if len(addresses) > 1:
                errors.append(invalid(_ADDRESSES, addresses, "'None' must be the first and only value"))
        elif address not in before:
            errors += legacy_ip(_ADDRESSES[index], address, strict)
    return errors


def _together(spec: Json, addresses: list[str], families: list[str]) -> Errors:
    errors: Errors = []
    if len(addresses) > 1 and {ip_family(address) for address in addresses} != {4, 6}:
        errors.append(invalid(_ADDRESSES, addresses, "may specify no more than one IP for each IP family"))
    if is_headless(spec):
        return errors
    for index, (address, family) in enumerate(zip(addresses, families, strict=False)):
        if family in _KNOWN and family != family_of(address):
            text = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
            errors.append(invalid(_ADDRESSES[index], address, text))
    return errors


def complete_new(spec: Json) -> None:
    """Copy clusterIP to clusterIPs."""
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]


def keep_allocated(spec: Json, old: Json) -> None:
    """Keep allocated values that an update leaves out. clusterIPs follows clusterIP."""
    if has_addresses(spec) and has_addresses(old):
        if not spec.get("clusterIP") and old.get("clusterIP"):
            spec["clusterIP"] = old["clusterIP"]
        if not spec.get("clusterIPs") and old.get("clusterIPs"):
            spec["clusterIPs"] = list(old["clusterIPs"])
    if takes_node_ports(spec) and takes_node_ports(old):
        _keep_node_ports(spec, old)
    if needs_health_check(spec) and needs_health_check(old) and old.get("healthCheckNodePort"):
        spec.setdefault("healthCheckNodePort", old["healthCheckNodePort"])
    address, before = spec.get("clusterIP", ""), old.get("clusterIP", "")
    if old.get("clusterIPs") and not spec.get("clusterIPs") and address == before:
        spec["clusterIPs"] = list(old["clusterIPs"])
    if address != before and same_fields(spec, old, "clusterIPs"):
        if before and not address:
            spec.pop("clusterIPs", None)
        else:
            spec["clusterIPs"] = [address]


def _keep_node_ports(spec: Json, old: Json) -> None:
    """Keep the node ports of ports with the same name, unless another port requests the number."""
    before = {port.get("name", ""): port.get("nodePort", 0) for port in old.get("ports") or ()}
    ports = spec.get("ports") or ()
    used = {port["nodePort"] for port in ports if port.get("nodePort")} & set(before.values())
    for port in ports:
        kept = before.get(port.get("name", ""), 0)
        if not port.get("nodePort") and kept and kept not in used:
            port["nodePort"] = kept


def unchanged_dual_stack(spec: Json, old: Json | None) -> bool:
    """Return whether a PreferDualStack service is unchanged, so that changed cluster families do not affect it."""
    return (
        old is not None
        and spec.get("type") == old.get("type")
        and spec.get("type") in ("ClusterIP", "NodePort", "LoadBalancer")
        and spec.get("ipFamilyPolicy") == "PreferDualStack"
        and old.get("ipFamilyPolicy") in (None, "PreferDualStack")
        and same_fields(spec, old, "clusterIPs", "ipFamilies")
    )


def choose_families(spec: Json, old: Json | None, families: tuple[str, ...], strict: bool) -> Errors:
    """Set policy and families, and return the errors. `families` are the cluster's, default first."""
    if not has_addresses(spec) or unchanged_dual_stack(spec, old):
        return []
    bare = spec.get("clusterIP") == "None" and not spec.get("selector")
    if spec.get("ipFamilyPolicy") is None:
        before = None if old is None else old.get("ipFamilyPolicy")
        spec["ipFamilyPolicy"] = before or ("RequireDualStack" if bare else "SingleStack")
    errors = address_errors(spec, old or {}, strict)
    if errors:
        return errors
    errors = _policy_errors(spec, old) + _families_of_addresses(spec, families)
    if errors:
        return errors
    if not bare:
        errors = _configured(spec, families)
        if errors:
            return errors
    chosen = spec.get("ipFamilies") or [families[0]]
    if len(chosen) == 1 and spec["ipFamilyPolicy"] != "SingleStack" and (bare or len(families) == 2):
        chosen = [*chosen, _other(chosen[0])]
    spec["ipFamilies"] = chosen
    return []


def _policy_errors(spec: Json, old: Json | None) -> Errors:
    policy = spec["ipFamilyPolicy"]
    shown, errors, single = Named(policy), list[FieldError](), policy == "SingleStack"
    for name, what in (("clusterIPs", "cluster IP"), ("ipFamilies", "IP family")):
        before = (old or {}).get(name) or []
        if single:
            if len(spec.get(name) or ()) > 1 and old is not None and same_fields(spec, old, name):
                spec[name] = spec[name][:1]
        elif 0 < len(spec.get(name) or ()) < len(before):
            errors.append(invalid(_POLICY, shown, f"must be 'SingleStack' to release the secondary {what}"))
    if single:
        errors += [
            invalid(
                _POLICY, shown, f"must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified"
            )
            for name, what in (("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families"))
            if len(spec.get(name) or ()) == 2
        ]
    return errors


def _families_of_addresses(spec: Json, families: tuple[str, ...]) -> Errors:
    """Derive missing families from the addresses, and return the errors."""
    errors: Errors = []
    addresses, chosen = spec.get("clusterIPs") or [], list(spec.get("ipFamilies") or [])
    for index, address in enumerate(addresses):
        if address == "None":
            break
        if index >= len(chosen):
            family = family_of(address)
            if family in families:
                chosen.append(family)
            else:
                errors.append(invalid(_ADDRESSES[index], addresses, f"{family} is not configured on this cluster"))
    if chosen:
        spec["ipFamilies"] = chosen
    return errors


def _configured(spec: Json, families: tuple[str, ...]) -> Errors:
    errors: Errors = []
    if spec["ipFamilyPolicy"] == "RequireDualStack" and len(families) < 2:
        text = "this cluster is not configured for dual-stack services"
        errors.append(invalid(_POLICY, Named("RequireDualStack"), text))
    for index, family in enumerate(spec.get("ipFamilies") or ()):
        if family not in families:
            errors.append(invalid(_FAMILIES[index], Named(family), "not configured on this cluster"))
    return errors
