"""How errors show what a JSON patch or a merge patch makes of an object: in the order of keys that Go's code leaves.

An object is encoded in the order of its type's fields. The patching library takes apart what a patch reaches, and puts
that together again with its keys sorted; all else stays as it was. Source: gopkg.in/evanphx/json-patch.v4.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from apiserver.api.objects import Json
from apiserver.api.schema.language import ListOf, MapOf, Struct, Type

__all__ = ["shown_json_patched", "shown_merged"]


def shown_json_patched(
    schema: Type | None, document: Any, operations: list[Json | None], apply: Callable[[Any], Any]
) -> str:
    """What a JSON patch made, as JSON. `schema` is the type of the object, None where it has none (a custom object);
    `apply` patches what it is given.
    """
    reached: Json = {}
    for operation in operations:
        for name in ("path", "from"):
            pointer = (operation or {}).get(name)
            node = reached
            for step in pointer.split("/")[1:-1] if isinstance(pointer, str) else ():
                node = node.setdefault(step.replace("~1", "/").replace("~0", "~"), {})
    return _text(_taken_apart(apply(_in_order(schema, document)), reached))


def shown_merged(schema: Type | None, document: Any, patch: Any, apply: Callable[[Any], Any]) -> str:
    """As `shown_json_patched`, of a merge patch."""
    return _text(_taken_apart(apply(_in_order(schema, document)), patch))


def _text(value: Any) -> str:
    text = orjson.dumps(value).decode()
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _taken_apart(value: Any, reached: Any) -> Any:
    """A value with its keys sorted as far as something below it was reached."""
    if not isinstance(reached, dict):
        return value
    if isinstance(value, dict):
        return {name: _taken_apart(part, reached.get(name)) for name, part in sorted(value.items())}
    if isinstance(value, list):
        return [_taken_apart(part, reached.get(str(index))) for index, part in enumerate(value)]
    return value


def _in_order(schema: Type | None, value: Any) -> Any:
    """A value with its fields in the order of its type, maps sorted."""
    if isinstance(value, dict):
        fields = schema.fields if isinstance(schema, Struct) else {}
        order = [name for name in fields if name in value]
        rest = sorted(name for name in value if name not in fields)
        return {name: _in_order(_below(schema, name), value[name]) for name in (*order, *rest)}
    if isinstance(value, list):
        item = schema.item if isinstance(schema, ListOf) else None
        return [_in_order(item, part) for part in value]
    return value


def _below(schema: Type | None, name: str) -> Type | None:
    if isinstance(schema, Struct):
        return schema.fields[name].type if name in schema.fields else None
    return schema.value if isinstance(schema, MapOf) else None
