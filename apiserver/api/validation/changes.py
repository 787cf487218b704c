"""Checks of immutable fields, compiled from a type (`Limits.immutable`).

A field that is immutable only under a condition is checked by a rule of its kind.
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
#: Compares a field: (path of the object, object, stored object, errors to extend).
_Check = Callable[[Path, Json, Json, Errors], None]


class Changes:
    """The immutable fields of a type, in the order of their errors.

    A nested field is named by a dotted path. The checks are built on first use. That raises ValueError for a mutable
    field, and for an immutable one that is missing.
    """

    __slots__ = ("_by_rules", "_made", "_names", "struct")

    def __init__(self, struct: Struct, names: tuple[str, ...], by_rules: tuple[str, ...]) -> None:
        self.struct, self._names, self._by_rules = struct, names, by_rules
        self._made: dict[str, _Check] | None = None

    @property
    def checks(self) -> dict[str, _Check]:
        """The checks by field name."""
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
        """Return the errors of all changed immutable fields. `path` is that of the object, `old` the stored object."""
        errors: Errors = []
        for check in (self._made or self.checks).values():
            check(path, value, old, errors)
        return errors

    def field(self, name: str, path: Path, value: Json, old: Json) -> Errors:
        """Return the errors of one field, as `errors` does."""
        errors: Errors = []
        self.checks[name](path, value, old, errors)
        return errors


def changes(struct: Struct, *names: str, by_rules: tuple[str, ...] = ()) -> Changes:
    """Return the checks for all immutable fields of a type.

    `names` are these fields in upstream's order, if it differs from the type's. `by_rules` are the fields that other
    rules of the kind check.
    """
    return Changes(struct, names, by_rules)


def _immutable(struct: Struct, at: str = "") -> Iterator[tuple[str, tuple[Field, Immutable]]]:
    """Yield the immutable fields of a type and of the objects inside it. Metadata has rules of its own."""
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
