"""Functions of Kubernetes: quantities, semantic versions, regular expressions, named formats, map insertion."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from datetime import date
from typing import Any, Final

from apiserver.api.values.quantity import Format as Notation
from apiserver.api.values.quantity import Quantity
from apiserver.api.values.semver import Semver
from apiserver.cel.language.declarations import Function, function, method, overload
from apiserver.cel.language.types import BOOL, DOUBLE, INT, STRING, list_of, map_of, optional_of, param, struct
from apiserver.cel.language.values import ABSENT, NONE, CelError, ComputedQuantity, LibraryValue, Optional, find
from apiserver.cel.library.urls import parse_request_uri
from apiserver.cel.regex.regex import compile_pattern

QUANTITY: Final = struct("kubernetes.Quantity")
SEMVER: Final = struct("kubernetes.Semver")
FORMAT: Final = struct("kubernetes.NamedFormat")


def _converter(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    def convert(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            raise CelError(str(error)) from None

    return convert


def _accepts(parse: Callable[[str], Any]) -> Callable[[str], bool]:
    def test(text: str) -> bool:
        try:
            parse(text)
        except ValueError:
            return False
        return True

    return test


def _as_integer(value: Quantity) -> int:
    whole = value.as_int64()
    if whole is None:
        raise CelError("cannot convert value to integer")
    return whole


def _as_computed(value: Quantity) -> ComputedQuantity:
    return ComputedQuantity(value.unscaled, value.exponent, value.format, value.wide)


def _plain(count: int) -> Quantity:
    return Quantity.of(count, Notation.DECIMAL_EXPONENT)


def quantity() -> list[Function]:
    """Return the declarations of quantity, isQuantity and the methods of quantities.

    `sign` is a function, not a method.
    """
    pair = (QUANTITY, QUANTITY)
    return [
        function("quantity", overload("string_to_quantity", (STRING,), QUANTITY, _converter(Quantity.parse))),
        function("isQuantity", overload("is_quantity_string", (STRING,), BOOL, _accepts(Quantity.parse))),
        function("sign", overload("quantity_sign", (QUANTITY,), INT, lambda value: value.sign)),
        function(
            "isGreaterThan",
            method("quantity_is_greater_than", pair, BOOL, lambda left, right: left.compare(right) > 0),
        ),
        function(
            "isLessThan", method("quantity_is_less_than", pair, BOOL, lambda left, right: left.compare(right) < 0)
        ),
        function("compareTo", method("quantity_compare_to", pair, INT, lambda left, right: left.compare(right))),
        function(
            "asApproximateFloat",
            method("quantity_get_float", (QUANTITY,), DOUBLE, lambda value: value.approximate_float()),
        ),
        function("asInteger", method("quantity_get_int", (QUANTITY,), INT, _as_integer)),
        function(
            "isInteger", method("quantity_is_integer", (QUANTITY,), BOOL, lambda value: value.as_int64() is not None)
        ),
        function(
            "add",
            method("quantity_add", pair, QUANTITY, lambda left, right: _as_computed(left.add(right))),
            method(
                "quantity_add_int", (QUANTITY, INT), QUANTITY, lambda left, count: _as_computed(left.add(_plain(count)))
            ),
        ),
        function(
            "sub",
            method("quantity_sub", pair, QUANTITY, lambda left, right: _as_computed(left.sub(right))),
            method(
                "quantity_sub_int", (QUANTITY, INT), QUANTITY, lambda left, count: _as_computed(left.sub(_plain(count)))
            ),
        ),
    ]


def _semver(text: str, normalize: bool = False) -> Semver:
    return Semver.parse_tolerant(text) if normalize else Semver.parse(text)


def _to_semver(text: str, normalize: bool = False) -> Semver:
    try:
        return _semver(text, normalize)
    except ValueError as error:
        raise CelError(str(error)) from None


def _is_semver(text: str, normalize: bool = False) -> bool:
    try:
        _semver(text, normalize)
    except ValueError:
        return False
    return True


def _to_signed(value: int) -> int:
    """Convert an unsigned version number to CEL's signed integers; large ones wrap."""
    return value - (1 << 64) if value >= 1 << 63 else value


def semver() -> list[Function]:
    """Return the declarations of semver, isSemver and the methods of versions."""
    pair = (SEMVER, SEMVER)
    return [
        function(
            "semver",
            overload("string_to_semver", (STRING,), SEMVER, _to_semver),
            overload("string_bool_to_semver", (STRING, BOOL), SEMVER, _to_semver),
        ),
        function(
            "isSemver",
            overload("is_semver_string", (STRING,), BOOL, _is_semver),
            overload("is_semver_string_bool", (STRING, BOOL), BOOL, _is_semver),
        ),
        function(
            "isGreaterThan", method("semver_is_greater_than", pair, BOOL, lambda left, right: left.compare(right) > 0)
        ),
        function("isLessThan", method("semver_is_less_than", pair, BOOL, lambda left, right: left.compare(right) < 0)),
        function("compareTo", method("semver_compare_to", pair, INT, lambda left, right: left.compare(right))),
        function("major", method("semver_major", (SEMVER,), INT, lambda value: _to_signed(value.major))),
        function("minor", method("semver_minor", (SEMVER,), INT, lambda value: _to_signed(value.minor))),
        function("patch", method("semver_patch", (SEMVER,), INT, lambda value: _to_signed(value.patch))),
    ]


def _find(text: str, pattern: str) -> str:
    try:
        return compile_pattern(pattern).find(text)
    except ValueError as error:
        raise CelError(f"Illegal regex: {error}") from None


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    try:
        return compile_pattern(pattern).find_all(text, limit)
    except ValueError as error:
        raise CelError(f"Illegal regex: {error}") from None


