"""Define Ingresses."""

from __future__ import annotations

from typing import ClassVar, Final, NamedTuple

from apiserver.api.errors.field_errors import FieldError, Path, invalid, required
from apiserver.api.helpers.ingress_classes import CLASS_ANNOTATION
from apiserver.api.objects import Json
from apiserver.api.schema.markers import If, Invalid, Required, Union, UntilError, is_set, knows
from apiserver.api.types.networking import (
    HTTPIngressPath,
    Ingress,
    IngressBackend,
    IngressLoadBalancerIngress,
    IngressRule,
    IngressSpec,
    IngressTLS,
    ServiceBackendPort,
)
from apiserver.api.validation.compile import At
from apiserver.api.validation.formats import FORMATS, NO_ADDRESS
from apiserver.api.validation.items import each_item
from apiserver.api.values.names import Check, dns1035_label, dns_label
from apiserver.api.values.networks import parse_address
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.resource import Column, Resource, Subresource, Version
from apiserver.resources.common.addresses import (
    BALANCER_ADDRESSES,
    address_warnings,
    balancer_addresses,
    validate_balancer_addresses,
)
from apiserver.resources.common.columns import name_and_age
from apiserver.resources.common.core_rules import RULES
from apiserver.resources.common.status import StatusStrategy

__all__ = ["INGRESSES"]


_SPEC: Final = Path("spec")
_NOT_IN_PATHS: Final = ("//", "/./", "/../", "%2f", "%2F")
_NOT_AT_THE_END: Final = ("/..", "/.")
_SHOWN: Final = 3


class _Env(NamedTuple):
    """Context of the rules. Violations of the stored ingress may stay."""

    service_name: Check
    odd_secrets: bool
    odd_wildcards: bool


def _env(old: Json | None, relaxed_names: bool) -> _Env:
    spec = {} if old is None else old["spec"]
    check = dns_label if relaxed_names or any(map(_relaxed, _backends(spec))) else dns1035_label
    odd_secrets = any(RULES.of(IngressTLS).at(Path(), tls).field("secretName") for tls in spec.get("tls") or ())
    env = _Env(check, odd_secrets, odd_wildcards=False)
    wildcards = [rule for rule in spec.get("rules") or () if "*" in rule.get("host", "")]
    odd_wildcards = any(RULES.of(IngressRule).at(Path(), rule, env).field("http") for rule in wildcards)
    return env._replace(odd_wildcards=odd_wildcards)


def _some_backend(at: At) -> list[FieldError]:
    rules = at.value.get("rules")
    if rules or at.value.get("defaultBackend") is not None:
        return []
    return [invalid(at.path, rules, "either `defaultBackend` or `rules` must be specified")]


def _path(at: At) -> list[FieldError]:
    kind, text, path = at.value["pathType"], at.value.get("path", ""), at.path / "path"
    errors = at.field("pathType")
    if not errors and not text.startswith("/") and (text or kind != "ImplementationSpecific"):
        errors.append(invalid(path, text, "must be an absolute path"))
    if kind in ("Exact", "Prefix"):
        errors += [invalid(path, text, f"must not contain '{part}'") for part in _NOT_IN_PATHS if part in text]
        errors += [invalid(path, text, f"cannot end with '{end}'") for end in _NOT_AT_THE_END if text.endswith(end)]
    return errors + at.field("backend")


def _service(at: At) -> list[FieldError]:
    name, path = at.value["service"].get("name", ""), at.path / "service"
    errors = [invalid(path / "name", name, text) for text in at.env.service_name(name)]
    return (errors if name else [required(path / "name")]) + _port(at.path, at.value["service"].get("port") or {})


def _port(path: Path, port: Json) -> list[FieldError]:
    name, number = port.get("name", ""), port.get("number", 0)
    if name and number:
        return [invalid(path, "", "cannot set both port name & port number")]
    if not name and not number:
        return [required(path, "port name or number is required")]
    return RULES.of(ServiceBackendPort).errors(path / "service" / "port", port)


def _resource(at: At) -> list[FieldError]:
    """Validate the reference to any object, by rules of its own."""
    path, value = at.path / "resource", at.value["resource"]
    group = value.get("apiGroup")
    errors = [] if group is None else FORMATS["subdomain"].errors(path / "apiGroup", group)
    for field in ("kind", "name"):
        if not value.get(field):
            errors.append(required(path / field))
        errors += FORMATS["path-segment"].errors(path / field, value.get(field, ""))
    return errors


def _address_as_host(at: At) -> bool:
    return parse_address(at.value.get("host", "")) is not None


def _backends(spec: Json) -> list[Json]:
    found = [spec.get("defaultBackend")]
    for rule in spec.get("rules") or ():
        found += [item.get("backend") for item in (rule.get("http") or {}).get("paths") or ()]
    return [backend for backend in found if backend and backend.get("service")]


def _relaxed(backend: Json) -> bool:
    """Return whether earlier releases rejected the service's name."""
    name = backend["service"].get("name", "")
    return not dns_label(name) and bool(dns1035_label(name))


RULES.set(IngressSpec, _some_backend, "defaultBackend", "rules", "tls", "ingressClassName")
RULES.set(IngressTLS, "hosts", If(knows(lambda env: not env.odd_secrets), ("secretName",)))
RULES.set(
    IngressRule,
    Invalid("host", NO_ADDRESS, when=(is_set("host"), _address_as_host)), "host",
    If(lambda at: not (at.env.odd_wildcards and "*" in at.value.get("host", "")), ("http",)),
)  # fmt: skip
RULES.set(
    HTTPIngressPath,
    UntilError((Required("pathType", "pathType must be specified"), ("pathType", _path))),
    by_rules=("backend",),
)
RULES.set(
    IngressBackend,
    UntilError((
        Union(
            ("service", "resource"),
            none=Invalid("", "resource or service backend is required", shown=""),
            many=Invalid("", "cannot set both resource and service backends", shown=""),
        ),
        ("service", _service), ("resource", _resource),
    )),
)  # fmt: skip
RULES.set(IngressLoadBalancerIngress, "hostname", by_rules=("ports",))


class IngressStrategy(StatusStrategy):
    new_status: ClassVar[Json] = {"loadBalancer": {}}
    spec_type = IngressSpec
    status_reset_fields = ("spec",)

    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        errors = _errors(ctx, obj, None)
        annotated = (obj["metadata"].get("annotations") or {}).get(CLASS_ANNOTATION)
        if annotated is not None and obj["spec"].get("ingressClassName") not in (None, annotated):
            path = Path("annotations") / CLASS_ANNOTATION
            errors.append(invalid(path, annotated, "must match `ingressClassName` when both are specified"))
        return errors

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        return _errors(ctx, obj, old)

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


def _errors(ctx: Context, obj: Json, old: Json | None) -> list[FieldError]:
    env = _env(old, ctx.features.enabled("RelaxedServiceNameValidation"))
    return RULES.of(IngressSpec).errors(_SPEC, obj["spec"], env)


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
