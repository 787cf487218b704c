"""Calls that a driver ends without a response."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from grpclib.const import Cardinality, Handler, Status
from grpclib.exceptions import GRPCError

from controllers.kubelet.dra.drivers import DriverCallError
from controllers.kubelet.grpc.connection import Connection
from kubedra.driver.messages import Empty, PluginInfo
from kubedra.driver.sockets import SocketServer

pytestmark = pytest.mark.integration

METHOD = "/a.B/C"


@pytest.mark.real_time
@pytest.mark.parametrize(
    ("ends", "code", "text"),
    [(None, "Internal", "received no response message"), (GRPCError(Status.NOT_FOUND, "gone"), "NotFound", "gone")],
)
async def test_a_call_without_a_response_is_an_error(
    tmp_path: Path, ends: GRPCError | None, code: str, text: str
) -> None:
    async def end(stream: Any) -> None:
        await stream.recv_message()
        await stream.send_initial_metadata()
        if ends is not None:
            raise ends

    path = tmp_path / "driver.sock"
    # The library lets only a streaming method end without a response.
    server = SocketServer(path, {METHOD: Handler(end, Cardinality.UNARY_STREAM, Empty, PluginInfo)})
    await server.listen()
    connection = Connection(str(path))
    try:
        with pytest.raises(DriverCallError, match=text) as caught:
            await connection.call(METHOD, Empty(), PluginInfo, 30)
        assert caught.value.code == code
    finally:
        await connection.close()
        await server.stop()
