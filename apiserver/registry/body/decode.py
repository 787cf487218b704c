"""Decoding of a request's body to hub form.

It covers media type, kind and version, field validation, defaults and conversion:

    body → value (JSON or YAML) → kind and apiVersion → schema of that kind → unknown and repeated fields → defaults →
    hub

A body of another registered kind is first decoded as that kind, for errors in its own terms, and then refused. Texts
are those of k8s.io/apiserver (pkg/endpoints/handlers) and k8s.io/apimachinery (pkg/runtime).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from apiserver.api.codec.codec import Body, Decoded, DecodeError, decode, interpret, loads
from apiserver.api.errors.field_errors import Path, go_quote
from apiserver.api.errors.field_errors import invalid as invalid_field
from apiserver.api.errors.status import StatusError, bad_request, invalid
from apiserver.api.objects import Hub, Json
from apiserver.api.schema.language import RAW, ListOf, Struct, field
from apiserver.api.types.meta import (
    TYPE_META,
    APIGroup,
    APIGroupList,
    APIResourceList,
    APIVersions,
    DeleteOptions,
    ListMeta,
    Status,
    WatchEvent,
)
from apiserver.registry.body.convert import ExpectedBody, to_hub
from apiserver.registry.definition.resource import Resource, api_version, go_package

if TYPE_CHECKING:
    from apiserver.api.protobuf import Envelope
    from apiserver.registry.definition.context import Context
    from apiserver.request.messages import Request

__all__ = [
    "BODY_TYPES",
    "Kinds",
    "decode_body",
    "media_type",
    "other_kind",
    "scheme_of",
    "unregistered",
    "unsupported_media_type",
    "warnings_of",
]


PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
BODY_TYPES: Final = ("application/json", "application/yaml", PROTOBUF)
_SCHEME: Final = "pkg/api/legacyscheme/scheme.go:30"
#: Upstream's three servers have a scheme each, and errors name it by its source location.
_SCHEMES: Final = {
    "apiextensions.k8s.io": "k8s.io/apiextensions-apiserver/pkg/apiserver/apiserver.go:55",
    "apiregistration.k8s.io": "k8s.io/kube-aggregator/pkg/apiserver/scheme/scheme.go:28",
}
_SUMMARY: Final = 30


def _list_of(item: Struct) -> Struct:
    return Struct(
        item.name + "List",
        (TYPE_META, field("metadata", 1, ListMeta, omit=False), field("items", 2, ListOf(item), omit=False)),
    )


_LIST: Final = Struct(
    "io.k8s.api.core.v1.List",
    (TYPE_META, field("metadata", 1, ListMeta, omit=False), field("items", 2, ListOf(RAW), omit=False)),
)


def _of_meta(kind: str) -> Struct:
    return Struct(f"io.k8s.apimachinery.pkg.apis.meta.v1.{kind}", (TYPE_META,))


#: Kinds in every version of upstream's groups, and kinds in any version. No object's body has them, so most need no
#: fields.
_OF_ALL: Final = {
    "DeleteOptions": DeleteOptions, "WatchEvent": WatchEvent,
    **{f"{verb}Options": _of_meta(f"{verb}Options") for verb in ("Create", "Get", "List", "Patch", "Update")},
}  # fmt: skip
_UNVERSIONED: Final = {
    "APIGroup": APIGroup, "APIGroupList": APIGroupList, "APIResourceList": APIResourceList, "APIVersions": APIVersions,
    "Status": Status,
}  # fmt: skip


class Kinds:
    """All kinds of bodies, by apiVersion and kind.

    They are the versions of the catalog, their lists, and the bodies of subresources.
    """

    def __init__(self, resources: Iterable[Resource] = ()) -> None:
        self._schemas: dict[tuple[str, str], Struct] = {("v1", "List"): _LIST}
        self._versions: set[str] = set()
        for resource in resources:
            self.add(resource)

    def add(self, resource: Resource) -> None:
        """Add the kinds of a resource: its versions, their lists, and bodies of its subresources."""
        for version in resource.versions:
            name = api_version(resource.group, version.name)
            self._schemas[name, resource.kind] = version.schema
            self._schemas[name, resource.list_kind] = _list_of(version.schema)
            self._versions.add(name)
        for sub in resource.subresources:
            if sub.schema is not None and sub.kind:
                group = resource.group if sub.group is None else sub.group
                self._schemas[api_version(group, sub.version or resource.versions[0].name), sub.kind] = sub.schema

    def remove(self, resource: Resource) -> None:
        """Remove the resource's own kinds. Other resources may share the bodies of its subresources."""
        for version in resource.versions:
            name = api_version(resource.group, version.name)
            self._schemas.pop((name, resource.kind), None)
            self._schemas.pop((name, resource.list_kind), None)

    def schema(self, version: str, kind: str) -> Struct | None:
        return self._schemas.get((version, kind))

    def scheme(self, version: str, kind: str) -> Struct | None:
        """Return the schema of any kind in upstream's scheme, also of kinds without a resource."""
        further = _OF_ALL.get(kind) if version in self._versions else None
        return self.schema(version, kind) or _UNVERSIONED.get(kind) or further


