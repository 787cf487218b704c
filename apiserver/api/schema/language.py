"""The language in which the schema of every Kubernetes kind is written, once.

A schema is data. Decoding, defaulting, field validation, managed fields, strategic merge, OpenAPI, tables of
explanation and protobuf all read the same `Struct`; none of them has a second list of fields. Objects are plain dicts
in their JSON form; a schema defines the permitted content.

Encoding facts follow Go's encoding/json as upstream's types use it:

* `omitempty` scalars, lists and maps vanish when zero or empty; without it they are always written (`requests: null`).
* a struct by value is always written (`status: {}`), a pointer only when set; `null` for a pointer means absent. *
numbers are JSON integers; a fraction for an integer field is a decoding error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, Final, Literal, NamedTuple

from apiserver.api.features.gated_fields import Gated, gated
from apiserver.api.schema.limits import Limits
from apiserver.api.schema.markers import Step

__all__ = [
    "ANY",
    "BOOL",
    "BYTES",
    "DEDUCED",
    "DURATION",
    "FIELDS_V1",
    "FLOAT64",
    "INT32",
    "INT64",
    "INT_OR_STRING",
    "MICRO_TIME",
    "NOW",
    "QUANTITY",
    "RAW",
    "STRING",
    "TIME",
    "Field",
    "ListOf",
    "MapOf",
    "OwnForm",
    "Scalar",
    "Struct",
    "Type",
    "When",
    "field",
    "go_name",
    "string",
]


class OwnForm(NamedTuple):
    """The forms of a type with an unmarshaller of its own and several forms in JSON.

    `forms` has a type for each sort of value ("object", "array", "bool"). Other values are refused with `error`, or
    ignored if it is empty. In protobuf the type is a `message`: `opened` converts a value to it, `closed` converts it
    back.
    """

    forms: Mapping[str, Type]
    error: str
    message: Struct
    opened: Callable[[Any], dict[str, Any]]
    closed: Callable[[dict[str, Any]], Any]


class Scalar:
    """A leaf type.

    `name` is ours (compare this, not identity: named strings share it). `go` is the name in decoding errors, `openapi`
    the OpenAPI v3 fragment, `enum` the values that OpenAPI lists. `own` has the forms of a type with an unmarshaller of
    its own; its name is "own".
    """

    __slots__ = ("enum", "go", "name", "openapi", "own", "wire")

    def __init__(
        self,
        name: str,
        go: str,
        wire: str,
        enum: tuple[str, ...] = (),
        own: OwnForm | None = None,
        **openapi: Any,
    ) -> None:
        self.name, self.go, self.wire, self.enum, self.own, self.openapi = name, go, wire, enum, own, openapi

    def __repr__(self) -> str:
        return self.name


STRING: Final = Scalar("string", "string", "string", type="string")
BOOL: Final = Scalar("bool", "bool", "bool", type="boolean")
INT32: Final = Scalar("int32", "int32", "int32", type="integer", format="int32")
INT64: Final = Scalar("int64", "int64", "int64", type="integer", format="int64")
FLOAT64: Final = Scalar("float64", "float64", "double", type="number", format="double")
BYTES: Final = Scalar("bytes", "[]uint8", "bytes", type="string", format="byte")
#: metav1.Time, whole seconds in UTC; MICRO_TIME keeps six digits.
TIME: Final = Scalar("time", "v1.Time", "io.k8s.apimachinery.pkg.apis.meta.v1.Time", type="string", format="date-time")
MICRO_TIME: Final = Scalar(
    "microTime", "v1.MicroTime", "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime", type="string", format="date-time"
)
DURATION: Final = Scalar("duration", "v1.Duration", "io.k8s.apimachinery.pkg.apis.meta.v1.Duration", type="string")
QUANTITY: Final = Scalar(
    "quantity", "resource.Quantity", "io.k8s.apimachinery.pkg.api.resource.Quantity", type="string"
)
INT_OR_STRING: Final = Scalar(
    "intOrString",
    "intstr.IntOrString",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
    type="string",
    format="int-or-string",
)
#: runtime.RawExtension: any JSON, preserved byte for byte because size limits count raw bytes.
RAW: Final = Scalar("raw", "runtime.RawExtension", "io.k8s.apimachinery.pkg.runtime.RawExtension", type="object")
FIELDS_V1: Final = Scalar("fieldsV1", "v1.FieldsV1", "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1", type="object")
ANY: Final = Scalar("any", "interface {}", "json")
#: A value without a schema. Server-side apply merges maps key by key and replaces other values.
DEDUCED: Final = Scalar("any", "interface {}", "json")


def string(go: str, *enum: str) -> Scalar:
    """Build a named string type. `go` is its name in errors ("v1.PodPhase"), `enum` its values in OpenAPI."""
    return Scalar("string", go, "string", enum, type="string")


ListType = Literal["atomic", "set", "map", ""]


class ListOf:
    """A list.

    `kind` and `keys` are the merge rules of server-side apply ("" is unmarked, merged as atomic). `merge_key` and
    `strategy` are those of strategic merge patch: `merge_key` "" with strategy "merge" merges a list of scalars;
    several strategies are separated by commas ("merge,retainKeys"). `go` is the name of a named slice type in decoding
    errors.
    """

    __slots__ = ("go", "item", "keys", "kind", "merge_key", "strategy")

    def __init__(
        self,
        item: Type,
        kind: ListType = "atomic",
        keys: tuple[str, ...] = (),
        merge_key: str | None = None,
        strategy: str = "",
        go: str = "",
    ) -> None:
        self.item, self.kind, self.keys, self.merge_key, self.go = item, kind, keys, merge_key, go
        self.strategy = strategy or ("merge" if merge_key is not None else "")

    def __repr__(self) -> str:
        return f"ListOf({self.item!r})"


class MapOf:
    """A map with string keys.

    Server-side apply owns `atomic` maps as a whole, others by their values; OpenAPI marks the `granular` ones. `key` is
    the Go type of the keys, `go` the name of a named map type ("v1.ResourceList"), both for decoding errors.
    """

    __slots__ = ("atomic", "go", "granular", "key", "value")

    def __init__(
        self, value: Type, atomic: bool = False, key: str = "string", go: str = "", granular: bool = False
    ) -> None:
        self.value, self.atomic, self.key, self.go, self.granular = value, atomic, key, go, granular

    def __repr__(self) -> str:
        return f"MapOf({self.value!r})"


class _Now:
    def __repr__(self) -> str:
        return "NOW"


#: For `fills`: the time of the request.
NOW: Final = _Now()


class When(NamedTuple):
    """A conditional `fills`: `then` is filled in if another field of the same object has a value (None: any)."""

    field: str
    value: Any
    then: Any


class Field:
    """One field of a struct.

    `name` JSON name · `number` protobuf field number · `type` · `omit` written only when not empty (Go `omitempty`) ·
    `pointer` a Go pointer (zero values survive, null is absent) · `required` in OpenAPI · `inline` an embedded struct
    with its fields on this level · `default` value of an unset field, shown in OpenAPI · `fills` the same, not shown in
    upstream's OpenAPI (a value, NOW, or a `When`) · `strategy` strategic-merge strategy of a struct or map field
    ("retainKeys", "replace") · `atomic` owned as a whole · `limits` of its value · `gate` the feature gates of the
    field · `ungated` gates that do not apply inside the field, although its type names them · `doc` the text of
    `kubectl explain`, in our own words: one or two sentences, at most 300 characters; an embedded struct has none.

    `omit` describes the encoding, not Go's tag: a struct, time, quantity or raw value held by value is never empty for
    Go and has `omit=False` even if its tag is omitempty.

    `keep_empty`: decoding keeps an empty list or map, because validation distinguishes it from an absent one or shows
    it. Storing the object removes it.
    """

    __slots__ = (
        "atomic",
        "default",
        "doc",
        "fills",
        "gate",
        "inline",
        "keep_empty",
        "limits",
        "name",
        "number",
        "omit",
        "pointer",
        "required",
        "strategy",
        "type",
        "ungated",
    )

    def __init__(
        self,
        name: str,
        number: int,
        type: Type,
        *,
        omit: bool,
        pointer: bool,
        required: bool,
        inline: bool,
        default: Any,
        fills: Any,
        strategy: str,
        atomic: bool,
        limits: Limits | None,
        gate: Gated | None,
        ungated: tuple[str, ...],
        doc: str,
        keep_empty: bool,
    ) -> None:
        self.name, self.number, self.type, self.omit, self.pointer, self.required = (
            name,
            number,
            type,
            omit,
            pointer,
            required,
        )
        self.inline, self.default, self.fills, self.strategy, self.atomic = inline, default, fills, strategy, atomic
        self.limits, self.gate, self.ungated, self.doc, self.keep_empty = limits, gate, ungated, doc, keep_empty

    def replaced(self, **changed: Any) -> Field:
        """Return a copy of the field with the named attributes replaced."""
        made = object.__new__(Field)
        for slot in Field.__slots__:
            setattr(made, slot, changed.get(slot, getattr(self, slot)))
        return made

    def __repr__(self) -> str:
        return f"Field({self.name!r}, {self.number})"


def field(
    name: str,
    number: int,
    type: Type,
    *,
    omit: bool = True,
    pointer: bool = False,
    required: bool = False,
    inline: bool = False,
    default: Any = None,
    fills: Any = None,
    strategy: str = "",
    atomic: bool = False,
    limits: Limits | None = None,
    gate: str | Gated = "",
    ungated: tuple[str, ...] = (),
    doc: str = "",
    keep_empty: bool = False,
) -> Field:
    """Build a field of a struct; an optional field that is omitted when empty needs no keyword. See `Field`.

    A `gate` given as text is `gated(text)`.
    """
    return Field(
        name, number, type, omit=omit, pointer=pointer, required=required, inline=inline, default=default, fills=fills,
        strategy=strategy, atomic=atomic, limits=limits, ungated=ungated, doc=doc, keep_empty=keep_empty,
        gate=gate if isinstance(gate, Gated) else gated(gate) if gate else None,
    )  # fmt: skip


class _OpenFields(dict[str, Field]):
    """The fields of an open struct. Undeclared fields exist when they are read by name."""

    def __init__(self, declared: dict[str, Field], others: Type) -> None:
        super().__init__(declared)
        self._others = others

    def __missing__(self, name: str) -> Field:
        return field(name, 0, self._others, pointer=True)

    def __contains__(self, name: object) -> bool:
        return True

    def get(self, name: str, default: Any = None) -> Any:
        return self[name]


class Struct:
    """A struct type: `name` is its OpenAPI definition name (io.k8s.api.core.v1.Pod), `go` its name in decoding errors.

    `fields` is by JSON name in Go's declaration order. `declared` is the same before embedded structs are flattened,
    the form of protobuf. Types pass a function that returns the fields. It runs on first use, so that importing a
    schema stays cheap and types may refer to each other. `gvk` marks a top-level kind. `atomic` structs are owned as a
    whole. `granular` marks the variant of an atomic struct for a field whose parts are owned one by one. `others` is
    the type of undeclared fields in an open struct. `decoder` decodes kinds without fixed fields (custom resources) for
    `codec.decode`: (value, body) → Decoded. `union` is the OpenAPI union: the discriminator field ("" for none) and the
    members, of which one is set. `rules` are the checks of a value in upstream's order: fields, and markers of rules
    across fields.
    """

    def __init__(
        self,
        name: str,
        build: Callable[[], tuple[Field, ...]] | tuple[Field, ...],
        *,
        gvk: tuple[str, str, str] | None = None,
        atomic: bool = False,
        doc: str = "",
        protobuf: str = "",
        granular: bool = False,
        others: Type | None = None,
        decoder: Callable[[Any, Any], Any] | None = None,
        union: tuple[str, tuple[str, ...]] | None = None,
        rules: tuple[Step, ...] = (),
    ) -> None:
        self.others, self.decoder, self.union, self.rules = others, decoder, union, rules
        self.name, self._build, self.gvk, self.atomic, self.doc, self.granular = name, build, gvk, atomic, doc, granular
        self.go = name.rsplit(".", 2)[-2] + "." + name.rsplit(".", 1)[-1]
        self.protobuf = protobuf or name.replace("io.k8s.", "k8s.io.", 1)
        #: Code compiled from the schema (decoder, encoder, field-set walker …), by name.
        self.cache: dict[str, Any] = {}

    def as_granular(self) -> Struct:
        """Return the same type for a field that is marked granular."""
        return Struct(
            self.name, lambda: self.declared, doc=self.doc, protobuf=self.protobuf, granular=True, union=self.union,
            rules=self.rules,
        )  # fmt: skip

    @cached_property
    def declared(self) -> tuple[Field, ...]:
        return self._build() if callable(self._build) else self._build

    @cached_property
    def fields(self) -> dict[str, Field]:
        declared = dict(self._flatten(self.declared))
        return declared if self.others is None else _OpenFields(declared, self.others)

    @staticmethod
    def _flatten(fields: tuple[Field, ...]) -> Iterator[tuple[str, Field]]:
        for item in fields:
            if item.inline and isinstance(item.type, Struct):
                parts = (item.limits.parts if item.limits is not None else None) or {}
                for name, part in item.type.fields.items():
                    yield name, part.replaced(limits=parts[name]) if name in parts else part
            else:
                yield item.name, item

    @property
    def kind(self) -> str:
        """The last part of the name: Pod, Container."""
        return self.name.rsplit(".", 1)[-1]

    def __repr__(self) -> str:
        return f"Struct({self.name})"


Type = Scalar | Struct | ListOf | MapOf


def go_name(type: Type) -> str:
    """Return a type's name in Go's decoding errors: `[]v1.DeviceRequest`, `map[string]string`, `v1.ResourceList`."""
    if isinstance(type, ListOf):
        return type.go or "[]" + go_name(type.item)
    if isinstance(type, MapOf):
        return type.go or f"map[{type.key}]{go_name(type.value)}"
    return type.go
