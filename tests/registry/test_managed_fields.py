"""Managed fields through creates, updates and patches."""

from __future__ import annotations

import pytest

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.registry.definition.metadata import manager_name, validate_metadata
from apiserver.registry.fields.managers import (
    MAX_UPDATE_MANAGERS,
    Manager,
    Owned,
    decode,
    encode,
    fold_old_updates,
    keep_times,
)
from tests.registry.conftest import World


def owners(obj: Json) -> dict[str, Json]:
    """Return the fields by manager."""
    return {entry["manager"]: entry["fieldsV1"] for entry in obj["metadata"].get("managedFields", ())}


async def test_a_creator_owns_what_it_sent_but_not_what_the_server_owns(world: World) -> None:
    made = await world.create(
        "configmaps", {"metadata": {"name": "a", "labels": {"x": "1"}}, "data": {"k": "v"}}, "fieldManager=me"
    )
    assert made["metadata"]["managedFields"] == [
        {
            "manager": "me",
            "operation": "Update",
            "apiVersion": "v1",
            "time": "2025-01-02T03:04:05Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {".": {}, "f:k": {}}, "f:metadata": {"f:labels": {".": {}, "f:x": {}}}},
        }
    ]


async def test_a_write_takes_changed_fields_from_others(world: World) -> None:
    await world.create("configmaps", {"metadata": {"name": "a"}, "data": {"a": "1", "b": "1"}}, "fieldManager=first")
    world.clock.pass_seconds(2)
    changed = await world.merge("configmaps", "a", {"data": {"b": "2", "c": "3"}}, "fieldManager=second")
    assert owners(changed) == {"first": {"f:data": {".": {}, "f:a": {}}}, "second": {"f:data": {"f:b": {}, "f:c": {}}}}
    changed = await world.merge("configmaps", "a", {"data": {"a": None}}, "fieldManager=third")
    assert owners(changed) == {"first": {"f:data": {}}, "second": {"f:data": {"f:b": {}, "f:c": {}}}}
    expected = ["2025-01-02T03:04:05Z", "2025-01-02T03:04:07Z"]
    assert [entry["time"] for entry in changed["metadata"]["managedFields"]] == expected


async def test_an_update_owns_no_field_of_the_server_even_if_it_sends_one(world: World) -> None:
    made = await world.create("configmaps", {"metadata": {"name": "a"}, "data": {"a": "1"}}, "fieldManager=first")
    made["data"]["b"], made["metadata"]["creationTimestamp"] = "2", "2020-01-01T00:00:00Z"
    changed = await world.update("configmaps", "a", made, "fieldManager=second")
    assert owners(changed)["second"] == {"f:data": {"f:b": {}}}


async def test_status_is_managed_apart_and_reset_fields_are_nobodys(world: World) -> None:
    claim = {"metadata": {"name": "a"}, "spec": {"devices": {"requests": [{"name": "r"}]}}}
    await world.create("resourceclaims", claim, "fieldManager=user")
    status = {"reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]}
    changed = await world.update(
        "resourceclaims", "a", {**claim, "status": status}, "fieldManager=controller", subresource="status"
    )
    entry = next(entry for entry in changed["metadata"]["managedFields"] if entry["manager"] == "controller")
    assert entry["subresource"] == "status"
    assert list(entry["fieldsV1"]) == ["f:status"]
    again = await world.update("resourceclaims", "a", {**claim, "status": {}}, "fieldManager=other")
    assert owners(again) == owners(changed)


async def test_managers_can_be_edited_and_forgotten(world: World) -> None:
    await world.create("configmaps", {"metadata": {"name": "a"}, "data": {"a": "1"}}, "fieldManager=me")
    entry = {
        "manager": "renamed",
        "operation": "Apply",
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {"f:a": {}}},
    }
    changed = await world.merge("configmaps", "a", {"metadata": {"managedFields": [entry]}})
    assert owners(changed) == {"renamed": {"f:data": {"f:a": {}}}}
    cleared = await world.merge("configmaps", "a", {"metadata": {"managedFields": []}})
    assert "managedFields" not in cleared["metadata"]
    untracked = await world.merge("configmaps", "a", {"data": {"b": "2"}})
    assert "managedFields" not in untracked["metadata"]


async def test_more_than_ten_update_managers_are_folded(world: World) -> None:
    await world.create("configmaps", {"metadata": {"name": "a"}, "data": {"m0": "1"}}, "fieldManager=m0")
    for i in range(1, 13):
        world.clock.pass_seconds(1)
        changed = await world.merge("configmaps", "a", {"data": {f"m{i}": "1"}}, f"fieldManager=m{i}")
    found = owners(changed)
    assert len(found) == MAX_UPDATE_MANAGERS
    assert found["ancient-changes"] == {"f:data": {".": {}, "f:m0": {}, "f:m1": {}, "f:m2": {}, "f:m3": {}}}
    assert list(found)[:2] == ["ancient-changes", "m4"]


def test_folding_leaves_ten_alone() -> None:
    managers = {Manager(f"m{i}", "Update", "v1", ""): Owned({"f:a": {}}, "v1", None) for i in range(10)}
    before = dict(managers)
    fold_old_updates(managers)
    assert managers == before


