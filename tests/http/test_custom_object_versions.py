"""Custom objects over a socket: what each version of a definition adds to them, shows of them and owns in them."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from apiserver.api.objects import Json
from tests.http.test_custom_resources import APPLY, DEFINITIONS, MERGE, define, until
from tests.http.test_live_catalog import created, run, running
from tests.http.widgets import V2_PROTOBUF

pytestmark = pytest.mark.integration

TABLE = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
THINGS = "/apis/example.com/{}/things"


def version(name: str, spec: Json, **more: Any) -> Json:
    parts = {name: {"type": "object", "properties": part} for name, part in (("spec", spec), ("status", {}))}
    schema = {"openAPIV3Schema": {"type": "object", "properties": parts}}
    return {"name": name, "served": True, "storage": name == "v1", "schema": schema, **more}


def things(*versions: Json, **spec: Any) -> Json:
    """A cluster-wide kind."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": list(versions),
            **spec,
        },
    }


def thing(name: str, of: str = "v1", **spec: Any) -> Json:
    return {"apiVersion": f"example.com/{of}", "kind": "Thing", "metadata": {"name": name}, "spec": spec}


def text(**more: Any) -> Json:
    return {"type": "string", **more}


def columns(*names: str) -> list[Json]:
    return [{"name": name.title(), "type": "string", "jsonPath": f".spec.{name}"} for name in names]


def scale(field: str) -> Json:
    return {"scale": {"specReplicasPath": f".spec.{field}", "statusReplicasPath": ".status.replicas"}}


def test_custom_objects_name_their_kind_and_version() -> None:
    async def scenario() -> None:
        async with running("memory") as (_, client):
            await define(client, things(version("v1", {}), version("v2", {})))
            path = THINGS.format("v1")
            wrong: list[tuple[str, Json, str]] = [
                (
                    "",
                    {},
                    "the object provided is unrecognized (must be of type Thing): Object 'Kind' is missing in '{}' ({})",
                ),
                ("?fieldValidation=Ignore", {}, "Thing in version \"v1\" cannot be handled as a Thing: Object 'Kind'"),
                ("", {"kind": "Thing"}, "the API version in the data () does not match the expected API version ("),
                ("", thing("a", "v2"), "the API version in the data (example.com/v2) does not match"),
            ]
            for query, body, said in wrong:
                answer = await client.post(path + query, json=body)
                assert (answer.status_code, answer.json()["message"][: len(said)]) == (400, said)
            await created(client, path, thing("a"))
            # Metadata comes out of a map, and is named first.
            odd = {"z": 1, "labels": {}, "ownerReferences": [{"z": 1, "a": 1, "apiVersion": "v1"}], "b": 1, "name": "b"}
            answer = await client.post(path + "?fieldValidation=Strict", json=thing("b") | {"metadata": odd, "a": 1})
            named = ["metadata.b", "metadata.ownerReferences[0].a", "metadata.ownerReferences[0].z", "metadata.z", "a"]
            assert answer.json()["message"].endswith(", ".join(f'unknown field "{name}"' for name in named))

    run(scenario())


def test_defaults_of_the_request_s_and_of_the_stored_version_are_there_at_once() -> None:
    async def scenario() -> None:
        async with running("memory") as (_, client):
            v1 = version("v1", {"a": text(default="1"), "b": text()})
            await define(client, things(v1, version("v2", {"a": text(), "b": text(default="2")})))
            made = await created(client, THINGS.format("v2"), thing("x", "v2"))
            assert made["spec"] == {"a": "1", "b": "2"}

    run(scenario())


def test_a_default_of_what_is_an_integer_or_a_string_may_be_anything_where_an_object_s_value_may_not() -> None:
    async def scenario() -> None:
        async with running("memory") as (_, client):
            either = {"x-kubernetes-int-or-string": True}
            held = {"type": "object", "properties": {"port": either}, "default": {"port": 1.5}}
            await define(client, things(version("v1", {"port": {**either, "default": True}, "held": held})))
            refused = await client.post(THINGS.format("v1"), json=thing("x", port=True))
            assert 'spec.port: Invalid value: "boolean"' in refused.json()["message"]

    run(scenario())


def test_defaults_leave_nothing_unknown_in_the_metadata_of_embedded_objects() -> None:
    inner = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "n", "unknown": "u"}}
    embedded = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}

    async def scenario() -> None:
        async with running("memory") as (_, client):
            await define(client, things(version("v1", {"in": {**embedded, "default": inner}})))
            made = await created(client, THINGS.format("v1"), thing("x"))
            assert made["spec"]["in"]["metadata"] == {"name": "n"}
            wrong = things(version("v1", {"in": {"type": "object", "properties": {}, "default": {"no": 1}}}))
            wrong["metadata"]["name"], wrong["spec"]["names"] = "o.example.com", {"plural": "o", "kind": "O"}
            refused = await client.post(DEFINITIONS, json=wrong)
            assert "must not have unknown fields" in refused.json()["message"]

    run(scenario())


def test_each_version_has_its_own_columns_about_what_it_shows() -> None:
    async def scenario() -> None:
        async with running("memory") as (_, client):
            one = version("v1", {"a": text(), "b": text()}, additionalPrinterColumns=columns("a", "b"))
            await define(client, things(one, version("v2", {"a": text()}, additionalPrinterColumns=columns("b"))))
            await created(client, THINGS.format("v1"), thing("x", a="A", b="B"))
            for name, cells in (("v2", ["x", None]), ("v1", ["x", "A", "B"]), ("v2", ["x", None])):
                shown = (await client.get(THINGS.format(name), headers=TABLE)).json()
                assert shown["rows"][0]["cells"] == cells

    run(scenario())


