"""Roles and their bindings of rbac.authorization.k8s.io/v1."""

from __future__ import annotations

from apiserver.api.schema.language import STRING, ListOf, Struct, field
from apiserver.api.schema.limits import Immutable, Limits
from apiserver.api.schema.markers import Enum, If, Invalid, Required, equals, is_any_set, is_set, is_unset, knows
from apiserver.api.types.meta import TYPE_META, LabelSelector, ObjectMeta, list_of

_GROUP = "rbac.authorization.k8s.io"

PolicyRule = Struct("io.k8s.api.rbac.v1.PolicyRule", lambda: (
    field("verbs", 1, ListOf(STRING), omit=False, required=True,
        limits=Limits(required="verbs must contain at least one value"),
        doc="Verbs that are allowed, such as get or list; * for all."),
    field("apiGroups", 2, ListOf(STRING), limits=Limits(required="resource rules must supply at least one api group"),
        doc="API groups of the resources; the empty string is the core group, * stands for all."),
    field("resources", 3, ListOf(STRING), limits=Limits(required="resource rules must supply at least one resource"),
        doc="Plural names of resources, with a subresource as pods/status; * for all."),
    field("resourceNames", 4, ListOf(STRING), doc="Names of objects that the rule is limited to; all when empty."),
    field("nonResourceURLs", 5, ListOf(STRING),
        doc="Paths that are not of resources, in ClusterRoles only; a * as the last step stands for any further path."),
), doc="PolicyRule allows verbs for resources, or for paths.", rules=(
    "verbs",
    If(is_unset("nonResourceURLs"), ("apiGroups", "resources")),
    Invalid("nonResourceURLs", "namespaced rules cannot apply to non-resource URLs",
        when=(is_set("nonResourceURLs"), knows(lambda env: env.namespaced))),
    Invalid("nonResourceURLs", "rules cannot apply to both regular resources and non-resource URLs",
        when=(is_set("nonResourceURLs"), is_any_set("apiGroups", "resources", "resourceNames"))),
))
Subject = Struct("io.k8s.api.rbac.v1.Subject", lambda: (
    field("kind", 1, STRING, omit=False, required=True, doc="User, Group or ServiceAccount."),
    field("apiGroup", 2, STRING,
        doc="API group of the subject: empty for ServiceAccount, rbac.authorization.k8s.io (the default) for User and "
            "Group."),
    field("name", 3, STRING, omit=False, required=True, limits=Limits(required=True, format="subdomain"),
        doc="Name of the user, group or service account."),
    field("namespace", 4, STRING, doc="Namespace of a service account; must be empty for users and groups."),
), atomic=True, doc="Subject is a user, a group or a service account that gets the rights of a role.", rules=(
    If(
        equals("kind", "ServiceAccount"),
        ("name", Enum("apiGroup", ("",)), Required("namespace", when=knows(lambda env: not env.namespaced))),
        otherwise=(Required("name"), If(equals("kind", "User", "Group"), (Enum("apiGroup", (_GROUP,)),))),
    ),
    Enum("kind", ("ServiceAccount", "User", "Group")),
))
RoleRef = Struct("io.k8s.api.rbac.v1.RoleRef", lambda: (
    field("apiGroup", 1, STRING, omit=False,
        doc="API group of the role: rbac.authorization.k8s.io, which is the default."),
    field("kind", 2, STRING, omit=False, required=True, doc="Role or ClusterRole."),
    field("name", 3, STRING, omit=False, required=True, limits=Limits(required=True, format="path-segment"),
        doc="Name of the role."),
), atomic=True, doc="RoleRef names the granted role.", rules=(
    Enum("apiGroup", (_GROUP,)),
    Enum("kind", ("Role", "ClusterRole"), when=knows(lambda env: env.namespaced)),
    Enum("kind", ("ClusterRole",), when=knows(lambda env: not env.namespaced)),
    "name",
))
AggregationRule = Struct("io.k8s.api.rbac.v1.AggregationRule", lambda: (
    field("clusterRoleSelectors", 1, ListOf(LabelSelector),
        doc="Labels of ClusterRoles; the rules of each that matches any selector are included."),
), doc="AggregationRule composes a ClusterRole from others.")
Role = Struct("io.k8s.api.rbac.v1.Role", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
    field("rules", 2, ListOf(PolicyRule), omit=False, doc="Allowed requests; none when empty."),
), gvk=(_GROUP, "v1", "Role"), doc="Role is a set of rights within a namespace.")
ClusterRole = Struct("io.k8s.api.rbac.v1.ClusterRole", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
    field("rules", 2, ListOf(PolicyRule), omit=False,
        doc="Allowed requests; none when empty. With an aggregationRule a controller fills them in."),
    field("aggregationRule", 3, AggregationRule, pointer=True, doc="Other ClusterRoles whose rules make up this one."),
), gvk=(_GROUP, "v1", "ClusterRole"),
    doc="ClusterRole is a set of rights in the whole cluster, or in a namespace when a RoleBinding refers to it.")
RoleBinding = Struct("io.k8s.api.rbac.v1.RoleBinding", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
    field("subjects", 2, ListOf(Subject), doc="Users, groups and service accounts that get the role."),
    field("roleRef", 3, RoleRef, omit=False, required=True,
        limits=Limits(immutable=Immutable(words="cannot change roleRef")),
        doc="A Role of the namespace or a ClusterRole; fixed."),
), gvk=(_GROUP, "v1", "RoleBinding"), doc="RoleBinding grants a role to subjects within a namespace.")
ClusterRoleBinding = Struct("io.k8s.api.rbac.v1.ClusterRoleBinding", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
    field("subjects", 2, ListOf(Subject), doc="Users, groups and service accounts that get the role."),
    field("roleRef", 3, RoleRef, omit=False, required=True,
        limits=Limits(immutable=Immutable(words="cannot change roleRef")),
        doc="The ClusterRole; fixed."),
), gvk=(_GROUP, "v1", "ClusterRoleBinding"),
    doc="ClusterRoleBinding grants a ClusterRole to subjects in the whole cluster.")

RoleList = list_of(Role)
ClusterRoleList = list_of(ClusterRole)
RoleBindingList = list_of(RoleBinding)
ClusterRoleBindingList = list_of(ClusterRoleBinding)
