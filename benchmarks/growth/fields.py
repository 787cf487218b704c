"""A case for every list, map and text of every served kind: an object with n items or n characters there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from apiserver.api.schema.language import ListOf, MapOf, Scalar, Struct, Type
from apiserver.registry.definition.resource import Resource
from apiserver.request.messages import Request
from apiserver.resources import CATALOG
from benchmarks.growth.measure import Case, build_request, no_requests

#: Types contain each other. Deeper than this there are no new ones.
_DEPTH = 9
_TEXTS = {"string": "a1-(", "quantity": "1", "bytes": "A", "time": "1", "duration": "1", "intOrString": "1"}


def cases() -> Iterator[Case]:
    """Yield cases for lists with distinct items, lists with equal items, maps and texts; sent by POST, as a dry run."""
    for resource in CATALOG:
        if not resource.versions:
            continue
        version = resource.versions[0]
        api = f"/apis/{resource.group}" if resource.group else "/api"
        where = "/namespaces/default" if resource.namespaced else ""
        path = f"{api}/{version.name}{where}/{resource.plural}"
        for field, type_ in _paths(version.schema, (), ()):
            for label, value in _growing(type_):
                yield Case(
                    f"{resource.plural} {'.'.join(field)} {label}",
                    no_requests,
                    _PostField(resource, path, field, value),
                )


class _PostField:
    def __init__(self, resource: Resource, path: str, field: tuple[str, ...], value: _GrowingValue) -> None:
        self._resource, self._path, self._field, self._value = resource, path, field, value

    def __call__(self, size: int) -> Request:
        value: Any = self._value(size)
        for step in reversed(self._field):
            value = [value] if step == "[]" else {step: value}
        if isinstance(value.get("metadata", {}), dict):
            value = {**value, "metadata": {"name": "x", **value.get("metadata", {})}}
        return build_request("POST", self._path, orjson.dumps(value), query="dryRun=All")


class _GrowingValue:
    """A value of a size. `alike`: all its items are equal."""

    def __init__(self, type_: Type, letter: str = "", *, alike: bool = False) -> None:
        self._type, self._letter, self._alike = type_, letter, alike

    def __call__(self, size: int) -> Any:
        if isinstance(self._type, MapOf):
            return {f"k{at}": _item(self._type.value, at) for at in range(size)}
        if isinstance(self._type, ListOf):
            return [_item(self._type.item, 0 if self._alike else at) for at in range(size)]
        return self._letter * size


def _growing(type_: Type) -> Iterator[tuple[str, _GrowingValue]]:
    if isinstance(type_, MapOf):
        yield "map", _GrowingValue(type_)
    elif isinstance(type_, ListOf):
        yield "list", _GrowingValue(type_)
        yield "list of equals", _GrowingValue(type_, alike=True)
    elif isinstance(type_, Scalar) and type_.name in _TEXTS and not type_.enum:
        for letter in _TEXTS[type_.name]:
            yield f"text {letter}", _GrowingValue(type_, letter)


def _item(type_: Type, number: int) -> Any:
    """Build a small value. Texts and numbers are distinct per item."""
    if isinstance(type_, Struct):
        return {
            name: _item(field.type, number)
            for name, field in type_.fields.items()
            if isinstance(field.type, Scalar) and field.type.name in ("string", "int32", "int64", "intOrString")
        }
    if isinstance(type_, ListOf):
        return [_item(type_.item, number)]
    if isinstance(type_, MapOf):
        return {f"k{number}": _item(type_.value, number)}
    if type_.enum:
        return type_.enum[0]
    if type_.name in ("int32", "int64", "float64", "quantity", "intOrString"):
        return number % 60_000
    return {"bool": True, "bytes": "AAAA", "raw": {}, "fieldsV1": {}, "any": {}}.get(type_.name, f"v{number}")


def _paths(type_: Type, path: tuple[str, ...], seen: tuple[Struct, ...]) -> Iterator[tuple[tuple[str, ...], Type]]:
    """Yield every place of a type that can grow, with its path."""
    if not isinstance(type_, Struct):
        if path:
            yield path, type_
        if isinstance(type_, ListOf):
            yield from _paths(type_.item, (*path, "[]"), seen)
        elif isinstance(type_, MapOf):
            yield from _paths(type_.value, (*path, "k"), seen)
        return
    if type_ in seen or len(path) > _DEPTH:
        return
    for name, field in type_.fields.items():
        if name not in ("kind", "apiVersion"):
            yield from _paths(field.type, (*path, name), (*seen, type_))
