"""List the paths of a resource with their operations, for both OpenAPI 2 and 3.

An `Operation` contains only its own facts; parameters, media types and responses follow from its action. Operation ids,
actions and parameter names are upstream's: clients are generated from them, and kubectl checks for some
(fieldValidation at PATCH).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from apiserver.api.schema.language import Struct
from apiserver.api.types.meta import DeleteOptions, Patch, Status, WatchEvent, list_of
from apiserver.openapi import phrases
from apiserver.registry.definition.resource import Resource, Subresource, Version

__all__ = ["Operation", "PathItem", "paths_of"]

Gvk = tuple[str, str, str]

LIST_PARAMETERS: Final = (
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "shardSelector",
    "timeoutSeconds",
    "watch",
)
_DELETE_PARAMETERS: Final = (
    "dryRun",
    "gracePeriodSeconds",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "orphanDependents",
    "propagationPolicy",
)
_WRITE_PARAMETERS: Final = ("dryRun", "fieldManager", "fieldValidation")
_PARAMETERS: Final[dict[str, tuple[str, ...]]] = {
    "get": (),
    "list": LIST_PARAMETERS,
    "post": _WRITE_PARAMETERS,
    "put": _WRITE_PARAMETERS,
    "patch": (*_WRITE_PARAMETERS, "force"),
    "delete": _DELETE_PARAMETERS,
    "deletecollection": (
        *_DELETE_PARAMETERS,
        *(name for name in LIST_PARAMETERS if name not in ("allowWatchBookmarks", "watch")),
    ),
    "watch": LIST_PARAMETERS,
    "watchlist": LIST_PARAMETERS,
    "connect": (),
}
#: Parameters of custom resources that differ upstream.
_CUSTOM_PARAMETERS: Final[dict[str, tuple[str, ...]]] = {
    "get": ("resourceVersion",),
    "deletecollection": LIST_PARAMETERS,
}
#: Kinds whose documented response to DELETE is a Status, though the actual one is the object.
_DELETED_WITH_STATUS: Final = ("CustomResourceDefinition", "Namespace")
_METHODS: Final = {"create": "post", "update": "put", "patch": "patch", "get": "get", "delete": "delete"}
_CONNECT: Final[dict[str, tuple[str, ...]]] = {
    "attach": ("container", "stderr", "stdin", "stdout", "tty"),
    "exec": ("command", "container", "stderr", "stdin", "stdout", "tty"),
    "log": (
        "container",
        "follow",
        "insecureSkipTLSVerifyBackend",
        "limitBytes",
        "previous",
        "sinceSeconds",
        "stream",
        "tailLines",
        "timestamps",
    ),
    "portforward": ("ports",),
    "proxy": ("path",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One method of a path.

    `body` is the request type, `answer` the response type (None: text), `codes` the success codes. `media` is the
    response media type if it does not follow from the action.
    """

    id: str
    action: str
    gvk: Gvk
    text: str
    answer: Struct | None
    codes: tuple[str, ...] = ("200",)
    body: Struct | None = None
    body_required: bool = True
    custom: bool = False
    media: str = ""

    @property
    def parameters(self) -> tuple[str, ...]:
        own = _CUSTOM_PARAMETERS.get(self.action) if self.custom else None
        return _PARAMETERS[self.action] if own is None else own


@dataclass(frozen=True, slots=True, kw_only=True)
class PathItem:
    """A path with its operations by method, and the query parameters common to all methods."""

    path: str
    kind: str
    operations: dict[str, Operation]
    parameters: tuple[str, ...] = ("pretty",)

    @property
    def shared(self) -> list[str]:
        """The query parameters of all operations."""
        common = set.intersection(*(set(operation.parameters) for operation in self.operations.values()))
        return sorted({*self.parameters, *common})


def group_title(group: str) -> str:
    """Return a group's part of an operation id: `resource.k8s.io` → Resource, the core group → Core."""
    return phrases.identifier((group or "core").removesuffix(".k8s.io"), capital=True)


