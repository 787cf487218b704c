"""Selector vectors: the text form, the object form, field selectors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import TypeVar

from apiserver.api.selectors.selectors import (
    FieldSelector,
    LabelSelector,
    SelectorError,
    format_object,
    from_object,
    parse_fields,
    parse_labels,
)
from tests.conformance.vectors import Case, Skipped, expect

S = TypeVar("S", LabelSelector, FieldSelector)


def handle(case: Case) -> Skipped | str | None:
    """One recorded selector."""
    return _OPERATIONS[case["op"]](case)


def _labels(case: Case) -> None:
    _compare_labels(case, lambda: parse_labels(case["selector"]))


def _object(case: Case) -> None:
    if case.get("formatted") is not None:
        expect("formatted", format_object(case.get("selector")), case["formatted"])
    _compare_labels(case, lambda: from_object(case.get("selector")))


def _compare_labels(case: Case, parse: Callable[[], LabelSelector]) -> None:
    selector = _compare(case, parse)
    if selector is None:
        return
    if case.get("requirements") is not None:
        got = [{"key": r.key, "operator": r.operator, "values": list(r.values)} for r in selector.requirements]
        expect("requirements", got, case["requirements"])
    for probe in case["matches"]:
        expect(f"match {probe['labels']}", selector.matches(probe["labels"]), probe["match"])


def _fields(case: Case) -> None:
    selector = _compare(case, lambda: parse_fields(case["selector"]))
    if selector is None:
        return
    got = [{"field": r.field, "operator": "!=" if r.negated else "=", "value": r.value} for r in selector.requirements]
    expect("requirements", got, case["requirements"])
    for probe in case["matches"]:
        fields = defaultdict(str, probe["fields"])
        expect(f"match {probe['fields']}", selector.matches(fields.__getitem__), probe["match"])


def _compare(case: Case, parse: Callable[[], S]) -> S | None:
    """Compare a selector's error or its text; return it if it is valid."""
    try:
        selector = parse()
    except SelectorError as error:
        expect("error", str(error), case.get("error"))
        return None
    expect("error", None, case.get("error"))
    expect("canonical", str(selector), case["canonical"])
    expect("empty", selector.empty, case["empty"])
    return selector


_OPERATIONS = {"labels": _labels, "labelSelectorObject": _object, "fields": _fields}
