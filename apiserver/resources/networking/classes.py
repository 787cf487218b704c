"""Define IngressClasses."""

from __future__ import annotations

from typing import Final

from apiserver.api.errors.field_errors import FieldError, Path
from apiserver.api.helpers.ingress_classes import is_default_class
from apiserver.api.objects import Json
from apiserver.api.types.networking import IngressClass, IngressClassSpec
from apiserver.api.validation.changes import changes
from apiserver.api.validation.compile import At
from apiserver.api.values.names import domain_prefixed_path
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.resource import Column, Resource, Version
from apiserver.registry.definition.strategy import Strategy
from apiserver.resources.common.columns import AGE, NAME
from apiserver.resources.common.core_rules import RULES
from apiserver.resources.common.workloads import count_generation

__all__ = ["INGRESS_CLASSES"]


_SPEC: Final = Path("spec")
_CHANGES: Final = changes(IngressClassSpec)


def _controller_form(at: At) -> list[FieldError]:
    return domain_prefixed_path(at.path / "controller", at.value.get("controller", ""))


RULES.set(IngressClassSpec, "controller", _controller_form, "parameters")


class IngressClassStrategy(Strategy):
    def prepare_for_create(self, ctx: Context, obj: Json) -> None:
        obj["metadata"]["generation"] = 1

    def prepare_for_update(self, ctx: Context, obj: Json, old: Json) -> None:
        count_generation(IngressClassSpec, obj, old)

    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        return RULES.of(IngressClassSpec).errors(_SPEC, obj["spec"])

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        return _CHANGES.errors(_SPEC, obj["spec"], old["spec"]) + self.validate(ctx, obj)


def _name(obj: Json) -> str:
    name: str = obj["metadata"].get("name", "")
    return f"{name} (default)" if is_default_class(obj) else name


def _controller(obj: Json) -> str:
    controller: str = obj["spec"].get("controller", "")
    return controller


def _parameters_cell(obj: Json) -> str:
    found = obj["spec"].get("parameters")
    if found is None:
        return "<none>"
    group = f".{found['apiGroup']}" if found.get("apiGroup") is not None else ""
    return f"{found.get('kind', '')}{group}/{found.get('name', '')}"


INGRESS_CLASSES: Final = Resource(
    group="networking.k8s.io", kind="IngressClass", plural="ingressclasses", singular="ingressclass", namespaced=False,
    versions=(Version(name="v1", schema=IngressClass),),
    strategy=IngressClassStrategy(), storage_prefix="ingressclasses",
    columns=(
        Column(name="Name", cell=_name, format="name", description=NAME.description),
        Column(name="Controller", cell=_controller, description="Controller of the class."),
        Column(name="Parameters", cell=_parameters_cell, description="Object with further parameters."),
        AGE,
    ),
)  # fmt: skip
