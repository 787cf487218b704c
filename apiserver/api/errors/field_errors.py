"""Field errors, the results of validation, with the texts that clients match on.

Bodies, cause reasons and the aggregate's form are wire facts of k8s.io/apimachinery (util/validation/field).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from apiserver.api.errors.omitted_value import OMITTED

__all__ = [
    "OMITTED",
    "FieldError",
    "Named",
    "Path",
    "aggregate",
    "duplicate",
    "forbidden",
    "internal",
    "invalid",
    "not_found",
    "not_supported",
    "render",
    "required",
    "too_long",
    "too_many",
]


class Named(str):
    """A string of a named Go type (enumerations, qualified names). Errors print it as JSON, not Go-quoted."""

    __slots__ = ()


#: Most child paths cached per path.
_MAX_CACHED_CHILDREN: Final = 64


class Path:
    """A field path, extended by `/` (field), `[int]` (index) and `key()` (map key): `Path("spec") / "devices"`.

    A path caches the paths of its first fields and indices: those below a constant are built once, not once per
    request.
    """

    __slots__ = ("_children", "text")

    def __init__(self, text: str = "") -> None:
        self.text = text
        self._children: dict[str | int, Path] = {}

    def __truediv__(self, name: str) -> Path:
        found = self._children.get(name)
        return found if found is not None else self._cache_child(name, f"{self.text}.{name}" if self.text else name)

    def __getitem__(self, index: int) -> Path:
        found = self._children.get(index)
        return found if found is not None else self._cache_child(index, f"{self.text}[{index}]")

    def _cache_child(self, part: str | int, text: str) -> Path:
        made = Path(text)
        if len(self._children) < _MAX_CACHED_CHILDREN:
            self._children[part] = made
        return made

    def key(self, name: str) -> Path:
        return Path(f"{self.text}[{name}]")

    def __str__(self) -> str:
        return self.text or "<nil>"


@dataclass(frozen=True, slots=True)
class FieldError:
    """One error: `reason` is the cause's reason on the wire, `body` its message, `field` the path."""

    reason: str
    field: str
    body: str

    @property
    def text(self) -> str:
        return f"{self.field}: {self.body}"

    def cause(self) -> dict[str, str]:
        return {"reason": self.reason, "message": self.body, "field": self.field}


#: Characters that Go's JSON escapes besides those that all JSON escapes.
_JSON_ESCAPES: Final = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


def render(value: Any) -> str:
    """Render a value as Go prints it in an error: strings quoted (%q), numbers plain, the rest as compact JSON."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, str) and not isinstance(value, Named):
        return go_quote(value)
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return text.translate(_JSON_ESCAPES)


_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}


def go_quote(text: str) -> str:
    """Quote a text as Go's strconv.Quote does."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    out = []
    for char in text:
        if char in _ESCAPES:
            out.append(_ESCAPES[char])
        elif char.isprintable():
            out.append(char)
        elif ord(char) < 0x80:
            out.append(f"\\x{ord(char):02x}")
        elif ord(char) < 0x10000:
            out.append(f"\\u{ord(char):04x}")
        else:
            out.append(f"\\U{ord(char):08x}")
    return '"' + "".join(out) + '"'


def _detail(head: str, detail: str) -> str:
    return f"{head}: {detail}" if detail else head


def required(path: Path, detail: str = "") -> FieldError:
    return FieldError("FieldValueRequired", str(path), _detail("Required value", detail))


def _about(kind: str, value: Any) -> str:
    return kind if value is OMITTED else f"{kind}: {render(value)}"


def invalid(path: Path, value: Any, detail: str = "") -> FieldError:
    return FieldError("FieldValueInvalid", str(path), _detail(_about("Invalid value", value), detail))


def not_supported(path: Path, value: Any, supported: tuple[str, ...] | list[str]) -> FieldError:
    known = ", ".join(go_quote(item) for item in supported)
    return FieldError(
        "FieldValueNotSupported",
        str(path),
        f"Unsupported value: {render(value)}" + (f": supported values: {known}" if known else ""),
    )


def duplicate(path: Path, value: Any) -> FieldError:
    return FieldError("FieldValueDuplicate", str(path), _about("Duplicate value", value))


def not_found(path: Path, value: Any, detail: str = "") -> FieldError:
    return FieldError("FieldValueNotFound", str(path), _detail(_about("Not found", value), detail))


def forbidden(path: Path, detail: str) -> FieldError:
    return FieldError("FieldValueForbidden", str(path), _detail("Forbidden", detail))


def too_long(path: Path, maximum: int) -> FieldError:
    return FieldError(
        "FieldValueTooLong", str(path), f"Too long: may not be more than {maximum} byte{'' if maximum == 1 else 's'}"
    )


def too_many(path: Path, actual: int, maximum: int) -> FieldError:
    return FieldError(
        "FieldValueTooMany",
        str(path),
        f"Too many: {actual}: must have at most {maximum} item{'' if maximum == 1 else 's'}",
    )


def internal(path: Path, detail: str) -> FieldError:
    return FieldError("InternalError", str(path), _detail("Internal error", detail))


def aggregate(errors: list[FieldError]) -> str:
    """Return the message part of several errors: a single error as it is, several in brackets without repetitions."""
    texts = list(dict.fromkeys(error.text for error in errors))
    return texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
