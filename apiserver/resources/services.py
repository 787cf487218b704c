"""Services. There is no service network: nothing allocates cluster IPs or node ports, so a service has those that its
author wrote.

Rules: pkg/apis/core/validation (ValidateService), pkg/registry/core/service.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from apiserver.api.fielderrors import FieldError, Named, Path, duplicate, forbidden, invalid, not_supported, required
from apiserver.api.names import dns_label, dns_subdomain, label_key, label_value, port_name
from apiserver.api.networks import ip_family, legacy_ip
from apiserver.api.types.core.services import Service
from apiserver.registry.context import Context
from apiserver.registry.resource import Column, Resource, Subresource, Version
from apiserver.registry.strategy import Strategy
from apiserver.resources.columns import AGE, NAME
from apiserver.resources.serviceproxy import proxy

Json = dict[str, Any]

_SPEC: Final = Path("spec")
_TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_AFFINITY_SECONDS: Final = 10800
_AFFINITY_LIMIT: Final = 86400


def default(obj: Json, now: datetime) -> None:
    spec = obj["spec"]
    _default_affinity(spec)
    kind = spec.setdefault("type", "ClusterIP")
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        if port.get("targetPort") in (None, 0, ""):
            port["targetPort"] = port.get("port", 0)
    if kind in ("NodePort", "LoadBalancer"):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if kind != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
        for ingress in ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ():
            if ingress.get("ip"):
                ingress.setdefault("ipMode", "VIP")


def _default_affinity(spec: Json) -> None:
    affinity = spec.setdefault("sessionAffinity", "None")
    if affinity == "None":
        spec.pop("sessionAffinityConfig", None)
    elif (
        affinity == "ClientIP"
        and ((spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}).get("timeoutSeconds") is None
    ):
        spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": _AFFINITY_SECONDS}}


def _complete_addresses(spec: Json) -> None:
    """clusterIP and clusterIPs say the same; families follow from them, one IPv4 family when nothing is said."""
    if spec.get("type") == "ExternalName":
        return
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]
    elif spec.get("clusterIPs") and not spec.get("clusterIP"):
        spec["clusterIP"] = spec["clusterIPs"][0]
    if not spec.get("ipFamilies"):
        families = [f"IPv{ip_family(address)}" for address in spec.get("clusterIPs") or () if ip_family(address)]
        spec["ipFamilies"] = families or ["IPv4"]
    spec.setdefault("ipFamilyPolicy", "SingleStack" if len(spec["ipFamilies"]) < 2 else "PreferDualStack")


class ServiceStrategy(Strategy):
    name_rule = "dns1035-label"
    revalidates_metadata = False
    reset_fields = ("status",)
    status_reset_fields = ("spec",)

    def name_rule_of(self, ctx: Context) -> str:
        return "label" if ctx.features.enabled("RelaxedServiceNameValidation") else self.name_rule

    def prepare_for_create(self, ctx: Context, obj: Json) -> None:
        obj["status"] = {"loadBalancer": {}}
        _complete_addresses(obj["spec"])

    def prepare_for_update(self, ctx: Context, obj: Json, old: Json) -> None:
        obj["status"] = old.get("status", {"loadBalancer": {}})
        spec, before = obj["spec"], old["spec"]
        if spec.get("type") != "ExternalName":
            for field in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
                if not spec.get(field) and before.get(field):
                    spec[field] = before[field]
        elif before.get("type") != "ExternalName" and spec.get("clusterIPs") == before.get("clusterIPs"):
            for field in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
                spec.pop(field, None)
        _complete_addresses(spec)

    def prepare_for_status_update(self, ctx: Context, obj: Json, old: Json) -> None:
        obj["spec"] = old["spec"]

    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        spec = obj["spec"]
        errors = _type_rules(spec)
        errors += _ports(spec.get("ports") or [])
        for key, value in (spec.get("selector") or {}).items():
            errors += [invalid(_SPEC / "selector", key, text) for text in label_key(key)]
            errors += [invalid(_SPEC / "selector", value, text) for text in label_value(value)]
        errors += _affinity(spec)
        errors += _addresses(spec)
        for index, address in enumerate(spec.get("externalIPs") or ()):
            errors += legacy_ip((_SPEC / "externalIPs")[index], address)
        return errors + _traffic(spec)

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        errors = []
        before, after = old["spec"].get("clusterIP", ""), obj["spec"].get("clusterIP", "")
        if (
            before
            and before != after
            and obj["spec"].get("type") != "ExternalName"
            and old["spec"].get("type") != "ExternalName"
        ):
            errors.append(invalid((_SPEC / "clusterIPs")[0], obj["spec"].get("clusterIPs"), "may not change once set"))
        return errors + self.validate(ctx, obj)


def _type_rules(spec: Json) -> list[FieldError]:
    kind = spec.get("type", "")
    errors: list[FieldError] = []
    if not spec.get("ports") and kind != "ExternalName" and spec.get("clusterIP") != "None":
        errors.append(required(_SPEC / "ports"))
    if kind == "LoadBalancer" and spec.get("clusterIP") == "None":
        errors.append(invalid((_SPEC / "clusterIPs")[0], "None", "may not be set to 'None' for LoadBalancer services"))
    if kind == "NodePort" and spec.get("clusterIP") == "None":
        errors.append(invalid((_SPEC / "clusterIPs")[0], "None", "may not be set to 'None' for NodePort services"))
    if kind == "ExternalName":
        name = spec.get("externalName", "").removesuffix(".")
        if spec.get("clusterIP"):
            errors.append(forbidden(_SPEC / "clusterIP", "may not be set for ExternalName services"))
        if not name:
            errors.append(required(_SPEC / "externalName"))
        else:
            errors += [invalid(_SPEC / "externalName", name, text) for text in dns_subdomain(name)]
    if not kind:
        errors.append(required(_SPEC / "type"))
    elif kind not in _TYPES:
        errors.append(not_supported(_SPEC / "type", Named(kind), _TYPES))
    return errors


def _number(path: Path, number: int) -> list[FieldError]:
    return [] if 1 <= number <= 65535 else [invalid(path, number, "must be between 1 and 65535, inclusive")]


def _ports(ports: list[Json]) -> list[FieldError]:
    errors: list[FieldError] = []
    names: set[str] = set()
    seen: set[tuple[Any, ...]] = set()
    for index, port in enumerate(ports):
        path = (_SPEC / "ports")[index]
        name, number, protocol = port.get("name", ""), port.get("port", 0), port.get("protocol", "")
        if not name:
            if len(ports) > 1:
                errors.append(required(path / "name"))
        else:
            errors += [invalid(path / "name", name, text) for text in dns_label(name)]
            if name in names:
                errors.append(duplicate(path / "name", name))
            names.add(name)
        errors += _number(path / "port", number)
        if not protocol:
            errors.append(required(path / "protocol"))
        elif protocol not in _PROTOCOLS:
            errors.append(not_supported(path / "protocol", Named(protocol), _PROTOCOLS))
        target = port.get("targetPort")
        if isinstance(target, int):
            errors += _number(path / "targetPort", target)
        elif isinstance(target, str):
            errors += [invalid(path / "targetPort", target, text) for text in port_name(target)]
        if (protocol, number) in seen:
            errors.append(duplicate(path, _internal_port(port)))
        seen.add((protocol, number))
    return errors


def _internal_port(port: Json) -> Json:
    """How a repeated port shows: only what makes it the same."""
    return {
        "Name": "",
        "Protocol": port.get("protocol", ""),
        "AppProtocol": None,
        "Port": port.get("port", 0),
        "TargetPort": 0,
        "NodePort": 0,
    }


def _affinity(spec: Json) -> list[FieldError]:
    affinity = spec.get("sessionAffinity", "")
    if affinity not in ("ClientIP", "None"):
        return (
            [not_supported(_SPEC / "sessionAffinity", Named(affinity), ("ClientIP", "None"))]
            if affinity
            else [required(_SPEC / "sessionAffinity")]
        )
    if affinity != "ClientIP":
        return []
    seconds = spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"]
    path = _SPEC / "sessionAffinityConfig" / "clientIP" / "timeoutSeconds"
    return (
        []
        if 0 < seconds <= _AFFINITY_LIMIT
        else [invalid(path, seconds, f"must be greater than 0 and less than {_AFFINITY_LIMIT}")]
    )


def _addresses(spec: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    addresses = spec.get("clusterIPs") or []
    if spec.get("clusterIP") and addresses and addresses[0] != spec["clusterIP"]:
        errors.append(invalid(_SPEC / "clusterIPs", addresses, "first value must match `clusterIP`"))
    if len(addresses) > 2:
        errors.append(invalid(_SPEC / "clusterIPs", addresses, "may only hold up to 2 values"))
    for index, address in enumerate(addresses):
        if address != "None":
            errors += legacy_ip((_SPEC / "clusterIPs")[index], address)
        elif len(addresses) > 1:
            errors.append(invalid((_SPEC / "clusterIPs")[index], address, "'None' must be the first and only value"))
    return errors


def _traffic(spec: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    external, internal = spec.get("externalTrafficPolicy"), spec.get("internalTrafficPolicy")
    reachable = spec.get("type") in ("NodePort", "LoadBalancer") or (
        spec.get("type") == "ClusterIP" and bool(spec.get("externalIPs"))
    )
    if external and not reachable:
        errors.append(
            invalid(
                _SPEC / "externalTrafficPolicy", Named(external), "may only be set for externally-accessible services"
            )
        )
    elif external and external not in ("Cluster", "Local"):
        errors.append(not_supported(_SPEC / "externalTrafficPolicy", Named(external), ("Cluster", "Local")))
    if internal is not None and internal not in ("Cluster", "Local"):
        errors.append(not_supported(_SPEC / "internalTrafficPolicy", Named(internal), ("Cluster", "Local")))
    return errors


# --- columns
# ----------------------------------------------------------------------------------------------------------------------


def _external(obj: Json) -> str:
    spec = obj["spec"]
    kind, listed = spec.get("type"), list(spec.get("externalIPs") or ())
    if kind == "ExternalName":
        return spec.get("externalName", "") or ""
    if kind == "LoadBalancer":
        ingress = (obj.get("status", {}).get("loadBalancer") or {}).get("ingress") or ()
        listed = sorted({item.get("ip") or item.get("hostname", "") for item in ingress} - {""}) + listed
        return ",".join(listed) or "<pending>"
    return ",".join(listed) or "<none>" if kind in ("ClusterIP", "NodePort") else "<unknown>"


def _port_list(obj: Json) -> str:
    shown = [
        (
            f"{port.get('port', 0)}:{port['nodePort']}/{port.get('protocol', '')}"
            if port.get("nodePort")
            else f"{port.get('port', 0)}/{port.get('protocol', '')}"
        )
        for port in obj["spec"].get("ports") or ()
    ]
    return ",".join(shown) or "<none>"


def _selector(obj: Json) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted((obj["spec"].get("selector") or {}).items())) or "<none>"


_COLUMNS: Final = (
    NAME,
    Column(name="Type", cell=lambda obj: obj["spec"].get("type", ""), description="How the service is exposed."),
    Column(
        name="Cluster-IP",
        cell=lambda obj: (obj["spec"].get("clusterIPs") or ["<none>"])[0],
        description="Address inside the cluster.",
    ),
    Column(name="External-IP", cell=_external, description="Address outside the cluster."),
    Column(name="Port(s)", cell=_port_list, description="Ports of the service."),
    AGE,
    Column(name="Selector", cell=_selector, priority=1, description="Labels of the pods behind the service."),
)

SERVICES = Resource(
    group="",
    kind="Service",
    plural="services",
    singular="service",
    namespaced=True,
    short_names=("svc",),
    categories=("all",),
    versions=(Version(name="v1", schema=Service, default=default),),
    strategy=ServiceStrategy(),
    storage_prefix="services/specs",
    columns=_COLUMNS,
    subresources=(
        Subresource(
            name="proxy",
            verbs=("create", "delete", "get", "patch", "update"),
            kind="ServiceProxyOptions",
            connect=proxy,
        ),
        Subresource(name="status"),
    ),
    field_labels={
        "spec.clusterIP": lambda obj: obj["spec"].get("clusterIP", ""),
        "spec.type": lambda obj: obj["spec"].get("type", ""),
    },
    field_error_style="plain",
    create_on_update=True,
    delete_returns_object=True,
)
