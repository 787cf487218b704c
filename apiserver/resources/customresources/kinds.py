"""Build the resource of a definition for the catalog: versions with types, rules, columns and subresources.

Objects are stored in the storage version. Rows that are older than the definition's current form are pruned and
defaulted by the storage version's schema when they are read (`Resource.to_current`). Upstream does so on each decode.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import orjson

from apiserver.api.codec.codec import Body, Decoded, DecodeError, decode
from apiserver.api.codec.strictness import find_repeated
from apiserver.api.objects import Hub, Json
from apiserver.api.schema.language import Struct
from apiserver.api.types.meta import ObjectMeta
from apiserver.api.validation.structural import Structural
from apiserver.api.values.go_json import Literal, Pairs, parse_with_spans
from apiserver.api.values.version_order import version_order
from apiserver.registry.body.convert import encode_stored
from apiserver.registry.definition.resource import Resource, Subresource, Version, same_form
from apiserver.registry.store.conversion import remove_mark, version_mark
from apiserver.resources.customresources.coercion import Coercion, TooLarge
from apiserver.resources.customresources.columns import columns_of
from apiserver.resources.customresources.fieldtypes import fields_of_kind
from apiserver.resources.customresources.jsonpaths import compile_path, shown
from apiserver.resources.customresources.scale import scale_of
from apiserver.resources.customresources.schema_walk import has_rules
from apiserver.resources.customresources.strategy import CustomStrategy, Rules
from apiserver.resources.customresources.webhookconversion import Webhook, WebhookConversion
from apiserver.storage.log.types import Record
from apiserver.webhooks.client import target_of

if TYPE_CHECKING:
    from apiserver.api.schema.openapi import Definitions
    from apiserver.resources.customresources.rulechecks import RuleChecks
    from apiserver.webhooks.client import Webhooks

__all__ = ["resource_of"]


#: In discovery order.
VERBS: Final = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")


class CustomVersion(Version):
    """A version whose defaults are in a structural schema."""

    __slots__ = ()

    def fill(self, obj: Json, now: Any) -> None:
        assert self.default is not None
        self.default(obj, now)


def resource_of(
    definition: Json, webhooks: Webhooks, *, since: int, shared: bool, terminating: Callable[[], bool]
) -> Resource:
    """Build the resource of a definition.

    Args:
        definition: The definition in hub form.
        webhooks: Client for conversion webhooks, if the definition has one.
        since: The revision from which on rows have the definition's form.
        shared: Other servers may still write rows in an older form.
        terminating: Return whether the definition is being deleted.
    """
    spec, names = definition["spec"], definition["status"]["acceptedNames"]
    keeps_all = bool(spec.get("preserveUnknownFields"))
    known = list(spec["versions"])
    storage = next(version["name"] for version in known if version.get("storage"))
    known.sort(key=lambda version: (version["name"] != storage, version_order(version["name"])))
    coercions = {version["name"]: Coercion(_schema(version), keeps_all=keeps_all) for version in known}
    rules = {version["name"]: _rules(version, coercions[version["name"]]) for version in known}
    first = next(iter(definition["status"].get("storedVersions") or ()), storage)
    conversion = _conversion(spec, names, coercions, webhooks, storage, first)
    hub = "" if conversion is not None else storage
    versions = tuple(_version(spec, names, version, coercions, hub, keeps_all=keeps_all) for version in known)
    return Resource(
        group=spec["group"],
        kind=names["kind"],
        plural=names["plural"],
        singular=names.get("singular", ""),
        list_kind_name=names.get("listKind", ""),
        namespaced=spec["scope"] == "Namespaced",
        versions=versions,
        strategy=CustomStrategy(rules, hub, terminating),
        columns=(),
        storage_prefix=f"{spec['group']}/{names['plural']}",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        verbs=VERBS,
        unconditional_update=False,
        field_labels={name: cell for version in versions for name, cell in (version.field_labels or {}).items()},
        field_error_style="plain",
        storage_version=f"{spec['group']}/{storage}",
        custom=True,
        conversion=conversion,
        stored_mark=version_mark(storage) if storage != first else b"",
        to_current=_row_converter(coercions[storage], 0 if shared else since) if conversion is None else None,
        to_former=_row_converter(coercions[storage], 0) if conversion is None else _as_it_is,
    )


def _as_it_is(record: Record) -> Record:
    """Return the record unchanged, for watches whose conversion builds the served form."""
    return record


def _conversion(
    spec: Json, names: Json, coercions: dict[str, Coercion], webhooks: Webhooks, storage: str, first: str
) -> WebhookConversion | None:
    """Return the webhook conversion of the definition; None if objects are not converted."""
    conversion = spec.get("conversion") or {}
    if conversion.get("strategy") != "Webhook" or len(spec["versions"]) == 1:
        return None
    said = conversion["webhook"]
    webhook = Webhook(target_of(said["clientConfig"]), said["conversionReviewVersions"])
    return WebhookConversion(webhooks, webhook, (spec["group"], names["kind"]), coercions, storage, first)


def _schema(version: Json) -> Json | None:
    schema: Json | None = (version.get("schema") or {}).get("openAPIV3Schema")
    return schema


def _rules(version: Json, coercion: Coercion) -> Rules:
    schema, subresources = _schema(version), version.get("subresources") or {}
    status = ((schema or {}).get("properties") or {}).get("status")
    return Rules(
        schema=Structural(schema) if schema is not None else None,
        coercion=coercion,
        status=Structural(status) if status is not None else None,
        has_status="status" in subresources,
        defaults_status="status" in subresources and (status or {}).get("default") is not None,
        scale=subresources.get("scale"),
        checks=_checks(schema) if schema is not None and has_rules(schema) else None,
    )


def _checks(schema: Json) -> RuleChecks:
    # Import here, because rules load CEL, which few requests need.
    from apiserver.resources.customresources.rulechecks import RuleChecks

    return RuleChecks(schema, root=True)


def _version(
    spec: Json, names: Json, version: Json, coercions: dict[str, Coercion], storage: str, *, keeps_all: bool
) -> Version:
    name = version["name"]
    coercion = coercions[name]
    subresources = version.get("subresources") or {}
    found: list[Subresource] = []
    if "status" in subresources:
        found.append(Subresource(name="status"))
    if subresources.get("scale"):
        found.append(scale_of(subresources["scale"]))
    schema = _type(spec["group"], version, names, coercions, keeps_all=keeps_all)
    return CustomVersion(
        name=name,
        schema=schema,
        list_schema=_list_type(schema, version, names),
        from_hub=same_form if name == storage or not storage else lambda obj: coercion.pruned(obj)[0],
        to_hub=same_form if name == storage or not storage else dict,
        default=lambda obj, _: coercion.default(obj),
        columns=columns_of(version),
        subresources=tuple(found),
        field_labels={
            item["jsonPath"].removeprefix("."): _label(item["jsonPath"])
            for item in version.get("selectableFields") or ()
        },
        warning=_warning(spec, version),
    )


def _label(path: str) -> Callable[[Json], str]:
    find = compile_path(path)

    def label(obj: Json) -> str:
        found = find(obj)
        return shown(found[0]) if found and found[0] is not None else ""

    return label


def _warning(spec: Json, version: Json) -> str:
    """Return the warning in each response of a deprecated version; "" otherwise."""
    if not version.get("deprecated"):
        return ""
    if (text := version.get("deprecationWarning")) is not None:
        return str(text)
    group, kind, name = spec["group"], spec["names"]["kind"], version["name"]
    newer = sorted(
        (
            other["name"] for other in spec["versions"]
            if other.get("served") and not other.get("deprecated")
            and version_order(other["name"]) < version_order(name)
        ),
        key=version_order,
    )  # fmt: skip
    return f"{group}/{name} {kind} is deprecated" + (f"; use {group}/{newer[0]} {kind}" if newer else "")


def _type(group: str, version: Json, names: Json, coercions: dict[str, Coercion], *, keeps_all: bool) -> Struct:
    """Build the type of a kind: fields for server-side apply, decoder by structural schema, OpenAPI from the schema."""
    schema, gvk = _schema(version), (group, version["name"], names["kind"])
    fields, others = fields_of_kind(schema, keeps_all=keeps_all)

    def read(value: Any, body: Body | None) -> Decoded:
        return _decoded(_coercion_for(value, gvk, coercions), value, body)

    made = Struct(
        ".".join([*reversed(group.split(".")), *gvk[1:]]),
        fields,
        gvk=gvk,
        doc=(schema or {}).get("description", ""),
        others=others,
        decoder=read,
    )
    # The result of an apply. Upstream reads it without pruning nulls.
    made.cache["decode"] = lambda value: _decoded(coercions[gvk[1]], value, None, keeps_nulls=True).obj

    def published(document: Definitions) -> Json:
        from apiserver.resources.customresources.published import publisher

        return publisher(gvk, version, keeps_all=keeps_all)(document)

    made.cache["openapi"] = published
    return made


def _list_type(kind: Struct, version: Json, names: Json) -> Struct:
    """Build the type of a kind's lists, which only API documents use."""
    assert kind.gvk is not None
    made = Struct(kind.name.removesuffix(kind.gvk[2]) + names["listKind"], (), gvk=(*kind.gvk[:2], names["listKind"]))

    def published(document: Definitions) -> Json:
        from apiserver.resources.customresources.published import list_publisher

        return list_publisher(kind, names, version)(document)

    made.cache["openapi"] = published
    return made


