"""Resolve field paths in a schema: `.spec.replicas`, `.spec.labels['a.b']`.

Facts: apiextensions-apiserver, pkg/apiserver/schema/cel (ValidFieldPath).
"""

from __future__ import annotations

import re
from typing import Final

from apiserver.api.errors.field_errors import Path
from apiserver.api.objects import Json

__all__ = ["FieldPathError", "field_path"]


_TOKENS: Final = re.compile(r"'(?:[^'\\]|\\.)*'|[.\[\]]|[^.\[\]']+|'", re.DOTALL)
_ESCAPES: Final = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "'": "'", "\\": "\\",
}  # fmt: skip
_NO_FIELD: Final = "does not refer to a valid field"


class FieldPathError(ValueError):
    """The path leads to no field of the schema. The message is upstream's."""


def field_path(text: str, schema: Json, *, keys: bool = True) -> tuple[Path, Json]:
    """Return the path as errors show it, without a leading dot, and its schema. Raise FieldPathError.

    `keys`: parts in brackets are allowed.
    """
    tokens = _TOKENS.findall(text)
    path, at = Path(), 0

    def following() -> str:
        nonlocal at
        at += 1
        if at >= len(tokens):
            raise FieldPathError("unexpected end of JSON path")
        return str(tokens[at])

    while at < len(tokens):
        part = tokens[at]
        if part == "[":
            if not keys:
                raise FieldPathError("array notation is not allowed")
            quoted = following()
            if len(quoted) < 2 or quoted[0] != "'" or quoted[-1] != "'":
                raise FieldPathError(f"expected single quoted string but got {quoted}")
            path, schema = _below(path, schema, _unescaped(quoted[1:-1]))
            if (closing := following()) != "]":
                raise FieldPathError(f"expected ] but got {closing}")
        elif part == ".":
            path, schema = _below(path, schema, following())
        else:
            raise FieldPathError(f"expected [ or . but got: {part}")
        at += 1
    return path, schema


def _below(path: Path, schema: Json, name: str) -> tuple[Path, Json]:
    properties, others = schema.get("properties"), schema.get("additionalProperties")
    if properties:
        if name not in properties:
            raise FieldPathError(_NO_FIELD)
        return path / name, properties[name]
    if not others:
        raise FieldPathError(_NO_FIELD)
    return path.key(name), others if isinstance(others, dict) else {}


def _unescaped(text: str) -> str:
    def escape(match: re.Match[str]) -> str:
        found = _ESCAPES.get(match[1])
        if found is None:
            raise FieldPathError(f"invalid string literal: invalid escape char {match[0]}")
        return found

    return re.sub(r"\\(.)", escape, text)
