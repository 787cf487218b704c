"""Build the documents: one for OpenAPI 2, one for each group and group version for OpenAPI 3.

File names are upstream's: `v3/apis__resource.k8s.io__v1.json` contains /openapi/v3/apis/resource.k8s.io/v1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Final

import orjson

from apiserver.api.objects import Json
from apiserver.api.schema.language import Struct
from apiserver.api.schema.openapi import SHARED_KINDS, Definitions
from apiserver.api.types.meta import APIGroup, APIGroupList, APIResourceList, APIVersions, Status
from apiserver.api.types.version import Info
from apiserver.openapi.gnostic import encode_document
from apiserver.openapi.operations import Operation, PathItem, group_title, paths_of
from apiserver.openapi.phrases import identifier, tag_of
from apiserver.openapi.schemekinds import CLIENT, SERVER
from apiserver.registry.definition.resource import Resource

__all__ = ["build", "build_files", "build_json"]


#: The server sets the version, which depends on the emulated release.
_ABOUT: Final = {"title": "Kubernetes", "version": "unversioned"}
_ABOUT_CUSTOM: Final = {"title": "Kubernetes CRD Swagger", "version": "v0.1.0"}
_TOKEN: Final = {
    "BearerToken": {"description": "A bearer token.", "in": "header", "name": "authorization", "type": "apiKey"}
}
#: Media types of custom resources. Other resources accept any media type in bodies.
_CUSTOM_MEDIA: Final = ("application/json", "application/yaml")
_MEDIA: Final = (*_CUSTOM_MEDIA, "application/vnd.kubernetes.protobuf")
_STREAMS: Final = ("application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch")
_STRATEGIC: Final = "application/strategic-merge-patch+json"
#: kubectl chooses its patch type from this list: a custom resource with the strategic one could not be applied twice.
_PATCHES: Final = (
    "application/json-patch+json", "application/merge-patch+json", _STRATEGIC, "application/apply-patch+yaml",
)  # fmt: skip
_IN_PATH: Final = re.compile(r"\{(\w+)\}")
_GOOD: Final = {"200": "OK", "201": "Created", "202": "Accepted"}

#: Descriptions of the paths about the API itself.
_DISCOVERED: Final = {
    "APIGroup": "get information of a group",
    "APIGroupList": "get available API versions",
    "APIResourceList": "get available resources",
    "APIVersions": "get available API versions",
    "Info": "get the version information for this server",
}
#: Paths about the issuer of service account tokens: path, operation, description, media type.
_ISSUER: Final = (
    (
        "/.well-known/openid-configuration/",
        "getServiceAccountIssuerOpenIDConfiguration",
        "get service account issuer OpenID configuration, also known as the 'OIDC discovery doc'",
        "application/json",
    ),
    (
        "/openid/v1/jwks/",
        "getServiceAccountIssuerOpenIDKeyset",
        "get service account issuer OpenID JSON Web Key Set (contains public token verification keys)",
        "application/jwk-set+json",
    ),
)
#: Type and description of every parameter. That of `name` is followed by the kind.
_PARAMETERS: Final[dict[str, tuple[str, str]]] = {
    "allowWatchBookmarks": ("boolean", "Ask for BOOKMARK events in a watch."),
    "command": ("string", "The command to run."),
    "container": ("string", "Name of the container. Default: the only one."),
    "continue": ("string", "Token from the previous page of a list; returns the next page."),
    "dryRun": ("string", "All: process the request without storing the result."),
    "fieldManager": ("string", "Name of the field manager in managedFields."),
    "fieldSelector": ("string", "Select objects by the values of fields."),
    "fieldValidation": ("string", "Handling of unknown and duplicate fields: Ignore, Warn or Strict."),
    "follow": ("boolean", "Follow the log."),
    "force": ("boolean", "Take ownership of fields of other managers (apply only)."),
    "gracePeriodSeconds": ("integer", "Seconds until the object is deleted; 0 deletes it immediately."),
    "ignoreStoreReadErrorWithClusterBreakingPotential": (
        "boolean",
        "Ignored. Alpha upstream (AllowUnsafeMalformedObjectDeletion).",
    ),
    "insecureSkipTLSVerifyBackend": ("boolean", "Do not verify the certificate of the kubelet that serves the log."),
    "labelSelector": ("string", "Select objects by their labels."),
    "limit": ("integer", "Maximum number of objects in one response."),
    "limitBytes": ("integer", "Maximum number of bytes of the log."),
    "name": ("string", "name of the "),
    "namespace": ("string", "Namespace of the object."),
    "orphanDependents": ("boolean", "Deprecated: use propagationPolicy."),
    "path": ("string", "Path of the proxied request."),
    "ports": ("integer", "Ports to forward."),
    "pretty": ("string", "true: indent the response."),
    "previous": ("boolean", "Return the log of the previous container."),
    "propagationPolicy": ("string", "Deletion of dependents: Orphan, Background or Foreground."),
    "resourceVersion": ("string", "Resource version of the data, or its minimum; see resourceVersionMatch."),
    "resourceVersionMatch": ("string", "Meaning of resourceVersion: Exact or NotOlderThan."),
    "sendInitialEvents": ("boolean", "Begin a watch with the current objects."),
    "shardSelector": ("string", "Alpha (ShardedListAndWatch): ranges of hashes of uids or namespaces to select."),
    "sinceSeconds": ("integer", "Return only the last seconds of the log."),
    "stderr": ("boolean", "Connect standard error."),
    "stdin": ("boolean", "Connect standard input."),
    "stdout": ("boolean", "Connect standard output."),
    "stream": ("string", "Output stream of the container: All, Stdout or Stderr."),
    "tailLines": ("integer", "Return only the last lines of the log."),
    "timeoutSeconds": ("integer", "Timeout of a list or duration of a watch, in seconds."),
    "timestamps": ("boolean", "Prefix every line of the log with its time."),
    "tty": ("boolean", "Connect a terminal."),
    "watch": ("boolean", "Stream changes instead of returning a list."),
}


@cache
def build_files() -> dict[str, bytes]:
    """Build the files in `openapi/` for a server with all of kubedra's own gates off."""
    from apiserver.api.features.gates import Features
    from apiserver.registry.catalog.served import list_known
    from apiserver.resources import CATALOG

    return build(list_known(CATALOG, Features()))


