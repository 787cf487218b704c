"""HTTP on the wire: heads and lengths, pipelining, and slow readers."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apiserver.app import Server
from apiserver.http.server.web import Web
from apiserver.request.messages import Request, Response, Stream
from tests.support.server import serve
from tests.support.wire import Child, Wire

pytestmark = pytest.mark.integration
FLAGS = ("--runtime-config=api/all=true",)

MAPS = "/api/v1/namespaces/default/configmaps"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def close_idle_soon(server: Server) -> Web:
    web = Web(server.front)
    web.config.timeout_keep_alive = 0.2  # type: ignore[assignment]
    return web


@contextmanager
def connect(wire: Wire) -> Iterator[socket.socket]:
    host, _, port = wire.url.removeprefix("http://").rpartition(":")
    with socket.create_connection((host, int(port))) as connection:
        yield connection


def exchange(wire: Wire, *parts: bytes) -> bytes:
    """Return everything that the server sends until it closes."""
    with connect(wire) as connection:
        for part in parts:
            connection.sendall(part)
        answer = b""
        while part := connection.recv(65536):
            answer += part
        return answer


def ask(method: str, path: str, body: bytes = b"", *fields: str) -> bytes:
    head = [f"{method} {path} HTTP/1.1", "Host: x", *fields]
    if body:
        head += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*head, "", ""]).encode() + body


LAST = ask("GET", "/livez", b"", "Connection: close")

JSON_TYPE, PLAIN_TYPE = "application/json", "text/plain; charset=utf-8"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
MERGE = {"Content-Type": "application/merge-patch+json"}
#: One request after the other, with the status and the content type of its answer.
REQUESTS: list[tuple[str, str, Any, Mapping[str, str], int, str]] = [
    ("POST", MAPS, {"metadata": {"name": "a", "uid": "ignored"}, "data": {"k": "ü"}}, {}, 201, JSON_TYPE),
    ("POST", MAPS, {"metadata": {"name": "a"}}, {}, 409, JSON_TYPE),
    ("POST", MAPS, b"{", {"Content-Type": JSON_TYPE}, 400, JSON_TYPE),
    ("POST", f"{MAPS}?dryRun=All&fieldValidation=Warn", {"metadata": {"name": "b"}, "nope": 1}, {}, 201, JSON_TYPE),
    ("GET", f"{MAPS}/a", None, {}, 200, JSON_TYPE),
    ("GET", f"{MAPS}/a", None, {"Accept": "application/yaml"}, 200, "application/yaml"),
    ("GET", f"{MAPS}/a", None, {"Accept": TABLE}, 200, JSON_TYPE),
    ("GET", f"{MAPS}/a", None, {"Accept": "text/html"}, 406, JSON_TYPE),
    ("GET", f"{MAPS}/a", None, {"User-Agent": "curl/8"}, 200, JSON_TYPE),
    ("GET", f"{MAPS}/nope", None, {}, 404, JSON_TYPE),
    ("GET", f"{MAPS}/a%2Fb", None, {}, 404, JSON_TYPE),
    ("GET", f"{MAPS}?labelSelector=x%3Dy&limit=1", None, {}, 200, JSON_TYPE),
    ("GET", MAPS, None, {"Accept": TABLE}, 200, JSON_TYPE),
    ("HEAD", f"{MAPS}/a", None, {}, 405, JSON_TYPE),
    ("HEAD", "/version", None, {}, 405, JSON_TYPE),
    ("OPTIONS", MAPS, None, {}, 405, JSON_TYPE),
    ("GET", "/api", None, {}, 200, JSON_TYPE),
    ("GET", "/apis", None, {"Accept": f"{AGGREGATED},application/json"}, 200, AGGREGATED),
    ("GET", "/readyz?verbose", None, {}, 200, PLAIN_TYPE),
    ("GET", "/nope", None, {}, 404, PLAIN_TYPE),
    ("PATCH", f"{MAPS}/a", {"data": {"k": None}}, MERGE, 200, JSON_TYPE),
    ("PATCH", f"{MAPS}/a", {"data": {}}, {"Content-Type": "text/plain"}, 415, JSON_TYPE),
    ("PUT", f"{MAPS}/a", {"metadata": {"name": "other"}}, {}, 400, JSON_TYPE),
    ("POST", MAPS, b"x" * 3_200_000, {"Content-Type": JSON_TYPE}, 413, JSON_TYPE),
    ("DELETE", f"{MAPS}/a", None, {}, 200, JSON_TYPE),
]
#: FastAPI's, which passes no caching rule.
OWN_REQUESTS: list[tuple[str, str, Any, Mapping[str, str], int, str]] = [
    ("GET", "/%2D/info", None, {}, 200, JSON_TYPE),
    ("GET", "/-/nope", None, {}, 404, JSON_TYPE),
    ("GET", "/-/dropped?kind=Pod", None, {}, 200, JSON_TYPE),
    ("POST", "/-/faults", b"x" * 3_200_000, {"Content-Type": JSON_TYPE}, 413, PLAIN_TYPE),
    ("GET", "/docs", None, {}, 200, "text/html; charset=utf-8"),
]
#: What differs between any two servers.
_OWN = re.compile(rb"[0-9a-f]{8}-[0-9a-f-]{27}|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ|\d+s\b")


def test_every_answer_has_its_type_its_length_and_a_rule_for_caches() -> None:
    with serve() as server:
        wire = server.wire()
        for *request, status, media in REQUESTS + OWN_REQUESTS:
            answer = wire.request(*request)
            what = f"{request[0]} {request[1]}"
            assert (answer.status, answer.headers["content-type"]) == (status, media), what
            if request[0] != "HEAD":
                assert int(answer.headers["content-length"]) == len(answer.body), what
            if request[1].startswith("/api/"):
                assert answer.headers["cache-control"] == "no-cache, private", what


def test_a_head_request_gets_the_length_of_what_it_does_not_get(wire: Wire) -> None:
    got, head = wire.request("OPTIONS", f"{MAPS}/a"), wire.request("HEAD", f"{MAPS}/a")
    assert (head.status, head.body) == (got.status, b"")
    assert head.headers["content-length"] == str(len(got.body))


def test_an_answer_without_a_body_has_no_length_and_no_type(wire: Wire) -> None:
    first = wire.get("/openapi/v2")
    answer = exchange(
        wire, ask("GET", "/openapi/v2", b"", f"If-None-Match: {first.headers['etag']}", "Connection: close")
    )
    head, _, body = answer.partition(b"\r\n\r\n")
    assert (head.split(b"\r\n")[0], body) == (b"HTTP/1.1 304 Not Modified", b"")
    assert b"content-length" not in head
    assert b"content-type" not in head


def test_a_client_in_the_process_passes_the_same_chain_and_gets_the_same_answers() -> None:
    with serve() as served, serve() as inside:

        async def answer(method: str, path: str, body: Any, headers: Mapping[str, str]) -> Response:
            chain, (path, _, query) = inside.server.chain, path.partition("?")
            data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
            given = {name.lower(): value for name, value in headers.items()}
            if data and "content-type" not in given:
                given["content-type"] = JSON_TYPE
            request = Request(method, path, query, given, data)
            found = chain.try_fast(request) or await chain.handle(request)
            assert isinstance(found, Response)
            return found

        for method, path, body, headers, *_ in REQUESTS:
            there = served.wire().request(method, path, body, headers)
            here = inside.call(partial(answer, method, path, body, headers))
            ours = {name.lower(): value for name, value in here.headers}
            sent = {name: value for name, value in there.headers.items() if name in ours}
            assert (there.status, there.headers["content-type"], sent) == (here.status, here.content_type, ours), path
            if method != "HEAD":
                assert _OWN.sub(b"*", there.body) == _OWN.sub(b"*", here.body), path


def test_a_long_row_of_requests_of_all_kinds_is_answered_in_order(wire: Wire) -> None:
    kinds = [
        ("GET", "/readyz", b"", 200),
        ("POST", MAPS, b'{"metadata":{"generateName":"row-"}}', 201),
        ("GET", "/-/info", b"", 200),
        ("GET", MAPS, b"", 200),
    ]
    kinds += [
        ("GET", f"{MAPS}/nope", b"", 404),
        ("GET", "/nope", b"", 404),
        ("DELETE", f"{MAPS}/nope", b"", 404),
        ("PUT", MAPS, b"{}", 405),
    ]
    row = [kinds[(number * number + number // 7) % len(kinds)] for number in range(300)]
    answer = exchange(wire, *(ask(method, path, body) for method, path, body, _ in row), LAST)
    assert [int(status) for status in re.findall(rb"HTTP/1\.1 (\d+)", answer)] == [*(status for *_, status in row), 200]


def test_a_request_may_come_byte_by_byte(wire: Wire) -> None:
    whole = ask("POST", MAPS, b'{"metadata":{"generateName":"slow-"}}', "Connection: close")
    assert exchange(wire, *(whole[at : at + 1] for at in range(len(whole)))).startswith(b"HTTP/1.1 201 Created\r\n")


def in_chunks(name: str, *sizes: int) -> bytes:
    body, chunks = f'{{"metadata":{{"generateName":"{name}-"}}}}'.encode(), b""
    for size in (*sizes, len(body)):
        chunks += b"%x;ext=1\r\n%b\r\n" % (len(body[:size]), body[:size]) if body else b""
        body = body[size:]
    return (
        ask("POST", f"{MAPS}?dryRun=All", b"", "Content-Type: application/json", "Transfer-Encoding: chunked")
        + chunks
        + b"0\r\n\r\n"
    )


PIPELINE = [
    (ask("GET", "/readyz"), 200),
    (in_chunks("cut", 3, 1), 201),
    (ask("GET", "/-/nope"), 404),
    (ask("GET", "/readyz", b"a body"), 200),
    (ask("POST", f"{MAPS}?dryRun=All", b'{"metadata":{"generateName":"cut-"}}'), 201),
    (ask("GET", "/livez", b"", "Connection: Upgrade", "Upgrade: websocket"), 200),
    (ask("GET", f"{MAPS}/nope"), 404),
    (ask("DELETE", f"{MAPS}/nope"), 404),
    (ask("POST", MAPS, b"{", "Connection: close"), 400),
]


@settings(max_examples=60, deadline=None)
@given(
    order=st.permutations(range(len(PIPELINE) - 1)),
    cuts=st.sets(st.integers(1, sum(len(sent) for sent, _ in PIPELINE)), max_size=12),
)
def test_wherever_the_bytes_are_cut_the_answers_are_the_same(wire: Wire, order: list[int], cuts: set[int]) -> None:
    chosen = [PIPELINE[number] for number in (*order, len(PIPELINE) - 1)]
    whole = b"".join(sent for sent, _ in chosen)
    bounds = [0, *sorted(cut for cut in cuts if cut < len(whole)), len(whole)]
    answer = exchange(wire, *(whole[start:end] for start, end in pairwise(bounds)))
    assert [int(status) for status in re.findall(rb"HTTP/1\.1 (\d+)", answer)] == [status for _, status in chosen]


def test_nothing_after_the_last_request_is_answered(wire: Wire) -> None:
    answer = exchange(wire, LAST + ask("GET", "/readyz") + b"\x00nonsense")
    assert (answer.count(b"HTTP/1.1 "), b"connection: close" in answer) == (1, True)


def test_nonsense_after_a_request_is_refused_after_its_answer(wire: Wire) -> None:
    answer = exchange(wire, ask("POST", MAPS, b'{"metadata":{"generateName":"then-"}}') + b"\x00nonsense\r\n\r\n")
    assert re.findall(rb"HTTP/1\.1 (\d+)", answer) == [b"201", b"400"]


@pytest.mark.parametrize("target", [b"/api/v1/\x00pods", b"/api/v1/p\xc3\xb6ds", b"/api/v1/pods HTTP/9.9"])
def test_what_is_wrong_with_a_path_is_not_blamed_on_the_method(wire: Wire, target: bytes) -> None:
    assert exchange(wire, b"GET %b HTTP/1.1\r\nHost: x\r\n\r\n" % target).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize("earlier", [0, 1])
def test_permission_for_a_body_comes_after_the_answers_before_it(wire: Wire, earlier: int) -> None:
    body = b'{"metadata":{"generateName":"permitted-"}}'
    with connect(wire) as connection:
        head = ask("POST", MAPS, body, "Expect: 100-continue", "Connection: close").removesuffix(body)
        connection.sendall(ask("POST", MAPS, body) * earlier + head)
        answer = b""
        while b"100 Continue\r\n\r\n" not in answer:
            answer += connection.recv(65536)
        connection.sendall(body)
        while part := connection.recv(65536):
            answer += part
    assert re.findall(rb"HTTP/1\.1 (\d+)", answer) == [b"201"] * earlier + [b"100", b"201"]


def test_a_head_without_end_is_refused(wire: Wire) -> None:
    with connect(wire) as connection:
        connection.sendall(b"GET /readyz HTTP/1.1\r\n")
        with suppress(ConnectionError):  # what is still sent when the server has closed
            for _ in range(20):
                connection.sendall(b"X-Long: " + b"x" * 65536 + b"\r\n")
        with suppress(ConnectionError):
            assert connection.recv(100).startswith(b"HTTP/1.1 431 ")
            while connection.recv(65536):
                pass
    assert wire.get("/readyz").status == 200


def test_fields_after_the_body_count_for_nothing(wire: Wire) -> None:
    review = b'{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}'
    fields = ("Content-Type: application/json", "Transfer-Encoding: chunked", "Connection: close")
    head = ask("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", b"", *fields)
    answer = exchange(wire, head + b"%x\r\n%b\r\n0\r\nImpersonate-User: mallory\r\n\r\n" % (len(review), review))
    assert (answer[:12], b"mallory" in answer) == (b"HTTP/1.1 201", False)


def test_a_client_of_http_1_0_gets_a_watch_without_chunks(wire: Wire) -> None:
    wire.create_config_map("old-fashioned")
    answer = exchange(
        wire,
        f"GET {MAPS}?watch=true&timeoutSeconds=1&fieldSelector=metadata.name%3Dold-fashioned HTTP/1.0\r\n\r\n".encode(),
    )
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"chunked" not in head
    assert json.loads(body)["object"]["metadata"]["name"] == "old-fashioned"


def test_a_request_behind_a_watch_is_answered_when_the_watch_ends(wire: Wire) -> None:
    answer = exchange(wire, ask("GET", f"{MAPS}?watch=true&timeoutSeconds=1&resourceVersion=1"), LAST)
    assert answer.index(b"\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n") > 0


def test_a_connection_is_closed_when_nothing_comes_for_long_but_not_while_it_watches() -> None:
    with serve(wire=close_idle_soon) as server:
        wire = server.wire()
        with connect(wire) as idle, connect(wire) as halfway:
            halfway.sendall(b"GET /readyz HTTP/1.1\r\nHost:")
            assert (idle.recv(1), halfway.recv(1)) == (b"", b"")
        answer = exchange(wire, ask("GET", f"{MAPS}?watch=true&timeoutSeconds=1"))
        assert answer.endswith(b"\r\n0\r\n\r\n")


def resident(child: Child) -> int:
    return int(Path(f"/proc/{child.process.pid}/statm").read_text().split()[1]) * 4096


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory of another process is read from /proc")
def test_a_client_that_reads_no_answers_costs_no_memory(tmp_path: Path) -> None:
    with Child(tmp_path / "data") as child:
        wire = child.wire()
        for number in range(4):
            wire.create_config_map(f"m{number}", k="x" * 500_000)
        wire.get(MAPS)
        before = resident(child)
        with connect(wire) as greedy:
            greedy.sendall(ask("GET", MAPS) * 500)
            for _ in range(20):
                assert wire.get("/readyz").status == 200
            grown = resident(child) - before
            assert grown < 60e6, f"500 answers of 2 MB would be a gigabyte, of which {grown / 1e6:.0f} MB are there"
            count, tail = 0, b""
            while count < 500:
                data = greedy.recv(1 << 20)
                count += (tail + data).count(b"HTTP/1.1 200 OK")
                tail = data[-14:]
        assert wire.get("/readyz").status == 200


def test_a_watcher_that_reads_nothing_costs_no_more_than_a_chunk() -> None:
    webs: list[Web] = []

    def listening(server: Server) -> Web:
        webs.append(Web(server.front))
        return webs[0]

    async def unsent() -> int:
        return max(connection.transport.get_write_buffer_size() for connection in webs[0].server_state.connections)

    with serve(wire=listening) as server:
        wire, filling = server.wire(), "x" * 300_000
        with wire.watch(f"{MAPS}?watch=true") as slow, wire.watch(f"{MAPS}?watch=true") as quick:
            for number in range(60):
                wire.create_config_map(f"m{number}", k=filling)
                assert quick.event()["type"] == "ADDED"
            assert server.call(unsent) < 1_000_000, "of 18 MB of events"
            assert [slow.event()["object"]["metadata"]["name"] for _ in range(60)] == [
                f"m{number}" for number in range(60)
            ]


@pytest.mark.parametrize(
    "accept",
    [
        "application/json",
        "application/vnd.kubernetes.protobuf",
        "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    ],
)
def test_watchers_of_the_same_view_share_bytes(accept: str) -> None:
    with serve() as running:

        async def open_one() -> Any:
            answer = await running.server.chain.handle(
                Request("GET", MAPS, "watch=true&resourceVersion=1", {"accept": accept}, b"")
            )
            assert isinstance(answer, Stream)
            return answer.chunks

        async def scenario() -> None:
            first, second = await open_one(), await open_one()
            made = json.dumps({"metadata": {"generateName": "shared-"}}).encode()
            for _ in range(3):
                await running.server.chain.handle(Request("POST", MAPS, "", {"content-type": "application/json"}, made))
            chunk = await anext(first)
            assert chunk.count(b"shared-") >= 3
            assert await anext(second) is chunk
            await first.aclose()
            await second.aclose()

        running.call(scenario)
