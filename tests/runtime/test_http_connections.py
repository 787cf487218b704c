"""Answers of any HTTP/1.1 server, byte by byte: what comes cut anywhere, closes, hangs or breaks."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

import pytest

from controllers.runtime import connection as connections
from controllers.runtime.http import HttpTransport
from controllers.runtime.transport import TransportError
from kubedra.kubeconfig.credentials import Credentials
from kubedra.kubeconfig.reader import Cluster
from tests.support.patience import become

pytestmark = [pytest.mark.integration, pytest.mark.real_time]

#: Bytes of an answer; None closes the connection.
Piece = bytes | None
PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-A: b\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


class Served:
    """A server that answers each request with the next of some answers, in these pieces."""

    def __init__(self, answers: Sequence[Sequence[Piece]]) -> None:
        self._answers = list(answers)
        self.requests: list[bytes] = []
        self.opened = 0
        self.connections: list[asyncio.Task[None] | None] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.opened += 1
        self.connections.append(asyncio.current_task())
        try:
            while self._answers:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    (line.split(b":")[1] for line in head.split(b"\r\n") if line.startswith(b"content-l")), b"0"
                )
                self.requests.append(head + await reader.readexactly(int(length)))
                for piece in self._answers.pop(0):
                    if piece is None:
                        return
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0)
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()


@asynccontextmanager
async def serving(*answers: Sequence[Piece], path: str = "") -> AsyncIterator[tuple[Served, HttpTransport]]:
    served = Served(answers)
    server = await asyncio.start_server(served.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    transport = HttpTransport(Cluster(server=f"http://127.0.0.1:{port}{path}", credentials=Credentials(token="secret")))
    try:
        yield served, transport
    finally:
        await transport.close()
        server.close()
        await asyncio.gather(*filter(None, served.connections))


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize(
    "answer",
    [
        PLAIN,
        CHUNKED + b"1\r\no\r\n1\r\nk\r\n0\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" + PLAIN,
        b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + PLAIN,
    ],
)
async def test_an_answer_is_whole_wherever_it_is_cut_and_the_connection_is_used_again(answer: bytes, size: int) -> None:
    pieces = [answer[start : start + size] for start in range(0, len(answer), size)]

    async with serving(pieces, pieces) as (served, transport):
        for _ in range(2):
            status, headers, body = await transport.request("POST", "/x", "a=b", {"accept": "y"}, b"body")
            assert (status, body) == (200, b"ok")
            assert dict(headers).get("x-a", "b") == "b"
            assert "link" not in dict(headers)
        assert served.opened == 1
        line, *fields = served.requests[0].split(b"\r\n\r\n")[0].split(b"\r\n")
        assert line == b"POST /x?a=b HTTP/1.1"
        assert {b"authorization: Bearer secret", b"accept: y", b"content-length: 4"} <= set(fields)


async def test_an_answer_without_length_ends_with_its_connection() -> None:
    async with serving([b"HTTP/1.1 200 OK\r\n\r\no", b"k", None], [PLAIN]) as (served, transport):
        for _ in range(2):
            assert (await transport.request("GET", "/x", "", {}, b""))[2] == b"ok"
        assert served.opened == 2


async def test_a_connection_that_the_server_closes_with_its_answer_is_not_used_again() -> None:
    closing = PLAIN.replace(b"X-A: b", b"Connection: close")

    async with serving([closing, None], [closing, None]) as (served, transport):
        for _ in range(2):
            assert (await transport.request("POST", "/x", "", {}, b""))[2] == b"ok"
        assert served.opened == 2


async def test_of_a_connection_that_closes_instead_of_answering_reads_alone_are_repeated() -> None:
    async with serving([PLAIN], [None], [PLAIN], [None]) as (served, transport):
        for _ in range(2):
            assert (await transport.request("GET", "/x", "", {}, b""))[0] == 200
        assert len(served.requests) == 3
        with pytest.raises(TransportError, match=r"closed the connection|reset"):
            await transport.request("POST", "/x", "", {}, b"")
        assert len(served.requests) == 4


@pytest.mark.parametrize(
    ("pieces", "said"),
    [
        ([PLAIN[:-1], None], "closed the connection"),
        ([CHUNKED + b"5\r\nab", None], "closed the connection"),
        ([b"SSH-2.0\r\n"], "invalid HTTP response"),
    ],
)
async def test_an_answer_that_breaks_off_or_is_none_is_an_error_even_of_a_read(pieces: list[Piece], said: str) -> None:
    async with serving([PLAIN], pieces) as (_, transport):
        await transport.request("GET", "/x", "", {}, b"")
        with pytest.raises(TransportError, match=said):
            await transport.request("GET", "/x", "", {}, b"")


async def test_a_server_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "ANSWER_TIMEOUT", 0.05)

    async with serving([], [PLAIN]) as (_, transport):
        with pytest.raises(TransportError, match="no answer for"):
            await transport.request("GET", "/x", "", {}, b"")


@pytest.mark.parametrize("streams", [False, True])
async def test_a_connection_whose_request_was_given_up_is_closed(streams: bool) -> None:
    async with serving([], [PLAIN]) as (served, transport):
        asked = transport.stream("GET", "/x", "", {}) if streams else transport.request("GET", "/x", "", {}, b"")
        waiting = asyncio.ensure_future(asked)
        await become(lambda: served.requests, "it was asked")
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        [first] = served.connections
        assert first is not None
        await first
        assert (await transport.request("GET", "/x", "", {}, b""))[2] == b"ok"
        assert served.opened == 2


async def test_once_an_answer_has_begun_nobody_watches_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A watch may be silent for as long as it likes, and a connection that rests is not overdue."""
    patience_of_a_request = connections.ANSWER_TIMEOUT

    def time_passes() -> None:
        """All timers fall due, and come back for no time at all."""
        monkeypatch.setattr(connections, "ANSWER_TIMEOUT", -1.0)
        for timer in list(asyncio.get_running_loop()._scheduled):  # type: ignore[attr-defined]
            if not timer.cancelled():
                timer._run()
                timer.cancel()
        monkeypatch.setattr(connections, "ANSWER_TIMEOUT", patience_of_a_request)

    async with serving([PLAIN], [PLAIN], [CHUNKED, b"2\r\nok\r\n"], [PLAIN]) as (served, transport):
        for _ in range(2):
            assert (await transport.request("GET", "/x", "", {}, b""))[2] == b"ok"
            time_passes()
        assert served.opened == 1, "the connection was kept"
        _, _, chunks = await transport.stream("GET", "/x", "", {})
        time_passes()
        assert await anext(chunks) == b"ok"
        await chunks.aclose()  # type: ignore[attr-defined]


