"""Bodies: media types, kinds, field validation. Patches: their effects and their errors."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from apiserver.api.codec.bodies import loads
from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.api.patch.goformat import go_format
from apiserver.api.schema.language import INT32, INT64, QUANTITY, RAW, STRING, TIME, ListOf, MapOf, Struct, field
from apiserver.registry.body.decode import summary, warnings_of
from apiserver.registry.body.unstructured import find_type_mismatch, restore
from apiserver.registry.verbs.patch import JsonPatch
from tests.registry.conftest import World

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"


async def refused(
    world: World, verb: str, body: Any, query: str = "", content_type: str = "application/json"
) -> StatusError:
    with pytest.raises(StatusError) as wrong:
        await world.call(verb, "configmaps", "" if verb == "create" else "a", body, query, content_type=content_type)
    return wrong.value


async def test_kind_and_version_default_to_those_of_the_url(world: World) -> None:
    await world.create("configmaps", {"metadata": {"name": "a"}})
    await world.create("configmaps", {"kind": "ConfigMap", "metadata": {"name": "b"}})
    error = await refused(world, "create", {"kind": "Nope", "apiVersion": "v1"})
    assert (
        error.message
        == 'Nope in version "v1" cannot be handled as a ConfigMap: no kind "Nope" is registered for version "v1" in scheme "pkg/api/legacyscheme/scheme.go:30"'
    )
    error = await refused(world, "create", {"kind": "Pod", "apiVersion": "v1", "spec": {"containers": "x"}})
    assert error.message.startswith(
        'Pod in version "v1" cannot be handled as a ConfigMap: json: cannot unmarshal string'
    )
    error = await refused(world, "create", {"kind": "Pod", "apiVersion": "v1"})
    assert error.message.endswith("converting (v1.Pod) to (core.ConfigMap): unknown conversion")
    error = await refused(world, "create", b'{"apiVersion": "a/b/c", "kind": "ConfigMap"}')
    expected = 'the object provided is unrecognized (must be of type ConfigMap): unexpected GroupVersion string: a/b/c ({"apiVersion": "a/b/c", "kind" ...)'
    assert error.message == expected


async def test_an_empty_body_is_an_object_without_a_name(world: World) -> None:
    for body in (b"null", b"{}"):
        assert "name or generateName is required" in (await refused(world, "create", body)).message


async def test_media_types(world: World) -> None:
    result = await world.call("create", "configmaps", body=b"metadata:\n  name: a\n", content_type="application/yaml")
    assert result.created
    await world.create("configmaps", {"metadata": {"name": "b"}}, content_type="")
    error = await refused(world, "create", {}, content_type="text/plain")
    assert (error.code, error.reason) == (415, "UnsupportedMediaType")
    assert error.message.endswith("application/json, application/yaml, application/vnd.kubernetes.protobuf")


async def test_unknown_fields_are_ignored_warned_about_or_refused(world: World) -> None:
    body = b'{"metadata":{"name":"a","nope":1},"data":{"a":"1","a":"2"}}'
    await world.call("create", "configmaps", body=body, query="fieldValidation=Ignore&dryRun=All")
    assert world.warnings == []
    await world.call("create", "configmaps", body=body, query="dryRun=All")
    assert world.warnings == ['unknown field "metadata.nope"', 'duplicate field "data.a"']
    error = await refused(world, "create", body, "fieldValidation=Strict")
    assert error.message.endswith('strict decoding error: unknown field "metadata.nope", duplicate field "data.a"')


def test_what_yaml_finds_is_one_warning_a_line() -> None:
    problem = 'yaml: unmarshal errors:\n  line 2: key "a" already set in map\n  line 3: key "b" already set in map'
    assert warnings_of(problem) == ['line 2: key "a" already set in map', 'line 3: key "b" already set in map']


def test_bodies_are_summed_up() -> None:
    assert summary(b"") == "<empty>"
    assert summary(b'{"a":1}') == '{"a":1}'
    assert summary(b"a: [") == "613a205b"
    assert summary(b"{" + b"x" * 40) == "{" + "x" * 29 + " ..."


async def patched(world: World, body: Any, content_type: str, query: str = "") -> Json:
    result = await world.call("patch", "configmaps", "a", body, query, content_type=content_type)
    obj: Json = result.entry.obj
    return obj


async def test_the_three_patches(world: World) -> None:
    await world.create("configmaps", {"metadata": {"name": "a", "finalizers": ["example.com/a"]}, "data": {"a": "1"}})
    expected = {"a": "1", "b": "2"}
    assert (await patched(world, [{"op": "add", "path": "/data/b", "value": "2"}], JSON_PATCH))["data"] == expected
    assert (await patched(world, {"data": {"a": None}}, MERGE))["data"] == {"b": "2"}
    body = {"metadata": {"finalizers": ["example.com/b"]}}
    assert (await patched(world, body, STRATEGIC))["metadata"]["finalizers"] == ["example.com/b", "example.com/a"]
    assert (await patched(world, body, MERGE))["metadata"]["finalizers"] == ["example.com/b"]


async def test_a_test_sees_kind_and_version(world: World) -> None:
    made = await world.create("configmaps", {"metadata": {"name": "a"}})
    version = made["metadata"]["resourceVersion"]
    await patched(
        world,
        [{"op": "test", "path": "/kind", "value": "ConfigMap"}, {"op": "test", "path": "/apiVersion", "value": "v1"}],
        JSON_PATCH,
    )
    await patched(world, [{"op": "test", "path": "/metadata/resourceVersion", "value": version}], JSON_PATCH)
    error = await refused(world, "patch", [{"op": "test", "path": "/kind", "value": "Pod"}], content_type=JSON_PATCH)
    assert (error.code, error.reason, error.details) == (422, "Invalid", {})


async def test_a_version_in_a_patch_is_checked(world: World) -> None:
    await world.create("configmaps", {"metadata": {"name": "a"}})
    body: Json = {"metadata": {"resourceVersion": "1"}, "data": {"x": "1"}}
    error = await refused(world, "patch", body, content_type=MERGE)
    assert error.code == 409
    body = {"metadata": {"resourceVersion": None}, "data": {"x": "1"}}
    assert (await patched(world, body, MERGE))["data"] == {"x": "1"}


@pytest.mark.parametrize(
    ("content_type", "body", "code", "words"),
    [
        (MERGE, b"[]", 400, "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"),
        (MERGE, b"null", 400, "Invalid JSON Patch"),
        (JSON_PATCH, b"[1]", 400, "error decoding patch: json: cannot unmarshal number into Go value of type handlers.jsonPatchOp"),
        (MERGE, b"{", 400, "error decoding patch: unexpected end of JSON input"),
        (MERGE, b'{"data":{"a":{"deep":1}}}', 422, "json: cannot unmarshal object into Go struct field ConfigMap.data of type string"),
        (MERGE, b'{"kind":"Pod"}', 422, 'no kind "Pod" is registered'),
        (STRATEGIC, b"[]", 400, "json: cannot unmarshal array into Go value of type map[string]interface {}"),
        (STRATEGIC, b'{"data":[]}', 422, ' "" is invalid: patch: Invalid value: "map[data:[]]": cannot restore map from slice'),
        (STRATEGIC, b'{"metadata":{"labels":{"x":1}}}', 422, '"map[metadata:map[labels:map[x:1]]]": cannot convert int64 to string'),
        (JSON_PATCH, b'[{"op":"remove","path":"/data/none"}]', 422, "the server rejected our request due to an error in our request"),
        (JSON_PATCH, b"[" + b'{"op":"test","path":"/kind","value":"x"},' * 10_000 + b'{"op":"add","path":"/data/a","value":"1"}]', 413, "got 10001"),
        ("text/plain", b"{}", 415, "application/json-patch+json, application/merge-patch+json"),
    ],
)  # fmt: skip
async def test_what_is_said_of_wrong_patches(
    world: World, content_type: str, body: bytes, code: int, words: str
) -> None:
    await world.create("configmaps", {"metadata": {"name": "a"}})
    error = await refused(world, "patch", body, content_type=content_type)
    assert error.code == code
    assert words in error.message


@pytest.mark.parametrize("labels_first", [True, False])
async def test_of_two_wrong_types_the_first_in_the_text_of_the_result_is_reported(
    world: World, labels_first: bool
) -> None:
    await world.create("configmaps", {"metadata": {"name": "a"}})
    operations: list[Json] = [
        {"op": "add", "path": "/metadata/labels", "value": {"a": {}}},
        {"op": "replace", "path": "/metadata/name", "value": False},
    ]
    error = await refused(world, "patch", operations[:: 1 if labels_first else -1], content_type=JSON_PATCH)
    assert error.message.endswith(
        "json: cannot unmarshal object into Go struct field ObjectMeta.metadata.labels of type string"
    )


async def test_unknown_fields_in_a_patch(world: World) -> None:
    await world.create("configmaps", {"metadata": {"name": "a"}})
    await patched(world, {"foo": 1}, MERGE)
    assert world.warnings == ['unknown field "foo"']
    await patched(world, {"foo": 1}, MERGE, "fieldValidation=Ignore")
    assert world.warnings == []
    error = await refused(world, "patch", {"metadata": {"zap": 1}}, "fieldValidation=Strict", STRATEGIC)
    expected = ' "" is invalid: patch: Invalid value: "map[metadata:map[zap:1]]": strict decoding error: unknown field "metadata.zap"'
    assert error.message == expected
    await patched(world, b'{"data":{"a":"1","a":"2"}}', MERGE)
    assert world.warnings == ['duplicate field "data.a"']


THING = Struct(
    "io.test.v1.Thing",
    (
        field("name", 1, STRING),
        field("size", 2, INT64),
        field("all", 3, ListOf(STRING)),
        field("map", 4, MapOf(INT64)),
        field("at", 5, TIME, pointer=True),
        field("much", 6, QUANTITY),
        field("raw", 7, RAW),
        field("few", 8, INT32),
    ),
)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("x", "cannot restore struct from: string"), ({"name": 1}, "cannot convert int64 to string"), ({"size": "x"}, "unrecognized type: int64"),
        ({"size": 1.5}, "cannot convert float64 to int64"), ({"all": {}}, "cannot restore slice from map"), ({"map": []}, "cannot restore map from slice"),
        ({"all": [True]}, "unrecognized type: string"), ({"all": [1.5]}, "unrecognized type: string"),
        ({"at": 5}, "json: cannot unmarshal number into Go value of type string"),
        ({"at": "x"}, 'parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006"'),
        ({"much": True}, "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"),
        ({"name": None, "size": 2.0, "map": {"a": 1}}, None),
    ],
)  # fmt: skip
def test_misfits_of_a_strategic_merge(value: Any, words: str | None) -> None:
    assert find_type_mismatch(THING, value) == words


def test_a_merged_object_is_read_as_a_value_and_not_as_text() -> None:
    unknown: list[str] = []
    given = {"size": 2.0, "few": 2**32 + 5, "map": {"a": 2**63}, "raw": {"b": 1.0, "a": [{"d": 1, "c": 2}]}, "x": 1}
    result = orjson.dumps(restore(THING, given, unknown))
    assert result == b'{"size":2,"map":{"a":-9223372036854775808},"raw":{"a":[{"c":2,"d":1}],"b":1},"few":5}'
    assert unknown == ["x"]


def test_values_as_go_prints_them() -> None:
    assert go_format({"b": [1, "x", None], "a": {"c": True}}) == "map[a:map[c:true] b:[1 x <nil>]]"
    numbers = [1.5, 1234567.5, 1e6, 123456.0, 2e5, 0.0001, 0.00001, 12345678901234567890.0, -2.5e-7, 0.0]
    assert (
        go_format(numbers) == "[1.5 1.2345675e+06 1e+06 123456 200000 0.0001 1e-05 1.2345678901234567e+19 -2.5e-07 0]"
    )


def test_a_json_patch_says_what_is_wrong_operation_by_operation() -> None:
    first = '{"Op":"x","op":"add","path":"/data","value":{"a":"b","a":"c"},"foo":{"a":1,"a":2}}'
    second = '{"path":"/x","path":"/data/b","op":"add","value":"b","u":1}'
    nobody: Any = None
    body = f"[{first},{second}]".encode()
    assert JsonPatch(nobody, nobody, body, "Strict").read(loads(body)) == [
        'json patch unknown field "[0].Op"',
        'json patch duplicate field "[0].value.a"',
        'json patch unknown field "[0].foo"',
        'json patch duplicate field "[1].path"',
        'json patch unknown field "[1].u"',
    ]
