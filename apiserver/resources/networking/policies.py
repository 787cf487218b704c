"""Define NetworkPolicies. The network plugin of a cluster enforces them."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from datetime import datetime
from typing import Final, NamedTuple

from apiserver.api.errors.field_errors import FieldError, Named, Path, invalid, not_supported
from apiserver.api.objects import Json
from apiserver.api.schema.markers import Forbidden, If, Invalid, Required, UntilError, is_any_set, is_set, is_unset
from apiserver.api.selectors.selectors import format_object
from apiserver.api.types.meta import ANY_VALUE
from apiserver.api.types.networking import (
    IPBlock,
    NetworkPolicy,
    NetworkPolicyPeer,
    NetworkPolicyPort,
    NetworkPolicySpec,
)
from apiserver.api.validation.compile import At, Rule
from apiserver.api.validation.items import each_item
from apiserver.api.values.networks import legacy_cidr, parse_interface
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.resource import Column, Resource, Version
from apiserver.registry.definition.strategy import Strategy
from apiserver.resources.common.addresses import subnet_warnings
from apiserver.resources.common.columns import name_and_age
from apiserver.resources.common.core_rules import RULES, validate_label_selector

__all__ = ["NETWORK_POLICIES"]

_Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_SPEC: Final = Path("spec")
#: The field of the peers by the field of the rules.
_RULES: Final = (("ingress", "from"), ("egress", "to"))
_TYPES: Final = ("Ingress", "Egress")


def default(obj: Json, now: datetime) -> None:
    spec = obj["spec"]
    if not spec.get("policyTypes"):
        spec["policyTypes"] = list(_TYPES) if spec.get("egress") else ["Ingress"]


class _Env(NamedTuple):
    """Context of the rules. Invalid ranges and label values of the stored policy may stay."""

    known: frozenset[str]
    strict: bool
    selectors: str | None

    def network(self, path: Path, text: str) -> tuple[list[FieldError], _Network | None]:
        """Return the errors of a CIDR, and its network."""
        parsed = parse_interface(text)
        errors = [] if text in self.known else legacy_cidr(path, text, self.strict)
        return errors, None if parsed is None else parsed.network


def _errors(ctx: Context, obj: Json, old: Json | None) -> list[FieldError]:
    strict = ctx.features.enabled("StrictIPCIDRValidation")
    env = _Env(frozenset(), strict, None)
    if old is not None:
        odd_selector = validate_label_selector(Path(), old["spec"].get("podSelector") or {})
        known = frozenset(text for _, text in _ranges(old["spec"]))
        env = _Env(known, strict, ANY_VALUE if odd_selector else None)
    return RULES.of(NetworkPolicySpec).errors(_SPEC, obj["spec"], env)


def _selectors(*names: str) -> Rule:
    return lambda at: [error for name in names for error in at.field(name, at.env.selectors)]


def _end_port(at: At) -> list[FieldError]:
    """Require an ascending range. The error shows the first port, as upstream's does."""
    port = at.value["port"]
    too_low = at.value["endPort"] < port
    errors = [invalid(at.path / "endPort", port, "must be greater than or equal to `port`")] if too_low else []
    return errors + at.field("endPort")


def _block(at: At) -> list[FieldError]:
    errors: list[FieldError]
    errors, whole = at.env.network(at.path / "cidr", at.value["cidr"])
    if whole is None:
        return errors
    for path, part in each_item(at.path / "except", at.value.get("except")):
        wrong, inner = at.env.network(path, part)
        errors += wrong
        if inner is not None and not _strictly_inside(inner, whole):
            errors.append(invalid(path, part, "must be a strict subset of `cidr`"))
    return errors


def _strictly_inside(inner: _Network, whole: _Network) -> bool:
    return inner.version == whole.version and inner.network_address in whole and whole.prefixlen < inner.prefixlen


def _policy_types(at: At) -> list[FieldError]:
    path, types = at.path / "policyTypes", at.value["policyTypes"]
    if len(types) > len(_TYPES):
        return [invalid(path, types, "may not specify more than two policyTypes")]
    return [not_supported(here, Named(kind), _TYPES) for here, kind in each_item(path, types) if kind not in _TYPES]


RULES.set(
    NetworkPolicySpec, _selectors("podSelector"), "ingress", "egress", ("policyTypes", _policy_types),
    by_rules=("podSelector",),
)  # fmt: skip
RULES.set(
    NetworkPolicyPort,
    "protocol",
    If(
        lambda at: isinstance(at.value.get("port"), int),
        ("port", ("endPort", _end_port)),
        otherwise=(
            Invalid("endPort", "may not be specified when `port` is non-numeric", when=is_set("endPort", "port")),
            Invalid(
                "endPort", "may not be specified when `port` is not specified",
                when=(is_set("endPort"), is_unset("port")),
            ),
            "port",
        ),
    ),
)  # fmt: skip
_PEERS: Final = ("podSelector", "namespaceSelector")
RULES.set(
    NetworkPolicyPeer,
    _selectors(*_PEERS),
    Required("", "must specify a peer", when=is_unset(*_PEERS, "ipBlock")),
    "ipBlock",
    Forbidden("", "may not specify both ipBlock and another peer", when=(is_set("ipBlock"), is_any_set(*_PEERS))),
    by_rules=_PEERS,
)
RULES.set(IPBlock, UntilError((Required("cidr"), _block)))


def _ranges(spec: Json) -> Iterator[tuple[Path, str]]:
    """Yield all CIDRs with their paths."""
    for direction, whom in _RULES:
        for rule_path, rule in each_item(_SPEC / direction, spec.get(direction)):
            for peer_path, peer in each_item(rule_path / whom, rule.get(whom)):
                block = peer.get("ipBlock")
                if block is not None:
                    yield peer_path / "ipBlock" / "cidr", block.get("cidr", "")
                    yield from each_item(peer_path / "ipBlock" / "except", block.get("except"))


class NetworkPolicyStrategy(Strategy):
    revalidates_metadata = False

    def prepare_for_create(self, ctx: Context, obj: Json) -> None:
        obj["metadata"]["generation"] = 1

    def prepare_for_update(self, ctx: Context, obj: Json, old: Json) -> None:
        if obj["spec"] != old["spec"]:
            obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1

    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        return _errors(ctx, obj, None)

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        return _errors(ctx, obj, old)

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
