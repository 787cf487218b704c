"""A server and components in another process, and the pipe between them: both ends are real, on a real socket."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing, asynccontextmanager
from typing import Any, Final

import pytest

from apiserver.api.errors.status import StatusError
from apiserver.authentication.authenticator import ADMIN
from apiserver.components.pipe import Pipe, PipeClosed
from apiserver.http.server.coalesce import Coalescer
from apiserver.request.messages import Stream
from apiserver.runtime.frames import WINDOW
from apiserver.runtime.metrics import Counter, Gauge, text
from controllers.runtime.client import Client
from controllers.runtime.kinds import CONFIG_MAPS, PODS
from controllers.runtime.pipe import PipeTransport
from controllers.runtime.transport import TransportError
from tests.support.patience import patience
from tests.support.server import Running, serve

pytestmark = pytest.mark.integration

MAPS: Final = "/api/v1/namespaces/default/configmaps"
Ends = tuple[Pipe, PipeTransport]


@pytest.fixture
def running() -> Iterator[Running]:
    with serve() as server:
        yield server


async def unasked(name: str, arguments: tuple[Any, ...]) -> Any:
    raise AssertionError(name)


@asynccontextmanager
async def joined(
    running: Running, answer: Callable[[str, tuple[Any, ...]], Awaitable[Any]] = unasked
) -> AsyncIterator[Ends]:
    """Connect both ends on the server's loop."""
    loop, ends = asyncio.get_running_loop(), socket.socketpair()
    for end in ends:
        end.setblocking(False)
    _, server = await loop.create_connection(lambda: Pipe(running.server.chain, ADMIN, Coalescer()), sock=ends[0])
    _, client = await loop.create_connection(lambda: PipeTransport(answer), sock=ends[1])
    try:
        yield server, client
    finally:
        await client.close()
        async with patience():
            await server.closed.wait()


def on_the_server(test: Callable[[Running], Awaitable[None]]) -> Callable[[Running], None]:
    """Run a coroutine test on the server's loop."""

    def run(running: Running) -> None:
        running.call(lambda: test(running))

    return run


def config_map(name: str, size: int = 0) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default"}, "data": {"text": "x" * size}}


@on_the_server
async def test_requests_are_answered_each_when_its_answer_is_ready(running: Running) -> None:
    async with joined(running) as (_, transport):
        client = Client(transport)
        names = [f"m{number}" for number in range(200)]
        made = await asyncio.gather(*(client.create(CONFIG_MAPS, config_map(name)) for name in names))
        with pytest.raises(StatusError) as missing:
            await client.get(CONFIG_MAPS, "nix", "default")
        found = await client.list(CONFIG_MAPS, "default")
        assert [each["metadata"]["name"] for each in made] == names
        assert missing.value.message == 'configmaps "nix" not found'
        assert len(found["items"]) >= 200


