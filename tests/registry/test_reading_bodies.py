"""Bodies of requests: their kinds, and the errors of invalid ones."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from apiserver.api import protobuf
from apiserver.api.codec.codec import DecodeError
from apiserver.api.errors.status import StatusError
from apiserver.api.schema.language import STRING, Struct, field
from apiserver.api.types.core.configuration import ConfigMap
from apiserver.registry.body import decode as bodies
from apiserver.registry.definition.resource import Subresource, Version
from tests.registry.conftest import World

THING = Struct("io.test.v1.Thing", (field("text", 1, STRING),))
OTHER = Struct("io.test.v2.Thing", (field("text", 1, STRING),))
PART = Struct("io.test.v1.Part", (field("text", 1, STRING),))


def resource(group: str, *subresources: Subresource) -> Any:
    versions = (Version(name="v2", schema=OTHER), Version(name="v1", schema=THING))
    return SimpleNamespace(
        group=group,
        kind="Thing",
        list_kind="ThingList",
        versions=versions,
        api_versions={version.name: f"{group}/{version.name}" if group else version.name for version in versions},
        subresources=subresources,
    )


def test_kinds_are_known_by_version_with_their_lists_and_bodies_of_subresources_until_they_go() -> None:
    parts = (
        Subresource(name="own", kind="Own", schema=PART),
        Subresource(name="core", kind="Core", schema=PART, group=""),
        Subresource(name="old", kind="Old", schema=PART, group="other", version="v7"),
        Subresource(name="nameless", schema=PART),
        Subresource(name="status"),
    )
    kinds = bodies.Kinds([resource("g", *parts)])
    assert kinds.schema("g/v1", "Thing") is THING
    assert kinds.schema("g/v2", "Thing") is OTHER
    assert kinds.schema("v1", "Thing") is kinds.schema("g/v3", "Thing") is kinds.schema("g/v1", "") is None
    listed = kinds.schema("g/v1", "ThingList")
    assert listed is not None
    assert listed.name == "io.test.v1.ThingList"
    assert {name: each.number for name, each in listed.fields.items()}.items() >= {"metadata": 1, "items": 2}.items()
    assert [kinds.schema(*of) for of in (("g/v2", "Own"), ("v2", "Core"), ("other/v7", "Old"))] == [PART] * 3
    kinds.remove(resource("g"))
    gone = [kinds.schema(version, kind) for version in ("g/v1", "g/v2") for kind in ("Thing", "ThingList")]
    assert gone == [None] * 4
    assert kinds.schema("g/v2", "Own") is PART
    assert kinds.schema("v1", "List") is not None


@pytest.mark.parametrize(
    ("header", "media"),
    [
        ("", "application/json"),
        ("application/json; charset=utf-8", "application/json"),
        (" Application/YAML ;x", "application/yaml"),
    ],
)
def test_the_media_type_is_what_stands_before_parameters_and_json_where_none_is_named(header: str, media: str) -> None:
    assert bodies.media_type(header) == bodies.check_media_type(header) == media


def test_a_media_type_that_bodies_cannot_have_is_refused_with_those_they_can() -> None:
    with pytest.raises(StatusError) as refused:
        bodies.check_media_type("text/plain")
    assert (refused.value.code, refused.value.reason, refused.value.message) == (
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf",
    )
    assert bodies.unsupported_media_type(["a/b"]).message.endswith("include: a/b")


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b"", "<empty>"),
        (b"{" + b"x" * 29, "{" + "x" * 29),
        (b"{" + b"x" * 30, "{" + "x" * 29 + " ..."),
        (b"a" * 31, "61" * 30 + " ..."),
        (b"{\xff", "{�"),
    ],
)
def test_a_body_is_shown_by_its_first_30_bytes(body: bytes, shown: str) -> None:
    assert bodies.summary(body) == shown


def test_json_that_is_none_fails_where_its_version_is_looked_for_and_yaml_by_itself() -> None:
    with pytest.raises(DecodeError, match=r"^couldn't get version/kind; json parse error: "):
        bodies.load_body(b"{", "application/json")
    with pytest.raises(DecodeError, match=r"^(?!couldn't)"):
        bodies.load_body(b"a: [", "application/yaml")


@pytest.mark.parametrize(
    ("problem", "warnings"),
    [
        ('unknown field "a"', ['unknown field "a"']),
        ("yaml: unmarshal errors:\n  line 1: x\n  line 2: y", ["line 1: x", "line 2: y"]),
        ("error converting YAML to JSON: yaml: unmarshal errors:\n  line 1: x", ["line 1: x"]),
    ],
)
def test_a_problem_is_a_warning_and_of_yaml_each_line_is(problem: str, warnings: list[str]) -> None:
    assert bodies.warnings_of(problem) == warnings


def test_a_kind_that_nobody_registered_is_told_with_its_version() -> None:
    assert bodies.unregistered("X", "g/v1", "s") == 'no kind "X" is registered for version "g/v1" in scheme "s"'
    assert bodies.unregistered("X", "a/b/c", "s") == "unexpected GroupVersion string: a/b/c"


@pytest.mark.parametrize(
    ("obj", "name"),
    [({"metadata": {"name": "a"}}, "a"), ({"metadata": {}}, None), ({"metadata": []}, None), ({}, None), ([], None)],
)
def test_an_object_of_another_kind_than_the_custom_one_is_named_if_it_has_a_name(obj: Any, name: str | None) -> None:
    expected: Any = SimpleNamespace(kind="Thing", api_version="g/v1")
    error = bodies.other_kind("Other", "g/v1", expected, obj)
    assert error.message == f'Other.g "{name or ""}" is invalid: kind: Invalid value: "Other": must be Thing'
    assert error.details is not None
    assert error.details.get("name") == name


def test_a_custom_object_of_another_version_is_named_with_the_group_that_it_says() -> None:
    expected: Any = SimpleNamespace(kind="Thing", api_version="g/v1")
    error = bodies.other_kind("Thing", "h/v2", expected, {})
    assert error.message == 'Thing.h "" is invalid: apiVersion: Invalid value: "h/v2": must be g/v1'


def test_a_custom_object_says_its_kind_itself() -> None:
    expected: Any = SimpleNamespace(kind="Thing", version="v1")
    ignored = bodies._without_kind(expected, b'{"a":1}', "Ignore")
    assert ignored.message == (
        "Thing in version \"v1\" cannot be handled as a Thing: Object 'Kind' is missing in '{\"a\":1}'"
    )
    for validation in ("", "Warn", "Strict"):
        strict = bodies._without_kind(expected, b'{"a":1}', validation)
        assert strict.message == (
            "the object provided is unrecognized (must be of type Thing): Object 'Kind' is missing in '{\"a\":1}' ({\"a\":1})"
        )


@pytest.mark.parametrize(
    ("raw", "resets"),
    [
        ({"metadata": {"managedFields": []}}, True),
        ({"metadata": {"managedFields": [{}]}}, False),
        ({"metadata": {"managedFields": None}}, False),
        ({"metadata": {}}, False),
        ({"metadata": []}, False),
        ({}, False),
        ([], False),
    ],
)
def test_an_empty_list_of_managers_asks_to_forget_them(raw: Any, resets: bool) -> None:
    assert bodies._resets_managers(raw) is resets


async def made(world: World, envelope: bytes) -> Any:
    return await world.call("create", "configmaps", body=envelope, content_type=bodies.PROTOBUF)


async def test_a_body_in_protobuf_is_of_the_kind_that_its_envelope_names_or_else_of_the_paths(world: World) -> None:
    message = protobuf.encode(ConfigMap, {"metadata": {"name": "a"}, "data": {"k": "v"}})
    for version, kind in (("v1", "ConfigMap"), ("", ""), ("v1", ""), ("a/b/c", "")):
        assert (await made(world, protobuf.wrap(version, kind, message))).entry.obj["data"] == {"k": "v"}
        await world.delete("configmaps", "a")
    for envelope, words in (
        (protobuf.wrap("v1", "Pod", b""), "converting (v1.Pod) to (core.ConfigMap): unknown conversion"),
        (protobuf.wrap("v2", "ConfigMap", message), 'no kind "ConfigMap" is registered for version "v2"'),
        (b"{}", "the object provided is unrecognized (must be of type ConfigMap): provided data does not appear to be"),
        (b"k8s\0", "the object provided is unrecognized (must be of type ConfigMap): empty body"),
    ):
        with pytest.raises(StatusError) as refused:
            await made(world, envelope)
        assert refused.value.code == 400
        assert words in refused.value.message
