"""Types with decoders of their own and several JSON forms: the parts of a custom resource's schema."""

from __future__ import annotations

import json
from typing import Any

import pytest

from apiserver.api.codec.codec import Decoded, DecodeError, decode, loads
from apiserver.api.types.apiextensions import JSONSchemaProps

TYPE_OF = "Go struct field JSONSchemaProps"


def read(schema: Any) -> Decoded:
    body = loads(json.dumps(schema).encode(), "application/json")
    return decode(JSONSchemaProps, body.value, body)


@pytest.mark.parametrize("items", [1.5, 5, "x", True, [], None])
def test_items_that_are_neither_a_schema_nor_some_are_none(items: Any) -> None:
    assert read({"type": "array", "items": items}).obj == {"type": "array"}


@pytest.mark.parametrize("items", [{"type": "string"}, [{"type": "string"}, {}]])
def test_items_are_a_schema_or_some(items: Any) -> None:
    assert read({"items": items}).obj == {"items": items}


@pytest.mark.parametrize("others", [True, False, {}, {"type": "string", "items": {"type": "string"}}])
def test_other_properties_have_a_schema_or_are_allowed_or_not(others: Any) -> None:
    assert read({"additionalProperties": others}).obj == {"additionalProperties": others}


@pytest.mark.parametrize("others", [1.5, "x", [], [{"type": "string"}]])
@pytest.mark.parametrize("name", ["additionalProperties", "additionalItems"])
@pytest.mark.parametrize("around", [None, "items", "additionalProperties"])
def test_what_is_neither_a_truth_value_nor_a_schema_ends_the_decoding(others: Any, name: str, around: str) -> None:
    """The error of the type comes before that of an earlier field."""
    schema = {"type": 5, name: others}
    with pytest.raises(DecodeError) as caught:
        read({around: schema} if around else schema)
    assert caught.value.text == "boolean or JSON schema expected"


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"items": {"type": 5}}, f"number into {TYPE_OF}.items.type of type string"),
        (
            {"items": {"properties": {"x": {"additionalProperties": {"type": []}}}}},
            f"array into {TYPE_OF}.items.properties.additionalProperties.type of type string",
        ),
        ({"items": [{}, 5]}, f"number into {TYPE_OF}.items of type v1.JSONSchemaProps"),
        ({"dependencies": {"a": [{}]}}, f"object into {TYPE_OF}.dependencies of type string"),
        # the first of two, where the second alone would end the decoding of what is around it
        ({"items": {"type": 5, "title": 6}}, f"number into {TYPE_OF}.items.type of type string"),
        ({"type": 5, "items": {"maxLength": 1.5}}, f"number 1.5 into {TYPE_OF}.items.maxLength of type int64"),
    ],
)
def test_wrong_types_within_are_told_with_their_whole_place(schema: Any, message: str) -> None:
    with pytest.raises(DecodeError) as caught:
        read(schema)
    assert caught.value.text == f"json: cannot unmarshal {message}"


def test_unknown_fields_within_are_dropped_without_a_word() -> None:
    schema = {"items": {"nope": 1, "properties": {"b": {"nope": 2, "type": "string"}}}}
    decoded = read(schema)
    assert decoded.obj == {"items": {"properties": {"b": {"type": "string"}}}}
    assert decoded.problems == []
    assert read({"nope": 1, **schema}).problems == ['unknown field "nope"']
