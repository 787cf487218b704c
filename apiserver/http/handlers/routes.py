"""What answers for which path: every served resource and subresource in each of its versions, looked up by name."""

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
from apiserver.http.sinks.metrics import Served
from apiserver.registry.definition.resource import Subresource
from apiserver.registry.store.store import Store
from apiserver.registry.verbs.patch import check_patch_type
from apiserver.request.info import RequestInfo
from apiserver.request.messages import Request

_NO_PAGE: Final = "404 page not found"
_COLLECTION_VERBS: Final = frozenset({"list", "watch", "create", "deletecollection"})
_ITEM_VERBS: Final = frozenset({"get", "update", "patch", "delete"})


class Endpoint:
    """A resource, or one of its subresources, in a version. `view` shows its objects; `connect` serves every verb of
    log, exec and the like; a `projector` shows a part of the object as another kind.
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
        #: Whether its objects are stored at all (reviews are not).
        self.storage = view.resource.create is None
        self.verbs = frozenset(view.resource.verbs if subresource is None else subresource.verbs)
        #: Whether a path may name one of them: what is only created has no such paths.
        self.has_items = not self.verbs.isdisjoint(_ITEM_VERBS)
        #: Whether anything makes tables of what is answered.
        self.tables = self.storage and (subresource is None or (subresource.tables and subresource.create is None))
        #: Whether its objects are bare JSON. A scale is a type of its own, whatever it is a scale of.
        self.bare = self.custom and (subresource is None or subresource.projection is None)
        self.connect = subresource.connect if subresource is not None else None
        self.projector = None
        if subresource is not None:
            self.projector = store.projectors.get((view.version.name, subresource.name))
        if self.projector is not None:
            self.view = View(self.projector.kind, self.projector.version)
        #: Verb, whether there is a name, whether there is a namespace: requests of which only the media types are to be
        #: looked at.
        self.usual: frozenset[tuple[str, bool, bool]] = frozenset()
        if self.connect is None and not warning:
            self.usual = frozenset(
                (verb, subresource is not None or verb in _ITEM_VERBS, self.namespaced) for verb in self.verbs
            )


class Routes:
    """The endpoints of a server by (group, version, resource, subresource); none before the first `show`."""

    def __init__(self) -> None:
        self._endpoints: dict[tuple[str, str, str, str], Endpoint] = {}

    def show(self, served: Iterable[tuple[Store, View, str]]) -> None:
        """Serve these and nothing else from now on: each a resource in a version, with its subresources and with the
        warning that goes with every answer; "" for none.
        """
        endpoints: dict[tuple[str, str, str, str], Endpoint] = {}
        for store, view, warning in served:
            resource = view.resource
            key = (resource.group, view.version.name, resource.plural)
            endpoints[*key, ""] = Endpoint(store, view, warning)
            for subresource in resource.subresources:
                endpoints[*key, subresource.name] = Endpoint(store, view, warning, subresource)
        self._endpoints = endpoints

    def serves(self, info: RequestInfo) -> Served | None:
        """The resource, or the subresource, that a request names, if there is one; one that names none is served."""
        if not info.resource:
            return Served()
        endpoint = self._endpoints.get((info.group, info.version, info.resource, info.subresource))
        if endpoint is None:
            return None
        removed = endpoint.view.version.removed
        return Served(bool(endpoint.warning), f"{removed[0]}.{removed[1]}" if removed else "")

    def kind_of(self, info: RequestInfo) -> str:
        """The kind that a body has to be of; "" where nothing takes one."""
        endpoint = self._endpoints.get((info.group, info.version, info.resource, info.subresource))
        expected = endpoint.store.bodies.get((info.version, info.subresource)) if endpoint is not None else None
        return expected.kind if expected is not None else ""

    def find(self, request: Request) -> Endpoint:
        """What answers; the request gets its warning. Raises the 404, 405, 406 or 415 that upstream gives."""
        info = request.info
        endpoint = self._endpoints.get((info.group, info.version, info.resource, info.subresource))
        if endpoint is None:
            raise self._unknown(info)
        verb = info.verb
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
                request.warnings = []  # what is behind the router has not been asked
                raise
        return endpoint

    def _check(self, endpoint: Endpoint, request: Request) -> None:
        """Refuses what an endpoint does not serve; what it warns of goes with the answer."""
        info = request.info
        verb, name = info.verb, info.name
        if endpoint.custom:
            _check_custom(endpoint, request)
            if endpoint.warning:
                request.warnings = [endpoint.warning]
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
        warnings = [endpoint.warning] if endpoint.warning else []
        if verb == "watch" and verb not in endpoint.verbs and _is_old_watch(request):
            raise unknown_resource()  # there are such paths only for what can be watched
        if verb == "watch" and verb not in endpoint.verbs and "list" in endpoint.verbs:
            request.warnings = warnings
            raise _unsupported(info)
        if (verb not in endpoint.verbs and not _asks_proxy(request, endpoint)) or (
            request.method == "HEAD" and endpoint.connect is None
        ):
            raise method_not_allowed()
        if warnings:
            request.warnings = warnings

    def _unknown(self, info: RequestInfo) -> PlainError | StatusError:
        """The error for a path that no endpoint serves."""
        if all(group != info.group or endpoint.custom for (group, *_), endpoint in self._endpoints.items()):
            resource = self._endpoints.get((info.group, info.version, info.resource, ""))
            return PlainError(404, _NO_PAGE) if resource is None else not_found(info.resource, info.group, info.name)
        resource = self._endpoints.get((info.group, info.version, info.resource, ""))
        if resource is not None:
            try:
                _check_scope(resource, info)
            except StatusError as error:
                return error
        return unknown_resource()

    def __iter__(self) -> Iterator[Endpoint]:
        return iter(self._endpoints.values())


def _is_old_watch(request: Request) -> bool:
    """Whether the path says that it is a watch (/api/v1/watch/…), not a parameter."""
    return request.path.split("/")[4 if request.info.group else 3] == "watch"


def _asks_proxy(request: Request, endpoint: Endpoint) -> bool:
    """What stands behind a proxy is asked for its options, too, which is no verb."""
    subresource = endpoint.subresource
    return request.method == "OPTIONS" and subresource is not None and subresource.name == "proxy"


def _check_custom(endpoint: Endpoint, request: Request) -> None:
    """What upstream's handler of custom resources refuses itself: a path of another scope, a verb, a missing name. No
    router stands before it: names that a verb does not need and what follows them are passed over, and HEAD is GET.
    Raises 400, 404, 405, 415.
    """
    info = request.info
    if endpoint.namespaced is not bool(info.namespace) and not (endpoint.namespaced and info.verb in ("list", "watch")):
        raise PlainError(404, _NO_PAGE)
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
    """A path without a namespace may list and watch what has namespaces; what has none knows no namespace. (The path
    of a namespace names itself.) Raises 404, 405.
    """
    if not info.namespace:
        listed = "list" in endpoint.verbs and not info.name
        if endpoint.namespaced and not (listed and info.verb in ("list", "watch")):
            raise method_not_allowed() if listed else unknown_resource()
    elif not endpoint.namespaced and (info.resource, info.name) != ("namespaces", info.namespace):
        raise unknown_resource()
