"""A watch cache over a log of its own, for tests."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from apiserver.storage import Cache, Durability, Entry, Listing, RevisionLog, WatchCache, Write, open_log

PODS = "/registry/pods/"


def value(name: str, **spec: object) -> bytes:
    """Encode an object as the registry stores it."""
    return json.dumps({"metadata": {"name": name}, "spec": spec}, separators=(",", ":")).encode()


class Store:
    """A log in memory, its caches, and a client that reads before it writes."""

    def __init__(self, log: RevisionLog, caches: WatchCache, pods: Cache) -> None:
        self.log = log
        self.caches = caches
        self.pods = pods

    async def put(self, name: str, prefix: str = PODS, **spec: object) -> int:
        key = prefix + name
        current = await self.log.get(key)
        return (await self.log.append(Write(key, value(name, **spec), current.revision if current else 0))).revision

    async def delete(self, name: str, prefix: str = PODS, **spec: object) -> int:
        key = prefix + name
        current = await self.log.get(key)
        assert current is not None
        return (await self.log.append(Write(key, value(name, **spec), current.revision, deleted=True))).revision

    def entry(self, name: str) -> Entry:
        return entry_of(self.pods, PODS + name)


def entry_of(cache: Cache, key: str) -> Entry:
    """Return the entry of a key that is in the cache."""
    entry = cache.get(key)
    assert entry is not None
    return entry


def node_of(entry: Entry) -> list[str]:
    return [entry.obj["spec"]["node"]] if "node" in entry.obj["spec"] else []


@asynccontextmanager
async def opened_log(
    target: str | Path, durability: Durability = Durability.FULL, poll_interval: float = 1.0
) -> AsyncIterator[RevisionLog]:
    """Open a log and close it afterwards."""
    log = await open_log(str(target), durability=durability, poll_interval=poll_interval)
    try:
        yield log
    finally:
        await log.close()


@asynccontextmanager
async def a_store(target: str | Path = "memory:") -> AsyncIterator[Store]:
    async with opened_log(target, Durability.OFF) as log:
        caches = WatchCache(log, json.loads)
        pods = caches.add(PODS, {"node": node_of})
        await caches.start()
        yield Store(log, caches, pods)
        caches.close()


def with_store(test: Callable[[Store], Awaitable[None]]) -> Callable[[], Coroutine[Any, Any, None]]:
    """Give a coroutine test an empty store."""

    async def run() -> None:
        async with a_store() as store:
            await test(store)

    return run


def names(listing: Listing) -> list[str]:
    return [entry.key.removeprefix(PODS) for entry in listing.entries]
