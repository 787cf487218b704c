"""CustomResourceDefinitions over a socket: what they define is served, follows them, and goes with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from apiserver.api.objects import Json
from tests.http.test_live_catalog import created, run, running, watching

pytestmark = pytest.mark.integration

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
MERGE = {"content-type": "application/merge-patch+json"}
APPLY = {"content-type": "application/apply-patch+yaml"}
SPEC: Json = {"type": "object", "properties": {"count": {"type": "integer", "maximum": 9}, "size": {"type": "string"}}}


def definition(spec: Json = SPEC, plural: str = "widgets", kind: str = "Widget", **version: Any) -> Json:
    schema = {"type": "object", "properties": {"spec": spec, "status": {"type": "object", "properties": {}}}}
    v1 = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}, **version}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [v1],
        },
    }


def widget(name: str, **spec: Any) -> Json:
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec}


async def until(client: httpx.AsyncClient, path: str, wanted: Any) -> Json:
    """The answer of a path as soon as it is what is wanted, which the next events of the definitions bring about."""
    async with watching(client, DEFINITIONS) as events:
        while True:
            answer = await client.get(path)
            if wanted(answer):
                found: Json = answer.json() if answer.headers["content-type"] == "application/json" else {}
                return found
            await anext(events)


async def define(client: httpx.AsyncClient, body: Json) -> Json:
    """Creates a definition and waits until it is established."""
    await created(client, DEFINITIONS, body)
    return await until(client, f"{DEFINITIONS}/{body['metadata']['name']}", is_established)


async def withdraw(client: httpx.AsyncClient, plural: str) -> None:
    """Deletes a definition and waits until it is gone: the database is another test's next."""
    path = f"{DEFINITIONS}/{plural}.example.com"
    await client.delete(path)
    await until(client, path, is_gone)


def is_established(answer: httpx.Response) -> bool:
    conditions = answer.json()["status"].get("conditions") or []
    return any(item["type"] == "Established" and item["status"] == "True" for item in conditions)


def is_gone(answer: httpx.Response) -> bool:
    return answer.status_code == 404


def test_an_established_definition_is_served_at_once_with_its_schema() -> None:
    async def scenario() -> None:
        async with running() as (_, client):
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

    run(scenario())


