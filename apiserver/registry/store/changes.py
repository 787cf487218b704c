"""Streams of changes to stored objects, for data derived from them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

from apiserver.storage.log.types import Expired

if TYPE_CHECKING:
    from apiserver.storage.watchcache.cache import Cache
    from apiserver.storage.watchcache.entry import Event

__all__ = ["batches", "set_on_change"]


async def batches(cache: Cache) -> AsyncIterator[list[Event] | None]:
    """Yield the changes of a cache until the server stops; None after a gap."""
    since = cache.revision
    while not cache.closed:
        cursor = cache.cursor(since)
        try:
            while not cursor.closed:
                if await cursor.wait(None):
                    events = cursor.next_batch(1000)
                    since = cursor.revision
                    yield events
        except Expired:
            since = cache.revision
            yield None


async def set_on_change(cache: Cache, wake: asyncio.Event, matters: Callable[[Event], bool] = lambda _: True) -> None:
    """Set `wake` after every relevant write or deletion in the cache, until the server stops."""
    async for events in batches(cache):
        if events is None or any(matters(event) for event in events):
            wake.set()
