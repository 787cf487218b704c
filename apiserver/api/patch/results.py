"""The result of a JSON patch or merge patch as errors show it: with keys in the order of Go's code.

An object is encoded in the field order of its type. The patching library decodes the parts that a patch reaches and
encodes them with sorted keys; the other parts are unchanged. Source: gopkg.in/evanphx/json-patch.v4.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from apiserver.api.objects import Json
from apiserver.api.schema.language import ListOf, MapOf, Struct, Type

__all__ = ["render_json_patched", "render_merged"]


def render_json_patched(
    schema: Type | None, document: Any, operations: list[Json | None], apply: Callable[[Any], Any]
) -> str:
    """Return the result of a JSON patch as JSON.

    `schema` is the object's type, None for a custom object. `apply` patches its argument.
    """
    reached: Json = {}
    for operation in operations:
        for name in ("path", "from"):
            pointer = (operation or {}).get(name)
            node = reached
            for step in pointer.split("/")[1:-1] if isinstance(pointer, str) else ():
                node = node.setdefault(step.replace("~1", "/").replace("~0", "~"), {})
    return _text(_sort_reached(apply(_order_fields(schema, document)), reached))


def render_merged(schema: Type | None, document: Any, patch: Any, apply: Callable[[Any], Any]) -> str:
    """Return the result of a merge patch as JSON, as `render_json_patched` does."""
    return _text(_sort_reached(apply(_order_fields(schema, document)), patch))


def _text(value: Any) -> str:
    text = orjson.dumps(value).decode()
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _sort_reached(value: Any, reached: Any) -> Any:
    """Return a value with sorted keys in the parts that the patch reaches."""
    if not isinstance(reached, dict):
        return value
    if isinstance(value, dict):
        return {name: _sort_reached(part, reached.get(name)) for name, part in sorted(value.items())}
    if isinstance(value, list):
        return [_sort_reached(part, reached.get(str(index))) for index, part in enumerate(value)]
    return value


def _order_fields(schema: Type | None, value: Any) -> Any:
    """Return a value with fields in the order of its type and sorted maps."""
    if isinstance(value, dict):
        fields = schema.fields if isinstance(schema, Struct) else {}
        order = [name for name in fields if name in value]
        rest = sorted(name for name in value if name not in fields)
        return {name: _order_fields(_member_type(schema, name), value[name]) for name in (*order, *rest)}
    if isinstance(value, list):
        item = schema.item if isinstance(schema, ListOf) else None
        return [_order_fields(item, part) for part in value]
    return value


def _member_type(schema: Type | None, name: str) -> Type | None:
    if isinstance(schema, Struct):
        return schema.fields[name].type if name in schema.fields else None
    return schema.value if isinstance(schema, MapOf) else None
