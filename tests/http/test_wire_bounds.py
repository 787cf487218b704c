"""Limits of a connection: buffered bodies, slow requests, and headers."""

from __future__ import annotations

import asyncio
import json
import socket
from threading import Thread
from typing import ClassVar

import pytest

from apiserver.app import Server
from apiserver.http.server.frontend import ReadTimeouts
from apiserver.http.server.incoming import Pending
from apiserver.http.server.protocol import Protocol
from apiserver.http.server.turns import SLICE, STARTS, Turns
from apiserver.http.server.web import Web
from apiserver.request.messages import Response
from tests.support.server import serve
from tests.support.wire import Wire

pytestmark = pytest.mark.integration

MAPS = "/api/v1/namespaces/default/configmaps"
WATCH = f"GET {MAPS}?watch=true&timeoutSeconds=1 HTTP/1.1\r\nHost: x\r\n\r\n".encode()
BYE = b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
SECONDS = 20.0


def connect(wire: Wire) -> socket.socket:
    host, _, port = wire.url.removeprefix("http://").rpartition(":")
    return socket.create_connection((host, int(port)))


def read_all(connection: socket.socket) -> bytes:
    answer = b""
    while part := connection.recv(1 << 16):
        answer += part
    return answer


def creation(name: str, size: int) -> bytes:
    body = json.dumps({"metadata": {"name": name}, "data": {"k": "x" * size}}).encode()
    head = f"POST {MAPS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


class RecordingProtocol(Protocol):
    """A protocol that records the most bytes of bodies that it held while answers were due."""

    most = 0

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self._is_idle():
            RecordingProtocol.most = max(RecordingProtocol.most, self._waiting + self._body_size)


def record_bodies(server: Server) -> Web:
    web = Web(server.front)
    web.config.http = RecordingProtocol
    return web


def shorten_patience(server: Server) -> Web:
    server.front.read_timeouts = ReadTimeouts(head=0.3, body=0.3)
    return Web(server.front)


def test_bodies_behind_a_watch_wait_in_the_network_and_are_answered_when_it_ends() -> None:
    RecordingProtocol.most = 0
    with serve(wire=record_bodies) as server, connect(server.wire()) as connection:
        requests = [WATCH, *(creation(f"m{number}", 400_000) for number in range(20)), BYE]
        sender = Thread(target=connection.sendall, args=(b"".join(requests),))
        sender.start()
        answer = read_all(connection)
        sender.join()
    assert answer.count(b"HTTP/1.1 201 Created") == 20
    assert 0 < RecordingProtocol.most < 1_000_000, (
        f"of 8 MB that waited, {RecordingProtocol.most / 1e6:.1f} MB were kept"
    )


@pytest.mark.parametrize(
    ("begun", "answer"),
    [(b"GET /livez HTTP/1.1\r\nHost: x\r\nX-A:", b""), (creation("slow", 100)[:-90], b"HTTP/1.1 504 Gateway Timeout")],
    ids=["head", "body"],
)
def test_a_request_that_trickles_is_given_up(begun: bytes, answer: bytes) -> None:
    """Each byte may come in time, but the whole request must."""
    with serve(wire=shorten_patience) as server, connect(server.wire()) as connection:
        connection.sendall(begun)
        connection.settimeout(0.02)
        got = b""
        while True:
            try:
                part = connection.recv(1 << 16)
            except TimeoutError:
                connection.send(b"x")
                continue
            except ConnectionResetError:
                break
            if not part:
                break
            got += part
    assert got.startswith(answer)
    assert bool(got) == bool(answer)


def test_a_request_that_begins_behind_a_watch_has_its_time_when_its_turn_comes() -> None:
    with serve(wire=shorten_patience) as server, connect(server.wire()) as connection:
        connection.sendall(WATCH + BYE[:-20])
        first = b""
        while not first.endswith(b"\r\n0\r\n\r\n"):
            first += connection.recv(1 << 16)
        connection.sendall(BYE[-20:])
        assert read_all(connection).startswith(b"HTTP/1.1 200 OK")


def test_a_header_that_is_repeated_is_one_header() -> None:
    """The values are joined once, at the end of the head."""
    with serve() as server:
        fields = "".join(f"Accept: text/x{number}\r\n" for number in range(30_000))
        with connect(server.wire()) as connection:
            connection.sendall(f"GET {MAPS} HTTP/1.1\r\nHost: x\r\n{fields}Accept: */*\r\n".encode() + BYE[-21:])
            assert read_all(connection).startswith(b"HTTP/1.1 200 OK")


CHUNKED = f"POST {MAPS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


