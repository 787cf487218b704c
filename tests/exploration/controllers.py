"""Controllers that have one bug each unless `correct`; without faults and delays all work."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import httpx

from kubedra import ApiError, AsyncClient
from kubedra.client.client import Json

MAPS = "/api/v1/namespaces/default/configmaps"
#: Statuses after which the same request may get through.
_PASSING = (429, 500)


def config_map(name: str, **data: str) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


async def ask(client: AsyncClient, method: str, path: str, body: Any = None) -> Json:
    """Send a request until it gets through, as client libraries do."""
    while True:
        try:
            return await client.request(method, path, body)
        except httpx.TransportError:
            await asyncio.sleep(0.5)
        except ApiError as error:
            if error.code not in _PASSING:
                raise
            await asyncio.sleep(0.5)


async def events(client: AsyncClient, revision: str) -> AsyncIterator[Json]:
    """Yield the events of ConfigMaps after a revision, resumed when the watch breaks. Raise ApiError 410."""
    while True:
        with contextlib.suppress(httpx.TransportError):
            async for event in client.watch(MAPS, timeout=300, resourceVersion=revision):
                if event["type"] == "ERROR":
                    raise ApiError(event["object"]["code"], event["object"]["reason"], event["object"]["message"])
                revision = event["object"]["metadata"]["resourceVersion"]
                yield event
        await asyncio.sleep(0.5)


async def each_item(client: AsyncClient, prefix: str, *, correct: bool = True) -> AsyncIterator[Json]:
    """Yield the ConfigMaps of a prefix, present and new ones, each once.

    The bug: after a watch has expired, it goes on with the changes after the list, and misses those before it.
    """
    seen: set[str] = set()
    first = True
    while True:
        listing = await ask(client, "GET", MAPS)
        for item in listing["items"] if first or correct else ():
            if item["metadata"]["name"].startswith(prefix) and item["metadata"]["name"] not in seen:
                seen.add(item["metadata"]["name"])
                yield item
        first = False
        try:
            async for event in events(client, listing["metadata"]["resourceVersion"]):
                name = event["object"]["metadata"]["name"]
                if event["type"] == "ADDED" and name.startswith(prefix) and name not in seen:
                    seen.add(name)
                    yield event["object"]
        except ApiError as error:
            if error.code not in (410, *_PASSING):
                raise
            await asyncio.sleep(0.5)


async def mark_items(client: AsyncClient, *, correct: bool) -> None:
    """Write a label on each item."""
    async for item in each_item(client, "item-", correct=correct):
        name = item["metadata"]["name"]
        patch = {"metadata": {"labels": {"seen": "yes"}}}
        await ask_patch(client, name, patch)


async def ask_patch(client: AsyncClient, name: str, patch: Json) -> None:
    while True:
        try:
            await client.patch(f"configmap/{name}", patch)
        except httpx.TransportError:
            await asyncio.sleep(0.5)
        except ApiError as error:
            if error.code not in (409, *_PASSING):
                raise
            await asyncio.sleep(0.5)
        else:
            return


async def register_items(client: AsyncClient, prefix: str, *, correct: bool) -> None:
    """Keep the names of all items of a prefix in one ConfigMap, which others write, too.

    The bug, a lost update: it replaces what another controller has written since it read.
    """
    async for item in each_item(client, prefix):
        name = item["metadata"]["name"]
        while True:
            register = await ask(client, "GET", f"{MAPS}/register")
            register["data"] = {**register.get("data", {}), name: "here"}
            if not correct:
                del register["metadata"]["resourceVersion"]
            try:
                await ask(client, "PUT", f"{MAPS}/register", register)
                break
            except ApiError as error:
                if error.code != 409:
                    raise


async def allocate_devices(client: AsyncClient, *, correct: bool) -> None:
    """Give each claim a device of its own.

    The bug, a double allocation: it knows taken devices from its watch only, which may be late.
    """
    taken: dict[str, str | None] = {}
    new: asyncio.Queue[str] = asyncio.Queue()

    def note(item: Json) -> None:
        name, device = item["metadata"]["name"], item.get("data", {}).get("device")
        if name.startswith("claim-"):
            if device is None and name not in taken:
                new.put_nowait(name)
            taken[name] = device or taken.get(name)

    async def follow() -> None:
        while True:
            listing = await ask(client, "GET", MAPS)
            for item in listing["items"]:
                note(item)
            try:
                async for event in events(client, listing["metadata"]["resourceVersion"]):
                    note(event["object"])
            except ApiError as error:
                if error.code not in (410, *_PASSING):
                    raise
                await asyncio.sleep(0.5)

    async with asyncio.TaskGroup() as group:
        group.create_task(follow())
        while name := await new.get():
            device = next(each for each in ("gpu-0", "gpu-1", "gpu-2") if each not in taken.values())
            if correct:
                taken[name] = device
            await ask_patch(client, name, {"data": {"device": device}})
