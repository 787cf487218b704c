"""Builders of the parts of the JSON schema of scenario files (`language`)."""

from __future__ import annotations

from typing import Any, Final

from kubedra.runtime.objects import Json

__all__ = [
    "COUNT", "DURATION", "OBJECT", "TARGET", "TARGETS", "VALUES", "choice", "flag", "items", "mapping", "number",
    "record", "step", "text", "with_text",
]  # fmt: skip

#: Values with a form of their own. `title` is what an error calls them.
DURATION: Final[Json] = {
    "title": "a duration such as 500ms, 30s, 5m, 1h30m, or a number of seconds",
    "type": ["string", "number"],
    "pattern": r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$|^0$",
    "minimum": 0,
}
TARGET: Final[Json] = {
    "title": "KIND/NAME, such as pod/web",
    "type": "string",
    "pattern": r"^[A-Za-z][A-Za-z0-9.-]*/[^/\s]+$",
}
TARGETS: Final[Json] = {
    "title": "KIND/NAME or a list of them",
    "type": ["string", "array"],
    "pattern": TARGET["pattern"],
    "items": TARGET,
    "minItems": 1,
}
COUNT: Final[Json] = {
    "title": 'a number, or a bound such as ">=2"',
    "type": ["integer", "string"],
    "pattern": r"^(<|<=|>|>=|!=)?\s*[0-9]+$",
    "minimum": 0,
}
#: Any object, such as a manifest or a merge patch.
OBJECT: Final[Json] = {"title": "an object", "type": "object"}
#: Annotations and labels; null removes one.
VALUES: Final[Json] = {
    "title": "a mapping of names to texts",
    "type": "object",
    "additionalProperties": {
        "title": "a text, a number, true, false or null",
        "type": ["string", "number", "boolean", "null"],
    },
}


def with_text(schema: Json, doc: str, **more: Any) -> Json:
    """Return a schema with the description of its field."""
    return {**schema, "description": doc, **more}


def text(doc: str, **more: Any) -> Json:
    return {"title": "a text", "type": "string", "description": doc, **more}


def number(doc: str, **more: Any) -> Json:
    return {"title": "a number", "type": "integer", "description": doc, **more}


def flag(doc: str) -> Json:
    return {"title": "true or false", "type": "boolean", "description": doc}


def choice(doc: str, *values: Any) -> Json:
    return {"title": f"one of {', '.join(map(str, values))}", "enum": list(values), "description": doc}


def items(of: Json, doc: str, **more: Any) -> Json:
    return {"title": "a list", "type": "array", "items": of, "description": doc, **more}


def mapping(of: Json, doc: str, **more: Any) -> Json:
    return {"title": "a mapping", "type": "object", "additionalProperties": of, "description": doc, **more}


def record(doc: str, fields: Json, *required: str) -> Json:
    """Return the schema of an object with these fields and no others."""
    found: Json = {"title": "a mapping", "type": "object", "description": doc, "properties": fields}
    return {**found, "additionalProperties": False, **({"required": list(required)} if required else {})}


def step(action: str, value: Json, doc: str, *required: str, **fields: Json) -> Json:
    """Return the schema of a step: its action, then the fields beside it."""
    common = {
        "name": text("shown instead of the step"),
        "fails": text("the step must fail with an error that has this text"),
    }
    return record(doc, {action: value, **fields, **common}, action, *required)
