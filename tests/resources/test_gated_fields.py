"""Every gated field of every kind, in every version.

Its gates are in the table. A disabled gate drops the field from writes, and keeps it if the stored object uses the
feature.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Final, NamedTuple

import pytest

from apiserver.api.features.gates import GATES, Features
from apiserver.api.objects import Json
from apiserver.api.schema.dropping import ITEMS, VALUES, GatedField, find_gated_fields
from apiserver.api.schema.language import ListOf, MapOf, Struct, Type
from apiserver.registry.definition.resource import Resource, Version
from apiserver.resources import CATALOG
from tests.codec.schema_objects import full
from tests.resources.conftest import Judge

#: What makes a stored object use a feature whose rule looks at more than the field.
COMPANIONS: Final[dict[str, Json]] = {
    "ContainerRestartRules": {
        "initContainers": [{"name": "i", "restartPolicyRules": [{"action": "Restart"}]}],
        "containers": [{"name": "c", "restartPolicy": "Never"}],
    }
}
#: The path of a pod's spec, by the kind that has one.
POD_SPECS: Final[dict[str, tuple[str, ...]]] = {
    "pods": ("spec",),
    "podtemplates": ("template", "spec"),
    "cronjobs": ("spec", "jobTemplate", "spec", "template", "spec"),
}
_TEMPLATE: Final = ("spec", "template", "spec")
#: What stands instead of a field that is dropped.
INSTEAD: Final = {("procMount",): "Default", ("podgroups", "disruptionMode"): "Pod"}


class Case(NamedTuple):
    """A field of a version of a kind, and one of its gates."""

    resource: Resource
    version: Version
    place: GatedField
    gate: str

    def __str__(self) -> str:
        return f"{self.resource.plural}-{self.version.name}-{'.'.join(self.place.steps)}-{self.gate}"

    @property
    def in_status(self) -> bool:
        """Whether the field is written through the status subresource."""
        return self.place.steps[0] == "status" and self.resource.plural != "nodes"


EVERY: Final = [
    Case(resource, version, place, gate)
    for resource in CATALOG
    for version in resource.versions
    for place in find_gated_fields(version.schema)
    for gate in place.gate.gates
]
CASES: Final = [case for case in EVERY if case.place.gate.scope != "never"]
NEVER: Final = [case for case in EVERY if case.place.gate.scope == "never"]


class Without(Features):
    """All gates but one."""

    def __init__(self, gate: str) -> None:
        super().__init__()
        self.enabled = lambda name: name != gate


class Writer:
    """A server without one gate, for objects of a case's kind."""

    def __init__(self, case: Case, without: str = "") -> None:
        self.case, self.judge = case, Judge()
        self.judge.features = Without(without)

    def write(self, obj: Json, old: Json | None = None, *, status: bool = False) -> Json:
        """Write `obj` in the version of the case; return the stored object in hub form."""
        resource, version = self.case.resource, self.case.version.name
        given = {"metadata": {"name": "a"}, **deepcopy(obj)}
        name = f"{resource.group}/{resource.plural}"
        if old is None:
            return self.judge.create(name, given, version)[0]
        return self.judge.update(name, deepcopy(old), given, status=status, version=version)[0]

    def write_all(self, obj: Json) -> Json:
        """Create an object with its status."""
        made = self.write(obj)
        return self.write({**self.shown(made), "status": obj["status"]}, made, status=True) if "status" in obj else made

    def shown(self, hub: Json) -> Json:
        return self.case.version.from_hub(deepcopy(hub))

    def value(self, hub: Json) -> Any:
        """Return the value of the case's field."""
        return at_the_end(self.shown(hub), self.case.place.steps)


def holder(kind: Type, steps: tuple[str, ...]) -> Any:
    """Build a value with content at the end of the steps."""
    step, rest = steps[0], steps[1:]
    if step == ITEMS:
        assert isinstance(kind, ListOf)
        return [holder(kind.item, rest)]
    if step == VALUES:
        assert isinstance(kind, MapOf)
        return {"k": holder(kind.value, rest)}
    assert isinstance(kind, Struct)
    inner = kind.fields[step].type
    return {step: holder(inner, rest) if rest else full(inner)}


def at_the_end(value: Any, steps: tuple[str, ...]) -> Any:
    """Return the value at the end of the steps, or None."""
    for step in steps:
        value = (value or [None])[0] if step == ITEMS else (value or {}).get("k" if step == VALUES else step)
    return value


