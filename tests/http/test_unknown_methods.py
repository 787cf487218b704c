"""HTTP methods that no library knows."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.support.server import Running, serve
from tests.support.tokens import token_flag
from tests.support.wire import Wire

pytestmark = pytest.mark.integration

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


def test_the_server_goes_on(wire: Wire) -> None:
    assert wire.request("FOO", "/api/v1/pods").status == 405
    assert wire.get("/api/v1/pods").status == 200