@pytest.mark.parametrize("storage", ["sqlite", "postgres"])
def test_what_was_defined_is_served_after_a_restart(
    storage: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    where = storage if storage == "sqlite" else request.getfixturevalue("postgres_url")
    directory = tmp_path if storage == "sqlite" else None

    async def scenario() -> None:
        async with running(where, directory) as (_, client):
            await define(client, definition())
            await created(client, WIDGETS, widget("a", count=1))
        async with running(where, directory) as (_, client):
            assert (await client.get(f"{WIDGETS}/a")).json()["spec"] == {"count": 1}
            await withdraw(client, "widgets")

    run(scenario())


def test_a_second_server_of_the_database_serves_what_the_first_was_told(request: pytest.FixtureRequest) -> None:
    gizmos = WIDGETS.replace("widgets", "gizmos")
    url = request.getfixturevalue("postgres_url")

    async def scenario() -> None:
        async with running(url) as (_, first), running(url) as (_, second):
            await define(first, definition(plural="gizmos", kind="Gizmo"))
            await until(second, gizmos, lambda answer: answer.status_code == 200)
            await created(second, gizmos, {**widget("a", count=1), "kind": "Gizmo"})
            assert (await first.get(f"{gizmos}/a")).json()["spec"] == {"count": 1}
            await withdraw(first, "gizmos")

    run(scenario())


def test_stored_objects_are_shown_in_the_form_that_the_definition_has_now() -> None:
    """Fields that go are hidden, not lost, and new defaults hold for what was stored before."""

    async def scenario() -> None:
        async with running() as (_, client):
            await define(client, definition())
            await created(client, WIDGETS, widget("a", count=1, size="m"))
            path = f"{DEFINITIONS}/widgets.example.com"
            narrow = {
                "type": "object",
                "properties": {"count": {"type": "integer"}, "mode": {"type": "string", "default": "on"}},
            }
            for spec, shown in ((narrow, {"count": 1, "mode": "on"}), (SPEC, {"count": 1, "size": "m"})):
                answer = await client.patch(
                    path,
                    content=orjson.dumps({"spec": {"versions": definition(spec)["spec"]["versions"]}}),
                    headers=MERGE,
                )
                assert answer.status_code == 200, answer.text
                while (await client.get(f"{WIDGETS}/a")).json()["spec"] != shown:
                    continue
                assert (await client.get(WIDGETS)).json()["items"][0]["spec"] == shown

    run(scenario())


def test_a_definition_goes_when_its_objects_are_gone() -> None:
    async def scenario() -> None:
        async with running() as (_, client):
            await define(client, definition())
            body = widget("a", count=1)
            body["metadata"]["finalizers"] = ["example.com/hold"]
            await created(client, WIDGETS, body)
            path = f"{DEFINITIONS}/widgets.example.com"
            assert (await client.delete(path)).status_code == 200
            held = await until(client, f"{WIDGETS}/a", lambda answer: "deletionTimestamp" in answer.json()["metadata"])
            assert held["metadata"]["finalizers"] == ["example.com/hold"]
            assert (await client.get(path)).status_code == 200
            refused = await client.post(WIDGETS, json=widget("b"))
            assert refused.status_code == 403
            assert "create not allowed while custom resource definition is terminating" in refused.json()["message"]
            await client.patch(f"{WIDGETS}/a", content=b'{"metadata":{"finalizers":null}}', headers=MERGE)
            await until(client, path, is_gone)
            assert (await client.get(WIDGETS)).status_code == 404

    run(scenario())


def test_a_watch_sees_the_objects_of_a_definition_go_with_it() -> None:
    async def scenario() -> None:
        async with running() as (_, client):
            await define(client, definition())
            await created(client, WIDGETS, widget("a", count=1))
            async with watching(client, WIDGETS) as events:
                assert (await anext(events))["type"] == "ADDED"
                await withdraw(client, "widgets")
                assert (await anext(events))["type"] == "DELETED"

    run(scenario())


def test_a_server_ends_while_a_definition_waits_for_its_objects_and_the_next_one_goes_on(tmp_path: Path) -> None:
    path = f"{DEFINITIONS}/widgets.example.com"

    async def scenario() -> None:
        async with running("sqlite", tmp_path) as (_, client):
            await define(client, definition())
            body = widget("a", count=1)
            body["metadata"]["finalizers"] = ["example.com/hold"]
            await created(client, WIDGETS, body)
            await client.delete(path)
            await until(client, f"{WIDGETS}/a", lambda answer: "deletionTimestamp" in answer.json()["metadata"])
        async with running("sqlite", tmp_path) as (_, client):
            await client.patch(f"{WIDGETS}/a", content=b'{"metadata":{"finalizers":null}}', headers=MERGE)
            await until(client, path, is_gone)

    run(scenario())


def test_names_that_come_free_are_taken_by_those_who_wait_for_them() -> None:
    async def scenario() -> None:
        async with running() as (_, client):
            await define(client, definition())
            await created(client, DEFINITIONS, definition(plural="gadgets"))
            path = f"{DEFINITIONS}/gadgets.example.com"
            waiting = await until(client, path, lambda answer: answer.json()["status"].get("conditions"))
            accepted = next(item for item in waiting["status"]["conditions"] if item["type"] == "NamesAccepted")
            assert (accepted["status"], accepted["reason"], accepted["message"]) == (
                "False", "ListKindConflict", '"WidgetList" is already in use',
            )  # fmt: skip
            await client.delete(f"{DEFINITIONS}/widgets.example.com")
            await until(client, path, is_established)

    run(scenario())


def test_rules_in_cel_judge_objects_and_changes() -> None:
    rules = [
        {"rule": "!has(self.size) || self.count > 0", "message": "a size needs a count"},
        {
            "rule": "self.count >= oldSelf.count",
            "messageExpression": "'not below ' + (oldSelf.count > 2 ? 'three' : 'two')",
        },
    ]

    async def scenario() -> None:
        async with running() as (_, client):
            await define(client, definition({**SPEC, "x-kubernetes-validations": rules}))
            refused = await client.post(WIDGETS, json=widget("a", count=0, size="m"))
            assert refused.json()["details"]["causes"][0]["message"] == "Invalid value: a size needs a count"
            nameless = await client.post(WIDGETS, json={**widget("a", count=0, size="m"), "metadata": {}})
            named, unasked = nameless.json()["details"]["causes"]
            assert (named["field"], unasked["field"]) == ("metadata.name", "<nil>")
            assert unasked["message"].startswith("Invalid value: null: some validation rules were not checked")
            await created(client, WIDGETS, widget("a", count=3))
            lower = await client.patch(f"{WIDGETS}/a", content=b'{"spec":{"count":2}}', headers=MERGE)
            assert lower.json()["details"]["causes"] == [
                {"reason": "FieldValueInvalid", "message": "Invalid value: not below three", "field": "spec"}
            ]
            broken = {"rule": "false", "messageExpression": "string(double('a'))"}
            body = definition({**SPEC, "x-kubernetes-validations": [broken]}, "gadgets", "Gadget")
            said = (await client.post(DEFINITIONS, json=body)).json()["message"]
            assert ": messageExpression instantiation failed: type conversion error" in said

    run(scenario())


def test_a_definition_can_be_applied_and_its_rules_may_name_fields_by_reserved_words() -> None:
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
    headers = {"Content-Type": "application/apply-patch+yaml"}

    async def scenario() -> None:
        async with running() as (_, client):
            path, body = f"{DEFINITIONS}/widgets.example.com", definition(spec)
            applied = await client.patch(f"{path}?fieldManager=m", json=body, headers=headers)
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
                    await client.patch(f"{WIDGETS}/a", json={"spec": wrong}, headers=MERGE),
                ):
                    assert answer.status_code == 422, answer.text
                    assert answer.json()["details"]["causes"][0]["reason"] == "FieldValueTypeInvalid"

    run(scenario())


