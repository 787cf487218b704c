"""Serve log, exec, attach, portforward and proxy of pods.

If the node's status has the address of a kubelet, requests go to that kubelet. Otherwise `logs` emulates the log and
the other subresources return an error. Errors of the request itself come first, with upstream's texts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlencode

from apiserver.api.errors.field_errors import Path, invalid
from apiserver.api.errors.status import StatusError, bad_request, forbidden, not_found
from apiserver.api.errors.status import invalid as invalid_status
from apiserver.api.helpers.pod_logs import LogOptions
from apiserver.api.objects import Json
from apiserver.api.values.numbers import int64
from apiserver.registry.definition.authority import Question
from apiserver.request.messages import Response, Stream
from apiserver.resources.pods import logs
from apiserver.resources.pods.defaults import containers

if TYPE_CHECKING:
    from apiserver.registry.definition.context import Context
    from apiserver.registry.store.store import Store
    from apiserver.request.messages import Request

__all__ = ["attach", "execute", "log", "port_forward", "proxy"]


_NO_CONTAINERS: Final = (
    "kubedra emulates nodes: the containers of pod {name} do not run, so there is nothing to {what}; pods go through"
    " their phases, and devices through allocation and preparation"
)
_CREATE_GATE: Final = "AuthorizePodWebsocketUpgradeCreatePermission"
_SWITCHES: Final = ("follow", "previous", "timestamps")
_LOG_OPTIONS: Final = ("limitBytes", "sinceSeconds", "sinceTime", "stream", "tailLines")
_COUNTS: Final = ("sinceSeconds", "tailLines", "limitBytes")


async def _check_create(store: Store, ctx: Context) -> None:
    """Require the verb create to connect to a container, even for a websocket opened by GET. Raise 403."""
    if ctx.verb == "create" or not ctx.features.enabled(_CREATE_GATE):
        return
    authority = store.registry.authority
    assert authority is not None, "a server has an authorizer"
    question = Question("create", "", "pods", ctx.subresource, ctx.namespace, ctx.name)
    decision = await authority.decide(ctx.user, question)
    if not decision.allowed:
        raise forbidden("pods", "", ctx.name, decision.reason)


def _pod(store: Store, ctx: Context) -> Json:
    entry = store.cache.get(store.key(ctx.namespace, ctx.name))
    if entry is None:
        raise not_found("pods", "", ctx.name)
    pod: Json = entry.obj
    return pod


def _emulated(name: str, what: str) -> StatusError:
    return StatusError(501, "NotImplemented", _NO_CONTAINERS.format(name=name, what=what))


def _container(pod: Json, wanted: str) -> str:
    """Return the requested container, or raise an error that lists the containers."""
    name = pod["metadata"]["name"]
    known = [container.get("name", "") for container in containers(pod["spec"])]
    if wanted:
        if wanted not in known:
            raise bad_request(f"container {wanted} is not valid for pod {name}")
        return wanted
    regular = [container.get("name", "") for container in pod["spec"].get("containers") or ()]
    if len(regular) == 1:
        only: str = regular[0]
        return only
    init = [container.get("name", "") for container in pod["spec"].get("initContainers") or ()]
    others = f" or one of the init containers: [{' '.join(init)}]" if init else ""
    raise bad_request(
        f"a container name must be specified for pod {name}, choose one of: [{' '.join(regular)}]{others}"
    )


def _first(request: Request, name: str) -> str:
    values = request.params.get(name)
    return values[0] if values else ""


def _check_counts(request: Request, name: str) -> None:
    errors = []
    for field in _COUNTS:
        number = int64(_first(request, field))
        if number is not None and number < (0 if field == "tailLines" else 1):
            bound = "must be greater than or equal to 0" if field == "tailLines" else "must be greater than 0"
            errors.append(invalid(Path(field), number, bound))
    if errors:
        raise invalid_status("PodLogOptions", "", name, errors)


async def log(store: Store, ctx: Context, request: Request) -> Response | Stream:
    """Serve a pod's log. A pod without a node returns 204, as upstream does."""
    _check_counts(request, ctx.name)
    pod = _pod(store, ctx)
    container = _container(pod, _first(request, "container"))
    name = pod["spec"].get("nodeName")
    if not name:
        return Response(204, b"", "text/plain")
    node = ctx.lookup("", "nodes", "", name)
    if node is None:
        raise not_found("pods", "", name)
    kubelets = store.registry.kubelets
    if kubelets is not None and kubelets.serves(name):
        found = await kubelets.log(name, pod["metadata"]["uid"], container, request.query)
        if found is not None:
            return found
    endpoints = store.registry.kubelet_endpoints
    place = endpoints.place(node) if endpoints is not None else None
    if endpoints is not None and place is not None:
        insecure = _is_true(request, "insecureSkipTLSVerifyBackend")
        try:
            return await endpoints.log(place, _log_target(pod, container, request), ctx.name, insecure=insecure)
        except StatusError as error:
            # A kubelet that runs processes has no log of its emulated containers.
            if error.code != 404 or not logs.emulated(pod, node, container):
                raise
    if not logs.emulated(pod, node, container):
        raise _emulated(ctx.name, "read a log from")
    return logs.emulated_log(store, pod, container, LogOptions.parse(request.params, ctx.now))


