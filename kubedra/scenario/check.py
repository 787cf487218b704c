"""Check a scenario against its schema: one line per problem, with file, line and the most similar key.

Supports the part of JSON Schema that `language` uses. A test compares it with a complete validator.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from kubedra.runtime.objects import Json
from kubedra.runtime.user_settings import suggest
from kubedra.scenario.document import Document, Location, ScenarioError
from kubedra.scenario.language import ACTIONS, SCHEMA

__all__ = ["check", "check_part", "find_action"]

#: A problem: location and message.
Problem = tuple[Location, str]


def check(document: Document) -> None:
    """Raise ScenarioError if the document is not a scenario."""
    problems = [document.problem(where, message) for where, message in _check(document.value, SCHEMA, ())]
    if problems:
        raise ScenarioError("\n".join(dict.fromkeys(problems)))


def check_part(document: Document, key: str) -> None:
    """Raise ScenarioError if the value of a top-level key has another form."""
    if key in document.value:
        for where, message in _check(document.value[key], SCHEMA["properties"][key], (key,)):
            raise document.error(where, message)


def find_action(step: Json) -> str:
    """Return the action of a checked step."""
    return next(action for action in ACTIONS if action in step)


def _resolve(schema: Json) -> Json:
    while "$ref" in schema:
        schema = SCHEMA["definitions"][schema["$ref"].rpartition("/")[2]]
    return schema


def _check(value: Any, schema: Json, where: Location) -> Iterator[Problem]:
    schema = _resolve(schema)
    if "oneOf" in schema:
        yield from _check_step(value, schema, where)
    elif not _has_form(value, schema):
        yield where, f"{_name(where)} is {_describe(value)}; expected {schema['title']}{_hint(value, schema)}"
    elif isinstance(value, dict):
        yield from _check_fields(value, schema, where)
    elif isinstance(value, list):
        if "minItems" in schema and len(value) < schema["minItems"]:
            yield where, f"{_name(where)} is empty"
        for index, each in enumerate(value):
            yield from _check(each, schema.get("items", {}), (*where, index))


def _check_step(value: Any, schema: Json, where: Location) -> Iterator[Problem]:
    if not isinstance(value, dict):
        yield where, f"{_name(where)} is {_describe(value)}; expected {schema['title']}, such as `apply: pods.yaml`"
        return
    named = [action for action in ACTIONS if action in value]
    if not named:
        keys = [key for key in value if key != "name"]
        given = f" but {', '.join(keys)}" if keys else ""
        hint = next(filter(None, (suggest(key, ACTIONS) for key in keys)), f"; use one of {', '.join(ACTIONS)}")
        yield where, f"{_name(where)} has no action{given}{hint}"
    elif len(others := [action for action in named if action not in ACTIONS[named[0]]["properties"]]) > 0:
        yield where, f"{_name(where)} has the actions {named[0]} and {others[0]}; write two steps"
    else:
        yield from _check_fields(value, ACTIONS[named[0]], where, f"{named[0]}: ")


def _check_fields(value: Json, schema: Json, where: Location, of: str = "") -> Iterator[Problem]:
    fields, more = schema.get("properties", {}), schema.get("additionalProperties", True)
    for key in schema.get("required", ()):
        if key not in value:
            yield where, f"{of or _name(where) + ' '}{key} is missing"
    for key, each in value.items():
        if key in fields:
            yield from _check(each, fields[key], (*where, key))
        elif isinstance(more, dict):
            yield from _check(each, more, (*where, key))
        elif not more:
            hint = suggest(key, fields) or f"; known are {', '.join(fields)}"
            yield (*where, key), f"{of}unknown key {key}{hint}"


def _has_form(value: Any, schema: Json) -> bool:
    if "enum" in schema:
        return any(value == each and type(value) is type(each) for each in schema["enum"])
    types = schema.get("type")
    if types is not None and not any(_is_type(value, each) for each in ([types] if isinstance(types, str) else types)):
        return False
    if isinstance(value, str):
        return "pattern" not in schema or re.search(schema["pattern"], value) is not None
    if isinstance(value, int | float):
        return bool(schema.get("minimum", value) <= value <= schema.get("maximum", value))
    return True


def _is_type(value: Any, name: str) -> bool:
    match name:
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "string" | "boolean" | "object" | "array":
            return isinstance(value, {"string": str, "boolean": bool, "object": dict, "array": list}[name])
    return value is None


def _name(where: Location) -> str:
    """Return a location as people read it: `steps[2].timeout`, counted from 1."""
    text = ""
    for each in where:
        text += f"[{each + 1}]" if isinstance(each, int) else f".{each}" if text else each
    return text or "the scenario"


def _describe(value: Any) -> str:
    match value:
        case None:
            return "empty"
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case bool():
            return str(value).lower()
        case str():
            return repr(value if len(value) <= 60 else f"{value[:60]}…")
    return str(value)


def _hint(value: Any, schema: Json) -> str:
    return suggest(value, map(str, schema["enum"])) if "enum" in schema and isinstance(value, str) else ""
