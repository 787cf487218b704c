"""The bootstrap policy: cluster roles, roles of the system namespaces, and their bindings.

Facts: plugin/pkg/auth/authorizer/rbac/bootstrappolicy. The policy needs no store; `bootstrap` writes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from apiserver.api.objects import Json
from apiserver.authorization.controller_tables import CONTROLLER_ROLES
from apiserver.authorization.policy_tables import CLUSTER_ROLES

if TYPE_CHECKING:
    from apiserver.api.features.gates import Features

__all__ = ["Policy", "node_rules", "policy"]


GROUP: Final = "rbac.authorization.k8s.io"
SYSTEM: Final = "kube-system"
_CONTROLLER: Final = "system:controller:"
_AGGREGATE: Final = f"{GROUP}/aggregate-to-"
_VERBS: Final = {
    "READ": "get,list,watch",
    "WRITE": "create,delete,deletecollection,patch,update",
    "READ-UPDATE": "get,list,patch,update,watch",
    "ALL": "create,delete,deletecollection,get,list,patch,update,watch",
}
_EVENTS: Final = "create,patch,update core,events.k8s.io events"


class Policy(NamedTuple):
    """The objects of a policy, without kind and apiVersion."""

    cluster_roles: list[Json]
    cluster_bindings: list[Json]
    roles: list[Json]
    bindings: list[Json]


def policy(features: Features) -> Policy:
    """Build the policy of a release with its gates."""
    roles = list(_cluster_roles(CLUSTER_ROLES, features))
    controllers = list(_cluster_roles(CONTROLLER_ROLES, features))
    there = {role["metadata"]["name"] for role in roles}
    bindings = [_cluster_binding(name, *subjects) for name, subjects in _BOUND.items() if name in there]
    for role in controllers:
        name: str = role["metadata"]["name"]
        bindings.append(_cluster_binding(name, _account(name.removeprefix(_CONTROLLER))))
    return Policy(roles + controllers, bindings, _namespace_roles(features), _namespace_bindings())


def node_rules(features: Features) -> list[Json]:
    """Return the rules of the role system:node."""
    _, _, rules = CLUSTER_ROLES.partition("# system:node\n")
    (role,) = _cluster_roles("# system:node\n" + rules.partition("\n# ")[0], features)
    found: list[Json] = role["rules"]
    return found


def _object(name: str, namespace: str = "", labels: dict[str, str] | None = None) -> Json:
    """Return an object with the metadata of bootstrap policy, which the server may update."""
    metadata: Json = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    metadata["labels"] = {"kubernetes.io/bootstrapping": "rbac-defaults", **(labels or {})}
    metadata["annotations"] = {"rbac.authorization.kubernetes.io/autoupdate": "true"}
    return {"metadata": metadata}


# Tables


def _is_enabled(condition: str, features: Features) -> bool:
    """Return whether a gate is on, a release reached (`1.36`) or not yet reached (`<1.36`)."""
    before = condition.startswith("<")
    release = condition.removeprefix("<")
    if release[:1].isdigit():
        major, _, minor = release.partition(".")
        return (features.release >= (int(major), int(minor))) is not before
    return features.enabled(condition)


def _options(words: list[str]) -> dict[str, str]:
    return dict(word.split("=", 1) for word in words if "=" in word)


def _cluster_roles(table: str, features: Features) -> Iterator[Json]:
    role: Json | None = None
    for line in table.strip().replace(",\n    ", ",").split("\n"):
        if line.startswith("# "):
            if role is not None:
                yield role
            role = _role(line.split()[1:], features)
        elif role is not None and (rule := _rule(line, features)) is not None:
            role["rules"].append(rule)
    if role is not None:
        yield role


def _role(words: list[str], features: Features) -> Json | None:
    options = _options(words[1:])
    if "if" in options and not _is_enabled(options["if"], features):
        return None
    role = _object(words[0], labels={_AGGREGATE + options["to"]: "true"} if "to" in options else None)
    if "of" in options:
        role["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": {_AGGREGATE + options["of"]: "true"}}]}
    role["rules"] = []
    return role


def _rule(line: str, features: Features) -> Json | None:
    words = (_EVENTS if line == "EVENTS" else line).split()
    options = _options(words[3:])
    if "if" in options and not _is_enabled(options["if"], features):
        return None
    verbs = _VERBS.get(words[0], words[0]).split(",")
    if words[1] == "url":
        return {"verbs": verbs, "nonResourceURLs": words[2].split(",")}
    groups = ["" if group == "core" else group for group in words[1].split(",")]
    rule: Json = {"verbs": verbs, "apiGroups": groups, "resources": words[2].split(",")}
    if "names" in options:
        rule["resourceNames"] = options["names"].split(",")
    return rule


# Bindings


def _user(name: str) -> Json:
    return {"kind": "User", "apiGroup": GROUP, "name": name}


def _group(name: str) -> Json:
    return {"kind": "Group", "apiGroup": GROUP, "name": name}


def _account(name: str, namespace: str = SYSTEM) -> Json:
    return {"kind": "ServiceAccount", "name": name, "namespace": namespace}


_MANAGER: Final = "system:kube-controller-manager"
_SCHEDULER: Final = "system:kube-scheduler"
#: Cluster roles and their subjects. system:node has none: the node authorizer serves the nodes.
_BOUND: Final[dict[str, tuple[Json, ...]]] = {
    "cluster-admin": (_group("system:masters"),),
    "system:monitoring": (_group("system:monitoring"),),
    "system:discovery": (_group("system:authenticated"),),
    "system:basic-user": (_group("system:authenticated"),),
    "system:public-info-viewer": (_group("system:authenticated"), _group("system:unauthenticated")),
    "system:node-proxier": (_user("system:kube-proxy"),),
    _MANAGER: (_user(_MANAGER),),
    "system:kube-dns": (_account("kube-dns"),),
    _SCHEDULER: (_user(_SCHEDULER),),
    "system:volume-scheduler": (_user(_SCHEDULER),),
    "system:node": (),
    "system:service-account-issuer-discovery": (_group("system:serviceaccounts"),),
    "system:cluster-trust-bundle-discovery": (_group("system:serviceaccounts"),),
}


def _cluster_binding(name: str, *subjects: Json) -> Json:
    return {
        **_object(name),
        "subjects": list(subjects),
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": name},
    }


_LOCK: Final = (
    "create,get,list,update,watch coordination.k8s.io leases",
    "create,get,list,update,watch coordination.k8s.io leasecandidates",
)
_READER: Final = "extension-apiserver-authentication-reader"
#: (namespace, name) of roles, with their rules.
_NAMESPACED: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    (SYSTEM, _READER): ("READ core configmaps names=extension-apiserver-authentication",),
    (SYSTEM, _CONTROLLER + "bootstrap-signer"): ("READ core secrets",),
    (SYSTEM, _CONTROLLER + "cloud-provider"): ("create,get,list,watch core configmaps",),
    (SYSTEM, _CONTROLLER + "token-cleaner"): ("delete,get,list,watch core secrets", "EVENTS"),
    (SYSTEM, "system::leader-locking-kube-controller-manager"): _LOCK,
    (SYSTEM, "system::leader-locking-kube-scheduler"): _LOCK,
    ("kube-public", _CONTROLLER + "bootstrap-signer"): (
        "READ core configmaps",
        "update core configmaps names=cluster-info",
        "EVENTS",
    ),
}
#: (namespace, name) of bindings, with the role's name and the subjects.
_NAMESPACE_BOUND: Final[dict[tuple[str, str], tuple[str, tuple[Json, ...]]]] = {
    (SYSTEM, f"system::{_READER}"): (_READER, (_user(_MANAGER), _user(_SCHEDULER))),
    (SYSTEM, "system::leader-locking-kube-controller-manager"): (
        "system::leader-locking-kube-controller-manager",
        (_user(_MANAGER), _account("kube-controller-manager"), _account("leader-election-controller")),
    ),
    (SYSTEM, "system::leader-locking-kube-scheduler"): (
        "system::leader-locking-kube-scheduler",
        (_user(_SCHEDULER), _account("kube-scheduler")),
    ),
    (SYSTEM, _CONTROLLER + "bootstrap-signer"): (_CONTROLLER + "bootstrap-signer", (_account("bootstrap-signer"),)),
    (SYSTEM, _CONTROLLER + "cloud-provider"): (_CONTROLLER + "cloud-provider", (_account("cloud-provider"),)),
    (SYSTEM, _CONTROLLER + "token-cleaner"): (_CONTROLLER + "token-cleaner", (_account("token-cleaner"),)),
    ("kube-public", _CONTROLLER + "bootstrap-signer"): (
        _CONTROLLER + "bootstrap-signer",
        (_account("bootstrap-signer"),),
    ),
}


def _namespace_roles(features: Features) -> list[Json]:
    return [
        {**_object(name, namespace), "rules": [_rule(line, features) for line in lines]}
        for (namespace, name), lines in _NAMESPACED.items()
    ]


def _namespace_bindings() -> list[Json]:
    return [
        {
            **_object(name, namespace),
            "subjects": list(subjects),
            "roleRef": {"apiGroup": GROUP, "kind": "Role", "name": role},
        }
        for (namespace, name), (role, subjects) in _NAMESPACE_BOUND.items()
    ]
