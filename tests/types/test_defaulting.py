"""Defaults of types."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from apiserver.api.objects import Json
from apiserver.api.schema.defaulting import fill_defaults
from apiserver.api.schema.language import BOOL, INT32, NOW, STRING, TIME, ListOf, MapOf, Struct, When, field
from apiserver.registry.definition.resource import Version
from apiserver.resources import CATALOG

AT = datetime(2026, 1, 2, 3, 4, 5, 600000, tzinfo=UTC)

Part = Struct("kubedra.test.Part", lambda: (
    field("mode", 1, STRING, fills="Exact"),
    field("count", 2, INT32, fills=When("mode", "Exact", 1)),
    field("other", 3, STRING, fills=When("count", None, When("mode", "All", "both"))),
    field("since", 4, TIME, pointer=True, fills=NOW),
))  # fmt: skip
Whole: Struct = Struct("kubedra.test.Whole", lambda: (
    field("part", 1, Part, pointer=True),
    field("parts", 2, ListOf(Part)),
    field("named", 3, MapOf(Part)),
    field("made", 4, MapOf(STRING), pointer=True, fills={}),
    field("zero", 5, STRING, default=""),
    field("written", 6, STRING, omit=False, default=""),
    field("flag", 7, BOOL, pointer=True, fills=False),
    field("listed", 8, ListOf(STRING), fills=["a"]),
    field("again", 9, Whole, pointer=True),
))  # fmt: skip


def filled(obj: Json, struct: Struct = Part) -> Json:
    fill_defaults(struct, obj, AT)
    return obj


TIMED = {"since": "2026-01-02T03:04:05Z"}


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ({}, {"mode": "Exact", "count": 1}),
        ({"mode": ""}, {"mode": "Exact", "count": 1}),
        ({"count": 3}, {"mode": "Exact", "count": 3}),
        ({"mode": "All"}, {"mode": "All"}),
        ({"mode": "All", "count": 2}, {"mode": "All", "count": 2, "other": "both"}),
    ],
)
def test_a_default_may_depend_on_a_field_before_it(given: Json, made: Json) -> None:
    assert filled(given) == made | TIMED


def test_what_is_given_stays() -> None:
    given = {"mode": "All", "since": "2020-01-01T00:00:00Z"}
    assert filled(dict(given)) == given


def test_parts_are_filled_wherever_they_stand_and_absent_ones_are_not_made() -> None:
    part = {"mode": "Exact", "count": 1} | TIMED
    whole = filled({"part": {}, "parts": [{}, {}], "named": {"x": {}}, "again": {}}, Whole)
    assert (whole["part"], whole["parts"], whole["named"]) == (part, [part, part], {"x": part})
    assert whole["again"] == {"made": {}, "written": "", "flag": False, "listed": ["a"]}


def test_objects_do_not_share_what_they_are_filled_with() -> None:
    first, second = filled({}, Whole), filled({}, Whole)
    first["made"]["x"] = "y"
    first["listed"].append("b")
    assert (second["made"], second["listed"]) == ({}, ["a"])


def version(plural: str, name: str = "v1") -> Version:
    return next(v for r in CATALOG if r.plural == plural for v in r.versions if v.name == name)


def test_requests_of_v1beta1_are_filled_when_they_name_a_class_and_have_no_alternatives() -> None:
    requests: list[Json] = [{"name": "a", "deviceClassName": "c"}, {"name": "b", "firstAvailable": [{"name": "x"}]}]
    version("resourceclaims", "v1beta1").fill({"spec": {"devices": {"requests": requests}}}, AT)
    assert requests == [
        {"name": "a", "deviceClassName": "c", "allocationMode": "ExactCount", "count": 1},
        {"name": "b", "firstAvailable": [{"name": "x", "allocationMode": "ExactCount", "count": 1}]},
    ]


def test_a_volume_inside_an_attachment_has_the_defaults_of_its_source_alone() -> None:
    inline: Json = {"rbd": {"image": "i", "monitors": ["m"]}}
    version("volumeattachments").fill({"spec": {"source": {"inlineVolumeSpec": inline}}}, AT)
    assert inline == {
        "rbd": {"image": "i", "monitors": ["m"], "pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"}
    }
