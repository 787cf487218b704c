"""YAML bodies, read as upstream reads them: YAML 1.1 with the implicit types of go-yaml, then JSON.

Differences to PyYAML's own loader that clients can see: `y` and `n` are booleans, `1:30` and dates are strings, `0777`
is octal and
`0x1f` hexadecimal, a whole float becomes an integer, keys become strings. Only the first document is read.
"""

from __future__ import annotations

import math
import re
from typing import Any, Final

__all__ = ["YamlError", "load"]

_TRUE: Final = frozenset(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"))
_FALSE: Final = frozenset(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"))
_NULL: Final = frozenset(("", "~", "null", "Null", "NULL"))
_INT: Final = re.compile(r"[-+]?(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|0|[1-9][0-9]*)\Z")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_PREFIX: Final = "tag:yaml.org,2002:"


class YamlError(ValueError):
    """The text says why, in go-yaml's words."""


def load(body: bytes) -> tuple[Any, list[str]]:
    """The value of the first document, and what a strict reader would refuse (keys set twice), as upstream words it."""
    import yaml

    base = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        loader = base(body.decode("utf-8"))
        try:
            if not loader.check_node():
                return None, []
            node = loader.get_node()
        finally:
            loader.dispose()
    except UnicodeDecodeError:
        raise YamlError("yaml: invalid leading UTF-8 octet") from None
    except yaml.YAMLError as error:
        raise YamlError(_words(error)) from None
    reader = _Reader()
    value = reader.value(node)
    repeated = (
        ["yaml: unmarshal errors:\n" + "\n".join("  " + line for line in reader.repeated)] if reader.repeated else []
    )
    return value, repeated


def _words(error: Any) -> str:
    problem = getattr(error, "problem", None) or "unknown problem parsing YAML content"
    mark, context = getattr(error, "problem_mark", None), getattr(error, "context_mark", None)
    line = 0
    if mark is not None and mark.line:
        line = mark.line + (1 if type(error).__name__ == "ScannerError" else 0)
    elif context is not None:
        line = context.line
    return f"yaml: line {line}: {problem}" if line else f"yaml: {problem}"


class _Reader:
    """Turns nodes into values; an aliased node is read again, so that values are never shared."""

    def __init__(self) -> None:
        self.repeated: list[str] = []
        self._open: set[int] = set()

    def value(self, node: Any) -> Any:
        kind = type(node).__name__
        if kind == "ScalarNode":
            return _json_number(_scalar(node))
        if id(node) in self._open:
            raise YamlError("yaml: anchor contains itself")
        self._open.add(id(node))
        made: Any = [self.value(item) for item in node.value] if kind == "SequenceNode" else self._mapping(node)
        self._open.discard(id(node))
        return made

    def _mapping(self, node: Any) -> dict[str, Any]:
        out: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key_node, item in node.value:
            if type(key_node).__name__ != "ScalarNode":
                raise YamlError("yaml: invalid map key")
            if key_node.value == "<<" and not key_node.style:
                for source in item.value if type(item).__name__ == "SequenceNode" else [item]:
                    extra = self.value(source)
                    if not isinstance(extra, dict):
                        raise YamlError("yaml: map merge requires map or sequence of maps as the value")
                    merged = {**extra, **merged}
                continue
            raw = _scalar(key_node)
            name, value = _key(raw), self.value(item)
            if name in out:
                shown = f'"{name}"' if isinstance(raw, str) else name
                self.repeated.append(f"line {item.start_mark.line + 1}: key {shown} already set in map")
            out[name] = value
        return {**merged, **out} if merged else out


def _key(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return f"{value:g}"
    raise YamlError("unsupported map key of type: <nil>")


def _scalar(node: Any) -> Any:
    text: str = node.value
    tag: str = node.tag or ""
    if tag == _PREFIX + "binary":
        import base64

        return base64.b64decode(text).decode("utf-8", "replace")
    # The base loader gives every untagged scalar the string tag; only plain ones have a type to find out.
    return text if node.style else _resolved(text)


def _resolved(text: str) -> Any:
    if text in _NULL:
        return None
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    if text in (".nan", ".NaN", ".NAN", ".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF", "-.inf", "-.Inf", "-.INF"):
        return float(text.replace(".", "", 1).lower())
    if text[0] not in "+-.0123456789":
        return text
    plain = text.replace("_", "") if text[0] != "." else text
    if _INT.match(plain):
        number = _integer(plain)
        if -(2**63) <= number < 2**64:
            return number
    return float(plain) if _FLOAT.match(plain) else text


def _integer(plain: str) -> int:
    digits = plain.lstrip("+-")
    base = 10
    if len(digits) > 1 and digits[0] == "0":
        base = {"x": 16, "b": 2, "o": 8}.get(digits[1].lower(), 8)
        digits = digits[1:] if digits[1].isdigit() else digits[2:]
    number = int(digits, base)
    return -number if plain[0] == "-" else number


def _json_number(value: Any) -> Any:
    """A float as the JSON that upstream makes of it would be read again."""
    if isinstance(value, float):
        if not math.isfinite(value):
            raise YamlError(
                f"json: unsupported value: {'NaN' if math.isnan(value) else '+Inf' if value > 0 else '-Inf'}"
            )
        if value.is_integer() and abs(value) < 1e21:
            return int(value)
    return value