def test_a_scale_takes_over_its_field_and_leaves_managers_of_other_versions_what_else_they_have() -> None:
    async def scenario() -> None:
        async with running("memory") as (_, client):
            number = {"type": "integer"}
            spec = {"size": number, "many": number, "c": text()}
            await define(
                client,
                things(
                    version("v1", spec, subresources=scale("size")), version("v2", spec, subresources=scale("many"))
                ),
            )
            one = THINGS.format("v1") + "/x"
            await created(client, THINGS.format("v2") + "?fieldManager=m", thing("x", "v2", many=1, size=1, c="c"))
            await client.patch(one + "?fieldManager=a&force=true", json=thing("x", size=2), headers=APPLY)
            scaled = await client.patch(one + "/scale?fieldManager=s", json={"spec": {"replicas": 3}}, headers=MERGE)
            assert (scaled.status_code, scaled.json()["spec"]) == (200, {"replicas": 3})
            managers = (await client.get(one)).json()["metadata"]["managedFields"]
            owned = {item["manager"]: sorted(item["fieldsV1"]["f:spec"]) for item in managers}
            assert owned == {"m": [".", "f:c"], "s": ["f:size"]}

    run(scenario())


def test_who_applies_an_undeclared_field_owns_it_beside_what_is_in_it() -> None:
    async def scenario() -> None:
        async with running("memory") as (_, client):
            v1 = version("v1", {}, subresources=scale("replicas"))
            v1["schema"]["openAPIV3Schema"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
            await define(client, things(v1))
            one = THINGS.format("v1") + "/x"
            made = await client.patch(one + "?fieldManager=a", json=thing("x", replicas=3), headers=APPLY)
            (owned,) = made.json()["metadata"]["managedFields"]
            assert owned["fieldsV1"] == {"f:spec": {".": {}, "f:replicas": {}}}
            await client.patch(one + "/scale?fieldManager=s", json={"spec": {"replicas": 5}}, headers=MERGE)
            managers = (await client.get(one)).json()["metadata"]["managedFields"]
            assert [item["fieldsV1"] for item in managers] == [{"f:spec": {}}, {"f:spec": {"f:replicas": {}}}]

    run(scenario())


def test_a_definition_whose_webhook_nobody_could_trust_is_not_established() -> None:
    async def scenario() -> None:
        async with running("memory") as (_, client):
            client_config = {"url": "https://127.0.0.1:1/c", "caBundle": b64encode(b"\n").decode()}
            webhook = {"conversionReviewVersions": ["v1"], "clientConfig": client_config}
            conversion = {"strategy": "Webhook", "webhook": webhook}
            path = f"{DEFINITIONS}/things.example.com"
            await created(client, DEFINITIONS, things(version("v1", {}), version("v2", {}), conversion=conversion))

            def settled(answer: Any) -> bool:
                conditions = answer.json()["status"].get("conditions") or []
                return any(item["reason"] == "InvalidCABundle" for item in conditions)

            found = await until(client, path, settled)
            assert [c["status"] for c in found["status"]["conditions"] if c["type"] == "Established"] == ["False"]

    run(scenario())


def test_extensions_in_the_protobuf_form_of_openapi_2_are_yaml_in_blocks() -> None:
    async def scenario() -> None:
        async with running("memory") as (_, client):
            await define(client, things(version("v1", {"a": text()}, selectableFields=[{"jsonPath": ".spec.a"}])))
            body = (await client.get("/openapi/v2", headers=V2_PROTOBUF)).content
            assert b"- fieldPath: spec.a\n" in body

    run(scenario())


def test_a_write_that_changes_nothing_stores_what_is_kept_in_an_older_form_anew() -> None:
    """By a schema from before, or in a version that is not the one to store in any more."""
    path = f"{DEFINITIONS}/things.example.com"
    known = {"color": text(), "size": text()}

    def storing_in(storage: str, **fields: Json) -> Json:
        return {"spec": {"versions": [version(name, fields, storage=name == storage) for name in ("v1", "v2")]}}

    async def scenario() -> None:
        async with running("memory") as (_, client):

            async def again() -> int:
                answer = await client.patch(f"{THINGS.format('v1')}/a", json={"spec": {"color": "red"}}, headers=MERGE)
                assert answer.status_code == 200, answer.text
                return int(answer.json()["metadata"]["resourceVersion"])

            await define(client, things(version("v1", known), version("v2", known)))
            await created(client, THINGS.format("v1"), thing("a", color="red", size="m"))
            first = await again()
            assert await again() == first
            for change in (
                storing_in("v1", color=text()),
                storing_in("v2", color=text()),
                storing_in("v2", color=text(), mode=text(default="on")),
            ):
                changed = await client.patch(path, json=change, headers=MERGE)
                assert changed.status_code == 200, changed.text
                stored = first
                for _ in range(100):  # the definition's new form is there a moment later
                    if (first := await again()) > stored:
                        break
                assert first > stored
                assert await again() == first
                dry = await client.patch(f"{THINGS.format('v2')}/a?dryRun=All", json={}, headers=MERGE)
                assert dry.json()["metadata"]["resourceVersion"] == str(first)

    run(scenario())
