"""Requirements of label selectors, and the combined test of several requirements on one label."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

__all__ = ["LabelTest", "Labels", "Operator", "Requirement", "integer", "together"]

Operator = Literal["=", "==", "!=", "in", "notin", "exists", "!", "gt", "lt"]
Labels = Mapping[str, str]
LabelTest = Callable[[Labels], bool]

_NEGATED: Final = frozenset({"!=", "notin"})
_SYMBOL: Final = {"gt": ">", "lt": "<"}


@dataclass(frozen=True, slots=True)
class Requirement:
    """One requirement on one label."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.operator == "exists":
            return self.key
        if self.operator == "!":
            return f"!{self.key}"
        values = ",".join(sorted(self.values))
        if self.operator in ("in", "notin"):
            return f"{self.key} {self.operator} ({values})"
        return f"{self.key}{_SYMBOL.get(self.operator, self.operator)}{values}"

    @property
    def is_met_without_label(self) -> bool:
        """Whether an object without the label meets the requirement."""
        return self.operator in ("!=", "notin", "!")

    def compile(self) -> LabelTest:
        key, operator = self.key, self.operator
        if operator == "exists":
            return lambda labels: key in labels
        if operator == "!":
            return lambda labels: key not in labels
        if operator in ("gt", "lt"):
            bound, greater = integer(self.values[0]), operator == "gt"
            return lambda labels: _compare(labels.get(key), bound, greater)
        if len(self.values) == 1:
            (value,) = self.values
            return (
                (lambda labels: labels.get(key) != value)
                if operator in _NEGATED
                else (lambda labels: labels.get(key) == value)
            )
        values = frozenset(self.values)
        return (
            (lambda labels: labels.get(key) not in values)
            if operator in _NEGATED
            else (lambda labels: labels.get(key) in values)
        )


_INTEGER: Final = re.compile(r"[+-]?[0-9]+")


def integer(text: str | None) -> int | None:
    """Parse a 64-bit integer. Return None for any other text."""
    if text is None or not _INTEGER.fullmatch(text):
        return None
    value = int(text)
    return value if -(1 << 63) <= value < 1 << 63 else None


def _compare(value: str | None, bound: int | None, greater: bool) -> bool:
    number = integer(value)
    if number is None or bound is None:
        return False
    return number > bound if greater else number < bound


def together(key: str, requirements: tuple[Requirement, ...]) -> LabelTest:
    """Combine all requirements on one label into a few tests: permitted values, forbidden values, bounds."""
    within: frozenset[str] | None = None
    without: set[str] = set()
    others: dict[Requirement, None] = {}
    for each in requirements:
        if each.operator in _NEGATED:
            without.update(each.values)
        elif each.operator in ("gt", "lt", "exists", "!"):
            others[each] = None
        else:
            within = frozenset(each.values) if within is None else within & frozenset(each.values)
    tests = [each.compile() for each in _strictest(list(others))]
    if within is not None:
        tests.append(Requirement(key, "in", tuple(within)).compile())
    if without:
        tests.append(Requirement(key, "notin", tuple(without)).compile())
    return lambda labels: all(test(labels) for test in tests)


def _strictest(requirements: list[Requirement]) -> list[Requirement]:
    """Return the strictest of several bounds of each kind."""
    kept = [each for each in requirements if each.operator in ("exists", "!")]
    for operator, choose in (("gt", max), ("lt", min)):
        bounds = [each for each in requirements if each.operator == operator]
        impossible = [each for each in bounds if integer(each.values[0]) is None]
        if bounds:
            kept.append(impossible[0] if impossible else choose(bounds, key=lambda each: integer(each.values[0]) or 0))
    return kept
