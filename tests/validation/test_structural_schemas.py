"""Structural schemas of custom resources: valid values cost one check, invalid ones get upstream's words."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from apiserver.api.errors.field_errors import FieldError, Path, invalid
from apiserver.api.objects import Json
from apiserver.api.validation.structural import ABSENT, Structural
from apiserver.api.validation.textforms import text_form

pytestmark = pytest.mark.integration

INT_OR_STRING = {"x-kubernetes-int-or-string": True}
KEYED: Json = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name"],
    "items": {"type": "object", "properties": {"name": {"type": "string"}, "n": {"type": "integer", "maximum": 9}}},
}


def found(part: Json, *values: Any, **more: Any) -> list[str]:
    """Return the errors of an object by a schema of spec.f, for a value of spec.f and its old value."""
    spec = {"type": "object", "properties": {"f": part}}
    schema = Structural({"type": "object", "properties": {"spec": spec}})
    objects = [{"spec": {"f": value}} for value in values]
    return [error.text for error in schema.errors(*objects, **more)]


@pytest.mark.parametrize(
    ("part", "value", "wanted"),
    [
        ({"type": "string"}, "x", None),
        ({"type": "string"}, 1, 'Invalid value: "integer": spec.f in body must be of type string: "integer"'),
        ({"type": "integer"}, True, 'Invalid value: "boolean": spec.f in body must be of type integer: "boolean"'),
        ({"type": "boolean"}, 1, 'Invalid value: "integer": spec.f in body must be of type boolean: "integer"'),
        ({"type": "number"}, 1, None),
        ({"type": "integer"}, 2.0, None),
        ({"type": "number"}, 1e20, None),
        ({"type": "object"}, [], 'Invalid value: "array": spec.f in body must be of type object: "array"'),
        ({"type": "string"}, None, 'Invalid value: "null": spec.f in body must be of type string: "null"'),
        ({"type": "string", "nullable": True}, None, None),
        ({"x-kubernetes-preserve-unknown-fields": True}, {"any": [1, None]}, None),
        (INT_OR_STRING, 1, None),
        (INT_OR_STRING, "50%", None),
        (INT_OR_STRING, 1.5, 'Invalid value: "number": spec.f in body must be of type integer,string: "number"'),
        ({"type": "string", "maxLength": 2}, "äöü", "Too long: may not be more than 2 bytes"),
        ({"type": "string", "maxLength": 3}, "äöü", None),
        ({"type": "string", "minLength": 1}, "", 'Invalid value: "": spec.f in body should be at least 1 chars long'),
        ({"type": "string", "pattern": "^a+$"}, "b", "Invalid value: \"b\": spec.f in body should match '^a+$'"),
        ({"type": "string", "pattern": "a"}, "bab", None),
        ({"type": "string", "enum": ["a", "b"]}, "c", 'Unsupported value: "c": supported values: "a", "b"'),
        ({"type": "integer", "enum": [1, 2]}, 3, 'Unsupported value: 3: supported values: "1", "2"'),
        ({"type": "integer", "enum": [1]}, 1, None),
        ({"type": "integer", "minimum": 1}, 0, "Invalid value: 0: spec.f in body should be greater than or equal to 1"),
        ({"type": "integer", "minimum": 1, "exclusiveMinimum": True}, 1, "Invalid value: 1: spec.f in body should be greater than 1"),
        ({"type": "integer", "maximum": 9}, 10, "Invalid value: 10: spec.f in body should be less than or equal to 9"),
        ({"type": "number", "maximum": 1.5, "exclusiveMaximum": True}, 1.5, "Invalid value: 1.5: spec.f in body should be less than 1.5"),
        ({"type": "integer", "multipleOf": 3}, 10, "Invalid value: 10: spec.f in body should be a multiple of 3"),
        ({"type": "number", "multipleOf": 0.1}, 0.3, None),
        ({"type": "number", "multipleOf": 0.5}, 0.0, None),
        (
            {"type": "number", "multipleOf": 0.5},
            1,
            "Invalid value: 0: factor MultipleOf declared for spec.f must be positive: 0",
        ),
        ({"type": "number", "multipleOf": 0.5}, 1e300, "Invalid value: 1e+300: spec.f in body should be a multiple of 0.5"),
        ({"type": "integer", "format": "int32"}, 2**31, '<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec.f'),
        ({"type": "string", "format": "ipv4"}, "::1", 'Invalid value: "::1": spec.f in body must be of type ipv4: "::1"'),
        ({"type": "string", "format": "date-time"}, "2024-02-29T10:00:00Z", None),
        ({"type": "string", "format": "of-another-world"}, "x", None),
        ({"type": "array", "maxItems": 1}, [1, 2], "Too many: 2: must have at most 1 item"),
        ({"type": "array", "minItems": 1}, [], "Invalid value: 0: spec.f in body should have at least 1 items"),
        ({"type": "array", "uniqueItems": True}, [1, True, 1], 'Invalid value: "": spec.f in body shouldn\'t contain duplicates'),
        ({"type": "array", "uniqueItems": True}, [1, True], None),
        ({"type": "array", "items": {"type": "string"}}, ["a", 1], 'spec.f[1]: Invalid value: "integer": spec.f[1] in body must be of type string: "integer"'),
        ({"type": "object", "maxProperties": 1}, {"a": 1, "b": 2}, "Too many: 2: must have at most 1 item"),
        ({"type": "object", "minProperties": 1}, {}, "Invalid value: 0: spec.f in body should have at least 1 properties"),
        ({"type": "object", "required": ["r"]}, {}, "spec.f.r: Required value"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, {"k": "v"}, 'spec.f.k: Invalid value: "string": spec.f.k in body must be of type integer: "string"'),
        ({"type": "object", "additionalProperties": False}, {"k": 1}, 'Invalid value: "k": spec.f.k in body is a forbidden property'),
        ({"type": "integer", "allOf": [{"minimum": 1}]}, 1, None),
        ({"type": "integer", "not": {"enum": [1]}}, 1, '<nil>: Invalid value: "": "spec.f" must not validate the schema (not)'),
    ],
)  # fmt: skip
def test_a_value_is_judged_in_upstreams_words(part: Json, value: Any, wanted: str | None) -> None:
    expected = [] if wanted is None else [wanted if wanted.startswith(("spec.", "<nil>")) else f"spec.f: {wanted}"]
    assert found(part, value) == expected


def test_several_schemas_are_told_with_the_closest_of_them() -> None:
    one = {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}
    assert found(one, {"a": 1}) == []
    assert found(one, {"a": 1, "b": 2}) == [
        '<nil>: Invalid value: "": "spec.f" must validate one and only one schema (oneOf). Found 2 valid alternatives'
    ]
    assert found(one, {})[0].endswith('"spec.f" must validate one and only one schema (oneOf). Found none valid')
    some = {"type": "integer", "anyOf": [{"minimum": 10}, {"maximum": 1}]}
    assert found(some, 11) == []
    assert found(some, 5)[0] == '<nil>: Invalid value: "": "spec.f" must validate at least one schema (anyOf)'
    every = {"type": "integer", "allOf": [{"minimum": 10}, {"maximum": 20}]}
    assert found(every, 5)[1].endswith('"spec.f" must validate all the schemas (allOf)')


def test_embedded_objects_have_a_kind_and_a_version() -> None:
    part = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
    assert found(part, {"apiVersion": "v1", "kind": "Pod"}) == []
    assert found(part, {}) == ["spec.f.apiVersion: Required value", "spec.f.kind: Required value"]
    assert found(part, {"apiVersion": "a/b/c", "kind": 1}) == [
        'spec.f.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c',
        "spec.f.kind: Invalid value: 1: must be a string",
    ]

    def metadata(path: Path, value: Json) -> list[FieldError]:
        return [invalid(path, value["name"], "no")]

    named = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "n"}}
    assert found(part, named, metadata=metadata) == ['spec.f.metadata: Invalid value: "n": no']


def test_sets_and_lists_by_keys_hold_nothing_twice() -> None:
    part = {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}}
    assert found(part, [1, 2, 1, 1]) == ["spec.f[2]: Duplicate value: 1"]
    assert found(KEYED, [{"name": "a"}, {"name": "a", "n": 1}]) == ['spec.f[1]: Duplicate value: {"name":"a"}']
    assert found(KEYED, [{"name": "a"}, {"name": "a"}], [{"name": "b"}, {"name": "b"}]) == [], "it was so before"


def test_what_has_not_changed_is_not_told_again() -> None:
    part = {"type": "object", "properties": {"a": {"type": "string", "maxLength": 1}, "b": {"type": "integer"}}}
    long, other = {"a": "long", "b": 1}, {"a": "long", "b": 2}
    assert found(part, long) == ["spec.f.a: Too long: may not be more than 1 byte"]
    assert found(part, other, long) == []
    assert found(part, {"a": "longer", "b": 1}, long) == ["spec.f.a: Too long: may not be more than 1 byte"]


def test_items_of_lists_by_keys_are_compared_with_their_stored_ones() -> None:
    stored = [{"name": "a", "n": 10}, {"name": "b", "n": 1}]
    assert found(KEYED, [{"name": "b", "n": 2}, {"name": "a", "n": 10}], stored) == []
    assert found(KEYED, [{"name": "a", "n": 11}], stored) == [
        "spec.f[0].n: Invalid value: 11: spec.f[0].n in body should be less than or equal to 9"
    ]


def test_one_is_not_true_when_values_are_compared() -> None:
    part = {"x-kubernetes-preserve-unknown-fields": True, "maxProperties": 0}
    assert found(part, {"a": 1}, {"a": 1}) == []
    assert len(found(part, {"a": 1}, {"a": True})) == 1


def ruled(**parts: Json) -> Structural:
    return Structural({"type": "object", "properties": parts})


def test_rules_are_asked_with_the_stored_value_where_one_corresponds() -> None:
    rule = {"x-kubernetes-validations": [{"rule": "self == oldSelf"}]}
    asked: list[tuple[str, Any, Any]] = []

    def hook(schema: Json, path: Path, value: Any, old: Any) -> list[FieldError]:
        asked.append((str(path), value, old))
        return [invalid(path, value, "rule")]

    items = {**KEYED["items"], **rule}
    schema = ruled(
        a={"type": "integer", **rule},
        l={**KEYED, "items": items},
        s={"type": "array", "items": {"type": "integer", **rule}},
        m={"type": "object", "additionalProperties": {"type": "integer", **rule}},
    )
    value = {"a": 1, "l": [{"name": "x"}, {"name": "y"}], "s": [1], "m": {"k": 1}}
    old = {"a": 2, "l": [{"name": "y", "n": 1}], "s": [1], "m": {"k": 0}}
    errors = schema.errors(value, old, rules=hook)
    assert asked == [
        ("a", 1, 2),
        ("l[0]", {"name": "x"}, ABSENT),
        ("l[1]", {"name": "y"}, {"name": "y", "n": 1}),
        ("s[0]", 1, ABSENT),
        ("m[k]", 1, 0),
    ]
    assert errors[0].text == "a: Invalid value: 1: rule"
    asked.clear()
    schema.errors({"a": 1}, rules=hook)
    assert asked == [("a", 1, ABSENT)]


def test_rules_are_not_asked_of_values_of_another_type() -> None:
    schema = ruled(a={"type": "integer", "x-kubernetes-validations": [{"rule": "self > 1"}]})
    errors = schema.errors({"a": "x"}, rules=lambda *_: [invalid(Path("a"), None, "asked")])
    assert errors[1].text.startswith("<nil>: Invalid value: null: some validation rules were not checked because")
    assert len(errors) == 2


def test_a_value_stands_somewhere_in_its_object() -> None:
    schema = Structural({"type": "object", "required": ["r"], "properties": {"n": {"type": "integer"}}})
    errors = schema.errors({"n": "x"}, path=Path("status"))
    assert [error.text for error in errors] == [
        'status.n: Invalid value: "string": n in body must be of type integer: "string"',
        "status.r: Required value",
    ]


def test_a_value_that_fits_is_not_walked_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    from apiserver.api.validation.nodes import Node

    schema = Structural({"type": "object", "properties": {"spec": KEYED}})
    monkeypatch.setattr(Node, "judge", lambda *_: pytest.fail("it was judged"))
    assert schema.errors({"spec": [{"name": "a", "n": 9}]}) == []


@pytest.mark.parametrize(
    ("form", "good", "bad"),
    [
        ("date", "2024-02-29", "2023-02-29"),
        ("date-time", "2024-01-01T10:00:00.5+02:00", "2024-01-01T1"),
        ("duration", "1h30m", "1 parsec"),
        ("duration", "22 ns", ""),
        ("duration", "about 3 days", "12hrs"),
        ("duration", "5Dayz!", "99999999999999999999s"),
        ("duration", "2h.", "7mx"),
        ("duration", "0" * 5000 + "1 s", "9" * 5000 + " s"),
        ("duration", "0." + "1" * 5000 + "s", "9" * 1_100_000 + "s"),
        ("duration", "-9223372036854775808ns", "9223372036854775808ns"),
        ("uuid", "123E4567-e89b-12d3-a456-426614174000", "123"),
        ("uuid4", "123e4567-e89b-42d3-a456-426614174000", "123e4567-e89b-12d3-a456-426614174000"),
        ("ipv4", "010.0.0.1", "256.0.0.1"),
        ("ipv6", "fe80::1", "10.0.0.1"),
        ("cidr", "10.0.0.0/8", "10.0.0.0/33"),
        ("mac", "00:1a:2B:3c:4d:5e", "00:1a"),
        ("byte", "aGk=", "aGk"),
        ("hostname", "a-b.example.com", "-a"),
        ("email", "a@example.com", "a"),
        ("email", "a.b@c", "a@b."),
        ("email", "é@c", ".a@b"),
        ("email", "A. <a@b> (x) (y)", "a..b@c"),
        ("email", '"q q"@b', '""@b'),
        ("email", '"a" b<a@b>', "a b<a@b"),
        ("email", "a@[IPv6:::1]", "a@[1.2.3]"),
        ("email", "a@ [1.2.3.4]", "a@b c@d"),
        ("uri", "https://example.com/x", "x"),
        ("isbn10", "0321751043", "0321751044"),
        ("isbn13", "978-0321751041", "978-0321751042"),
        ("creditcard", "4111 1111 1111 1111", "4111 1111 1111 1112"),
        ("hexcolor", "#FFF", "#FF"),
        ("rgbcolor", "rgb(255, 0, 1)", "rgb(256,0,0)"),
        ("ssn", "111-22-3333", "11-22-3333"),
        ("k8s-short-name", "a-b", "A"),
        ("k8s-long-name", "a.b", "a_b"),
    ],
)
def test_a_format_knows_its_texts(form: str, good: str, bad: str) -> None:
    test = text_form(form)
    assert test is not None
    assert test(good)
    assert not test(bad)


def test_young_formats_are_not_looked_at_before_their_release() -> None:
    assert text_form("k8s-short-name", young=False) is None
    assert text_form("nothing") is None


def test_a_schema_is_not_changed_by_compiling_it() -> None:
    schema = {"type": "object", "properties": {"l": KEYED}}
    before = deepcopy(schema)
    Structural(schema).errors({"l": [{"name": 1}]})
    assert schema == before


def test_a_number_beyond_53_bits_is_no_integer() -> None:
    first, checked = found({"type": "integer"}, 1e20)
    assert first == 'spec.f: Invalid value: "number": spec.f in body must be of type integer: "number"'
    assert checked.endswith("Checked value must be of type integer (default format) in spec.f")
    assert found({"type": "integer"}, 2.0**53) != []
    assert found({"type": "integer"}, 2.0**53 - 2) == []
