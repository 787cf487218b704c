"""A watch cache over a log of its own, for tests."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

from apiserver.storage import Cache, RevisionLog, WatchCache, Write, open_log


def value(name: str, **spec: object) -> bytes:
    """Encode an object as the registry stores it."""
    return json.dumps({"metadata": {"name": name}, "spec": spec}, separators=(",", ":")).encode()


class Store:
    """A log in memory, its caches, and the writes of a client who reads before it writes."""

    def __init__(self, log: RevisionLog, caches: WatchCache, pods: Cache) -> None:
        self.log = log
        self.caches = caches
        self.pods = pods

    async def put(self, name: str, prefix: str = "/registry/pods/", **spec: object) -> int:
        key = prefix + name
        there = await self.log.get(key)
        return (await self.log.append(Write(key, value(name, **spec), there.revision if there else 0))).revision

    async def delete(self, name: str, prefix: str = "/registry/pods/", **spec: object) -> int:
        key = prefix + name
        there = await self.log.get(key)
        return (await self.log.append(Write(key, value(name, **spec), there.revision, deleted=True))).revision


def node_of(entry) -> list[str]:
    return [entry.obj["spec"]["node"]] if "node" in entry.obj["spec"] else []


@asynccontextmanager
async def a_store(target: str = "memory:"):
    log = await open_log(target, durability="off")
    caches = WatchCache(log, json.loads)
    pods = caches.add("/registry/pods/", {"node": node_of})
    await caches.start()
    yield Store(log, caches, pods)
    caches.close()
    await log.close()


def with_store(test):
    """Give a coroutine test an empty store."""

    def run() -> None:
        async def opened() -> None:
            async with a_store() as store:
                await test(store)

        asyncio.run(opened())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


def names(listing) -> list[str]:
    return [entry.key.removeprefix("/registry/pods/") for entry in listing.entries]
