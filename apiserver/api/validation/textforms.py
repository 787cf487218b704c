"""The text formats of custom resource schemas; unknown formats are ignored.

Facts: k8s.io/kube-openapi (pkg/validation/strfmt); formats by release: apiextensions-apiserver
(pkg/apiserver/validation/formats.go).
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from datetime import date
from typing import Final
from urllib.parse import urlsplit

from apiserver.api.values import names
from apiserver.api.values.durations import go_duration_problem

__all__ = ["YOUNG_FORMATS", "text_form"]

Test = Callable[[str], bool]

_HEX: Final = "[0-9a-fA-F]"
_HOSTNAME: Final = re.compile(r"(?!-)[\w-]{1,63}(?<!-)(\.(?!-)[\w-]{1,63}(?<!-))*")
_DATE_TIME: Final = re.compile(r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:[0-5]\d:[0-5]\d(.\d+)?([Zz]|[+-]\d{2}:\d{2})", re.ASCII)
_AMOUNT: Final = re.compile(r"(\d+)[ \t\n\f\r]*([A-Za-zµ]+)", re.ASCII)
#: Units of durations in words: these, and words with these prefixes.
_UNITS: Final = frozenset({"ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk"})
_UNIT_STEMS: Final = ("nano", "micro", "milli", "sec", "min", "hour", "day", "week")
_MOST: Final = 2**63 - 1
_MOST_DIGITS: Final = len(str(_MOST))
# An address of RFC 5322 as Go's net/mail parses it: bare or in angle brackets after a name, optional comment.
_ATOM: Final = r"[^\x00-\x20\x7f().<>\[\]:;@\\,\"]+"
_DOTTED: Final = rf"{_ATOM}(?:\.{_ATOM})*"
_QUOTED: Final = r"\"(?:[^\"\\\x00-\x08\x0a-\x1f\x7f]|\\[^\x00-\x08\x0a-\x1f\x7f]){%s,}\""
_ADDRESS: Final = rf"[ \t]*(?:{_QUOTED % 1}|{_DOTTED})@[ \t]*(?:{_DOTTED}|\[(?:IPv6:)?([0-9a-fA-F:.]+)\])"
_NAME: Final = rf"(?:[^\x00-\x08\x0a-\x1f\x7f()<>\[\]:;@\\,\"]|{_QUOTED % 0})*"
_EMAIL: Final = re.compile(rf"(?:{_ADDRESS}|{_NAME}<{_ADDRESS}>)[ \t]*(?:\([^()\\]*\)[ \t]*)*")
_MAC: Final = re.compile(
    rf"(?:{_HEX}{{2}}([:-])(?:{_HEX}{{2}}\1)*{_HEX}{{2}}|{_HEX}{{4}}\.(?:{_HEX}{{4}}\.)*{_HEX}{{4}})"
)
_MAC_LENGTHS: Final = (12, 16, 40)


def _email(text: str) -> bool:
    found = _EMAIL.fullmatch(text)
    return found is not None and all(_ipv4(address) or _ipv6(address) for address in found.groups() if address)


def _matches(pattern: str) -> Test:
    compiled = re.compile(pattern, re.ASCII)
    return lambda text: compiled.fullmatch(text) is not None


def _uuid(third: str = f"{_HEX}{{4}}", fourth: str = f"{_HEX}{{4}}") -> Test:
    return _matches(rf"{_HEX}{{8}}-?{_HEX}{{4}}-?{third}-?{fourth}-?{_HEX}{{12}}")


def _date(text: str) -> bool:
    if len(text) != 10:
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _date_time(text: str) -> bool:
    return _DATE_TIME.fullmatch(text) is not None and _date(text[:10])


def _duration(text: str) -> bool:
    """Match Go durations (`1h30m`), or a text with an amount of a unit anywhere (`about 3 days`)."""
    if not go_duration_problem(text):
        return True
    amounts = [(number.lstrip("0") or "0", unit) for number, unit in _AMOUNT.findall(text)]
    if any(len(number) > _MOST_DIGITS or int(number) > _MOST for number, _ in amounts):
        return False
    return any(unit.lower() in _UNITS or unit.lower().startswith(_UNIT_STEMS) for _, unit in amounts)


def _address(text: str) -> str:
    """Return the family of an address: "4", "6", or "" for none. Octets may have leading zeros."""
    import ipaddress  # not needed for most objects

    octets = text.split(".")
    if len(octets) == 4 and all(part.isascii() and part.isdigit() for part in octets):
        text = ".".join(str(int(part)) for part in octets)
    try:
        return str(ipaddress.ip_address(text).version) if "%" not in text else ""
    except ValueError:
        return ""


def _ipv4(text: str) -> bool:
    return "." in text and bool(_address(text))


def _ipv6(text: str) -> bool:
    return ":" in text and _address(text) == "6"


def _cidr(text: str) -> bool:
    address, slash, length = text.partition("/")
    family = _address(address)
    return bool(slash and family) and length.isdigit() and length.isascii() and int(length) <= (32, 128)[family == "6"]


def _mac(text: str) -> bool:
    return _MAC.fullmatch(text) is not None and len(re.sub("[:.-]", "", text)) in _MAC_LENGTHS


def _byte(text: str) -> bool:
    """Match base64 with padding."""
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return bool(text)


def _uri(text: str) -> bool:
    """Match an absolute URI or a path, as a request may name it."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme) or text.startswith("/")


