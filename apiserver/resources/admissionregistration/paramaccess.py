"""Require read access to the params of a policy, because policies can reveal their content.

Facts: pkg/registry/admissionregistration/*/authz.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from apiserver.api.errors.field_errors import FieldError, Path, forbidden
from apiserver.api.objects import Json

if TYPE_CHECKING:
    from apiserver.registry.definition.context import Context
    from apiserver.request.messages import User

__all__ = ["kind_errors", "reference_errors"]


_GROUP: Final = "admissionregistration.k8s.io"


class _Params(NamedTuple):
    """The resource of a kind of params. `known`: it is served; otherwise access to all resources is checked."""

    group: str
    resource: str
    known: bool


_EVERYTHING: Final = _Params("*", "*", False)


def _params(ctx: Context, kind: Json) -> _Params:
    group, _, version = kind.get("apiVersion", "").rpartition("/")
    found = ctx.resource_of(group, version, kind.get("kind", ""))
    return _Params(group, "*" if found is None else found.plural, found is not None)


def _shown(user: User) -> str:
    """Format a user as upstream's messages do."""
    extra = " ".join(f"{key}:[{' '.join(values)}]" for key, values in sorted(user.extra.items()))
    return f"&{{{user.name} {user.uid} [{' '.join(user.groups)}] map[{extra}]}}"


def kind_errors(ctx: Context, kind: Json | None, before: Json | None) -> list[FieldError]:
    """Require read access to all objects of a new paramKind."""
    if kind is None or kind == before:
        return []
    params = _params(ctx, kind)
    if ctx.authorize("get", params.group, params.resource, "", "*", "*"):
        return []
    text = (
        f'user {_shown(ctx.user)} must have "get" permission on all objects of the referenced paramKind'
        f" (kind={kind.get('kind', '')}, apiVersion={kind.get('apiVersion', '')})"
    )
    return [forbidden(Path("spec") / "paramKind", text)]


def reference_errors(ctx: Context, policies: str, spec: Json, before: Json | None) -> list[FieldError]:
    """Require read access to the params of a new reference in a binding.

    `policies` is the resource of the bound policy.
    """
    ref = spec.get("paramRef")
    if ref is None or (
        before is not None
        and before.get("paramRef") == ref
        and before.get("policyName") == spec["policyName"]
        and ref.get("selector") is None  # upstream compares their addresses
    ):
        return []
    policy = ctx.lookup(_GROUP, policies, "", spec["policyName"])
    kind = None if policy is None else policy["spec"].get("paramKind")
    params = _EVERYTHING if kind is None else _params(ctx, kind)
    verb = "get" if ref.get("name") else "list"
    if ctx.authorize(verb, params.group, params.resource, "", ref.get("namespace", ""), ref.get("name", "")):
        return []
    who, needs = _shown(ctx.user), f'does not have "{verb}" permission'
    if policy is None:
        text = (
            f"unable to get policy {spec['policyName']} to determine minimum required permissions and user {who}"
            f" {needs} for all groups, versions and resources"
        )
    elif kind is not None and not params.known:
        shown = f"&ParamKind{{APIVersion:{kind.get('apiVersion', '')},Kind:{kind.get('kind', '')},}}"
        text = (
            f"unable to resolve paramKind {shown} to determine minimum required permissions and user {who} {needs} for"
            " all groups, versions and resources"
        )
    else:
        text = f"user {who} {needs} on the object referenced by paramRef"
    return [forbidden(Path("spec") / "paramRef", text)]
