"""Label and field selectors: parsing, canonical text, matching.

A selector is immutable. `matches` is compiled once per selector into closures over dict lookups, because a watch calls
it for every event. Requirements are sorted by key (labels) or by the text of the term (fields). The canonical text has
the same order.

    parse_labels("a in (b, c),!d")      LabelSelector, or SelectorError with upstream's text
    parse_fields("metadata.name=x")     FieldSelector
    from_object({"matchLabels": …})     LabelSelector; None selects nothing, {} everything

Grammar and texts are wire facts of k8s.io/apimachinery (labels, fields, apis/meta/v1).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

from apiserver.api.errors.field_errors import FieldError, Path, aggregate, invalid
from apiserver.api.selectors.field_selectors import FieldRequirement, FieldSelector, SelectorError, parse_fields
from apiserver.api.selectors.label_requirements import Labels, LabelTest, Operator, Requirement, integer, together
from apiserver.api.values.names import label_key, label_value

__all__ = [
    "EVERYTHING",
    "NOTHING",
    "FieldRequirement",
    "FieldSelector",
    "LabelSelector",
    "Requirement",
    "SelectorError",
    "format_object",
    "from_labels",
    "from_object",
    "parse_fields",
    "parse_labels",
]  # fmt: skip

_EXACT: Final = frozenset({"=", "==", "in"})
_NO_LABELS: Final[Labels] = {}
#: Longest selector, in characters, whose parsed form is cached.
_SHORT: Final = 256
#: Most requirements that are tested one by one.
_MANY: Final = 8


class LabelSelector:
    """A conjunction of requirements. `matches(labels)` accepts the labels of an object, or None."""

    __slots__ = ("_by_key", "_needed", "_tests", "nothing", "requirements")

    def __init__(self, requirements: tuple[Requirement, ...], nothing: bool = False) -> None:
        self.requirements = tuple(sorted(requirements, key=lambda requirement: requirement.key))
        self.nothing = nothing
        self._tests = tuple(requirement.compile() for requirement in self.requirements[:_MANY])
        #: For many requirements: by label its only requirement, or the test of several, and the required labels.
        self._by_key: Mapping[str, Requirement | LabelTest] = {}
        if len(self.requirements) > _MANY:
            groups = groupby(self.requirements, key=attrgetter("key"))
            self._by_key = {key: _only_or_test(key, tuple(group)) for key, group in groups}
            self._needed = sorted({each.key for each in self.requirements if not each.is_met_without_label})

    def matches(self, labels: Labels | None) -> bool:
        if self.nothing:
            return False
        given = labels or _NO_LABELS
        if self._by_key:
            return self._matches_many(given)
        for test in self._tests:  # noqa: SIM110 - a generator costs more than the tests
            if not test(given):
                return False
        return True

    def _matches_many(self, labels: Labels) -> bool:
        """Match in time proportional to the object's labels, regardless of the number of requirements."""
        needed, by_key = self._needed, self._by_key
        if len(needed) > len(labels) or any(key not in labels for key in needed):
            return False
        return all(_test_of(by_key[key])(labels) for key in labels if key in by_key)

    @property
    def empty(self) -> bool:
        """Whether it selects everything."""
        return not self.requirements and not self.nothing

    def exact(self, key: str) -> str | None:
        """Return the only value that the label may have, or None if the selector permits several."""
        at = bisect_left(self.requirements, key, key=attrgetter("key"))
        if at == len(self.requirements) or self.requirements[at].key != key:
            return None
        first = self.requirements[at]
        return first.values[0] if first.operator in _EXACT and len(first.values) == 1 else None

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LabelSelector) and (self.requirements, self.nothing) == (
            other.requirements,
            other.nothing,
        )

    def __hash__(self) -> int:
        return hash((self.requirements, self.nothing))

    def __repr__(self) -> str:
        return f"LabelSelector({str(self)!r})"


