"""Changes of kind or version, and fields that another version of a custom object lacks."""

from __future__ import annotations

import httpx
import pytest

from apiserver.api.objects import Json
from tests.http.test_admission_webhooks import MAPS, config_map, serve_with_webhooks
from tests.http.test_custom_object_versions import THINGS, text, thing, things, version
from tests.http.test_custom_resources import define
from tests.http.widgets import open_server

pytestmark = [pytest.mark.integration, pytest.mark.real_time]

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