def test_managers_of_custom_objects_own_what_their_schema_tells_apart() -> None:
    parts = {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "n": {"type": "integer"}},
            "required": ["name"],
        },
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
    }

    async def scenario() -> None:
        async with running() as (_, client):
            await define(client, definition({"type": "object", "properties": {"parts": parts}}))
            for manager, name in (("one", "x"), ("two", "y")):
                answer = await client.patch(
                    f"{WIDGETS}/a?fieldManager={manager}",
                    content=orjson.dumps(widget("a", parts=[{"name": name, "n": 1}])),
                    headers=APPLY,
                )
                assert answer.status_code in (200, 201), answer.text
            assert [part["name"] for part in answer.json()["spec"]["parts"]] == ["x", "y"]
            clash = await client.patch(
                f"{WIDGETS}/a?fieldManager=two",
                content=orjson.dumps(widget("a", parts=[{"name": "x", "n": 2}])),
                headers=APPLY,
            )
            assert clash.status_code == 409
            assert clash.json()["details"]["causes"][0]["field"] == '.spec.parts[name="x"].n'

    run(scenario())


def test_columns_scale_and_selectable_fields_come_from_the_definition() -> None:
    version = {
        "additionalPrinterColumns": [{"name": "Count", "type": "integer", "jsonPath": ".spec.count"}],
        "selectableFields": [{"jsonPath": ".spec.size"}],
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.count", "statusReplicasPath": ".status.count"},
        },
    }
    table = {"accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}

    async def scenario() -> None:
        async with running() as (_, client):
            await define(client, definition(**version))
            for name, size in (("a", "m"), ("b", "l")):
                await created(client, WIDGETS, widget(name, count=2, size=size))
            found = (await client.get(f"{WIDGETS}?fieldSelector=spec.size%3Dl", headers=table)).json()
            assert [column["name"] for column in found["columnDefinitions"]] == ["Name", "Count"]
            assert [row["cells"] for row in found["rows"]] == [["b", 2]]
            scaled = await client.patch(f"{WIDGETS}/a/scale", content=b'{"spec":{"replicas":5}}', headers=MERGE)
            assert scaled.json()["spec"] == {"replicas": 5}
            whole = {"metadata": {"name": "a"}, "spec": {"replicas": 5}}
            assert (await client.put(f"{WIDGETS}/a/scale", json=whole)).status_code == 200, "whatever version it has"
            assert (await client.get(f"{WIDGETS}/a")).json()["spec"]["count"] == 5

    run(scenario())


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
def test_a_schema_that_cannot_be_kept_is_refused(spec: Json, field: str) -> None:
    async def scenario() -> None:
        async with running() as (_, client):
            answer = await client.post(DEFINITIONS, json=definition(spec))
            assert answer.status_code == 422, answer.text
            assert answer.json()["details"]["causes"][0]["field"] == field

    run(scenario())


def test_a_definition_adds_nothing_to_a_version_that_the_server_has_itself() -> None:
    async def check() -> None:
        async with running() as (_, client):
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

    run(check())
