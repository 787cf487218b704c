"""Semantic versions (semver.org 2.0.0) with precedence, and the tolerant form for selectors.

Numbers are unsigned 64-bit. Build metadata is stored but never compared. Two grammars exist on purpose. Expressions
parse versions by the grammar below. The API validates version attributes by the official regular expression, which has
no limit for numbers and accepts `18446744073709551616.0.0`.

Source of facts: semver.org and answers recorded from a real API server.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache, total_ordering
from typing import Final

from apiserver.api.errors.field_errors import go_quote
from apiserver.api.values.bounded_cache import remembered

_MAX_UINT64: Final = (1 << 64) - 1
_NUMBERS: Final = frozenset("0123456789")
_ALPHANUMERIC: Final = _NUMBERS | frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-")
_ATTRIBUTE_PATTERN: Final = (
    r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)"
    r"(-(0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)(\.(0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*))*)?"
    r"(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?"
)

# One pre-release identifier, ordered: numbers come before words.
Identifier = tuple[int, int, str]


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Semver:
    """A parsed version; equality and order follow precedence."""

    major: int
    minor: int
    patch: int
    prerelease: tuple[Identifier, ...] = ()
    build: tuple[str, ...] = ()

    @staticmethod
    def parse(text: str) -> Semver:
        """Parse a strict version. Raise ValueError with the text that clients know."""
        return _parse(text)

    @staticmethod
    def parse_tolerant(text: str) -> Semver:
        """Parse a version after dropping one leading `v` and leading zeros and adding missing parts."""
        return _parse(_normalize(text))

    def __str__(self) -> str:
        text = f"{self.major}.{self.minor}.{self.patch}"
        if self.prerelease:
            text += "-" + ".".join(word or str(number) for _, number, word in self.prerelease)
        return text + "+" + ".".join(self.build) if self.build else text

    @property
    def _precedence(self) -> tuple[int, int, int, bool, tuple[Identifier, ...]]:
        return self.major, self.minor, self.patch, not self.prerelease, self.prerelease

    def compare(self, other: Semver) -> int:
        """Return -1, 0 or 1."""
        left, right = self._precedence, other._precedence
        return (left > right) - (left < right)

    def __eq__(self, other: object) -> bool:
        return self._precedence == other._precedence if isinstance(other, Semver) else NotImplemented

    def __lt__(self, other: Semver) -> bool:
        return self._precedence < other._precedence

    def __hash__(self) -> int:
        return hash(self._precedence)


@lru_cache(maxsize=1)
def _attribute_regex() -> re.Pattern[str]:
    return re.compile(_ATTRIBUTE_PATTERN)


def is_attribute_version(text: str) -> bool:
    """Return whether the API accepts the text as a version attribute (its length is checked elsewhere)."""
    return _attribute_regex().fullmatch(text) is not None


def _number(text: str, what: str) -> int:
    if not _NUMBERS.issuperset(text):
        raise ValueError(f"Invalid character(s) found in {what.lower()} number {go_quote(text)}")
    if len(text) > 1 and text[0] == "0":
        raise ValueError(f"{what} number must not contain leading zeroes {go_quote(text)}")
    return _uint64(text)


def _uint64(digits: str) -> int:
    if not digits:
        raise ValueError('strconv.ParseUint: parsing "": invalid syntax')
    value = int(digits) if len(digits) <= 20 else _MAX_UINT64 + 1
    if value > _MAX_UINT64:
        raise ValueError(f"strconv.ParseUint: parsing {go_quote(digits)}: value out of range")
    return value


def _identifier(text: str) -> Identifier:
    if not text:
        raise ValueError("Prerelease is empty")
    if _NUMBERS.issuperset(text):
        if len(text) > 1 and text[0] == "0":
            raise ValueError(f"Numeric PreRelease version must not contain leading zeroes {go_quote(text)}")
        return 0, _uint64(text), ""
    if not _ALPHANUMERIC.issuperset(text):
        raise ValueError(f"Invalid character(s) found in prerelease {go_quote(text)}")
    return 1, 0, text


def _build_part(text: str) -> str:
    if not text:
        raise ValueError("Build meta data is empty")
    if not _ALPHANUMERIC.issuperset(text):
        raise ValueError(f"Invalid character(s) found in build meta data {go_quote(text)}")
    return text


@remembered(4096)
def _parse(text: str) -> Semver:
    if not text:
        raise ValueError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise ValueError("No Major.Minor.Patch elements found")
    major, minor = _number(parts[0], "Major"), _number(parts[1], "Minor")
    rest, has_build, build = parts[2].partition("+")
    rest, has_prerelease, prerelease = rest.partition("-")
    patch = _number(rest, "Patch")
    identifiers = tuple(map(_identifier, prerelease.split("."))) if has_prerelease else ()
    return Semver(major, minor, patch, identifiers, tuple(map(_build_part, build.split("."))) if has_build else ())


def _normalize(text: str) -> str:
    parts = text.removeprefix("v").split(".", 2)
    for index, part in enumerate(parts):
        if len(part.encode()) > 1:
            part = part.lstrip("0")
            parts[index] = part if part[:1] in _NUMBERS else "0" + part
    if len(parts) < 3:
        if "+" in parts[-1] or "-" in parts[-1]:
            raise ValueError("short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (3 - len(parts))
    return ".".join(parts)
