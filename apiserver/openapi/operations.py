"""What a resource answers to, told once for OpenAPI 2 and 3: paths with their operations.

An `Operation` holds only what differs; parameters, media types and answers follow from its action. Operation ids,
actions and parameter names are upstream's, for clients are generated from them and kubectl looks for some
(fieldValidation at PATCH).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from apiserver.api.schema import Struct
from apiserver.api.types.meta import DeleteOptions, Patch, Status, WatchEvent, list_of
from apiserver.registry.resource import Resource, Subresource, Version

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
_UNREADABLE: Final = "ignoreStoreReadErrorWithClusterBreakingPotential"
_DELETE_PARAMETERS: Final = ("dryRun", "gracePeriodSeconds", _UNREADABLE, "orphanDependents", "propagationPolicy")
_WRITE_PARAMETERS: Final = ("dryRun", "fieldManager", "fieldValidation")
_PARAMETERS: Final[dict[str, tuple[str, ...]]] = {
    "get": (),
    "list": LIST_PARAMETERS,
    "post": _WRITE_PARAMETERS,
    "put": _WRITE_PARAMETERS,
    "patch": (*_WRITE_PARAMETERS, "force"),
    "delete": _DELETE_PARAMETERS,
    "deletecollection": (
        "continue",
        "dryRun",
        "fieldSelector",
        "gracePeriodSeconds",
        _UNREADABLE,
        "labelSelector",
        "limit",
        "orphanDependents",
        "propagationPolicy",
        "resourceVersion",
        "resourceVersionMatch",
        "sendInitialEvents",
        "shardSelector",
        "timeoutSeconds",
    ),
    "watch": (),
    "watchlist": (),
    "connect": (),
}
_METHODS: Final = {"create": "post", "update": "put", "patch": "patch", "get": "get", "delete": "delete"}
_CONNECT: Final[dict[str, tuple[str, ...]]] = {
    "attach": ("container", "stderr", "stdin", "stdout", "tty"),
    "exec": ("command", "container", "stderr", "stdin", "stdout", "tty"),
    "log": ("container", "follow", "limitBytes", "previous", "sinceSeconds", "tailLines", "timestamps"),
    "portforward": ("ports",),
    "proxy": ("path",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One method of a path. `body` is what is sent, `answer` what comes back (None: text), `codes` the good status
    codes.
    """

    id: str
    action: str
    gvk: Gvk
    text: str
    answer: Struct | None
    codes: tuple[str, ...] = ("200",)
    body: Struct | None = None
    body_required: bool = True

    @property
    def parameters(self) -> tuple[str, ...]:
        return _PARAMETERS[self.action]


@dataclass(frozen=True, slots=True, kw_only=True)
class PathItem:
    """A path with its operations by method and the parameters that they share."""

    path: str
    operations: dict[str, Operation]
    parameters: tuple[str, ...]


def group_title(group: str) -> str:
    """`resource.k8s.io` → Resource, the core group → Core: the part of an operation id."""
    label = (group or "core").partition(".")[0]
    return label[:1].upper() + label[1:]


