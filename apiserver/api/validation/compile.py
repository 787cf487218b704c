"""Checks of values, compiled from their types.

The limits of a field are part of its type (`Limits`, enumerations). A check across fields is a rule in the place of
upstream's rule, because the order of errors is a wire fact.

    RULES = Rules()
    RULES.set(TYPES.DeviceRequest, "name", _one_way, by_rules=("exactly", "firstAvailable"))
    RULES.of(TYPES.DeviceClaim).errors(path, value, env)

The steps of a type are field names (the field is checked by its type, then its content), markers
(`apiserver.api.schema.markers`), and rules. Steps that are all data are part of the type (`Struct.rules`). Without
steps all fields are checked in their order. A rule receives an `At` and may check a field itself
(`at.field("exactly")`). A rule after field names, `("exactly", rule)`, replaces their checks if one of them is set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from apiserver.api.errors.field_errors import (
    FieldError,
    Named,
    Path,
    duplicate,
    not_supported,
    required,
    too_many,
)
from apiserver.api.objects import Json
from apiserver.api.schema.language import Field, ListOf, MapOf, Scalar, Struct
from apiserver.api.schema.limits import Limits
from apiserver.api.schema.markers import Marker
from apiserver.api.validation.changes import changes
from apiserver.api.validation.formats import FORMATS, Format
from apiserver.api.validation.markers import Compiled, below_marker, compile_marker
from apiserver.api.validation.scalars import FieldCheck, bounds, detail, says_nothing_unset, scalar_check

__all__ = ["At", "Checks", "Rule", "Rules", "Step", "known_values", "most_bytes", "most_items", "unchanged"]

Errors = list[FieldError]

_NONE: Final = Limits()
#: Most field sets with cached steps per type.
_SHAPES: Final = 64


class At:
    """A value as a rule sees it: its `path`, the stored value (`old`, None for a new one), and the caller's `env`."""

    __slots__ = ("_checks", "env", "old", "path", "value")

    def __init__(self, checks: Checks, path: Path, value: Json, old: Json | None, env: Any) -> None:
        self._checks, self.path, self.value, self.old, self.env = checks, path, value, old, env

    def field(self, name: str, env: Any = None) -> Errors:
        """Return the errors of a field and its content. `env` replaces the caller's env for it."""
        errors: Errors = []
        self._checks.fields[name](self.path, self.value, self.old, self.env if env is None else env, errors)
        return errors

    def fields(self, *names: str) -> Errors:
        """Return the errors of several fields, as `field` does."""
        errors: Errors = []
        for name in names:
            self._checks.fields[name](self.path, self.value, self.old, self.env, errors)
        return errors

    def items(self, name: str, check: Callable[[Path, Any], Errors]) -> Errors:
        """Return the errors of a list whose items are checked by a rule.

        The items of a list that is too long are not checked. Repetitions come last.
        """
        items = self.value.get(name)
        if not items:
            return self.field(name)
        found, limits = self.field(name), self._checks.struct.fields[name].limits
        if limits is not None and limits.items is not None and len(items) > limits.items:
            return found
        at = self.path / name
        return [error for index, item in enumerate(items) for error in check(at[index], item)] + found


Rule = Callable[[At], Errors]
Step = str | Marker | Rule | tuple[str | Rule, ...]

#: For an env, returns a fast predicate for valid values, or None. Most types have no such function.
Fits = Callable[[Any], Callable[[Any], bool] | None]


class Checks:
    """The checks of one type."""

    __slots__ = ("_steps", "_steps_of", "fields", "fits", "struct")

    def __init__(
        self, struct: Struct, fields: Mapping[str, FieldCheck], steps: tuple[Step, ...], fits: Fits | None
    ) -> None:
        self.struct, self.fields, self.fits = struct, fields, fits
        self._steps = tuple(map(self.step, steps))
        #: The steps by set of fields. Most values of a type have one of a few sets.
        self._steps_of: dict[tuple[str, ...], tuple[FieldCheck, ...]] = {}

    def step(self, step: Step) -> Compiled:
        """Compile a step."""
        if isinstance(step, str):
            return frozenset({step} if says_nothing_unset(self.struct.fields[step]) else ()), self.fields[step]
        if isinstance(step, Marker):
            return compile_marker(self, step)
        names, rule = _named_rule(step)
        one = names[0] if len(names) == 1 else None

        def apply(path: Path, value: Json, old: Json | None, env: Any, errors: Errors) -> None:
            if one is None or value.get(one) is not None:
                errors += rule(At(self, path, value, old, env))

        return frozenset(names), apply

    def errors(self, path: Path, value: Json, env: Any = None, old: Json | None = None) -> Errors:
        """Return all errors of a value, in the order of the steps."""
        errors: Errors = []
        self.add(path, value, old, env, errors)
        return errors

    def at(self, path: Path, value: Json, env: Any = None, old: Json | None = None) -> At:
        """Return a value for rules that check its fields one by one."""
        return At(self, path, value, old, env)

    def add(self, path: Path, value: Json, old: Json | None, env: Any, errors: Errors) -> None:
        present = tuple(value)
        steps = self._steps_of.get(present)
        if steps is None:
            steps = tuple(step for names, step in self._steps if not names or not names.isdisjoint(value))
            if len(self._steps_of) < _SHAPES:
                self._steps_of[present] = steps
        for step in steps:
            step(path, value, old, env, errors)


