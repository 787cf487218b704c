"""Checks of values, compiled from their types: what a field may be stands in its type (`Limits`, enumerations), what
crosses fields is a rule in the place where upstream has it, for the order of errors is a wire fact.

    RULES = Rules()
    RULES.set(TYPES.DeviceRequest, "name", _one_way, by_rules=("exactly", "firstAvailable"))
    RULES.of(TYPES.DeviceClaim).errors(path, value, env)

A type's steps are names of its fields, each checked by its type and then below it, and rules. Without steps all fields
are checked in their order. A rule gets an `At` and may ask for a field itself (`at.field("exactly")`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from apiserver.api.codec import raw_size
from apiserver.api.fielderrors import (
    FieldError,
    Named,
    Path,
    duplicate,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
)
from apiserver.api.limits import Limits
from apiserver.api.schema import Field, ListOf, MapOf, Scalar, Struct
from apiserver.api.validation.changes import changes
from apiserver.api.validation.formats import FORMATS, Format

__all__ = ["At", "Checks", "Rule", "Rules", "most_bytes", "most_items", "unchanged"]

Json = dict[str, Any]
Errors = list[FieldError]

_NONE: Final = Limits()
_NUMBERS: Final = ("int32", "int64")


class At:
    """A value of a type where a rule looks at it: its `path`, what is stored of it (`old`, None: it is new), and what
    the caller knows besides (`env`).
    """

    __slots__ = ("_checks", "env", "old", "path", "value")

    def __init__(self, checks: Checks, path: Path, value: Json, old: Json | None, env: Any) -> None:
        self._checks, self.path, self.value, self.old, self.env = checks, path, value, old, env

    def field(self, name: str, env: Any = None) -> Errors:
        """What is wrong with a field by its type, and below it, where `env` may be another one."""
        errors: Errors = []
        self._checks.fields[name](self.path, self.value, self.old, self.env if env is None else env, errors)
        return errors

    def items(self, name: str, check: Callable[[Path, Any], Errors]) -> Errors:
        """As `field`, of a list whose items are judged by a rule: of too long a list nothing is looked at, and
        repetitions come last.
        """
        items = self.value.get(name)
        if not items:
            return self.field(name)
        found, limits = self.field(name), self._checks.struct.fields[name].limits
        if limits is not None and limits.items is not None and len(items) > limits.items:
            return found
        at = self.path / name
        return [error for index, item in enumerate(items) for error in check(at[index], item)] + found


def _nothing_fits(env: Any) -> None:
    """Of most types nothing is known without looking."""


Rule = Callable[[At], Errors]
#: Checks a field of a value: (path of the value, value, what is stored of it, env, errors to add to).
FieldCheck = Callable[[Path, Json, Json | None, Any, Errors], None]


#: For what the caller knows, what tells quickly that nothing is wrong with a value; None where nothing does.
Fits = Callable[[Any], Callable[[Any], bool] | None]


class Checks:
    """What a value of one type is checked for."""

    __slots__ = ("_steps", "fields", "fits", "struct")

    def __init__(
        self, struct: Struct, fields: Mapping[str, FieldCheck], steps: tuple[str | Rule, ...], fits: Fits
    ) -> None:
        self.struct, self.fields, self.fits = struct, fields, fits
        self._steps = tuple((fields[step], None) if isinstance(step, str) else (None, step) for step in steps)

    def errors(self, path: Path, value: Json, env: Any = None, old: Json | None = None) -> Errors:
        """All that is wrong with a value, in the order of the steps."""
        errors: Errors = []
        self.add(path, value, old, env, errors)
        return errors

    def add(self, path: Path, value: Json, old: Json | None, env: Any, errors: Errors) -> None:
        at = None
        for check, rule in self._steps:
            if check is not None:
                check(path, value, old, env, errors)
            elif rule is not None:
                if at is None:
                    at = At(self, path, value, old, env)
                errors += rule(at)


class Rules:
    """Checks by type, with the rules of one group of kinds."""

    def __init__(self) -> None:
        self._steps: dict[Struct, tuple[str | Rule, ...]] = {}
        self._by_rules: dict[Struct, tuple[str, ...]] = {}
        self._fits: dict[Struct, Fits] = {}
        self._made: dict[Struct, Checks] = {}

    def set(
        self,
        struct: Struct,
        *steps: str | Rule,
        by_rules: tuple[str, ...] = (),
        fits: Fits | None = None,
    ) -> None:
        """The steps of a type; `by_rules` are fields that its rules look after."""
        self._steps[struct], self._by_rules[struct] = steps, by_rules
        if fits is not None:
            self._fits[struct] = fits

    def of(self, struct: Struct) -> Checks:
        """The checks of a type, made on first use. Raises ValueError when steps leave out a field with limits."""
        made = self._made.get(struct)
        if made is None:
            fields = {name: self._field(name, item) for name, item in struct.fields.items() if self._limited(item)}
            steps = self._steps.get(struct, tuple(fields))
            forgotten = fields.keys() - {*steps, *self._by_rules.get(struct, ())}
            if forgotten:
                raise ValueError(f"{struct.kind}: nothing checks {', '.join(sorted(forgotten))}")
            made = self._made[struct] = Checks(struct, fields, steps, self._fits.get(struct, _nothing_fits))
        return made

    def _limited(self, item: Field) -> bool:
        """Whether there is anything to check of a field."""
        if (item.limits is not None and item.limits.bounds) or (isinstance(item.type, Scalar) and item.type.enum):
            return True
        held = item.type
        while isinstance(held, ListOf | MapOf):
            held = held.item if isinstance(held, ListOf) else held.value
        return isinstance(held, Struct) and self._has_checks(held)

    def _has_checks(self, struct: Struct) -> bool:
        return struct in self._steps or any(map(self._limited, struct.fields.values()))

    def _field(self, name: str, item: Field) -> FieldCheck:
        kind, limits = item.type, item.limits or _NONE
        if isinstance(kind, ListOf):
            return self._list(name, kind, limits)
        if isinstance(kind, MapOf):
            return self._map(name, kind, limits)
        if isinstance(kind, Struct):
            return self._struct(name, item, kind, limits)
        if kind.name in _NUMBERS:
            return _number(name, item, limits)
        return _raw(name, limits) if kind.name == "raw" else _text(name, item, limits, kind.enum)

    def _struct(self, name: str, item: Field, kind: Struct, limits: Limits) -> FieldCheck:
        below = self.of(kind) if self._has_checks(kind) else None

        def check(path: Path, holder: Json, old: Json | None, env: Any, errors: Errors) -> None:
            value = holder.get(name)
            if value is None:
                if limits.required:
                    errors.append(required(path / name))
                if item.pointer or limits.required:
                    return
                value = {}
            if below is not None:
                below.add(path / name, value, old.get(name) if old else None, env, errors)

        return check

    def _list(self, name: str, kind: ListOf, limits: Limits) -> FieldCheck:
        below = self.of(kind.item) if isinstance(kind.item, Struct) and self._has_checks(kind.item) else None
        form = FORMATS[limits.format] if limits.format else None

        def check(path: Path, holder: Json, old: Json | None, env: Any, errors: Errors) -> None:
            items = holder.get(name)
            if not items:
                if limits.required:
                    errors.append(required(path / name))
                return
            if limits.items is not None and len(items) > limits.items:
                errors.append(too_many(path / name, len(items), limits.items))
                return
            if limits.whole:
                _add_duplicates(kind, limits, path / name, items, errors)
            if below is not None:
                fits = below.fits(env)
                if fits is None or not all(map(fits, items)):
                    _add_items(below, path / name, items, _stored_items(limits, name, old), env, errors)
            elif form is not None and not all(map(form.fits, items)):
                at = path / name
                for index, item in enumerate(items):
                    errors += form.errors(at[index], item)
            if limits.unique and not limits.whole and len(items) > 1:
                _add_duplicates(kind, limits, path / name, items, errors)

        def _add_items(
            below: Checks, at: Path, items: list[Any], stored: dict[Any, Any], env: Any, errors: Errors
        ) -> None:
            for index, item in enumerate(items):
                below.add(at[index], item, stored.get(limits.key(item)) if stored else None, env, errors)

        return check

    def _map(self, name: str, kind: MapOf, limits: Limits) -> FieldCheck:
        below = self.of(kind.value) if isinstance(kind.value, Struct) and self._has_checks(kind.value) else None
        form = FORMATS[limits.format] if limits.format else None

        def check(path: Path, holder: Json, old: Json | None, env: Any, errors: Errors) -> None:
            items = holder.get(name)
            if not items:
                if limits.required:
                    errors.append(required(path / name))
                return
            if limits.items is not None and len(items) > limits.items:
                errors.append(too_many(path / name, len(items), limits.items))
                return
            fits = None if below is None else below.fits(env)
            if (form is None or all(map(form.fits, items))) and (
                below is None or (fits is not None and all(map(fits, items.values())))
            ):
                return
            at = path / name
            for key, item in items.items():
                if form is not None and not form.fits(key):
                    errors += form.errors(at, key)
                if below is not None and (fits is None or not fits(item)):
                    below.add(at.key(_truncated(key, form)), item, None, env, errors)

        return check


def _stored_items(limits: Limits, name: str, old: Json | None) -> dict[Any, Any]:
    """Stored items by what makes them unique; of several the first."""
    found: dict[Any, Any] = {}
    if old and limits.unique and limits.unique != "*":
        for item in old.get(name) or ():
            found.setdefault(limits.key(item), item)
    return found


def _add_duplicates(kind: ListOf, limits: Limits, path: Path, items: list[Any], errors: Errors) -> None:
    keys = [limits.key(item) for item in items]
    if len(set(keys)) == len(keys):
        return
    named = isinstance(kind.item, Struct) and getattr(kind.item.fields[limits.unique].type, "go", "") != "string"
    seen = set()
    for index, key in enumerate(keys):
        if key in seen:
            errors.append(duplicate(path[index], items[index] if limits.whole else Named(key) if named else key))
        seen.add(key)


def _truncated(key: str, form: Format | None) -> str:
    """A long key without its middle."""
    if form is None or len(key) <= form.longest:
        return key
    remaining = form.longest - 3
    return f"{key[: (remaining + 1) // 2]}...{key[len(key) - remaining // 2 :]}"


def _text(name: str, item: Field, limits: Limits, enum: tuple[str, ...]) -> FieldCheck:
    form, longest = FORMATS[limits.format] if limits.format else None, limits.length
    pointer, always, needed = item.pointer, not item.omit, limits.required

    def check(path: Path, holder: Json, old: Json | None, env: Any, errors: Errors) -> None:
        value = holder.get(name)
        if value is None and pointer:
            return
        if not value:
            if needed:
                errors.append(required(path / name))
                return
            if not (always or pointer):
                return
            value = ""
        if enum and value not in enum:
            errors.append(not_supported(path / name, Named(value), enum))
        if longest is not None and len(value) * 4 > longest and len(value.encode()) > longest:
            errors.append(too_long(path / name, longest))
        if form is not None and not form.fits(value):
            errors += form.errors(path / name, value)

    return check


def _number(name: str, item: Field, limits: Limits) -> FieldCheck:
    least, most = limits.least, limits.most

    def check(path: Path, holder: Json, old: Json | None, env: Any, errors: Errors) -> None:
        value = holder.get(name)
        if value is None:
            if item.pointer:
                if limits.required:
                    errors.append(required(path / name))
                return
            value = 0
        if limits.required and not value and not item.pointer:
            errors.append(required(path / name))
        elif most is not None and value > most:
            errors.append(invalid(path / name, value, limits.words or f"must be less than or equal to {most}"))
        elif least is not None and value < least:
            errors.append(invalid(path / name, value, limits.words or f"must be greater than or equal to {least}"))

    return check


def _raw(name: str, limits: Limits) -> FieldCheck:
    def check(path: Path, holder: Json, old: Json | None, env: Any, errors: Errors) -> None:
        value = holder.get(name)
        if value is None:
            if limits.required:
                errors.append(required(path / name))
        elif limits.length is not None and raw_size(value) > limits.length:
            errors.append(too_long(path / name, limits.length))
        elif not isinstance(value, dict):
            errors.append(invalid(path / name, "<value omitted>", "must be a valid JSON object"))

    return check


def most_items(struct: Struct, name: str) -> int:
    """How many items a list or map of a type may have, for rules that count themselves."""
    limits = struct.fields[name].limits
    assert limits is not None
    assert limits.items is not None
    return limits.items


def most_bytes(struct: Struct, name: str) -> int:
    """As `most_items`, of the bytes of a text."""
    limits = struct.fields[name].limits
    assert limits is not None
    assert limits.length is not None
    return limits.length


def unchanged(struct: Struct, *names: str) -> Rule:
    """A rule for the fields of a type that never change, in this order (see `changes`)."""
    fixed = changes(struct, *names)
    return lambda at: [] if at.old is None else fixed.errors(at.path, at.value, at.old)
