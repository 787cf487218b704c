"""Immutable fields compiled from types: each variant of `Immutable`, the order of changes, ignored changes."""

from __future__ import annotations

import pytest

from apiserver.api.errors.field_errors import FieldError, Path
from apiserver.api.objects import Json
from apiserver.api.schema.language import QUANTITY, STRING, ListOf, Struct, Type, field, string
from apiserver.api.schema.limits import FIXED, FIXED_UNSHOWN, Immutable, Limits
from apiserver.api.validation.changes import changes
from apiserver.api.validation.compile import Rules, unchanged

pytestmark = pytest.mark.integration

AT = Path("spec")


def told(rule: Immutable, new: Json, old: Json, kind: Type = STRING, *, pointer: bool = True) -> list[str]:
    """Return the errors of an update of an object with one field."""
    struct = Struct("x.v1.Holder", (field("f", 1, kind, pointer=pointer, limits=Limits(immutable=rule)),))
    return texts(changes(struct).errors(AT, new, old))


def texts(errors: list[FieldError]) -> list[str]:
    return [error.text for error in errors]


@pytest.mark.parametrize(
    ("rule", "wanted"),
    [
        (FIXED, 'spec.f: Invalid value: "b": field is immutable'),
        (FIXED_UNSHOWN, "spec.f: Invalid value: null: field is immutable"),
        (Immutable(words="not now"), 'spec.f: Invalid value: "b": not now'),
        (Immutable(forbids=True, words="no."), "spec.f: Forbidden: no."),
        (Immutable(name="g"), 'spec.g: Invalid value: "b": field is immutable'),
    ],
    ids=str,
)
def test_a_change_is_refused_in_the_words_of_the_type(rule: Immutable, wanted: str) -> None:
    assert told(rule, {"f": "b"}, {"f": "a"}) == [wanted]
    assert told(rule, {"f": "a"}, {"f": "a"}) == []


def test_what_is_not_set_is_a_value_as_well_unless_it_is_fixed_once_set() -> None:
    assert told(FIXED, {"f": "a"}, {}) == ['spec.f: Invalid value: "a": field is immutable']
    assert told(FIXED, {}, {"f": "a"}) == ["spec.f: Invalid value: null: field is immutable"]
    assert told(FIXED, {}, {"f": "a"}, pointer=False) == ['spec.f: Invalid value: "": field is immutable']
    once = Immutable(once=True)
    assert told(once, {"f": "a"}, {}) == []
    assert told(once, {}, {"f": "a"}) == ["spec.f: Invalid value: null: field is immutable"]
    assert told(Immutable(removable=True), {}, {"f": "a"}) == []


def test_values_are_compared_by_what_they_mean() -> None:
    assert told(FIXED, {"f": "1"}, {"f": "1000m"}, QUANTITY) == []
    assert told(FIXED, {"f": []}, {}, ListOf(STRING)) == []
    assert told(FIXED, {}, {"f": ""}, pointer=False) == []


def test_a_value_is_shown_as_its_type_says() -> None:
    named, inner = string("v1.Named"), Struct("x.v1.Inner", (field("name", 1, STRING),))
    assert told(FIXED, {"f": "<b\u2028>"}, {}, named) == [
        'spec.f: Invalid value: "\\u003cb\\u2028\\u003e": field is immutable'
    ]
    assert told(FIXED, {"f": {"name": "b"}}, {}, inner) == ['spec.f: Invalid value: {"Name":"b"}: field is immutable']


_INNER = Struct("x.v1.Inner", (field("name", 1, STRING, omit=False, limits=Limits(immutable=FIXED)),))
_OUTER = Struct("x.v1.Outer", (
    field("inner", 1, _INNER, omit=False),
    field("node", 2, STRING, pointer=True, limits=Limits(immutable=FIXED)),
    field("free", 3, STRING),
))  # fmt: skip
_OLD: Json = {"inner": {"name": "a"}, "node": "n", "free": "x"}


def test_changes_are_told_in_upstreams_order_also_in_objects_inside() -> None:
    new = {"inner": {"name": "b"}, "free": "y"}
    inner, node = (
        'spec.inner.name: Invalid value: "b": field is immutable',
        ("spec.node: Invalid value: null: field is immutable"),
    )
    assert texts(changes(_OUTER).errors(AT, new, _OLD)) == [inner, node]
    assert texts(changes(_OUTER, "node", "inner.name").errors(AT, new, _OLD)) == [node, inner]
    assert texts(changes(_OUTER).field("node", AT, new, _OLD)) == [node]


def test_a_step_of_rules_compares_with_what_is_stored() -> None:
    rules = Rules()
    rules.set(_OUTER, unchanged(_OUTER))
    assert rules.of(_OUTER).errors(AT, {}) == []
    assert len(rules.of(_OUTER).errors(AT, {}, None, _OLD)) == 2


def test_fields_that_are_forgotten_or_may_change_are_errors() -> None:
    with pytest.raises(ValueError, match=r"Outer: nothing keeps inner\.name from changing"):
        changes(_OUTER, "node").errors(AT, {}, {})
    with pytest.raises(ValueError, match="Outer: free may change"):
        changes(_OUTER, "free", "node", "inner.name").errors(AT, {}, {})
    assert changes(_OUTER, "node", by_rules=("inner.name",)).errors(AT, {}, {}) == []
