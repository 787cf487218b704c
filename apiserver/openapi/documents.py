"""The documents themselves: one for OpenAPI 2, one for each group and group version for OpenAPI 3.

File names are those that upstream gives to its own: `v3/apis__resource.k8s.io__v1.json` stands for
/openapi/v3/apis/resource.k8s.io/v1.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import orjson

from apiserver.api.schema import Struct
from apiserver.api.types.meta import APIGroup, APIGroupList, APIResourceList, APIVersions, Status
from apiserver.api.types.version import Info
from apiserver.openapi.definitions import SHARED_KINDS, Definitions
from apiserver.openapi.gnostic import encode_document
from apiserver.openapi.operations import Operation, PathItem, group_title, paths_of
from apiserver.registry.resource import Resource

__all__ = ["build", "build_files"]

Json = dict[str, Any]

_ABOUT: Final = {"title": "Kubernetes", "version": "unversioned"}
_TOKEN: Final = {
    "BearerToken": {"description": "A bearer token.", "in": "header", "name": "authorization", "type": "apiKey"}
}
_MEDIA: Final = ("application/json", "application/yaml")
_STREAM: Final = "application/json;stream=watch"
_PATCHES: Final = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
_GOOD: Final = {"200": "OK", "201": "Created", "202": "Accepted"}

#: Type and sentence of every parameter.
_PARAMETERS: Final[dict[str, tuple[str, str]]] = {
    "allowWatchBookmarks": ("boolean", "Ask for BOOKMARK events in a watch."),
    "command": ("string", "The command to run."),
    "container": ("string", "The container; the only one when not given."),
    "continue": ("string", "The token of the answer before, to get the next page of a list."),
    "dryRun": ("string", "All: do everything but store the result."),
    "fieldManager": ("string", "Name of who makes the change, for managedFields."),
    "fieldSelector": ("string", "Select objects by the values of fields."),
    "fieldValidation": ("string", "What unknown and repeated fields lead to: Ignore, Warn or Strict."),
    "follow": ("boolean", "Keep the stream of a log open."),
    "force": ("boolean", "Take over fields that other managers own (apply only)."),
    "gracePeriodSeconds": ("integer", "Seconds until the object goes; 0 is at once."),
    "ignoreStoreReadErrorWithClusterBreakingPotential": (
        "boolean",
        "Alpha upstream (AllowUnsafeMalformedObjectDeletion), ignored here.",
    ),
    "labelSelector": ("string", "Select objects by their labels."),
    "limit": ("integer", "Most objects that one answer may hold."),
    "limitBytes": ("integer", "Most bytes of a log."),
    "name": ("string", "Name of the object."),
    "namespace": ("string", "Namespace of the object."),
    "orphanDependents": ("boolean", "Deprecated: use propagationPolicy."),
    "path": ("string", "Path behind the proxy."),
    "ports": ("integer", "Ports to forward."),
    "pretty": ("string", "true: indent the answer."),
    "previous": ("boolean", "The log of the container that ran before."),
    "propagationPolicy": ("string", "What becomes of dependents: Orphan, Background or Foreground."),
    "resourceVersion": ("string", "The version from which, or not older than which, to answer."),
    "resourceVersionMatch": ("string", "How resourceVersion is meant: Exact or NotOlderThan."),
    "sendInitialEvents": ("boolean", "Begin a watch with the present state."),
    "shardSelector": ("string", "Alpha (ShardedListAndWatch): which hashes of uids or namespaces to select."),
    "sinceSeconds": ("integer", "Only the last seconds of a log."),
    "stderr": ("boolean", "Connect standard error."),
    "stdin": ("boolean", "Connect standard input."),
    "stdout": ("boolean", "Connect standard output."),
    "tailLines": ("integer", "Only the last lines of a log."),
    "timeoutSeconds": ("integer", "How long a list may take, or a watch stays open."),
    "timestamps": ("boolean", "A time in front of every line of a log."),
    "tty": ("boolean", "Connect a terminal."),
    "watch": ("boolean", "Stream changes instead of answering a list."),
}


def build_files() -> dict[str, bytes]:
    """The files in `openapi/`: what a server knows that has none of kubedra's own gates on."""
    from apiserver.api.features import Features
    from apiserver.resources import CATALOG
    from apiserver.serving import known

    return build(known(CATALOG, Features()))


