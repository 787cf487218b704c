"""What answers for which path: every served resource and subresource in each of its versions, looked up by name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from apiserver.api.status import PlainError, StatusError, method_not_allowed, unknown_resource
from apiserver.http.formats.view import View
from apiserver.messages import Request
from apiserver.registry.resource import Subresource
from apiserver.registry.store import Store
from apiserver.requestinfo import RequestInfo

_COLLECTION_VERBS: Final = frozenset({"list", "watch", "create", "deletecollection"})
_ITEM_VERBS: Final = frozenset({"get", "update", "patch", "delete"})


class Endpoint:
    """A resource, or one of its subresources, in a version. `view` shows its objects; `connect` serves every verb of
    log, exec and the like; a `projector` shows a part of the object as another kind.
    """

    __slots__ = (
        "connect",
        "has_items",
        "namespaced",
        "projector",
        "storage",
        "store",
        "tables",
        "verbs",
        "view",
        "warning",
    )

    def __init__(self, store: Store, view: View, warning: str, subresource: Subresource | None = None) -> None:
        self.store, self.view, self.warning = store, view, warning
        self.namespaced = view.resource.namespaced
        #: Whether its objects are stored at all (reviews are not).
        self.storage = view.resource.create is None
        self.verbs = frozenset(view.resource.verbs if subresource is None else subresource.verbs)
        #: Whether a path may name one of them: what is only created has no such paths.
        self.has_items = not self.verbs.isdisjoint(_ITEM_VERBS)
        self.tables = subresource is None or subresource.tables
        self.connect = subresource.connect if subresource is not None else None
        self.projector = store.projectors.get(subresource.name) if subresource is not None else None
        if self.projector is not None:
            self.view = View(self.projector.kind, self.projector.version)


class Routes:
    """The endpoints of a server by (group, version, resource, subresource)."""

    def __init__(self) -> None:
        self._endpoints: dict[tuple[str, str, str, str], Endpoint] = {}

    def add(self, store: Store, view: View, warning: str) -> None:
        """Serve a resource in a version, with its subresources. `warning`, where it is not "", goes with every
        answer.
        """
        resource = view.resource
        key = (resource.group, view.version.name, resource.plural)
        self._endpoints[*key, ""] = Endpoint(store, view, warning)
        for subresource in resource.subresources:
            self._endpoints[*key, subresource.name] = Endpoint(store, view, warning, subresource)

    def serves(self, info: RequestInfo) -> bool:
        """Whether there is the resource, or the subresource, that a request names; one that names none is served."""
        return not info.resource or (info.group, info.version, info.resource, info.subresource) in self._endpoints

    def find(self, request: Request, info: RequestInfo) -> Endpoint:
        """What answers. Raises the 404 or 405 that upstream gives."""
        endpoint = self._endpoints.get((info.group, info.version, info.resource, info.subresource))
        if endpoint is None:
            raise self._unknown(info)
        verb, name = info.verb, info.name
        if endpoint.namespaced is not bool(info.namespace):
            _check_scope(endpoint, info)
        if info.subresource:
            if not name or (info.rest and info.subresource != "proxy"):
                raise unknown_resource()
        elif name and not endpoint.has_items:
            raise unknown_resource()
        elif (verb in _COLLECTION_VERBS) is bool(name) and verb != "watch":
            raise method_not_allowed()
        if verb not in endpoint.verbs or (request.method == "HEAD" and endpoint.connect is None):
            raise method_not_allowed()
        return endpoint

    def _unknown(self, info: RequestInfo) -> PlainError | StatusError:
        """The error for a path that no endpoint serves."""
        if all(group != info.group for group, *_ in self._endpoints):
            return PlainError(404, "404 page not found")
        resource = self._endpoints.get((info.group, info.version, info.resource, ""))
        if resource is not None:
            try:
                _check_scope(resource, info)
            except StatusError as error:
                return error
        return unknown_resource()

    def __iter__(self) -> Iterator[Endpoint]:
        return iter(self._endpoints.values())


def _check_scope(endpoint: Endpoint, info: RequestInfo) -> None:
    """A path without a namespace may list and watch what has namespaces; what has none knows no namespace. (The path
    of a namespace names itself.) Raises 404, 405.
    """
    if not info.namespace:
        if endpoint.namespaced and (info.name or info.verb not in ("list", "watch")):
            raise unknown_resource() if info.name else method_not_allowed()
    elif not endpoint.namespaced and info.resource != "namespaces":
        raise unknown_resource()
