"""Waking whoever keeps something up to date with stored objects."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from apiserver.storage.types import Expired

if TYPE_CHECKING:
    from apiserver.storage.cache import Cache

__all__ = ["set_on_change"]


async def set_on_change(cache: Cache, event: asyncio.Event) -> None:
    """Sets the event whenever an object of the cache is written or deleted, until the server ends."""
    since = cache.revision
    while not cache.closed:
        cursor = cache.cursor(since)
        try:
            while not cursor.closed:
                if await cursor.wait(None):
                    cursor.next_batch(1000)
                    since = cursor.revision
                    event.set()
        except Expired:
            since = cache.revision
            event.set()
