"""Checks of rules across fields, compiled from the markers of a type (`apiserver.api.schema.markers`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

from apiserver.api.errors.field_errors import FieldError, Path, forbidden, invalid, not_found, not_supported, required
from apiserver.api.objects import Json
from apiserver.api.schema.language import Field, Struct
from apiserver.api.schema.markers import (
    CHOSEN,
    OWN,
    AtMost,
    Condition,
    Conditions,
    Enum,
    Forbidden,
    If,
    Invalid,
    Marker,
    Reference,
    Required,
    Union,
    UntilError,
)
from apiserver.api.validation.scalars import FieldCheck, shown, unset

if TYPE_CHECKING:
    from apiserver.api.validation.compile import Checks

__all__ = ["Compiled", "below_marker", "compile_marker"]

Errors = list[FieldError]
#: A check, preceded by fields of which one must be present for it to apply (empty: it may always apply).
Compiled = tuple[frozenset[str], FieldCheck]
#: Tests a value: (path, value, stored value, env).
_Test = Callable[[Path, Json, Json | None, Any], bool]

_ALWAYS: Final[frozenset[str]] = frozenset()


class _Place:
    """A field that a marker names. `path`, `value` and `has` (whether it is set) are functions built for its name."""

    __slots__ = ("first", "has", "item", "name", "nothing", "path", "struct", "value")

    def __init__(self, struct: Struct, name: str) -> None:
        self.name = name
        *steps, last = name.split(".")
        self.first = steps[0] if steps else last
        for step in steps:
            within = struct.fields[step].type
            assert isinstance(within, Struct), f"{struct.kind}.{step} has no fields"
            struct = within
        self.struct = struct
        self.item: Field | None = struct.fields[last] if name else None
        self.nothing = nothing = None if self.item is None else unset(self.item)
        self.path: Callable[[Any], Any] = lambda path: path / last
        self.value: Callable[[Json], Any] = lambda value: value.get(last, nothing)
        self.has: Callable[[Json], Any] = lambda value: value.get(last)
        if not name:
            self.path = self.value = lambda value: value
        elif self.item is not None and self.item.pointer:
            self.has = lambda value: value.get(last) is not None
        for step in reversed(steps):
            self.value, self.has = _below(step, self.value), _below(step, self.has)
        if steps:
            self.path = lambda path: reduce(Path.__truediv__, [*steps, last], path)

    def shown(self, value: Json) -> Any:
        return shown(self.struct if self.item is None else self.item.type, self.value(value))


def _below(step: str, read: Callable[[Json], Any]) -> Callable[[Json], Any]:
    return lambda holder: read(holder.get(step) or {})


def below_marker(marker: Marker) -> tuple[Any, ...]:
    """Return the steps inside a marker. A marker that lists the values of a field is its check."""
    if isinstance(marker, Enum) or (
        isinstance(marker, Invalid) and any(getattr(fact, "holds", "") == "different" for fact in _facts(marker.when))
    ):
        return (marker.field,)
    if isinstance(marker, If):
        return *marker.then, *marker.otherwise
    return marker.steps if isinstance(marker, UntilError) else ()


def compile_marker(checks: Checks, marker: Marker) -> Compiled:
    """Compile a marker of the type of `checks`."""
    if isinstance(marker, Union):
        return _union(checks.struct, marker)
    if isinstance(marker, If):
        return _if(checks, marker)
    if isinstance(marker, UntilError):
        return _until_error(checks, marker)
    if isinstance(marker, Reference):
        return _reference(checks, marker)
    place, (needs, test) = _Place(checks.struct, marker.field), _test(checks, marker.when)
    if isinstance(marker, AtMost):
        return frozenset({place.first} if place.nothing is None else ()), _at_most(place, checks.struct, marker, test)
    if isinstance(marker, Forbidden) and marker.field:
        needs = frozenset({place.first})
    return needs, _cause(_say(place, marker), _applies(place, marker), test)


def _applies(place: _Place, marker: Required | Forbidden | Invalid | Enum) -> Callable[[Json], Any] | None:
    """Return the test for a marker's own field, or None if only its condition matters."""
    has, found = place.has, place.value
    if isinstance(marker, Forbidden):
        return has if marker.field else None
    if isinstance(marker, Enum):
        values = marker.values
        return lambda value: found(value) not in values
    if isinstance(marker, Required) and marker.field and not marker.anyway:
        return lambda value: not has(value)
    return None


def _cause(
    say: Callable[[Path, Json], FieldError], applies: Callable[[Json], Any] | None, test: _Test | None
) -> FieldCheck:
    def check(path: Path, value: Json, old: Json | None, env: Any, errors: Errors) -> None:
        if (test is None or test(path, value, old, env)) and (applies is None or applies(value)):
            errors.append(say(path, value))

    return check


def _say(
    place: _Place, marker: Required | Forbidden | Invalid | Enum, chosen: tuple[str, ...] = ()
) -> Callable[[Path, Json], FieldError]:
    """Return the function that builds a marker's error. `chosen` are the members of a union."""
    at = place.path
    if isinstance(marker, Required):
        return lambda path, value: required(at(path), marker.words)
    if isinstance(marker, Forbidden):
        return lambda path, value: forbidden(at(path), marker.words)
    if isinstance(marker, Enum):
        return lambda path, value: not_supported(at(path), place.shown(value), marker.values)
    if marker.shown is OWN:
        return lambda path, value: invalid(at(path), place.shown(value), marker.words)
    if marker.shown is CHOSEN:
        members = [_Place(place.struct, name) for name in chosen]
        return lambda path, value: invalid(
            at(path), f"{{{', '.join(member.name for member in members if member.has(value))}}}", marker.words
        )
    return lambda path, value: invalid(at(path), marker.shown, marker.words)


