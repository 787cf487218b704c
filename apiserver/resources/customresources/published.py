"""A custom resource's kind as OpenAPI publishes it: the schema of its definition, with what every object has.

Facts: apiextensions-apiserver, pkg/controller/openapi/{builder,v2}. Version 2 has no word for null, for unknown fields
that stay, or for values of two types: where a schema says such a thing, kubectl must not know more than that, or it
would refuse what the server takes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from apiserver.api.types.meta import ObjectMeta, TypeMeta
from apiserver.openapi.definitions import Definitions

__all__ = ["METADATA", "publisher"]

Json = dict[str, Any]

_COMBINED: Final = ("allOf", "anyOf", "oneOf")
METADATA: Final = "Standard object's metadata."


def publisher(gvk: tuple[str, str, str], version: Json, *, keeps_all: bool) -> Callable[[Definitions], Json]:
    """What gives the kind's definition in a document, for a version of a CustomResourceDefinition."""
    schema: Json | None = (version.get("schema") or {}).get("openAPIV3Schema")
    selectable = [{"fieldPath": item["jsonPath"].removeprefix(".")} for item in version.get("selectableFields") or ()]

    def published(document: Definitions) -> Json:
        keeps = keeps_all or (schema is not None and schema.get("x-kubernetes-preserve-unknown-fields"))
        if schema is None or (document.release == 2 and keeps):
            made: Json = {"type": "object"}
        else:
            made = _part(schema, document)
            made["properties"] = {**(made.get("properties") or {}), **_identity(document)}
        made["x-kubernetes-group-version-kind"] = [{"group": gvk[0], "kind": gvk[2], "version": gvk[1]}]
        if selectable:
            made["x-kubernetes-selectable-fields"] = selectable
        return made

    return published


def _identity(document: Definitions) -> Json:
    metadata = document.ref(ObjectMeta)
    texts = {name: {"description": TypeMeta.fields[name].doc, "type": "string"} for name in ("apiVersion", "kind")}
    return {
        **texts,
        "metadata": {"description": METADATA, **({"allOf": [metadata]} if document.release == 3 else metadata)},
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
    if made.get("x-kubernetes-int-or-string") and document.release == 3 and not made.get("anyOf"):
        made["anyOf"] = [{"type": "integer"}, {"type": "string"}]
    if made.get("x-kubernetes-embedded-resource") and (
        document.release == 3 or not made.get("x-kubernetes-preserve-unknown-fields")
    ):
        made["properties"] = {**(made.get("properties") or {}), **_identity(document)}
        made["required"] = list(dict.fromkeys([*(made.get("required") or ()), "kind", "apiVersion"]))
    return made


def _plainer(schema: Json) -> Json:
    """A part of a schema as version 2 can say it."""
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