def build(catalog: Iterable[Resource]) -> dict[str, bytes]:
    """Build every file by its path below `openapi/`."""
    files = build_json(catalog)
    files["v2.pb"] = encode_document(orjson.loads(files["v2.json"]))
    return files


def build_json(catalog: Iterable[Resource]) -> dict[str, bytes]:
    """Build the files in JSON by their paths below `openapi/`."""
    by_version: dict[tuple[str, str], list[Resource]] = {}
    for resource in catalog:
        for version in resource.versions:
            by_version.setdefault((resource.group, version.name), []).append(resource)
    kinds = _shared_kinds(SERVER)
    files = {"v3/version.json": _v3(kinds, {"/version/": ("getCodeVersion", "version", Info)})}
    files["v3/api.json"] = _v3(kinds, {"/api/": ("getCoreAPIVersions", "core", APIVersions)})
    files["v3/apis.json"] = _v3(kinds, {"/apis/": ("getAPIVersions", "apis", APIGroupList)})
    whole = _Document(2, kinds)
    whole.discovery("/api/", "getCoreAPIVersions", "core", APIVersions)
    whole.discovery("/apis/", "getAPIVersions", "apis", APIGroupList)
    whole.discovery("/version/", "getCodeVersion", "version", Info)
    custom = {key for key, resources in by_version.items() if all(resource.custom for resource in resources)}
    for group in sorted({group for group, _ in by_version.keys() - custom if group}):
        reader = f"get{group_title(group)}APIGroup"
        files[f"v3/apis__{group}.json"] = _v3(kinds, {f"/apis/{group}/": (reader, tag_of(group), APIGroup)})
        whole.discovery(f"/apis/{group}/", reader, tag_of(group), APIGroup)
    for path, reader, text, media in _ISSUER:
        document = _Document(3, kinds)
        for target in (document, whole):
            target.issuer(path, reader, text, media)
        files[f"v3/{path.strip('/').replace('/', '__')}.json"] = document.encode()
    for (group, name), resources in sorted(by_version.items()):
        root = f"/apis/{group}/{name}" if group else f"/api/{name}"
        only_custom = (group, name) in custom
        shared = CLIENT if only_custom else {("", "v1"), (group, name)}
        document = _Document(3, _shared_kinds(shared), custom=only_custom)
        for target in (document, whole):
            title = group_title(group) + identifier(name, capital=True)
            if not only_custom:
                target.discovery(root + "/", f"get{title}APIResources", tag_of(group, name), APIResourceList)
            for resource in resources:
                for item in paths_of(resource, next(found for found in resource.versions if found.name == name)):
                    target.add(item, tag_of(group, name))
        files["v3/" + root.strip("/").replace("/", "__") + ".json"] = document.encode()
    files["v2.json"] = whole.encode()
    return files


