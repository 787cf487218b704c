"""Define Ingresses."""

from __future__ import annotations

from typing import Final

from apiserver.api.errors.field_errors import FieldError, Named, Path, invalid, not_supported, required
from apiserver.api.helpers.ingress_classes import CLASS_ANNOTATION
from apiserver.api.objects import Json
from apiserver.api.schema.equality import semantic_equal
from apiserver.api.types.networking import Ingress, IngressLoadBalancerIngress, IngressSpec
from apiserver.api.validation.formats import NO_ADDRESS
from apiserver.api.validation.items import each_item
from apiserver.api.values.names import dns1035_label, dns_label, dns_subdomain, port_name, wildcard_subdomain
from apiserver.api.values.networks import parse_address
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.resource import Column, Resource, Subresource, Version
from apiserver.registry.definition.strategy import Strategy
from apiserver.resources.common.addresses import (
    BALANCER_ADDRESSES,
    address_warnings,
    balancer_addresses,
    validate_balancer_addresses,
)
from apiserver.resources.common.columns import name_and_age
from apiserver.resources.common.core_rules import RULES
from apiserver.resources.networking.references import reference

__all__ = ["INGRESSES"]


_SPEC: Final = Path("spec")
_PATH_TYPES: Final = ("Exact", "ImplementationSpecific", "Prefix")
_NOT_IN_PATHS: Final = ("//", "/./", "/../", "%2f", "%2F")
_NOT_AT_THE_END: Final = ("/..", "/.")
_SHOWN: Final = 3


def _host(path: Path, host: str) -> list[FieldError]:
    check = wildcard_subdomain if "*" in host else dns_subdomain
    return [invalid(path, host, text) for text in check(host)]


def _port(path: Path, port: Json) -> list[FieldError]:
    name, number = port.get("name", ""), port.get("number", 0)
    if name and number:
        return [invalid(path, "", "cannot set both port name & port number")]
    at = path / "service" / "port"
    if name:
        return [invalid(at / "name", name, text) for text in port_name(name)]
    if not number:
        return [required(path, "port name or number is required")]
    return [] if 1 <= number <= 65535 else [invalid(at / "number", number, "must be between 1 and 65535, inclusive")]


class _Rules:
    """The rules of one ingress. Violations of the stored ingress may stay."""

    def __init__(self, old: Json | None, relaxed_names: bool) -> None:
        spec = {} if old is None else old["spec"]
        self._service_name = dns_label if relaxed_names or any(map(_relaxed, _backends(spec))) else dns1035_label
        self._odd_secrets = any(_secret_errors(tls) for tls in spec.get("tls") or ())
        self._odd_wildcards = False
        self._odd_wildcards = any(
            "*" in rule.get("host", "") and self._paths(Path(), rule) for rule in spec.get("rules") or ()
        )

    def errors(self, spec: Json) -> list[FieldError]:
        backend, rules = spec.get("defaultBackend"), spec.get("rules")
        errors: list[FieldError] = []
        if not rules and backend is None:
            errors.append(invalid(_SPEC, rules, "either `defaultBackend` or `rules` must be specified"))
        if backend is not None:
            errors += self._backend(_SPEC / "defaultBackend", backend)
        for index, rule in enumerate(rules or ()):
            errors += self._rule((_SPEC / "rules")[index], rule)
        for index, tls in enumerate(spec.get("tls") or ()):
            errors += self._tls((_SPEC / "tls")[index], tls)
        name = spec.get("ingressClassName")
        if name is not None:
            errors += [invalid(_SPEC / "ingressClassName", name, text) for text in dns_subdomain(name)]
        return errors

    def _tls(self, path: Path, tls: Json) -> list[FieldError]:
        errors = [
            error for index, host in enumerate(tls.get("hosts") or ()) for error in _host((path / "hosts")[index], host)
        ]
        wrong = [] if self._odd_secrets else _secret_errors(tls)
        return errors + [invalid(path / "secretName", tls["secretName"], text) for text in wrong]

    def _rule(self, path: Path, rule: Json) -> list[FieldError]:
        host = rule.get("host", "")
        errors: list[FieldError] = []
        if host:
            if parse_address(host) is not None:
                errors.append(invalid(path / "host", host, NO_ADDRESS))
            errors += _host(path / "host", host)
        return errors if "*" in host and self._odd_wildcards else errors + self._paths(path, rule)

    def _paths(self, path: Path, rule: Json) -> list[FieldError]:
        if rule.get("http") is None:
            return []
        at, paths = path / "http" / "paths", rule["http"].get("paths")
        if not paths:
            return [required(at)]
        return [error for index, item in enumerate(paths) for error in self._path(at[index], item)]

    def _path(self, path: Path, item: Json) -> list[FieldError]:
        kind, text, at = item.get("pathType"), item.get("path", ""), path / "path"
        if kind is None:
            return [required(path / "pathType", "pathType must be specified")]
        errors: list[FieldError] = []
        if kind not in _PATH_TYPES:
            errors.append(not_supported(path / "pathType", Named(kind), _PATH_TYPES))
        elif not text.startswith("/") and (text or kind != "ImplementationSpecific"):
            errors.append(invalid(at, text, "must be an absolute path"))
        if kind in ("Exact", "Prefix"):
            errors += [invalid(at, text, f"must not contain '{part}'") for part in _NOT_IN_PATHS if part in text]
            errors += [invalid(at, text, f"cannot end with '{end}'") for end in _NOT_AT_THE_END if text.endswith(end)]
        return errors + self._backend(path / "backend", item.get("backend") or {})

    def _backend(self, path: Path, backend: Json) -> list[FieldError]:
        service, other = backend.get("service"), backend.get("resource")
        if service is None:
            if other is None:
                return [invalid(path, "", "resource or service backend is required")]
            return reference(path / "resource", other)
        if other is not None:
            return [invalid(path, "", "cannot set both resource and service backends")]
        name, at = service.get("name", ""), path / "service" / "name"
        errors = [invalid(at, name, text) for text in self._service_name(name)] if name else [required(at)]
        return errors + _port(path, service.get("port") or {})


