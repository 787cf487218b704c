"""Patches: names that do not exist, repeated fields, media types."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.registry.verbs.patch import _problems_of_operations
from tests.registry.conftest import World

APPLY, STRATEGIC, MERGE, OPERATIONS = (
    f"application/{kind}"
    for kind in ("apply-patch+yaml", "strategic-merge-patch+json", "merge-patch+json", "json-patch+json")
)


async def patched(world: World, body: Any, media: str, query: str = "") -> Json:
    result = await world.call("patch", "configmaps", "a", body, query, content_type=media)
    obj: Json = result.entry.obj
    return obj


def configuration(**metadata: Any) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", **metadata}, "data": {"k": "v"}}


async def test_an_apply_makes_an_object_in_the_namespace_of_its_path(world: World) -> None:
    for wrong, code, words in (
        (configuration(namespace="other"), 400, "the namespace of the provided object does not match the namespace"),
        (configuration(name="b"), 400, "the name of the object (b) does not match the name on the URL (a)"),
        (configuration(uid="u"), 409, "uid mismatch: the provided object specified uid u, and no existing object"),
    ):
        with pytest.raises(StatusError) as refused:
            await patched(world, wrong, APPLY, "fieldManager=m")
        assert refused.value.code == code
        assert words in refused.value.message
    made = await patched(world, configuration(), APPLY, "fieldManager=m")
    assert made["metadata"]["namespace"] == "default"
    for media in (STRATEGIC, MERGE):
        with pytest.raises(StatusError, match='configmaps "b" not found'):
            await world.call("patch", "configmaps", "b", {}, "", content_type=media)


async def test_what_a_patch_says_twice_is_ignored_warned_about_or_refused(world: World) -> None:
    body = b'{"data":{"x":"1","x":"2"}}'
    operations = b'[{"op":"add","path":"/data/x","value":"1","value":"2","more":3}]'
    await world.create("configmaps", {"metadata": {"name": "a"}, "data": {"k": "v"}})
    for media, text, said in (
        (STRATEGIC, body, ['duplicate field "data.x"']),
        (MERGE, body, ['duplicate field "data.x"']),
        (OPERATIONS, operations, ['json patch duplicate field "[0].value"', 'json patch unknown field "[0].more"']),
    ):
        assert (await patched(world, text, media, "dryRun=All"))["data"] == {"k": "v", "x": "2"}
        assert sorted(world.warnings) == said
        await patched(world, text, media, "dryRun=All&fieldValidation=Ignore")
        assert world.warnings == []
        with pytest.raises(StatusError) as refused:
            await patched(world, text, media, "fieldValidation=Strict")
        assert refused.value.code in (400, 422)
        assert all(words in refused.value.message for words in said)


async def test_what_an_apply_says_twice_is_told_as_a_reader_of_yaml_tells_it(world: World) -> None:
    body = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"x":"1","x":"2"}}'
    assert (await patched(world, body, APPLY, "fieldManager=m"))["data"] == {"x": "2"}
    assert world.warnings == ['line 1: key "x" already set in map']
    await patched(world, body, APPLY, "fieldManager=m&fieldValidation=Ignore")
    assert world.warnings == []
    with pytest.raises(StatusError, match="error strict decoding YAML: error converting YAML to JSON: yaml: "):
        await patched(world, body, APPLY, "fieldManager=m&fieldValidation=Strict")


@pytest.mark.parametrize(
    ("operations", "repeated", "found"),
    [
        ([{"op": "add"}], [], []),
        ([{"op": "add", "x": 1}, None, {"y": 2}], [], ["unknown 0 x", "unknown 2 y"]),
        ([{"op": "add", "value": 1}], ["[0].value", "[0].value.a", "[0].value[1]", "[0].values"], ["duplicate 0 value"] * 3),
        ([{"op": "add"}, {"value": 1}], ["[0].value"], []),
    ],
)  # fmt: skip
def test_each_operation_of_a_patch_is_read_strictly(
    operations: list[Any], repeated: list[str], found: list[str]
) -> None:
    problems = _problems_of_operations(operations, [f'duplicate field "{path}"' for path in repeated])
    assert len(problems) == len(found)
    for problem, wanted in zip(problems, found, strict=True):
        kind, index, key = wanted.split()
        assert problem.startswith(f'json patch {kind} field "[{index}].{key}')


async def test_objects_of_custom_kinds_are_not_merged_strategically(world: World) -> None:
    await world.create("configmaps", {"metadata": {"name": "a"}})
    store = world.store("configmaps")
    labels = {"metadata": {"labels": {"a": "b"}}}
    for custom in (False, True):
        store.resource = replace(store.resource, custom=custom)
        assert (await patched(world, labels, f"{MERGE}; charset=utf-8"))["metadata"]["labels"] == {"a": "b"}
        if not custom:
            await patched(world, labels, STRATEGIC)
        for media in ("application/json", STRATEGIC) if custom else ("application/json",):
            with pytest.raises(StatusError) as refused:
                await patched(world, labels, media)
            assert (refused.value.code, refused.value.reason) == (415, "UnsupportedMediaType")
            assert refused.value.message.startswith(
                "the body of the request was in an unknown format - accepted media types"
            )
            assert (STRATEGIC in refused.value.message) is not custom
            assert MERGE in refused.value.message


async def test_a_patch_that_is_none_is_refused_as_what_it_is(world: World) -> None:
    await world.create("configmaps", {"metadata": {"name": "a"}, "data": {"k": "v"}})
    for media, body in ((STRATEGIC, b"["), (MERGE, b"{"), (OPERATIONS, b"{}"), (STRATEGIC, b"[]"), (APPLY, b"[]")):
        with pytest.raises(StatusError) as refused:
            await patched(world, body, media, "fieldManager=m" if media == APPLY else "")
        assert refused.value.code == 400, (media, body)
    assert await patched(world, b"null", STRATEGIC) == (await world.call("get", "configmaps", "a")).obj
    assert json.loads(json.dumps(await patched(world, b"{}", MERGE)))["data"] == {"k": "v"}
