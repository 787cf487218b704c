"""The endpoints by path: every served resource and subresource in each of its versions, looked up by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from apiserver.api.errors.field_errors import go_quote
from apiserver.api.errors.status import (
    PlainError,
    StatusError,
    bad_request,
    method_not_allowed,
    not_found,
    qualified,
    unknown_resource,
)
from apiserver.http.formats.negotiation import JSON, check_routed
from apiserver.http.formats.view import View
from apiserver.http.sinks.metrics import ServedResource
from apiserver.registry.definition.resource import Subresource
from apiserver.registry.store.store import Store
from apiserver.registry.verbs.patch import check_patch_type
from apiserver.request.info import RequestInfo
from apiserver.request.messages import Request

_NO_PAGE: Final = "404 page not found"
_COLLECTION_VERBS: Final = frozenset({"list", "watch", "create", "deletecollection"})
_ITEM_VERBS: Final = frozenset({"get", "update", "patch", "delete"})


class Endpoint:
    """A resource, or one of its subresources, in a version.

    `view` renders its objects; `connect` serves every verb of log, exec and the like; a `projector` renders a part of
    the object as another kind.
    """

    __slots__ = (
        "bare",
        "connect",
        "custom",
        "has_items",
        "namespaced",
        "projector",
        "storage",
        "store",
        "subresource",
        "tables",
        "usual",
        "verbs",
        "view",
        "warning",
    )

    def __init__(self, store: Store, view: View, warning: str, subresource: Subresource | None = None) -> None:
        self.store, self.view, self.warning, self.subresource = store, view, warning, subresource
        self.custom = view.resource.custom
        self.namespaced = view.resource.namespaced
        #: Whether its objects are stored (reviews are not).
        self.storage = view.resource.create is None
        self.verbs = frozenset(view.resource.verbs if subresource is None else subresource.verbs)
        #: Whether paths with a name exist; create-only resources have none.
        self.has_items = not self.verbs.isdisjoint(_ITEM_VERBS)
        #: Whether responses can be Tables.
        self.tables = self.storage and (subresource is None or (subresource.tables and subresource.create is None))
        #: Whether its objects are bare JSON. A scale is a type of its own for every resource.
        self.bare = self.custom and (subresource is None or subresource.projection is None)
        self.connect = subresource.connect if subresource is not None else None
        self.projector = None
        if subresource is not None:
            self.projector = store.projectors.get((view.version.name, subresource.name))
        if self.projector is not None:
            self.view = View(self.projector.kind, self.projector.version)
        #: (verb, has a name, has a namespace) of requests for which only the media types need checks.
        self.usual: frozenset[tuple[str, bool, bool]] = frozenset()
        if self.connect is None and not warning:
            self.usual = frozenset(
                (verb, subresource is not None or verb in _ITEM_VERBS, self.namespaced) for verb in self.verbs
            )


class Routes:
    """The endpoints of a server by (group, version, resource, subresource); none before the first `set_served`."""

    def __init__(self) -> None:
        self._endpoints: dict[tuple[str, str, str, str], Endpoint] = {}

    def set_served(self, served: Iterable[tuple[Store, View, str]]) -> None:
        """Replace the served resources: each in a version, with its subresources.

        The warning is added to every response; "" for none.
        """
        endpoints: dict[tuple[str, str, str, str], Endpoint] = {}
        for store, view, warning in served:
            resource = view.resource
            key = (resource.group, view.version.name, resource.plural)
            endpoints[*key, ""] = Endpoint(store, view, warning)
            for subresource in resource.subresources:
                endpoints[*key, subresource.name] = Endpoint(store, view, warning, subresource)
        self._endpoints = endpoints

    def serves(self, info: RequestInfo) -> ServedResource | None:
        """Return the resource or subresource of a request, None if unknown; other paths count as served."""
        if not info.resource:
            return ServedResource()
        endpoint = self._endpoints.get((info.group, info.version, info.resource, info.subresource))
        if endpoint is None:
            return None
        removed = endpoint.view.version.removed
        return ServedResource(bool(endpoint.warning), f"{removed[0]}.{removed[1]}" if removed else "")

    def kind_of(self, info: RequestInfo) -> str:
        """Return the kind that a body must have; "" if no body is accepted."""
        endpoint = self._endpoints.get((info.group, info.version, info.resource, info.subresource))
        expected = endpoint.store.bodies.get((info.version, info.subresource)) if endpoint is not None else None
        return expected.kind if expected is not None else ""

    def find(self, request: Request) -> Endpoint:
        """Return the endpoint; set the request's warning. Raise upstream's 404, 405, 406 or 415."""
        info = request.info
        endpoint = self._endpoints.get((info.group, info.version, info.resource, info.subresource))
        if endpoint is None:
            raise self._unknown(request)
        verb, before = info.verb, request.warnings
        if (verb, info.name != "", info.namespace != "") not in endpoint.usual or info.rest or request.method == "HEAD":
            self._check(endpoint, request)
        elif not (verb == "patch" or request.headers.get("accept", JSON) != JSON):
            return endpoint
        if endpoint.custom:
            return endpoint
        text = info.subresource == "log"
        if endpoint.connect is None or text:
            try:
                check_routed(verb, request.headers, text=text)
            except StatusError:
                request.warnings = before  # no warning without a call of the endpoint
                raise
        return endpoint

    def _check(self, endpoint: Endpoint, request: Request) -> None:
        """Raise for a request that an endpoint does not serve; add its warning otherwise."""
        info = request.info
        verb, name = info.verb, info.name
        if endpoint.custom:
            _check_custom(endpoint, request)
            return
        if endpoint.namespaced is not bool(info.namespace):
            _check_scope(endpoint, info)
        if info.subresource:
            if not name or (info.rest and info.subresource != "proxy"):
                raise unknown_resource()
        elif name and (info.rest or not endpoint.has_items):
            raise unknown_resource()
        elif (verb in _COLLECTION_VERBS) is bool(name) and verb != "watch":
            raise method_not_allowed()
        if verb == "watch" and verb not in endpoint.verbs and _is_old_watch(request):
            raise unknown_resource()  # such paths exist only for watchable resources
        if verb == "watch" and verb not in endpoint.verbs and "list" in endpoint.verbs:
            _warn(endpoint, request)
            raise _unsupported(info)
        if (verb not in endpoint.verbs and not _asks_proxy(request, endpoint)) or (
            request.method == "HEAD" and endpoint.connect is None
        ):
            raise method_not_allowed()
        _warn(endpoint, request)

    def _unknown(self, request: Request) -> PlainError | StatusError:
        """Return the error for a path without an endpoint; add the warning of a custom resource."""
        info = request.info
        resource = self._endpoints.get((info.group, info.version, info.resource, ""))
        if all(group != info.group or endpoint.custom for (group, *_), endpoint in self._endpoints.items()):
            if resource is None or not _is_in_scope(resource, info):
                return PlainError(404, _NO_PAGE)
            _warn(resource, request)
            return not_found(info.resource, info.group, info.name)
        if resource is not None:
            try:
                _check_scope(resource, info)
            except StatusError as error:
                return error
        return unknown_resource()

    def __iter__(self) -> Iterator[Endpoint]:
        return iter(self._endpoints.values())


def _is_old_watch(request: Request) -> bool:
    """Return whether the path (/api/v1/watch/…) and not a parameter makes it a watch."""
    return request.path.split("/")[4 if request.info.group else 3] == "watch"


def _asks_proxy(request: Request, endpoint: Endpoint) -> bool:
    """Return whether the request is OPTIONS for a proxied server, which is no verb."""
    subresource = endpoint.subresource
    return request.method == "OPTIONS" and subresource is not None and subresource.name == "proxy"


def _warn(endpoint: Endpoint, request: Request) -> None:
    """Add the endpoint's warning to those of the request, once."""
    if endpoint.warning and endpoint.warning not in request.warnings:
        request.warnings = [*request.warnings, endpoint.warning]


