"""The function jsonpatch.escapeKey. Facts: apiserver, pkg/cel/library/jsonpatch.go."""

from __future__ import annotations

from apiserver.cel.language.declarations import Function, function, overload
from apiserver.cel.language.types import STRING

__all__ = ["library"]


def _escape_key(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def library() -> list[Function]:
    """Return the declaration of jsonpatch.escapeKey, which escapes keys for the paths of a JSON patch."""
    escape = overload("string_jsonpatch_escapeKey_string", (STRING,), STRING, _escape_key)
    return [function("jsonpatch.escapeKey", escape)]
