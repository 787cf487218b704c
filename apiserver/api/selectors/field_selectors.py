"""Field selectors: parsing, canonical text, matching. Exported by `apiserver.api.selectors.selectors`.

Grammar and texts are wire facts of k8s.io/apimachinery (fields).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["FieldRequirement", "FieldSelector", "SelectorError", "parse_fields"]


class SelectorError(ValueError):
    """An unparsable selector; the text is the API's."""


@dataclass(frozen=True, slots=True)
class FieldRequirement:
    """A requirement that `field` equals `value`, or differs from it (`negated`)."""

    field: str
    value: str
    negated: bool = False

    def __str__(self) -> str:
        value = self.value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")
        return f"{self.field}{'!=' if self.negated else '='}{value}"


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """A conjunction of field requirements."""

    requirements: tuple[FieldRequirement, ...] = ()

    @property
    def empty(self) -> bool:
        return not self.requirements

    def matches(self, value: Callable[[str], str]) -> bool:
        """Return whether an object matches. `value(field)` returns its field, "" for an absent one."""
        return all(
            (value(requirement.field) == requirement.value) != requirement.negated for requirement in self.requirements
        )

    def exact(self, field: str) -> str | None:
        """Return the only value that the field may have, or None if the selector permits several."""
        return next((r.value for r in self.requirements if r.field == field and not r.negated), None)

    def compile(self, labels: Mapping[str, Callable[[Any], str]]) -> Callable[[Any], bool]:
        """Compile a predicate over objects from the field getters of their kind."""
        tests = [(labels[r.field], r.value, r.negated) for r in self.requirements]
        if len(tests) == 1:
            ((look_up, wanted, negated),) = tests
            return (lambda obj: look_up(obj) != wanted) if negated else (lambda obj: look_up(obj) == wanted)
        # One lookup per field, regardless of the number of requirements.
        wanted_of: dict[Callable[[Any], str], set[str]] = {}
        unwanted_of: dict[Callable[[Any], str], set[str]] = {}
        for look_up, value, negated in tests:
            (unwanted_of if negated else wanted_of).setdefault(look_up, set()).add(value)
        # A field with two required values matches nothing.
        exactly = [(look_up, next(iter(values)) if len(values) == 1 else None) for look_up, values in wanted_of.items()]

        def test(obj: Any) -> bool:
            return all(look_up(obj) == value for look_up, value in exactly) and not any(
                look_up(obj) in values for look_up, values in unwanted_of.items()
            )

        return test

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


_TERM_OPERATOR: Final = re.compile(r"!=|==|=")


def _unescape(text: str) -> str:
    if not any(char in text for char in "\\,="):
        return text
    out: list[str] = []
    characters = iter(text)
    for char in characters:
        if char == "\\":
            escaped = next(characters, "")
            if escaped not in ("\\", ",", "="):
                raise SelectorError(f"invalid field selector: invalid escape sequence: \\{escaped}")
            out.append(escaped)
        elif char in ",=":
            raise SelectorError(f"invalid field selector: unescaped character in value: {ord(char)}")
        else:
            out.append(char)
    return "".join(out)


def _split_terms(text: str) -> list[str]:
    terms, start, escaped = [], 0, False
    for index, char in enumerate(text):
        if escaped:
            escaped = False
        elif char == "\\":
            escaped = True
        elif char == ",":
            terms.append(text[start:index])
            start = index + 1
    return [*terms, text[start:]]


def parse_fields(text: str) -> FieldSelector:
    """Parse a field selector of a query. The caller checks whether the kind supports the fields."""
    requirements = []
    for term in sorted(_split_terms(text)):
        if not term:
            continue
        match = _TERM_OPERATOR.search(term)
        if match is None:
            raise SelectorError(f"invalid selector: '{text}'; can't understand '{term}'")
        field, value = term[: match.start()], _unescape(term[match.end() :])
        # An empty field compared with an empty value is no requirement.
        if field or value:
            requirements.append(FieldRequirement(field, value, match[0] == "!="))
    return FieldSelector(tuple(requirements))
