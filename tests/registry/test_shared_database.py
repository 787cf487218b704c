"""Two servers on one database read each other's writes, and no write of one object is lost."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from apiserver.api.errors.status import StatusError


@pytest.mark.real_time
async def test_two_servers_are_one(
    postgres_url: str, new_world: Callable[..., AbstractAsyncContextManager[Any]]
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        one = await stack.enter_async_context(new_world(postgres_url, shared=True, name="one"))
        two = await stack.enter_async_context(new_world(postgres_url, shared=True, name="two"))
        await one.create("configmaps", {"metadata": {"name": "a"}, "data": {"x": "0"}})
        assert (await two.get("configmaps", "a"))["data"] == {"x": "0"}
        assert len((await two.list("configmaps")).entries) == 1
        writes = [
            world.merge("configmaps", "a", {"data": {f"{name}{i}": "1"}})
            for i in range(10)
            for name, world in (("p", one), ("q", two))
        ]
        await asyncio.gather(*writes)
        assert len((await one.get("configmaps", "a"))["data"]) == 21
        made = [world.create("configmaps", {"metadata": {"name": "b"}}) for world in (one, two)]
        outcomes = await asyncio.gather(*made, return_exceptions=True)
        assert sorted(isinstance(outcome, StatusError) for outcome in outcomes) == [False, True]
        await two.delete("configmaps", "a")
        with pytest.raises(StatusError, match="not found"):
            await one.update("configmaps", "a", {"metadata": {"name": "a"}})
