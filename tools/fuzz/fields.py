"""Vary each field of each kind: a seed with one value in one field is created and updated in a dry run.

Any error is due to that field, so that two servers can receive the same requests and their answers can be compared
(`tools.fuzz.beside`). The values of a type are those at the limits of rules: empty, too long, of another form,
negative.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final

from apiserver.api.objects import Json
from apiserver.api.schema.language import ListOf, MapOf, Scalar, Struct, Type
from apiserver.registry.definition.resource import Resource, Version
from tools.fuzz.requests import Requests

Step = str | int

#: The depth of the fields below an object. A recursive type is entered twice.
DEPTH: Final = 7
_ENTERED: Final = 2
#: The object of the seeds, and the created one.
_STORED, _NEW = "a", "z"
_DRY: Final = "?dryRun=All"

_TEXTS: Final = ("a", "", "A", "a-b", "a.b", "a/b", "example.com/x", "-a", "1", "a" * 64, "10.0.0.1", "k=v", "a_b", "é")
_VALUES: Final[dict[str, tuple[Any, ...]]] = {
    "string": _TEXTS,
    "bool": (True, False),
    "int32": (0, 1, -1, 300, 65536, 2**31 - 1),
    "int64": (0, 1, -1, 300, 65536, 2**40),
    "float64": (0, 1.5),
    "bytes": ("", "YWJj"),
    "time": ("2026-01-01T00:00:00Z",),
    "microTime": ("2026-01-01T00:00:00.000000Z",),
    "duration": ("1s", "0s", "1h", "-1h"),
    "quantity": ("0", "1", "-1", "100m", "1.5", "1Gi"),
    "intOrString": (0, 1, -1, 70000, "50%", "101%", "http", ""),
    "raw": ({"a": 1}, {}, "x"),
    "fieldsV1": ({"f:a": {}},),
    "any": (1, "a", None, {}, [], True, 1.5),
}
_PLAIN: Final[dict[str, Any]] = {
    "string": "a", "bool": True, "int32": 1, "int64": 1, "float64": 1, "bytes": "YWJj", "quantity": "1", "intOrString": 1, "duration": "1s",
    "time": "2026-01-01T00:00:00Z", "microTime": "2026-01-01T00:00:00.000000Z", "raw": {"a": 1}, "fieldsV1": {}, "any": 1,
}  # fmt: skip

#: Metadata with many errors, for a whole object and for its status.
_METADATA: Final = ("metadata", "metadata of a status")
_WRONG: Final = {
    "labels": {"-": "x", "a": "-"}, "annotations": {"-": ""}, "finalizers": ["-", "x"], "ownerReferences": [{"kind": "X", "name": "", "uid": "u", "apiVersion": "v1"}],
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class FieldCase:
    """A request. `field` names the kind and the field; `body` is the object."""

    field: str
    value: Any
    method: str
    target: str
    body: Json


def cases(kinds: str = "", fields: str = "") -> Iterator[FieldCase]:
    """Yield the cases of kinds (GROUP/VERSION/PLURAL) and fields (steps joined by /) that match the patterns."""
    for resource, version, seed in Requests(1).targets:
        if seed is None or not re.search(kinds, f"{resource.group}/{version.name}/{resource.plural}"):
            continue
        for path, kind in _fields(version.schema, []):
            if re.search(fields, "/".join(map(str, path))):
                for value in values_of(kind):
                    yield from build_requests(resource, version, seed, [(path, value)])
        for field in _METADATA:
            if re.search(fields, field):
                yield from _metadata_requests(resource, version, seed, field, _WRONG)


class Fields:
    """The cases by their names."""

    def __init__(self) -> None:
        self._kinds = {
            f"{resource.group}/{version.name} {resource.plural}".removeprefix("/"): (resource, version, seed)
            for resource, version, seed in Requests(1).targets
            if seed is not None
        }
        self._paths: dict[str, dict[str, list[Step]]] = {}

    def case(self, kind: str, method: str, field: str, value: Any) -> FieldCase:
        """Return a case. `kind` is GROUP/VERSION PLURAL, `field` its steps joined by /. Raise KeyError without one."""
        resource, version, seed = self._kinds[kind]
        if field in _METADATA:
            return next(
                case for case in _metadata_requests(resource, version, seed, field, value) if case.method == method
            )
        if kind not in self._paths:
            paths = (path for path, _ in _fields(version.schema, []))
            self._paths[kind] = {"/".join(map(str, path)): path for path in paths}
        made = build_requests(resource, version, seed, [(self._paths[kind][field], value)])
        return next(case for case in made if case.method == method)


def _metadata_requests(
    resource: Resource, version: Version, seed: Json, field: str, value: Json
) -> Iterator[FieldCase]:
    """Yield requests with invalid metadata for each verb, once per validating layer."""
    api_version = f"{resource.group}/{version.name}" if resource.group else version.name
    root = f"/apis/{api_version}" if resource.group else f"/api/{api_version}"
    collection = f"{root}/{'namespaces/default/' if resource.namespaced else ''}{resource.plural}"
    below = [""] if field == "metadata" else ["/status"] * any(part.name == "status" for part in resource.subresources)
    requests = [("PUT", f"{collection}/{_STORED}{part}", _STORED) for part in below]
    for method, target, name in [*requests, *([("POST", collection, _NEW)] if field == "metadata" else [])]:
        body = {"apiVersion": api_version, "kind": resource.kind, **deepcopy(seed), "metadata": {"name": name, **value}}
        yield FieldCase(f"{api_version} {resource.plural} {field}", value, method, target + _DRY, body)


def build_requests(
    resource: Resource, version: Version, seed: Json, fields: list[tuple[list[Step], Any]]
) -> Iterator[FieldCase]:
    """Yield the creation and the update of a seed with a value in each field, as dry runs."""
    api_version = f"{resource.group}/{version.name}" if resource.group else version.name
    root = f"/apis/{api_version}" if resource.group else f"/api/{api_version}"
    collection = f"{root}/{'namespaces/default/' if resource.namespaced else ''}{resource.plural}"
    field = f"{api_version} {resource.plural} {' + '.join('/'.join(map(str, path)) for path, _ in fields)}"
    value = fields[0][1] if len(fields) == 1 else [value for _, value in fields]

    def of(name: str) -> Json:
        obj = {"apiVersion": api_version, "kind": resource.kind, "metadata": {"name": name}, **deepcopy(seed)}
        for path, value in fields:
            set_field(obj, version.schema, path, value)
        return obj

    in_status = [path[0] == "status" for path, _ in fields]
    if all(in_status) and any(part.name == "status" for part in resource.subresources):
        yield FieldCase(field, value, "PUT", f"{collection}/{_STORED}/status{_DRY}", of(_STORED))
        return
    yield FieldCase(field, value, "POST", f"{collection}{_DRY}", of(_NEW))
    # How an error shows what a forbidden update changed: an empty list or map is none in ours (docs/data/fidelity/requests.md).
    if not any(in_status) and not any(value in ([], {}) for _, value in fields):
        yield FieldCase(field, value, "PUT", f"{collection}/{_STORED}{_DRY}", of(_STORED))


def _fields(kind: Type, above: list[Step], within: tuple[int, ...] = ()) -> Iterator[tuple[list[Step], Type]]:
    """Yield the fields below a type with the steps to each: the first element of a list, the key `a` of a map."""
    if isinstance(kind, ListOf):
        if isinstance(kind.item, Struct):
            yield from _fields(kind.item, [*above, 0], within)
    elif isinstance(kind, MapOf):
        if isinstance(kind.value, Struct):
            yield from _fields(kind.value, [*above, "a"], within)
    elif isinstance(kind, Struct) and within.count(id(kind)) < _ENTERED:
        for name, field in kind.fields.items():
            if not above and name in ("apiVersion", "kind", "metadata"):
                continue
            path = [*above, name]
            yield path, field.type
            if sum(isinstance(step, str) for step in path) < DEPTH:
                yield from _fields(field.type, path, (*within, id(kind)))


def values_of(kind: Type) -> tuple[Any, ...]:
    """Return the values of a type at the limits of rules."""
    if isinstance(kind, Scalar):
        return (*sorted(kind.enum), "X", "") if kind.enum else _VALUES[kind.name]
    if isinstance(kind, ListOf):
        item = _plain(kind.item)
        return [], [item], [item, deepcopy(item)]
    if isinstance(kind, MapOf):
        return {}, *({key: _plain(kind.value)} for key in _TEXTS[:10])
    return {}, _plain(kind)


def _plain(kind: Type, depth: int = 0) -> Any:
    """Build the smallest value of a type: its required fields, in their simplest form."""
    if isinstance(kind, Scalar):
        return min(kind.enum) if kind.enum else deepcopy(_PLAIN[kind.name])
    if isinstance(kind, ListOf):
        return [_plain(kind.item, depth + 1)]
    if isinstance(kind, MapOf):
        return {"a": _plain(kind.value, depth + 1)}
    assert isinstance(kind, Struct)
    return {
        name: _plain(field.type, depth + 1)
        for name, field in kind.fields.items()
        if depth < DEPTH and (field.required or (field.limits is not None and field.limits.required))
    }


def set_field(obj: Any, kind: Type, path: list[Step], value: Any) -> None:
    """Set the value at the end of a path of an object; create its parents."""
    for place, step in enumerate(path):
        below = kind.fields[str(step)].type if isinstance(kind, Struct) else _element(kind)
        if place == len(path) - 1:
            obj[step] = deepcopy(value)
        elif isinstance(obj, list):
            obj += [] if obj else [_plain(below)]
        elif obj.get(step) is None:
            obj[step] = [] if isinstance(below, ListOf) else {} if isinstance(below, MapOf) else _plain(below)
        obj, kind = obj[step], below


def _element(kind: Type) -> Type:
    return kind.item if isinstance(kind, ListOf) else kind.value  # type: ignore[union-attr]
