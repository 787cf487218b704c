"""Publish the kind of a custom resource in OpenAPI: its schema and the common fields of objects.

Facts: apiextensions-apiserver, pkg/controller/openapi/{builder,v2}. Version 2 cannot express null, preserved unknown
fields, or values of two types. Such schemas are published without details, because kubectl would otherwise reject valid
objects.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from apiserver.api.objects import Json
from apiserver.api.schema.language import Struct
from apiserver.api.schema.openapi import Definitions
from apiserver.api.types.meta import ListMeta, ObjectMeta, TypeMeta

__all__ = ["METADATA", "list_publisher", "publisher"]


_COMBINED: Final = ("allOf", "anyOf", "oneOf")
METADATA: Final = "Standard object's metadata."
_LIST_METADATA: Final = "Standard list metadata: the version of the list and the token of its next page."
#: The two types of an int-or-string value.
_EITHER: Final[list[Json]] = [{"type": "integer"}, {"type": "string"}]
#: The rest of the description of list items, after the resource name.
_MORE: Final = ". More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"


def publisher(gvk: tuple[str, str, str], version: Json, *, keeps_all: bool) -> Callable[[Definitions], Json]:
    """Return a function that builds the kind's OpenAPI definition for a version of a CustomResourceDefinition."""
    schema: Json | None = (version.get("schema") or {}).get("openAPIV3Schema")

    def published(document: Definitions) -> Json:
        keeps = keeps_all or (schema is not None and schema.get("x-kubernetes-preserve-unknown-fields"))
        if schema is None or (document.release == 2 and keeps):
            made: Json = {"type": "object"}
        else:
            made = _part(schema, document)
            made["properties"] = {**(made.get("properties") or {}), **_identity(document)}
        return made | _named(gvk, version)

    return published


def list_publisher(kind: Struct, names: Json, version: Json) -> Callable[[Definitions], Json]:
    """Return a function that builds the OpenAPI definition of a kind's lists."""
    assert kind.gvk is not None
    gvk = (*kind.gvk[:2], names["listKind"])

    def published(document: Definitions) -> Json:
        items = {"items": document.ref(kind), "type": "array", "description": f"List of {names['plural']}{_MORE}"}
        made: Json = {
            "description": f"{names['listKind']} is a list of {names['kind']}",
            "properties": {**_identity(document, ListMeta), "items": items},
            "required": ["items"],
            "type": "object",
        }
        return made | _named(gvk, version)

    return published


def _named(gvk: tuple[str, str, str], version: Json) -> Json:
    """Return the extensions of a definition: its group, version and kind, and its selectable fields."""
    made: Json = {"x-kubernetes-group-version-kind": [{"group": gvk[0], "kind": gvk[2], "version": gvk[1]}]}
    if selectable := version.get("selectableFields"):
        paths = [{"fieldPath": item["jsonPath"].removeprefix(".")} for item in selectable]
        made["x-kubernetes-selectable-fields"] = paths
    return made


def _identity(document: Definitions, meta: Struct = ObjectMeta) -> Json:
    metadata = document.ref(meta)
    said = METADATA if meta is ObjectMeta else _LIST_METADATA
    texts = {name: {"description": TypeMeta.fields[name].doc, "type": "string"} for name in ("apiVersion", "kind")}
    return {
        **texts,
        "metadata": {"description": said, **({"allOf": [metadata]} if document.release == 3 else metadata)},
    }


def _part(schema: Json, document: Definitions) -> Json:
    made = {name: value for name, value in schema.items() if value or (value == 0 and value is not False)}
    if "default" in schema and schema["default"] is not None:
        made["default"] = schema["default"]
    if document.release == 2:
        made = _plainer(made)
    if made.get("properties"):
        made["properties"] = {name: _part(part, document) for name, part in made["properties"].items()}
    for name in ("items", "additionalProperties", "not"):
        if isinstance(made.get(name), dict):
            made[name] = _part(made[name], document)
    for name in _COMBINED:
        if made.get(name):
            made[name] = [_part(part, document) for part in made[name]]
    if made.get("x-kubernetes-int-or-string") and document.release == 3:
        made |= _either(made)
    if made.get("x-kubernetes-embedded-resource") and (
        document.release == 3 or not made.get("x-kubernetes-preserve-unknown-fields")
    ):
        made["properties"] = {**(made.get("properties") or {}), **_identity(document)}
        made["required"] = list(dict.fromkeys([*(made.get("required") or ()), "kind", "apiVersion"]))
    return made


def _either(schema: Json) -> Json:
    """Return the types of an int-or-string schema; empty if the schema lists them itself."""
    choices, terms = schema.get("anyOf"), schema.get("allOf") or []
    if choices == _EITHER or (terms and terms[0].get("anyOf") == _EITHER):
        return {}
    return {"allOf": [{"anyOf": _EITHER}, *terms]} if choices else {"anyOf": _EITHER}


def _plainer(schema: Json) -> Json:
    """Return a part of a schema without what version 2 cannot express."""
    hidden = {"default", "nullable", *_COMBINED, "not"}
    properties = schema.get("properties") or {}
    if schema.get("nullable"):
        hidden |= {"type", "items", "properties"}
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        hidden |= {"items", "properties"} | ({"type"} if schema.get("type") == "object" else set())
    if schema.get("type") == "array" and (schema.get("items") is None or "items" in hidden):
        hidden.add("type")
    made = {name: value for name, value in schema.items() if name not in hidden}
    required = [name for name in made.pop("required", ()) if not properties.get(name, {}).get("nullable")]
    others = schema.get("additionalProperties")
    if required and not (isinstance(others, dict) and others.get("nullable")):
        made["required"] = required
    return made
