"""Validate services. Rules: pkg/apis/core/validation (ValidateService), in its order."""

from __future__ import annotations

from typing import Final, NamedTuple

from apiserver.api.errors.field_errors import (
    FieldError,
    Named,
    Path,
    duplicate,
    forbidden,
    invalid,
    required,
)
from apiserver.api.features.gates import Features
from apiserver.api.objects import Json
from apiserver.api.schema.markers import Enum, Forbidden, If, Invalid, Required, differs, equals, is_set, knows
from apiserver.api.types.core.services import LoadBalancerIngress, ServicePort, ServiceSpec
from apiserver.api.validation.compile import At
from apiserver.api.validation.formats import FORMATS
from apiserver.api.validation.internal_values import internal
from apiserver.api.validation.items import each_item, each_unique
from apiserver.api.values.networks import legacy_cidr, legacy_ip
from apiserver.resources.common.addresses import (
    BALANCER_ADDRESSES,
    balancer_addresses,
    reachable,
    validate_balancer_addresses,
)
from apiserver.resources.common.core_rules import RULES
from apiserver.resources.common.template_metadata import validate_labels
from apiserver.resources.services.familyrules import address_errors
from apiserver.resources.services.shape import externally_accessible, is_headless, needs_health_check

__all__ = ["validate_change", "validate_service", "validate_status"]

Errors = list[FieldError]

_SPEC: Final = Path("spec")
_ANNOTATIONS: Final = Path("metadata") / "annotations"
_HINTS: Final = "service.kubernetes.io/topology-aware-hints"
_MODE: Final = "service.kubernetes.io/topology-mode"
_RANGES: Final = "service.beta.kubernetes.io/load-balancer-source-ranges"
_FOR_BALANCERS: Final = "may only be used when `type` is 'LoadBalancer'"
_SET: Final = "may not change once set"
_PREFERS: Final = is_set("trafficDistribution")


class _Env(NamedTuple):
    """The service, the stored one, and the features of the server."""

    obj: Json
    old: Json | None
    features: Features

    @property
    def strict(self) -> bool:
        return self.features.enabled("StrictIPCIDRValidation")


def validate_service(obj: Json, old: Json | None, features: Features) -> Errors:
    """Validate a service. Stored addresses and ranges may stay as they are."""
    errors = _topology(obj["metadata"].get("annotations") or {})
    before = {} if old is None else old["spec"]
    return errors + RULES.of(ServiceSpec).errors(_SPEC, obj["spec"], _Env(obj, old, features), before)


def validate_change(obj: Json, old: Json) -> Errors:
    """Validate changes of immutable fields, before all other rules."""
    spec, before = obj["spec"], old["spec"]
    if "ExternalName" in (spec.get("type"), before.get("type")):
        errors: Errors = []
    else:
        errors = _changed_addresses(spec, before) + _changed_families(spec, before)
    balancers = spec.get("type") == before.get("type") == "LoadBalancer"
    if balancers and spec.get("loadBalancerClass") != before.get("loadBalancerClass"):
        errors.append(invalid(_SPEC / "loadBalancerClass", spec.get("loadBalancerClass"), _SET))
    if spec.get("loadBalancerClass") is not None:
        errors += _balancer_class(RULES.of(ServiceSpec).at(_SPEC, spec))
    if (
        needs_health_check(before)
        and needs_health_check(spec)
        and spec.get("healthCheckNodePort", 0) != before.get("healthCheckNodePort", 0)
    ):
        errors.append(forbidden(_SPEC / "healthCheckNodePort", "field is immutable"))
    return errors


def _changed_addresses(spec: Json, before: Json) -> Errors:
    if is_headless(spec) and is_headless(before):
        return []
    new, old = spec.get("clusterIPs") or [], before.get("clusterIPs") or []
    path, shown = _SPEC / "clusterIPs", spec.get("clusterIPs")
    if len(new) == len(old):
        return [invalid(path[index], shown, _SET) for index, ip in enumerate(old) if new[index] != ip]
    errors: Errors = []
    if not new:
        errors.append(invalid(path[0], shown, "primary clusterIP can not be unset"))
    elif old and new[0] != old[0]:
        errors.append(invalid(path[0], shown, _SET))
    if len(new) == 1 < len(old):
        errors += _releasing(spec, "secondary clusterIP")
    return errors


