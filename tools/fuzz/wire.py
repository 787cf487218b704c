"""Build raw conversations: bytes in pieces, chunks, pipelined requests, odd heads, early ends.

`Conversations(seed).case(number)` returns the same pieces for the same seed and number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final, Literal

from tools.fuzz import texts
from tools.fuzz.requests import Case, Requests

#: "read": nothing more is sent, all is read until the server closes; "leave": closed without reading the answers;
#: "reset": the same, with a reset in place of an orderly end.
Ending = Literal["read", "leave", "reset"]

_MAPS: Final = b"/api/v1/namespaces/default/configmaps"
_WATCHES: Final = (
    b"?watch=1",
    b"?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
    b"?watch=1&resourceVersion=0&timeoutSeconds=1",
)
_LINES: Final = (
    b"Host: a", b"Host:", b"Host: evil.example", b": x", b"A", b"A : b", b" folded: x", b"Content-Length: 5", b"Content-Length: -1", b"Content-Length: 99999999999999999999",
    b"Content-Length: 0x5", b"Content-Length: 5\r\nContent-Length: 6", b"Transfer-Encoding: chunked", b"Transfer-Encoding: gzip, chunked", b"Transfer-Encoding: x",
    b"Connection: close", b"Connection: keep-alive", b"Connection: Upgrade\r\nUpgrade: websocket", b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA",
    b"Upgrade: SPDY/3.1", b"Expect: 100-continue", b"Expect: 200-x", b"\x00: x", b"X: \x00", b"X: \xff\xfe", b"X: " + b"y" * 70_000, b"Trailer: X", b"TE: trailers",
    b"Impersonate-User: a\r\nImpersonate-User: b", b"Accept: " + b",".join([b"application/json"] * 500), b"Range: bytes=0-", b"Content-Type: application/json\r\nContent-Type: application/yaml",
)  # fmt: skip
_REQUEST_LINES: Final = (
    b"GET / HTTP/1.0", b"GET / HTTP/0.9", b"GET /", b"GET  / HTTP/1.1", b"GET / HTTP/1.1 x", b"GET / HTTP/2.0", b"PRI * HTTP/2.0", b"OPTIONS * HTTP/1.1",
    b"CONNECT a:80 HTTP/1.1", b"GET http://127.0.0.1/api HTTP/1.1", b"GET http://evil/api HTTP/1.1", b"GET /a b HTTP/1.1", b"get /api HTTP/1.1", b"\x16\x03\x01\x02\x00",
    b"", b"\r\n", b"GET /api%zz HTTP/1.1", b"GET /?" + b"a=b&" * 3000 + b" HTTP/1.1", b"GET /" + b"a" * 70_000 + b" HTTP/1.1", b"GET /api#x HTTP/1.1", b"GET ?x HTTP/1.1",
    b"GET /api/v1/pods?watch=true HTTP/1.0", b"X" * 300 + b" / HTTP/1.1", b"GET /\xff\xfe HTTP/1.1", b"GET //api//v1/../v1/pods HTTP/1.1", b"POST /-/reset HTTP/1.1\r\nOrigin: http://evil.example",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class WireCase:
    """The pieces sent on one connection, and its ending."""

    number: int
    kind: str
    pieces: tuple[bytes, ...]
    ending: Ending


class Conversations:
    """The connections of one seed."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._requests = Requests(seed)

    def case(self, number: int) -> WireCase:
        random = Random(f"{self._seed}/wire/{number}")
        make = random.choice(_KINDS)
        data = make(random, self._next(random))
        if random.random() < 0.15:
            data = texts.damaged(random, data)
        # A watch has no end of its own, and the server stops reading when many requests wait behind it.
        endings: tuple[Ending, ...] = (
            ("leave", "reset") if make is _watch else ("read", "read", "read", "leave", "reset")
        )
        ending = random.choice(endings)
        return WireCase(number, make.__name__.strip("_"), _in_pieces(random, data), ending)

    def _next(self, random: Random) -> Callable[[], Case]:
        def request() -> Case:
            while True:
                case = self._requests.case(random.randrange(1 << 40) * 7 + 1)  # no watch
                # Without its request, the answer to a HEAD looks like one with a body.
                if case.method != "HEAD":
                    return case

        return request


def _in_pieces(random: Random, data: bytes) -> tuple[bytes, ...]:
    if random.random() < 0.5 or len(data) < 2:
        return (data,)
    cuts = sorted(random.randrange(len(data)) for _ in range(random.choice((1, 2, 5, 20))))
    return tuple(filter(None, (data[a:b] for a, b in zip((0, *cuts), (*cuts, len(data)), strict=True))))