@on_the_server
async def test_they_are_the_administrators(running: Running) -> None:
    async with joined(running) as (_, transport):
        review = await Client(transport).request(
            "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", "",
            {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"},
        )  # fmt: skip
        assert review["status"]["userInfo"]["username"] == ADMIN.name


async def first_events(client: Client, number: int) -> list[tuple[str, str]]:
    seen: list[tuple[str, str]] = []
    async with aclosing(client.watch(CONFIG_MAPS, "default", resource_version="1")) as batches:
        async for batch in batches:
            seen += [(what, obj["metadata"]["name"]) for what, obj in batch if what != "BOOKMARK"]
            if len(seen) >= number:
                break
    return seen


@on_the_server
async def test_a_watch_shows_what_happens_and_leaves_nothing_open(running: Running) -> None:
    async with joined(running) as (server, transport):
        client = Client(transport)
        watching = asyncio.create_task(first_events(client, 3))
        for name in ("a", "b"):
            await client.create(CONFIG_MAPS, config_map(name))
        await client.delete(CONFIG_MAPS, "a", "default")
        async with patience():
            seen = await watching
            while server._running:
                await asyncio.sleep(0)
        assert not running.server._dispatch.streams
        assert [each for each in seen if each[1] in "ab"] == [("ADDED", "a"), ("ADDED", "b"), ("DELETED", "a")]


@on_the_server
async def test_it_counts_as_one_from_inside(running: Running) -> None:
    async with joined(running) as (_, transport):
        watching = asyncio.create_task(first_events(Client(transport), 1000))
        async with patience():
            while not running.server._dispatch.streams:
                await asyncio.sleep(0)
        inside = [stream.inside for stream in running.server._dispatch.streams]
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        assert inside == [True]


class Endless:
    """A chain of handlers that answers with an endless stream and counts its chunks."""

    def __init__(self) -> None:
        self.made = 0

    def try_fast(self, request: object) -> None:
        return None

    async def handle(self, request: object) -> Stream:
        stream = Stream(200)

        async def chunks() -> AsyncIterator[bytes]:
            while True:
                self.made += 1
                yield bytes(WINDOW // 16)

        stream.chunks = chunks()
        return stream


@on_the_server
async def test_an_unread_stream_is_sent_no_more_than_a_window(running: Running) -> None:
    endless = Endless()
    running.server.chain, chain = endless, running.server.chain  # type: ignore[assignment]
    try:
        async with joined(running) as (_, transport):
            _, _, stream = await transport.stream("GET", "/", "", {})
            async with patience():
                await anext(stream)
                while endless.made <= 16:
                    await asyncio.sleep(0)
            for _ in range(200):
                await asyncio.sleep(0)
            unread = endless.made
            for _ in range(100):
                await anext(stream)
            assert unread == 17
            assert endless.made >= 101
    finally:
        running.server.chain = chain


@on_the_server
async def test_an_unwanted_answer_is_given_up(running: Running) -> None:
    """As if the connection of a client had closed."""
    async with joined(running) as (server, transport):
        begun = asyncio.Event()

        class Slow(Endless):
            given_up = False

            async def handle(self, request: object) -> Stream:
                begun.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    self.given_up = True
                raise AssertionError

        server._chain = slow = Slow()  # type: ignore[assignment]
        asking = asyncio.create_task(transport.request("GET", "/", "", {}, b""))
        async with patience():
            await begun.wait()
            asking.cancel()
            while server._running:
                await asyncio.sleep(0)
        assert slow.given_up


@on_the_server
async def test_a_connection_that_a_fault_closes_is_an_error_of_transport(running: Running) -> None:
    wire = running.wire()
    for match in ({"close": "before"}, {"watch": {"end": "close"}}):
        fault = {"match": {"userAgent": "piped"}, "count": 1, **match}
        await asyncio.to_thread(wire.post, "/-/faults", fault)

    async with joined(running) as (_, transport):
        client, met = Client(transport, "piped"), []
        for _ in range(2):
            try:
                version = (await client.list(PODS))["metadata"]["resourceVersion"]
                async for _ in client.watch(PODS, resource_version=version):
                    pass
            except TransportError as error:
                met.append(str(error))
        assert [error.startswith("the connection closed") for error in met] == [True, True]


@on_the_server
async def test_requests_and_watches_fail_when_the_server_goes(running: Running) -> None:
    async with joined(running) as (server, transport):
        client = Client(transport)
        watching = asyncio.create_task(first_events(client, 1000))
        async with patience():
            while not running.server._dispatch.streams:
                await asyncio.sleep(0)
            asking = asyncio.create_task(client.create(CONFIG_MAPS, config_map("late")))
            await asyncio.sleep(0)
            server.close()
            found = await asyncio.gather(watching, asking, return_exceptions=True)
        with pytest.raises(TransportError, match="the server is gone"):
            await client.list(PODS)
        assert all(isinstance(error, TransportError) for error in found)
        assert [str(error) for error in found] == ["the server is gone"] * 2


@on_the_server
async def test_a_server_whose_components_go_has_nothing_open(running: Running) -> None:
    async with joined(running) as (server, transport):
        watching = asyncio.create_task(first_events(Client(transport), 1000))
        async with patience():
            while not running.server._dispatch.streams:
                await asyncio.sleep(0)
            await transport.close()
            while server._running or running.server._dispatch.streams:
                await asyncio.sleep(0)
        await asyncio.gather(watching, return_exceptions=True)


class Unpicklable(Exception):
    def __init__(self, one: int, other: int) -> None:
        super().__init__(f"{one} and {other}")


async def offered(name: str, arguments: tuple[Any, ...]) -> Any:
    match name:
        case "sum":
            return sum(arguments)
        case "missing":
            raise LookupError("no such thing")
        case "unpicklable":
            raise Unpicklable(1, 2)
    return await asyncio.Event().wait()


@on_the_server
async def test_the_server_gets_what_it_calls_or_what_that_raises(running: Running) -> None:
    async with joined(running, offered) as (server, _):
        with pytest.raises(LookupError) as missing:
            await server.call("missing")
        with pytest.raises(RuntimeError) as other:
            await server.call("unpicklable")
        assert await server.call("sum", 1, 2) == 3
        assert (str(missing.value), str(other.value)) == ("no such thing", "Unpicklable: 1 and 2")


@on_the_server
async def test_a_call_ends_with_the_pipe(running: Running) -> None:
    async with joined(running, offered) as (server, transport):
        waiting = asyncio.create_task(server.call("forever"))
        await server.call("sum")
        await transport.close()
        async with patience():
            with pytest.raises(PipeClosed):
                await waiting
        with pytest.raises(PipeClosed):
            await server.call("sum")


@on_the_server
async def test_a_gauge_can_be_sent_as_it_stands(running: Running) -> None:
    values: dict[tuple[str, ...], float] = {("a",): 1.0}
    counter, gauge = Counter("c", "C."), Gauge("g", "G.", ("l",), lambda: values)
    counter.inc()

    async def counted(name: str, arguments: tuple[Any, ...]) -> Any:
        sent = [counter, gauge.now()]
        values["a",] = 2.0
        return sent

    async with joined(running, counted) as (server, _):
        shown = text(await server.call("counted"))
    assert "c 1\n" in shown
    assert 'g{l="a"} 1\n' in shown
