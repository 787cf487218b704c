"""Define NetworkPolicies. The network plugin of a cluster enforces them."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from apiserver.api.errors.field_errors import FieldError, Named, Path, forbidden, invalid, not_supported, required
from apiserver.api.objects import Json
from apiserver.api.selectors.selectors import format_object
from apiserver.api.types.networking import NetworkPolicy
from apiserver.api.values.names import port_name
from apiserver.api.values.networks import legacy_cidr, parse_interface
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.resource import Column, Resource, Version
from apiserver.registry.definition.strategy import Strategy
from apiserver.resources.common.addresses import subnet_warnings
from apiserver.resources.common.columns import name_and_age
from apiserver.resources.common.core_rules import validate_label_selector

__all__ = ["NETWORK_POLICIES"]

_Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_SPEC: Final = Path("spec")
#: The field of the peers by the field of the rules.
_RULES: Final = (("ingress", "from"), ("egress", "to"))
_TYPES: Final = ("Ingress", "Egress")
_PROTOCOLS: Final = ("TCP", "UDP", "SCTP")


def default(obj: Json, now: datetime) -> None:
    spec = obj["spec"]
    if not spec.get("policyTypes"):
        spec["policyTypes"] = list(_TYPES) if spec.get("egress") else ["Ingress"]


def _number(path: Path, number: int) -> list[FieldError]:
    return [] if 1 <= number <= 65535 else [invalid(path, number, "must be between 1 and 65535, inclusive")]


def _port(path: Path, item: Json) -> list[FieldError]:
    protocol, port, end = item.get("protocol"), item.get("port"), item.get("endPort")
    errors: list[FieldError] = []
    if protocol is not None and protocol not in _PROTOCOLS:
        errors.append(not_supported(path / "protocol", Named(protocol), _PROTOCOLS))
    if isinstance(port, int):
        errors += _number(path / "port", port)
        if end is not None:
            if end < port:
                errors.append(invalid(path / "endPort", port, "must be greater than or equal to `port`"))
            errors += _number(path / "endPort", end)
    elif port is not None:
        if end is not None:
            errors.append(invalid(path / "endPort", end, "may not be specified when `port` is non-numeric"))
        errors += [invalid(path / "port", port, text) for text in port_name(port)]
    elif end is not None:
        errors.append(invalid(path / "endPort", end, "may not be specified when `port` is not specified"))
    return errors


class _Rules:
    """The rules of one policy. `old` is the stored policy, whose invalid ranges and label values may stay."""

    def __init__(self, old: Json | None, strict: bool) -> None:
        self._strict = strict
        self._known = set() if old is None else {text for _, text in _ranges(old["spec"])}
        self._any_value = old is not None and bool(
            validate_label_selector(Path(), old["spec"].get("podSelector") or {})
        )

    def errors(self, spec: Json) -> list[FieldError]:
        errors = self._selector(_SPEC / "podSelector", spec.get("podSelector") or {})
        for direction, whom in _RULES:
            for index, rule in enumerate(spec.get(direction) or ()):
                path = (_SPEC / direction)[index]
                for position, port in enumerate(rule.get("ports") or ()):
                    errors += _port((path / "ports")[position], port)
                for position, peer in enumerate(rule.get(whom) or ()):
                    errors += self._peer((path / whom)[position], peer)
        return errors + _policy_types(spec.get("policyTypes") or [])

    def _selector(self, path: Path, selector: Json) -> list[FieldError]:
        return validate_label_selector(path, selector, any_value=self._any_value)

    def _peer(self, path: Path, peer: Json) -> list[FieldError]:
        errors: list[FieldError] = []
        chosen = [name for name in ("podSelector", "namespaceSelector") if peer.get(name) is not None]
        for name in chosen:
            errors += self._selector(path / name, peer[name])
        block = peer.get("ipBlock")
        if block is None:
            return errors if chosen else [*errors, required(path, "must specify a peer")]
        errors += self._block(path / "ipBlock", block)
        return [*errors, forbidden(path, "may not specify both ipBlock and another peer")] if chosen else errors

    def _block(self, path: Path, block: Json) -> list[FieldError]:
        text = block.get("cidr", "")
        if not text:
            return [required(path / "cidr")]
        errors, whole = self._range(path / "cidr", text)
        if whole is None:
            return errors
        for index, part in enumerate(block.get("except") or ()):
            at = (path / "except")[index]
            wrong, inner = self._range(at, part)
            errors += wrong
            if inner is not None and not _strictly_inside(inner, whole):
                errors.append(invalid(at, part, "must be a strict subset of `cidr`"))
        return errors

    def _range(self, path: Path, text: str) -> tuple[list[FieldError], _Network | None]:
        parsed = parse_interface(text)
        errors = [] if text in self._known else legacy_cidr(path, text, self._strict)
        return errors, None if parsed is None else parsed.network


def _strictly_inside(inner: _Network, whole: _Network) -> bool:
    return inner.version == whole.version and inner.network_address in whole and whole.prefixlen < inner.prefixlen


def _policy_types(types: list[str]) -> list[FieldError]:
    path = _SPEC / "policyTypes"
    if len(types) > len(_TYPES):
        return [invalid(path, types, "may not specify more than two policyTypes")]
    return [not_supported(path[index], Named(kind), _TYPES) for index, kind in enumerate(types) if kind not in _TYPES]


def _ranges(spec: Json) -> Iterator[tuple[Path, str]]:
    """Yield all CIDRs with their paths."""
    for direction, whom in _RULES:
        for index, rule in enumerate(spec.get(direction) or ()):
            for position, peer in enumerate(rule.get(whom) or ()):
                block = peer.get("ipBlock")
                if block is not None:
                    path = ((_SPEC / direction)[index] / whom)[position] / "ipBlock"
                    yield path / "cidr", block.get("cidr", "")
                    for number, part in enumerate(block.get("except") or ()):
                        yield (path / "except")[number], part


class NetworkPolicyStrategy(Strategy):
    revalidates_metadata = False

    def prepare_for_create(self, ctx: Context, obj: Json) -> None:
        obj["metadata"]["generation"] = 1

    def prepare_for_update(self, ctx: Context, obj: Json, old: Json) -> None:
        if obj["spec"] != old["spec"]:
            obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1

    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        return _Rules(None, ctx.features.enabled("StrictIPCIDRValidation")).errors(obj["spec"])

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        return _Rules(old, ctx.features.enabled("StrictIPCIDRValidation")).errors(obj["spec"])

    def warnings_on_create(self, ctx: Context, obj: Json) -> list[str]:
        return [warning for path, text in _ranges(obj["spec"]) for warning in subnet_warnings(path, text)]

    def warnings_on_update(self, ctx: Context, obj: Json, old: Json) -> list[str]:
        return self.warnings_on_create(ctx, obj)


NETWORK_POLICIES: Final = Resource(
    group="networking.k8s.io", kind="NetworkPolicy", plural="networkpolicies", singular="networkpolicy",
    namespaced=True, short_names=("netpol",),
    versions=(Version(name="v1", schema=NetworkPolicy, default=default),),
    strategy=NetworkPolicyStrategy(), storage_prefix="networkpolicies",
    columns=name_and_age(
        Column(name="Pod-Selector", cell=lambda obj: format_object(obj["spec"].get("podSelector") or {}),
            description="Selector of the pods."),
    ),
)  # fmt: skip
