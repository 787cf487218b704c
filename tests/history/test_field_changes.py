"""The difference of two objects, by field."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.api.helpers.field_changes import compare_objects


def changes(old: Any, new: Any) -> list[tuple[str, Any, Any]]:
    return [tuple(change) for change in compare_objects({"spec": old}, {"spec": new})]


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 2}, [("spec.a", 1, 2)]),
        ({}, {"a": {"b": 1}}, [("spec.a", None, {"b": 1})]),
        ({"a": {"b": 1}}, {"a": {}}, [("spec.a.b", 1, None)]),
        ({"a": [1, 2]}, {"a": [1]}, [("spec.a", [1, 2], [1])]),
        ({}, {"a": []}, [("spec.a", None, [])]),
        ({"a": {"example.com/x": "1"}}, {"a": {"example.com/x": "2"}}, [("spec.a[example.com/x]", "1", "2")]),
        ({}, {"c": [{"type": "Ready"}]}, [("spec.c[Ready]", None, {"type": "Ready"})]),
        (
            {"c": [{"name": "a", "n": 1}, {"name": "b", "n": 1}]},
            {"c": [{"name": "b", "n": 2}]},
            [("spec.c[a]", {"name": "a", "n": 1}, None), ("spec.c[b].n", 1, 2)],
        ),
        ({"c": [{"name": "a"}, {"name": "a"}]}, {"c": [{"name": "a"}]}, [("spec.c[1]", {"name": "a"}, None)]),
    ],
)
def test_a_change_names_its_field_and_both_values(old: Any, new: Any, found: list[tuple[str, Any, Any]]) -> None:
    assert changes(old, new) == found


def test_fields_that_every_write_changes_are_left_out() -> None:
    old = {"metadata": {"name": "x", "resourceVersion": "1", "managedFields": [{"time": "1"}]}}
    assert compare_objects(old, {"metadata": {"name": "x", "resourceVersion": "2"}}) == []