def regex() -> list[Function]:
    """Return the declarations of find and findAll."""
    return [
        function("find", method("string_find_string", (STRING, STRING), STRING, _find)),
        function(
            "findAll",
            method("string_find_all_string", (STRING, STRING), list_of(STRING), _find_all),
            method("string_find_all_string_int", (STRING, STRING, INT), list_of(STRING), _find_all),
        ),
    ]


class NamedFormat(LibraryValue):
    """A named check of strings."""

    __slots__ = ("check", "name", "regex_size")
    type_name = "kubernetes.NamedFormat"

    def __init__(self, name: str, check: Callable[[str], list[str]], regex_size: int) -> None:
        self.name, self.check, self.regex_size = name, check, regex_size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NamedFormat) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


_UUID: Final = r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}"
_DATE_TIME: Final = r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))"
_UUID_SIZE: Final = len(_UUID) + 2
_DATE_TIME_SIZE: Final = len(_DATE_TIME) + 2


def _names(rule: str, *, prefix: bool) -> Callable[[str], list[str]]:
    def check(text: str) -> list[str]:
        from apiserver.api.values.names import object_name

        return object_name(rule, text, prefix)

    return check


def _label_value(text: str) -> list[str]:
    from apiserver.api.values.names import label_value

    return label_value(text)


def _qualified_name(text: str) -> list[str]:
    from apiserver.api.values.names import label_key

    return label_key(text)


def _uri(text: str) -> list[str]:
    try:
        parse_request_uri(text)
    except ValueError as error:
        return [str(error)]
    return []


def _uuid(text: str) -> list[str]:
    return [] if re.fullmatch(_UUID, text) and not text.endswith("\n") else ["does not match the UUID format"]


def _byte(text: str) -> list[str]:
    try:
        valid = bool(text) and base64.b64decode(text, validate=True) is not None and len(text) % 4 == 0
    except (binascii.Error, ValueError):
        valid = False
    return [] if valid else ["invalid base64"]


def _is_date(text: str) -> bool:
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", text, re.ASCII):
        return False
    try:
        # Year 0 is valid here; it is checked as 2000, a leap year as well.
        date.fromisoformat(text if text[:4] != "0000" else "2000" + text[4:])
    except ValueError:
        return False
    return True


def _date(text: str) -> list[str]:
    return [] if _is_date(text) else ["invalid date"]


def _datetime(text: str) -> list[str]:
    day, _, rest = text.lower().partition("t")
    clock = rest.split("t")[0]
    found = re.fullmatch(_DATE_TIME, clock, re.ASCII)
    valid = found and _is_date(day) and found[1] <= "23" and found[2] <= "59" and found[3] <= "59"
    return [] if valid else ["invalid datetime"]


_FORMATS: Final[dict[str, NamedFormat]] = {
    "dns1123Label": NamedFormat("DNS1123Label", _names("label", prefix=False), 30),
    "dns1123Subdomain": NamedFormat("DNS1123Subdomain", _names("subdomain", prefix=False), 60),
    "dns1035Label": NamedFormat("DNS1035Label", _names("dns1035-label", prefix=False), 30),
    "qualifiedName": NamedFormat("QualifiedName", _qualified_name, 60),
    "dns1123LabelPrefix": NamedFormat("DNS1123LabelPrefix", _names("label", prefix=True), 30),
    "dns1123SubdomainPrefix": NamedFormat("DNS1123SubdomainPrefix", _names("subdomain", prefix=True), 60),
    "dns1035LabelPrefix": NamedFormat("DNS1035LabelPrefix", _names("dns1035-label", prefix=True), 30),
    "labelValue": NamedFormat("LabelValue", _label_value, 40),
    "uri": NamedFormat("URI", _uri, 1103),
    "uuid": NamedFormat("uuid", _uuid, _UUID_SIZE),
    "byte": NamedFormat("byte", _byte, 84),
    "date": NamedFormat("date", _date, _DATE_TIME_SIZE),
    "datetime": NamedFormat("datetime", _datetime, _DATE_TIME_SIZE),
}


def _find_format(name: str) -> Optional:
    found = _FORMATS.get(name)
    return NONE if found is None else Optional(found)


def _validate(named: NamedFormat, text: str) -> Optional:
    problems = named.check(text)
    return Optional(problems) if problems else NONE


def formats() -> list[Function]:
    """Return the declarations of format.named, validate, and a function for every format."""

    def constant(found: NamedFormat) -> Callable[[], NamedFormat]:
        return lambda: found

    return [
        function("validate", method("format-validate", (FORMAT, STRING), optional_of(list_of(STRING)), _validate)),
        function("format.named", overload("format-named", (STRING,), optional_of(FORMAT), _find_format)),
        *(
            function(f"format.{name}", overload(f"format.{name}", (), FORMAT, constant(found)))
            for name, found in _FORMATS.items()
        ),
    ]


def _insert(target: dict[Any, Any], key: Any, value: Any) -> dict[Any, Any]:
    if find(target, key) is not ABSENT:
        raise CelError(f"insert failed: key {key} already exists")
    return {**target, key: value}


def _insert_all(target: dict[Any, Any], update: dict[Any, Any]) -> dict[Any, Any]:
    for key, value in update.items():
        target = _insert(target, key, value)
    return target


def map_insertion() -> list[Function]:
    """Return the function that transformMap and transformMapEntry expand to."""
    key, value = param("K"), param("V")
    mapping = map_of(key, value)
    return [
        function(
            "cel.@mapInsert",
            overload("@mapInsert_map_key_value", (mapping, key, value), mapping, _insert),
            overload("@mapInsert_map_map", (mapping, mapping), mapping, _insert_all),
        )
    ]