class _Writer:
    """Builds the paths of one resource in one version."""

    def __init__(self, resource: Resource, version: Version) -> None:
        self.resource, self.version, self.schema = resource, version, version.schema
        self.gvk = (resource.group, version.name, resource.kind)
        root = f"/apis/{resource.group}/{version.name}" if resource.group else f"/api/{version.name}"
        self.root = root
        self.collection = (
            f"{root}/namespaces/{{namespace}}/{resource.plural}" if resource.namespaced else f"{root}/{resource.plural}"
        )
        self.prefix = group_title(resource.group) + phrases.identifier(version.name, capital=True)
        self.kind = phrases.identifier(resource.kind, capital=True)
        self.noun = ("Namespaced" if resource.namespaced else "") + self.kind
        self.list_schema = version.list_schema or list_of(version.schema)
        self.watchable = "watch" in resource.verbs and not resource.custom

    def paths(self) -> Iterator[PathItem]:
        verbs, kind = self.resource.verbs, self.resource.kind
        found: dict[str, Operation] = {}
        if "list" in verbs:
            text = phrases.operation("list", kind, watchable=self.watchable)
            found["get"] = self.operation("list", "list", text, self.list_schema)
        if "create" in verbs:
            found["post"] = self.operation(
                "create", "post", phrases.operation("create", kind), self.schema, ("200", "201", "202"), self.schema
            )
        if "deletecollection" in verbs:
            found["delete"] = Operation(
                id=f"delete{self.prefix}Collection{self.noun}",
                action="deletecollection",
                gvk=self.gvk,
                text=phrases.operation("deletecollection", kind),
                answer=Status,
                body=None if self.resource.custom else DeleteOptions,
                body_required=False,
                custom=self.resource.custom,
            )
        yield self.item(self.collection, found)
        if single := dict(self.object_operations()):
            yield self.item(self.collection + "/{name}", single)
        for sub in self.resource.subresources:
            yield from self.subresource(sub)
        yield from self.everywhere()

    def item(self, path: str, operations: dict[str, Operation], query: tuple[str, ...] = ("pretty",)) -> PathItem:
        return PathItem(path=path, kind=self.resource.kind, operations=operations, parameters=query)

    def operation(
        self,
        verb: str,
        action: str,
        text: str,
        answer: Struct | None,
        codes: tuple[str, ...] = ("200",),
        body: Struct | None = None,
        suffix: str = "",
        gvk: Gvk | None = None,
    ) -> Operation:
        name = f"{verb}{self.prefix}{self.noun}{suffix}"
        return Operation(
            id=name, action=action, gvk=gvk or self.gvk, text=text, answer=answer, codes=codes, body=body,
            custom=self.resource.custom,
        )  # fmt: skip

    @property
    def patch_codes(self) -> tuple[str, ...]:
        """The success codes of PATCH. Upstream lists no 201 for custom resources, though an apply creates them."""
        return ("200",) if self.resource.custom else ("200", "201")

    def object_operations(self) -> Iterator[tuple[str, Operation]]:
        kind, verbs = self.resource.kind, self.resource.verbs
        if "get" in verbs:
            yield "get", self.operation("read", "get", phrases.operation("read", kind), self.schema)
        if "update" in verbs:
            text = phrases.operation("replace", kind)
            yield "put", self.operation("replace", "put", text, self.schema, ("200", "201"), self.schema)
        if "patch" in verbs:
            text = phrases.operation("patch", kind)
            yield "patch", self.operation("patch", "patch", text, self.schema, self.patch_codes, Patch)
        if "delete" in verbs:
            returns_status = kind in _DELETED_WITH_STATUS or not self.resource.delete_returns_object
            answer = Status if returns_status else self.schema
            yield (
                "delete",
                Operation(
                    id=f"delete{self.prefix}{self.noun}",
                    action="delete",
                    gvk=self.gvk,
                    text=phrases.operation("delete", kind),
                    answer=answer,
                    codes=("200", "202"),
                    body=DeleteOptions,
                    body_required=False,
                    custom=self.resource.custom,
                ),
            )

    def subresource(self, sub: Subresource) -> Iterator[PathItem]:
        path = f"{self.collection}/{{name}}/{sub.name}"
        suffix = sub.name[:1].upper() + sub.name[1:]
        query = _CONNECT.get(sub.name, ())
        if sub.connect is not None and sub.name != "log":
            yield self.item(path, dict(self.connections(sub, suffix)), query)
            if sub.name == "proxy":
                yield self.item(path + "/{path}", dict(self.connections(sub, suffix + "WithPath")), query)
            return
        group = self.resource.group if sub.group is None else sub.group
        own = sub.kind and not self.resource.custom
        gvk = (group, sub.version or self.version.name, sub.kind) if own else self.gvk
        schema = None if sub.name == "log" else sub.schema or self.schema
        found: dict[str, Operation] = {}
        for verb in sub.verbs:
            method = _METHODS[verb]
            name = {"get": "read", "update": "replace"}.get(verb, verb)
            codes = {"post": ("200", "201", "202"), "get": ("200",), "patch": self.patch_codes}.get(
                method, ("200", "201")
            )
            body = None if verb == "get" else Patch if verb == "patch" else schema
            text = phrases.operation(name, self.resource.kind, sub.name)
            found[method] = self.operation(name, method, text, schema, codes, body, suffix, gvk)
        yield self.item(path, found, ("pretty", *query))

    def connections(self, sub: Subresource, suffix: str) -> Iterator[tuple[str, Operation]]:
        gvk = (self.resource.group, self.version.name, sub.kind or self.resource.kind)
        methods = (
            ("delete", "get", "head", "options", "patch", "post", "put") if sub.name == "proxy" else ("get", "post")
        )
        for method in methods:
            name = f"connect{self.prefix}{method.capitalize()}{self.noun}{suffix}"
            yield (
                method,
                Operation(
                    id=name,
                    action="connect",
                    gvk=gvk,
                    text=phrases.connection(method, self.resource.kind, sub.name),
                    answer=None,
                ),
            )

    def everywhere(self) -> Iterator[PathItem]:
        """Yield lists over all namespaces, and the old paths of watches."""
        kind, plural = self.resource.kind, self.resource.plural
        watch = f"{self.root}/watch"
        named = self.collection.replace(self.root, watch, 1)
        if self.resource.namespaced and "list" in self.resource.verbs:
            operation = Operation(
                id=f"list{self.prefix}{self.kind}ForAllNamespaces",
                action="list",
                gvk=self.gvk,
                text=phrases.operation("list", kind, watchable=self.watchable),
                answer=self.list_schema,
                custom=self.resource.custom,
            )
            yield self.item(f"{self.root}/{plural}", {"get": operation})
        if not self.watchable:
            return
        text = phrases.operation("watchList", kind)
        yield self.item(named, {"get": self.operation("watch", "watchlist", text, WatchEvent, suffix="List")})
        single = self.operation("watch", "watch", phrases.operation("watch", kind), WatchEvent)
        yield self.item(named + "/{name}", {"get": single})
        if self.resource.namespaced:
            everywhere = Operation(
                id=f"watch{self.prefix}{self.kind}ListForAllNamespaces",
                action="watchlist",
                gvk=self.gvk,
                text=text,
                answer=WatchEvent,
            )
            yield self.item(f"{watch}/{plural}", {"get": everywhere})


def paths_of(resource: Resource, version: Version) -> list[PathItem]:
    """Return all paths of a resource in one version."""
    return list(_Writer(resource, version).paths())
