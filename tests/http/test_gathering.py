"""A long answer built in pieces equals the answer built in one step, and other requests run between the pieces."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from apiserver.http.formats.encoding import encode
from apiserver.http.formats.gathering import gather
from apiserver.http.formats.negotiation import JSON, YAML
from apiserver.runtime.offload import SLICE

pytestmark = pytest.mark.integration

scalars = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text()
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=12
)
WHOLE: dict[str, Any] = {"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}}


@pytest.mark.parametrize("key", ["items", "rows"])
@pytest.mark.parametrize(("media", "pretty"), [(JSON, False), (JSON, True), (YAML, False)])
@given(items=st.lists(values, max_size=6))
@example(items=[{"\n": None}])
def test_pieces_make_the_same_bytes_as_the_whole(key: str, media: str, pretty: bool, items: list[Any]) -> None:
    made = asyncio.run(gather(media, WHOLE, key, items, lambda item: item, pretty=pretty))
    assert made == encode(media, {**WHOLE, key: items}, pretty=pretty)


@pytest.mark.real_time
async def test_others_get_their_turn_between_the_pieces() -> None:
    waits: list[float] = []

    async def others(done: asyncio.Event) -> None:
        while not done.is_set():
            before = time.perf_counter()
            await asyncio.sleep(0)
            waits.append(time.perf_counter() - before)

    def slow(item: int) -> int:
        until = time.perf_counter() + SLICE / 4
        while time.perf_counter() < until:
            pass
        return item

    done = asyncio.Event()
    other = asyncio.create_task(others(done))
    await gather(JSON, WHOLE, "items", range(60), slow)
    done.set()
    await other
    assert len(waits) >= 10
