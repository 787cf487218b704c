"""Lists of type set and map in schema rules: comparison and concatenation follow the type."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.api.errors.field_errors import Path
from apiserver.resources.customresources.rulechecks import RuleChecks

TEXTS = {"type": "array", "items": {"type": "string"}}
ITEM = {"type": "object", "properties": {"k-1": {"type": "string"}, "v": {"type": "integer"}}}
PARTS: dict[str, Any] = {
    "set": {**TEXTS, "x-kubernetes-list-type": "set"},
    "list": TEXTS,
    "map": {"type": "array", "items": ITEM, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k-1"]},
}


def holds(rule: str, value: dict[str, Any]) -> bool:
    schema = {
        "type": "object",
        "properties": {f"{name}{side}": part for name, part in PARTS.items() for side in "ab"},
        "x-kubernetes-validations": [{"rule": rule}],
    }
    return not RuleChecks(schema).errors(Path("spec"), value)


@pytest.mark.parametrize(
    ("rule", "wanted"),
    [
        ("self.seta == self.setb", True),
        ("self.seta == ['y', 'x']", True),
        ("['y', 'x'] == self.seta", False),
        ("self.seta == ['x', 'z']", False),
        ("self.lista == self.listb", False),
        ("self.seta + ['z', 'x'] == ['z', 'x', 'y']", True),
        ("(self.seta + ['z', 'x']).size() == 3 && (self.lista + ['z', 'x']).size() == 4", True),
        ("'x' in self.seta && self.seta[1] == 'y' && self.seta.map(x, x) == ['x', 'y']", True),
    ],
)
def test_a_set_has_no_order_and_nothing_twice(rule: str, wanted: bool) -> None:
    value = {"seta": ["x", "y"], "setb": ["y", "x"], "lista": ["x", "y"], "listb": ["y", "x"]}
    assert holds(rule, value) is wanted


@pytest.mark.parametrize(
    ("rule", "wanted"),
    [
        ("dyn(self.mapa) == dyn(self.mapb)", True),
        ("dyn(self.mapa) + dyn(self.mapb) == dyn(self.mapa)", True),
        ("(dyn(self.mapa) + [dyn(self.mapb)[0]]).size() == 2", True),
        ("(dyn(self.mapb) + dyn(self.mapa).filter(i, i.v == 1)).map(i, i.v) == [2, 1]", True),
    ],
)
def test_the_items_of_a_list_of_type_map_are_known_by_their_keys(rule: str, wanted: bool) -> None:
    one, two = {"k-1": "one", "v": 1}, {"k-1": "two", "v": 2}
    assert holds(rule, {"mapa": [one, two], "mapb": [two, one]}) is wanted


def test_what_has_the_keys_of_an_item_takes_its_place() -> None:
    value = {"mapa": [{"k-1": "one", "v": 1}, {"k-1": "two", "v": 2}], "mapb": [{"k-1": "one", "v": 9}]}
    assert holds("(dyn(self.mapa) + dyn(self.mapb)).map(i, i.v) == [9, 2]", value)
    assert not holds("dyn(self.mapb) == dyn(self.mapa).filter(i, i.k__dash__1 == 'one')", value)
