"""Followers of stored objects are woken by relevant changes."""

from __future__ import annotations

import asyncio

from apiserver.registry.store.changes import set_on_change
from tests.registry.conftest import World


async def woken(wake: asyncio.Event) -> bool:
    """Return whether the event is set after every task has run."""
    for _ in range(5):
        await asyncio.sleep(0)
    was = wake.is_set()
    wake.clear()
    return was


async def test_what_matters_wakes_and_so_does_what_was_missed_until_the_server_ends(world: World) -> None:
    cache, wake = world.store("configmaps").cache, asyncio.Event()
    follower = asyncio.ensure_future(set_on_change(cache, wake, lambda event: not event.key.endswith("/other")))
    assert not await woken(wake)
    await world.create("configmaps", {"metadata": {"name": "a"}})
    assert await woken(wake)
    await world.create("configmaps", {"metadata": {"name": "other"}})
    assert not await woken(wake)
    await world.delete("configmaps", "a")
    assert await woken(wake)
    await world.create("leases", {"metadata": {"name": "l"}})
    assert not await woken(wake)
    await world.forget_history("configmaps")
    cache.wake()
    assert await woken(wake)
    cache.close()
    await asyncio.wait_for(follower, 5)
