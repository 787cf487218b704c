"""Define Services. `network.py` allocates their addresses and node ports. No traffic is carried.

Rules: pkg/registry/core/service.
"""

from __future__ import annotations

from typing import ClassVar, Final

from apiserver.api.errors.field_errors import FieldError
from apiserver.api.objects import Json
from apiserver.api.types.core.services import Service
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.resource import Column, Resource, Subresource, Version
from apiserver.resources.common.columns import AGE, NAME
from apiserver.resources.common.connect_options import PROXY, proxy_options
from apiserver.resources.common.status import StatusStrategy
from apiserver.resources.services.proxy import proxy
from apiserver.resources.services.shape import (
    default,
    externally_accessible,
    has_addresses,
    needs_health_check,
    node_ports,
    same_fields,
)
from apiserver.resources.services.validation import validate_change, validate_service, validate_status
from apiserver.resources.services.warnings import warnings_of

__all__ = ["SERVICES"]


class ServiceStrategy(StatusStrategy):
    new_status: ClassVar[Json] = {"loadBalancer": {}}
    name_rule = "dns1035-label"
    revalidates_metadata = False
    status_reset_fields = ("spec",)

    def name_rule_of(self, ctx: Context) -> str:
        return "label" if ctx.features.enabled("RelaxedServiceNameValidation") else self.name_rule

    def prepare_for_update(self, ctx: Context, obj: Json, old: Json) -> None:
        super().prepare_for_update(ctx, obj, old)
        _drop_what_the_type_had(obj["spec"], old["spec"])
        if obj["spec"].get("type") != "LoadBalancer":
            obj["status"] = {**obj["status"], "loadBalancer": {}}

    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        return validate_service(obj, None, ctx.features)

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        return validate_change(obj, old) + validate_service(obj, old, ctx.features)

    def validate_status_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        return validate_status(obj, old, ctx.features)

    def canonicalize(self, ctx: Context, obj: Json) -> None:
        # The field is accepted but has no effect: upstream stores it and never serves it.
        if obj["spec"].get("type") == "ExternalName":
            _drop(obj["spec"], "internalTrafficPolicy")

    def warnings_on_create(self, ctx: Context, obj: Json) -> list[str]:
        return warnings_of(obj)

    def warnings_on_update(self, ctx: Context, obj: Json, old: Json) -> list[str]:
        return warnings_of(obj)


def _drop_what_the_type_had(spec: Json, old: Json) -> None:
    """Drop the fields that an update repeats although the new type of the service does not use them."""
    if has_addresses(old) and not has_addresses(spec):
        if same_fields(spec, old, "clusterIP", "clusterIPs"):
            _drop(spec, "clusterIP", "clusterIPs")
        for name in ("ipFamilies", "ipFamilyPolicy"):
            if same_fields(spec, old, name):
                _drop(spec, name)
    kinds = "NodePort", "LoadBalancer"
    if old.get("type") in kinds and spec.get("type") not in kinds and set(node_ports(spec)) <= set(node_ports(old)):
        for port in spec.get("ports") or ():
            port.pop("nodePort", None)
    if needs_health_check(old) and not needs_health_check(spec) and same_fields(spec, old, "healthCheckNodePort"):
        _drop(spec, "healthCheckNodePort")
    if old.get("type") == "LoadBalancer" and spec.get("type") != "LoadBalancer":
        for name in ("allocateLoadBalancerNodePorts", "loadBalancerClass"):
            if spec.get(name) == old.get(name):
                _drop(spec, name)
    if (
        externally_accessible(old)
        and not externally_accessible(spec)
        and same_fields(spec, old, "externalTrafficPolicy")
    ):
        _drop(spec, "externalTrafficPolicy")


def _drop(spec: Json, *names: str) -> None:
    for name in names:
        spec.pop(name, None)


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
    Column(name="Selector", cell=_selector, priority=1, description="Selector of the pods."),
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
            verbs=PROXY,
            kind="ServiceProxyOptions",
            connect=proxy,
            connect_options=proxy_options,
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
