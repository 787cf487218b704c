"""Define ResourceQuotas. The admission plugin ResourceQuota counts their usage.

Rules: pkg/apis/core/validation (ValidateResourceQuota), pkg/registry/core/resourcequota.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from apiserver.api.errors.field_errors import FieldError, Named, Path, invalid
from apiserver.api.objects import Json
from apiserver.api.schema.markers import Invalid, Required, differs, equals, is_set
from apiserver.api.types.core.quotas import ResourceQuota, ScopedResourceSelectorRequirement, ScopeSelector
from apiserver.api.validation.internal_values import internal
from apiserver.api.values.quantity import Quantity
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.resource import Column, Resource, Subresource, Version
from apiserver.resources.common.columns import name_and_age
from apiserver.resources.common.core_rules import RULES
from apiserver.resources.common.resource_names import quantity_value, resource_name
from apiserver.resources.common.status import StatusStrategy
from apiserver.resources.pods.defaults import round_amounts

_SPEC: Final = Path("spec")
_STATUS: Final = Path("status")
_COUNTED: Final = frozenset(
    {
        "cpu",
        "memory",
        "ephemeral-storage",
        "requests.cpu",
        "requests.memory",
        "requests.storage",
        "requests.ephemeral-storage",
        "limits.cpu",
        "limits.memory",
        "limits.ephemeral-storage",
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "persistentvolumeclaims",
        "configmaps",
        "services.nodeports",
        "services.loadbalancers",
    }
)
_OF_PODS: Final = frozenset({"pods", "cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"})
#: The resources that each scope can limit.
_SCOPES: Final = {
    "Terminating": _OF_PODS,
    "NotTerminating": _OF_PODS,
    "NotBestEffort": _OF_PODS,
    "PriorityClass": _OF_PODS,
    "CrossNamespacePodAffinity": _OF_PODS,
    "BestEffort": frozenset({"pods"}),
    "VolumeAttributesClass": frozenset({"persistentvolumeclaims", "requests.storage"}),
}
_EITHER: Final = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_ONLY_EXISTS: Final = ("BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity")
_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
_AT_LEAST_ONE: Final = "must be at least one value when `operator` is 'In' or 'NotIn'"
_MUST_EXIST: Final = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating,"
    " ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)
#: The maximum number of errors that each show the whole list. Upstream repeats the list once per item.
_MOST_SHOWN: Final = 100


def default(obj: Json, now: datetime) -> None:
    for part, field in (("spec", "hard"), ("status", "hard"), ("status", "used")):
        amounts = (obj.get(part) or {}).get(field)
        if amounts:
            round_amounts(amounts)


def _is_counted(name: str) -> bool:
    return name in _COUNTED or name.startswith(("hugepages-", "requests.hugepages-"))


def _amounts(path: Path, amounts: Json | None) -> list[FieldError]:
    errors: list[FieldError] = []
    for name, amount in (amounts or {}).items():
        at = path.key(name)
        errors += resource_name(at, name)
        if "/" not in name and not _is_counted(name):
            errors.append(invalid(at, Named(name), "must be a standard resource for quota"))
        errors += quantity_value(at, name, amount)
    return errors


def _beyond(scope: str, spec: Json) -> list[str]:
    """Return the limited resources that a scope does not cover."""
    return [
        name
        for name in sorted(spec.get("hard") or ())
        if _is_counted(name) and scope in _SCOPES and name not in _SCOPES[scope]
    ]


def _conflicts(scopes: set[str], spec: Json, path: Path) -> list[FieldError]:
    return [invalid(path, spec.get("scopes"), "conflicting scopes") for pair in _EITHER if pair <= scopes]


def _scopes(spec: Json) -> list[FieldError]:
    scopes, path = spec.get("scopes") or [], _SPEC / "scopes"
    errors: list[FieldError] = []
    for scope in scopes:
        if len(errors) > _MOST_SHOWN:
            break
        if scope not in _SCOPES:
            errors.append(invalid(path, scopes, "unsupported scope"))
        errors += [invalid(path, scopes, "unsupported scope applied to resource") for _ in _beyond(scope, spec)]
    return errors + _conflicts(set(scopes), spec, path)


RULES.set(
    ScopedResourceSelectorRequirement,
    Invalid("operator", _MUST_EXIST, when=(equals("scopeName", *_ONLY_EXISTS), differs("operator", "Exists"))),
    Required("values", f"{_AT_LEAST_ONE} for scope selector", when=equals("operator", "In", "NotIn")),
    Invalid(
        "values", "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector",
        when=(equals("operator", "Exists", "DoesNotExist"), is_set("values")),
    ),
    Invalid("operator", "not a valid selector operator", when=differs("operator", *_OPERATORS)),
    by_rules=("scopeName",),
)  # fmt: skip


def _selector(spec: Json) -> list[FieldError]:
    """Validate the scope selector. Paths have no indices, as upstream's do not."""
    selector, path = spec.get("scopeSelector"), _SPEC / "scopeSelector" / "matchExpressions"
    if selector is None:
        return []
    errors: list[FieldError] = []
    requirements = selector.get("matchExpressions") or []
    for requirement in requirements:
        if len(errors) > _MOST_SHOWN:
            break
        scope = requirement.get("scopeName", "")
        if scope not in _SCOPES:
            errors.append(invalid(path / "scopeName", Named(scope), "unsupported scope"))
        if beyond := _beyond(scope, spec):
            shown = internal(ScopeSelector, selector)
            errors += [invalid(path, shown, "unsupported scope applied to resource") for _ in beyond]
        errors += RULES.of(ScopedResourceSelectorRequirement).errors(path, requirement)
    return errors + _conflicts({requirement.get("scopeName", "") for requirement in requirements}, spec, path)