def _changed_families(spec: Json, before: Json) -> Errors:
    if is_headless(spec) or is_headless(before):
        return []
    new, old = spec.get("ipFamilies") or [], before.get("ipFamilies") or []
    path = (_SPEC / "ipFamilies")[0]
    if len(new) == len(old):
        return [invalid(path, new, _SET) for index, family in enumerate(old) if new[index] != family]
    errors: Errors = []
    if len(new) < len(old) and not spec.get("clusterIPs"):
        errors.append(invalid(path, spec.get("ipFamilies"), "primary ipFamily can not be unset"))
    if old and new and new[0] != old[0]:
        errors.append(invalid(path, spec.get("clusterIPs"), _SET))
    if len(new) == 1 < len(old):
        errors += _releasing(spec, "secondary ipFamily")
    return errors


def _releasing(spec: Json, what: str) -> Errors:
    policy = spec.get("ipFamilyPolicy")
    if policy == "SingleStack":
        return []
    shown = None if policy is None else Named(policy)
    return [invalid(_SPEC / "ipFamilyPolicy", shown, f"must be set to 'SingleStack' when releasing the {what}")]


def _topology(annotations: Json) -> Errors:
    hints, mode = annotations.get(_HINTS), annotations.get(_MODE)
    if hints is None or mode is None or hints == mode:
        return []
    return [invalid(_ANNOTATIONS.key(_MODE), mode, f"must match annotations[{_HINTS}] when both are specified")]


def _headless(at: At) -> Errors:
    kind = at.value.get("type", "")
    if kind not in ("LoadBalancer", "NodePort") or not is_headless(at.value):
        return []
    return [invalid((at.path / "clusterIPs")[0], "None", f"may not be set to 'None' for {kind} services")]


def _external_name(at: At) -> Errors:
    name, path = at.value.get("externalName", "").removesuffix("."), at.path / "externalName"
    return FORMATS["subdomain"].errors(path, name) if name else [required(path)]


def _ports(at: At) -> Errors:
    errors: Errors = []
    ports = at.value["ports"]
    for path, port, is_repeated in each_unique(at.path / "ports", ports, "name"):
        here, name = RULES.of(ServicePort).at(path, port), port.get("name", "")
        if not name:
            errors += [required(path / "name")] if len(ports) > 1 else []
        else:
            errors += here.field("name")
            errors += [duplicate(path / "name", name)] if is_repeated else []
        errors += here.fields("port", "protocol", "targetPort", "appProtocol")
    return errors


def _node_ports(at: At) -> Errors:
    ports = [
        each
        for each in each_unique(at.path / "ports", at.value["ports"], "protocol", "nodePort")
        if each[1].get("nodePort")
    ]
    text = "may not be used when `type` is 'ClusterIP'"
    errors = [forbidden(path / "nodePort", text) for path, _, _ in ports if at.value.get("type") == "ClusterIP"]
    return errors + [duplicate(path / "nodePort", port["nodePort"]) for path, port, is_repeated in ports if is_repeated]


def _repeated_ports(at: At) -> Errors:
    """Reject repeated ports. The error shows only the fields that identify a port."""
    return [
        duplicate(
            path,
            internal(ServicePort, {"protocol": port.get("protocol", ""), "port": port.get("port", 0), "targetPort": 0}),
        )
        for path, port, is_repeated in each_unique(at.path / "ports", at.value["ports"], "protocol", "port")
        if is_repeated
    ]


def _selector(at: At) -> Errors:
    return validate_labels(at.value["selector"], at.path / "selector")


def _addresses(at: At) -> Errors:
    return address_errors(at.value, at.old or {}, at.env.strict)


def _external_ips(at: At) -> Errors:
    errors: Errors = []
    stored = (at.old or {}).get("externalIPs") or ()
    for path, address in each_item(at.path / "externalIPs", at.value["externalIPs"]):
        errors += ([] if address in stored else legacy_ip(path, address, at.env.strict)) or reachable(path, address)
    return errors


