"""Every field of every rule of dropping, for each of its gates: dropped from a new object, kept where the stored one
has it, there with its gate.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from apiserver.api.features import GATES, Features
from apiserver.api.schema import ListOf, MapOf, Struct, Type
from apiserver.resources.devices.dropping import CLAIM_RULES, CLASS_RULES, SLICE_RULES, STATUS_RULES
from apiserver.resources.gating import ITEMS, VALUES, Rule
from apiserver.resources.pods.dropping import SPEC_RULES as POD_SPEC_RULES
from apiserver.resources.pods.dropping import STATUS_RULES as POD_STATUS_RULES
from tests.codec.schema_objects import full
from tests.resources.conftest import Judge, find

Json = dict[str, Any]

#: resource · section that the rules are about · rules
TABLES: list[tuple[str, tuple[str, ...], tuple[Rule, ...]]] = [
    ("resourceclaims", ("spec",), CLAIM_RULES),
    ("resourceclaims", ("status",), STATUS_RULES),
    ("resourceclaimtemplates", ("spec", "spec"), CLAIM_RULES),
    ("resourceslices", ("spec",), SLICE_RULES),
    ("deviceclasses", ("spec",), CLASS_RULES),
    ("pods", ("spec",), POD_SPEC_RULES),
    ("pods", (), POD_STATUS_RULES),
    ("jobs", ("spec", "template", "spec"), POD_SPEC_RULES),
]
#: Those whose schemas say which fields are gated by these rules alone.
CLAIM_TABLES = TABLES[:5]
#: What a stored pod needs besides, so that it uses the feature.
COMPANIONS: dict[str, Json] = {"DynamicResourceAllocation": {"resourceClaims": [{"name": "c"}]}}
#: Where a pod's spec stands, in kinds that have one.
POD_SPECS: dict[str, tuple[str, ...]] = {"pods": ("spec",), "jobs": ("spec", "template", "spec")}
#: Fields with a gate that nothing drops: the scheduler alone writes them.
KEPT = {("allocation", "allocationTimestamp"), ("allocation", "devices", "results", ITEMS, "tolerations")}
CASES = [
    (plural, gate, section + steps)
    for plural, section, rules in TABLES
    for gates, _, fields, _ in rules
    for gate in gates
    for steps in fields
]


class Without(Features):
    """All gates but one."""

    def __init__(self, gate: str) -> None:
        super().__init__()
        self._gate = gate

    def enabled(self, name: str) -> bool:
        return name != self._gate


def holder(kind: Type, steps: tuple[str, ...], leaf: bool) -> Any:
    """A value that goes as far as the steps, with or without what stands at their end."""
    step, rest = steps[0], steps[1:]
    if step == ITEMS:
        assert isinstance(kind, ListOf)
        return [holder(kind.item, rest, leaf)]
    if step == VALUES:
        assert isinstance(kind, MapOf)
        return {"k": holder(kind.value, rest, leaf)}
    assert isinstance(kind, Struct)
    inner = kind.fields[step].type
    if rest:
        return {step: holder(inner, rest, leaf)}
    return {step: full(inner)} if leaf else {}


def at_the_end(value: Any, steps: tuple[str, ...]) -> Any:
    """What stands at the end of the steps, None if nothing does."""
    for step in steps:
        value = value[0] if step == ITEMS else value.get("k") if step == VALUES else (value or {}).get(step)
    return value


def together(obj: Json, plural: str, companion: Json) -> Json:
    """A copy of the object whose pod spec has more."""
    made: Json = deepcopy(obj)
    if companion:
        at = made
        for step in POD_SPECS[plural]:
            at = at.setdefault(step, {})
        at.update(deepcopy(companion))
    return made


def judge_with(features: Features) -> Judge:
    judge = Judge()
    judge.features = features
    return judge


@pytest.mark.parametrize(
    ("plural", "gate", "steps"), CASES, ids=[f"{plural}-{gate}-{'.'.join(steps)}" for plural, gate, steps in CASES]
)
def test_a_gated_field_is_dropped_from_what_is_new_and_kept_where_it_is_stored(
    plural: str, gate: str, steps: tuple[str, ...]
) -> None:
    schema = find(plural).versions[0].schema
    with_it, without_it = holder(schema, steps, leaf=True), holder(schema, steps, leaf=False)
    on, off = judge_with(Without("")), judge_with(Without(gate))
    status = steps[0] == "status"
    companion = COMPANIONS.get(gate, {}) if plural in POD_SPECS and "resourceClaims" not in steps else {}
    plain = on.create(plural, {} if status else deepcopy(without_it))[0]
    base = on.create(plural, together({"spec": {} if status else with_it["spec"]}, plural, companion))[0]

    def write(judge: Judge, old: Json, obj: Json) -> Any:
        sent = (
            deepcopy({**obj, "spec": old["spec"]})
            if status
            else together(obj, plural, companion if old is stored else {})
        )
        return at_the_end(judge.update(plural, deepcopy(old), sent, status=status)[0], steps)

    stored = on.update(plural, base, deepcopy({**with_it, "spec": base["spec"]}), status=True)[0] if status else base
    value = at_the_end(stored, steps)
    assert value, "with its gate it is there"
    if not status:
        assert not at_the_end(off.create(plural, deepcopy(with_it))[0], steps)
    assert not write(off, plain, with_it)
    assert write(off, stored, with_it) == value


def test_every_gate_of_the_rules_is_in_the_table_of_gates() -> None:
    assert {gate for _, gate, _ in CASES} <= set(GATES)


@pytest.mark.parametrize(
    ("plural", "section", "rules"),
    CLAIM_TABLES,
    ids=[f"{plural}-{'.'.join(section)}" for plural, section, _ in CLAIM_TABLES],
)
def test_fields_that_the_schema_calls_gated_have_a_rule(
    plural: str, section: tuple[str, ...], rules: tuple[Rule, ...]
) -> None:
    ruled = {steps for _, _, fields, _ in rules for steps in fields}
    schema: Type = find(plural).versions[0].schema
    for step in section:
        assert isinstance(schema, Struct)
        schema = schema.fields[step].type
    missing = [
        ".".join(steps)
        for steps in _gated(schema, ())
        if steps not in KEPT and not any(steps[: len(known)] == known for known in ruled)
    ]
    assert missing == []


def _gated(kind: Type, at: tuple[str, ...]) -> list[tuple[str, ...]]:
    if isinstance(kind, ListOf):
        return _gated(kind.item, (*at, ITEMS))
    if isinstance(kind, MapOf):
        return _gated(kind.value, (*at, VALUES))
    if not isinstance(kind, Struct) or len(at) > 12:
        return []
    found = []
    for name, item in kind.fields.items():
        found += [(*at, name)] if item.gate else _gated(item.type, (*at, name))
    return found
