"""A custom kind for tests of changing catalogs."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import orjson

from apiserver.api.objects import Json
from apiserver.api.schema.language import INT32, STRING, Struct, field
from apiserver.api.types.meta import TYPE_META, ObjectMeta
from apiserver.app import Server
from apiserver.http.server.web import Web
from apiserver.options.settings import read
from apiserver.registry.definition.resource import Resource, Subresource, Version
from apiserver.registry.definition.strategy import Strategy
from apiserver.resources.common.scales import SCALE

GROUP = "example.com"
IN_DEFAULT = f"/apis/{GROUP}/v1/namespaces/default/widgets"
AGGREGATED = {"accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}
V2_PROTOBUF = {"accept": "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"}


def schema(version: str, count: str) -> Struct:
    """Return the schema of a kind whose count has another name in each version."""
    name = f"com.example.{version}"
    spec = Struct(f"{name}.WidgetSpec", lambda: (field(count, 1, INT32), field("color", 2, STRING)))
    status = Struct(f"{name}.WidgetStatus", lambda: (field("replicas", 1, INT32), field("phase", 2, STRING)))
    return Struct(
        f"{name}.Widget",
        lambda: (
            TYPE_META,
            field("metadata", 1, ObjectMeta, omit=False),
            field("spec", 2, spec, omit=False),
            field("status", 3, status, omit=False),
        ),
        gvk=(GROUP, version, "Widget"),
    )


def rename_field(before: str, after: str) -> Any:
    def convert(obj: Json) -> Json:
        spec = obj.get("spec") or {}
        if before in spec:
            spec[after] = spec.pop(before)
        return obj

    return convert


V1 = Version(name="v1", schema=schema("v1", "replicas"))
V2 = Version(
    name="v2", schema=schema("v2", "copies"),
    to_hub=rename_field("copies", "replicas"), from_hub=rename_field("replicas", "copies"),
)  # fmt: skip
OTHER_V2 = Version(
    name="v2", schema=schema("v2", "amount"),
    to_hub=rename_field("amount", "replicas"), from_hub=rename_field("replicas", "amount"),
)  # fmt: skip


def make_widgets(
    *versions: Version, namespaced: bool = True, plural: str = "widgets", kind: str = "Widget"
) -> Resource:
    return Resource(
        group=GROUP,
        kind=kind,
        plural=plural,
        singular=kind.lower(),
        namespaced=namespaced,
        versions=versions or (V1,),
        strategy=Strategy(),
        columns=(),
        storage_prefix=f"{GROUP}/{plural}",
        short_names=("wd",),
        subresources=(Subresource(name="status"), SCALE),
        delete_returns_object=True,
        field_labels={"spec.color": lambda obj: obj["spec"].get("color", "")},
    )


class ApiClient(httpx.AsyncClient):
    """A client of the API."""

    async def create(self, path: str, body: Json) -> Json:
        """Create an object; return it as the server answers it."""
        answer = await self.post(path, json=body)
        assert answer.status_code == 201, answer.text
        return dict(answer.json())

    async def merge(self, path: str, body: Json) -> httpx.Response:
        """Send a merge patch."""
        return await self.patch(path, json=body, headers={"content-type": "application/merge-patch+json"})

    async def apply(self, path: str, body: Json) -> httpx.Response:
        return await self.patch(path, json=body, headers={"content-type": "application/apply-patch+yaml"})


@asynccontextmanager
async def open_server(
    storage: str = "memory", directory: Path | None = None, *more: str
) -> AsyncIterator[tuple[Server, ApiClient]]:
    """Serve on a socket; yield the server and a client."""
    flags = [f"--storage={storage}", *more] + ([f"--data-dir={directory}"] if directory else [])
    server = await Server.open(read(flags))
    web, listener = Web(server.front), socket.create_server(("127.0.0.1", 0))
    serving = asyncio.ensure_future(web.serve(sockets=[listener]))
    await web.ready.wait()
    try:
        async with ApiClient(base_url=f"http://127.0.0.1:{listener.getsockname()[1]}", timeout=None) as client:
            yield server, client
    finally:
        web.stop()
        server.stop_watches()
        await serving
        await server.close()


def widget(name: str, **spec: Any) -> Json:
    return {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec}


@asynccontextmanager
async def watch_events(client: ApiClient, path: str) -> AsyncIterator[AsyncIterator[Json]]:
    """Open a watch; yield its events."""

    async def events(lines: AsyncIterator[str]) -> AsyncIterator[Json]:
        async for line in lines:
            yield orjson.loads(line)

    async with client.stream("GET", path, params={"watch": "true"}) as answer:
        assert answer.status_code == 200
        yield events(answer.aiter_lines())
