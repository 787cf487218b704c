"""Arbitrary bytes cause an error of the client or a success, never a server error and never silence."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.server import Running, serve
from tests.support.tokens import token_flag
from tests.support.wire import Child, Wire

pytestmark = pytest.mark.integration

MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture(scope="module")
def child(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Child]:
    with Child(tmp_path_factory.mktemp("malformed"), "--runtime-config=api/all=true") as child:
        yield child
        assert "Traceback" not in child.log()


@pytest.fixture(scope="module")
def wire(child: Child) -> Wire:
    return child.wire()


def exchange(wire: Wire, data: bytes) -> tuple[int, bytes]:
    """Send raw bytes until the server closes; return the status and the whole answer."""
    host, _, port = wire.url.removeprefix("http://").rpartition(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(data)
        answer = b""
        while part := connection.recv(65536):
            answer += part
    return int(answer.split(b" ", 2)[1]), answer


def ask(
    wire: Wire, method: str, target: bytes, body: bytes = b"", content_type: bytes = b"application/json"
) -> tuple[int, bytes]:
    head = b"%b %b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" % (method.encode(), target)
    if body:
        head += b"Content-Type: %b\r\nContent-Length: %d\r\n" % (content_type, len(body))
    return exchange(wire, head + b"\r\n" + body)


WORDS = "api apis v1 resource.k8s.io namespaces default pods resourceclaims watch proxy status log a %2F %00 %ff %ZZ .."
PARAMETERS = (
    "watch limit continue resourceVersion resourceVersionMatch labelSelector fieldSelector timeoutSeconds pretty dryRun"
    " fieldManager includeObject"
)
VALUES = ["", "0", "1", "-1", "abc", "true", "NotOlderThan", "All", "a=b", "a in (b", "%00", "%ff", "9" * 30]
FIELDS = ["name", "labels", "annotations", "finalizers", "ownerReferences", "managedFields", "x"]

segments = st.one_of(st.sampled_from(["", *WORDS.split()]), st.text(alphabet="abcxyz019-._~%:@!$&'()*+,;=", max_size=6))
paths = st.lists(segments, max_size=8).map(lambda parts: ("/" + "/".join(parts)).encode())
values = st.one_of(st.sampled_from(VALUES), st.text(alphabet="a=!(),;%&", max_size=5))
pairs = st.lists(st.tuples(st.sampled_from(PARAMETERS.split()), values), max_size=3)
queries = pairs.map(
    lambda found: (
        "&".join(f"{name}={value}" for name, value in [*found, ("timeoutSeconds", "1")]).replace(" ", "+").encode()
    )
)
media_types = st.sampled_from(
    ["json", "yaml", "merge-patch+json", "json-patch+json", "strategic-merge-patch+json"]
).map("application/{}".format)
bodies = st.one_of(
    st.binary(min_size=1, max_size=60),
    st.text(alphabet='{}[]:,"-& *!#|>\n\t\\u00dnamel1', min_size=1, max_size=40).map(str.encode),
)
json_values = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=5)
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(FIELDS), inner, max_size=3)),
    max_leaves=8,
)
objects = st.fixed_dictionaries(
    {"metadata": json_values}, optional={"data": json_values, "spec": json_values, "status": json_values}
)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(["GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD"]), paths, queries)
def test_no_path_and_no_query_makes_the_server_fail(wire: Wire, method: str, path: bytes, query: bytes) -> None:
    # A watch would be open for a second, and a list waits for a version to come.
    if b"watch" in path + query or b"resourceVersion=" in query:
        query = b"limit=1"
    if path.startswith(b"/-/"):
        return
    status, answer = ask(wire, method, path + b"?" + query)
    assert status < 500 or b'"reason":"NotImplemented"' in answer, answer


@settings(max_examples=150, deadline=None)
@given(media_types, bodies)
def test_no_body_makes_the_server_fail(wire: Wire, content_type: str, body: bytes) -> None:
    method, target = ("PATCH", f"{MAPS}/a") if "patch" in content_type else ("POST", MAPS)
    if method == "PATCH":
        wire.post(MAPS, {"metadata": {"name": "a"}})
    status, answer = ask(wire, method, target.encode(), body, content_type.encode())
    assert status < 500, answer


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(["configmaps", "pods", "resourceclaims"]), objects)
def test_no_value_in_the_wrong_place_makes_the_server_fail(wire: Wire, plural: str, obj: object) -> None:
    root = "/apis/resource.k8s.io/v1" if plural == "resourceclaims" else "/api/v1"
    status, answer = ask(wire, "POST", f"{root}/namespaces/default/{plural}".encode(), json.dumps(obj).encode())
    assert status < 500, answer


@pytest.mark.parametrize(
    "data",
    [
        b"GET * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        b"GET http://x/readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        b"GET /readyz HTTP/1.0\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /readyz HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \xff\xfe\r\nConnection: close\r\n\r\n",
        b"POST "
        + MAPS.encode()
        + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
    ],
    ids=["asterisk", "absolute", "http 1.0", "tls", "latin-1", "bad chunk"],
)
def test_bytes_that_are_barely_a_request_get_an_answer(wire: Wire, data: bytes) -> None:
    status, answer = exchange(wire, data)
    assert status < 500, answer


@pytest.mark.parametrize(
    ("head", "expected", "text"),
    [
        (b"GET  /readyz HTTP/1.1\r\nHost: x", 400, b"400 Bad Request"),
        (b"GET /readyz  HTTP/1.1\r\nHost: x", 400, b"400 Bad Request"),
        (b"GET /readyz HTTP/1.1\r\nA: b", 400, b"400 Bad Request: missing required Host header"),
        (b"GET /readyz HTTP/1.1\r\nHost: x\r\nHost: x", 400, b"400 Bad Request"),
        (b"GET /readyz HTTP/1.1\r\nHost: a/b", 400, b"400 Bad Request: malformed Host header"),
        (b"GET /readyz HTTP/1.1\r\nHost: \xff", 400, b"400 Bad Request: malformed Host header"),
        (b"GET /readyz HTTP/2.0\r\nHost: x", 505, b"505 HTTP Version Not Supported: unsupported protocol version"),
        (b"GET /readyz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked", 501, b"Unsupported transfer encoding"),
        (b"GET /readyz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: identity", 501, b"Unsupported transfer encoding"),
        (b"GET /readyz HTTP/1.1\r\nHost: x\r\nExpect: more", 417, b""),
    ],
)
def test_what_gos_server_refuses_is_refused_and_closes_the_connection(
    wire: Wire, head: bytes, expected: int, text: bytes
) -> None:
    following = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
    for data in (head, following + head):
        _, answer = exchange(wire, data + b"\r\n\r\n" + following)
        last = answer[answer.rindex(b"HTTP/1.1 ") :]
        assert (int(last.split()[1]), last.partition(b"\r\n\r\n")[2]) == (expected, text)


@pytest.mark.parametrize("size", [1, 5])
def test_a_request_line_is_checked_in_whatever_pieces_it_comes(wire: Wire, size: int) -> None:
    for line, expected in ((b"GET /readyz HTTP/1.1", 200), (b"GET /readyz  HTTP/1.1", 400)):
        data = line + b"\r\nHost: x\r\nConnection: close\r\n\r\n"
        host, _, port = wire.url.removeprefix("http://").rpartition(":")
        with socket.create_connection((host, int(port))) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
            for start in range(0, len(data), size):
                connection.sendall(data[start : start + size])
            assert int(connection.recv(65536).split()[1]) == expected


def test_http_1_0_has_no_chunks(wire: Wire) -> None:
    body = b'{"metadata":{"name":"in-old-chunks"}}'
    head = b"POST %b HTTP/1.0\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" % MAPS.encode()
    status, _ = exchange(wire, head + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
    assert status == 400
    assert wire.get(f"{MAPS}/in-old-chunks").status == 404


def test_a_client_that_goes_in_the_middle_of_its_body_writes_nothing(wire: Wire) -> None:
    host, _, port = wire.url.removeprefix("http://").rpartition(":")
    body = b'{"metadata":{"name":"half"}}'
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(
            b"POST %b HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (MAPS.encode(), len(body) + 1) + body
        )
    assert wire.get("/readyz").status == 200
    assert wire.get(f"{MAPS}/half").status == 404


def test_a_line_break_in_a_field_name_stays_out_of_the_headers(wire: Wire) -> None:
    made = wire.post(MAPS, {"metadata": {"name": "injected"}, "a\r\nX-Injected: 1": 1})
    assert made.status == 201
    assert "x-injected" not in made.headers
    assert "X-Injected" in made.headers["warning"]


PATHS = ["/api/v1/pods", "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/a", "/version"]


@pytest.mark.parametrize("path", PATHS)
def test_an_unknown_method_is_not_allowed(wire: Wire, path: str) -> None:
    answer = wire.request("FOO", path)
    assert (answer.status, answer.reason, answer.json["details"]) == (405, "MethodNotAllowed", {})


@pytest.mark.parametrize("path", PATHS)
def test_authentication_and_authorization_come_first(tmp_path: Path, path: str) -> None:
    tokens = token_flag(tmp_path, 'all,admin,1,"system:masters"\nnone,bob,2\n')
    with serve(tokens, "--authorization-mode=RBAC") as running:
        assert running.wire("wrong").request("FOO", path).status == 401
        refused = running.wire("none").request("FOO", path)
        assert refused.status == 403
        verb = "" if path.count("/") > 2 else "foo"  # there is no such verb of a resource
        assert f'User "bob" cannot {verb} ' in refused.message
        assert running.wire("all").request("FOO", path).status == 405


def test_its_body_is_read_like_any_other(running: Running) -> None:
    host, _, port = running.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(b"FOO /api/v1/pods HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nabcd")
        connection.sendall(b"GET /version HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        received = b""
        while data := connection.recv(65536):
            received += data
    assert [received.count(line) for line in (b"HTTP/1.1 405", b"HTTP/1.1 200")] == [1, 1]