def media_type(content_type: str) -> str:
    """Return the media type of a Content-Type header. The default is JSON."""
    if not content_type:
        return "application/json"
    return content_type.partition(";")[0].strip().lower()


def unsupported_media_type(accepted: Iterable[str] = BODY_TYPES) -> StatusError:
    """Return a 415 in upstream's words that names the accepted media types."""
    message = f"the body of the request was in an unknown format - accepted media types include: {', '.join(accepted)}"
    return StatusError(415, "UnsupportedMediaType", message)


def check_media_type(content_type: str) -> str:
    """Return the media type of a header. Raise StatusError (415) for one that bodies cannot have."""
    media = media_type(content_type)
    if media not in BODY_TYPES:
        raise unsupported_media_type()
    return media


def load_body(body: bytes, media: str) -> Body:
    """Parse a body. Raise DecodeError, with upstream's text for invalid JSON."""
    try:
        return loads(body, media)
    except DecodeError as error:
        raise DecodeError(
            f"couldn't get version/kind; json parse error: {error}" if media == "application/json" else str(error)
        ) from None


def decode_body(ctx: Context, expected: ExpectedBody, kinds: Kinds, request: Request, validation: str) -> Hub:
    """Decode a body to hub form without kind and apiVersion. Warnings go to the context."""
    body, media = request.body, check_media_type(request.headers.get("content-type", ""))
    if media == PROTOBUF:
        return _decode_message(ctx, expected, kinds, body)
    try:
        loaded = load_body(body, media)
        version, kind = interpret(loaded)
        if version.count("/") > 1:
            raise DecodeError(f"unexpected GroupVersion string: {version}")
    except DecodeError as error:
        message = f"the object provided is unrecognized (must be of type {expected.kind}): {error} ({summary(body)})"
        raise bad_request(message) from None
    if expected.custom and not kind:
        raise _without_kind(expected, body, validation)
    if version.endswith("/") and not expected.custom:
        if version[:-1] != expected.group:
            what = f'{kind or expected.kind} in version "" cannot be handled as a {expected.kind}'
            raise bad_request(f"{what}: Object 'apiVersion' is missing in '{body.decode(errors='replace')}'")
        version = expected.api_version
    raw = loaded.value or {}
    reset = not expected.custom and _resets_managers(raw)
    obj = _decode_as(
        ctx, expected, kinds, loaded, version if expected.custom else version or expected.api_version,
        kind or expected.kind, validation or "Warn",
    )  # fmt: skip
    return _convert_to_hub(ctx, expected, obj, reset=reset)


def _without_kind(expected: ExpectedBody, body: bytes, validation: str) -> StatusError:
    """Return the 400 for a custom object without kind: upstream does not take the kind from the path."""
    missing = f"Object 'Kind' is missing in '{body.decode(errors='replace')}'"
    if validation == "Ignore":
        what = f'{expected.kind} in version "{expected.version}" cannot be handled as a {expected.kind}'
        return bad_request(f"{what}: {missing}")
    return bad_request(
        f"the object provided is unrecognized (must be of type {expected.kind}): {missing} ({summary(body)})"
    )


def _decode_message(ctx: Context, expected: ExpectedBody, kinds: Kinds, body: bytes) -> Hub:
    """Decode a protobuf body. Its unknown fields have no names and are ignored."""
    from apiserver.api import protobuf

    try:
        envelope = protobuf.unwrap(body)
    except DecodeError as error:
        message = f"the object provided is unrecognized (must be of type {expected.kind}): {error} ({summary(body)})"
        raise bad_request(message) from None
    version = envelope.api_version if envelope.api_version.count("/") < 2 else ""
    obj = _decode_as(
        ctx, expected, kinds, envelope, version or expected.api_version, envelope.kind or expected.kind, "Ignore"
    )
    return _convert_to_hub(ctx, expected, obj, reset=False)