def _pipelined(random: Random, request: Callable[[], Case]) -> bytes:
    return b"".join(request().data for _ in range(random.choice((2, 3, 8, 20, 80))))


def _chunked(random: Random, request: Callable[[], Case]) -> bytes:
    """Send the body of a request in chunks, not all of them valid."""
    head, _, body = request().data.partition(b"\r\n\r\n")
    lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"content-length")]
    body = body or b'{"metadata":{"name":"a"}}'
    made = [b"\r\n".join([*lines, b"Transfer-Encoding: chunked"]), b"\r\n\r\n"]
    at = 0
    while at < len(body):
        size = random.choice((1, 2, 7, 64, 1000))
        part = body[at : at + size]
        at += size
        sized = random.choice((b"%x", b"%x", b"%x", b"%X", b"0000%x", b"%x;a=b", b'%x;a="\\""', b"%x ")) % len(part)
        if random.random() < 0.01:
            sized = random.choice((b"-1", b"x", b"", b"ffffffffffffffff", b"1_0"))
        made += [sized, b"\r\n" if random.random() < 0.99 else b"\n", part, b"\r\n"]
    made.append(
        random.choice(
            (
                b"0\r\n\r\n",
                b"0\r\n\r\n",
                b"0\r\nX: y\r\n\r\n",
                b"0\r\nContent-Length: 5\r\nHost: evil\r\n\r\n",
                b"0\r\n",
                b"",
            )
        )
    )
    return b"".join(made) + (request().data if random.random() < 0.3 else b"")


def _lines(random: Random, request: Callable[[], Case]) -> bytes:
    """Return header fields that few clients send."""
    head, _, body = request().data.partition(b"\r\n\r\n")
    more = [random.choice(_LINES) for _ in range(random.choice((1, 1, 2, 4)))]
    if random.random() < 0.05:
        more *= 500
    return b"\r\n".join([head, *more]) + b"\r\n\r\n" + body


def _request_line(random: Random, request: Callable[[], Case]) -> bytes:
    line = random.choice(_REQUEST_LINES)
    return line + b"\r\nHost: 127.0.0.1\r\n\r\n" + (request().data if random.random() < 0.4 else b"")


def _watch(random: Random, request: Callable[[], Case]) -> bytes:
    """Send a watch and a request behind it, which gets no answer while the watch lasts."""
    path = random.choice((_MAPS, b"/api/v1/pods", b"/apis/resource.k8s.io/v1/resourceslices", b"/api/v1/events"))
    made = b"GET %b%b HTTP/1.%d\r\nHost: 127.0.0.1\r\n\r\n" % (
        path,
        random.choice(_WATCHES),
        random.choice((1, 1, 1, 0)),
    )
    return made + b"".join(request().data for _ in range(random.choice((0, 0, 1, 90))))


def _short(random: Random, request: Callable[[], Case]) -> bytes:
    """Send a Content-Length without the whole body."""
    data = request().data
    return data[: random.randrange(len(data))]


def _patient(random: Random, request: Callable[[], Case]) -> bytes:
    """Send a body without waiting for 100 Continue."""
    head, _, body = request().data.partition(b"\r\n\r\n")
    return head + b"\r\nExpect: 100-continue\r\n\r\n" + body + request().data


def _late(random: Random, request: Callable[[], Case]) -> bytes:
    """Request a future revision: the server waits for it."""
    query = random.choice(
        (b"resourceVersion=9000000000", b"resourceVersion=9000000000&limit=1", b"watch=1&resourceVersion=9000000000")
    )
    return b"GET %b?%b HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n" % (_MAPS, query)


def _endless(random: Random, request: Callable[[], Case]) -> bytes:
    """Build a trailer or a chunk extension of more than a megabyte."""
    begin = random.choice((b"0\r\nX: ", b"5;a=", b"0\r\n"))
    more = b"X: y\r\n" * 200_000 if begin.endswith(b"\n") else b"y" * 1_200_000
    return b"POST %b HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n%b%b" % (_MAPS, begin, more)


def _selecting(random: Random, request: Callable[[], Case]) -> bytes:
    """Build a list whose selector has thousands of terms."""
    kind, key = random.choice(((b"labelSelector", b"k%d!=v"), (b"fieldSelector", b"metadata.name!=v%d")))
    terms = b",".join(key % number for number in range(random.choice((100, 10_000))))
    return b"GET %b?%b=%b HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n" % (_MAPS, kind, terms)


_KINDS: Final = (_pipelined, _chunked, _chunked, _lines, _lines, _request_line, _watch, _short, _patient) * 6 + (
    _late, _endless, _selecting,
)  # fmt: skip
