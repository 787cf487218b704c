"""Resources that are added, replaced and removed in a running server, over a socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path

import orjson
import pytest

from apiserver.api.objects import Json
from apiserver.app import Server
from apiserver.authentication.authenticator import ADMIN
from apiserver.components.in_process import InProcess
from apiserver.openapi.gnostic import entries
from apiserver.registry.catalog.catalog import CatalogError
from controllers.cleanup import garbage_collector as garbage
from controllers.manager.manager import Manager
from controllers.options.options import Options
from controllers.runtime.client import Client
from tests.http.widgets import (
    AGGREGATED,
    GROUP,
    IN_DEFAULT,
    OTHER_V2,
    V1,
    V2,
    V2_PROTOBUF,
    ApiClient,
    make_widgets,
    open_server,
    watch_events,
    widget,
)
from tests.support.tokens import token_flag

pytestmark = [pytest.mark.integration, pytest.mark.real_time]


async def test_an_added_resource_is_served_in_every_way_that_a_built_in_one_is() -> None:
    async with open_server() as (server, client):
        assert (await client.get(IN_DEFAULT)).status_code == 404
        await server.catalog.add(make_widgets())
        await client.create(IN_DEFAULT, widget("a", replicas=2, color="red"))
        await client.create(IN_DEFAULT, widget("b", color="blue"))
        listed = (await client.get(f"/apis/{GROUP}/v1/widgets?fieldSelector=spec.color%3Dred")).json()
        assert [item["metadata"]["name"] for item in listed["items"]] == ["a"]
        changed = (await client.merge(f"{IN_DEFAULT}/a", {"spec": {"color": "green"}})).json()
        assert changed["spec"] == {"replicas": 2, "color": "green"}
        strict = await client.post(IN_DEFAULT, params={"fieldValidation": "Strict"}, json=widget("c", size=1))
        assert strict.status_code == 400
        assert 'unknown field "spec.size"' in strict.json()["message"]
        status = (await client.merge(f"{IN_DEFAULT}/a/status", {"status": {"phase": "On"}})).json()
        assert status["status"]["phase"] == "On"
        scale = (await client.merge(f"{IN_DEFAULT}/a/scale", {"spec": {"replicas": 5}})).json()
        assert (scale["kind"], scale["spec"]) == ("Scale", {"replicas": 5})
        apply = await client.patch(
            f"{IN_DEFAULT}/a", params={"fieldManager": "me", "force": "true"}, content=orjson.dumps(widget("a", replicas=7)),
            headers={"content-type": "application/apply-patch+yaml"},
        )  # fmt: skip
        assert apply.json()["spec"]["replicas"] == 7
        assert (await client.delete(f"{IN_DEFAULT}/b")).json()["kind"] == "Widget"


async def test_an_added_resource_is_discovered_and_described_until_it_is_removed() -> None:
    async def documents_with_widgets(client: ApiClient) -> list[bool]:
        """Return for each document about the API whether it contains widgets."""
        groups = [group["name"] for group in (await client.get("/apis")).json()["groups"]]
        aggregated = (await client.get("/apis", headers=AGGREGATED)).json()
        resources = await client.get(f"/apis/{GROUP}/v1")
        v2 = (await client.get("/openapi/v2")).json()
        protobuf = dict(entries((await client.get("/openapi/v2", headers=V2_PROTOBUF)).content))
        index = (await client.get("/openapi/v3")).json()["paths"]
        v3 = await client.get(f"/openapi/v3/apis/{GROUP}/v1")
        return [
            GROUP in groups,
            GROUP in [item["metadata"].get("name") for item in aggregated["items"]],
            resources.status_code == 200 and next(r["name"] for r in resources.json()["resources"]) == "widgets",
            "com.example.v1.Widget" in v2["definitions"]
            and IN_DEFAULT.replace("default", "{namespace}") in v2["paths"],
            b"com.example.v1.Widget" in (await client.get("/openapi/v2", headers=V2_PROTOBUF)).content
            and bool(protobuf),
            f"apis/{GROUP}/v1" in index,
            v3.status_code == 200 and "com.example.v1.Widget" in v3.json()["components"]["schemas"],
            "io.k8s.api.core.v1.Pod" not in v2["definitions"],
        ]

    async with open_server() as (server, client):
        before = (await client.get("/apis", headers=AGGREGATED)).headers["etag"]
        assert await documents_with_widgets(client) == [False] * 8
        await server.catalog.add(make_widgets())
        assert await documents_with_widgets(client) == [True] * 7 + [False]
        after = await client.get("/apis", headers={**AGGREGATED, "if-none-match": before})
        assert after.status_code == 200
        server.catalog.remove(GROUP, "widgets")
        assert await documents_with_widgets(client) == [False] * 8
        assert (await client.get("/apis", headers=AGGREGATED)).headers["etag"] == before


async def test_a_watch_sees_an_added_resource_and_ends_when_it_is_removed() -> None:
    async with open_server() as (server, client):
        await server.catalog.add(make_widgets())
        async with watch_events(client, IN_DEFAULT) as events:
            await client.create(IN_DEFAULT, widget("a"))
            event = await anext(events)
            assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "a")
            server.catalog.remove(GROUP, "widgets")
            assert [event async for event in events] == []
        for path in (IN_DEFAULT, f"{IN_DEFAULT}/a", f"/apis/{GROUP}/v1", f"/apis/{GROUP}"):
            assert (await client.get(path)).status_code == 404, path
        assert (await client.post(IN_DEFAULT, json=widget("b"))).status_code == 404
        elsewhere = await client.post("/api/v1/namespaces/default/configmaps", json=widget("b"))
        assert 'no kind "Widget" is registered for version "example.com/v1"' in elsewhere.json()["message"]
        assert (await client.get("/api/v1/namespaces")).status_code == 200


async def test_a_replaced_resource_has_its_new_versions_and_keeps_its_objects() -> None:
    async with open_server() as (server, client):
        await server.catalog.add(make_widgets(V1))
        await client.create(IN_DEFAULT, widget("a", replicas=3))
        async with watch_events(client, IN_DEFAULT) as events:
            assert (await anext(events))["type"] == "ADDED"
            server.catalog.replace(make_widgets(V2, V1), served=("v2",))
            assert [event async for event in events] == []
        shown = (await client.get(f"{IN_DEFAULT.replace('/v1/', '/v2/')}/a")).json()
        assert (shown["apiVersion"], shown["spec"]) == (f"{GROUP}/v2", {"copies": 3})
        assert (await client.get(f"{IN_DEFAULT}/a")).status_code == 404
        group = (await client.get(f"/apis/{GROUP}")).json()
        assert [version["version"] for version in group["versions"]] == ["v2"]
        server.catalog.replace(make_widgets(OTHER_V2), served=("v2",))
        assert (await client.get(f"{IN_DEFAULT.replace('/v1/', '/v2/')}/a")).json()["spec"] == {"amount": 3}
        server.catalog.replace(make_widgets(V2, V1))
        assert (await client.get(f"{IN_DEFAULT}/a")).json()["spec"] == {"replicas": 3}
        group = (await client.get(f"/apis/{GROUP}")).json()
        assert [version["version"] for version in group["versions"]] == ["v2", "v1"]


@pytest.mark.parametrize("storage", ["sqlite", "postgres"])
async def test_objects_of_an_added_resource_outlive_the_server(
    storage: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    where = storage if storage == "sqlite" else request.getfixturevalue("postgres_url")
    async with open_server(where, tmp_path) as (server, client):
        await server.catalog.add(make_widgets())
        await client.create(IN_DEFAULT, widget("kept", replicas=4))
    async with open_server(where, tmp_path) as (server, client):
        assert (await client.get(f"{IN_DEFAULT}/kept")).status_code == 404
        await server.catalog.add(make_widgets())
        assert (await client.get(f"{IN_DEFAULT}/kept")).json()["spec"] == {"replicas": 4}
        async with watch_events(client, IN_DEFAULT) as events:
            assert (await anext(events))["object"]["metadata"]["name"] == "kept"


@asynccontextmanager
async def controllers_of(server: Server, *names: str) -> AsyncIterator[None]:
    client = Client(InProcess(server.chain, ADMIN), "test")
    manager = Manager(client, Options(), names)
    working = asyncio.create_task(manager.run())
    await manager.wait_ready()
    try:
        yield
    finally:
        working.cancel()
        with suppress(asyncio.CancelledError):
            await working


async def wait_deleted(events: AsyncIterator[Json], name: str) -> None:
    """Wait for the deletion event of an object."""
    async for event in events:
        if event["type"] == "DELETED" and event["object"]["metadata"]["name"] == name:
            return
    raise AssertionError("the watch ended")


async def test_an_added_resource_is_collected_with_its_owner_and_emptied_with_its_namespace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(garbage, "RESYNC", timedelta(milliseconds=20))
    async with open_server() as (server, client), controllers_of(server, garbage.NAME, "namespace-controller"):
        await server.catalog.add(make_widgets())  # the controllers run already
        await client.create("/api/v1/namespaces", {"metadata": {"name": "team"}})
        await client.create(IN_DEFAULT.replace("default", "team"), widget("other"))
        owner = await client.create("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "owner"}})
        body = widget("owned")
        body["metadata"]["ownerReferences"] = [
            {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
        ]
        owned = await client.create(IN_DEFAULT, body)
        below = {"metadata": {"name": "below"}}
        below["metadata"]["ownerReferences"] = [  # type: ignore[assignment]
            {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "name": "owned", "uid": owned["metadata"]["uid"]}
        ]
        await client.create("/api/v1/namespaces/default/configmaps", below)
        async with (
            watch_events(client, IN_DEFAULT) as of_widgets,
            watch_events(client, "/api/v1/namespaces/default/configmaps") as of_maps,
            watch_events(client, "/api/v1/namespaces") as of_namespaces,
        ):
            await client.delete("/api/v1/namespaces/default/configmaps/owner")
            await wait_deleted(of_widgets, "owned")
            await wait_deleted(of_maps, "below")
            await client.delete("/api/v1/namespaces/team")
            await wait_deleted(of_namespaces, "team")
        left = (await client.get(f"/apis/{GROUP}/v1/widgets")).json()
        assert left["items"] == []


async def test_roles_grant_rights_to_an_added_resource(tmp_path: Path) -> None:
    tokens = token_flag(tmp_path, 'root,root,1,"system:masters"\nalice,alice,2\n')
    root, alice = ({"authorization": f"Bearer {name}"} for name in ("root", "alice"))
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    role = {
        "metadata": {"name": "readers"},
        "rules": [{"apiGroups": [GROUP], "resources": ["widgets"], "verbs": ["get"]}],
    }
    binding = {
        "metadata": {"name": "readers"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "readers"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}],
    }
    flags = ("--authorization-mode=RBAC", tokens)
    async with open_server("memory", None, *flags) as (server, client):
        await server.catalog.add(make_widgets())
        for path, body in (
            (f"{rbac}/clusterroles", role), (f"{rbac}/clusterrolebindings", binding), (IN_DEFAULT, widget("a")),
        ):  # fmt: skip
            assert (await client.post(path, json=body, headers=root)).status_code == 201
        assert (await client.get(f"{IN_DEFAULT}/a", headers=alice)).status_code == 200
        refused = await client.post(IN_DEFAULT, json=widget("b"), headers=alice)
        assert refused.status_code == 403
        assert 'cannot create resource "widgets" in API group "example.com"' in refused.json()["message"]


async def test_an_impossible_change_raises_the_reason() -> None:
    async with open_server() as (server, _):
        catalog = server.catalog
        await catalog.add(make_widgets())
        with pytest.raises(CatalogError, match=r"widgets\.example\.com is served already"):
            await catalog.add(make_widgets())
        with pytest.raises(CatalogError, match=r"the kind Widget of gadgets\.example\.com is that of widgets"):
            await catalog.add(make_widgets(plural="gadgets"))
        with pytest.raises(CatalogError, match=r"widgets\.example\.com has no version v3"):
            catalog.replace(make_widgets(), served=("v3",))
        with pytest.raises(CatalogError, match="cannot change where or in which scope"):
            catalog.replace(make_widgets(namespaced=False))
        with pytest.raises(CatalogError, match=r"gadgets\.example\.com is not served"):
            catalog.remove(GROUP, "gadgets")


async def test_subscribers_of_the_catalog_are_called_after_each_change() -> None:
    async with open_server() as (server, _):
        told: list[tuple[str, str]] = []
        end = server.catalog.subscribe(lambda event: told.append((event.type, event.resource.plural)))
        await server.catalog.add(make_widgets())
        server.catalog.replace(make_widgets(V2, V1))
        server.catalog.remove(GROUP, "widgets")
        end()
        await server.catalog.add(make_widgets())
        assert told == [("added", "widgets"), ("replaced", "widgets"), ("removed", "widgets")]
