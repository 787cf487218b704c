"""Roles and their bindings of rbac.authorization.k8s.io/v1."""

from __future__ import annotations

from apiserver.api.schema import STRING, ListOf, Struct, field
from apiserver.api.types.meta import TYPE_META, LabelSelector, ObjectMeta, list_of

_GROUP = "rbac.authorization.k8s.io"

PolicyRule = Struct("io.k8s.api.rbac.v1.PolicyRule", lambda: (
    field("verbs", 1, ListOf(STRING), omit=False, required=True),
    field("apiGroups", 2, ListOf(STRING)),
    field("resources", 3, ListOf(STRING)),
    field("resourceNames", 4, ListOf(STRING)),
    field("nonResourceURLs", 5, ListOf(STRING)),
))
Subject = Struct("io.k8s.api.rbac.v1.Subject", lambda: (
    field("kind", 1, STRING, omit=False, required=True),
    field("apiGroup", 2, STRING),
    field("name", 3, STRING, omit=False, required=True),
    field("namespace", 4, STRING),
), atomic=True)
RoleRef = Struct("io.k8s.api.rbac.v1.RoleRef", lambda: (
    field("apiGroup", 1, STRING, omit=False),
    field("kind", 2, STRING, omit=False, required=True),
    field("name", 3, STRING, omit=False, required=True),
), atomic=True)
AggregationRule = Struct("io.k8s.api.rbac.v1.AggregationRule", lambda: (
    field("clusterRoleSelectors", 1, ListOf(LabelSelector)),
))
Role = Struct("io.k8s.api.rbac.v1.Role", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False),
    field("rules", 2, ListOf(PolicyRule), omit=False),
), gvk=(_GROUP, "v1", "Role"))
ClusterRole = Struct("io.k8s.api.rbac.v1.ClusterRole", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False),
    field("rules", 2, ListOf(PolicyRule), omit=False),
    field("aggregationRule", 3, AggregationRule, pointer=True),
), gvk=(_GROUP, "v1", "ClusterRole"))
RoleBinding = Struct("io.k8s.api.rbac.v1.RoleBinding", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False),
    field("subjects", 2, ListOf(Subject)),
    field("roleRef", 3, RoleRef, omit=False, required=True),
), gvk=(_GROUP, "v1", "RoleBinding"))
ClusterRoleBinding = Struct("io.k8s.api.rbac.v1.ClusterRoleBinding", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False),
    field("subjects", 2, ListOf(Subject)),
    field("roleRef", 3, RoleRef, omit=False, required=True),
), gvk=(_GROUP, "v1", "ClusterRoleBinding"))

RoleList = list_of(Role)
ClusterRoleList = list_of(ClusterRole)
RoleBindingList = list_of(RoleBinding)
ClusterRoleBindingList = list_of(ClusterRoleBinding)