def _only_or_test(key: str, requirements: tuple[Requirement, ...]) -> Requirement | LabelTest:
    """Return the only requirement of a label, which takes less memory than its test, or the test of several."""
    return requirements[0] if len(requirements) == 1 else together(key, requirements)


def _test_of(given: Requirement | LabelTest) -> LabelTest:
    return given.compile() if isinstance(given, Requirement) else given


EVERYTHING: Final = LabelSelector(())
NOTHING: Final = LabelSelector((), nothing=True)


def _key_error(key: str, path: Path) -> FieldError | None:
    texts = label_key(key)
    return invalid(path, key, "; ".join(texts)) if texts else None


def _requirement(key: str, operator: Operator, values: tuple[str, ...] | None) -> Requirement:
    """Build a validated requirement. `values` None and () differ only in an error's text."""
    given = values or ()
    error = _key_error(key, Path("key"))
    errors = [error] if error else []
    path = Path("values")
    if operator in ("in", "notin") and not given:
        errors.append(
            invalid(path, None if values is None else [], "for 'in', 'notin' operators, values set can't be empty")
        )
    elif operator in ("exists", "!") and given:
        errors.append(invalid(path, list(given), "values set must be empty for exists and does not exist"))
    elif operator in ("gt", "lt"):
        errors.extend(
            invalid(path[index], value, "for 'Gt', 'Lt' operators, the value must be an integer")
            for index, value in enumerate(given) if integer(value) is None
        )  # fmt: skip
    for index, value in enumerate(given):
        if texts := label_value(value):
            errors.append(invalid(path[index].key(key), value, "; ".join(texts)))
    if errors:
        raise SelectorError(aggregate(errors))
    return Requirement(key, operator, given)


# --- the text form of a label selector
# -----------------------------------------------------------------------------------------------------

_TOKEN: Final = re.compile(r"[ \t\r\n]*(?:(?P<symbol>==|!=|[=!(),<>])|(?P<word>[^=!(),<> \t\r\n\x00]+)|\x00|$)")
_OPERATORS: Final[dict[str, Operator]] = {
    "in": "in",
    "notin": "notin",
    "=": "=",
    "==": "==",
    "!=": "!=",
    ">": "gt",
    "<": "lt",
}
_EXPECTED_OPERATORS: Final = "in, notin, =, ==, !=, gt, lt"
_END: Final = ("end", "")

Token = tuple[str, str]


def _tokens(text: str) -> Iterator[Token]:
    """Yield symbols and words. A NUL ends the text."""
    position = 0
    while True:
        match = _TOKEN.match(text, position)
        assert match is not None
        position = match.end()
        if match["symbol"]:
            yield match["symbol"], match["symbol"]
        elif match["word"]:
            yield "word", match["word"]
        else:
            break
    yield _END