def _is_in_scope(endpoint: Endpoint, info: RequestInfo) -> bool:
    """Return whether a path has a namespace as a custom resource requires it."""
    return endpoint.namespaced is bool(info.namespace) or (endpoint.namespaced and info.verb in ("list", "watch"))


def _check_custom(endpoint: Endpoint, request: Request) -> None:
    """Raise the errors of upstream's handler of custom resources: wrong scope, verb, missing name.

    No router precedes it: superfluous names and path segments are ignored, and HEAD is GET. Raise 400, 404, 405, 415.
    """
    info = request.info
    if not _is_in_scope(endpoint, info):
        raise PlainError(404, _NO_PAGE)
    _warn(endpoint, request)
    if info.verb not in endpoint.verbs:
        raise _unsupported(info)
    if not info.name and info.verb in ("update", "patch"):
        if info.verb == "patch":
            check_patch_type(request, custom=True)
        raise bad_request("name must be provided")


def _unsupported(info: RequestInfo) -> StatusError:
    text = f"{info.verb} is not supported on resources of kind {go_quote(qualified(info.resource, info.group))}"
    group = {"group": info.group} if info.group else {}
    return StatusError(405, "MethodNotAllowed", text, {**group, "kind": info.resource})


def _check_scope(endpoint: Endpoint, info: RequestInfo) -> None:
    """Check the namespace of a path. Raise 404 and 405.

    A path without a namespace can list and watch namespaced resources; cluster-scoped resources allow no namespace.
    (The path of a namespace names itself.)
    """
    if not info.namespace:
        listed = "list" in endpoint.verbs and not info.name
        if endpoint.namespaced and not (listed and info.verb in ("list", "watch")):
            raise method_not_allowed() if listed else unknown_resource()
    elif not endpoint.namespaced and (info.resource, info.name) != ("namespaces", info.namespace):
        raise unknown_resource()
