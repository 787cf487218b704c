"""Define APIServices (apiregistration.k8s.io).

`apiserver.controlplane.local_apiservices` writes the APIServices of this server's own groups. `apiserver.aggregation`
follows those that refer to a service. Rules: kube-aggregator/pkg/apis/apiregistration/validation.
"""

from __future__ import annotations

from base64 import b64decode
from typing import Final

from apiserver.api.errors.field_errors import FieldError, Named, Path, go_quote, invalid, not_supported
from apiserver.api.objects import Json
from apiserver.api.schema.markers import If, Invalid, Required, differs, is_set
from apiserver.api.types.apiregistration import APIService, APIServiceSpec
from apiserver.api.validation.compile import At
from apiserver.api.values.times import timestamp
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.metadata import keep_metadata_for_status
from apiserver.registry.definition.resource import Column, Resource, Subresource, Version
from apiserver.registry.definition.strategy import Strategy
from apiserver.resources.common.columns import name_and_age
from apiserver.resources.common.core_rules import RULES

__all__ = ["API_SERVICES"]

Errors = list[FieldError]

_SPEC: Final = Path("spec")
_INSECURE: Final = "insecureSkipTLSVerify"
_STATUSES: Final = ("True", "False", "Unknown")


def _no_authorities(at: At) -> Errors:
    size = f"{len(b64decode(at.value['caBundle']))} bytes"
    return [invalid(at.path / "caBundle", size, "local APIServices may not have a caBundle")]


RULES.set(
    APIServiceSpec,
    Required("group", "only v1 may have an empty group and it better be legacy kube", when=differs("version", "v1")),
    "group", "version", "groupPriorityMinimum", "versionPriority", "service",
    If(
        is_set("service"),
        (Invalid(_INSECURE, "may not be true if caBundle is present", when=is_set(_INSECURE, "caBundle")),),
        otherwise=(
            If(is_set("caBundle"), (_no_authorities,)),
            Invalid(_INSECURE, "local APIServices may not have insecureSkipTLSVerify", when=is_set(_INSECURE)),
        ),
    ),
)  # fmt: skip


class APIServiceStrategy(Strategy):
    name_rule = "path-segment"
    checks_finalizer_names = False
    reset_fields = ("status",)
    status_reset_fields = ("metadata", "spec")

    def prepare_for_create(self, ctx: Context, obj: Json) -> None:
        obj["status"] = {}
        if obj["spec"].get("service") is None:
            local = {"type": "Available", "status": "True", "reason": "Local"}
            local["message"] = "Local APIServices are always available"
            obj["status"] = {"conditions": [{**local, "lastTransitionTime": timestamp(ctx.now)}]}

    def prepare_for_update(self, ctx: Context, obj: Json, old: Json) -> None:
        obj["status"] = old["status"]

    def prepare_for_status_update(self, ctx: Context, obj: Json, old: Json) -> None:
        obj["spec"] = old["spec"]
        keep_metadata_for_status(obj, old)

    def validate_first(self, ctx: Context, obj: Json, old: Json | None) -> Errors:
        """Require the name VERSION.GROUP."""
        name, spec = obj["metadata"].get("name", ""), obj["spec"]
        wanted = f"{spec.get('version', '')}.{spec.get('group', '')}"
        if ctx.subresource or not name or name == wanted:
            return []
        text = f'must be `spec.version+"."+spec.group`: {go_quote(wanted)}'
        return [invalid(Path("metadata") / "name", name, text)]

    def validate(self, ctx: Context, obj: Json) -> Errors:
        return RULES.of(APIServiceSpec).errors(_SPEC, obj["spec"])

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> Errors:
        return RULES.of(APIServiceSpec).errors(_SPEC, obj["spec"])

    def validate_status_update(self, ctx: Context, obj: Json, old: Json) -> Errors:
        return [
            not_supported((Path("status") / "conditions")[index] / "status", Named(found), _STATUSES)
            for index, condition in enumerate(obj["status"].get("conditions") or ())
            if (found := condition.get("status", "")) not in _STATUSES
        ]


def _by(obj: Json) -> str:
    service = obj["spec"].get("service")
    return "Local" if service is None else f"{service.get('namespace', '')}/{service.get('name', '')}"


def _available(obj: Json) -> str:
    for condition in (obj.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "Available":
            status: str = condition.get("status", "")
            reason = condition.get("reason", "")
            return status if status == "True" or not reason else f"{status} ({reason})"
    return "Unknown"


API_SERVICES: Final = Resource(
    group="apiregistration.k8s.io", kind="APIService", plural="apiservices", singular="apiservice", namespaced=False,
    categories=("api-extensions",),
    versions=(Version(name="v1", schema=APIService),),
    strategy=APIServiceStrategy(), storage_prefix="apiregistration.k8s.io/apiservices",
    columns=name_and_age(
        Column(name="Service", cell=_by, description="Service that serves the API."),
        Column(name="Available", cell=_available, description="Whether the API is available."),
    ),
    subresources=(Subresource(name="status", tables=False),),
    unconditional_update=False,
)  # fmt: skip
