"""Conversion between sent objects, stored objects and API versions.

A stored object (hub form) has neither kind nor apiVersion. They belong to the version of the response.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache, partial
from operator import is_
from typing import TYPE_CHECKING, Any, Final

import orjson

from apiserver.api.codec.codec import copy_json, decode_exactly, encode_exactly, zero
from apiserver.api.objects import Hub, Json, Stored, Versioned
from apiserver.api.schema.defaulting import filler_of
from apiserver.api.schema.dropping import drop_hidden
from apiserver.api.schema.language import Field, ListOf, MapOf, Struct, Type
from apiserver.registry.definition.converter import request_version
from apiserver.registry.definition.resource import Resource, Subresource, Version, api_version, same_form

if TYPE_CHECKING:
    from apiserver.registry.definition.context import Context
    from apiserver.storage.watchcache.cache import Entry

__all__ = [
    "ExpectedBody",
    "Form",
    "copy_of",
    "encode_stored",
    "exact_copy",
    "forms_of",
    "may_have_empty",
    "normalizer_of",
    "read",
    "read_compact",
    "read_shared",
    "strip_empty",
    "to_hub",
    "to_stored_form",
    "to_version",
]


OPENING: Final = b'{"metadata":{'
#: ObjectMeta's fields in storage order; resourceVersion is not stored.
_ORDER: Final = (
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
)


def read(entry: Entry) -> Hub:
    """Return a private copy of an entry's object with its resource version. Raw extensions keep their source text."""
    return Hub(decode_exactly(OPENING + entry.tail))


def read_shared(entry: Entry) -> Hub:
    """Return an entry's object for reading only. Its parts, also those of the metadata, may be shared."""
    obj = entry.primed
    if obj is None:
        return Hub(decode_exactly(OPENING + entry.tail))
    return Hub({**obj, "metadata": {**obj["metadata"]}})


def read_compact(entry: Entry) -> Hub:
    """Return a private copy of an entry's object with compact raw extensions, as the base of a patch."""
    return Hub(orjson.loads(OPENING + entry.tail))


def copy_of(obj: Json) -> Json:
    """Return a deep copy of JSON with compact raw extensions."""
    made: Json = copy_json(obj)
    return made


def exact_copy(obj: Hub) -> Hub:
    """Return a deep copy of JSON whose raw extensions keep their source text."""
    return Hub(decode_exactly(encode_exactly(obj)))


def encode_stored(obj: Hub) -> Stored:
    """Return the stored bytes of an object: metadata first, in order, without a resource version."""
    return Stored(encode_exactly(to_stored_form(obj)))


def to_stored_form(obj: Hub) -> Json:
    """Return the stored form of an object. It shares its parts with the object."""
    metadata = obj["metadata"]
    stored: Json = {"metadata": {name: metadata[name] for name in _ORDER if name in metadata}}
    for name in obj:
        if name != "metadata" and name != "kind" and name != "apiVersion":
            stored[name] = obj[name]
    return stored


def to_version(resource: Resource, version: Version, obj: Hub) -> Versioned:
    """Convert a hub object to a version, with kind and apiVersion. The caller must not use `obj` afterwards."""
    shown = obj if version.from_hub is same_form else version.from_hub(obj)
    drop_hidden(version.schema, shown)
    return Versioned({"kind": resource.kind, "apiVersion": resource.api_versions[version.name], **shown})


@dataclass(frozen=True, slots=True)
class Form:
    """One API version of a kind: its schema, its conversions, and its object without any value.

    `of_hub` returns a private copy unless the version is the stored form itself.
    """

    schema: Struct
    of_hub: Callable[[Json], Json]
    to_hub: Callable[[Json], Json]
    empty: Callable[[], Json]
    #: Upstream converts only the name of the version (custom resources without a webhook).
    only_named: bool = False


def forms_of(
    resources: Iterable[Resource], served: Callable[[Resource, Version], bool] = lambda *_: True
) -> dict[str, Form]:
    """Return the forms of all served versions, by apiVersion.

    A version that is not `served` (by release or runtime-config) has no form, because upstream takes fields from the
    OpenAPI schema of the served versions. The next write of an object drops the managers of such a version. The same
    holds for managers of another group's version of the same objects (events of the core group and of events.k8s.io).
    """
    return {
        resource.api_versions[version.name]: _form(resource, version)
        for resource in resources
        for version in resource.versions
        if served(resource, version)
    }


