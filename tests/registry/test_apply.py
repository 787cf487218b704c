"""Server-side apply: ownership, conflicts, pruning, errors."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.api.schema.language import ANY, BOOL, INT32, INT64, QUANTITY, STRING, ListOf, MapOf, Struct, field
from apiserver.registry.fields.merge import add_parent_fields, check, merge, remove
from apiserver.registry.fields.set import paths, without
from apiserver.registry.fields.walk import ABSENT, collect_applied, walker_of
from apiserver.storage.log.types import Write
from tests.registry.conftest import World

APPLY = "application/apply-patch+yaml"


async def apply(world: World, data: Json | None, query: str, **metadata: Any) -> Any:
    body: Json = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", **metadata}}
    if data is not None:
        body["data"] = data
    result = await world.call("patch", "configmaps", "a", body, query, content_type=APPLY)
    return result.entry.obj


def owners(obj: Json) -> dict[tuple[str, str], Json]:
    return {
        (entry["manager"], entry["operation"]): entry["fieldsV1"] for entry in obj["metadata"].get("managedFields", ())
    }


async def test_the_first_apply_creates_and_a_repetition_changes_nothing(world: World) -> None:
    made = await apply(world, {"a": "1"}, "fieldManager=m1")
    assert owners(made) == {("m1", "Apply"): {"f:data": {"f:a": {}}}}
    world.clock.pass_seconds(5)
    assert await apply(world, {"a": "1"}, "fieldManager=m1") == made


async def test_fields_that_are_no_longer_stated_go_unless_others_own_them(world: World) -> None:
    await apply(world, {"a": "1", "b": "1"}, "fieldManager=m1")
    await apply(world, {"b": "1"}, "fieldManager=m2")
    left = await apply(world, {}, "fieldManager=m1")
    assert left["data"] == {"b": "1"}
    assert owners(left)["m2", "Apply"] == {"f:data": {"f:b": {}}}


async def test_conflicts_name_manager_and_field_and_force_settles_them(world: World) -> None:
    await apply(world, {"a": "1", "b": "1"}, "fieldManager=m1")
    with pytest.raises(StatusError, match=r'Apply failed with 1 conflict: conflict with "m1": .data.a') as one:
        await apply(world, {"a": "2"}, "fieldManager=m2")
    assert one.value.details == {
        "causes": [{"reason": "FieldManagerConflict", "message": 'conflict with "m1"', "field": ".data.a"}]
    }
    with pytest.raises(StatusError, match=r'2 conflicts: conflicts with "m1":\n- \.data\.a\n- \.data\.b'):
        await apply(world, {"a": "2", "b": "2"}, "fieldManager=m2")
    taken = await apply(world, {"a": "2"}, "fieldManager=m2&force=true")
    assert owners(taken) == {("m1", "Apply"): {"f:data": {"f:b": {}}}, ("m2", "Apply"): {"f:data": {"f:a": {}}}}


async def test_an_updater_conflicts_under_its_version(world: World) -> None:
    await world.create("configmaps", {"metadata": {"name": "a"}, "data": {"a": "1"}}, "fieldManager=old")
    with pytest.raises(StatusError, match=r'conflict with "old" using v1: \.data\.a'):
        await apply(world, {"a": "2"}, "fieldManager=m1")


async def test_unmanaged_fields_belong_to_who_wrote_before_the_first_apply(world: World) -> None:
    await world.create("configmaps", {"metadata": {"name": "a"}, "data": {"a": "1"}})
    await world.merge("configmaps", "a", {"metadata": {"managedFields": [{}]}})
    done = await apply(world, {"b": "2"}, "fieldManager=m1")
    assert owners(done) == {
        ("m1", "Apply"): {"f:data": {"f:b": {}}},
        ("before-first-apply", "Update"): {"f:data": {".": {}, "f:a": {}}},
    }


async def test_kubectl_takes_over_what_it_applied_from_the_client(world: World) -> None:
    last = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"a":"1"}}'
    key = "kubectl.kubernetes.io/last-applied-configuration"
    sent = {"metadata": {"name": "a", "annotations": {key: last}}, "data": {"a": "1"}}
    await world.create("configmaps", sent, "fieldManager=kubectl-client-side-apply")
    done = await apply(world, {"a": "2"}, "fieldManager=kubectl")
    assert done["data"] == {"a": "2"}
    assert '"a":"2"' in done["metadata"]["annotations"][key]


_LAST = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "1", "b": "1"}}


@pytest.mark.parametrize(
    ("manager", "last", "conflicts"),
    [
        ("kubectl", json.dumps(_LAST), []),
        ("other", json.dumps(_LAST), [".data.a", ".data.b"]),
        ("kubectl", json.dumps(_LAST | {"data": {"a": "1"}}), [".data.b"]),
        ("kubectl", json.dumps(_LAST | {"data": {"a": "1", "b": "changed since"}}), [".data.b"]),
        ("kubectl", json.dumps(_LAST | {"apiVersion": "v2"}), [".data.a", ".data.b"]),
        ("kubectl", json.dumps(_LAST | {"data": "x"}), [".data.a", ".data.b"]),
        ("kubectl", "[]", [".data.a", ".data.b"]),
        ("kubectl", "{", [".data.a", ".data.b"]),
        ("kubectl", "", [".data.a", ".data.b"]),
        ("kubectl", None, [".data.a", ".data.b"]),
    ],
)
async def test_kubectl_alone_takes_over_and_only_what_it_said_last_and_nobody_changed(
    world: World, manager: str, last: str | None, conflicts: list[str]
) -> None:
    key = "kubectl.kubernetes.io/last-applied-configuration"
    annotations = {} if last is None else {key: last}
    sent = {"metadata": {"name": "a", "annotations": annotations}, "data": {"a": "1", "b": "1"}}
    await world.create("configmaps", sent, "fieldManager=creator")
    if not conflicts:
        assert (await apply(world, {"a": "2", "b": "2"}, f"fieldManager={manager}"))["data"] == {"a": "2", "b": "2"}
        return
    with pytest.raises(StatusError) as refused:
        await apply(world, {"a": "2", "b": "2"}, f"fieldManager={manager}")
    assert refused.value.code == 409
    assert refused.value.details is not None
    assert [cause["field"] for cause in refused.value.details["causes"]] == conflicts


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        (b"", 400, "invalid object type: /, Kind="),
        (b'{"apiVersion":"a/b/c","kind":5}', 400, "invalid object type: /, Kind="),
        (b"[]", 400, "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array"),
        (b'{"apiVersion":"v1","kind":"Secret"}', 400, "invalid object type: /v1, Kind=Secret"),
        (
            b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"}}',
            400,
            "the name of the object (b) does not match",
        ),
        (
            b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","managedFields":[]}}',
            400,
            "metadata.managedFields must be nil",
        ),
        (
            b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"nope":"1"}',
            500,
            "(/a; /v1, Kind=ConfigMap): .nope: field not declared",
        ),
        (
            b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","uid":"u"}}',
            409,
            "uid mismatch: the provided object specified uid u",
        ),
    ],
)
async def test_bodies_that_cannot_be_applied(world: World, body: bytes, code: int, words: str) -> None:
    with pytest.raises(StatusError) as wrong:
        await world.call("patch", "configmaps", "a", body, "fieldManager=m1", content_type=APPLY)
    assert wrong.value.code == code
    assert words in wrong.value.message


async def test_a_status_apply_creates_nothing_and_apply_needs_a_manager(world: World) -> None:
    body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "a"}, "status": {}}
    for sent in (body, b"{["):
        with pytest.raises(StatusError, match='"a" not found'):
            await world.call(
                "patch", "resourceclaims", "a", sent, "fieldManager=m", content_type=APPLY, subresource="status"
            )
    with pytest.raises(StatusError, match="fieldManager: Required value: is required for apply patch"):
        await world.call("patch", "resourceclaims", "a", body, content_type=APPLY)


ITEM = Struct("io.test.v1.Item", (field("name", 1, STRING, required=True), field("size", 2, INT32)))
BOX = Struct(
    "io.test.v1.Box",
    (
        field("labels", 1, MapOf(STRING)),
        field("items", 2, ListOf(ITEM, "map", ("name",))),
        field("tags", 3, ListOf(STRING, "set")),
        field("args", 4, ListOf(STRING)),
    ),
)
NAMES = st.sampled_from("abcde")


def boxes() -> st.SearchStrategy[Json]:
    unique = st.lists(NAMES, unique=True, min_size=1, max_size=4)
    items = unique.flatmap(
        lambda names: st.tuples(
            *(st.fixed_dictionaries({"name": st.just(name)}, optional={"size": st.integers(0, 3)}) for name in names)
        ).map(list)
    )
    return st.fixed_dictionaries(
        {},
        optional={
            "labels": st.dictionaries(NAMES, st.sampled_from("xy"), min_size=1, max_size=3),
            "items": items,
            "tags": unique,
            "args": unique,
        },
    )


@given(boxes(), boxes())
def test_a_merge_holds_all_that_was_applied_and_what_was_live_besides(live: Json, applied: Json) -> None:
    merged = merge(BOX, live, applied) if live or applied else {}
    merged = {} if merged is ABSENT else merged
    assert merge(BOX, merged, applied) == merged or not applied
    assert set(paths(collect_applied(BOX, applied))) <= set(paths(collect_applied(BOX, merged)))
    assert set(paths(collect_applied(BOX, live))) <= set(paths(collect_applied(BOX, merged)))
    names = [item["name"] for item in merged.get("items", ())]
    assert [name for name in names if name in [item["name"] for item in applied.get("items", ())]] == [
        i["name"] for i in applied.get("items", ())
    ]


@given(boxes(), boxes())
def test_what_is_removed_is_gone_and_the_rest_stays(box: Json, other: Json) -> None:
    fields = collect_applied(BOX, other)
    rest = {name: value for name, value in remove(BOX, box, fields).items() if value}
    assert collect_applied(BOX, rest) == without(collect_applied(BOX, box), fields)


def test_a_value_that_does_not_fit_is_named() -> None:
    assert check(BOX, {"labels": {"a": 1}}) == ".labels.a: expected string, got &value.valueUnstructured{Value:1}"
    nothing = "&value.valueUnstructured{Value:[]interface {}{interface {}(nil)}}"
    assert check(BOX, {"labels": {"a": [None]}}) == f".labels.a: expected string, got {nothing}"
    assert check(BOX, {"tags": ["a", "a"]}) == '.tags: duplicate entries for key [="a"]'
    message = check(BOX, {"items": [{"name": "a", "size": "x"}]})
    assert message == '.items[name="a"].size: expected numeric (int or float), got string'
    assert check(BOX, {"nope": 1, "neither": 1, "args": "x"}) == ".nope: field not declared in schema", (
        "it ends the look at its object"
    )
    result = check(BOX, {"args": "x", "nope": 1})
    assert result == "errors:\n  .args: expected list, got &{x}\n  .nope: field not declared in schema"


_VALUES: Json = {"null": None, "string": "x", "bool": True, "int": 3, "float": 1.5, "list": [1, "y"], "map": {"a": "b"}}


@pytest.mark.parametrize(
    ("type_", "words", "wrong"),
    [
        (INT64, "expected numeric (int or float), got {}", {"string": "string", "bool": "bool", "list": "[]interface {}", "map": "map[string]interface {}"}),
        (STRING, "expected string, got &value.valueUnstructured{{Value:{}}}", {"bool": "true", "int": "3", "float": "1.5", "list": '[]interface {}{1, "y"}', "map": 'map[string]interface {}{"a":"b"}'}),
        (BOOL, "expected boolean, got &{{{}}}", {"string": "x", "int": "3", "float": "1.5", "list": "[1 y]", "map": "map[a:b]"}),
        (QUANTITY, "expected any scalar, got &{{{}}}", {"list": "[1 y]", "map": "map[a:b]"}),
        (ANY, "", {}),
    ],
    ids=lambda value: getattr(value, "name", ""),
)  # fmt: skip
def test_each_scalar_takes_its_own_values_and_names_others(type_: Any, words: str, wrong: dict[str, str]) -> None:
    found = {name: text for name, value in _VALUES.items() if (text := check(type_, value))}
    assert found == {name: words.format(shown) for name, shown in wrong.items()}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"items": ["x"]}, ".items: element 0: associative list with keys may not have non-map elements"),
        ({"items": [{"name": "a"}, None]}, ".items: element 1: associative list with keys may not have a null element"),
        ({"items": [{"size": 1}]}, '.items: element 0: associative list with keys has an element that omits all key fields ["name"] (and doesn\'t have default values for any key fields)'),
        ({"items": [{"name": "a"}, {"name": "a", "size": "x"}]}, 'errors:\n  .items: duplicate entries for key [name="a"]\n  .items[name="a"].size: expected numeric (int or float), got string'),
        ({"tags": [{}]}, ".tags: element 0: associative list without keys has an element that's a map type"),
        ({"tags": [[]]}, ".tags: element 0: not supported: associative list with lists as elements"),
        ({"tags": [None]}, ".tags: element 0: associative list without keys has an element that's an explicit null"),
        ({"args": ["a", 1]}, ".args[1]: expected string, got &value.valueUnstructured{Value:1}"),
        ({"args": ["a", "a", None]}, ""),
        ({"labels": ["x"]}, ".labels: expected map, got &{[x]}"),
        ({"labels": None, "items": None, "tags": None}, ""),
        ({"items": [{"name": "a"}, {"name": "b", "size": 2}], "tags": ["a", "b"]}, ""),
    ],
)  # fmt: skip
def test_items_of_lists_with_keys_have_their_keys_once(value: Json, words: str) -> None:
    assert check(BOX, value) == words


PORT = Struct(
    "io.test.v1.Port", (field("number", 1, INT32, required=True), field("protocol", 2, STRING, default="TCP"))
)
PORTS = ListOf(PORT, "map", ("number", "protocol"))


def test_a_key_that_is_left_out_is_its_default_in_all_that_apply_does() -> None:
    bare, tcp, udp = {"number": 1}, {"number": 1, "protocol": "TCP"}, {"number": 1, "protocol": "UDP"}
    assert check(PORTS, [bare, udp]) == ""
    assert check(PORTS, [bare, tcp]) == 'duplicate entries for key [number=1,protocol="TCP"]'
    assert merge(PORTS, [bare, udp], [tcp]) == [tcp, udp]
    owned = walker_of(PORTS).collect_applied([bare])
    assert remove(PORTS, [tcp, udp], owned) == [udp]


async def test_what_is_owned_in_a_version_that_is_no_more_holds_nothing(world: World) -> None:
    await apply(world, {"a": "1", "b": "1"}, "fieldManager=m1")
    store, entry = world.store("configmaps"), (await world.list("configmaps")).entries[0]
    old = entry.obj["metadata"]["managedFields"][0] | {"manager": "old", "apiVersion": "v0"}
    value = entry.value.replace(b'"managedFields":[', b'"managedFields":[' + json.dumps(old).encode() + b",")
    edited = await store.append(Write(entry.key, value, entry.revision))
    assert ("old", "Apply") in owners(edited.obj)
    left = await apply(world, {"a": "1"}, "fieldManager=m1")
    assert left["data"] == {"a": "1"}
    assert owners(left) == {("m1", "Apply"): {"f:data": {"f:a": {}}}}


PART = Struct("io.test.v1.Part", (field("deep", 1, INT32), field("more", 2, MapOf(INT32))))
WHOLE = Struct(
    "io.test.v1.Whole",
    (field("part", 1, PART), field("by", 2, MapOf(PART)), field("items", 3, ListOf(PART, "map", ("deep",)))),
)


@pytest.mark.parametrize(
    ("fields", "members"),
    [
        ({}, {}),
        ({"f:part": {}}, {"f:part": {}}),
        ({"f:part": {"f:deep": {}}}, {"f:part": {".": {}, "f:deep": {}}}),
        ({"f:part": {".": {}, "f:deep": {}}}, {"f:part": {".": {}, "f:deep": {}}}),
        ({"f:part": {"f:more": {"f:x": {}}}}, {"f:part": {".": {}, "f:more": {".": {}, "f:x": {}}}}),
        ({"f:by": {"f:x": {"f:deep": {}}}}, {"f:by": {".": {}, "f:x": {"f:deep": {}}}}),
        ({"f:items": {'k:{"deep":1}': {"f:more": {"f:x": {}}}}}, {"f:items": {".": {}, 'k:{"deep":1}': {"f:more": {".": {}, "f:x": {}}}}}),
        ({"f:unknown": {"f:x": {}}}, {"f:unknown": {"f:x": {}}}),
    ],
)  # fmt: skip
def test_a_declared_field_belongs_to_a_set_with_anything_below_it(fields: Json, members: Json) -> None:
    assert add_parent_fields(WHOLE, fields) == members