# --- conditions
# ----------------------------------------------------------------------------------------------------------------------


def _test(checks: Checks, when: Conditions) -> tuple[frozenset[str], _Test | None]:
    """Compile conditions. Return fields of which one must be present for all to be met, and the test."""
    found = [
        _condition(checks.struct, each) if isinstance(each, Condition) else _code(checks, each) for each in _facts(when)
    ]
    if len(found) < 2:
        return found[0] if found else (_ALWAYS, None)
    (_, first), (_, second), *others = found
    needs = next((needs for needs, _ in found if needs), _ALWAYS)
    if not others:
        return needs, lambda path, value, old, env: first(path, value, old, env) and second(path, value, old, env)
    return needs, lambda path, value, old, env: all(test(path, value, old, env) for _, test in found)


def _facts(when: Conditions) -> tuple[Any, ...]:
    return when if isinstance(when, tuple) and not isinstance(when, Condition) else (when,)


def _code(checks: Checks, decide: Callable[[Any], bool]) -> tuple[frozenset[str], _Test]:
    return _ALWAYS, lambda path, value, old, env: decide(checks.at(path, value, env, old))


def _condition(struct: Struct, condition: Condition) -> tuple[frozenset[str], _Test]:
    if condition.holds == "env":
        (decide,) = condition.values
        return _ALWAYS, lambda path, value, old, env: decide(env)
    holds, values, places = condition.holds, condition.values, [_Place(struct, name) for name in condition.fields]
    first, tests = places[0], [place.has for place in places]
    has, found, needs = first.has, first.value, frozenset({first.first})
    if holds == "set":
        if len(places) == 1:
            return needs, lambda path, value, old, env: has(value)
        return needs, lambda path, value, old, env: all(each(value) for each in tests)
    if holds == "any":
        any_of = frozenset(place.first for place in places)
        return any_of, lambda path, value, old, env: any(each(value) for each in tests)
    if holds == "unset":
        if len(places) == 1:
            return _ALWAYS, lambda path, value, old, env: not has(value)
        return _ALWAYS, lambda path, value, old, env: not any(each(value) for each in tests)
    if holds == "equal":
        wanted = _ALWAYS if first.nothing in values else needs
        return wanted, lambda path, value, old, env: found(value) in values
    return needs if first.nothing in values else _ALWAYS, lambda path, value, old, env: found(value) not in values


# --- the other markers
# ----------------------------------------------------------------------------------------------------------------------


def _union(struct: Struct, marker: Union) -> Compiled:
    members, none, many = [_Place(struct, name) for name in marker.members], marker.none, marker.many
    say_none = None if none is None else _say(_Place(struct, none.field), none)
    say_many = None if many is None else _say(_Place(struct, many.field), many, marker.members)
    tests = [member.has for member in members]

    def check(path: Path, value: Json, old: Json | None, env: Any, errors: Errors) -> None:
        given = 0
        for has in tests:
            if has(value):
                given += 1
        if not given:
            if say_none is not None:
                errors.append(say_none(path, value))
        elif given > 1 and say_many is not None:
            errors.append(say_many(path, value))

    return _ALWAYS if none is not None else frozenset(member.first for member in members), check


def _at_most(place: _Place, struct: Struct, marker: AtMost, test: _Test | None) -> FieldCheck:
    other = _Place(struct, marker.most) if isinstance(marker.most, str) else None

    def check(path: Path, value: Json, old: Json | None, env: Any, errors: Errors) -> None:
        number, most = place.value(value), marker.most if other is None else other.value(value)
        if number is not None and most is not None and number > most and (test is None or test(path, value, old, env)):
            errors.append(invalid(place.path(path), number, marker.words.replace("{}", str(most))))

    return check


def _reference(checks: Checks, marker: Reference) -> Compiled:
    place = _Place(checks.struct, marker.field)

    def check(path: Path, value: Json, old: Json | None, env: Any, errors: Errors) -> None:
        if place.has(value) and place.value(value) not in marker.among(checks.at(path, value, env, old)):
            name, at = place.shown(value), place.path(path)
            errors.append(invalid(at, name, marker.words) if marker.words else not_found(at, name))

    return frozenset({place.first}), check


def _if(checks: Checks, marker: If) -> Compiled:
    needs, test = _test(checks, marker.when)
    below = [[checks.step(step) for step in steps] for steps in (marker.then, marker.otherwise)]
    then, otherwise = ([step for _, step in steps] for steps in below)

    def check(path: Path, value: Json, old: Json | None, env: Any, errors: Errors) -> None:
        for step in then if test is None or test(path, value, old, env) else otherwise:
            step(path, value, old, env, errors)

    return _needs(below[0] + below[1]) if otherwise else needs or _needs(below[0]), check


def _needs(steps: list[Compiled]) -> frozenset[str]:
    """Return fields of which one must be present for any step to apply; empty if a step may always apply."""
    return frozenset().union(*(needs for needs, _ in steps)) if all(needs for needs, _ in steps) else _ALWAYS


def _until_error(checks: Checks, marker: UntilError) -> Compiled:
    found = [checks.step(step) for step in marker.steps]
    steps = [step for _, step in found]

    def check(path: Path, value: Json, old: Json | None, env: Any, errors: Errors) -> None:
        before = len(errors)
        for step in steps:
            step(path, value, old, env, errors)
            if len(errors) > before:
                return

    return _needs(found), check