def _hostname(text: str) -> bool:
    return len(text) <= 255 and _HOSTNAME.fullmatch(text) is not None and "_" not in text


def _isbn(text: str, length: int) -> bool:
    digits = text.replace("-", "").replace(" ", "")
    if len(digits) != length or not digits[:-1].isdigit() or not (digits[-1].isdigit() or digits[-1] == "X"):
        return False
    if length == 10:
        values = [10 if digit == "X" else int(digit) for digit in digits]
        return sum((index + 1) * value for index, value in enumerate(values)) % 11 == 0
    return digits[-1] != "X" and sum(int(digit) * (1, 3)[index % 2] for index, digit in enumerate(digits)) % 10 == 0


def _credit_card(text: str) -> bool:
    """Match a number of the usual lengths that passes Luhn's check."""
    digits = re.sub("[^0-9]+", "", text)
    pattern = (
        "4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}"
        "|(?:2131|1800|35\\d{3})\\d{11}"
    )
    if re.fullmatch(pattern, digits) is None:
        return False
    doubled = (int(digit) * (1, 2)[index % 2] for index, digit in enumerate(reversed(digits)))
    return sum(value - 9 if value > 9 else value for value in doubled) % 10 == 0


_PART: Final = r"(?:0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])"
_FORMS: Final[dict[str, Test]] = {
    "bsonobjectid": _matches(f"{_HEX}{{24}}"),
    "byte": _byte,
    "cidr": _cidr,
    "creditcard": _credit_card,
    "date": _date,
    "datetime": _date_time,
    "duration": _duration,
    "email": _email,
    "hexcolor": _matches("#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "hostname": _hostname,
    "ipv4": _ipv4,
    "ipv6": _ipv6,
    "isbn": lambda text: _isbn(text, 10) or _isbn(text, 13),
    "isbn10": lambda text: _isbn(text, 10),
    "isbn13": lambda text: _isbn(text, 13),
    "k8slongname": lambda text: not names.long_name(text),
    "k8sshortname": lambda text: not names.short_name(text),
    "mac": _mac,
    "password": lambda text: True,
    "rgbcolor": _matches(rf"rgb\(\s*{_PART}\s*,\s*{_PART}\s*,\s*{_PART}\s*\)"),
    "ssn": _matches(r"\d{3}[- ]?\d{2}[- ]?\d{4}"),
    "uri": _uri,
    "uuid": _uuid(),
    "uuid3": _uuid(third=f"3{_HEX}{{3}}"),
    "uuid4": _uuid(third=f"4{_HEX}{{3}}", fourth=f"[89abAB]{_HEX}{{3}}"),
    "uuid5": _uuid(third=f"5{_HEX}{{3}}", fourth=f"[89abAB]{_HEX}{{3}}"),
}
#: Known from 1.34 on.
YOUNG_FORMATS: Final = frozenset({"k8sshortname", "k8slongname"})


def text_form(name: str, *, young: bool = True) -> Test | None:
    """Return the test of a format, or None for formats that are ignored. Dashes in names do not count."""
    plain = name.replace("-", "")
    return None if plain in YOUNG_FORMATS and not young else _FORMS.get(plain)
