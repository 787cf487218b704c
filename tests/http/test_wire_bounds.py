"""Limits of a connection: buffered bodies, slow requests, and headers."""

from __future__ import annotations

import json
import socket
from threading import Thread

import pytest

from apiserver.app import Server
from apiserver.http.server.frontend import ReadTimeouts
from apiserver.http.server.protocol import Protocol
from apiserver.http.server.web import Web
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