#: For versions that the definition does not have, and for objects of other kinds.
_NOTHING: Final = Coercion(None)
_EVERYTHING: Final = Coercion(None, keeps_all=True)


def _coercion_for(value: Json, gvk: tuple[str, str, str], coercions: dict[str, Coercion]) -> Coercion:
    """Return the schema of the version that a body names. Raise DecodeError.

    A body of another group or kind keeps all fields.
    """
    version = value.get("apiVersion", "")
    if version is None:
        raise DecodeError(".apiVersion accessor error: <nil> is of the type <nil>, expected string")
    group, _, name = version.rpartition("/")
    if (group, value.get("kind")) != (gvk[0], gvk[2]):
        return _EVERYTHING
    return coercions.get(name, _NOTHING)


def _decoded(coercion: Coercion, value: Json, body: Body | None, *, keeps_nulls: bool = False) -> Decoded:
    """Return the coerced object, and strict decoding errors: duplicate fields, then unknown fields."""
    duplicates = find_repeated(parse_with_spans(body.text)) if body is not None and _may_repeat(body) else []
    try:
        metadata = decode(ObjectMeta, value.get("metadata"))
    except DecodeError:  # report the first of several errors in key order
        metadata = decode(ObjectMeta, _in_key_order(value["metadata"]))
    try:
        obj, unknown = coercion.pruned(value, keeps_nulls=keeps_nulls)
    except TooLarge:
        number = next(iter(_infinite(parse_with_spans(body.text))), "") if body is not None else ""
        raise DecodeError(f"json: cannot unmarshal number {number} into Go value of type float64") from None
    if metadata.unknown:  # fields of metadata are read in key order
        metadata = decode(ObjectMeta, _in_key_order(value["metadata"]))
        unknown = [f"metadata.{path}" for path in metadata.unknown] + unknown
    obj["metadata"] = metadata.obj
    problems = (body.problems if body else []) + [f'duplicate field "{path}"' for path in duplicates]
    problems += [f'unknown field "{path}"' for path in unknown]
    return Decoded(obj, problems, unknown, duplicates)


def _in_key_order(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _in_key_order(value[name]) for name in sorted(value)}
    return [_in_key_order(item) for item in value] if isinstance(value, list) else value


def _infinite(node: Any) -> Iterator[str]:
    """Yield the numbers of a text, as written, that exceed the range of a float."""
    if isinstance(node, Literal):
        if math.isinf(float(node)):
            yield str(node)
    elif isinstance(node, list):
        for item in node:
            yield from _infinite(item[1] if isinstance(node, Pairs) else item)


def _may_repeat(body: Body) -> bool:
    text = body.text
    if not text:
        return False
    plain = b'" :' not in text and b"u0022" not in text
    return not plain or text.count(b'":') != body.encoded.count(b'":')


def _row_converter(coercion: Coercion, since: int) -> Callable[[Record], Record]:
    def convert(record: Record) -> Record:
        value = remove_mark(record.value)
        if since and record.revision > since:
            return record if value is record.value else record._replace(value=value)
        obj = orjson.loads(value)
        made, _ = coercion.pruned(obj)
        coercion.default(made)
        if made == obj:
            return record if value is record.value else record._replace(value=value)
        return record._replace(value=encode_stored(Hub(made)))

    return convert