def build(catalog: Iterable[Resource]) -> dict[str, bytes]:
    """Every file by its path below `openapi/`."""
    by_version: dict[tuple[str, str], list[Resource]] = {}
    for resource in catalog:
        for version in resource.versions:
            by_version.setdefault((resource.group, version.name), []).append(resource)
    kinds = _shared_kinds(by_version)
    files = {"v3/version.json": _v3(kinds, {"/version/": ("getCodeVersion", "version", Info)})}
    files["v3/api.json"] = _v3(kinds, {"/api/": ("getCoreAPIVersions", "core", APIVersions)})
    files["v3/apis.json"] = _v3(kinds, {"/apis/": ("getAPIVersions", "apis", APIGroupList)})
    whole = _Document(2, kinds)
    whole.discovery("/api/", "getCoreAPIVersions", "core", APIVersions)
    whole.discovery("/apis/", "getAPIVersions", "apis", APIGroupList)
    whole.discovery("/version/", "getCodeVersion", "version", Info)
    for group in sorted({group for group, _ in by_version if group}):
        reader = f"get{group_title(group)}APIGroup"
        files[f"v3/apis__{group}.json"] = _v3(kinds, {f"/apis/{group}/": (reader, _tag(group), APIGroup)})
        whole.discovery(f"/apis/{group}/", reader, _tag(group), APIGroup)
    for (group, name), resources in sorted(by_version.items()):
        root = f"/apis/{group}/{name}" if group else f"/api/{name}"
        document = _Document(3, _shared_kinds({("", "v1"), (group, name)}))
        for target in (document, whole):
            title = group_title(group) + name[:1].upper() + name[1:]
            target.discovery(root + "/", f"get{title}APIResources", _tag(group, name), APIResourceList)
            for resource in resources:
                for item in paths_of(resource, next(found for found in resource.versions if found.name == name)):
                    target.add(item, _tag(group, name))
        files["v3/" + root.strip("/").replace("/", "__") + ".json"] = document.encoded()
    files["v2.json"] = whole.encoded()
    files["v2.pb"] = encode_document(orjson.loads(files["v2.json"]))
    return files


def _tag(group: str, version: str = "") -> str:
    """`resource_v1`, `core`: how operations are grouped."""
    label = (group or "core").partition(".")[0]
    return f"{label}_{version}" if version else label


def _shared_kinds(versions: Iterable[tuple[str, str]]) -> dict[str, list[Json]]:
    """DeleteOptions and WatchEvent belong to every group version of a document, the other types of meta/v1 to the core
    group.
    """
    shared = sorted(set(versions))
    kinds = {
        name: [{"group": group, "kind": name.rsplit(".", 1)[-1], "version": version} for group, version in shared]
        for name in SHARED_KINDS
    }
    for struct in (APIGroup, APIGroupList, APIResourceList, APIVersions, Status):
        kinds[struct.name] = [{"group": "", "kind": struct.kind, "version": "v1"}]
    return kinds


def _v3(kinds: dict[str, list[Json]], paths: dict[str, tuple[str, str, Struct]]) -> bytes:
    document = _Document(3, kinds)
    for path, (name, tag, answer) in paths.items():
        document.discovery(path, name, tag, answer)
    return document.encoded()


