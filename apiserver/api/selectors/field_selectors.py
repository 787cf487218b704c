"""Field selectors: parsing, canonical text, matching. Public by `apiserver.api.selectors.selectors`.

Grammar and texts are wire facts of k8s.io/apimachinery (fields).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["FieldRequirement", "FieldSelector", "SelectorError", "parse_fields"]


class SelectorError(ValueError):
    """The selector cannot be parsed; the text is the API's."""


@dataclass(frozen=True, slots=True)
class FieldRequirement:
    """`field` equals `value`, or does not (`negated`)."""

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
        """`value(field)` gives an object's field, "" when it has none."""
        return all(
            (value(requirement.field) == requirement.value) != requirement.negated for requirement in self.requirements
        )

    def exact(self, field: str) -> str | None:
        """The one value that the field must have, if the selector fixes it."""
        return next((r.value for r in self.requirements if r.field == field and not r.negated), None)

    def compile(self, labels: Mapping[str, Callable[[Any], str]]) -> Callable[[Any], bool]:
        """A test of whole objects, through the look-ups of their kind."""
        tests = [(labels[r.field], r.value, r.negated) for r in self.requirements]
        if len(tests) == 1:
            ((look_up, wanted, negated),) = tests
            return (lambda obj: look_up(obj) != wanted) if negated else (lambda obj: look_up(obj) == wanted)
        # A look-up a field, however many requirements there are.
        wanted_of: dict[Callable[[Any], str], set[str]] = {}
        unwanted_of: dict[Callable[[Any], str], set[str]] = {}
        for look_up, value, negated in tests:
            (unwanted_of if negated else wanted_of).setdefault(look_up, set()).add(value)
        # A field that has to be two things is none.
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
    """A field selector as it stands in a query. Which fields a kind knows is the caller's question."""
    requirements = []
    for term in sorted(_split_terms(text)):
        if not term:
            continue
        match = _TERM_OPERATOR.search(term)
        if match is None:
            raise SelectorError(f"invalid selector: '{text}'; can't understand '{term}'")
        field, value = term[: match.start()], _unescape(term[match.end() :])
        # Nothing compared with nothing is no requirement.
        if field or value:
            requirements.append(FieldRequirement(field, value, match[0] == "!="))
    return FieldSelector(tuple(requirements))
