"""Prevent privilege escalation: check the writer's own rights before a role or a binding is written.

A role may grant only rights of its writer, unless the writer may `escalate` it. A binding may refer only to a role
whose rights its writer has, unless the writer may `bind` it. Members of system:masters are exempt. Facts:
pkg/registry/rbac (escalation_check, policybased).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from apiserver.api.errors import status
from apiserver.api.errors.field_errors import go_quote
from apiserver.api.objects import Json
from apiserver.authorization.rules import describe, missing_rights, quoted_list

if TYPE_CHECKING:
    from apiserver.registry.definition.authority import Authority
    from apiserver.registry.definition.context import Context
    from apiserver.registry.store.store import Store

__all__ = ["guard_binding", "guard_role"]


_EVERYTHING: Final[list[Json]] = [
    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
    {"verbs": ["*"], "nonResourceURLs": ["*"]},
]
#: Metadata that the garbage collector changes. Such changes grant nothing.
_UNGUARDED: Final = ("ownerReferences", "finalizers", "managedFields", "resourceVersion")


def _unasked(ctx: Context, obj: Json, old: Json | None) -> bool:
    return "system:masters" in ctx.user.groups or (old is not None and _without_owners(obj) == _without_owners(old))


def _without_owners(obj: Json) -> Json:
    metadata = {name: value for name, value in obj["metadata"].items() if name not in _UNGUARDED}
    return {**obj, "metadata": metadata}


async def guard_role(store: Store, ctx: Context, obj: Json, old: Json | None) -> None:
    """Raise 403 if the role grants more than its writer's rights."""
    resource = ctx.resource
    if _unasked(ctx, obj, old) or await ctx.is_allowed(
        "escalate", resource.group, resource.plural, "", ctx.namespace, ctx.name
    ):
        return
    authority = _authority(store)
    name = obj["metadata"].get("name", "")
    _confirm(authority, ctx, name, obj.get("rules") or [])
    if any((role.get("aggregationRule") or {}).get("clusterRoleSelectors") for role in (obj, old or {})):
        held, _ = authority.list_role_rules(ctx.user, ctx.namespace)
        if missing_rights(held, _EVERYTHING):
            raise status.forbidden(
                resource.plural, resource.group, name, "must have cluster-admin privileges to use the aggregationRule"
            )


async def guard_binding(store: Store, ctx: Context, obj: Json, old: Json | None) -> None:
    """Raise 403 if the bound role grants more than the writer's rights, 404 if it does not exist."""
    if _unasked(ctx, obj, old):
        return
    ref = obj.get("roleRef") or {}
    group, kind, role = ref.get("apiGroup", ""), ref.get("kind", ""), ref.get("name", "")
    plural = {"Role": "roles", "ClusterRole": "clusterroles"}.get(kind)
    if plural is not None and await ctx.is_allowed("bind", group, plural, "", ctx.namespace, role):
        return
    if plural is None:
        raise status.server_error(f"unsupported role reference kind: {go_quote(kind)}")
    authority = _authority(store)
    rules = authority.role_rules(kind, ctx.namespace, role)
    if rules is None:
        raise status.not_found(ctx.resource.plural, ctx.resource.group, role)
    _confirm(authority, ctx, obj["metadata"].get("name", ""), rules)


def _authority(store: Store) -> Authority:
    authority = store.registry.authority
    assert authority is not None, "a server has an authorizer"
    return authority


def _confirm(authority: Authority, ctx: Context, name: str, wanted: list[Json]) -> None:
    held, missing_roles = authority.list_role_rules(ctx.user, ctx.namespace)
    missing = missing_rights(held, wanted)
    if not missing:
        return
    resource = ctx.resource
    lines = "\n".join(sorted({describe(rule) for rule in missing}))
    user = ctx.user
    cause = (
        f"user {go_quote(user.name)} (groups={quoted_list(user.groups)}) is attempting to grant RBAC permissions not"
        f" currently held:\n{lines}"
    )
    if missing_roles:
        texts = list(
            dict.fromkeys(
                f'{status.qualified(resource.plural, resource.group)} "{role}" not found' for role in missing_roles
            )
        )
        cause += f"; resolution errors: [{texts[0] if len(texts) == 1 else '[' + ', '.join(texts) + ']'}]"
    raise status.forbidden(resource.plural, resource.group, name, cause)