class _Writer:
    """The paths of one resource in one version."""

    def __init__(self, resource: Resource, version: Version) -> None:
        self.resource, self.version, self.schema = resource, version, version.schema
        self.gvk = (resource.group, version.name, resource.kind)
        root = f"/apis/{resource.group}/{version.name}" if resource.group else f"/api/{version.name}"
        self.root = root
        self.collection = (
            f"{root}/namespaces/{{namespace}}/{resource.plural}" if resource.namespaced else f"{root}/{resource.plural}"
        )
        self.scope = ("namespace",) if resource.namespaced else ()
        self.prefix = group_title(resource.group) + version.name[:1].upper() + version.name[1:]
        self.noun = ("Namespaced" if resource.namespaced else "") + resource.kind

    def paths(self) -> Iterator[PathItem]:
        verbs, kind = self.resource.verbs, self.resource.kind
        found: dict[str, Operation] = {}
        if "list" in verbs:
            found["get"] = self.operation(
                "list", "list", f"List or watch objects of kind {kind}.", list_of(self.schema)
            )
        if "create" in verbs:
            found["post"] = self.operation(
                "create", "post", f"Create a {kind}.", self.schema, ("200", "201", "202"), self.schema
            )
        if "deletecollection" in verbs:
            found["delete"] = Operation(
                id=f"delete{self.prefix}Collection{self.noun}",
                action="deletecollection",
                gvk=self.gvk,
                text=f"Delete all objects of kind {kind} that match.",
                answer=Status,
                body=DeleteOptions,
                body_required=False,
            )
        yield PathItem(path=self.collection, operations=found, parameters=(*self.scope, "pretty"))
        if single := dict(self.object_operations()):
            yield PathItem(
                path=self.collection + "/{name}", operations=single, parameters=("name", *self.scope, "pretty")
            )
        for sub in self.resource.subresources:
            yield from self.subresource(sub)
        yield from self.everywhere()

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
        return Operation(id=name, action=action, gvk=gvk or self.gvk, text=text, answer=answer, codes=codes, body=body)

    def object_operations(self) -> Iterator[tuple[str, Operation]]:
        kind, verbs = self.resource.kind, self.resource.verbs
        if "get" in verbs:
            yield "get", self.operation("read", "get", f"Read a {kind}.", self.schema)
        if "update" in verbs:
            yield (
                "put",
                self.operation("replace", "put", f"Replace a {kind}.", self.schema, ("200", "201"), self.schema),
            )
        if "patch" in verbs:
            yield (
                "patch",
                self.operation("patch", "patch", f"Change a part of a {kind}.", self.schema, ("200", "201"), Patch),
            )
        if "delete" in verbs:
            answer = self.schema if self.resource.delete_returns_object and kind != "Namespace" else Status
            yield (
                "delete",
                Operation(
                    id=f"delete{self.prefix}{self.noun}",
                    action="delete",
                    gvk=self.gvk,
                    text=f"Delete a {kind}.",
                    answer=answer,
                    codes=("200", "202"),
                    body=DeleteOptions,
                    body_required=False,
                ),
            )

    def subresource(self, sub: Subresource) -> Iterator[PathItem]:
        path = f"{self.collection}/{{name}}/{sub.name}"
        suffix = sub.name[:1].upper() + sub.name[1:]
        shared = ("name", *self.scope)
        if sub.connect is not None and sub.name != "log":
            yield PathItem(
                path=path,
                operations=dict(self.connections(sub, suffix)),
                parameters=(*shared, *_CONNECT.get(sub.name, ())),
            )
            if sub.name == "proxy":
                operations = dict(self.connections(sub, suffix + "WithPath"))
                yield PathItem(path=path + "/{path}", operations=operations, parameters=(*shared, "path"))
            return
        group = self.resource.group if sub.group is None else sub.group
        gvk = (group, sub.version or self.version.name, sub.kind) if sub.kind else self.gvk
        schema = None if sub.name == "log" else sub.schema or self.schema
        text = f"The {sub.name} of a {self.resource.kind}."
        found: dict[str, Operation] = {}
        for verb in sub.verbs:
            method = _METHODS[verb]
            name = {"get": "read", "update": "replace"}.get(verb, verb)
            codes = {"post": ("200", "201", "202"), "get": ("200",)}.get(method, ("200", "201"))
            body = None if verb == "get" else Patch if verb == "patch" else schema
            found[method] = self.operation(name, method, text, schema, codes, body, suffix, gvk)
        yield PathItem(path=path, operations=found, parameters=(*shared, "pretty", *_CONNECT.get(sub.name, ())))

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
                    text=f"Connect to {sub.name} of a {self.resource.kind}.",
                    answer=None,
                ),
            )

    def everywhere(self) -> Iterator[PathItem]:
        """Lists over all namespaces, and the old paths of watches."""
        kind, plural = self.resource.kind, self.resource.plural
        watch, everything = f"{self.root}/watch", (*LIST_PARAMETERS, "pretty")
        named = self.collection.replace(self.root, watch, 1)
        if self.resource.namespaced and "list" in self.resource.verbs:
            operation = Operation(
                id=f"list{self.prefix}{kind}ForAllNamespaces",
                action="list",
                gvk=self.gvk,
                text=f"List or watch objects of kind {kind}.",
                answer=list_of(self.schema),
            )
            yield PathItem(path=f"{self.root}/{plural}", operations={"get": operation}, parameters=("pretty",))
        if "watch" not in self.resource.verbs:
            return
        text = f"Watch objects of kind {kind}; the list with watch=true does the same."
        listed = self.operation("watch", "watchlist", text, WatchEvent, suffix="List")
        single = self.operation("watch", "watch", text, WatchEvent)
        yield PathItem(path=named, operations={"get": listed}, parameters=(*self.scope, *everything))
        yield PathItem(
            path=named + "/{name}", operations={"get": single}, parameters=("name", *self.scope, *everything)
        )
        if self.resource.namespaced:
            everywhere = Operation(
                id=f"watch{self.prefix}{kind}ListForAllNamespaces",
                action="watchlist",
                gvk=self.gvk,
                text=text,
                answer=WatchEvent,
            )
            yield PathItem(path=f"{watch}/{plural}", operations={"get": everywhere}, parameters=everything)


def paths_of(resource: Resource, version: Version) -> list[PathItem]:
    """All paths of a resource in one version."""
    return list(_Writer(resource, version).paths())