class ResourceQuotaStrategy(StatusStrategy):
    status_reset_fields = ("spec",)
    revalidates_metadata = False

    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        spec = obj["spec"]
        return _amounts(_SPEC / "hard", spec.get("hard")) + _scopes(spec) + _selector(spec)

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        errors, scopes = self.validate(ctx, obj), obj["spec"].get("scopes")
        if set(scopes or ()) == set(old["spec"].get("scopes") or ()):
            return errors
        return [*errors, invalid(_SPEC / "scopes", scopes, "field is immutable")]

    def validate_status_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        status = obj.get("status") or {}
        return _amounts(_STATUS / "hard", status.get("hard")) + _amounts(_STATUS / "used", status.get("used"))

    def warnings_on_create(self, ctx: Context, obj: Json) -> list[str]:
        """Warn of requests that exceed the limits."""
        hard, warnings = obj["spec"].get("hard") or {}, []
        for name in ("cpu", "memory", "storage", "ephemeral-storage"):
            bare = name in ("cpu", "memory") and f"requests.{name}" not in hard
            request, limit = name if bare else f"requests.{name}", f"limits.{name}"
            if request in hard and limit in hard and Quantity.parse(hard[limit]) < Quantity.parse(hard[request]):
                warnings.append(
                    f"ResourceQuota {request} ({hard[request]}) should be less than {limit} ({hard[limit]})"
                )
        return warnings


def _used(limits: bool) -> Any:
    """Return a cell with used and allowed quantities of limits, or of everything else."""

    def cell(obj: Json) -> str:
        status = obj.get("status") or {}
        used = status.get("used") or {}
        shown = sorted(
            (name, amount)
            for name, amount in (status.get("hard") or {}).items()
            if name.startswith("limits.") == limits
        )
        return ", ".join(f"{name}: {used.get(name, '0')}/{amount}" for name, amount in shown)

    return cell


RESOURCE_QUOTAS: Final = Resource(
    group="",
    kind="ResourceQuota",
    plural="resourcequotas",
    singular="resourcequota",
    namespaced=True,
    short_names=("quota",),
    versions=(Version(name="v1", schema=ResourceQuota, default=default),),
    strategy=ResourceQuotaStrategy(),
    storage_prefix="resourcequotas",
    columns=name_and_age(
        Column(
            name="Request", cell=_used(limits=False), description="Used and allowed amounts of requests and objects."
        ),
        Column(name="Limit", cell=_used(limits=True), description="Used and allowed amounts of limits."),
    ),
    subresources=(Subresource(name="status"),),
    delete_returns_object=True,
)
