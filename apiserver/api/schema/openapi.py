"""Schema objects of OpenAPI 2 and 3, built from the schema language.

The two differ in references, in defaults (version 3 only) and in types with two forms. The parts that clients read
(x-kubernetes-* extensions, required, formats, enums) are the same in both.
"""

from __future__ import annotations

from typing import Any, Final

from apiserver.api.objects import Json
from apiserver.api.schema.language import Field, ListOf, MapOf, Scalar, Struct, Type

__all__ = ["OPENAPI", "Definitions"]


#: Scalars with a definition of their own, by full name, with their form in version 3 if it differs.
_TWO_FORMS: Final[dict[str, Json]] = {
    "quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    "intOrString": {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
}
#: Cache key for a function that builds the definition of a type without fields: (definitions) → schema.
OPENAPI: Final = "openapi"
_SCALAR_DOCS: Final = {
    "time": "A moment in RFC 3339, in whole seconds.",
    "microTime": "A moment in RFC 3339, with microseconds.",
    "quantity": "A number with an optional suffix such as m, k, Mi or e3.",
    "intOrString": "A number, or a string.",
    "duration": "A duration such as 1h30m.",
    "raw": "Any JSON object.",
    "fieldsV1": "A set of fields, as a tree of their names.",
}
#: Values of several types that are definitions as well.
_OPEN_DOCS: Final = {
    "JSON": "Any JSON value.",
    "JSONSchemaPropsOrArray": "A schema, or a list of schemas.",
    "JSONSchemaPropsOrBool": "A schema, or true or false.",
    "JSONSchemaPropsOrStringArray": "A schema, or a list of names.",
}
_ZERO: Final = {"string": "", "bool": False, "int32": 0, "int64": 0, "float64": 0}
#: Definitions shared by all group versions. Their group-version-kinds are all of these.
SHARED_KINDS: Final = (
    "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
    "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent",
)


class Definitions:
    """The definitions of one document: the referenced types and all types that they need."""

    def __init__(self, release: int, kinds: dict[str, list[Json]]) -> None:
        """Create an empty document.

        Args:
            release: The OpenAPI version, 2 or 3.
            kinds: The group-version-kinds of shared types, by definition name.
        """
        self.release = release
        self.prefix = "#/definitions/" if release == 2 else "#/components/schemas/"
        self._kinds = kinds
        self._built: dict[str, Json] = {}

    def sorted(self) -> Json:
        return {name: self._built[name] for name in sorted(self._built)}

    def ref(self, type: Struct | Scalar) -> Json:
        """Return a reference to a type, and add the type to the document."""
        name = type.name if isinstance(type, Struct) else type.wire
        if name not in self._built:
            self._built[name] = {}
            self._built[name] = self._struct(type) if isinstance(type, Struct) else self._leaf(type)
        return {"$ref": self.prefix + name}

    def _leaf(self, type: Scalar) -> Json:
        form = _TWO_FORMS.get(type.name) if self.release == 3 else None
        doc = _SCALAR_DOCS.get(type.name) or _OPEN_DOCS[_last(type)]
        return {"description": doc, **(form or type.openapi)}

    def _struct(self, struct: Struct) -> Json:
        if (form := struct.cache.get(OPENAPI)) is not None:
            own: Json = form(self)
            return own
        made: Json = {"description": struct.doc}
        if struct.fields:
            made["properties"] = {name: self._property(struct.fields[name]) for name in sorted(struct.fields)}
        required = [name for name, item in struct.fields.items() if item.required]
        if required:
            made["required"] = required
        made["type"] = "object"
        kinds = self._kinds.get(struct.name) or ([_kind(struct.gvk)] if struct.gvk else [])
        if kinds:
            made["x-kubernetes-group-version-kind"] = kinds
        if struct.atomic or struct.granular:
            made["x-kubernetes-map-type"] = "atomic"
        if struct.union is not None:
            made["x-kubernetes-unions"] = [_union(*struct.union)]
        return made

    def _property(self, item: Field) -> Json:
        made = self._type(item.type)
        if "$ref" in made and self.release == 3:
            made = {"allOf": [made]}
        made["description"] = item.doc
        default = self._default(item)
        if default is not None and self.release == 3:
            made["default"] = default
        made.update(_merge_rules(item))
        return made

    def _default(self, item: Field) -> Any:
        """Return the default to show: the declared one, else the zero value of a field that is always written."""
        if item.default is not None:
            return item.default
        if item.pointer:
            return None
        if isinstance(item.type, Struct):
            return {}
        if isinstance(item.type, Scalar) and not item.omit:
            return _ZERO.get(item.type.name)
        return None

    def _type(self, type: Type) -> Json:
        if isinstance(type, Struct):
            return self.ref(type)
        if isinstance(type, ListOf):
            return {"items": self._type(type.item), "type": "array"}
        if isinstance(type, MapOf):
            return {"additionalProperties": self._type(type.value), "type": "object"}
        if type.name in _SCALAR_DOCS or _last(type) in _OPEN_DOCS:
            return self.ref(type)
        return {**type.openapi, "enum": list(type.enum)} if type.enum else dict(type.openapi)


def _last(type: Scalar) -> str:
    return type.wire.rpartition(".")[2]


def _kind(gvk: tuple[str, str, str]) -> Json:
    return {"group": gvk[0], "kind": gvk[2], "version": gvk[1]}


def _union(discriminator: str, fields: tuple[str, ...]) -> Json:
    told: Json = {"discriminator": discriminator} if discriminator else {}
    return {**told, "fields-to-discriminateBy": {name: name[0].upper() + name[1:] for name in sorted(fields)}}


def _merge_rules(item: Field) -> Json:
    """Return the extensions with the merge rules of a field."""
    rules: Json = {}
    kind = item.type
    if isinstance(kind, ListOf):
        if kind.keys:
            rules["x-kubernetes-list-map-keys"] = list(kind.keys)
        if kind.kind:
            rules["x-kubernetes-list-type"] = kind.kind
        if kind.merge_key:
            rules["x-kubernetes-patch-merge-key"] = kind.merge_key
        if kind.strategy:
            rules["x-kubernetes-patch-strategy"] = kind.strategy
    if item.strategy:
        rules["x-kubernetes-patch-strategy"] = item.strategy
    if item.atomic or (isinstance(kind, MapOf) and kind.atomic):
        # Bytes are a list, for Go.
        rules["x-kubernetes-list-type" if isinstance(kind, Scalar) else "x-kubernetes-map-type"] = "atomic"
    if isinstance(kind, Struct | MapOf) and kind.granular:
        rules["x-kubernetes-map-type"] = "granular"
    return rules
