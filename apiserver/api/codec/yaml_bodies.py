"""YAML bodies, read as upstream reads them: YAML 1.1 with the implicit types of go-yaml, then JSON.

Differences to PyYAML's own loader that clients can see: `y` and `n` are booleans, `1:30` and dates are strings, `0777`
is octal and `0x1f` hexadecimal, a whole float becomes an integer, keys become strings. Only the first document is read.
"""

from __future__ import annotations

import math
import re
from calendar import monthrange
from typing import Any, Final, NamedTuple

from apiserver.api.values.depth import MAX_DEPTH, TOO_DEEP, is_too_deep

__all__ = ["YamlError", "is_text", "load"]

_TRUE: Final = frozenset(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"))
_FALSE: Final = frozenset(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"))
_NULL: Final = frozenset(("", "~", "null", "Null", "NULL"))
_INT: Final = re.compile(r"[-+]?(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|0|[1-9][0-9]*)\Z")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
#: First characters of texts that may be of another type.
_SUSPICIOUS: Final = frozenset("yYnNtTfFoO~+-.0123456789")
_SIXTIES: Final = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?\Z")
_CLOCK: Final = r"(\d\d?):(\d\d?):(\d\d?)(?:[.,]\d+)?"
_TIME: Final = re.compile(
    rf"(\d{{4}})-(\d\d?)-(\d\d?)(?:[Tt]{_CLOCK}(?:Z|[+-](?:[01]\d|2[0-4]):(?:[0-5]\d|60))| {_CLOCK})?\Z", re.ASCII
)
#: The longest text of a 64-bit integer, including sign and prefix.
_MAX_INTEGER: Final = 70
_PREFIX: Final = "tag:yaml.org,2002:"


class YamlError(ValueError):
    """A YAML error; the text is go-yaml's."""


#: The permitted share of values from aliases: nearly all of a small document, a tenth of a large one, interpolated in
#: between (go-yaml's allowedAliasRatio).
_FEW_VALUES, _MANY_VALUES = 400_000, 4_000_000
_MOST_ALIASED, _LEAST_ALIASED = 0.99, 0.10
#: Below these numbers the share of aliases is not limited.
_JUDGED_VALUES, _JUDGED_ALIASED = 1000, 100


def load(body: bytes) -> tuple[Any, list[str]]:
    """Return the value of the first document and the strict errors for repeated keys, as upstream words them.

    Raise YamlError. The text is read event by event: depth and aliases cost no more than go-yaml allows.
    """
    import yaml

    base = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        loader = base(body.decode("utf-8"))
        try:
            reader = _Reader(loader)
            return reader.document(), reader.problems()
        finally:
            loader.dispose()
    except UnicodeDecodeError:
        raise YamlError("yaml: invalid leading UTF-8 octet") from None
    except yaml.YAMLError as error:
        raise YamlError(_error_text(error)) from None


def _error_text(error: Any) -> str:
    problem = getattr(error, "problem", None) or "unknown problem parsing YAML content"
    if problem == "exceeded maximum nesting depth":  # libyaml's own limit of 1000 brackets
        problem = TOO_DEEP
    mark, context = getattr(error, "problem_mark", None), getattr(error, "context_mark", None)
    line = 0
    if mark is not None and mark.line:
        line = mark.line + (1 if type(error).__name__ == "ScannerError" else 0)
    elif context is not None:
        line = context.line
    return f"yaml: line {line}: {problem}" if line else f"yaml: {problem}"


class _Anchored(NamedTuple):
    """An anchored value, which aliases may repeat.

    It counts its values and those of them that come from aliases. Its repeated keys are reported again for every alias.
    """

    value: Any
    values: int
    repeated: tuple[str, ...]


class _Collection:
    """An open list or map."""

    __slots__ = ("anchor", "is_map", "items", "line", "named", "repeated_before", "values_before")

    def __init__(self, anchor: str | None, line: int, values: int, repeated: int, *, is_map: bool) -> None:
        self.anchor, self.line, self.values_before, self.repeated_before = anchor, line, values, repeated
        #: A list's items; a map's alternating keys and values.
        self.items: list[Any] = []
        self.is_map = is_map
        #: Names of the map's members read so far.
        self.named: set[str] = set()


class _Reader:
    """Build values from parser events, with an explicit stack. Every alias yields a copy: values are never shared."""

    def __init__(self, loader: Any) -> None:
        self._next_event = loader.get_event
        self._repeated: list[str] = []
        self._anchors: dict[str, _Anchored | None] = {}
        self._open: list[_Collection] = []
        #: Values read so far, and the number of them from aliases.
        self._values = self._aliased = 0

    def problems(self) -> list[str]:
        """Return the strict errors as one text."""
        if not self._repeated:
            return []
        return ["yaml: unmarshal errors:\n" + "\n".join("  " + line for line in self._repeated)]

    def document(self) -> Any:
        """Return the value of the first document, or None if there is none."""
        while True:
            event = self._next_event()
            kind = type(event).__name__
            if kind == "ScalarEvent":
                value, line = self._scalar(event), event.start_mark.line + 1
            elif kind in ("SequenceEndEvent", "MappingEndEvent"):
                line = self._open[-1].line
                value = self._end_collection()
            elif kind in ("SequenceStartEvent", "MappingStartEvent"):
                self._begin(event, is_map=kind == "MappingStartEvent")
                continue
            elif kind == "AliasEvent":
                value, line = self._alias(event.anchor), event.start_mark.line + 1
            elif kind == "StreamEndEvent":
                return None
            else:
                continue
            if not self._open:
                return _json_number(value)
            self._add(value, line)

    def _begin(self, event: Any, *, is_map: bool) -> None:
        if len(self._open) == MAX_DEPTH:
            raise YamlError(f"yaml: line {event.start_mark.line + 1}: {TOO_DEEP}")
        self._values += 1
        line, repeated = event.start_mark.line + 1, len(self._repeated)
        collection = _Collection(event.anchor, line, self._values, repeated, is_map=is_map)
        if event.anchor:
            self._anchors[event.anchor] = None
        self._open.append(collection)

    def _scalar(self, event: Any) -> Any:
        self._values += 1
        value = _scalar(event)
        if event.anchor:
            self._anchors[event.anchor] = _Anchored(value, 1, ())
        return value

    def _alias(self, name: str) -> Any:
        if name not in self._anchors:
            raise YamlError(f"yaml: unknown anchor '{name}' referenced")
        anchored = self._anchors[name]
        if anchored is None:
            raise YamlError(f"yaml: anchor '{name}' value contains itself")
        self._count(anchored.values)
        self._repeated += anchored.repeated
        if is_too_deep(anchored.value):  # on its own it is copied recursively
            raise YamlError(f"yaml: {TOO_DEEP}")
        return _copy(anchored.value)

    def _count(self, aliased: int) -> None:
        """Count an alias and the values that it repeats. Raise YamlError for excessive aliasing."""
        self._values += 1 + aliased
        self._aliased += aliased
        if self._aliased > _JUDGED_ALIASED and self._values > _JUDGED_VALUES:
            part = (self._values - _FEW_VALUES) / (_MANY_VALUES - _FEW_VALUES)
            allowed = _MOST_ALIASED - (_MOST_ALIASED - _LEAST_ALIASED) * min(max(part, 0.0), 1.0)
            if self._aliased > allowed * self._values:
                raise YamlError("yaml: document contains excessive aliasing")

    def _add(self, value: Any, line: int) -> None:
        collection = self._open[-1]
        if not collection.is_map:
            collection.items.append(_json_number(value))
            return
        if len(collection.items) % 2:
            value = _json_number(value)
            self._note_name(collection, collection.items[-1], line)
        elif isinstance(value, dict | list):
            raise YamlError("yaml: invalid map key")
        collection.items.append(value)

    def _note_name(self, collection: _Collection, key: Any, line: int) -> None:
        """Record the key of a map member and the line of its value. Report repeated keys in the order of their ends."""
        if key is _MERGE:
            return
        name = _key(key)
        if name in collection.named:
            shown = f'"{name}"' if isinstance(key, str) else name
            self._repeated.append(f"line {line}: key {shown} already set in map")
        collection.named.add(name)

    def _end_collection(self) -> Any:
        collection = self._open.pop()
        value = self._mapping(collection) if collection.is_map else collection.items
        if collection.anchor:
            repeated = tuple(self._repeated[collection.repeated_before :])
            self._anchors[collection.anchor] = _Anchored(value, self._values - collection.values_before + 1, repeated)
        return value

    def _mapping(self, collection: _Collection) -> dict[str, Any]:
        out: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        keys, values = collection.items[::2], collection.items[1::2]
        for key, value in zip(keys, values, strict=True):
            if key is _MERGE:
                for source in value if isinstance(value, list) else [value]:
                    if not isinstance(source, dict):
                        raise YamlError("yaml: map merge requires map or sequence of maps as the value")
                    merged = {**source, **merged}
                continue
            out[_key(key)] = value
        # Upstream converts YAML to JSON with sorted keys.
        return dict(sorted({**merged, **out}.items()))


def _copy(value: Any) -> Any:
    """Return a copy that shares no list or map."""
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value


class _Merge:
    """The key `<<`, which merges the members of other maps."""


_MERGE: Final = _Merge()


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


def _scalar(event: Any) -> Any:
    """Return the value of a scalar: of its tag's type, else of the implicit type of its plain text."""
    text: str = event.value
    tag: str = event.tag or ""
    if tag == _PREFIX + "binary":
        return _binary(text)
    if not tag.startswith(_PREFIX):
        # A quoted scalar and one with an unknown tag are texts.
        plain = not event.style and not tag
        return (_MERGE if text == "<<" else _resolve(text)) if plain else text
    name = tag.removeprefix(_PREFIX)
    if name not in _TYPES or name == "str":
        return text
    value = _resolve(text)
    if name == "float" and type(value) is int:
        return float(value)
    if type(value) is not _TYPES[name]:
        found = next(known for known, type_ in _TYPES.items() if type_ is type(value))
        raise YamlError(f"yaml: cannot decode !!{found} `{text}` as a !!{name}")
    return value


_TYPES: Final = {"null": type(None), "bool": bool, "int": int, "float": float, "str": str}


def _binary(text: str) -> str:
    import base64
    import binascii

    try:
        return base64.b64decode("".join(text.split()), validate=True).decode("utf-8", "replace")
    except binascii.Error:
        raise YamlError("yaml: !!binary value contains invalid base64 data") from None


def _resolve(text: str) -> Any:
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
    if len(plain) <= _MAX_INTEGER and _INT.match(plain):
        number = _integer(plain)
        if -(2**63) <= number < 2**64:
            return number
    if _FLOAT.match(plain) and math.isfinite(fraction := float(plain)):
        return fraction
    return text


def is_text(text: str) -> bool:
    """Return whether YAML parsers read this text, unquoted, as a string.

    go-yaml's encoder quotes all others, including times and numbers of base 60.
    """
    if not text or text[0] in _SUSPICIOUS:
        return type(_resolve(text)) is str and _SIXTIES.match(text) is None and not _is_time(text)
    return True


def _is_time(text: str) -> bool:
    found = _TIME.match(text)
    if found is None:
        return False
    year, month, day, *clock = [int(part) for part in found.groups() if part is not None]
    hour, minute, second = clock or (0, 0, 0)
    return 0 < month < 13 and 0 < day <= monthrange(year, month)[1] and hour < 24 and minute < 60 and second < 60


def _integer(plain: str) -> int:
    digits = plain.lstrip("+-")
    base = 10
    if len(digits) > 1 and digits[0] == "0":
        base = {"x": 16, "b": 2, "o": 8}.get(digits[1].lower(), 8)
        digits = digits[1:] if digits[1].isdigit() else digits[2:]
    number = int(digits, base)
    return -number if plain[0] == "-" else number


def _json_number(value: Any) -> Any:
    """Return a float as it reads after upstream's conversion to JSON."""
    if isinstance(value, float):
        if not math.isfinite(value):
            raise YamlError(
                f"json: unsupported value: {'NaN' if math.isnan(value) else '+Inf' if value > 0 else '-Inf'}"
            )
        if value.is_integer() and abs(value) < 1e21:
            return int(value)
    return value