def _named(step: Step) -> Iterable[str]:
    """Return the fields that a step checks."""
    if isinstance(step, str):
        return (step,)
    if isinstance(step, Marker):
        return (name for below in below_marker(step) for name in _named(below))
    return _named_rule(step)[0]


def _named_rule(step: Rule | tuple[str | Rule, ...]) -> tuple[tuple[str, ...], Rule]:
    """Return a rule and the names before it."""
    *names, rule = step if isinstance(step, tuple) else (step,)
    assert callable(rule), "a rule stands last"
    return tuple(name for name in names if isinstance(name, str)), rule


class _Fields(dict[str, FieldCheck]):
    """Checks of fields by name, built on first use, because rules may check a field in another way."""

    def __init__(self, make: Callable[[str], FieldCheck]) -> None:
        self._make = make

    def __missing__(self, name: str) -> FieldCheck:
        made = self[name] = self._make(name)
        return made


class Rules:
    """Checks by type, with the rules of one group of kinds."""

    def __init__(self) -> None:
        self._steps: dict[Struct, tuple[Step, ...]] = {}
        self._by_rules: dict[Struct, tuple[str, ...]] = {}
        self._fits: dict[Struct, Fits] = {}
        self._made: dict[Struct, Checks] = {}

    def set(
        self,
        struct: Struct,
        *steps: Step,
        by_rules: tuple[str, ...] = (),
        fits: Fits | None = None,
    ) -> None:
        """Set the steps of a type; `by_rules` are the fields that its rules check.

        Raise ValueError if the checks of the type are already built, for example as part of another type.
        """
        if struct in self._made:
            raise ValueError(f"{struct.kind}: its checks are made already")
        self._steps[struct], self._by_rules[struct] = steps, by_rules
        if fits is not None:
            self._fits[struct] = fits

    def of(self, struct: Struct) -> Checks:
        """Return the checks of a type, built on first use. Raise ValueError if steps omit a field with limits."""
        made = self._made.get(struct)
        if made is None:
            limited = tuple(name for name, item in struct.fields.items() if self._limited(item))
            steps = self._steps.get(struct) or struct.rules or limited
            named = {name for step in steps for name in _named(step)}
            forgotten = set(limited) - {*named, *self._by_rules.get(struct, ())}
            if forgotten:
                raise ValueError(f"{struct.kind}: nothing checks {', '.join(sorted(forgotten))}")
            fields = _Fields(lambda name: self._field(name, struct.fields[name]))
            made = self._made[struct] = Checks(struct, fields, steps, self._fits.get(struct))
        return made

    def _limited(self, item: Field) -> bool:
        """Return whether a field has anything to check."""
        one = item.type.item if isinstance(item.type, ListOf) else item.type
        if (item.limits is not None and item.limits.bounds) or (isinstance(one, Scalar) and one.enum):
            return True
        held = item.type
        while isinstance(held, ListOf | MapOf):
            held = held.item if isinstance(held, ListOf) else held.value
        return isinstance(held, Struct) and self._has_checks(held)

    def _has_checks(self, struct: Struct) -> bool:
        return struct in self._steps or bool(struct.rules) or any(map(self._limited, struct.fields.values()))

    def _field(self, name: str, item: Field) -> FieldCheck:
        kind, limits = item.type, item.limits or _NONE
        if isinstance(kind, ListOf):
            return self._list(name, kind, limits)
        if isinstance(kind, MapOf):
            return self._map(name, kind, limits)
        if isinstance(kind, Struct):
            return self._struct(name, item, kind, limits)
        return scalar_check(name, item, kind, limits)

    def _struct(self, name: str, item: Field, kind: Struct, limits: Limits) -> FieldCheck:
        below = self.of(kind) if self._has_checks(kind) else None
        parts = [
            self._field(part, kind.fields[part].replaced(limits=its)) for part, its in (limits.parts or {}).items()
        ]
        needs = detail(limits)

        def check(path: Path, holder: Json, old: Json | None, env: Any, errors: Errors) -> None:
            value = holder.get(name)
            if value is None:
                if limits.required:
                    errors.append(required(path / name, needs))
                if item.pointer or limits.required:
                    return
                value = {}
            before = old.get(name) if old else None
            if below is not None:
                below.add(path / name, value, before, env, errors)
            for part in parts:
                part(path / name, value, before, env, errors)

        return check

    def _list(self, name: str, kind: ListOf, limits: Limits) -> FieldCheck:
        below = self.of(kind.item) if isinstance(kind.item, Struct) and self._has_checks(kind.item) else None
        form, needs = FORMATS[limits.format] if limits.format else None, detail(limits)
        in_bounds = bounds(limits)
        known = limits.values or (kind.item.enum if isinstance(kind.item, Scalar) else ())

        def check(path: Path, holder: Json, old: Json | None, env: Any, errors: Errors) -> None:
            items = holder.get(name)
            if not items:
                if limits.required:
                    errors.append(required(path / name, needs))
                return
            if limits.items is not None and len(items) > limits.items:
                errors.append(too_many(path / name, len(items), limits.items))
                if not limits.all_items:
                    return
            if limits.whole:
                _add_duplicates(kind, limits, path / name, items, errors)
            if below is not None:
                fits = None if below.fits is None else below.fits(env)
                if fits is None or not all(map(fits, items)):
                    at, stored = path / name, _stored_items(limits, name, old) if old and limits.unique else {}
                    for index, item in enumerate(items):
                        before = stored.get(limits.key(item)) if stored else None
                        below.add(at[index], item, before, env, errors)
            elif form is not None and not all(map(form.fits, items)):
                at = path / name
                for index, item in enumerate(items):
                    errors += form.errors(at[index], item)
            elif in_bounds is not None:
                for index, item in enumerate(items):
                    in_bounds(path / name, index, item, errors)
            elif known:
                errors += [not_supported(path / name, Named(item), known) for item in items if item not in known]
            if limits.unique and not limits.whole and len(items) > 1:
                _add_duplicates(kind, limits, path / name, items, errors)

        return check

    def _map(self, name: str, kind: MapOf, limits: Limits) -> FieldCheck:
        below = self.of(kind.value) if isinstance(kind.value, Struct) and self._has_checks(kind.value) else None
        form, needs = FORMATS[limits.format] if limits.format else None, detail(limits)
        values = FORMATS[limits.value_format] if limits.value_format else None

        def check(path: Path, holder: Json, old: Json | None, env: Any, errors: Errors) -> None:
            items = holder.get(name)
            if not items:
                if limits.required:
                    errors.append(required(path / name, needs))
                return
            if limits.items is not None and len(items) > limits.items:
                errors.append(too_many(path / name, len(items), limits.items))
                return
            fits = None if below is None or below.fits is None else below.fits(env)
            if (
                (form is None or all(map(form.fits, items)))
                and (values is None or all(map(values.fits, items.values())))
                and (below is None or (fits is not None and all(map(fits, items.values()))))
            ):
                return
            at = path / name
            for key, item in items.items():
                if form is not None and not form.fits(key):
                    errors += form.errors(at, key)
                if values is not None and not values.fits(item):
                    errors += values.errors(at, item)
                if below is not None and (fits is None or not fits(item)):
                    below.add(at.key(_truncated(key, form)), item, None, env, errors)

        return check


