"""Every immutable field of every kind refuses a change, in the words of its type."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any, Final, NamedTuple

import pytest

from apiserver.api.features.gates import GATES
from apiserver.api.objects import Json
from apiserver.api.schema.language import ListOf, MapOf, Struct, Type
from apiserver.api.schema.limits import Immutable
from apiserver.registry.definition.resource import Resource
from apiserver.resources import CATALOG
from tests.codec.schema_objects import FULL
from tests.resources.conftest import Judge

#: Another value of each scalar than that of `FULL`.
OTHER: Final[dict[str, Any]] = {
    "string": "another",
    "int32": 7,
    "int64": 7,
    "bool": False,
    "time": "2025-01-01T00:00:00Z",
    "raw": {"another": 1},
    "quantity": "7",
    "intOrString": 7,
}
#: Kinds that hold the type of an object which is yet to be made: in a template its fields may change.
TEMPLATES: Final = ("cronjobs",)
#: Fields that stay as they are stored where a request leaves them out.
RESTORED: Final = ("qosClass",)


class Case(NamedTuple):
    resource: Resource
    steps: tuple[str, ...]
    kind: Type
    rule: Immutable

    def __str__(self) -> str:
        return f"{self.resource.plural}-{'.'.join(self.steps)}"


def immutable(struct: Struct, at: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Type, Immutable]]:
    for name, item in struct.fields.items():
        if item.limits is not None and item.limits.immutable is not None:
            yield (*at, name), item.type, item.limits.immutable
        elif isinstance(item.type, Struct) and name != "metadata":
            yield from immutable(item.type, (*at, name))


CASES: Final = [
    Case(resource, steps, kind, rule)
    for resource in CATALOG
    if "update" in resource.verbs and resource.plural not in TEMPLATES
    for steps, kind, rule in immutable(resource.hub_schema)
]


def value(kind: Type, scalars: Json) -> Any:
    """Build a value of a type; of an object's fields the first one is set, or the last one for another value."""
    if isinstance(kind, ListOf):
        return [value(kind.item, scalars)]
    if isinstance(kind, MapOf):
        return {"a": value(kind.value, scalars)}
    if isinstance(kind, Struct):
        names = list(kind.fields)
        name = names[0 if scalars is FULL else -1] if names else ""
        return {name: value(kind.fields[name].type, scalars)} if names else {}
    return scalars[kind.name]


class Writer:
    """A server with all gates that stores objects with one field."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.judge = Judge(gates=dict.fromkeys((name for name, gate in GATES.items() if not gate.own), True))
        self.status = case.steps[0] == "status"

    def holder(self, held: Any) -> Json:
        made = held
        for step in reversed(self.case.steps):
            made = {step: made} if made is not None else {}
        return {"metadata": {"name": "a", "resourceVersion": "1"}, **made}

    @property
    def fills(self) -> bool:
        """Whether the field has a default."""
        found: Any = self.judge.decoded(self.case.resource, self.holder(None))
        for step in self.case.steps:
            found = (found or {}).get(step)
        return bool(found)

    def told(self, before: Any, after: Any) -> list[str]:
        """Return the errors of a change of the field."""
        name = f"{self.case.resource.group}/{self.case.resource.plural}"
        old = self.judge.decoded(self.judge.find(name), self.holder(before))
        _, errors = self.judge.update(name, deepcopy(old), self.holder(after), status=self.status)
        rule, last = self.case.rule, self.case.steps[-1]
        return [
            text for text in errors if text.endswith(rule.words) and text.split(": ")[0].endswith(rule.name or last)
        ]


def test_the_types_have_been_looked_through() -> None:
    assert len(CASES) > 40


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_field_that_may_not_change_is_kept(case: Case) -> None:
    writer = Writer(case)
    one, other = value(case.kind, FULL), value(case.kind, OTHER)
    (text,) = writer.told(one, other)
    assert ("Forbidden" if case.rule.forbids else "Invalid value") in text
    assert case.rule.shown or ": null: " in text
    assert writer.told(one, one) == []
    if not writer.fills:
        assert bool(writer.told(None, one)) is not case.rule.once
        assert bool(writer.told(one, None)) is not (case.rule.removable or case.steps[-1] in RESTORED)
