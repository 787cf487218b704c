"""The slow path of decoding: report the errors of a value in Go's words, and correct what Go accepts silently.

`examine` walks a value along a schema as Go's decoder walks the text. It collects unknown and repeated fields with
their paths, remembers the first type error, and stops at the first error of a type's own parser (a quantity, a time).
It returns a value that the fast readers of `apiserver.api.codec.codec` accept: unknown fields dropped, repeated ones
merged, numbers as numbers.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import orjson

from apiserver.api.errors.decode_error import DecodeError
from apiserver.api.errors.field_errors import go_quote
from apiserver.api.schema.language import Field, ListOf, MapOf, OwnForm, Scalar, Struct, Type, go_name
from apiserver.api.schema.scalars import canonical_quantity
from apiserver.api.values.go_json import Literal, Pairs, RawObject, base64_error, go_kind, parse_with_spans
from apiserver.api.values.numbers import int64
from apiserver.api.values.quantity import Quantity
from apiserver.api.values.times import micro_time, time

__all__ = ["examine", "find_repeated", "plain_value"]

#: Go reports at most this many strict errors.
_MOST_PROBLEMS = 100
_RANGES = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
_DROPPED = object()


def plain_value(body: bytes) -> Any:
    """Parse a body that Go reads and a stricter parser rejects (invalid UTF-8, lone surrogates)."""
    return _plain(parse_with_spans(body))


def examine(schema: Struct, value: Any, text: bytes) -> tuple[Any, list[str], list[str], list[str]]:
    """Return the value without oddities, the strict errors in order, the unknown paths and the repeated paths.

    `text` is the JSON source of the value, b"" if there is none. Raise DecodeError.
    """
    walk = _Walk()
    clean = walk.read(schema, parse_with_spans(text) if text else value, "", ())
    if walk.error:
        raise DecodeError(walk.error)
    return clean, walk.problems, walk.unknown, walk.duplicates


def find_repeated(node: Any, path: str = "") -> list[str]:
    """Return the paths of repeated keys in a parsed text, in order."""
    found: list[str] = []
    if isinstance(node, Pairs):
        seen = set()
        for key, item in node:
            below = f"{path}.{key}" if path else key
            if key in seen:
                found.append(below)
            seen.add(key)
            found += find_repeated(item, below)
    elif isinstance(node, list):
        for index, item in enumerate(node):
            found += find_repeated(item, f"{path}[{index}]")
    return found


def _plain(node: Any) -> Any:
    """Convert a node without a schema."""
    if isinstance(node, Pairs):
        return {key: _plain(item) for key, item in node}
    if isinstance(node, list):
        return [_plain(item) for item in node]
    return _number(node) if isinstance(node, Literal) else node


def _number(literal: Literal) -> int | float:
    try:
        number = int(literal)
    except ValueError:
        return float(literal)
    return number if -(2**63) <= number < 2**64 else float(literal)


def _source_text(node: Any) -> str:
    """Return a number as it was written, or as Go would write it."""
    if isinstance(node, Literal):
        return str(node)
    return repr(node) if isinstance(node, float) else str(node)


def _kind(node: Any) -> str:
    if isinstance(node, Literal):
        return "number"
    return "object" if isinstance(node, Pairs) else go_kind(node)


class _Walk:
    """One examination of a value.

    `path` is the field path of strict errors. `stack` (struct name, field names) is the path of type errors; it begins
    at `struct`.
    """

    def __init__(self, struct: str = "") -> None:
        self.error = ""
        self.problems: list[str] = []
        self.unknown: list[str] = []
        self.duplicates: list[str] = []
        self._struct = struct

    def record(self, what: str, paths: list[str], path: str) -> None:
        text = f"{what} field {go_quote(path)}"
        if len(self.problems) < _MOST_PROBLEMS and text not in self.problems:
            self.problems.append(text)
            paths.append(path)

    def mismatch(self, got: str, wanted: str, stack: tuple[str, ...]) -> str:
        place = f"Go struct field {self._struct}.{'.'.join(stack)}" if stack else "Go value"
        return f"json: cannot unmarshal {got} into {place} of type {wanted}"

    def save(self, text: str) -> Any:
        """Remember the first error and continue with no value, as Go does."""
        self.error = self.error or text

    def read(self, type: Type, node: Any, path: str, stack: tuple[str, ...]) -> Any:
        if node is None:
            return None
        if isinstance(type, Struct):
            return self.struct(type, node, path, stack)
        if isinstance(type, ListOf):
            if isinstance(node, Pairs) or not isinstance(node, list):
                return self.save(self.mismatch(_kind(node), go_name(type), stack))
            return [self.read(type.item, item, f"{path}[{index}]", stack) for index, item in enumerate(node)]
        if isinstance(type, MapOf):
            return self.map(type, node, path, stack)
        return self.scalar(type, node, stack)

    def items(self, node: Any) -> list[tuple[str, Any]] | None:
        if isinstance(node, Pairs):
            return node
        return list(node.items()) if isinstance(node, dict) else None

    def struct(self, type: Struct, node: Any, path: str, stack: tuple[str, ...]) -> Any:
        items = self.items(node)
        if items is None:
            return self.save(self.mismatch(_kind(node), type.go, stack))
        out: dict[str, Any] = {}
        outer, embedded = self._struct, _embedded(type)
        for name, item in items:
            field = type.fields.get(name)
            inner = f"{path}.{name}" if path else name
            if field is None:
                self.record("unknown", self.unknown, inner)
                continue
            self._struct = type.kind
            made = self.read(field.type, item, inner, (*stack, *embedded[name], name))
            if name in out:
                self.record("duplicate", self.duplicates, inner)
                made = _merge_field(field, out[name], made)
            out[name] = made
            self._struct = outer
        return out

    def map(self, type: MapOf, node: Any, path: str, stack: tuple[str, ...]) -> Any:
        items = self.items(node)
        if items is None:
            return self.save(self.mismatch(_kind(node), go_name(type), stack))
        out: dict[str, Any] = {}
        for name, item in items:
            inner = f"{path}.{name}" if path else name
            if name in out:
                self.record("duplicate", self.duplicates, inner)
            out[name] = self.read(type.value, item, inner, stack)
        return out

    def scalar(self, type: Scalar, node: Any, stack: tuple[str, ...]) -> Any:
        name = type.name
        if name in ("raw", "fieldsV1", "any"):
            return _raw(node)
        if type.own is not None:
            return self.own(type.own, node, stack)
        if name == "string":
            return node if _kind(node) == "string" else self.save(self.mismatch(_kind(node), type.go, stack))
        if name == "bool":
            return node if _kind(node) == "bool" else self.save(self.mismatch(_kind(node), type.go, stack))
        if name in ("int32", "int64", "float64"):
            return self.number(type, node, stack)
        if name == "bytes":
            return self.bytes(type, node, stack)
        return self.parsed(type, node, stack)

    def own(self, form: OwnForm, node: Any, stack: tuple[str, ...]) -> Any:
        """Read a value of a type with its own unmarshaller.

        It ignores unknown fields even in a strict request. Its first error ends the decoding.
        """
        kind = _kind(node)
        if kind not in form.forms:
            if form.error:
                raise DecodeError(form.error)
            return None
        inside = _Walk(self._struct)
        made = inside.read(form.forms[kind], node, "", stack)
        if inside.error:
            raise DecodeError(inside.error)
        return None if made == [] else made

    def number(self, type: Scalar, node: Any, stack: tuple[str, ...]) -> Any:
        kind = _kind(node)
        if kind != "number":
            return self.save(self.mismatch(kind, type.go, stack))
        text = _source_text(node)
        if type.name == "float64":
            return float(text)
        low, high = _RANGES[type.name]
        try:
            number = int(text)
        except ValueError:
            number = high + 1
        return number if low <= number <= high else self.save(self.mismatch(f"number {text}", type.go, stack))

    def bytes(self, type: Scalar, node: Any, stack: tuple[str, ...]) -> Any:
        if isinstance(node, list) and not isinstance(node, Pairs):
            return b64encode(b"".join(self.element(item, stack) for item in node)).decode()
        if _kind(node) != "string":
            return self.save(self.mismatch(_kind(node), type.go, stack))
        wrong = base64_error(node)
        return self.save(wrong) if wrong else "".join(node.split())

    def element(self, node: Any, stack: tuple[str, ...]) -> Any:
        """Read an element of bytes that are written as a list of numbers."""
        kind = _kind(node)
        if node is None:
            return b"\0"
        text = _source_text(node) if kind == "number" else ""
        if text.isdecimal() and int(text) < 256:
            return int(text).to_bytes()
        self.save(self.mismatch(f"number {text}" if text else kind, "uint8", stack))
        return b""

    def parsed(self, type: Scalar, node: Any, stack: tuple[str, ...]) -> Any:
        """Parse a value of a type with its own parser. Its error ends the decoding immediately."""
        kind = _kind(node)
        try:
            if type.name == "quantity":
                return self.quantity(node)
            if type.name == "intOrString":
                if kind == "string":
                    return node
                number = _source_text(node)
                value = int64(number) if kind == "number" else None
                if value is None or not -(2**31) <= value < 2**31:
                    raise DecodeError(self.mismatch(f"number {number}" if kind == "number" else kind, "int32", stack))
                return value
            if kind != "string":
                raise DecodeError(self.mismatch(kind, "string", stack))
            return time(node) if type.name == "time" else micro_time(node)
        except DecodeError:
            raise
        except ValueError as error:
            raise DecodeError(str(error)) from None

    def quantity(self, node: Any) -> str:
        if _kind(node) == "string":
            return canonical_quantity(node)
        if _kind(node) == "number":
            return str(Quantity.from_json(_source_text(node)))
        return str(Quantity.from_json(orjson.dumps(_plain(node)).decode()))


def _raw(node: Any) -> Any:
    value = _plain(node)
    if not isinstance(node, Pairs):
        return value
    made = RawObject(value)
    written = node.written
    if written != made.written and _as_readable(written):
        made.text = written
    return made


def _as_readable(text: bytes) -> bool:
    """Return whether the fast parser, which reads stored objects, accepts a text that the slow parser accepted."""
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True


def _merge_field(field: Field, old: Any, new: Any) -> Any:
    """Merge a repeated field as Go does: structs and maps are extended, other values replaced."""
    if isinstance(field.type, Struct | MapOf) and isinstance(old, dict):
        if new is None:
            return None if field.pointer or isinstance(field.type, MapOf) else old
        if isinstance(new, dict):
            inner = field.type.fields if isinstance(field.type, Struct) else {}
            return {
                **old,
                **{
                    name: _merge_field(inner[name], old[name], item) if name in inner and name in old else item
                    for name, item in new.items()
                },
            }
    if new is None and isinstance(field.type, Scalar) and not field.pointer:
        return old
    return new


def _embedded(type: Struct) -> dict[str, tuple[str, ...]]:
    """Return the Go names of the enclosing embedded structs by field."""
    known: dict[str, tuple[str, ...]] | None = type.cache.get("embedded")
    if known is None:
        known = {}
        for field in type.declared:
            if field.inline and isinstance(field.type, Struct):
                known.update({name: (field.type.kind, *inner) for name, inner in _embedded(field.type).items()})
            else:
                known[field.name] = ()
        type.cache["embedded"] = known
    return known
