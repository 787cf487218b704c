"""The labels of requests in upstream's metrics.

Facts: apiserver/pkg/endpoints/metrics (metrics.go).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from apiserver.request.info import RequestInfo

if TYPE_CHECKING:
    from apiserver.request.messages import Request

__all__ = [
    "APPLY",
    "LONG_RUNNING",
    "REQUEST",
    "SYSTEM",
    "dry_run_of",
    "get_long_running_labels",
    "scope_of",
    "system_client",
    "verb_of",
]

#: The labels of every metric about requests.
LONG_RUNNING: Final = ("verb", "group", "version", "resource", "subresource", "scope", "component")
REQUEST: Final = (*LONG_RUNNING, "dry_run")

_CONNECTED: Final = frozenset({"log", "exec", "portforward", "attach", "proxy"})
_VERBS: Final = {
    "create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE", "deletecollection": "DELETE",
    "get": "GET", "list": "LIST", "watch": "WATCH", "post": "POST", "put": "PUT", "head": "GET",
}  # fmt: skip
#: Kubernetes' own clients with a label value each, by the first word of their user agent.
_SYSTEM: Final = frozenset({"kube-apiserver", "kube-controller-manager", "kube-scheduler"})
#: Prefix of the user agents of all of them.
SYSTEM: Final = "kube-"
#: The content type of a patch with a verb of its own.
APPLY: Final = "application/apply-patch+yaml"


def scope_of(info: RequestInfo) -> str:
    """Return the scope of a request: one object, a namespace or the cluster; "" for a path without a resource."""
    if info.name or info.verb == "create":
        return "resource"
    if info.namespace:
        return "namespace"
    return "cluster" if info.resource else ""


def verb_of(info: RequestInfo, *, applies: bool = False) -> str:
    """Return the counted verb. Unknown verbs, of which clients can invent any number, are "other"."""
    if info.subresource in _CONNECTED:
        return "CONNECT"
    if applies:
        return "APPLY"
    return _VERBS.get(info.verb, "other")


def dry_run_of(request: Request) -> str:
    """Return the label of `dryRun`: "", All, or invalid."""
    if "dryRun" not in request.query:
        return ""
    said = set(request.params.get("dryRun", ()))
    return ",".join(sorted(said)) if said <= {"All"} else "invalid"


def system_client(agent: str) -> str:
    """Return the Kubernetes component of a user agent, "" for any other.

    Agents without the prefix `SYSTEM` need no call.
    """
    head, slash, _ = agent.partition("/")
    return head if slash and head in _SYSTEM else ""


def get_long_running_labels(info: RequestInfo, verb: str, *, known: bool) -> tuple[str, ...]:
    """Return the values of LONG_RUNNING.

    Unknown resources are counted together, so that there are no more samples than resources and verbs.
    """
    if not known or not info.resource:
        return (verb, "", "", "", "", "", "")
    where = (info.group, info.version, info.resource, info.subresource)
    return (verb, *where, scope_of(info), "apiserver")
