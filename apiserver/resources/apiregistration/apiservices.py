"""APIServices (apiregistration.k8s.io).

`apiserver.controlplane.local_apiservices` writes those of this server's own groups; those that
name a service are followed by `apiserver.aggregation`. Rules: kube-aggregator/pkg/apis/apiregistration/validation.
"""

from __future__ import annotations

from base64 import b64decode
from typing import Any, Final

from apiserver.api.errors.field_errors import FieldError, Named, Path, go_quote, invalid, not_supported, required
from apiserver.api.types.apiregistration import APIService
from apiserver.api.values.names import dns1035_label, dns_subdomain
from apiserver.api.values.times import timestamp
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.metadata import keep_metadata_for_status
from apiserver.registry.definition.resource import Column, Resource, Subresource, Version
from apiserver.registry.definition.strategy import Strategy
from apiserver.resources.common.columns import name_and_age

__all__ = ["API_SERVICES"]

Json = dict[str, Any]
Errors = list[FieldError]

_SPEC: Final = Path("spec")
_SERVICE: Final = _SPEC / "service"
_STATUSES: Final = ("True", "False", "Unknown")


def _service(spec: Json) -> Errors:
    service, bundle = spec.get("service"), spec.get("caBundle", "")
    insecure = spec.get("insecureSkipTLSVerify", False)
    if service is None:
        errors: Errors = []
        if bundle:
            size = f"{len(b64decode(bundle))} bytes"
            errors.append(invalid(_SPEC / "caBundle", size, "local APIServices may not have a caBundle"))
        if insecure:
            text = "local APIServices may not have insecureSkipTLSVerify"
            errors.append(invalid(_SPEC / "insecureSkipTLSVerify", True, text))
        return errors
    errors = [required(_SERVICE / name) for name in ("namespace", "name") if not service.get(name)]
    port = service.get("port", 0)
    if not 1 <= port <= 65535:
        text = "port is not valid: must be between 1 and 65535, inclusive"
        errors.append(invalid(_SERVICE / "port", port, text))
    if insecure and bundle:
        text = "may not be true if caBundle is present"
        errors.append(invalid(_SPEC / "insecureSkipTLSVerify", True, text))
    return errors


def _whole(obj: Json) -> Errors:
    spec = obj["spec"]
    group, version = spec.get("group", ""), spec.get("version", "")
    errors: Errors = []
    if not group and version != "v1":
        errors.append(required(_SPEC / "group", "only v1 may have an empty group and it better be legacy kube"))
    errors += [invalid(_SPEC / "group", group, text) for text in (dns_subdomain(group) if group else ())]
    errors += [invalid(_SPEC / "version", version, text) for text in dns1035_label(version)]
    for name, most in (("groupPriorityMinimum", 20000), ("versionPriority", 1000)):
        value = spec.get(name, 0)
        if not 0 < value <= most:
            errors.append(invalid(_SPEC / name, value, f"must be positive and less than {most}"))
    return errors + _service(spec)


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
        """It is named by its version and group."""
        name, spec = obj["metadata"].get("name", ""), obj["spec"]
        wanted = f"{spec.get('version', '')}.{spec.get('group', '')}"
        if ctx.subresource or not name or name == wanted:
            return []
        text = f'must be `spec.version+"."+spec.group`: {go_quote(wanted)}'
        return [invalid(Path("metadata") / "name", name, text)]

    def validate(self, ctx: Context, obj: Json) -> Errors:
        return _whole(obj)

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> Errors:
        return _whole(obj)

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
        Column(name="Service", cell=_by, description="The service that serves it."),
        Column(name="Available", cell=_available, description="Whether it is there."),
    ),
    subresources=(Subresource(name="status", tables=False),),
    unconditional_update=False,
)  # fmt: skip
