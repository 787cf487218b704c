"""Vary two fields of one object at a time, in a seed that is valid without them.

Only such pairs show rules about two fields, such as a container port on the host network. Random walks through the
schema draw the fields: shallow fields occur as often as the many deep ones, and most pairs have a common parent. Most
values are values that the server accepts alone (`tools.fuzz.fields`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from math import log2
from random import Random
from typing import Any, Final

from apiserver.api.objects import Json
from apiserver.api.schema.language import ListOf, MapOf, Scalar, Struct, Type
from apiserver.registry.definition.resource import Resource, Version
from tools.fuzz.fields import FieldCase, Step, build_requests, values_of
from tools.fuzz.requests import Requests

#: Maximum steps of a walk: as deep as the port of a container in the template of a CronJob's Job.
_DEPTH: Final = 14
#: Probability that a walk ends at a field with fields of its own.
_ENDS: Final = 0.12
#: Probability that the second field is below a parent of the first.
_RELATED: Final = 0.6
#: Probability that a value is drawn without being accepted alone.
_ANY: Final = 0.15
_TRIES: Final = 8
#: Depth down to which fields count for the weight of a parent, and the weight of the status.
_COUNTED: Final = 6
_RARE: Final = 0.5
_HEAD: Final = ("apiVersion", "kind", "metadata")


@dataclass(frozen=True, slots=True)
class Field:
    """The steps to a field, and its type."""

    path: tuple[Step, ...]
    type: Type

    @property
    def values(self) -> list[Any]:
        """Return its values without the empty ones, which differ on their own (docs/data/fidelity/requests.md)."""
        collects = isinstance(self.type, ListOf | MapOf) or (
            isinstance(self.type, Scalar) and self.type.name == "bytes"
        )
        return [value for value in values_of(self.type) if value or not collects]


#: A function that sends a case and returns whether the server accepts it.
Accepts = Callable[[FieldCase], bool]


def pairs(seed: int, count: int, accepts: Accepts, kinds: str = "", first: int = 0) -> Iterator[FieldCase]:
    """Yield the requests of `count` pairs; a pair depends only on the seed and its number.

    Args:
        seed: the seed of all choices.
        count: the number of pairs; each is a creation and an update.
        accepts: called with a creation of a single field.
        kinds: a pattern of GROUP/VERSION/PLURAL.
        first: the number of the first pair.
    """
    targets = [
        (resource, version, obj)
        for resource, version, obj in Requests(1).targets
        if obj is not None and re.search(kinds, f"{resource.group}/{version.name}/{resource.plural}")
    ]
    weights = [log2(1 + _leaves(version.schema, _COUNTED)) for _, version, _ in targets]
    single = _Single(accepts)
    for number in range(first, first + count):
        random = Random(f"{seed}/{number}")
        resource, version, obj = random.choices(targets, weights)[0]
        one, two = _two_fields(random, version.schema)
        drawn = [(field, single.value(random, resource, version, obj, field)) for field in (one, two)]
        yield from build_requests(resource, version, obj, [(list(field.path), value) for field, value in drawn])


class _Single:
    """Draws values that are accepted alone; remembers each verdict."""

    def __init__(self, accepts: Accepts) -> None:
        self._accepts, self._verdicts = accepts, dict[tuple[str, str], bool]()

    def value(self, random: Random, resource: Resource, version: Version, obj: Json, field: Field) -> Any:
        found = field.values
        value = random.choice(found)
        if random.random() < _ANY:
            return value
        for _ in range(_TRIES):
            case = next(iter(build_requests(resource, version, obj, [(list(field.path), value)])))
            key = (case.field, repr(value))
            if key not in self._verdicts:
                self._verdicts[key] = self._accepts(case)
            if self._verdicts[key]:
                break
            value = random.choice(found)
        return value


def draw_field(random: Random, schema: Type) -> Field:
    """Draw a field of an object, or a value somewhere below one."""
    return _walk(random, Field((), schema))


def _two_fields(random: Random, schema: Type) -> tuple[Field, Field]:
    """Draw two fields of which neither contains the other."""
    while True:
        one = draw_field(random, schema)
        parents = _parents(schema, one.path)
        start = random.choice(parents) if random.random() < _RELATED else parents[0]
        two = _walk(random, start)
        shorter = min(len(one.path), len(two.path))
        if one.path[:shorter] != two.path[:shorter]:
            return one, two


def _walk(random: Random, field: Field) -> Field:
    """Walk down from a field until a value without fields, or until chance ends it.

    A field with many fields below it is drawn more often.
    """
    while below := _below(field) if len(field.path) < _DEPTH else []:
        is_element = (field.path and isinstance(field.path[-1], int)) or isinstance(field.type, ListOf | MapOf)
        if field.path and not is_element and random.random() < _ENDS:
            break
        weights = [_RARE if part.path == ("status",) else log2(1 + _leaves(part.type, _COUNTED)) for part in below]
        field = random.choices(below, weights)[0]
    return field


@cache
def _leaves(kind: Type, depth: int) -> int:
    """Count the values below a type, down to a depth."""
    below = _below(Field((), kind)) if depth else []
    return sum(_leaves(part.type, depth - 1) for part in below) or 1


def _below(field: Field) -> list[Field]:
    """Return the fields of a struct, the first element of a list of structs or the key `a` of a map of structs."""
    match field.type:
        case Struct(fields=fields):
            return [
                Field((*field.path, name), part.type)
                for name, part in fields.items()
                if field.path or name not in _HEAD
            ]
        case ListOf(item=Struct() as item):
            return [Field((*field.path, 0), item)]
        case MapOf(value=Struct() as value):
            return [Field((*field.path, "a"), value)]
    return []


def _parents(schema: Type, path: tuple[Step, ...]) -> list[Field]:
    """Return the object and the structs on the way to a field."""
    found, here = [Field((), schema)], Field((), schema)
    for step in path[:-1]:
        here = next(field for field in _below(here) if field.path[-1] == step)
        if isinstance(here.type, Struct):
            found.append(here)
    return found