def _log_target(pod: Json, container: str, request: Request) -> str:
    """Return the kubelet's URL path of a container's log."""
    given = [(name, "true" if _is_true(request, name) else "") for name in _SWITCHES]
    given += [(name, _first(request, name)) for name in _LOG_OPTIONS]
    query = urlencode(sorted(pair for pair in given if pair[1]))
    return f"{_target('containerLogs', pod, container)}{'?' if query else ''}{query}"


def _is_true(request: Request, name: str) -> bool:
    """Return whether a parameter is true: any value but 0 and false."""
    return name in request.params and _first(request, name).lower() not in ("0", "false")


def _target(what: str, pod: Json, *below: str) -> str:
    meta = pod["metadata"]
    return "/" + "/".join(quote(part) for part in (what, meta["namespace"], meta["name"], *below))


async def _switched(store: Store, ctx: Context, request: Request, what: str) -> Response | Stream | None:
    """Return the kubelet's response to a connection upgrade; None if no kubelet listens."""
    pod, endpoints = _pod(store, ctx), store.registry.kubelet_endpoints
    node = ctx.lookup("", "nodes", "", pod["spec"].get("nodeName", ""))
    place = endpoints.place(node) if endpoints is not None and node is not None else None
    if endpoints is None or place is None:
        return None
    below = () if what == "portForward" else (_container(pod, _first(request, "container")),)
    query = f"?{request.query}" if request.query else ""
    return await endpoints.switch(place, _target(what, pod, *below) + query, request)


def _streaming(store: Store, ctx: Context, request: Request, what: str) -> StatusError:
    pod = _pod(store, ctx)
    _container(pod, _first(request, "container"))
    if not pod["spec"].get("nodeName"):
        return bad_request(f"pod {ctx.name} does not have a host assigned")
    return _emulated(ctx.name, what)


async def execute(store: Store, ctx: Context, request: Request) -> Response | Stream:
    await _check_create(store, ctx)
    pod, kubelets = _pod(store, ctx), store.registry.kubelets
    node = pod["spec"].get("nodeName", "")
    if kubelets is not None and node and kubelets.serves(node):
        container = _container(pod, _first(request, "container"))
        uid = pod["metadata"]["uid"]
        found = await kubelets.execute(node, uid, container, request.query, request.headers)
        if found is not None:
            return found
    passed = await _switched(store, ctx, request, "exec")
    # A kubelet that runs processes does not know emulated containers.
    is_lost = passed is not None and passed.status == 404
    if passed is not None and not (is_lost and logs.emulated(pod, None, _container(pod, _first(request, "container")))):
        return passed
    raise _streaming(store, ctx, request, "execute in")


async def attach(store: Store, ctx: Context, request: Request) -> Response | Stream:
    await _check_create(store, ctx)
    passed = await _switched(store, ctx, request, "attach")
    if passed is not None:
        return passed
    raise _streaming(store, ctx, request, "attach to")


async def port_forward(store: Store, ctx: Context, request: Request) -> Response | Stream:
    await _check_create(store, ctx)
    pod = _pod(store, ctx)
    if not pod["spec"].get("nodeName"):
        raise bad_request(f"pod {ctx.name} does not have a host assigned")
    passed = await _switched(store, ctx, request, "portForward")
    if passed is not None:
        return passed
    raise _emulated(ctx.name, "forward a port to")


async def proxy(store: Store, ctx: Context, request: Request) -> Response:
    _pod(store, ctx)
    raise _emulated(ctx.name, "connect to")
