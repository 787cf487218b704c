"""Checks of what may not change of a stored object, compiled from its type (`Limits.immutable`). What may change only
as long as something else holds is a rule of its kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from apiserver.api.errors.field_errors import FieldError, Path, forbidden, invalid
from apiserver.api.objects import Json
from apiserver.api.schema.equality import semantic_equal
from apiserver.api.schema.language import Field, Struct
from apiserver.api.schema.limits import Immutable
from apiserver.api.validation.scalars import shown, unset

__all__ = ["Changes", "changes"]

Errors = list[FieldError]
#: Compares a field: (path of the object, object, what is stored of it, errors to add to).
_Check = Callable[[Path, Json, Json, Errors], None]


class Changes:
    """The fields of a type that may not change, in the order in which changes are told. A field of an object inside is
    named by a dotted path. The checks are made on first use, which raises ValueError for a field that may change, and
    when an immutable one is left out.
    """

    __slots__ = ("_by_rules", "_made", "_names", "struct")

    def __init__(self, struct: Struct, names: tuple[str, ...], by_rules: tuple[str, ...]) -> None:
        self.struct, self._names, self._by_rules = struct, names, by_rules
        self._made: dict[str, _Check] | None = None

    @property
    def checks(self) -> dict[str, _Check]:
        """By the names of the fields."""
        if self._made is None:
            self._made = self._make()
        return self._made

    def _make(self) -> dict[str, _Check]:
        known = dict(_immutable(self.struct))
        order = self._names or tuple(name for name in known if name not in self._by_rules)
        if free := [name for name in order if name not in known]:
            raise ValueError(f"{self.struct.kind}: {', '.join(free)} may change")
        if forgotten := known.keys() - {*order, *self._by_rules}:
            raise ValueError(f"{self.struct.kind}: nothing keeps {', '.join(sorted(forgotten))} from changing")
        return {name: _check(tuple(name.split(".")), *known[name]) for name in order}

    def errors(self, path: Path, value: Json, old: Json) -> Errors:
        """All fields that changed although they may not, between an object at a path and what is stored of it."""
        errors: Errors = []
        for check in (self._made or self.checks).values():
            check(path, value, old, errors)
        return errors

    def field(self, name: str, path: Path, value: Json, old: Json) -> Errors:
        """As `errors`, of one field."""
        errors: Errors = []
        self.checks[name](path, value, old, errors)
        return errors


def changes(struct: Struct, *names: str, by_rules: tuple[str, ...] = ()) -> Changes:
    """The checks of a type for all of its immutable fields; `names` are these fields in upstream's order, if that is
    not the type's own, and `by_rules` those that other rules of the kind look after.
    """
    return Changes(struct, names, by_rules)


def _immutable(struct: Struct, at: str = "") -> Iterator[tuple[str, tuple[Field, Immutable]]]:
    """Immutable fields of a type and of the objects that it holds, but for metadata, which has rules of its own."""
    for name, item in struct.fields.items():
        if item.limits is not None and item.limits.immutable is not None:
            yield f"{at}{name}", (item, item.limits.immutable)
        elif isinstance(item.type, Struct) and name != "metadata" and item.type is not struct:
            yield from _immutable(item.type, f"{at}{name}.")


def _check(steps: tuple[str, ...], item: Field, rule: Immutable) -> _Check:
    kind, last = item.type, steps[-1]
    nothing = unset(item)

    def check(path: Path, value: Json, old: Json, errors: Errors) -> None:
        for step in steps[:-1]:
            path, value, old = path / step, value.get(step) or {}, old.get(step) or {}
        new, before = value.get(last, nothing), old.get(last, nothing)
        if new == before or (rule.once and not before) or (rule.removable and new is None):
            return
        if semantic_equal(kind, new, before):
            return
        path /= rule.name or last
        if rule.forbids:
            errors.append(forbidden(path, rule.words))
        else:
            errors.append(invalid(path, shown(kind, new) if rule.shown else None, rule.words))

    return check
