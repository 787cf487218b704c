"""Encode the OpenAPI 2 document in protobuf, as gnostic's openapiv2 package defines it. kubectl requests this form.

Only the fields that our documents contain are implemented. Field numbers are facts of that package's OpenAPIv2.proto.
Entries of paths and definitions are separate fields in the encoding, so a reader may drop some without decoding the
rest.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import yaml

from apiserver.api.objects import Json

__all__ = ["encode_document", "encode_entries", "entries", "field", "join_entries"]


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def field(number: int, value: bytes | str) -> bytes:
    """Encode a length-delimited field: a string, or a message."""
    encoded = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(encoded)) + encoded


def _flag(number: int, value: Any) -> bytes:
    return varint(number << 3) + b"\x01" if value else b""


def _text(number: int, value: str | None) -> bytes:
    return field(number, value) if value else b""


def _texts(number: int, values: list[str]) -> bytes:
    return b"".join(field(number, value) for value in values)


def _pair(name: str, value: bytes) -> bytes:
    return field(1, name) + field(2, value)


class _Blocks(yaml.SafeDumper):
    """Writes repeated objects in full, without YAML aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _any(value: Any) -> bytes:
    """Encode an Any by its YAML, in blocks as upstream's encoder writes lists and maps."""
    if isinstance(value, list | dict) and value:
        return field(2, yaml.dump(value, Dumper=_Blocks, sort_keys=False, allow_unicode=True, width=1 << 20))
    return field(2, json.dumps(value) + "\n")


def _extensions(number: int, value: Json) -> bytes:
    return b"".join(field(number, _pair(name, _any(value[name]))) for name in sorted(value) if name.startswith("x-"))


def encode_document(document: Json) -> bytes:
    """Encode a whole Document."""
    parameters = b"".join(
        field(1, _pair(name, _parameter(item))) for name, item in document.get("parameters", {}).items()
    )
    security = b"".join(
        field(12, b"".join(field(1, _pair(name, b"")) for name in item)) for item in document["security"]
    )
    schemes = b"".join(
        field(1, _pair(name, field(2, _api_key(item)))) for name, item in document["securityDefinitions"].items()
    )
    return (
        field(1, document["swagger"])
        + about(document["info"])
        + join_entries(encode_entries(document))
        + (field(10, parameters) if parameters else b"")
        + security
        + field(13, schemes)
    )


def encode_entries(document: Json) -> dict[str, dict[str, bytes]]:
    """Encode each path and each definition of a Document."""
    paths = {path: field(2, _pair(path, _path_item(item))) for path, item in document["paths"].items()}
    definitions = {name: field(1, _pair(name, _schema(item))) for name, item in document["definitions"].items()}
    return {"paths": paths, "definitions": definitions}


def join_entries(entries: Mapping[str, Mapping[str, bytes]]) -> bytes:
    """Encode the part of a Document with these paths and definitions."""
    return field(8, b"".join(entries["paths"].values())) + field(9, b"".join(entries["definitions"].values()))


def about(info: Json) -> bytes:
    """Encode the part of a Document that names it and its version."""
    return field(2, field(1, info["title"]) + field(2, info["version"]))


def _api_key(item: Json) -> bytes:
    return field(1, item["type"]) + field(2, item["name"]) + field(3, item["in"]) + _text(4, item.get("description"))


_METHODS: Final = {"get": 2, "put": 3, "post": 4, "delete": 5, "options": 6, "head": 7, "patch": 8}


def _path_item(item: Json) -> bytes:
    operations = b"".join(
        field(number, _operation(item[method])) for method, number in _METHODS.items() if method in item
    )
    return operations + b"".join(field(9, _parameter_or_reference(each)) for each in item.get("parameters", ()))


def _operation(item: Json) -> bytes:
    responses = b"".join(
        field(1, _pair(code, field(1, _response(response)))) for code, response in item["responses"].items()
    )
    return b"".join(
        (
            _texts(1, item.get("tags", [])),
            _text(2, item.get("summary")),
            _text(3, item.get("description")),
            _text(5, item.get("operationId")),
            _texts(6, item.get("produces", [])),
            _texts(7, item.get("consumes", [])),
            b"".join(field(8, _parameter_or_reference(each)) for each in item.get("parameters", ())),
            field(9, responses),
            _texts(10, item.get("schemes", [])),
            _flag(11, item.get("deprecated")),
            _extensions(13, item),
        )
    )


_PLACES: Final = {"header": 1, "formData": 2, "query": 3, "path": 4}


def _parameter_or_reference(item: Json) -> bytes:
    if "$ref" in item:
        return field(2, field(1, item["$ref"]) + _text(2, item.get("description")))
    return field(1, _parameter(item))


def _parameter(item: Json) -> bytes:
    if item["in"] == "body":
        return field(
            1,
            field(2, item["name"])
            + field(3, "body")
            + _flag(4, item.get("required"))
            + field(5, _schema(item["schema"])),
        )
    place = item["in"]
    simple = _flag(1, item.get("required")) + field(2, place) + _text(3, item.get("description"))
    simple += field(4, item["name"])
    # Query and form parameters have one more field (allowEmptyValue) before their type.
    more = place in ("query", "formData")
    simple += field(6 if more else 5, item["type"]) + _flag(20 if more else 19, item.get("uniqueItems"))
    return field(2, field(_PLACES[place], simple))


def _response(item: Json) -> bytes:
    schema = field(2, field(1, _schema(item["schema"]))) if "schema" in item else b""
    return field(1, item["description"]) + schema


def _schema(item: Json) -> bytes:
    out = [_text(1, item.get("$ref")), _text(2, item.get("format")), _text(3, item.get("title"))]
    out += [_text(4, item.get("description")), field(5, _any(item["default"])) if "default" in item else b""]
    out += [_text(13, item.get("pattern")), _texts(19, item.get("required", []))]
    out += [field(20, _any(value)) for value in item.get("enum", ())]
    more = item.get("additionalProperties")
    if isinstance(more, dict):
        out.append(field(21, field(1, _schema(more))))
    elif more is not None:
        out.append(field(21, varint(2 << 3) + (b"\x01" if more else b"\x00")))
    if types := item.get("type"):
        out.append(field(22, _texts(1, types if isinstance(types, list) else [types])))
    if "items" in item:
        out.append(field(23, field(1, _schema(item["items"]))))
    out += [field(24, _schema(each)) for each in item.get("allOf", ())]
    if "properties" in item:
        out.append(
            field(25, b"".join(field(1, _pair(name, _schema(value))) for name, value in item["properties"].items()))
        )
    return b"".join(out) + _flag(27, item.get("readOnly")) + _extensions(31, item)


def entries(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield number and content of each field of a message that has only length-delimited ones."""
    at = 0
    while at < len(message):
        key, at = _read_varint(message, at)
        size, at = _read_varint(message, at)
        yield key >> 3, message[at : at + size]
        at += size


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    number, shift = 0, 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