def _form(resource: Resource, version: Version) -> Form:
    if (conversion := resource.conversion) is not None:
        convert = conversion.convert

        def of_request(obj: Json) -> Json:
            return convert(obj, request_version.get(), version.name)

        def to_request(obj: Json) -> Json:
            return convert(obj, version.name, request_version.get())

        return Form(version.schema, of_request, to_request, lru_cache(lambda: zero(version.schema)))
    from_hub = version.from_hub
    of_hub = same_form if from_hub is same_form else lambda obj: from_hub(copy_of(obj))
    return Form(version.schema, of_hub, version.to_hub, lru_cache(lambda: zero(version.schema)), resource.custom)


def _nothing(obj: Json, now: datetime) -> None:
    """Do nothing, for a type without defaults."""


class ExpectedBody:
    """The expected body: kind, group, version and schema of an object or of a subresource's own kind."""

    __slots__ = (
        "accepts",
        "api_version",
        "custom",
        "fill",
        "group",
        "kind",
        "of",
        "projects_custom",
        "schema",
        "subresource",
        "to_hub",
        "version",
    )

    def __init__(self, resource: Resource, version: Version, subresource: Subresource | None = None) -> None:
        #: The version of a written body: the object's, or that of the subresource's kind.
        self.subresource = subresource
        shown = None if subresource is None else subresource.projection
        self.of = version if shown is None else shown.version
        self.to_hub = version.to_hub
        #: Fills the defaults in place. It is compiled on first use, because most versions are never written.
        self.fill: Callable[[Json, datetime], None] = partial(self._compile_fill, version)
        self.accepts = subresource.accepts if subresource is not None else ()
        self.kind, self.group, self.version, self.schema = resource.kind, resource.group, version.name, version.schema
        if subresource is not None and subresource.schema is not None and subresource.kind:
            self.kind, self.schema = subresource.kind, subresource.schema
            self.group = resource.group if subresource.group is None else subresource.group
            self.version = subresource.version or version.name
            self.to_hub, self.fill = same_form, _nothing
        self.api_version = api_version(self.group, self.version)
        self.custom = resource.custom and self.schema is version.schema
        #: Projects a custom object as another kind. Upstream does not convert it if it has no managers.
        self.projects_custom = resource.custom and shown is not None

    def _compile_fill(self, version: Version, obj: Json, now: datetime) -> None:
        self.fill = version.fill if version.default is not None else filler_of(version.schema) or _nothing
        self.fill(obj, now)


def to_hub(ctx: Context, expected: ExpectedBody, obj: Json, *, reset: bool) -> Hub:
    """Fill the defaults of a decoded object and convert it to hub form.

    A custom object of another kind stays as it is, with its kind, until validation.
    Raises DecodeError if the object has no stored form.
    """
    kind = obj.pop("kind", None)
    obj.pop("apiVersion", None)
    if reset:
        obj["metadata"]["managedFields"] = [{}]
    if expected.custom and kind is not None and kind != expected.kind:
        return Hub({"kind": kind, **obj})
    expected.fill(obj, ctx.now)
    return Hub(obj if expected.to_hub is same_form else expected.to_hub(obj))


# Upstream stores protobuf messages, which cannot represent an empty list: one that is always written (`rules: []`)
# comes back as null, one that was kept for validation is dropped. Walkers visit only schemas with such fields.

#: Normalizes a value in place.
Normalizer = Callable[[Any], None]
#: Returns a value without the empty parts that only validation needs.
Stripper = Callable[[Any], Any]


def normalizer_of(schema: Struct) -> Normalizer | None:
    """Return the normalizer for objects of a schema, or None if storing changes none.

    It is built once per schema and needed only for objects with empty parts (`may_have_empty`).
    """
    cache = schema.cache
    if "normalize object" not in cache:
        cache["normalize object"] = _normalizer(schema) if _has_field(schema, _is_normalized, set()) else None
    made: Normalizer | None = cache["normalize object"]
    return made


def may_have_empty(obj: Any) -> bool:
    """Return whether any part but metadata may have an empty list or map.

    Searching the encoding costs a tenth of a walk. The empty `status` of every new object does not count.
    """
    parts = {name: part for name, part in obj.items() if name != "metadata" and (part or name != "status")}
    text = orjson.dumps(parts)
    return text.find(b":[]") >= 0 or text.find(b":{}") >= 0


