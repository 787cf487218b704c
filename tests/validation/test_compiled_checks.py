"""Checks compiled from types: each limit with upstream's words, the order of steps, rules between fields."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.api.errors.field_errors import FieldError, Path, invalid
from apiserver.api.objects import Json
from apiserver.api.schema.language import (
    BOOL,
    INT32,
    INT_OR_STRING,
    QUANTITY,
    RAW,
    STRING,
    ListOf,
    MapOf,
    Struct,
    Type,
    field,
    string,
)
from apiserver.api.schema.limits import Limits
from apiserver.api.types.meta import UID
from apiserver.api.validation.compile import At, Rules

pytestmark = pytest.mark.integration

AT = Path("spec")
MODE = string("v1.Mode", "All", "One")
ITEM = Struct("x.v1.Item", (field("name", 1, STRING, omit=False, limits=Limits(required=True, format="dns-label")),))


def found(kind: Type, value: Json, *, pointer: bool = False, omit: bool = True, **limits: Any) -> list[str]:
    """Return the errors of an object with one field."""
    item = field("f", 1, kind, pointer=pointer, omit=omit, limits=Limits(**limits))
    return texts(Rules().of(Struct("x.v1.Holder", (item,))).errors(AT, value))


def texts(errors: list[FieldError]) -> list[str]:
    return [error.text for error in errors]


@pytest.mark.parametrize(
    ("kind", "limits", "value", "wanted"),
    [
        (STRING, {"required": True}, {}, ["spec.f: Required value"]),
        (STRING, {"required": True}, {"f": "x"}, []),
        (STRING, {"length": 2}, {"f": "äa"}, ["spec.f: Too long: may not be more than 2 bytes"]),
        (STRING, {"length": 3}, {"f": "äa"}, []),
        (STRING, {"length": 1}, {"f": "aa"}, ["spec.f: Too long: may not be more than 1 byte"]),
        (STRING, {"format": "dns-label"}, {}, []),
        (MODE, {}, {"f": "Two"}, ['spec.f: Unsupported value: "Two": supported values: "All", "One"']),
        (MODE, {}, {"f": "One"}, []),
        (MODE, {}, {}, []),
        (MODE, {"required": True}, {}, ["spec.f: Required value"]),
        (INT32, {"least": 1}, {}, ["spec.f: Invalid value: 0: must be greater than or equal to 1"]),
        (INT32, {"most": 1000}, {"f": 1001}, ["spec.f: Invalid value: 1001: must be less than or equal to 1000"]),
        (INT32, {"least": 1, "most": 1000}, {"f": 1000}, []),
        (INT32, {"least": 1, "words": "must be positive"}, {"f": -1}, ["spec.f: Invalid value: -1: must be positive"]),
        (INT32, {"required": True, "least": 0}, {"f": 0}, ["spec.f: Required value"]),
        (RAW, {"length": 7}, {"f": {"a": 1}}, []),
        (RAW, {"length": 6}, {"f": {"a": 1}}, ["spec.f: Too long: may not be more than 6 bytes"]),
        (RAW, {"required": True}, {}, ["spec.f: Required value"]),
        (RAW, {"length": 9}, {"f": [1]}, ['spec.f: Invalid value: "<value omitted>": must be a valid JSON object']),
        (ListOf(STRING), {"required": True}, {"f": []}, ["spec.f: Required value"]),
        (ListOf(STRING), {"items": 1}, {"f": ["a", "b"]}, ["spec.f: Too many: 2: must have at most 1 item"]),
        (ListOf(STRING), {"unique": "*"}, {"f": ["a", "b", "a"]}, ['spec.f[2]: Duplicate value: "a"']),
        (MapOf(STRING), {"items": 1}, {"f": {"a": "", "b": ""}}, ["spec.f: Too many: 2: must have at most 1 item"]),
        (MapOf(STRING), {"required": True}, {}, ["spec.f: Required value"]),
        (STRING, {"required": "say it"}, {}, ["spec.f: Required value: say it"]),
        (ListOf(STRING), {"required": "say it"}, {}, ["spec.f: Required value: say it"]),
        (STRING, {"values": ("b", "a")}, {"f": "c"}, ['spec.f: Unsupported value: "c": supported values: "b", "a"']),
        (MODE, {"values": ("One", "All")}, {"f": ""}, []),
        (MODE, {"empty": True}, {}, ['spec.f: Unsupported value: "": supported values: "All", "One"']),
        (ListOf(MODE), {}, {"f": ["One", "Two"]}, ['spec.f: Unsupported value: "Two": supported values: "All", "One"']),
        (INT32, {"least": 1, "empty": False}, {"f": 0}, []),
        (INT32, {"least": 1, "empty": False}, {"f": -1}, ["spec.f: Invalid value: -1: must be greater than or equal to 1"]),
        (INT32, {"most": 1, "words": "few", "most_words": "many"}, {"f": 2}, ["spec.f: Invalid value: 2: many"]),
        (ListOf(INT32), {"least": 0}, {"f": [1, -1]}, ["spec.f[1]: Invalid value: -1: must be greater than or equal to 0"]),
        (QUANTITY, {"least": 0}, {"f": "0"}, []),
        (QUANTITY, {"least": 0}, {"f": "-1"}, ['spec.f: Invalid value: "-1": must be greater than or equal to 0']),
        (INT_OR_STRING, {"least": 1, "format": "port-name"}, {"f": 0}, ["spec.f: Invalid value: 0: must be greater than or equal to 1"]),
        (INT_OR_STRING, {"least": 1, "format": "port-name"}, {"f": "http"}, []),
        (MapOf(STRING), {"value_format": "label-value"}, {"f": {"a": "x"}}, []),
    ],
)  # fmt: skip
def test_a_limit_has_upstreams_words(kind: Type, limits: Json, value: Json, wanted: list[str]) -> None:
    assert found(kind, value, **limits) == wanted


def test_the_limits_of_a_place_come_after_those_of_the_type_that_stands_there() -> None:
    parts = {"note": Limits(required=True)}
    inner = Struct("x.v1.Inner", (*ITEM.declared, field("note", 2, STRING)))
    expected = ["spec.f.name: Required value", "spec.f.note: Required value"]
    assert found(inner, {"f": {}}, pointer=True, parts=parts) == expected
    assert found(inner, {}, pointer=True, parts=parts) == []
    embedded = Struct("x.v1.Holder", (field("", 1, inner, inline=True, limits=Limits(parts=parts)),))
    assert texts(Rules().of(embedded).errors(AT, {"name": "a"})) == ["spec.note: Required value"]


def test_errors_of_texts_in_a_map_stand_at_the_map_key_by_key() -> None:
    errors = found(MapOf(STRING), {"f": {"-": "x", "a": "-"}}, format="label-key", value_format="label-value")
    expected = [["spec.f", "Invalid value", '"-"'], ["spec.f", "Invalid value", '"-"']]
    assert [text.split(": ")[:3] for text in errors] == expected
    assert "name part" in errors[0]
    assert "name part" not in errors[1]


def test_what_is_always_written_has_the_form_of_a_text_also_when_it_is_empty() -> None:
    (text,) = found(STRING, {}, omit=False, format="dns-label")
    assert text.startswith('spec.f: Invalid value: "": a lowercase RFC 1123 label must consist of')


def test_a_text_behind_a_pointer_may_be_missing_but_not_empty() -> None:
    assert found(STRING, {}, pointer=True, required=True) == []
    assert found(STRING, {"f": ""}, pointer=True, required=True) == ["spec.f: Required value"]


def test_a_number_behind_a_pointer_is_required_to_be_there() -> None:
    assert found(INT32, {}, pointer=True, required=True) == ["spec.f: Required value"]
    assert found(INT32, {"f": 0}, pointer=True, required=True, least=0) == []
    assert found(INT32, {}, pointer=True, least=1) == []


def test_of_too_long_a_list_nothing_is_looked_at() -> None:
    value = {"f": [{"name": ""}, {"name": ""}]}
    assert found(ListOf(ITEM), value, items=1, unique="name") == ["spec.f: Too many: 2: must have at most 1 item"]


def test_repeated_items_come_after_the_errors_of_all_items() -> None:
    value = {"f": [{"name": "a"}, {"name": "a"}, {"name": ""}]}
    expected = ["spec.f[2].name: Required value", 'spec.f[1]: Duplicate value: "a"']
    assert found(ListOf(ITEM), value, unique="name") == expected


def test_generated_rules_have_repeated_items_first_and_show_them_whole() -> None:
    value = {"f": [{"name": "a"}, {"name": "a"}, {"name": ""}]}
    expected = ['spec.f[1]: Duplicate value: {"name":"a"}', "spec.f[2].name: Required value"]
    assert found(ListOf(ITEM), value, unique="name", whole=True) == expected


def test_a_key_of_a_named_type_is_shown_as_json() -> None:
    item = Struct("x.v1.User", (field("uid", 1, UID, omit=False),))
    users = [{"uid": "<a>"}, {"uid": "<a>"}]
    assert found(ListOf(item), {"f": users}, unique="uid") == ['spec.f[1]: Duplicate value: "\\u003ca\\u003e"']


def test_errors_of_keys_stand_at_the_map_and_long_keys_are_shown_without_their_middle() -> None:
    long = "a" * 70
    errors = found(MapOf(ITEM), {"f": {long: {"name": ""}}}, format="dns-label")
    assert errors[0].startswith("spec.f: Invalid value: ")
    assert errors[1] == f"spec.f[{'a' * 30}...{'a' * 30}].name: Required value"


def outer(*steps: Any, **more: Any) -> Any:
    """Compile the checks of a type with three limited fields."""
    struct = Struct("x.v1.Outer", (
        field("a", 1, STRING, limits=Limits(required=True)),
        field("b", 2, STRING, limits=Limits(required=True)),
        field("items", 3, ListOf(ITEM), limits=Limits(items=2, unique="name")),
    ))  # fmt: skip
    rules = Rules()
    if steps:
        rules.set(struct, *steps, **more)
    return rules.of(struct)


def test_fields_are_checked_in_their_order_unless_steps_say_another() -> None:
    assert texts(outer().errors(AT, {})) == ["spec.a: Required value", "spec.b: Required value"]
    assert texts(outer("b", "items", "a").errors(AT, {})) == ["spec.b: Required value", "spec.a: Required value"]


def test_a_rule_stands_between_fields_and_knows_what_the_caller_knows() -> None:
    def rule(at: At) -> list[FieldError]:
        return [invalid(at.path / "x", at.env, f"{at.old}")]

    errors = outer("a", rule, "b", "items").errors(AT, {"a": "x"}, "known", {"a": "y"})
    assert texts(errors) == ["spec.x: Invalid value: \"known\": {'a': 'y'}", "spec.b: Required value"]


def test_a_field_with_limits_that_no_step_checks_is_an_error() -> None:
    with pytest.raises(ValueError, match="Outer: nothing checks b, items"):
        outer("a")
    outer("a", lambda at: [], by_rules=("b", "items"))


def test_a_rule_judges_items_between_their_number_and_their_repetition() -> None:
    def rule(at: At) -> list[FieldError]:
        return at.items("items", lambda path, item: [invalid(path, item["name"], "no")])

    checks = outer(rule, by_rules=("a", "b", "items"))
    assert texts(checks.errors(AT, {"items": [{"name": "a"}, {"name": "a"}]})) == [
        'spec.items[0]: Invalid value: "a": no',
        'spec.items[1]: Invalid value: "a": no',
        'spec.items[1]: Duplicate value: "a"',
    ]
    many = [{"name": "a"}, {"name": "b"}, {"name": "c"}]
    assert texts(checks.errors(AT, {"items": many})) == ["spec.items: Too many: 3: must have at most 2 items"]


def test_items_meet_their_stored_ones_by_what_makes_them_unique() -> None:
    item = Struct("x.v1.Item", (field("name", 1, STRING), field("on", 2, BOOL)))
    holder = Struct("x.v1.Holder", (field("items", 1, ListOf(item), limits=Limits(unique="name")),))
    rules = Rules()
    rules.set(item, lambda at: [] if at.old == at.value else [invalid(at.path, None, "changed")])
    stored = {"items": [{"name": "a"}, {"name": "b", "on": True}]}
    given = {"items": [{"name": "b"}, {"name": "c"}, {"name": "a"}]}
    expected = ["spec.items[0]: Invalid value: null: changed", "spec.items[1]: Invalid value: null: changed"]
    assert texts(rules.of(holder).errors(AT, given, None, stored)) == expected


def test_what_tells_quickly_that_items_fit_is_asked_first() -> None:
    holder = Struct("x.v1.Holder", (field("items", 1, ListOf(ITEM)),))
    rules = Rules()
    rules.set(ITEM, "name", fits=lambda env: (lambda item: bool(item["name"])) if env else None)
    value = {"items": [{"name": "NO"}]}
    assert rules.of(holder).errors(AT, value, True) == []
    assert len(rules.of(holder).errors(AT, value, False)) == 1


def test_a_rule_of_a_field_is_asked_where_the_field_is_set() -> None:
    rule = ("a", lambda at: [invalid(at.path, at.value["a"], "no")])
    assert texts(outer(rule, by_rules=("b", "items")).errors(AT, {"a": "x"})) == ['spec: Invalid value: "x": no']
    assert outer(rule, by_rules=("b", "items")).errors(AT, {}) == []


def test_steps_that_come_after_the_checks_are_an_error() -> None:
    rules = Rules()
    rules.of(ITEM)
    with pytest.raises(ValueError, match="Item: its checks are made already"):
        rules.set(ITEM, "name")