def test_entries_are_sorted_by_operation_time_and_name() -> None:
    def owned(time: str) -> Owned:
        return Owned({"f:a": {}}, "v1", time)

    managers = {
        Manager("z", "Update", "v1", ""): owned("2025-01-01T00:00:00Z"),
        Manager("b", "Update", "v1", ""): owned("2025-01-01T00:00:01Z"),
        Manager("a", "Update", "v1", "status"): owned("2025-01-01T00:00:01Z"),
        Manager("y", "Apply", "", ""): owned("2025-01-01T00:00:09Z"),
    }
    entries = encode(managers)
    assert [entry["manager"] for entry in entries] == ["y", "z", "a", "b"]
    assert decode(entries) == managers


@pytest.mark.parametrize(
    "entry",
    [
        {"manager": "x", "operation": "Nope", "apiVersion": "v1", "fieldsType": "FieldsV1"},
        {"manager": "x", "operation": "Update", "fieldsType": "FieldsV1"},
        {"manager": "x", "operation": "Update", "apiVersion": "v1"},
        {
            "manager": "x",
            "operation": "Update",
            "apiVersion": "v1",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"wrong": {}},
        },
    ],
)
def test_entries_that_cannot_be_understood(entry: Json) -> None:
    assert decode([entry]) is None


@pytest.mark.parametrize(
    ("given", "agent", "name"),
    [
        ("me", "kubectl/1", "me"), ("", "kubectl-1.36/v1.36.0 (linux)", "kubectl-1.36"), ("", "noslash", "noslash"), ("", "", "unknown"),
        ("", "x" * 200 + "/1", "x" * 128), ("", "a\x07b/1", "ab"),
    ],
)  # fmt: skip
def test_the_manager_is_named_by_the_parameter_or_the_user_agent(given: str, agent: str, name: str) -> None:
    assert manager_name(given, agent) == name


async def test_managers_are_left_out_where_they_alone_make_an_object_too_large(world: World) -> None:
    data = {f"{'long-' * 14}{number}": "A" for number in range(9999)}
    made = await world.create("configmaps", {"metadata": {"name": "made"}, "data": data})
    assert "managedFields" not in made["metadata"]
    await world.create("configmaps", {"metadata": {"name": "grown"}, "data": {"k": "v"}})
    grown = await world.merge("configmaps", "grown", {"data": data})
    assert "managedFields" not in grown["metadata"]
    assert len(grown["data"]) == 10_000
    applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "grown"}}
    with pytest.raises(StatusError, match="etcdserver: request is too large"):
        await world.call(
            "patch", "configmaps", "grown", applied, "fieldManager=m", content_type="application/apply-patch+yaml"
        )


ORDINARY: Json = {"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({}, "", ""), ({"operation": "Apply"}, "", ""), ({"manager": "x" * 128}, "", ""), ({"subresource": "x" * 256}, "", ""),
        ({"operation": "Nope"}, "operation", "must be `Apply` or `Update`"), ({"fieldsType": "Nope"}, "fieldsType", "must be `FieldsV1`"),
        ({"manager": "x" * 129}, "manager", "128"), ({"manager": "a\x07"}, "manager", "invalid character U+0007 (at position 1)"),
        ({"subresource": "x" * 257}, "subresource", "256"),
    ],
)  # fmt: skip
def test_entries_are_checked_whether_they_name_a_subresource_or_not(changes: Json, field: str, words: str) -> None:
    for more in ({}, {"subresource": "status"}):
        entry = {**ORDINARY, **more, **changes}
        metadata = {"name": "a", "managedFields": [ORDINARY, entry]}
        errors = validate_metadata(metadata, False, "path-segment", kind_rules=False)
        if not field:
            assert errors == []
            continue
        (error,) = errors
        assert error.field == f"metadata.managedFields[1].{field}"
        assert words in error.body


_MANAGER = {"manager": "m", "operation": "Update", "time": "2025-01-01T00:00:00Z", "fieldsV1": {"f:data": {}}}


@pytest.mark.parametrize(
    ("more", "managers", "kept"),
    [
        ({}, [{"time": "2026-01-01T00:00:00Z"}], True),
        ({}, [{}], True),
        ({}, [{"time": "2026-01-01T00:00:00Z", "manager": "n"}], False),
        ({}, [{"time": "2026-01-01T00:00:00Z", "fieldsV1": {}}], False),
        ({}, [{"time": "2026-01-01T00:00:00Z"}, {}], False),
        ({}, [], False),
        ({"data": {"k": "w"}}, [{"time": "2026-01-01T00:00:00Z"}], False),
        ({"more": 1}, [{"time": "2026-01-01T00:00:00Z"}], False),
        ({"metadata": {"labels": {"a": "b"}}}, [{"time": "2026-01-01T00:00:00Z"}], False),
        ({"metadata": {"resourceVersion": "7"}}, [{"time": "2026-01-01T00:00:00Z"}], True),
    ],
)
def test_a_write_that_changes_the_times_of_managers_alone_changes_nothing(
    more: Json, managers: list[Json], kept: bool
) -> None:
    old: Json = {"metadata": {"name": "a", "resourceVersion": "5", "managedFields": [_MANAGER]}, "data": {"k": "v"}}
    written = [_MANAGER | each for each in managers]
    metadata = {"name": "a", **({"managedFields": written} if written else {}), **more.get("metadata", {})}
    new: Json = {"data": {"k": "v"}, **more, "metadata": metadata}
    keep_times(new, old)
    assert new["metadata"].get("managedFields") == ([_MANAGER] if kept else written or None)
