"""Parsed request bodies: JSON as Go reads it, or YAML."""

from __future__ import annotations

from typing import Any

import orjson

from apiserver.api.errors.decode_error import DecodeError
from apiserver.api.values.depth import MAX_DEPTH, TOO_DEEP, is_too_deep
from apiserver.api.values.go_json import parse_with_spans, syntax_error, unmarshal_error

__all__ = ["Body", "DecodeError", "find_repeated_fields", "interpret", "loads", "read_type_meta", "strip_empty_group"]


class Body:
    """A parsed body: `value` and the JSON `text` that it was parsed from (b"" for YAML).

    `problems` are the strict errors of a YAML reader. `encoded` is the value encoded again, compact and without
    repeated keys; b"" for an unusual body.
    """

    __slots__ = ("encoded", "problems", "text", "value")

    def __init__(self, value: Any, text: bytes, problems: list[str], encoded: bytes = b"") -> None:
        self.value, self.text, self.problems, self.encoded = value, text, problems, encoded


def loads(body: bytes, content_type: str = "application/json") -> Body:
    """Parse a body. Every content type except YAML is read as JSON. Raise DecodeError with the parser's text."""
    if content_type.partition(";")[0].strip() in ("application/yaml", "application/apply-patch+yaml"):
        from apiserver.api.codec.yaml_bodies import YamlError, load

        try:
            value, problems = load(body)
        except YamlError as error:
            raise DecodeError(str(error)) from None
        if is_too_deep(value):
            raise DecodeError(TOO_DEEP)
        return Body(value, b"", problems)
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return _loads_carefully(body)
    # Counting brackets costs next to nothing for ordinary bodies.
    if len(body) > 2 * MAX_DEPTH and body.count(b"{") + body.count(b"[") > MAX_DEPTH and is_too_deep(value):
        raise DecodeError(TOO_DEEP)
    return Body(value, body, [], encoded=orjson.dumps(value))


def _loads_carefully(body: bytes) -> Body:
    """Parse a body that is not JSON, or that only Go reads as JSON. Raise DecodeError."""
    from apiserver.api.codec.strictness import plain_value

    if problem := syntax_error(body):
        raise DecodeError(problem)
    return Body(plain_value(body), body, [])


def find_repeated_fields(body: Body) -> list[str]:
    """Return the strict errors for repeated keys in a body.

    A body encoded again without its repeated keys has fewer `":`.
    """
    text, encoded = body.text, body.encoded
    if text == encoded:
        return []
    if encoded and text.count(b'":') == encoded.count(b'":') and text.find(b'" :') < 0 and text.find(b"u0022") < 0:
        return []  # as many keys, and no blanks or escapes that would hide one
    from apiserver.api.codec.strictness import find_repeated

    return [f'duplicate field "{path}"' for path in find_repeated(parse_with_spans(text))]


def interpret(body: Body) -> tuple[str, str]:
    """Return the apiVersion and kind of a body, "" for a missing one. Raise DecodeError for other types."""
    return ("", "") if body.value is None else read_type_meta(body.value)


def read_type_meta(value: Any) -> tuple[str, str]:
    """Return the apiVersion and kind of a JSON value, "" for a missing one. Raise DecodeError for other types."""
    if not isinstance(value, dict):
        shape = (
            'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
        )
        raise DecodeError(f"couldn't get version/kind; json parse error: {unmarshal_error(value, shape)}")
    found = []
    for name in ("apiVersion", "kind"):
        item = value.get(name)
        if item is not None and type(item) is not str:
            wrong = unmarshal_error(item, "string", f".{name}")
            raise DecodeError(f"couldn't get version/kind; json parse error: {wrong}")
        found.append(item or "")
    return strip_empty_group(found[0]), found[1]


def strip_empty_group(api_version: str) -> str:
    """Return an apiVersion without the slash after an empty group: "v1" for "/v1" (schema.ParseGroupVersion)."""
    return api_version[1:] if api_version.startswith("/") and "/" not in api_version[1:] else api_version
