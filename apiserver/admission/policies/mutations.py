"""The two mutations of a mutating policy: an apply configuration and a JSON patch.

Facts: apiserver, pkg/admission/plugin/policy/mutating/patch.
"""

from __future__ import annotations

import base64
from typing import Any

from apiserver.api.objects import Json
from apiserver.api.patch.errors import PatchError
from apiserver.api.patch.jsonpatch import json_patch
from apiserver.api.schema.language import DEDUCED, ListOf, MapOf, Struct, Type
from apiserver.cel.language.messages import OBJECT, Record
from apiserver.cel.language.values import Duration, Timestamp, type_name
from apiserver.cel.library.conversions import duration_text, timestamp_text
from apiserver.registry.fields.merge import check, merge

__all__ = ["MutationError", "apply_configuration", "apply_json_patch"]


_TEST_FAILED = "test failed"
#: Larger integers lose precision in some JSON parsers, so they are written as strings.
_SAFE = 1 << 53


class MutationError(Exception):
    """Error: a mutation cannot be applied. The text gives the reason."""


def _mismatches(value: Any, path: str) -> list[str]:
    """Return an error for each object whose type name differs from its field path."""
    found: list[str] = []
    if isinstance(value, Record):
        if value.type_name != path:
            found.append(
                f'unexpected type name "{value.type_name}", expected "{path}", which matches field name path from root'
                " Object type"
            )
        for name, item in value.items():
            found += _mismatches(item, f"{path}.{name}")
    elif isinstance(value, dict):
        for item in value.values():
            found += _mismatches(item, path)
    elif isinstance(value, list | tuple):
        for item in value:
            found += _mismatches(item, path)
    return found


def _json(value: Any) -> Any:
    """Convert a CEL value to JSON. Raise MutationError."""
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise MutationError(f'map key "{key}" is of type {type_name(key)}, not string')
        return {key: _json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json(item) for item in value]
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return str(int(value)) if abs(value) >= _SAFE else int(value)
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < _SAFE else value
    if isinstance(value, Timestamp):
        return timestamp_text(value)
    if isinstance(value, Duration):
        return duration_text(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise MutationError(f"a value of type {type_name(value)} could not be marshaled to JSON")


def apply_configuration(schema: Struct, before: Json, value: Any) -> Json:
    """Apply a configuration without a manager to an object. Raise MutationError."""
    if wrong := _mismatches(value, OBJECT.name):
        raise MutationError("type mismatch: " + "\n".join(wrong))
    configuration = {**_json(value), "kind": before["kind"], "apiVersion": before["apiVersion"]}
    if text := check(schema, configuration):
        raise MutationError(f"error applying patch: failed to convert patch object to typed object: {text}")
    if atomic := _atomics(schema, configuration, "", granular=True):
        text = f"may not mutate atomic arrays, maps or structs: {', '.join(atomic)}"
        raise MutationError(f"error applying patch: invalid ApplyConfiguration: {text}")
    if text := check(schema, before, allows_duplicates=True):
        raise MutationError(f"error applying patch: failed to convert original object to typed object: {text}")
    made: Json = merge(schema, before, configuration)
    return made


def _atomics(type_: Type, value: Any, path: str, *, granular: bool) -> list[str]:
    """Return the paths of a value's atomic parts. An apply of some of them would remove the rest.

    With `granular` the parent field is not atomic.
    """
    found: list[str] = []
    if isinstance(value, dict):
        if isinstance(type_, Struct):
            found += [path] if type_.atomic or not granular else []
            for name, item in value.items():
                declared = type_.fields.get(name)
                if declared is not None:
                    found += _atomics(declared.type, item, f"{path}.{name}", granular=not declared.atomic)
        elif isinstance(type_, MapOf):
            found += [path] if type_.atomic or not granular else []
    elif isinstance(value, list):
        if type_ is DEDUCED or (isinstance(type_, ListOf) and (type_.kind in ("atomic", "") or not granular)):
            found.append(path)
        if isinstance(type_, ListOf):
            for index, item in enumerate(value):
                found += _atomics(type_.item, item, f"{path}[{index}]", granular=True)
    return found


def apply_json_patch(before: Json, value: Any) -> Json:
    """Apply a JSON patch to an object. Return it unchanged if a test operation fails.

    Raises MutationError.
    """
    operations = []
    for given in value:
        operation = {"op": given.get("op", ""), "path": given.get("path", "")}
        if given.get("from"):
            operation["from"] = given["from"]
        if "value" in given:
            if isinstance(given["value"], Record) and (wrong := _mismatches(given["value"], given["value"].type_name)):
                raise MutationError("type mismatch: " + "\n".join(wrong))
            operation["value"] = _json(given["value"])
        operations.append(operation)
    try:
        made: Json = json_patch(before, operations)
    except PatchError as error:
        if error.text.endswith(_TEST_FAILED):
            return before
        raise MutationError(f"JSON Patch: {error.text}") from None
    return made
