"""CustomResourceDefinitions over a socket: their resources are served, updated and removed with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from apiserver.api.objects import Json
from tests.http.widgets import ApiClient, open_server, watch_events
from tests.support.extensions import make_definition, make_version

pytestmark = [pytest.mark.integration, pytest.mark.real_time]

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
SPEC: Json = {"type": "object", "properties": {"count": {"type": "integer", "maximum": 9}, "size": {"type": "string"}}}


def definition(spec: Json = SPEC, plural: str = "widgets", kind: str = "Widget", **version: Any) -> Json:
    schema = {"type": "object", "properties": {"spec": spec, "status": {"type": "object", "properties": {}}}}
    return make_definition(plural, kind, make_version("v1", schema, **version))


def widget(name: str, **spec: Any) -> Json:
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec}


async def until(client: ApiClient, path: str, wanted: Any) -> Json:
    """Return the answer of a path once a condition holds; it is checked after each event of definitions."""
    async with watch_events(client, DEFINITIONS) as events:
        while True:
            answer = await client.get(path)
            if wanted(answer):
                found: Json = answer.json() if answer.headers["content-type"] == "application/json" else {}
                return found
            await anext(events)


async def define(client: ApiClient, body: Json) -> Json:
    """Create a definition and wait until it is established."""
    await client.create(DEFINITIONS, body)
    return await until(client, f"{DEFINITIONS}/{body['metadata']['name']}", is_established)


async def withdraw(client: ApiClient, plural: str) -> None:
    """Delete a definition and wait for its end because the database is shared with the next test."""
    path = f"{DEFINITIONS}/{plural}.example.com"
    await client.delete(path)
    await until(client, path, is_gone)


def is_established(answer: httpx.Response) -> bool:
    conditions = answer.json()["status"].get("conditions") or []
    return any(item["type"] == "Established" and item["status"] == "True" for item in conditions)


def is_gone(answer: httpx.Response) -> bool:
    return answer.status_code == 404


async def test_an_established_definition_is_served_immediately_with_its_schema() -> None:
    async with open_server() as (_, client):
        made = await define(client, definition())
        assert made["status"]["acceptedNames"] == {
            "plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList",
        }  # fmt: skip
        answer = await client.post(WIDGETS, json=widget("a", count=1, color="red"))
        assert answer.status_code == 201
        assert answer.headers["warning"] == '299 - "unknown field \\"spec.color\\""'
        assert answer.json()["spec"] == {"count": 1}
        refused = await client.post(WIDGETS, json=widget("b", count=10))
        assert refused.status_code == 422
        assert refused.json()["details"]["causes"][0]["field"] == "spec.count"
        listed = (await client.get(WIDGETS)).json()
        assert [item["kind"] for item in listed["items"]] == ["Widget"]


@pytest.mark.parametrize("storage", ["sqlite", "postgres"])
async def test_definitions_are_served_after_a_restart(
    storage: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    where = storage if storage == "sqlite" else request.getfixturevalue("postgres_url")
    directory = tmp_path if storage == "sqlite" else None
    async with open_server(where, directory) as (_, client):
        await define(client, definition())
        await client.create(WIDGETS, widget("a", count=1))
    async with open_server(where, directory) as (_, client):
        assert (await client.get(f"{WIDGETS}/a")).json()["spec"] == {"count": 1}
        await withdraw(client, "widgets")


async def test_a_second_server_of_the_database_serves_the_definitions_of_the_first(
    request: pytest.FixtureRequest,
) -> None:
    gizmos = WIDGETS.replace("widgets", "gizmos")
    url = request.getfixturevalue("postgres_url")
    async with open_server(url) as (_, first), open_server(url) as (_, second):
        await define(first, definition(plural="gizmos", kind="Gizmo"))
        await until(second, gizmos, lambda answer: answer.status_code == 200)
        await second.create(gizmos, {**widget("a", count=1), "kind": "Gizmo"})
        assert (await first.get(f"{gizmos}/a")).json()["spec"] == {"count": 1}
        await withdraw(first, "gizmos")


async def test_stored_objects_are_shown_in_the_form_that_the_definition_has_now() -> None:
    """Removed fields are hidden, not lost, and new defaults hold for stored objects."""
    async with open_server() as (_, client):
        await define(client, definition())
        await client.create(WIDGETS, widget("a", count=1, size="m"))
        path = f"{DEFINITIONS}/widgets.example.com"
        narrow = {
            "type": "object",
            "properties": {"count": {"type": "integer"}, "mode": {"type": "string", "default": "on"}},
        }
        for spec, shown in ((narrow, {"count": 1, "mode": "on"}), (SPEC, {"count": 1, "size": "m"})):
            answer = await client.merge(path, {"spec": {"versions": definition(spec)["spec"]["versions"]}})
            assert answer.status_code == 200, answer.text
            while (await client.get(f"{WIDGETS}/a")).json()["spec"] != shown:
                continue
            assert (await client.get(WIDGETS)).json()["items"][0]["spec"] == shown


async def test_a_definition_goes_when_its_objects_are_gone() -> None:
    async with open_server() as (_, client):
        await define(client, definition())
        body = widget("a", count=1)
        body["metadata"]["finalizers"] = ["example.com/hold"]
        await client.create(WIDGETS, body)
        path = f"{DEFINITIONS}/widgets.example.com"
        assert (await client.delete(path)).status_code == 200
        held = await until(client, f"{WIDGETS}/a", lambda answer: "deletionTimestamp" in answer.json()["metadata"])
        assert held["metadata"]["finalizers"] == ["example.com/hold"]
        assert (await client.get(path)).status_code == 200
        refused = await client.post(WIDGETS, json=widget("b"))
        assert refused.status_code == 403
        assert "create not allowed while custom resource definition is terminating" in refused.json()["message"]
        await client.merge(f"{WIDGETS}/a", {"metadata": {"finalizers": None}})
        await until(client, path, is_gone)
        assert (await client.get(WIDGETS)).status_code == 404


async def test_a_watch_sees_the_objects_of_a_definition_go_with_it() -> None:
    async with open_server() as (_, client):
        await define(client, definition())
        await client.create(WIDGETS, widget("a", count=1))
        async with watch_events(client, WIDGETS) as events:
            assert (await anext(events))["type"] == "ADDED"
            await withdraw(client, "widgets")
            assert (await anext(events))["type"] == "DELETED"


async def test_a_server_ends_while_a_definition_waits_for_its_objects_and_the_next_one_goes_on(tmp_path: Path) -> None:
    path = f"{DEFINITIONS}/widgets.example.com"
    async with open_server("sqlite", tmp_path) as (_, client):
        await define(client, definition())
        body = widget("a", count=1)
        body["metadata"]["finalizers"] = ["example.com/hold"]
        await client.create(WIDGETS, body)
        await client.delete(path)
        await until(client, f"{WIDGETS}/a", lambda answer: "deletionTimestamp" in answer.json()["metadata"])
    async with open_server("sqlite", tmp_path) as (_, client):
        await client.merge(f"{WIDGETS}/a", {"metadata": {"finalizers": None}})
        await until(client, path, is_gone)


async def test_free_names_are_taken_by_waiting_definitions() -> None:
    async with open_server() as (_, client):
        await define(client, definition())
        await client.create(DEFINITIONS, definition(plural="gadgets"))
        path = f"{DEFINITIONS}/gadgets.example.com"
        waiting = await until(client, path, lambda answer: answer.json()["status"].get("conditions"))
        accepted = next(item for item in waiting["status"]["conditions"] if item["type"] == "NamesAccepted")
        assert (accepted["status"], accepted["reason"], accepted["message"]) == (
            "False", "ListKindConflict", '"WidgetList" is already in use',
        )  # fmt: skip
        await client.delete(f"{DEFINITIONS}/widgets.example.com")
        await until(client, path, is_established)


async def test_rules_in_cel_judge_objects_and_changes() -> None:
    rules = [
        {"rule": "!has(self.size) || self.count > 0", "message": "a size needs a count"},
        {
            "rule": "self.count >= oldSelf.count",
            "messageExpression": "'not below ' + (oldSelf.count > 2 ? 'three' : 'two')",
        },
    ]
    async with open_server() as (_, client):
        await define(client, definition({**SPEC, "x-kubernetes-validations": rules}))
        refused = await client.post(WIDGETS, json=widget("a", count=0, size="m"))
        assert refused.json()["details"]["causes"][0]["message"] == "Invalid value: a size needs a count"
        nameless = await client.post(WIDGETS, json={**widget("a", count=0, size="m"), "metadata": {}})
        named, unasked = nameless.json()["details"]["causes"]
        assert (named["field"], unasked["field"]) == ("metadata.name", "<nil>")
        assert unasked["message"].startswith("Invalid value: null: some validation rules were not checked")
        await client.create(WIDGETS, widget("a", count=3))
        lower = await client.merge(f"{WIDGETS}/a", {"spec": {"count": 2}})
        assert lower.json()["details"]["causes"] == [
            {"reason": "FieldValueInvalid", "message": "Invalid value: not below three", "field": "spec"}
        ]
        broken = {"rule": "false", "messageExpression": "string(double('a'))"}
        body = definition({**SPEC, "x-kubernetes-validations": [broken]}, "gadgets", "Gadget")
        said = (await client.post(DEFINITIONS, json=body)).json()["message"]
        assert ": messageExpression instantiation failed: type conversion error" in said


async def test_a_definition_can_be_applied_and_its_rules_may_name_fields_by_reserved_words() -> None:
    text = {"type": "string"}
    place = {"type": "object", "properties": {"namespace": text, "for": text}}
    properties = {
        "places": {"type": "array", "items": place, "maxItems": 5},
        "labels": {"type": "object", "additionalProperties": text},
    }
    rules = [
        {"rule": "self.places.all(p, !has(p.namespace) || p.namespace != 'x')", "message": "not x"},
        {"rule": "self.places.all(p, p.?for.orValue('') == '' || p.__for__ == 'y')", "message": "for y"},
    ]
    spec = {"type": "object", "properties": properties, "x-kubernetes-validations": rules}
    async with open_server() as (_, client):
        path, body = f"{DEFINITIONS}/widgets.example.com", definition(spec)
        applied = await client.apply(f"{path}?fieldManager=m", body)
        assert applied.status_code == 201, applied.text
        (manager,) = (item for item in applied.json()["metadata"]["managedFields"] if item["manager"] == "m")
        assert manager["fieldsV1"]["f:spec"]["f:versions"] == {}
        await until(client, path, is_established)
        for places, told in (
            ([{"namespace": "y", "for": "y"}, {}], ""),
            ([{"namespace": "x"}], "Invalid value: not x"),
            ([{"for": "z"}], "Invalid value: for y"),
        ):
            answer = await client.post(WIDGETS, json=widget("a", places=places, labels={"a": "b"}))
            causes = answer.json().get("details", {}).get("causes", ())
            assert "".join(cause["message"] for cause in causes) == told
        for wrong in ({"places": 7}, {"places": "x"}, {"labels": 7}, {"labels": ["a"]}):
            for answer in (
                await client.post(WIDGETS, json=widget("b", **wrong)),
                await client.merge(f"{WIDGETS}/a", {"spec": wrong}),
            ):
                assert answer.status_code == 422, answer.text
                assert answer.json()["details"]["causes"][0]["reason"] == "FieldValueTypeInvalid"


async def test_managers_of_custom_objects_own_what_their_schema_tells_apart() -> None:
    properties = {"name": {"type": "string"}, "n": {"type": "integer"}}
    parts = {
        "type": "array", "items": {"type": "object", "properties": properties, "required": ["name"]},
        "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
    }  # fmt: skip
    async with open_server() as (_, client):
        await define(client, definition({"type": "object", "properties": {"parts": parts}}))
        for manager, name in (("one", "x"), ("two", "y")):
            answer = await client.apply(
                f"{WIDGETS}/a?fieldManager={manager}", widget("a", parts=[{"name": name, "n": 1}])
            )
            assert answer.status_code in (200, 201), answer.text
        assert [part["name"] for part in answer.json()["spec"]["parts"]] == ["x", "y"]
        clash = await client.apply(f"{WIDGETS}/a?fieldManager=two", widget("a", parts=[{"name": "x", "n": 2}]))
        assert clash.status_code == 409
        assert clash.json()["details"]["causes"][0]["field"] == '.spec.parts[name="x"].n'


async def test_columns_scale_and_selectable_fields_come_from_the_definition() -> None:
    version: Json = {
        "additionalPrinterColumns": [{"name": "Count", "type": "integer", "jsonPath": ".spec.count"}],
        "selectableFields": [{"jsonPath": ".spec.size"}],
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.count", "statusReplicasPath": ".status.count"},
        },
    }
    table = {"accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}
    async with open_server() as (_, client):
        await define(client, definition(**version))
        for name, size in (("a", "m"), ("b", "l")):
            await client.create(WIDGETS, widget(name, count=2, size=size))
        found = (await client.get(f"{WIDGETS}?fieldSelector=spec.size%3Dl", headers=table)).json()
        assert [column["name"] for column in found["columnDefinitions"]] == ["Name", "Count"]
        assert [row["cells"] for row in found["rows"]] == [["b", 2]]
        scaled = await client.merge(f"{WIDGETS}/a/scale", {"spec": {"replicas": 5}})
        assert scaled.json()["spec"] == {"replicas": 5}
        whole = {"metadata": {"name": "a"}, "spec": {"replicas": 5}}
        assert (await client.put(f"{WIDGETS}/a/scale", json=whole)).status_code == 200, "whatever version it has"
        assert (await client.get(f"{WIDGETS}/a")).json()["spec"]["count"] == 5


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"properties": {"a": {"type": "integer"}}}, "spec.validation.openAPIV3Schema.properties[spec].type"),
        ({"type": "object", "properties": {"a": {"type": "integer", "default": "x"}}},
         "spec.validation.openAPIV3Schema.properties[spec].properties[a].default"),
        ({"type": "object", "x-kubernetes-validations": [{"rule": "self.nothing > 1"}]},
         "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule"),
        ({"type": "object", "properties": {"l": {"type": "array", "items": {"type": "string"}, "x-kubernetes-validations": [
            {"rule": "self.all(a, self.all(b, a != b))"}]}}},
         "spec.validation.openAPIV3Schema.properties[spec].properties[l].x-kubernetes-validations[0].rule"),
    ],
    ids=["no type", "a default that does not fit", "a rule that does not compile", "a rule that costs too much"],
)  # fmt: skip
async def test_an_invalid_schema_is_refused(spec: Json, field: str) -> None:
    async with open_server() as (_, client):
        answer = await client.post(DEFINITIONS, json=definition(spec))
        assert answer.status_code == 422, answer.text
        assert answer.json()["details"]["causes"][0]["field"] == field


async def test_a_definition_adds_nothing_to_a_version_that_the_server_has_itself() -> None:
    async with open_server() as (_, client):
        body = definition(plural="foos", kind="Foo")
        body["metadata"] = {
            "name": "foos.networking.k8s.io",
            "annotations": {"api-approved.kubernetes.io": "unapproved, test-only"},
        }
        body["spec"]["group"] = "networking.k8s.io"
        body["spec"]["versions"].append({**body["spec"]["versions"][0], "name": "v7", "storage": False})
        await define(client, body)
        assert (await client.get("/apis/networking.k8s.io/v7/foos")).status_code == 200
        assert (await client.get("/apis/networking.k8s.io/v1/foos")).status_code == 404
        found = (await client.get("/apis/networking.k8s.io/v1")).json()["resources"]
        assert "foos" not in [each["name"] for each in found]
        await client.delete(f"{DEFINITIONS}/foos.networking.k8s.io")
        await until(client, f"{DEFINITIONS}/foos.networking.k8s.io", is_gone)


@pytest.mark.parametrize("removed", [True, False])
async def test_a_manager_of_a_removed_version_refuses_applies_until_a_write_drops_all_managers(removed: bool) -> None:
    spec = {"type": "object", "properties": {"spec": SPEC}}
    v0, v1 = make_version("v0", spec, storage=False), make_version("v1", spec)
    old = {**widget("a", count=1), "apiVersion": "example.com/v0"}
    path, given = f"{WIDGETS}/a?fieldManager=m", widget("a", size="s")

    def managers(answer: httpx.Response) -> list[str]:
        return [entry["manager"] for entry in answer.json()["metadata"].get("managedFields") or ()]

    async with open_server() as (_, client):
        definition = f"{DEFINITIONS}/widgets.example.com"
        await define(client, make_definition("widgets", "Widget", v0, v1))
        await client.create(f"{WIDGETS.replace('v1', 'v0')}?fieldManager=old", old)
        assert managers(await client.apply(path, given)) == ["m", "old"]
        left = [v1] if removed else [{**v0, "served": False}, v1]
        assert (await client.merge(definition, {"spec": {"versions": left}})).status_code == 200
        await until(client, f"{WIDGETS.replace('v1', 'v0')}/a", lambda answer: answer.status_code == 404)
        applied = await client.apply(path, widget("a", size="t"))
        if not removed:
            assert managers(applied) == ["m", "old"]
            return
        assert (applied.status_code, applied.json()["message"]) == (
            500,
            "request to convert CR to an invalid group/version: example.com/v0",
        )
        assert managers(await client.get(f"{WIDGETS}/a")) == ["m", "old"]
        assert managers(await client.merge(f"{WIDGETS}/a", {"spec": {"count": 2}})) == []
        assert managers(await client.apply(path, given)) == ["m", "before-first-apply"]