async def test_a_connection_that_has_rested_is_watched_over_again() -> None:
    """One timer serves many requests: it is there whenever an answer is awaited."""

    def our_timers() -> list[asyncio.TimerHandle]:
        timers = asyncio.get_running_loop()._scheduled  # type: ignore[attr-defined]
        return [timer for timer in timers if not timer.cancelled() and "_overdue" in repr(timer)]

    async with serving([PLAIN], [PLAIN], [], [PLAIN]) as (served, transport):

        def has_requests(number: int) -> bool:
            return len(served.requests) > number

        for asked in range(3):
            waiting = asyncio.ensure_future(transport.request("POST", "/x", "", {}, b""))
            await become(partial(has_requests, asked), "it was asked")
            if asked < 2:
                await waiting
                for timer in our_timers():
                    timer._run()
                    timer.cancel()
        assert our_timers()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert not our_timers()


async def test_as_many_requests_are_under_way_at_once_as_there_may_be_connections() -> None:
    begun, most, more = 0, 64, 6

    answering, serving = asyncio.Event(), list[asyncio.Task[None] | None]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal begun
        serving.append(asyncio.current_task())
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while await reader.readuntil(b"\r\n\r\n"):
                begun += 1
                await answering.wait()
                writer.write(PLAIN)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    async with await asyncio.start_server(serve, "127.0.0.1", 0, backlog=most) as server:
        transport = HttpTransport(Cluster(server=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"))
        asked = [transport.request("POST", "/x", "", {}, b"") for _ in range(most + more)]
        answers = asyncio.gather(*asked)
        await become(lambda: begun == most, "as many as may be are under way")
        assert transport._free.locked()
        answering.set()
        assert [body for _, _, body in await answers] == [b"ok"] * (most + more)
        assert len(transport._idle) == most
        await transport.close()
        await asyncio.gather(*filter(None, serving))


async def test_the_texts_of_header_fields_are_kept_for_a_bounded_number_of_sets() -> None:
    transport = HttpTransport(Cluster(server="http://127.0.0.1:1"))
    for number in range(1000):
        request = transport._render("GET", "/x", "", {"x-request": str(number)}, b"")
        assert f"\r\nx-request: {number}\r\n".encode() in request
    assert len(transport._fields) <= 256


async def read(chunks: AsyncIterator[bytes], came: list[bytes]) -> None:
    async for chunk in chunks:
        came.append(chunk)  # noqa: PERF401 - what came before the stream broke counts


async def test_a_stream_gives_what_came_and_then_says_that_it_broke() -> None:
    async with serving([CHUNKED, b"2\r\nab\r\n", b"2\r\ncd\r\n", None]) as (_, transport):
        status, _, chunks = await transport.stream("GET", "/x", "", {})
        came: list[bytes] = []
        with pytest.raises(TransportError, match="closed the connection"):
            await read(chunks, came)
        assert (status, b"".join(came)) == (200, b"abcd")


async def test_of_a_stream_that_nobody_reads_no_more_than_a_few_mebibytes_are_taken() -> None:
    mebibyte = b"100000\r\n" + b"x" * (1 << 20) + b"\r\n"
    sent = 0

    done = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(CHUNKED)
        for _ in range(40):
            writer.write(mebibyte)
            await writer.drain()
            sent += 1
        writer.write(b"0\r\n\r\n")
        writer.close()
        await writer.wait_closed()
        done.set()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        transport = HttpTransport(Cluster(server=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"))
        connection = await transport._connect()
        await connection.open(transport._render("GET", "/x", "", {}, b""))
        assert connection._transport is not None
        while connection._transport.is_reading() and sent < 40:
            await asyncio.sleep(0)
        assert sent < 30
        chunks = connection.chunks()
        assert sum([len(chunk) async for chunk in chunks]) == 40 << 20
        await done.wait()


async def test_a_server_below_a_path_is_asked_there_and_odd_letters_are_quoted() -> None:
    async with serving([PLAIN], path="/k8s/clusters/c") as (served, transport):
        await transport.request("GET", "/api/a b\r\n", "", {}, b"")
        assert served.requests[0].startswith(b"GET /k8s/clusters/c/api/a%20b%0D%0A HTTP/1.1\r\n")


async def test_nobody_at_the_address_is_an_error_that_names_it() -> None:
    with pytest.raises(TransportError, match=r"^http://127\.0\.0\.1:1: "):
        await HttpTransport(Cluster(server="http://127.0.0.1:1")).request("GET", "/x", "", {}, b"")
