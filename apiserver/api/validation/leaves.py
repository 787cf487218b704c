"""Constraints of a structural schema on a value itself: type, format, size, bounds, enumeration.

Facts: k8s.io/kube-openapi (pkg/validation/validate: type.go, values.go, validator.go).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from apiserver.api.errors.field_errors import Path
from apiserver.api.objects import Json
from apiserver.api.patch.goformat import go_format
from apiserver.api.validation.findings import (
    Finding,
    Result,
    general,
    many,
    not_in_enum,
    plain,
    too_long_text,
    wrong_type,
)
from apiserver.api.validation.textforms import text_form

__all__ = ["Leaf", "leaf_of"]


_RANGES: Final = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
_FLOATS: Final = ("float", "double")
_EPSILON: Final = 1e-9
#: Upstream does not treat floats beyond this as integers.
_EXACT: Final = 2.0**53 - 1
_SIZES: Final = (
    "maxLength",
    "minLength",
    "maximum",
    "minimum",
    "multipleOf",
    "maxItems",
    "minItems",
    "maxProperties",
    "minProperties",
)


def _type_of(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "string"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    return "null" if value is None else "array" if isinstance(value, list) else "object"


def _is_whole(value: Any) -> bool:
    """Return whether a float is an integer. Beyond 53 bits upstream treats none as an integer."""
    return isinstance(value, float) and value.is_integer() and abs(value) < _EXACT


def _equal(value: Any, other: Any) -> bool:
    """Return whether a value equals a member of an enumeration: numbers by amount, 1 is not true."""
    if isinstance(value, bool) or isinstance(other, bool):
        return value is other
    numbers = isinstance(value, int | float) and isinstance(other, int | float)
    return (numbers or type(value) is type(other)) and bool(value == other)


class Leaf:
    """The constraints of one schema on a value itself. `typed`: it has a type or a format."""

    def __init__(self, schema: Json, *, young: bool) -> None:
        kind = schema.get("type") or ""
        either = bool(schema.get("x-kubernetes-int-or-string"))
        self.types: tuple[str, ...] = ("integer", "string") if either else (kind,) if kind else ()
        self.nullable, self.enum = bool(schema.get("nullable")), schema.get("enum") or []
        self._schema = schema
        self._format = self._known_format(schema.get("format") or "", young)
        self._form = text_form(self._format, young=young) if self._format else None
        self.has_format = self._form is not None
        self.typed = bool(self.types or self._format)
        self._pattern = self._compiled(schema.get("pattern") or "")
        self.fits = self._test()

    def _known_format(self, name: str, young: bool) -> str:
        """Return a format that constrains the type; "" for others, which are ignored."""
        if self.types in ((), ("string",)):
            return name if text_form(name, young=young) is not None else ""
        known = tuple(_RANGES) if self.types == ("integer",) else _FLOATS if self.types == ("number",) else ()
        return name if name in known else ""

    @staticmethod
    def _compiled(pattern: str) -> Callable[[str], bool] | None:
        if not pattern:
            return None
        from apiserver.cel.regex.regex import compile_pattern

        return compile_pattern(pattern).contains_match

    def _test(self) -> Callable[[Any], bool]:
        """Build the fast test. Most schemas have a type and no further constraints."""
        limited = any(self._schema.get(name) is not None for name in _SIZES)
        limited = limited or bool(self.enum or self._pattern or self._format or self._schema.get("uniqueItems"))
        exact = {"string": str, "integer": int, "boolean": bool, "array": list, "object": dict}
        wanted = exact.get(self.types[0]) if len(self.types) == 1 else None
        base = Path()

        def careful(value: Any) -> bool:
            return not self._everything(value, base)

        if limited or (wanted is None and self.types):
            return careful
        if wanted is None:
            return lambda value: True
        return lambda value: type(value) is wanted or careful(value)

    def _everything(self, value: Any, base: Path) -> list[Finding]:
        found = self.type(value, "", base).findings + self.listed(value, "", base).findings
        if isinstance(value, str):
            found += self.text(value, "", None, base).findings + self.format(value, "", None, base).findings
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found += self.number(value, "", None, base).findings
        elif isinstance(value, dict):
            found += self.size(value, "", base).findings
        elif isinstance(value, list):
            found += self._length(value, base)
        return found

    def _length(self, value: list[Any], base: Path) -> list[Finding]:
        """Return any finding for an invalid list. `Node` reports the real ones; only their presence counts here."""
        least, most = self._schema.get("minItems", 0), self._schema.get("maxItems", len(value))
        fits = least <= len(value) <= most and not self._schema.get("uniqueItems")
        return [] if fits else [general(base, "")]

    def type(self, value: Any, at: str, base: Path) -> Result:
        """Check the type of a value and the format of a number."""
        if not self.typed and value is not None:
            return Result()
        if value is None:
            if self.types and not self.nullable:
                return Result(wrong_type(base, at, ",".join(self.types), "null"))
            return Result(matches=1)
        found = _type_of(value)
        fits = (
            found in self.types
            or (_is_whole(value) and "integer" in self.types)
            or (found == "integer" and "number" in self.types)
        )
        if self._format and not isinstance(value, str | list) and not fits:
            own = {"integer": "int64", "number": "float64"}.get(found, "")
            if own != self._format:
                return Result(wrong_type(base, at, self._format, own))
        numeric = "number" in self.types or "integer" in self.types
        if not numeric and self._format and isinstance(value, str | list):
            return Result(matches=1)
        return Result(matches=1) if fits else Result(wrong_type(base, at, ",".join(self.types), found))

    def listed(self, value: Any, at: str, base: Path) -> Result:
        if not self.enum or (value is not None and any(_equal(value, each) for each in self.enum)):
            return Result()
        return Result(not_in_enum(base, at, value, self.enum))

    def text(self, value: str, at: str, old: Any, base: Path) -> Result:
        """Check the length of a text in characters, although the error names bytes. Report only the first error."""
        most, least = self._schema.get("maxLength"), self._schema.get("minLength")
        if most is not None and len(value) > most:
            return Result(too_long_text(base, at, most))
        if least is not None and len(value) < least:
            return Result(plain(base, at, value, f"{at} in body should be at least {least} chars long"))
        if self._pattern is not None and not self._pattern(value):
            return Result(plain(base, at, value, f"{at} in body should match '{self._schema['pattern']}'"))
        return Result()

    def format(self, value: str, at: str, old: Any, base: Path) -> Result:
        if self._form is None or self._form(value):
            return Result()
        return Result(wrong_type(base, at, self._format, value))

    def number(self, value: float, at: str, old: Any, base: Path) -> Result:
        result = Result(matches=1)
        if problem := self._out_of_range(value, "Checked", at):
            result.add(general(base, problem))
        schema = self._schema
        if schema.get("multipleOf") is not None:
            self._bound(result, schema["multipleOf"], "MultipleOf", at, base)
            factor = _like(value, schema["multipleOf"])
            if factor <= 0:  # upstream truncates a factor below one to 0 for a whole number, and shows it as the value
                text = f"factor MultipleOf declared for {at} must be positive: {go_format(factor)}"
                result.add(plain(base, at, factor, text))
            elif not _is_multiple(value, factor):
                result.add(plain(base, at, value, f"{at} in body should be a multiple of {go_format(factor)}"))
        for name, label, sign, words in (
            ("minimum", "Minimum boundary", 1, "greater"),
            ("maximum", "Maximum boundary", -1, "less"),
        ):
            bound = schema.get(name)
            if bound is None:
                continue
            self._bound(result, bound, label, at, base)
            limit, exclusive = _like(value, bound), bool(schema.get(f"exclusive{name.capitalize()}"))
            distance = (value - limit) * sign
            if distance < 0 or (exclusive and distance == 0):
                than = f"{words} than" if exclusive else f"{words} than or equal to"
                result.add(plain(base, at, value, f"{at} in body should be {than} {go_format(limit)}"))
        return result

    def _bound(self, result: Result, bound: float, label: str, at: str, base: Path) -> None:
        """Report a bound that the type itself cannot represent."""
        if problem := self._out_of_range(bound, label, at):
            result.add(general(base, problem))

    def _out_of_range(self, value: float, label: str, at: str) -> str:
        """Return the error for a number outside its type and format, "" for none."""
        if self.types == ("integer",):
            low, high = _RANGES.get(self._format, _RANGES["int64"])
            fits = value == int(value) and low <= value <= high
            how = f"with format {self._format}" if self._format else "(default format)"
            return "" if fits else f"{label} value must be of type integer {how} in {at}"
        if self._format == "float" and abs(value) > 3.4028235677973366e38:
            return f"{label} value must be of type number with format float in {at}"
        return ""

    def size(self, value: Json, at: str, base: Path) -> Result:
        """Check the number of properties."""
        result = Result()
        least, most = self._schema.get("minProperties"), self._schema.get("maxProperties")
        if least is not None and len(value) < least:
            result.add(plain(base, at, len(value), f"{at} in body should have at least {least} properties"))
        if most is not None and len(value) > most:
            result.add(many(base, at, len(value), most, "properties"))
        return result


def _like(value: float, bound: float) -> float:
    """Return a bound as upstream compares it with an integer: truncated to an integer."""
    return int(bound) if isinstance(value, int) else float(bound)


def _is_multiple(value: float, factor: float) -> bool:
    if isinstance(value, int):
        return value % factor == 0
    ratio = 1 / factor * value if factor < 1 else value / factor
    if abs(ratio) > _EXACT:
        return False
    whole = math.floor(abs(ratio) + 0.5)
    return abs(abs(ratio) - whole) < _EPSILON * whole or ratio == 0


def leaf_of(schema: Json, *, young: bool) -> Leaf:
    return Leaf(schema, young=young)
