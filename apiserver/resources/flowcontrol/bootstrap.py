"""List the built-in schemas and levels, and their immutable parts (apiserver/pkg/apis/flowcontrol/bootstrap)."""

from __future__ import annotations

from typing import Final

from apiserver.api.objects import Json

__all__ = ["AUTO_UPDATE", "LEVELS", "MANDATORY_LEVELS", "MANDATORY_SCHEMAS", "SCHEMAS"]


#: Objects with this annotation are kept equal to the built-in ones.
AUTO_UPDATE: Final = "apf.kubernetes.io/autoupdate-spec"
_ALL: Final = ["*"]
_EVERYTHING: Final[list[Json]] = [
    {"verbs": _ALL, "apiGroups": _ALL, "resources": _ALL, "clusterScope": True, "namespaces": _ALL}
]
_EVERY_PATH: Final[list[Json]] = [{"verbs": _ALL, "nonResourceURLs": _ALL}]
_EVERYBODY: Final = ("system:unauthenticated", "system:authenticated")
_MANAGER, _SCHEDULER = "system:kube-controller-manager", "system:kube-scheduler"
_SYSTEM_ACCOUNTS: Final[Json] = {
    "kind": "ServiceAccount",
    "serviceAccount": {"name": "*", "namespace": "kube-system"},
}


def _groups(*names: str) -> list[Json]:
    return [{"kind": "Group", "group": {"name": name}} for name in names]


def _users(*names: str) -> list[Json]:
    return [{"kind": "User", "user": {"name": name}} for name in names]


def _queued(shares: int, lendable: int, queues: int, hand: int) -> Json:
    queuing = {"queues": queues, "handSize": hand, "queueLengthLimit": 50}
    response = {"type": "Queue", "queuing": queuing}
    limited = {"nominalConcurrencyShares": shares, "lendablePercent": lendable, "limitResponse": response}
    return {"type": "Limited", "limited": limited}


def _leases(*verbs: str) -> Json:
    return {"verbs": list(verbs), "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "namespaces": _ALL}


def _schema(
    level: str,
    precedence: int,
    method: str,
    subjects: list[Json],
    resources: list[Json] | None = None,
    paths: list[Json] | None = None,
) -> Json:
    rule: Json = {"subjects": subjects}
    if resources is None and paths is None:
        resources, paths = _EVERYTHING, _EVERY_PATH
    rule |= {"resourceRules": resources} if resources else {}
    rule |= {"nonResourceRules": paths} if paths else {}
    spec: Json = {"priorityLevelConfiguration": {"name": level}, "matchingPrecedence": precedence, "rules": [rule]}
    return spec | ({"distinguisherMethod": {"type": method}} if method else {})


MANDATORY_LEVELS: Final[dict[str, Json]] = {
    "exempt": {"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}},
    "catch-all": {
        "type": "Limited",
        "limited": {"nominalConcurrencyShares": 5, "lendablePercent": 0, "limitResponse": {"type": "Reject"}},
    },
}
MANDATORY_SCHEMAS: Final[dict[str, Json]] = {
    "exempt": _schema("exempt", 1, "", _groups("system:masters")),
    "catch-all": _schema("catch-all", 10000, "ByUser", _groups(*_EVERYBODY)),
}
LEVELS: Final[dict[str, Json]] = MANDATORY_LEVELS | {
    "system": _queued(30, 33, 64, 6),
    "node-high": _queued(40, 25, 64, 6),
    "leader-election": _queued(10, 0, 16, 4),
    "workload-high": _queued(40, 50, 128, 6),
    "workload-low": _queued(100, 90, 128, 6),
    "global-default": _queued(20, 50, 128, 6),
}
SCHEMAS: Final[dict[str, Json]] = MANDATORY_SCHEMAS | {
    "system-nodes": _schema("system", 500, "ByUser", _groups("system:nodes")),
    "system-node-high": _schema("node-high", 400, "ByUser", _groups("system:nodes"), [
        {
            "verbs": _ALL, "apiGroups": [""], "resources": ["nodes", "nodes/status"], "clusterScope": True,
            "namespaces": _ALL,
        },
        _leases("*"),
    ]),
    "probes": _schema("exempt", 2, "", _groups(*_EVERYBODY), None, [
        {"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]},
    ]),
    "system-leader-election": _schema(
        "leader-election", 100, "ByUser", [*_users(_MANAGER, _SCHEDULER), _SYSTEM_ACCOUNTS],
        [_leases("get", "create", "update")],
    ),
    "kube-controller-manager": _schema("workload-high", 800, "ByNamespace", _users(_MANAGER)),
    "kube-scheduler": _schema("workload-high", 800, "ByNamespace", _users(_SCHEDULER)),
    "kube-system-service-accounts": _schema("workload-high", 900, "ByNamespace", [_SYSTEM_ACCOUNTS]),
    "service-accounts": _schema("workload-low", 9000, "ByUser", _groups("system:serviceaccounts")),
    "global-default": _schema("global-default", 9900, "ByUser", _groups(*_EVERYBODY)),
}  # fmt: skip