def _source_ranges(at: At) -> Errors:
    """Validate the source ranges. The field's path is capitalized, as upstream's is."""
    (obj, old, _), strict = at.env, at.env.strict
    spec, ranges = obj["spec"], obj["spec"].get("loadBalancerSourceRanges")
    balancer = spec.get("type") == "LoadBalancer"
    if ranges:
        path = _SPEC / "LoadBalancerSourceRanges"
        errors = [] if balancer else [forbidden(path, _FOR_BALANCERS)]
        known = {text.strip() for text in ((old or {}).get("spec") or {}).get("loadBalancerSourceRanges") or ()}
        for index, text in enumerate(map(str.strip, ranges)):
            errors += [] if text in known else legacy_cidr(path[index], text, strict)
        return errors
    annotated = (obj["metadata"].get("annotations") or {}).get(_RANGES)
    if annotated is None:
        return []
    path = _ANNOTATIONS.key(_RANGES)
    errors = [] if balancer else [forbidden(path, _FOR_BALANCERS)]
    if annotated.strip() and (old is None or (old["metadata"].get("annotations") or {}).get(_RANGES) != annotated):
        for text in annotated.split(","):
            errors += legacy_cidr(path, text.strip(), strict)
    return errors


def _node_port_allocation(at: At) -> Errors:
    """Validate the choice whether node ports are allocated. Upstream's path of a missing one has no parent."""
    name, for_balancer = "allocateLoadBalancerNodePorts", at.value.get("type") == "LoadBalancer"
    if for_balancer is (at.value.get(name) is not None):
        return []
    return [required(Path(name)) if for_balancer else forbidden(at.path / name, _FOR_BALANCERS)]


def _balancer_class(at: At) -> Errors:
    if at.value.get("type") == "LoadBalancer":
        return at.field("loadBalancerClass")
    return [forbidden(at.path / "loadBalancerClass", _FOR_BALANCERS)]


def validate_status(obj: Json, old: Json, features: Features) -> Errors:
    """Validate the addresses of a load balancer."""
    if balancer_addresses(obj) and obj["spec"].get("type") != "LoadBalancer":
        return [forbidden(BALANCER_ADDRESSES, "may only be used when `spec.type` is 'LoadBalancer'")]
    return validate_balancer_addresses(LoadBalancerIngress, obj, old, features)


_TRAFFIC: Final = (
    If(
        lambda at: externally_accessible(at.value),
        (Required("externalTrafficPolicy"), "externalTrafficPolicy"),
        otherwise=(
            Invalid(
                "externalTrafficPolicy", "may only be set for externally-accessible services",
                when=is_set("externalTrafficPolicy"),
            ),
        ),
    ),
    If(
        lambda at: needs_health_check(at.value),
        (Required("healthCheckNodePort"), "healthCheckNodePort"),
        otherwise=(
            Invalid(
                "healthCheckNodePort",
                "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'",
                when=is_set("healthCheckNodePort"),
            ),
        ),
    ),
    Required("internalTrafficPolicy", when=equals("type", "NodePort", "LoadBalancer", "ClusterIP")),
    "internalTrafficPolicy",
    If(
        knows(lambda env: env.features.enabled("PreferSameTrafficDistribution")),
        (Enum("trafficDistribution", ("PreferClose", "PreferSameZone", "PreferSameNode"), when=_PREFERS),),
        otherwise=(Enum("trafficDistribution", ("PreferClose",), when=_PREFERS),),
    ),
)  # fmt: skip
RULES.set(ServicePort, by_rules=tuple(ServicePort.fields))
RULES.set(
    ServiceSpec,
    Required("ports", when=(differs("type", "ExternalName"), lambda at: not is_headless(at.value))),
    _headless,
    If(
        equals("type", "ExternalName"),
        (
            *(
                Forbidden(name, "may not be set for ExternalName services")
                for name in ("clusterIPs", "ipFamilies", "ipFamilyPolicy")
            ),
            _external_name,
        ),
    ),
    ("ports", _ports), ("selector", _selector), "sessionAffinity",
    If(equals("sessionAffinity", "ClientIP"), ("sessionAffinityConfig",)),
    _addresses, ("externalIPs", _external_ips), "type", ("ports", _node_ports), ("ports", _repeated_ports),
    _source_ranges, _node_port_allocation, ("loadBalancerClass", _balancer_class), *_TRAFFIC,
    by_rules=("ipFamilies", "ipFamilyPolicy"),
)  # fmt: skip
RULES.set(
    LoadBalancerIngress,
    If(
        is_set("ip"),
        (
            Required("ipMode", "must be specified when `ip` is set"),
            Enum("ipMode", ("Proxy", "VIP"), when=is_set("ipMode")),
        ),
        otherwise=(Forbidden("ipMode", "may not be specified when `ip` is not set"),),
    ),
    "hostname",
    by_rules=("ports",),
)