class _Parser:
    """A recursive-descent parser over the tokens. Its errors name the token and the expected ones."""

    def __init__(self, text: str) -> None:
        self.tokens = list(_tokens(text))
        self.position = 0

    def peek(self) -> Token:
        return self.tokens[self.position] if self.position < len(self.tokens) else _END

    def take(self) -> Token:
        token = self.peek()
        self.position += 1
        return token

    def parse(self) -> tuple[Requirement, ...]:
        requirements: list[Requirement] = []
        while True:
            kind, text = self.peek()
            if kind == "end":
                return tuple(requirements)
            if kind not in ("word", "!"):
                raise SelectorError(f"found '{text}', expected: !, identifier, or 'end of string'")
            try:
                requirements.append(self.requirement())
            except SelectorError as error:
                raise SelectorError(f"unable to parse requirement: {error}") from None
            kind, text = self.take()
            if kind == "end":
                return tuple(requirements)
            if kind != ",":
                raise SelectorError(f"found '{text}', expected: ',' or 'end of string'")
            kind, text = self.peek()
            if kind not in ("word", "!"):
                raise SelectorError(f"found '{text}', expected: identifier after ','")

    def requirement(self) -> Requirement:
        kind, text = self.take()
        absent = kind == "!"
        if absent:
            kind, text = self.take()
        if kind != "word":
            raise SelectorError(f"found '{text}', expected: identifier")
        if error := _key_error(text, Path()):
            raise SelectorError(error.text)
        if absent:
            return _requirement(text, "!", ())
        if self.peek()[0] in ("end", ","):
            return _requirement(text, "exists", ())
        operator = self.operator()
        values = self.value_set() if operator in ("in", "notin") else self.exact_value()
        return _requirement(text, operator, tuple(sorted(values)))

    def operator(self) -> Operator:
        _, text = self.take()
        operator = _OPERATORS.get(text)
        if operator is None:
            raise SelectorError(f"found '{text}', expected: {_EXPECTED_OPERATORS}")
        return operator

    def value_set(self) -> set[str]:
        kind, text = self.take()
        if kind != "(":
            raise SelectorError(f"found '{text}' expected: '('")
        kind, text = self.peek()
        if kind == ")":
            self.take()
            return {""}
        if kind not in ("word", ","):
            raise SelectorError(f"found '{text}', expected: ',', ')' or identifier")
        values = self.identifiers()
        self.take()
        return values

    def identifiers(self) -> set[str]:
        """Parse a list that may have empty members. Stop before the closing parenthesis."""
        values: set[str] = set()
        while True:
            kind, text = self.take()
            following, following_text = self.peek()
            if kind == "word":
                values.add(text)
                if following == ")":
                    return values
                if following != ",":
                    raise SelectorError(f"found '{following_text}', expected: ',' or ')'")
            elif kind == ",":
                if not values or following in (",", ")"):
                    values.add("")
                if following == ")":
                    return values
            else:
                raise SelectorError(f"found '{text}', expected: ',', or identifier")

    def exact_value(self) -> set[str]:
        if self.peek()[0] in ("end", ","):
            return {""}
        kind, text = self.take()
        if kind != "word":
            raise SelectorError(f"found '{text}', expected: identifier")
        return {text}


def parse_labels(text: str) -> LabelSelector:
    """Parse a label selector of a query."""
    return _parse_cache(text) if len(text) <= _SHORT else _parse_text(text)


def _parse_text(text: str) -> LabelSelector:
    return LabelSelector(_Parser(text).parse()) if text else EVERYTHING


#: Cached because clients repeat the same few selectors.
_parse_cache: Final = lru_cache(256)(_parse_text)


def from_labels(labels: Labels) -> LabelSelector:
    """Build a selector of objects with all these labels. The labels are not validated."""
    return LabelSelector(tuple(Requirement(key, "=", (value,)) for key, value in labels.items()))


_OBJECT_OPERATORS: Final[dict[str, Operator]] = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}


def from_object(selector: Mapping[str, Any] | None) -> LabelSelector:
    """Build a selector from a metav1.LabelSelector: None selects nothing, {} everything."""
    if selector is None:
        return NOTHING
    requirements = [
        _requirement(key, "=", (value,)) for key, value in sorted((selector.get("matchLabels") or {}).items())
    ]
    for expression in selector.get("matchExpressions") or ():
        operator = _OBJECT_OPERATORS.get(expression.get("operator", ""))
        if operator is None:
            shown = expression.get("operator", "")
            raise SelectorError(f'"{shown}" is not a valid label selector operator')
        values = expression.get("values")
        requirements.append(
            _requirement(expression.get("key", ""), operator, None if values is None else tuple(values))
        )
    return LabelSelector(tuple(requirements))


def format_object(selector: Mapping[str, Any] | None) -> str:
    """Format a metav1.LabelSelector for a Table."""
    try:
        return str(from_object(selector)) or "<none>"
    except SelectorError:
        return "<error>"
