"""Define roles and bindings: strategies, defaults, columns. Rules: pkg/registry/rbac, pkg/apis/rbac."""

from __future__ import annotations

from datetime import datetime

from apiserver.api.errors.field_errors import FieldError, Path
from apiserver.api.objects import Json
from apiserver.api.types.rbac import ClusterRole, ClusterRoleBinding, Role, RoleBinding
from apiserver.api.validation.changes import changes
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.resource import Column, Resource, Version
from apiserver.registry.definition.strategy import Strategy
from apiserver.resources.common.columns import NAME, name_and_age
from apiserver.resources.rbac.escalation import guard_binding, guard_role
from apiserver.resources.rbac.validation import (
    GROUP,
    validate_aggregation,
    validate_binding,
    validate_rules,
)

__all__ = ["CLUSTER_ROLES", "CLUSTER_ROLE_BINDINGS", "ROLES", "ROLE_BINDINGS"]


class RoleStrategy(Strategy):
    name_rule = "path-segment"

    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        return validate_rules(obj.get("rules"), namespaced=True)

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        return self.validate(ctx, obj)


class ClusterRoleStrategy(Strategy):
    name_rule = "path-segment"

    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        return validate_rules(obj.get("rules"), namespaced=False) + validate_aggregation(obj.get("aggregationRule"))

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        broken = bool(validate_aggregation(old.get("aggregationRule")))
        return validate_rules(obj.get("rules"), namespaced=False) + validate_aggregation(
            obj.get("aggregationRule"), any_value=broken
        )


class BindingStrategy(Strategy):
    name_rule = "path-segment"

    def __init__(self, *, namespaced: bool) -> None:
        self._namespaced = namespaced
        self._changes = changes(RoleBinding if namespaced else ClusterRoleBinding)

    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        return validate_binding(obj, namespaced=self._namespaced)

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        return self.validate(ctx, obj) + self._changes.errors(Path(), obj, old)


def default_binding(obj: Json, now: datetime) -> None:
    """Default the API group of the role reference and of subjects other than service accounts."""
    ref = obj["roleRef"]
    if not ref.get("apiGroup"):
        obj["roleRef"] = {"apiGroup": GROUP, **{name: value for name, value in ref.items() if name != "apiGroup"}}
    subjects = obj.get("subjects")
    if subjects:
        obj["subjects"] = [_defaulted(subject) for subject in subjects]


def _defaulted(subject: Json) -> Json:
    if subject.get("apiGroup") or subject.get("kind") not in ("User", "Group"):
        return subject
    return {
        "kind": subject["kind"],
        "apiGroup": GROUP,
        **{name: value for name, value in subject.items() if name not in ("kind", "apiGroup")},
    }


def _created_at(obj: Json) -> str:
    text: str = obj["metadata"].get("creationTimestamp") or ""
    return text


def _role(obj: Json) -> str:
    ref = obj["roleRef"]
    return f"{ref.get('kind', '')}/{ref.get('name', '')}"


def _names(kind: str) -> Column:
    def cell(obj: Json) -> str:
        found = [subject for subject in obj.get("subjects") or () if subject.get("kind") == kind]
        if kind == "ServiceAccount":
            return ", ".join(f"{subject.get('namespace', '')}/{subject.get('name', '')}" for subject in found)
        return ", ".join(subject.get("name", "") for subject in found)

    return Column(name=f"{kind}s", cell=cell, priority=1, description=f"{kind}s with the role.")


_ROLE_COLUMNS = (
    NAME,
    Column(name="Created At", cell=_created_at, type="date", description="Creation time of the object."),
)
_BINDING_COLUMNS = (
    *name_and_age(Column(name="Role", cell=_role, description="The granted role.")),
    _names("User"),
    _names("Group"),
    _names("ServiceAccount"),
)

ROLES = Resource(
    group=GROUP,
    kind="Role",
    plural="roles",
    singular="role",
    namespaced=True,
    versions=(Version(name="v1", schema=Role),),
    strategy=RoleStrategy(),
    storage_prefix="roles",
    columns=_ROLE_COLUMNS,
    create_on_update=True,
    guard=guard_role,
)
CLUSTER_ROLES = Resource(
    group=GROUP, kind="ClusterRole", plural="clusterroles", singular="clusterrole", namespaced=False,
    versions=(Version(name="v1", schema=ClusterRole),),
    strategy=ClusterRoleStrategy(), storage_prefix="clusterroles", columns=_ROLE_COLUMNS, create_on_update=True,
    guard=guard_role,
)  # fmt: skip
ROLE_BINDINGS = Resource(
    group=GROUP, kind="RoleBinding", plural="rolebindings", singular="rolebinding", namespaced=True,
    versions=(Version(name="v1", schema=RoleBinding, default=default_binding),),
    strategy=BindingStrategy(namespaced=True), storage_prefix="rolebindings", columns=_BINDING_COLUMNS,
    create_on_update=True, guard=guard_binding,
)  # fmt: skip
CLUSTER_ROLE_BINDINGS = Resource(
    group=GROUP,
    kind="ClusterRoleBinding",
    plural="clusterrolebindings",
    singular="clusterrolebinding",
    namespaced=False,
    versions=(Version(name="v1", schema=ClusterRoleBinding, default=default_binding),),
    strategy=BindingStrategy(namespaced=False),
    storage_prefix="clusterrolebindings",
    columns=_BINDING_COLUMNS,
    create_on_update=True,
    guard=guard_binding,
)
