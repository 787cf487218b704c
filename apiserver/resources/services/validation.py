"""Validate services. Rules: pkg/apis/core/validation (ValidateService), in its order."""

from __future__ import annotations

from typing import Final

from apiserver.api.errors.field_errors import (
    FieldError,
    Named,
    Path,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from apiserver.api.features.gates import Features
from apiserver.api.objects import Json
from apiserver.api.values.names import dns_label, dns_subdomain, label_key, port_name
from apiserver.api.values.networks import legacy_cidr, legacy_ip, parse_address
from apiserver.resources.common.addresses import reachable
from apiserver.resources.common.template_metadata import validate_labels
from apiserver.resources.services.familyrules import address_errors
from apiserver.resources.services.shape import externally_accessible, is_headless, needs_health_check

__all__ = ["validate_change", "validate_service", "validate_status"]

Errors = list[FieldError]

_SPEC: Final = Path("spec")
_ANNOTATIONS: Final = Path("metadata") / "annotations"
_INGRESS: Final = Path("status") / "loadBalancer" / "ingress"
_TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_AFFINITY_LIMIT: Final = 86400
_HINTS: Final = "service.kubernetes.io/topology-aware-hints"
_MODE: Final = "service.kubernetes.io/topology-mode"
_RANGES: Final = "service.beta.kubernetes.io/load-balancer-source-ranges"
_FOR_BALANCERS: Final = "may only be used when `type` is 'LoadBalancer'"
_SET: Final = "may not change once set"


def validate_service(obj: Json, old: Json | None, features: Features) -> Errors:
    """Validate a service. Stored addresses and ranges may stay as they are."""
    spec, strict = obj["spec"], features.enabled("StrictIPCIDRValidation")
    before = {} if old is None else old["spec"]
    errors = _topology(obj["metadata"].get("annotations") or {}) + _type_rules(spec)
    errors += _ports(spec.get("ports") or [])
    errors += validate_labels(spec.get("selector") or {}, _SPEC / "selector")
    errors += _affinity(spec) + address_errors(spec, before, strict)
    for index, address in enumerate(spec.get("externalIPs") or ()):
        at = (_SPEC / "externalIPs")[index]
        known = address in (before.get("externalIPs") or ())
        errors += ([] if known else legacy_ip(at, address, strict)) or reachable(at, address)
    errors += _kind(spec) + _node_ports(spec) + _repeated_ports(spec)
    errors += _source_ranges(obj, old, strict)
    if spec.get("type") == "LoadBalancer":
        if spec.get("allocateLoadBalancerNodePorts") is None:
            errors.append(required(Path("allocateLoadBalancerNodePorts")))
    elif spec.get("allocateLoadBalancerNodePorts") is not None:
        errors.append(forbidden(_SPEC / "allocateLoadBalancerNodePorts", _FOR_BALANCERS))
    return errors + _balancer_class(spec) + _traffic(spec, features)


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
    errors += _balancer_class(spec)
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


def _type_rules(spec: Json) -> Errors:
    kind, headless = spec.get("type", ""), is_headless(spec)
    errors: Errors = []
    if not spec.get("ports") and kind != "ExternalName" and not headless:
        errors.append(required(_SPEC / "ports"))
    if headless and kind in ("LoadBalancer", "NodePort"):
        errors.append(invalid((_SPEC / "clusterIPs")[0], "None", f"may not be set to 'None' for {kind} services"))
    if kind == "ExternalName":
        errors += [
            forbidden(_SPEC / name, "may not be set for ExternalName services")
            for name in ("clusterIPs", "ipFamilies", "ipFamilyPolicy")
            if spec.get(name)
        ]
        name = spec.get("externalName", "").removesuffix(".")
        if not name:
            errors.append(required(_SPEC / "externalName"))
        errors += [invalid(_SPEC / "externalName", name, text) for text in (dns_subdomain(name) if name else ())]
    return errors


def _kind(spec: Json) -> Errors:
    kind = spec.get("type", "")
    if not kind:
        return [required(_SPEC / "type")]
    return [] if kind in _TYPES else [not_supported(_SPEC / "type", Named(kind), _TYPES)]


def _number(path: Path, number: int) -> Errors:
    return [] if 1 <= number <= 65535 else [invalid(path, number, "must be between 1 and 65535, inclusive")]


def _ports(ports: list[Json]) -> Errors:
    errors: Errors = []
    names: set[str] = set()
    for index, port in enumerate(ports):
        path = (_SPEC / "ports")[index]
        name, protocol, target = port.get("name", ""), port.get("protocol", ""), port.get("targetPort")
        if not name:
            errors += [required(path / "name")] if len(ports) > 1 else []
        else:
            errors += [invalid(path / "name", name, text) for text in dns_label(name)]
            errors += [duplicate(path / "name", name)] if name in names else []
            names.add(name)
        errors += _number(path / "port", port.get("port", 0))
        if not protocol:
            errors.append(required(path / "protocol"))
        elif protocol not in _PROTOCOLS:
            errors.append(not_supported(path / "protocol", Named(protocol), _PROTOCOLS))
        if isinstance(target, int):
            errors += _number(path / "targetPort", target)
        elif isinstance(target, str):
            errors += [invalid(path / "targetPort", target, text) for text in port_name(target)]
        spoken = port.get("appProtocol")
        if spoken is not None:
            errors += [invalid(path / "appProtocol", spoken, text) for text in label_key(spoken)]
    return errors


def _node_ports(spec: Json) -> Errors:
    errors: Errors = []
    ports = [(port, (_SPEC / "ports")[index] / "nodePort") for index, port in enumerate(spec.get("ports") or ())]
    if spec.get("type") == "ClusterIP":
        text = "may not be used when `type` is 'ClusterIP'"
        errors += [forbidden(path, text) for port, path in ports if port.get("nodePort")]
    seen: set[tuple[str, int]] = set()
    for port, path in ports:
        number = port.get("nodePort", 0)
        if not number:
            continue
        key = port.get("protocol", ""), number
        if key in seen:
            errors.append(duplicate(path, number))
        seen.add(key)
    return errors


def _repeated_ports(spec: Json) -> Errors:
    errors: Errors = []
    seen: set[tuple[str, int]] = set()
    for index, port in enumerate(spec.get("ports") or ()):
        key = port.get("protocol", ""), port.get("port", 0)
        if key in seen:
            errors.append(duplicate((_SPEC / "ports")[index], _internal_port(*key)))
        seen.add(key)
    return errors


def _internal_port(protocol: str, number: int) -> Json:
    """Return a repeated port as the error shows it: only the fields that identify it."""
    return {"Name": "", "Protocol": protocol, "AppProtocol": None, "Port": number, "TargetPort": 0, "NodePort": 0}


def _affinity(spec: Json) -> Errors:
    affinity, path = spec.get("sessionAffinity", ""), _SPEC / "sessionAffinity"
    if not affinity:
        return [required(path)]
    if affinity not in ("ClientIP", "None"):
        return [not_supported(path, Named(affinity), ("ClientIP", "None"))]
    if affinity != "ClientIP":
        return []
    seconds = spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"]
    if 0 < seconds <= _AFFINITY_LIMIT:
        return []
    at = _SPEC / "sessionAffinityConfig" / "clientIP" / "timeoutSeconds"
    return [invalid(at, seconds, f"must be greater than 0 and less than {_AFFINITY_LIMIT}")]


def _source_ranges(obj: Json, old: Json | None, strict: bool) -> Errors:
    """Validate the source ranges. The field's path is capitalized, as upstream's is."""
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


def _balancer_class(spec: Json) -> Errors:
    name, path = spec.get("loadBalancerClass"), _SPEC / "loadBalancerClass"
    if name is None:
        return []
    if spec.get("type") != "LoadBalancer":
        return [forbidden(path, _FOR_BALANCERS)]
    return [invalid(path, name, text) for text in label_key(name)]


def _policy(path: Path, value: str | None, needed: bool) -> Errors:
    if value is None:
        return [required(path)] if needed else []
    return [] if value in ("Cluster", "Local") else [not_supported(path, Named(value), ("Cluster", "Local"))]


def _traffic(spec: Json, features: Features) -> Errors:
    external, path = spec.get("externalTrafficPolicy"), _SPEC / "externalTrafficPolicy"
    if externally_accessible(spec):
        errors = _policy(path, external or None, needed=True)
    else:
        text = "may only be set for externally-accessible services"
        errors = [invalid(path, Named(external), text)] if external else []
    port, path = spec.get("healthCheckNodePort", 0), _SPEC / "healthCheckNodePort"
    if not needs_health_check(spec):
        text = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        errors += [invalid(path, port, text)] if port else []
    else:
        errors += _number(path, port) if port else [required(path)]
    needed = spec.get("type") in ("NodePort", "LoadBalancer", "ClusterIP")
    errors += _policy(_SPEC / "internalTrafficPolicy", spec.get("internalTrafficPolicy"), needed)
    preferred = spec.get("trafficDistribution")
    known = ["PreferClose"]
    if features.enabled("PreferSameTrafficDistribution"):
        known += ["PreferSameZone", "PreferSameNode"]
    if preferred is not None and preferred not in known:
        errors.append(not_supported(_SPEC / "trafficDistribution", preferred, known))
    return errors


def validate_status(obj: Json, old: Json, features: Features) -> Errors:
    """Validate the addresses of a load balancer."""
    ingress = ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []
    if ingress and obj["spec"].get("type") != "LoadBalancer":
        return [forbidden(_INGRESS, "may only be used when `spec.type` is 'LoadBalancer'")]
    known = {item.get("ip") for item in ((old.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()}
    strict = features.enabled("StrictIPCIDRValidation")
    errors: Errors = []
    for index, item in enumerate(ingress):
        path, ip, mode, host = _INGRESS[index], item.get("ip", ""), item.get("ipMode"), item.get("hostname", "")
        if ip and ip not in known:
            errors += legacy_ip(path / "ip", ip, strict)
        if mode is None:
            errors += [required(path / "ipMode", "must be specified when `ip` is set")] if ip else []
        elif not ip:
            errors.append(forbidden(path / "ipMode", "may not be specified when `ip` is not set"))
        elif mode not in ("Proxy", "VIP"):
            errors.append(not_supported(path / "ipMode", Named(mode), ("Proxy", "VIP")))
        if host:
            errors += [invalid(path / "hostname", host, text) for text in dns_subdomain(host)]
            if parse_address(host) is not None:
                errors.append(invalid(path / "hostname", host, "must be a DNS name, not an IP address"))
    return errors
