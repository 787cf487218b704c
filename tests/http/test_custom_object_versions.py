"""Custom objects over a socket: defaults, columns and field ownership of each version."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import httpx
import pytest

from apiserver.api.objects import Json
from tests.http.test_admission_webhooks import MAPS, config_map, serve_with_webhooks
from tests.http.test_custom_resources import DEFINITIONS, define, until
from tests.http.widgets import V2_PROTOBUF, open_server
from tests.support.extensions import make_definition, make_version

pytestmark = [pytest.mark.integration, pytest.mark.real_time]

TABLE = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
THINGS = "/apis/example.com/{}/things"


def version(name: str, spec: Json, **more: Any) -> Json:
    parts = {name: {"type": "object", "properties": part} for name, part in (("spec", spec), ("status", {}))}
    schema = {"type": "object", "properties": parts}
    return make_version(name, schema, **{"storage": name == "v1", **more})


def things(*versions: Json, **spec: Any) -> Json:
    """Return the definition of a cluster-wide kind."""
    return make_definition("things", "Thing", *versions, scope="Cluster", **spec)


def thing(name: str, of: str = "v1", **spec: Any) -> Json:
    return {"apiVersion": f"example.com/{of}", "kind": "Thing", "metadata": {"name": name}, "spec": spec}


def text(**more: Any) -> Json:
    return {"type": "string", **more}


def columns(*names: str) -> list[Json]:
    return [{"name": name.title(), "type": "string", "jsonPath": f".spec.{name}"} for name in names]


def scale(field: str) -> Json:
    return {"scale": {"specReplicasPath": f".spec.{field}", "statusReplicasPath": ".status.replicas"}}


async def test_custom_objects_name_their_kind_and_version() -> None:
    async with open_server("memory") as (_, client):
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
        await client.create(path, thing("a"))
        # Metadata comes out of a map, and is named first.
        odd = {"z": 1, "labels": {}, "ownerReferences": [{"z": 1, "a": 1, "apiVersion": "v1"}], "b": 1, "name": "b"}
        answer = await client.post(path + "?fieldValidation=Strict", json=thing("b") | {"metadata": odd, "a": 1})
        named = ["metadata.b", "metadata.ownerReferences[0].a", "metadata.ownerReferences[0].z", "metadata.z", "a"]
        assert answer.json()["message"].endswith(", ".join(f'unknown field "{name}"' for name in named))


async def test_defaults_of_the_request_version_and_of_the_stored_version_are_applied_together() -> None:
    async with open_server("memory") as (_, client):
        v1 = version("v1", {"a": text(default="1"), "b": text()})
        await define(client, things(v1, version("v2", {"a": text(), "b": text(default="2")})))
        made = await client.create(THINGS.format("v2"), thing("x", "v2"))
        assert made["spec"] == {"a": "1", "b": "2"}


async def test_a_default_of_what_is_an_integer_or_a_string_may_be_anything_where_an_object_s_value_may_not() -> None:
    async with open_server("memory") as (_, client):
        either = {"x-kubernetes-int-or-string": True}
        held = {"type": "object", "properties": {"port": either}, "default": {"port": 1.5}}
        await define(client, things(version("v1", {"port": {**either, "default": True}, "held": held})))
        refused = await client.post(THINGS.format("v1"), json=thing("x", port=True))
        assert 'spec.port: Invalid value: "boolean"' in refused.json()["message"]


async def test_defaults_leave_nothing_unknown_in_the_metadata_of_embedded_objects() -> None:
    inner = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "n", "unknown": "u"}}
    embedded = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
    async with open_server("memory") as (_, client):
        await define(client, things(version("v1", {"in": {**embedded, "default": inner}})))
        made = await client.create(THINGS.format("v1"), thing("x"))
        assert made["spec"]["in"]["metadata"] == {"name": "n"}
        wrong = things(version("v1", {"in": {"type": "object", "properties": {}, "default": {"no": 1}}}))
        wrong["metadata"]["name"], wrong["spec"]["names"] = "o.example.com", {"plural": "o", "kind": "O"}
        refused = await client.post(DEFINITIONS, json=wrong)
        assert "must not have unknown fields" in refused.json()["message"]


async def test_each_version_has_its_own_columns_about_what_it_shows() -> None:
    async with open_server("memory") as (_, client):
        one = version("v1", {"a": text(), "b": text()}, additionalPrinterColumns=columns("a", "b"))
        await define(client, things(one, version("v2", {"a": text()}, additionalPrinterColumns=columns("b"))))
        await client.create(THINGS.format("v1"), thing("x", a="A", b="B"))
        for name, cells in (("v2", ["x", None]), ("v1", ["x", "A", "B"]), ("v2", ["x", None])):
            shown = (await client.get(THINGS.format(name), headers=TABLE)).json()
            assert shown["rows"][0]["cells"] == cells


async def test_a_scale_takes_over_its_field_and_leaves_managers_of_other_versions_what_else_they_have() -> None:
    async with open_server("memory") as (_, client):
        number = {"type": "integer"}
        spec = {"size": number, "many": number, "c": text()}
        await define(
            client,
            things(version("v1", spec, subresources=scale("size")), version("v2", spec, subresources=scale("many"))),
        )
        one = THINGS.format("v1") + "/x"
        await client.create(THINGS.format("v2") + "?fieldManager=m", thing("x", "v2", many=1, size=1, c="c"))
        await client.apply(one + "?fieldManager=a&force=true", thing("x", size=2))
        scaled = await client.merge(one + "/scale?fieldManager=s", {"spec": {"replicas": 3}})
        assert (scaled.status_code, scaled.json()["spec"]) == (200, {"replicas": 3})
        managers = (await client.get(one)).json()["metadata"]["managedFields"]
        owned = {item["manager"]: sorted(item["fieldsV1"]["f:spec"]) for item in managers}
        assert owned == {"m": [".", "f:c"], "s": ["f:size"]}


async def test_an_undeclared_field_is_owned_by_its_manager() -> None:
    async with open_server("memory") as (_, client):
        v1 = version("v1", {}, subresources=scale("replicas"))
        v1["schema"]["openAPIV3Schema"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        await define(client, things(v1))
        one = THINGS.format("v1") + "/x"
        made = await client.apply(one + "?fieldManager=a", thing("x", replicas=3))
        (owned,) = made.json()["metadata"]["managedFields"]
        assert owned["fieldsV1"] == {"f:spec": {".": {}, "f:replicas": {}}}
        await client.merge(one + "/scale?fieldManager=s", {"spec": {"replicas": 5}})
        managers = (await client.get(one)).json()["metadata"]["managedFields"]
        assert [item["fieldsV1"] for item in managers] == [{"f:spec": {}}, {"f:spec": {"f:replicas": {}}}]


async def test_a_definition_with_an_unusable_webhook_ca_is_not_established() -> None:
    async with open_server("memory") as (_, client):
        client_config = {"url": "https://127.0.0.1:1/c", "caBundle": b64encode(b"\n").decode()}
        webhook = {"conversionReviewVersions": ["v1"], "clientConfig": client_config}
        conversion = {"strategy": "Webhook", "webhook": webhook}
        path = f"{DEFINITIONS}/things.example.com"
        await client.create(DEFINITIONS, things(version("v1", {}), version("v2", {}), conversion=conversion))

        def settled(answer: Any) -> bool:
            conditions = answer.json()["status"].get("conditions") or []
            return any(item["reason"] == "InvalidCABundle" for item in conditions)

        found = await until(client, path, settled)
        assert [c["status"] for c in found["status"]["conditions"] if c["type"] == "Established"] == ["False"]


async def test_extensions_in_the_protobuf_form_of_openapi_2_are_yaml_in_blocks() -> None:
    async with open_server("memory") as (_, client):
        await define(client, things(version("v1", {"a": text()}, selectableFields=[{"jsonPath": ".spec.a"}])))
        body = (await client.get("/openapi/v2", headers=V2_PROTOBUF)).content
        assert b"- fieldPath: spec.a\n" in body


async def test_a_write_without_changes_rewrites_an_object_stored_in_an_older_form() -> None:
    """The object may have been stored by an older schema or in another version."""
    path = f"{DEFINITIONS}/things.example.com"
    known = {"color": text(), "size": text()}

    def storing_in(storage: str, **fields: Json) -> Json:
        return {"spec": {"versions": [version(name, fields, storage=name == storage) for name in ("v1", "v2")]}}

    async with open_server("memory") as (_, client):

        async def again() -> int:
            answer = await client.merge(f"{THINGS.format('v1')}/a", {"spec": {"color": "red"}})
            assert answer.status_code == 200, answer.text
            return int(answer.json()["metadata"]["resourceVersion"])

        await define(client, things(version("v1", known), version("v2", known)))
        await client.create(THINGS.format("v1"), thing("a", color="red", size="m"))
        first = await again()
        assert await again() == first
        for change in (
            storing_in("v1", color=text()),
            storing_in("v2", color=text()),
            storing_in("v2", color=text(), mode=text(default="on")),
        ):
            changed = await client.merge(path, change)
            assert changed.status_code == 200, changed.text
            stored = first
            for _ in range(100):  # the definition's new form is there a moment later
                if (first := await again()) > stored:
                    break
            assert first > stored
            assert await again() == first
            dry = await client.merge(f"{THINGS.format('v2')}/a?dryRun=All", {})
            assert dry.json()["metadata"]["resourceVersion"] == str(first)


V1, V2 = THINGS.format("v1"), THINGS.format("v2")


async def test_a_patch_that_changes_the_kind_of_a_custom_object_is_refused_with_the_right_one() -> None:
    async with open_server("memory") as (_, client):
        await define(client, things(version("v1", {})))
        await client.create(V1, thing("a"))

        async def refusal_of(change: Json) -> tuple[int, str]:
            answer = await client.merge(f"{V1}/a", change)
            return answer.status_code, answer.json()["message"]

        other = 'apiVersion: Invalid value: "x/v1": must be example.com/v1'
        assert await refusal_of({"apiVersion": "x/v1"}) == (422, f'Thing.x "a" is invalid: {other}')
        kind = 'kind: Invalid value: "Pod": must be Thing'
        assert await refusal_of({"apiVersion": "x/v1", "kind": "Pod"}) == (
            422,
            f'Pod.x "a" is invalid: [{kind}, {other}]',
        )
        assert (await refusal_of({"apiVersion": None}))[0] == 500
        status, message = await refusal_of({"kind": None})
        assert (status, "Object 'Kind' is missing in" in message) == (422, True)


async def test_a_webhook_may_not_make_another_kind_of_an_object() -> None:
    async with serve_with_webhooks() as hooks:
        await hooks.configure("mutating", {"name": "m"})

        async def mutate(**said: str) -> httpx.Response:
            patch = [{"op": "replace", "path": f"/{name}", "value": value} for name, value in said.items()]
            hooks.script(m=[{"allowed": True, "patch": patch}])
            return await hooks.client.post(f"{MAPS}?dryRun=All", json=config_map("a"))

        assert (await mutate(kind="")).status_code == 201
        assert 'no kind "Nope" is registered for version "v1"' in (await mutate(kind="Nope")).json()["message"]
        deployment = await mutate(apiVersion="apps/v1", kind="Deployment")
        assert deployment.status_code == 500
        assert deployment.json()["message"] == "converting (v1.Deployment) to (core.ConfigMap): unknown conversion"


async def test_managers_of_a_version_that_lacks_a_field_are_given_up() -> None:
    async with open_server("memory") as (_, client):
        await define(client, things(version("v1", {"a": text()}), version("v2", {"a": text(), "b": text()})))
        await client.create(V1, thing("x", a="1"))

        async def managers(**spec: str) -> list[str]:
            answer = await client.merge(f"{V2}/x", {"spec": spec})
            return [item["apiVersion"] for item in answer.json()["metadata"].get("managedFields") or ()]

        assert await managers(a="2") == ["example.com/v1", "example.com/v2"]
        assert await managers(b="3") == []


async def test_a_dry_run_of_a_service_takes_no_port_but_checks_for_conflicts() -> None:
    async with open_server("memory") as (_, client):

        async def ports(query: str, **port: int) -> httpx.Response:
            spec = {"type": "NodePort", "ports": [{"port": 80, **port}]}
            body = {"metadata": {"name": "s"}, "spec": spec}
            return await client.post(f"/api/v1/namespaces/default/services{query}", json=body)

        for port in (1, 31999):
            answer = await ports("?dryRun=All", nodePort=port)
            assert answer.json()["spec"]["ports"][0]["nodePort"] == port
        assert (await ports("?dryRun=All")).json()["spec"]["ports"][0]["nodePort"] == 32769
        assert (await ports("", nodePort=1)).status_code == 422
        assert (await ports("", nodePort=31999)).status_code == 201
        assert (await ports("?dryRun=All", nodePort=31999)).status_code == 422
