"""Markers: the values that they refuse, their messages, and their place in the order of steps."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.api.errors.field_errors import FieldError, Path, invalid
from apiserver.api.objects import Json
from apiserver.api.schema.language import INT32, STRING, ListOf, Struct, field, string
from apiserver.api.schema.limits import Limits
from apiserver.api.schema.markers import (
    OMITTED,
    AtMost,
    Enum,
    Forbidden,
    If,
    Invalid,
    Reference,
    Required,
    Step,
    Union,
    UntilError,
    differs,
    equals,
    is_any_set,
    is_set,
    is_unset,
    knows,
    one_of,
    selector_values,
)
from apiserver.api.validation.compile import At, Rules

pytestmark = pytest.mark.integration

KIND = string("v1.Kind")
INNER = Struct("x.v1.Inner", (field("value", 1, STRING, pointer=True), field("kind", 2, KIND)))
FIELDS = (
    field("type", 1, KIND, omit=False),
    field("name", 2, STRING, limits=Limits(length=3)),
    field("least", 3, INT32, pointer=True),
    field("most", 4, INT32),
    field("items", 5, ListOf(STRING)),
    field("inner", 6, INNER, pointer=True),
)
SELECTOR = Struct(
    "x.v1.Selector",
    (field("operator", 1, KIND), field("values", 2, ListOf(STRING))),
    rules=(selector_values("listed", "unlisted", "Gt"),),
)


def errors_of(*rules: Step, value: Json, env: Any = None) -> list[str]:
    """Return the errors of a value of a type with these rules."""
    struct = Struct("x.v1.Holder", FIELDS, rules=(*rules, "name"))
    return texts(Rules().of(struct).errors(Path("spec"), value, env))


def texts(errors: list[FieldError]) -> list[str]:
    return [error.text for error in errors]


@pytest.mark.parametrize(
    ("marker", "refused", "accepted", "error"),
    [
        (Required("name"), {}, {"name": "a"}, "spec.name: Required value"),
        (Required("name"), {"name": ""}, {"name": "a"}, "spec.name: Required value"),
        (Required("least", "say it"), {}, {"least": 0}, "spec.least: Required value: say it"),
        (Required("", "one of them", when=is_unset("name", "least")), {}, {"least": 0}, "spec: Required value: one of them"),
        (Required("name", when=equals("type", "A")), {"type": "A"}, {"type": "B"}, "spec.name: Required value"),
        (Required("name", when=equals("type", "")), {}, {"type": "B"}, "spec.name: Required value"),
        (Required("name", when=is_set("least", "items")), {"least": 0, "items": ["a"]}, {"least": 0}, "spec.name: Required value"),
        (
            Required("name", when=equals("name", "b"), anyway=True),
            {"name": "b"},
            {"name": "a"},
            "spec.name: Required value",
        ),
        (Required("inner.value"), {"inner": {}}, {"inner": {"value": ""}}, "spec.inner.value: Required value"),
        (Forbidden("items", "no"), {"items": ["a"]}, {"items": []}, "spec.items: Forbidden: no"),
        (Forbidden("least", "no", when=is_set("name")), {"least": 0, "name": "a"}, {"least": 0}, "spec.least: Forbidden: no"),
        (
            Forbidden("inner.value", "no", when=equals("inner.kind", "A")),
            {"inner": {"value": "x", "kind": "A"}},
            {"inner": {"value": "x", "kind": "B"}},
            "spec.inner.value: Forbidden: no",
        ),
        (Invalid("most", "no", when=is_set("most")), {"most": 2}, {"most": 0}, "spec.most: Invalid value: 2: no"),
        (Invalid("least", "no", when=is_unset("least")), {}, {"least": 0}, "spec.least: Invalid value: null: no"),
        (Invalid("", "no", when=is_set("name"), shown=OMITTED), {"name": "a"}, {}, "spec: Invalid value: no"),
        (
            Invalid("most", "no", when=is_any_set("items", "least")),
            {"least": 1},
            {},
            "spec.most: Invalid value: 0: no",
        ),
        (
            Invalid("inner", "no", when=(is_set("inner"), differs("type", "A"))),
            {"type": "B", "inner": {}},
            {"type": "A", "inner": {}},
            'spec.inner: Invalid value: {"Value":null,"Kind":""}: no',
        ),
        (Enum("type", ("A", "B")), {}, {"type": "A"}, 'spec.type: Unsupported value: "": supported values: "A", "B"'),
        (AtMost("least", "most", "at most {}"), {"least": 3, "most": 2}, {"least": 2, "most": 2}, "spec.least: Invalid value: 3: at most 2"),
        (AtMost("most", 5, "at most {}"), {"most": 6}, {"most": 5}, "spec.most: Invalid value: 6: at most 5"),
        (AtMost("most", "least", "no"), {"most": 6, "least": 5}, {"most": 6}, "spec.most: Invalid value: 6: no"),
        (AtMost("most", "least", "no"), {"least": -1}, {}, "spec.most: Invalid value: 0: no"),
        (Reference("name", lambda at: at.value["items"], "unknown"), {"name": "b", "items": ["a"]}, {"name": "a", "items": ["a"]}, 'spec.name: Invalid value: "b": unknown'),
        (Reference("name", lambda at: ()), {"name": "b"}, {"name": ""}, 'spec.name: Not found: "b"'),
        (one_of("name", "least"), {}, {"least": 0}, 'spec: Invalid value: "": must specify one of: `name`, `least`'),
        (
            one_of("name", "least"),
            {"name": "a", "least": 0},
            {"name": "a"},
            'spec: Invalid value: "{name, least}": must specify exactly one of: `name`, `least`',
        ),
        (Union(("name", "least"), many=Forbidden("name", "no")), {"name": "a", "least": 0}, {}, "spec.name: Forbidden: no"),
    ],
)  # fmt: skip
def test_a_marker_refuses_what_breaks_it_and_nothing_else(
    marker: Step, refused: Json, accepted: Json, error: str
) -> None:
    assert errors_of(marker, value=refused) == [error]
    assert errors_of(marker, value=accepted) == []


def test_conditions_ask_code_about_the_value_and_about_what_the_caller_knows() -> None:
    about_env = Forbidden("name", "no", when=knows(lambda env: env == "strict"))
    about_value = Forbidden("name", "no", when=lambda at: at.value["name"] == "b")

    assert errors_of(about_env, value={"name": "a"}, env="strict") == ["spec.name: Forbidden: no"]
    assert errors_of(about_env, value={"name": "a"}, env="lax") == []
    assert errors_of(about_value, value={"name": "b"}) == ["spec.name: Forbidden: no"]
    assert errors_of(about_value, value={"name": "a"}) == []


def test_errors_come_in_the_order_of_the_steps_with_those_of_fields_among_them() -> None:
    before, after = Invalid("type", "before"), Invalid("type", "after")

    assert errors_of(before, "name", after, value={"name": "long"})[:3] == [
        'spec.type: Invalid value: "": before',
        "spec.name: Too long: may not be more than 3 bytes",
        'spec.type: Invalid value: "": after',
    ]


def test_steps_up_to_the_first_error_leave_out_the_rest_but_not_what_follows_them() -> None:
    first = UntilError((Required("least"), Forbidden("items", "no")))

    expected = ["spec.least: Required value", "spec.name: Too long: may not be more than 3 bytes"]
    assert errors_of(first, value={"items": ["a"], "name": "long"}) == expected
    assert errors_of(first, value={"least": 1, "items": ["a"]}) == ["spec.items: Forbidden: no"]


def test_a_condition_chooses_between_steps() -> None:
    steps = If(equals("type", "A"), (Required("least"),), otherwise=(Forbidden("least", "no"),))

    assert errors_of(steps, value={"type": "A"}) == ["spec.least: Required value"]
    assert errors_of(steps, value={"type": "B", "least": 1}) == ["spec.least: Forbidden: no"]
    assert errors_of(steps, value={"least": 1}) == ["spec.least: Forbidden: no"]
    assert errors_of(steps, value={"type": "B"}) == []


def test_a_rule_of_code_stands_among_markers() -> None:
    def rule(at: At) -> list[FieldError]:
        return [invalid(at.path, "", "code")]

    rules = Rules()
    struct = Struct("x.v1.Holder", FIELDS)
    rules.set(struct, Required("least"), rule, UntilError((("items", rule), Required("type"))), "name")

    expected = ["spec.least: Required value", 'spec: Invalid value: "": code', 'spec: Invalid value: "": code']
    assert texts(rules.of(struct).errors(Path("spec"), {"items": ["a"]})) == expected


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ({"operator": "In"}, ["values: Required value: listed"]),
        ({"operator": "In", "values": ["a"]}, []),
        ({"operator": "Exists", "values": ["a"]}, ["values: Forbidden: unlisted"]),
        ({"operator": "Gt", "values": ["a"]}, []),
        ({"operator": "Like"}, ['operator: Invalid value: "Like": not a valid selector operator']),
    ],
)
def test_selectors_have_values_where_their_operator_compares(value: Json, wanted: list[str]) -> None:
    assert texts(Rules().of(SELECTOR).errors(Path(), value)) == wanted


def test_a_field_with_limits_that_no_step_checks_is_an_error() -> None:
    struct = Struct("x.v1.Holder", FIELDS, rules=(Required("least"),))

    with pytest.raises(ValueError, match="Holder: nothing checks name"):
        Rules().of(struct)


def test_fields_below_conditions_and_listed_values_count_as_checked() -> None:
    kind = string("v1.Kind", "A", "B")
    struct = Struct(
        "x.v1.Holder",
        (field("type", 1, kind), *FIELDS[1:]),
        rules=(Enum("type", ("A",)), If(is_set("least"), (UntilError(("name",)),))),
    )

    assert texts(Rules().of(struct).errors(Path(), {"type": "A", "least": 1, "name": "long"})) == [
        "name: Too long: may not be more than 3 bytes"
    ]


def test_a_value_itself_is_forbidden_by_its_condition() -> None:
    rule = Forbidden("", "not both", when=is_set("least", "inner"))
    assert errors_of(rule, value={"least": 1, "inner": {}}) == ["spec: Forbidden: not both"]
    assert errors_of(rule, value={"least": 1}) == []