class _Document:
    """One document under construction, in either form."""

    def __init__(self, release: int, kinds: dict[str, list[Json]]) -> None:
        self.release = release
        self.definitions = Definitions(release, kinds)
        self.paths: Json = {}

    def encoded(self) -> bytes:
        paths = {path: self.paths[path] for path in sorted(self.paths)}
        if self.release == 2:
            made: Json = {
                "swagger": "2.0", "info": _ABOUT, "paths": paths, "definitions": self.definitions.sorted(),
                "securityDefinitions": _TOKEN, "security": [{"BearerToken": []}],
            }  # fmt: skip
        else:
            made = {
                "openapi": "3.0.0", "info": _ABOUT, "paths": paths,
                "components": {"schemas": self.definitions.sorted(), "securitySchemes": _TOKEN},
            }  # fmt: skip
        return orjson.dumps(made)

    def discovery(self, path: str, name: str, tag: str, answer: Struct) -> None:
        """A path that answers a GET with a document about the API."""
        operation = Operation(
            id=name, action="get", gvk=("", "", ""), text=f"{answer.kind} of the server.", answer=answer
        )
        made = self.operation(operation, tag)
        made.pop("x-kubernetes-action")
        made.pop("x-kubernetes-group-version-kind")
        self.paths[path] = {"get": made}

    def add(self, item: PathItem, tag: str) -> None:
        made: Json = {method: self.operation(operation, tag) for method, operation in sorted(item.operations.items())}
        made["parameters"] = [self.parameter(name, item.path) for name in sorted(item.parameters)]
        self.paths[item.path] = made

    def parameter(self, name: str, path: str = "") -> Json:
        type_, text = _PARAMETERS[name]
        place = "path" if f"{{{name}}}" in path else "query"
        made: Json = {"description": text, "in": place, "name": name}
        if place == "path":
            made["required"] = True
        return made | (
            {"schema": {"type": type_, "uniqueItems": True}}
            if self.release == 3
            else {"type": type_, "uniqueItems": True}
        )

    def operation(self, operation: Operation, tag: str) -> Json:
        media: tuple[str, ...] = _MEDIA
        if operation.action in ("list", "watch", "watchlist"):
            media = (*_MEDIA, _STREAM)
        elif operation.action == "connect":
            media = ("*/*",)
        elif operation.answer is None:
            media = ("text/plain", *_MEDIA)
        made: Json = {"description": operation.text}
        parameters = [self.parameter(name) for name in operation.parameters]
        if self.release == 2:
            made["consumes"] = list(_PATCHES) if operation.action == "patch" else ["*/*"]
            made["produces"] = list(media)
            made["schemes"] = ["https"]
        made["operationId"] = operation.id
        made["responses"] = {code: self.answer(operation, code, media) for code in operation.codes} | {
            "401": {"description": "Unauthorized"}
        }
        made["tags"] = [tag]
        if operation.body is not None:
            self.body(made, parameters, operation)
        if parameters:
            made["parameters"] = parameters
        group, version, kind = operation.gvk
        made["x-kubernetes-action"] = operation.action
        made["x-kubernetes-group-version-kind"] = {"group": group, "kind": kind, "version": version}
        return made

    def answer(self, operation: Operation, code: str, media: tuple[str, ...]) -> Json:
        schema = {"type": "string"} if operation.answer is None else self.definitions.ref(operation.answer)
        made: Json = {"description": _GOOD[code]}
        return made | (
            {"schema": schema} if self.release == 2 else {"content": {name: {"schema": schema} for name in media}}
        )

    def body(self, made: Json, parameters: list[Json], operation: Operation) -> None:
        assert operation.body is not None
        schema = self.definitions.ref(operation.body)
        if self.release == 2:
            parameters.insert(
                0,
                {"in": "body", "name": "body", "schema": schema}
                | ({"required": True} if operation.body_required else {}),
            )
            return
        accepted = _PATCHES if operation.action == "patch" else ("*/*",)
        made["requestBody"] = {"content": {name: {"schema": schema} for name in accepted}} | (
            {"required": True} if operation.body_required else {}
        )
