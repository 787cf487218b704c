"""Two servers on one database read each other's writes, and no write of one object is lost."""

from __future__ import annotations

import asyncio

import pytest

from apiserver.api.errors.status import StatusError
from tests.registry.conftest import open_world


@pytest.mark.real_time
async def test_two_servers_share_one_database(postgres_url: str) -> None:
    async with (
        open_world(postgres_url, shared=True, name="one") as one,
        open_world(postgres_url, shared=True, name="two") as two,
    ):
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