def send_endlessly(connection: socket.socket, begin: bytes, more: bytes) -> int:
    """Send a beginning and then one piece again and again until the server closes; return how often."""
    connection.sendall(begin)
    for count in range(1 << 12):
        try:
            connection.sendall(more)
        except OSError:
            return count
    return 1 << 12


@pytest.mark.parametrize("begin", [b"0\r\nX: ", b"0\r\n", b"5;a="], ids=["a trailer", "trailers", "an extension"])
def test_what_frames_chunks_is_bounded(begin: bytes) -> None:
    more = b"X: y\r\n" * 4096 if begin.endswith(b"\n") else b"y" * 4096 * 6
    with serve() as server:
        with connect(server.wire()) as connection:
            sent = send_endlessly(connection, CHUNKED.encode() + begin, more)
        assert sent * len(more) < 16 << 20, "the server has closed; what the network holds is left out"
        with connect(server.wire()) as connection:
            connection.sendall(CHUNKED.encode() + begin + more * 43)
            assert connection.recv(1 << 16).startswith(b"HTTP/1.1 400 Bad Request")


def test_a_body_may_come_in_tiny_chunks_and_end_with_trailers() -> None:
    body = json.dumps({"metadata": {"name": "tiny"}, "data": {"k": "x" * 400_000}}).encode()
    chunks = b"".join(b"1;a=b\r\n%c\r\n" % byte for byte in body)
    with serve() as server, connect(server.wire()) as connection:
        connection.sendall(CHUNKED.encode() + chunks + b"0\r\nX: " + b"y" * 900_000 + b"\r\n\r\n" + BYE)
        answer = read_all(connection)
    assert answer.startswith(b"HTTP/1.1 201 Created")
    assert answer.count(b"HTTP/1.1 200 OK") == 1


def test_the_body_of_an_earlier_request_does_not_count_as_framing() -> None:
    with serve() as server, connect(server.wire()) as connection:
        for name in ("a", "b", "c"):
            connection.sendall(creation(name, 1_400_000))
            assert connection.recv(1 << 16).startswith(b"HTTP/1.1 422 ")


class Counted(Protocol):
    """Counts the responses and the parsed bytes of each turn."""

    turns: ClassVar[list[tuple[int, int]]] = []
    written = 0

    def take_turn(self) -> bool:
        self.written, unparsed = 0, len(self._unparsed)
        more = super().take_turn()
        Counted.turns.append((self.written, unparsed - len(self._unparsed)))
        return more

    def _write(self, pending: Pending, answer: Response) -> None:
        self.written += 1
        super()._write(pending, answer)


def counted(server: Server) -> Web:
    web = Web(server.front)
    web.config.http = Counted
    return web


def test_one_turn_of_a_connection_is_one_response_or_a_small_piece_of_input() -> None:
    Counted.turns.clear()
    small = f"GET {MAPS} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    with serve(wire=counted) as server, connect(server.wire()) as connection:
        sender = Thread(target=connection.sendall, args=(small * 2000 + BYE,))
        sender.start()
        answer = read_all(connection)
        sender.join()
    assert answer.count(b"HTTP/1.1 200 OK") == 2001
    assert max(written for written, _ in Counted.turns) == 1
    assert max(parsed for _, parsed in Counted.turns) <= 4096


class Worker:
    """A connection with so many turns of one unit of time."""

    def __init__(self, name: str, count: int, done: list[str], time: list[float]) -> None:
        self.name, self.count, self._done, self._time = name, count, done, time

    def take_turn(self) -> bool:
        self._time[0] += SLICE / 4
        self._done.append(self.name)
        self.count -= 1
        return self.count > 0


async def test_connections_take_turns_and_others_go_on_after_each_slice() -> None:
    done: list[str] = []
    time = [0.0]
    turns = Turns(lambda: time[0])
    for name, count in (("a", 9), ("b", 3), ("c", 1)):
        turns.enqueue(Worker(name, count, done, time))
    assert not turns.try_begin(), "others wait"
    before, longest = 0, 0
    while len(done) < 13:
        await asyncio.sleep(0)
        before, longest = len(done), max(longest, len(done) - before)
    assert "".join(done) == "abcababaaaaaa"
    assert longest == 4
    await asyncio.sleep(0)
    assert turns.try_begin()
    time[0] += SLICE
    assert not turns.try_begin(), "the slice is used up"
    await asyncio.sleep(0)
    assert turns.try_begin()


async def test_a_few_tasks_start_in_each_iteration() -> None:
    turns, started = Turns(), 0

    async def request() -> None:
        nonlocal started
        await turns.start()
        started += 1

    tasks = [asyncio.create_task(request()) for _ in range(20)]
    seen = []
    while started < len(tasks):
        before = started
        await asyncio.sleep(0)
        seen.append(started - before)
    assert max(seen) == STARTS
