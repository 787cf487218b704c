"""ResourceQuota: the usage of a namespace stays within its quotas and is charged before the write.

A quota applies once its status has limits and usage. A controller sets both. Each quota is charged in one write that
checks it again. The controller corrects charges of writes that fail afterwards.
Facts: k8s.io/apiserver/pkg/admission/plugin/resourcequota.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Sequence
from typing import Final

from apiserver.api.errors.status import StatusError
from apiserver.api.helpers.pod_requests import Quantities, quantities
from apiserver.api.helpers.quotas import (
    changes_usage,
    matches_scopes,
    matching_scopes,
    missing_resources,
    scopes_of,
    select_measured,
    usage,
)
from apiserver.api.objects import Json
from apiserver.api.values.quantity import Quantity
from apiserver.registry.definition.resource import Resource
from apiserver.registry.store.admission import Attributes, Operation, Plugin, forbidden

__all__ = ["ResourceQuota"]


_QUOTAS: Final = ("", "resourcequotas")
#: Kinds whose updates may change the usage.
_CHANGING: Final = frozenset(
    {("", "pods"), ("", "services"), ("", "persistentvolumeclaims"), ("resource.k8s.io", "resourceclaims")}
)
_NONE: Final = Quantity.of(0)


class ResourceQuota(Plugin):
    name = "ResourceQuota"
    configured_by: tuple[str, str] | None = _QUOTAS
    operations = frozenset({"CREATE", "UPDATE"})

    def __init__(self, limited: Sequence[Json] = ()) -> None:
        """Set the limitedResources of a ResourceQuotaConfiguration: using them requires a quota."""
        self._needing = tuple(limited)
        if self._needing:
            self.configured_by = None  # A limited resource is refused even if there is no quota.

    def handles_operation(self, resource: Resource, operation: Operation) -> bool:
        if not resource.namespaced or resource.create is not None or resource.plural == "events":
            return False
        return operation == "CREATE" or (operation == "UPDATE" and (resource.group, resource.plural) in _CHANGING)

    def validate(self, attributes: Attributes) -> Awaitable[None] | None:
        obj, ctx = attributes.obj, attributes.ctx
        if obj is None or (attributes.subresource and attributes.operation == "CREATE"):
            return None
        quotas = [quota for quota in ctx.all_of(*_QUOTAS) if quota["metadata"]["namespace"] == attributes.namespace]
        if not quotas and not self._needing:
            return None
        key, old = (attributes.resource.group, attributes.resource.plural), attributes.old
        if old is not None and not changes_usage(key, attributes.subresource, obj, old):
            return None
        used, before = usage(key, obj), {} if old is None else usage(key, old)
        found = [(quota, limits) for quota in quotas if (limits := _get_limited_resources(attributes, key, quota))]
        changes = [
            _difference(used, before if old is not None and matches_scopes(key, quota["spec"], old) else {})
            for quota, _ in found
        ] or [_difference(used, before)]
        if self._needing and any(changes):
            self._require_quotas(attributes, key, quotas, {name for _, limits in found for name in limits})
        charges = []
        for (quota, limits), more in zip(found, changes, strict=False):
            charge = {name: amount for name, amount in more.items() if name in limits}
            if charge:
                _add_charge(attributes, quota, charge)
                charges.append((quota["metadata"]["name"], charge))
        return _charge(attributes, charges) if charges and not ctx.dry_run else None

    def _require_quotas(
        self, attributes: Attributes, key: tuple[str, str], quotas: Iterable[Json], names: set[str]
    ) -> None:
        """Require a quota for each limited resource of an object.

        `names` are the resources that the object's quotas limit.
        Raises 403, and 500 for scopes without a quota.
        """
        obj = attributes.obj or {}
        parts = [
            part
            for needing in self._needing
            if (needing.get("apiGroup", ""), needing["resource"]) == key
            for part in needing.get("matchContains") or ()
        ]
        consumed = usage(key, obj) if parts else {}
        needed = {name for name, amount in consumed.items() if amount.sign > 0 and any(part in name for part in parts)}
        if needed - names:
            raise forbidden(attributes, f"insufficient quota to consume: {','.join(sorted(needed - names))}")
        scopes = [scope for needing in self._needing for scope in needing.get("matchScopes") or ()]
        there = {
            scope["scopeName"] for quota in quotas for scope in matching_scopes(key, scopes_of(quota["spec"]), obj)
        }
        missing = [scope for scope in matching_scopes(key, scopes, obj) if scope["scopeName"] not in there]
        if missing:
            shown = " ".join(map(_go_scope, missing))
            raise StatusError(500, "", f"insufficient quota to match these scopes: [{shown}]")


def _go_scope(scope: Json) -> str:
    return f"{{{scope['scopeName']} {scope.get('operator', '')} [{' '.join(scope.get('values') or ())}]}}"


def _get_limited_resources(attributes: Attributes, key: tuple[str, str], quota: Json) -> list[str]:
    """Return the object's resources that a quota limits, or [] outside of its scope.

    Raises 403 if the object lacks required requests, or if the usage of the quota is not known yet.
    """
    obj, status, name = attributes.obj or {}, quota.get("status") or {}, quota["metadata"]["name"]
    limited = select_measured(key, status.get("hard") or ())
    if not limited or not matches_scopes(key, quota["spec"], obj):
        return []
    if key == ("", "pods"):
        missing = missing_resources(obj, limited)
        if missing:
            text = "; ".join(f"{resource} for: {','.join(names)}" for resource, names in sorted(missing.items()))
            raise forbidden(attributes, f"failed quota: {name}: must specify {text}")
    known = status.get("used") or {}
    if any(resource not in known for resource in limited):
        raise forbidden(attributes, f"status unknown for quota: {name}, resources: {','.join(sorted(limited))}")
    return limited


def _difference(used: Quantities, before: Quantities) -> Quantities:
    """Return the increase in usage."""
    more = {name: amount.sub(before[name]) if name in before else amount for name, amount in used.items()}
    return {name: amount for name, amount in more.items() if amount.sign > 0}


def _add_charge(attributes: Attributes, quota: Json, charge: Quantities) -> Quantities:
    """Return the usage of a quota with a charge. Raise 403 if it exceeds the quota."""
    hard, used = (quantities((quota.get("status") or {}).get(part)) for part in ("hard", "used"))
    after = {**used, **{name: used.get(name, _NONE).add(amount) for name, amount in charge.items()}}
    exceeded = sorted(name for name in charge if name in hard and after[name].compare(hard[name]) > 0)
    if exceeded:
        asked, had, limits = (_format_amounts(amounts, exceeded) for amounts in (charge, used, hard))
        name = quota["metadata"]["name"]
        raise forbidden(attributes, f"exceeded quota: {name}, requested: {asked}, used: {had}, limited: {limits}")
    return after


def _format_amounts(amounts: Quantities, names: Iterable[str]) -> str:
    return ",".join(f"{name}={amounts.get(name, _NONE)}" for name in names)


async def _charge(attributes: Attributes, charges: list[tuple[str, Quantities]]) -> None:
    """Write the new usage of each quota. Raise 403 if a concurrent write used up a quota."""
    rewrite = attributes.ctx.rewrite
    assert rewrite is not None, "a server can write its own objects"
    for name, charge in charges:

        def charged(quota: Json, charge: Quantities = charge) -> Json:
            after = _add_charge(attributes, quota, charge)
            quota["status"]["used"] = {resource: str(amount) for resource, amount in after.items()}
            return quota

        await rewrite(*_QUOTAS, attributes.namespace, name, charged, subresource="status")