def _convert_to_hub(ctx: Context, expected: ExpectedBody, obj: Json, *, reset: bool) -> Hub:
    """Convert the body of a request like `to_hub`. Raise 400 if it has no stored form."""
    try:
        return to_hub(ctx, expected, obj, reset=reset)
    except DecodeError as error:
        raise bad_request(
            f'{expected.kind} in version "{expected.version}" cannot be handled as a {expected.kind}: {error}'
        ) from None


def _resets_managers(raw: Any) -> bool:
    """Return whether managedFields is an empty list, which resets all managers of an object.

    The normal form drops an empty list. A custom object's metadata is normalized before this check, so its empty list
    resets nothing.
    """
    metadata = raw.get("metadata") if isinstance(raw, dict) else None
    return isinstance(metadata, dict) and metadata.get("managedFields") == []


def summary(body: bytes) -> str:
    """Return the beginning of a body, as text if it looks like JSON, else in hexadecimal."""
    if not body:
        return "<empty>"
    cut = body[:_SUMMARY]
    text = cut.decode(errors="replace") if body[:1] == b"{" else cut.hex()
    return text + " ..." if len(body) > _SUMMARY else text


def _decode_as(
    ctx: Context, expected: ExpectedBody, kinds: Kinds, body: Body | Envelope, version: str, kind: str, validation: str
) -> Json:
    short = version.rpartition("/")[2]

    def refuse(error: str) -> StatusError:
        return bad_request(f'{kind} in version "{short}" cannot be handled as a {expected.kind}: {error}')

    # Validation reports the wrong kind of a custom object.
    own = (expected.custom or kind == expected.kind) and (
        version == expected.api_version or version in expected.accepts
    )
    schema = expected.schema if own or expected.custom else kinds.scheme(version, kind)
    if schema is None:
        raise refuse(unregistered(kind, version, scheme_of(expected.group)))
    try:
        decoded = decode(schema, body.value or {}, body) if isinstance(body, Body) else _read_message(schema, body)
    except DecodeError as error:
        raise refuse(str(error)) from None
    problems = decoded.problems if validation != "Ignore" else []
    if kind != expected.kind and not expected.custom:
        raise refuse(f"converting ({schema.go}) to ({go_package(expected.group)}.{expected.kind}): unknown conversion")
    if problems and validation == "Strict":
        raise refuse("strict decoding error: " + ", ".join(problems))
    ctx.warnings += [warning for problem in problems for warning in warnings_of(problem)]
    if not own:
        raise bad_request(
            f"the API version in the data ({version}) does not match the expected API version ({expected.api_version})"
        )
    obj: Json = decoded.obj
    return obj


def scheme_of(group: str) -> str:
    """Return the location of upstream's scheme for a group."""
    return _SCHEMES.get(group, _SCHEME)


def unregistered(kind: str, version: str, scheme: str) -> str:
    """Return the error text for a kind that is not registered in a scheme, or for an invalid version."""
    if version.count("/") > 1:
        return f"unexpected GroupVersion string: {version}"
    group, _, short = version.rpartition("/")
    if short == "__internal":
        return (
            f'no kind {go_quote(kind)} is registered for the internal version of group "{group}" in scheme "{scheme}"'
        )
    return f'no kind {go_quote(kind)} is registered for version {go_quote(version)} in scheme "{scheme}"'


def other_kind(kind: str, version: str, expected: ExpectedBody, obj: Any) -> StatusError:
    """Return the 422 for a custom object with the wrong kind or version, which only this check finds."""
    metadata = obj.get("metadata") if isinstance(obj, Mapping) else None
    name = metadata.get("name", "") if isinstance(metadata, Mapping) else ""
    errors = [
        invalid_field(Path(field), said, f"must be {wanted}")
        for field, said, wanted in (("kind", kind, expected.kind), ("apiVersion", version, expected.api_version))
        if said != wanted
    ]
    return invalid(kind, version.rpartition("/")[0], name, errors)


def _read_message(schema: Struct, envelope: Envelope) -> Decoded:
    from apiserver.api import protobuf

    return decode(schema, protobuf.decode(schema, envelope.raw))


_YAML_PREFIXES: Final = ("yaml: unmarshal errors:\n", "error converting YAML to JSON: yaml: unmarshal errors:\n")


def warnings_of(problem: str) -> list[str]:
    """Split a strict error into warnings: an error of YAML gives one warning per line."""
    for prefix in _YAML_PREFIXES:
        if problem.startswith(prefix):
            return [line.strip() for line in problem.removeprefix(prefix).split("\n")]
    return [problem]
