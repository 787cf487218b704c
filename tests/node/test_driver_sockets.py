"""The socket of a driver on each event loop that serves one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop

from kubedra.driver.sockets import SocketServer

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_socket_is_closed_and_removed(tmp_path: Path, loop_factory: Callable[[], asyncio.AbstractEventLoop]) -> None:
    path = tmp_path / "driver.sock"

    async def scenario() -> None:
        server = SocketServer(path, {})
        await server.listen()
        _, writer = await asyncio.open_unix_connection(path)
        await server.stop()
        writer.close()
        with pytest.raises(FileNotFoundError):
            await asyncio.open_unix_connection(path)

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(scenario())
    assert not path.exists()
