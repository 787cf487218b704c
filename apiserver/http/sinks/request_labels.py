"""How upstream's metrics name a request.

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
    "of_what",
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
#: Clients of Kubernetes' own that are told apart, by the first word of their user agent.
_SYSTEM: Final = frozenset({"kube-apiserver", "kube-controller-manager", "kube-scheduler"})
#: How the user agents of all of them begin.
SYSTEM: Final = "kube-"
#: The content type of a patch that is counted with a verb of its own.
APPLY: Final = "application/apply-patch+yaml"


def scope_of(info: RequestInfo) -> str:
    """Whether one object is asked for, those of a namespace or all; "" for what is no resource."""
    if info.name or info.verb == "create":
        return "resource"
    if info.namespace:
        return "namespace"
    return "cluster" if info.resource else ""


def verb_of(info: RequestInfo, *, applies: bool = False) -> str:
    """The verb that is counted. Clients may make up as many as they like: those are "other"."""
    if info.subresource in _CONNECTED:
        return "CONNECT"
    if applies:
        return "APPLY"
    return _VERBS.get(info.verb, "other")


def dry_run_of(request: Request) -> str:
    """What `dryRun` says: nothing, All, or something invalid."""
    if "dryRun" not in request.query:
        return ""
    said = set(request.params.get("dryRun", ()))
    return ",".join(sorted(said)) if said <= {"All"} else "invalid"


def system_client(agent: str) -> str:
    """The component of Kubernetes itself that a user agent names, "" for any other, as for each that does not begin
    with `SYSTEM`.
    """
    head, slash, _ = agent.partition("/")
    return head if slash and head in _SYSTEM else ""


def of_what(info: RequestInfo, verb: str, *, known: bool) -> tuple[str, ...]:
    """The values of LONG_RUNNING. What clients make up is counted together, so that there are no more samples than
    resources and verbs.
    """
    if not known or not info.resource:
        return (verb, "", "", "", "", "", "")
    where = (info.group, info.version, info.resource, info.subresource)
    return (verb, *where, scope_of(info), "apiserver")
