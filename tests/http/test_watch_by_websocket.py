"""Watches over websockets: a frame for each event, until one side ends it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Self

import pytest

from tests.support.patience import PATIENCE
from tests.support.server import Running, serve

pytestmark = pytest.mark.integration

PATH = "/api/v1/namespaces/default/configmaps?watch=1&fieldSelector=metadata.name%3Da"
ORIGIN = {"Origin": "http://here"}
#: A client's frames are masked; with zeros they are as they were.
CLOSE = b"\x88\x82\0\0\0\0\x03\xe8"


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with serve() as server:
        server.wire().create_config_map("a")
        yield server


class Socket:
    """A connection that requests a websocket; the key is that of RFC 6455, 1.3."""

    def __init__(self, running: Running, path: str, headers: dict[str, str]) -> None:
        host, _, port = running.url.removeprefix("http://").partition(":")
        self._connection = socket.create_connection((host, int(port)), PATIENCE)
        sent = {
            "Host": "here", "Connection": "keep-alive, Upgrade", "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", **headers,
        }  # fmt: skip
        lines = "".join(f"{name}: {value}\r\n" for name, value in sent.items())
        self._connection.sendall(f"GET {path} HTTP/1.1\r\n{lines}\r\n".encode())
        self._file = self._connection.makefile("rb")
        self.status = int(self._file.readline().split()[1])
        heads = iter(lambda: self._file.readline().strip().decode(), "")
        self.headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in heads)}

    def frame(self) -> tuple[int, bytes]:
        """Read the next frame; return its kind and content."""
        first, size = self._file.read(2)
        if size == 126:
            size = int.from_bytes(self._file.read(2), "big")
        return first, self._file.read(size)

    def send(self, data: bytes) -> None:
        self._connection.sendall(data)

    def rest(self) -> bytes:
        return self._file.read()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._connection.close()


def test_each_event_is_a_text_frame_and_the_end_a_close_frame(running: Running) -> None:
    with Socket(running, PATH, {**ORIGIN, "Sec-WebSocket-Protocol": "p, q"}) as opened:
        assert (opened.status, opened.headers["upgrade"]) == (101, "websocket")
        assert opened.headers["sec-websocket-accept"] == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
        assert opened.headers["sec-websocket-protocol"] == "p"
        kind, event = opened.frame()
        assert kind == 0x81
        assert event.startswith(b'{"type":"ADDED","object":{"kind":"ConfigMap"')
        assert event.endswith(b"}\n")
        opened.send(CLOSE)
        assert opened.rest() == b"\x88\x02\x03\xe8"


def test_events_in_protobuf_are_binary_and_a_client_ends_the_watch(running: Running) -> None:
    accept = {"Accept": "application/vnd.kubernetes.protobuf"}
    with Socket(running, PATH, {**ORIGIN, **accept}) as opened:
        kind, event = opened.frame()
        assert kind == 0x82
        assert event.startswith(b"\n\x05ADDED\x12")
        assert running.wire().open_watches() == 1
        for piece in (b"\x82\xfe", b"\x01\x00\0\0\0\0" + b"x" * 256 + CLOSE[:1], CLOSE[1:]):  # a frame to skip, the end
            opened.send(piece)
        assert opened.rest() == b"\x88\x02\x03\xe8"
    assert running.wire().open_watches() == 0


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        (PATH, {}, 403),
        (PATH, {**ORIGIN, "Sec-WebSocket-Version": "8"}, 400),
        (PATH.replace("metadata.name", "x"), ORIGIN, 400),
        ("/api/v1/namespaces/default/configmaps/a", ORIGIN, 200),
    ],
)
def test_a_request_that_cannot_upgrade_is_answered_normally(
    running: Running, path: str, headers: dict[str, str], status: int
) -> None:
    with Socket(running, path, headers) as opened:
        assert opened.status == status