def _is_normalized(item: Field) -> bool:
    return item.keep_empty or (not item.omit and isinstance(item.type, ListOf | MapOf))


def _is_kept_empty(item: Field) -> bool:
    return item.keep_empty


def _has_field(type_: Type, matches: Callable[[Field], bool], seen: set[int]) -> bool:
    """Return whether a type has such a field at any depth."""
    if isinstance(type_, ListOf):
        return _has_field(type_.item, matches, seen)
    if isinstance(type_, MapOf):
        return _has_field(type_.value, matches, seen)
    if not isinstance(type_, Struct) or id(type_) in seen:
        return False
    seen.add(id(type_))
    return any(matches(item) or _has_field(item.type, matches, seen) for item in type_.fields.values())


def _normalizer(type_: Type) -> Normalizer:
    if isinstance(type_, ListOf):
        item = _normalizer(type_.item)

        def normalize_list(value: Any) -> None:
            for each in value:
                item(each)

        return normalize_list
    if isinstance(type_, MapOf):
        below = _normalizer(type_.value)

        def normalize_map(value: Any) -> None:
            for each in value.values():
                below(each)

        return normalize_map
    assert isinstance(type_, Struct)
    made: Normalizer | None = type_.cache.get("normalize")
    if made is None:
        made = type_.cache["normalize"] = _struct_normalizer(type_)
    return made


def _struct_normalizer(struct: Struct) -> Normalizer:
    always: list[str] = []
    kept: list[str] = []
    deeper: list[tuple[str, Normalizer]] = []

    def normalize(value: Any) -> None:
        for name in always:
            if name in value and not value[name]:
                value[name] = None
        for name in kept:
            if name in value and not value[name]:
                del value[name]
        for name, below in deeper:
            part = value.get(name)
            if part:
                below(part)

    # A recursive type finds this in the cache.
    struct.cache["normalize"] = normalize
    for name, item in struct.fields.items():
        if not item.omit and isinstance(item.type, ListOf | MapOf):
            always.append(name)
        elif item.keep_empty:
            kept.append(name)
        if _has_field(item.type, _is_normalized, set()):
            deeper.append((name, _normalizer(item.type)))
    return normalize


def strip_empty(schema: Struct, value: Any) -> Any:
    """Return an object as encoded: without the empty lists and maps that only validation needs.

    Unchanged parts are shared.
    """
    strip = schema.cache.get("strip")
    if strip is None:
        strip = schema.cache["strip"] = _stripper(schema) or _unchanged
    return value if strip is _unchanged or not may_have_empty(value) else strip(value)


def _unchanged(value: Any) -> Any:
    return value


def _stripper(type_: Type) -> Stripper | None:
    """Return the function that strips values of a type, or None if there is nothing to strip."""
    if not _has_field(type_, _is_kept_empty, set()):
        return None
    if isinstance(type_, Struct):
        return _struct_stripper(type_)
    each = _stripper(type_.item if isinstance(type_, ListOf) else type_.value)  # type: ignore[union-attr]
    assert each is not None
    strip = each

    def strip_list(value: Any) -> Any:
        made = [strip(item) for item in value]
        return value if all(map(is_, made, value)) else made

    def strip_map(value: Any) -> Any:
        made = {key: strip(item) for key, item in value.items()}
        return value if all(map(is_, made.values(), value.values())) else made

    return strip_list if isinstance(type_, ListOf) else strip_map


def _struct_stripper(struct: Struct) -> Stripper:
    known: Stripper | None = struct.cache.get("strip_struct")
    if known is not None:
        return known
    kept = [name for name, item in struct.fields.items() if item.keep_empty]
    deeper: list[tuple[str, Stripper]] = []

    def strip(value: Any) -> Any:
        if not value:
            return value
        out = value
        for name in kept:
            if name in value and not value[name]:
                out = {key: item for key, item in out.items() if key != name}
        for name, below in deeper:
            part = value.get(name)
            if part:
                made = below(part)
                if made is not part:
                    out = {**out, name: made}
        return out

    # A recursive type finds this in the cache.
    struct.cache["strip_struct"] = strip
    deeper += [(name, below) for name, item in struct.fields.items() if (below := _stripper(item.type)) is not None]
    return strip
