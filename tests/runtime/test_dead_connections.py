"""Servers that accept a connection and go silent, as a machine that has lost its power: watches end all the same."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from apiserver.runtime.virtual_loop import VirtualLoop
from controllers.runtime.client import Batch, Client
from controllers.runtime.http import HttpTransport
from controllers.runtime.informer import Informer
from controllers.runtime.kinds import PODS
from controllers.runtime.rate_limit import RateLimitedTransport
from controllers.runtime.transport import TransportError
from kubedra.kubeconfig.reader import Cluster
from tests.support.patience import patience

pytestmark = pytest.mark.integration

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def event(kind: str, version: int, **metadata: Any) -> bytes:
    pod = {"name": "a", "namespace": "ns", "uid": "u", "resourceVersion": str(version), **metadata}
    line = json.dumps({"type": kind, "object": {"kind": "Pod", "metadata": pod}}).encode() + b"\n"
    return b"%x\r\n%s\r\n" % (len(line), line)


END_OF_INITIAL = event("BOOKMARK", 7, annotations={"k8s.io/initial-events-end": "true"})


class Silent:
    """A server that answers each connection with the next of some answers, which do not end."""

    def __init__(self, *answers: bytes) -> None:
        self._answers = list(answers)
        #: When a request came, in the loop's time, and its first line.
        self.requests: list[tuple[float, str]] = []
        self.connections: list[asyncio.StreamWriter] = []
        self.asked = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections.append(writer)
        head = await reader.readuntil(b"\r\n\r\n")
        self.requests.append((asyncio.get_running_loop().time(), head.split(b"\r\n")[0].decode()))
        writer.write(self._answers.pop(0))
        self.asked.set()
        await reader.read()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[HttpTransport]:
        async with patience(), await asyncio.start_server(self.serve, "127.0.0.1", 0) as server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            try:
                yield HttpTransport(Cluster(server=url))
            finally:
                for writer in self.connections:
                    writer.close()


async def read(watch: AsyncGenerator[Batch, None]) -> None:
    async with aclosing(watch) as batches:
        async for _ in batches:
            pass


def pending() -> list[tuple[Any, ...]]:
    """Return the pending timers of virtual time."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return [*loop.pending()]


@pytest.mark.closed_loop
@pytest.mark.parametrize("answer", [b"", HEAD, HEAD + event("ADDED", 1)], ids=["at once", "after its head", "later"])
async def test_a_watch_of_a_server_that_goes_silent_breaks_soon_after_its_time(answer: bytes) -> None:
    async with Silent(answer).running() as transport:
        client, loop = Client(RateLimitedTransport(transport, qps=50, burst=100)), asyncio.get_running_loop()
        begin = loop.time()
        with pytest.raises(TransportError, match="the answer has not ended after 11 seconds"):
            await read(client.watch(PODS, duration=timedelta(seconds=1)))
        assert loop.time() - begin == pytest.approx(11, abs=0.01)


async def test_virtual_time_does_not_pass_for_the_end_of_a_watch() -> None:
    silent = Silent(HEAD)
    async with silent.running() as transport:
        watch = Client(transport).watch(PODS, duration=timedelta(seconds=1))
        watching = asyncio.ensure_future(anext(watch))
        await silent.asked.wait()
        assert pending() == []
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


@pytest.mark.closed_loop
async def test_an_informer_whose_connection_dies_goes_on_where_it_was() -> None:
    silent = Silent(HEAD + event("ADDED", 1) + END_OF_INITIAL, HEAD + event("DELETED", 8))
    async with silent.running() as transport:
        informer, gone = Informer(Client(transport), PODS), asyncio.Event()
        informer.on(deleted=lambda _: gone.set())
        task = asyncio.create_task(informer.run())
        await gone.wait()
        (first, _), (second, line) = silent.requests
        assert 5 * 60 + 10 <= second - first <= 10 * 60 + 12
        assert "resourceVersion=7" in line
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert not [timer for timer in pending() if "_expire" in timer[2]], "a watch that was given up has no end"


@pytest.mark.closed_loop
async def test_the_kernel_probes_connections_for_servers_that_are_gone() -> None:
    async with Silent(b"").running() as transport:
        connection = await transport._connect()
        assert connection._transport is not None
        connected = connection._transport.get_extra_info("socket")
        assert connected.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        idle, gap, probes = (
            connected.getsockopt(socket.IPPROTO_TCP, option)
            for option in (
                getattr(socket, "TCP_KEEPIDLE", getattr(socket, "TCP_KEEPALIVE", 0)),
                socket.TCP_KEEPINTVL,
                socket.TCP_KEEPCNT,
            )
        )
        assert idle + gap * probes == 45, "client-go finds a dead connection after 45 s"
        connection.close()