def merged(one: Any, other: Any) -> Any:
    """Merge two values, list items by their index."""
    if isinstance(one, dict) and isinstance(other, dict):
        return {
            name: merged(one[name], other[name]) if name in one and name in other else {**one, **other}[name]
            for name in one.keys() | other.keys()
        }
    if isinstance(one, list) and isinstance(other, list):
        both = [merged(a, b) for a, b in zip(one, other, strict=False)]
        return both + one[len(both) :] + other[len(both) :]
    return one


def in_use(case: Case) -> Json:
    """Build an object that has the field and uses its feature."""
    schema, place = case.version.schema, case.place
    made: Json = holder(schema, place.steps)
    if place.gate.scope == "rule" and case.gate in COMPANIONS:
        companion: Any = COMPANIONS[case.gate]
        for step in reversed(POD_SPECS.get(case.resource.plural, _TEMPLATE)):
            companion = {step: companion}
        return dict(merged(made, companion))
    if place.gate.counts:
        return made
    use = next(p for p in find_gated_fields(schema) if p.gate.gates == place.gate.gates and p.gate.counts)
    return dict(merged(made, holder(schema, use.steps)))


def test_every_gate_of_a_field_is_in_the_table_of_gates() -> None:
    assert {case.gate for case in EVERY} <= set(GATES)
    assert len(EVERY) > 300, "the types have been looked through"


def names_of(kind: Any, seen: set[Struct] | None = None) -> set[str]:
    """Return the names of all fields of a type, nested ones included."""
    seen = set() if seen is None else seen
    while isinstance(kind, ListOf | MapOf):
        kind = kind.item if isinstance(kind, ListOf) else kind.value
    if not isinstance(kind, Struct) or kind in seen:
        return set()
    seen.add(kind)
    return set(kind.fields).union(*(names_of(item.type, seen) for item in kind.fields.values()))


def test_every_version_of_a_kind_has_the_gates_of_the_others() -> None:
    """Compare fields by name, because versions arrange them differently.

    A version may lack such a field entirely (autoscaling/v1 has annotations).
    """
    for resource in CATALOG:
        gates = {
            version.name: sorted(
                {
                    (place.steps[-1], place.gate)
                    for place in find_gated_fields(version.schema)
                    if place.steps[-1] != "basic"
                }
            )
            for version in resource.versions
        }
        first = next(iter(gates.values()))
        for version in resource.versions:
            names = names_of(version.schema)
            assert gates[version.name] == [gated for gated in first if gated[0] in names], resource.plural


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_gated_field_is_dropped_from_what_is_new_and_kept_where_it_is_stored(case: Case) -> None:
    status, scope = case.in_status, case.place.gate.scope
    on, off = Writer(case), Writer(case, case.gate)
    with_it, plain = holder(case.version.schema, case.place.steps), off.write_all({})
    instead = INSTEAD.get((case.resource.plural, *case.place.steps[-1:])) or INSTEAD.get(case.place.steps[-1:])
    if not status:
        assert off.value(off.write(with_it)) == instead
    if scope != "create" and case.resource.plural != "nodes" and off.value(plain) is None:
        assert off.value(off.write(with_it, plain, status=status)) == instead

    stored = on.write_all(in_use(case))
    value = on.value(stored)
    assert value, "with its gate it is there"
    assert off.value(off.write(on.shown(stored), stored, status=status)) == value


@pytest.mark.parametrize("case", NEVER, ids=str)
def test_a_gated_field_that_only_components_write_is_never_dropped(case: Case) -> None:
    off = Writer(case, case.gate)
    made = off.write_all(holder(case.version.schema, case.place.steps))
    assert off.value(made)


def test_a_write_of_the_spec_takes_what_the_stored_status_has_of_a_disabled_gate_and_leaves_the_stored_object() -> None:
    """A pod's status does not count as use of some gates: only its spec does."""
    judge = Judge()
    judge.features = Without("SupplementalGroupsPolicy")
    spec = {"containers": [{"name": "c", "image": "i"}]}
    states = [{"name": "c", "user": {"linux": {"uid": 1, "gid": 2}}}]
    old: Json = {"metadata": {"name": "a", "namespace": "ns"}, "spec": spec, "status": {"containerStatuses": states}}
    before = deepcopy(old)
    made, _ = judge.update("pods", old, {"spec": spec})
    assert "user" not in made["status"]["containerStatuses"][0]
    assert old["status"] == before["status"]