def _stored_items(limits: Limits, name: str, old: Json) -> dict[Any, Any]:
    """Return the first stored item by unique key."""
    found: dict[Any, Any] = {}
    if limits.unique != "*":
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
    """Shorten a long key by its middle."""
    if form is None or len(key) <= form.longest:
        return key
    remaining = form.longest - 3
    return f"{key[: (remaining + 1) // 2]}...{key[len(key) - remaining // 2 :]}"


def most_items(struct: Struct, name: str) -> int:
    """Return the limit of items in a list or map of a type, for rules that count items themselves."""
    limits = struct.fields[name].limits
    assert limits is not None
    assert limits.items is not None
    return limits.items


def known_values(struct: Struct, name: str) -> tuple[str, ...]:
    """Return the permitted values of a text, for rules that check them themselves."""
    item = struct.fields[name]
    known = item.limits.values if item.limits is not None else ()
    return known or (item.type.enum if isinstance(item.type, Scalar) else ())


def most_bytes(struct: Struct, name: str) -> int:
    """Return the limit of bytes of a text, for rules that check it themselves."""
    limits = struct.fields[name].limits
    assert limits is not None
    assert limits.length is not None
    return limits.length


def unchanged(struct: Struct, *names: str) -> Rule:
    """Return a rule for the immutable fields of a type, in this order (see `changes`)."""
    fixed = changes(struct, *names)
    return lambda at: [] if at.old is None else fixed.errors(at.path, at.value, at.old)