def _shared_kinds(versions: Iterable[tuple[str, str]]) -> dict[str, list[Json]]:
    """Return the group versions of shared types: many for DeleteOptions and WatchEvent, else the core group."""
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
    return document.encode()


class _Document:
    """One document under construction, of either version."""

    def __init__(self, release: int, kinds: dict[str, list[Json]], *, custom: bool = False) -> None:
        self.release = release
        self.custom = custom
        self.definitions = Definitions(release, kinds)
        self.paths: Json = {}

    def encode(self) -> bytes:
        paths = {path: self.paths[path] for path in sorted(self.paths)}
        if self.release == 2:
            made: Json = {
                "swagger": "2.0", "info": _ABOUT, "paths": paths, "definitions": self.definitions.sorted(),
                "securityDefinitions": _TOKEN, "security": [{"BearerToken": []}],
            }  # fmt: skip
        else:
            schemas = self.definitions.sorted()
            components = ({"schemas": schemas} if schemas else {}) | (
                {} if self.custom else {"securitySchemes": _TOKEN}
            )
            about = _ABOUT_CUSTOM if self.custom else _ABOUT
            made = {"openapi": "3.0.0", "info": about, "paths": paths, "components": components}
        return orjson.dumps(made)

    def discovery(self, path: str, name: str, tag: str, answer: Struct) -> None:
        """Add a path whose GET returns a document about the API."""
        operation = Operation(id=name, action="get", gvk=("", "", ""), text=_DISCOVERED[answer.kind], answer=answer)
        made = self.plain(path, operation, tag)
        if self.release == 2:
            made["consumes"] = made["produces"]

    def issuer(self, path: str, name: str, text: str, media: str) -> None:
        """Add a path about the issuer of service account tokens."""
        operation = Operation(id=name, action="get", gvk=("", "", ""), text=text, answer=None, media=media)
        self.plain(path, operation, tag_of(path.split("/")[1])).pop("consumes", None)

    def plain(self, path: str, operation: Operation, tag: str) -> Json:
        """Add a GET that belongs to no kind."""
        made = self.operation(operation, tag)
        made.pop("x-kubernetes-action")
        made.pop("x-kubernetes-group-version-kind")
        self.paths[path] = {"get": made}
        return made

    def add(self, item: PathItem, tag: str) -> None:
        made: Json = {
            method: self.operation(operation, tag, item.shared) for method, operation in sorted(item.operations.items())
        }
        places = [(name, "path") for name in _IN_PATH.findall(item.path)] + [(name, "query") for name in item.shared]
        made["parameters"] = [self.parameter(name, place, item.kind) for name, place in sorted(places)]
        self.paths[item.path] = made

    def parameter(self, name: str, place: str = "query", kind: str = "") -> Json:
        type_, text = _PARAMETERS[name]
        made: Json = {"description": text + kind if name == "name" else text, "in": place, "name": name}
        if place == "path":
            made["required"] = True
        form = {"type": type_, "uniqueItems": True}
        return made | ({"schema": form} if self.release == 3 else form)

    def operation(self, operation: Operation, tag: str, shared: Sequence[str] = ()) -> Json:
        """Build an operation. `shared` are the parameters of its path."""
        media = _response_media(operation)
        made: Json = {"description": operation.text}
        parameters = [self.parameter(name) for name in sorted(operation.parameters) if name not in shared]
        if self.release == 2:
            made["consumes"] = list(_request_media(operation))
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

    def answer(self, operation: Operation, code: str, media: Sequence[str]) -> Json:
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
        made["requestBody"] = {"content": {name: {"schema": schema} for name in _request_media(operation)}} | (
            {"required": True} if operation.body_required else {}
        )


def _request_media(operation: Operation) -> Sequence[str]:
    """Return the media types accepted in bodies."""
    if operation.action == "patch":
        return [media for media in _PATCHES if not operation.custom or media != _STRATEGIC]
    return _CUSTOM_MEDIA if operation.custom else ("*/*",)


def _response_media(operation: Operation) -> Sequence[str]:
    """Return the media types of responses."""
    if operation.media:
        return (operation.media,)
    if operation.custom:
        return _CUSTOM_MEDIA
    if operation.action in ("list", "watch", "watchlist"):
        return (*_MEDIA, *_STREAMS)
    if operation.action == "connect":
        return ("*/*",)
    if operation.answer is Info:
        return _MEDIA[:1]
    return _MEDIA if operation.answer is not None else ("text/plain", *_MEDIA)