def _secret_errors(tls: Json) -> list[str]:
    name = tls.get("secretName", "")
    return dns_subdomain(name) if name else []


def _backends(spec: Json) -> list[Json]:
    found = [spec.get("defaultBackend")]
    for rule in spec.get("rules") or ():
        found += [item.get("backend") for item in (rule.get("http") or {}).get("paths") or ()]
    return [backend for backend in found if backend and backend.get("service")]


def _relaxed(backend: Json) -> bool:
    """Return whether earlier releases rejected the service's name."""
    name = backend["service"].get("name", "")
    return not dns_label(name) and bool(dns1035_label(name))


RULES.set(IngressLoadBalancerIngress, "hostname", by_rules=("ports",))


class IngressStrategy(Strategy):
    reset_fields = ("status",)
    status_reset_fields = ("spec",)

    def prepare_for_create(self, ctx: Context, obj: Json) -> None:
        obj["status"] = {"loadBalancer": {}}
        obj["metadata"]["generation"] = 1

    def prepare_for_update(self, ctx: Context, obj: Json, old: Json) -> None:
        obj["status"] = old["status"]
        if not semantic_equal(IngressSpec, obj["spec"], old["spec"]):
            obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1

    def prepare_for_status_update(self, ctx: Context, obj: Json, old: Json) -> None:
        obj["spec"] = old["spec"]

    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        errors = _Rules(None, _relaxed_names(ctx)).errors(obj["spec"])
        annotated = (obj["metadata"].get("annotations") or {}).get(CLASS_ANNOTATION)
        if annotated is not None and obj["spec"].get("ingressClassName") not in (None, annotated):
            path = Path("annotations") / CLASS_ANNOTATION
            errors.append(invalid(path, annotated, "must match `ingressClassName` when both are specified"))
        return errors

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        return _Rules(old, _relaxed_names(ctx)).errors(obj["spec"])

    def validate_status_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        return validate_balancer_addresses(IngressLoadBalancerIngress, obj, old, ctx.features)

    def warnings_on_create(self, ctx: Context, obj: Json) -> list[str]:
        annotated = CLASS_ANNOTATION in (obj["metadata"].get("annotations") or {})
        if not annotated or obj["spec"].get("ingressClassName") is not None:
            return []
        return [f"annotation \"{CLASS_ANNOTATION}\" is deprecated, please use 'spec.ingressClassName' instead"]

    def warnings_on_update(self, ctx: Context, obj: Json, old: Json) -> list[str]:
        if ctx.subresource != "status":
            return []
        return [
            text
            for path, item in each_item(BALANCER_ADDRESSES, balancer_addresses(obj))
            for text in address_warnings(path, item.get("ip", ""))
        ]


def _relaxed_names(ctx: Context) -> bool:
    return ctx.features.enabled("RelaxedServiceNameValidation")


def _class_cell(obj: Json) -> str:
    name = obj["spec"].get("ingressClassName")
    return "<none>" if name is None else name


def _hosts_cell(obj: Json) -> str:
    """Format the first hosts. The number after the third host counts all rules, with or without a host."""
    rules, shown = obj["spec"].get("rules") or (), list[str]()
    for rule in rules:
        if len(shown) == _SHOWN:
            return f"{','.join(shown)} + {len(rules) - _SHOWN} more..."
        if rule.get("host"):
            shown.append(rule["host"])
    return ",".join(shown) or "*"


def _address_cell(obj: Json) -> str:
    return ",".join(sorted({item.get("ip") or item.get("hostname", "") for item in balancer_addresses(obj)} - {""}))


INGRESSES: Final = Resource(
    group="networking.k8s.io", kind="Ingress", plural="ingresses", singular="ingress", namespaced=True,
    short_names=("ing",),
    versions=(Version(name="v1", schema=Ingress),),
    strategy=IngressStrategy(), storage_prefix="ingress",
    columns=name_and_age(
        Column(name="Class", cell=_class_cell, description="Ingress class."),
        Column(name="Hosts", cell=_hosts_cell, description="First hosts of the rules."),
        Column(name="Address", cell=_address_cell, description="Address of the ingress."),
        Column(name="Ports", cell=lambda obj: "80, 443" if obj["spec"].get("tls") else "80",
            description="Listening ports."),
    ),
    subresources=(Subresource(name="status"),),
)  # fmt: skip
