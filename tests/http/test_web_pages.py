"""Web pages in a browser on the same machine cannot use a server with open access."""

from __future__ import annotations

import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from apiserver.http.server.webpages import WebPages
from tests.support.tokens import token_flag
from tests.support.wire import Child, Wire

pytestmark = pytest.mark.integration

MAPS = "/api/v1/namespaces/default/configmaps"
BODY = '{"metadata":{"generateName":"a-"}}'
BROWSER = {"User-Agent": "Mozilla/5.0 (X11; Linux x86_64)"}
JSON = {"Content-Type": "application/json"}


def status(wire: Wire, method: str, path: str, body: str = "", **headers: str) -> int:
    """Return the status of a request with only these header fields and its length."""
    place = urlsplit(wire.url)
    assert place.hostname is not None
    fields = {"Host": place.netloc, "Content-Length": str(len(body)), "Connection": "close"}
    fields |= {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    with socket.create_connection((place.hostname, place.port)) as connection:
        connection.sendall(f"{method} {path} HTTP/1.1\r\n{head}\r\n{body}".encode())
        return int(connection.makefile("rb").readline().split()[1])


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "192.0.2.1", "[2001:db8::1]"]
)
@pytest.mark.parametrize("path", [MAPS, "/-/info", "/docs", "/openapi.json", "/version"])
def test_a_name_that_was_bound_to_this_machine_reads_nothing(wire: Wire, host: str, path: str) -> None:
    assert status(wire, "GET", path, Host=host) == 403


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:80", "api.localhost", "127.9.9.9:1", "[::1]:80", "apiserver:6443", "x"]
)
def test_this_machines_names_and_names_of_one_label_are_served(wire: Wire, host: str) -> None:
    assert status(wire, "GET", MAPS, Host=host) == 200


@pytest.mark.parametrize("path", ["/-/reset", MAPS])
@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://printer"},
        {"Origin": "http://localhost"},
        {"Origin": "http://127.0.0.1:3000"},
        {"Origin": "chrome-extension://abcdefgh"},
        {"Origin": "http://[::1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "Cross-Site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
        {"Content-Type": "multipart/form-data; boundary=x"},
        {},
    ],
    ids=lambda headers: "-".join(headers.values()) or "no content type",
)
def test_a_page_elsewhere_changes_nothing(wire: Wire, path: str, headers: dict[str, str]) -> None:
    fields = {"Content-Type": "application/json"} if {"Origin", "Sec-Fetch-Site"} & headers.keys() else {}
    assert status(wire, "POST", path, BODY, **{**BROWSER, **fields, **headers}) == 403
    assert status(wire, "GET", MAPS, **{**BROWSER, **headers}) == 200


def test_the_servers_own_pages_and_programs_change_what_they_like(wire: Wire) -> None:
    own = wire.url.rstrip("/")
    assert status(wire, "POST", MAPS, BODY, **BROWSER, **JSON, Origin=own) == 201
    assert status(wire, "POST", MAPS, BODY, **BROWSER, **JSON, Host="LOCALHOST:80", Origin="http://localhost") == 201
    for site in ("same-origin", "Same-Origin", "none"):
        assert status(wire, "POST", MAPS, BODY, **BROWSER, **JSON, **{"Sec-Fetch-Site": site}) == 201
    assert status(wire, "POST", MAPS, BODY) == 201
    assert status(wire, "POST", "/-/reset", User_Agent="curl/8.0") == 200


def test_one_foreign_origin_of_two_is_enough(wire: Wire) -> None:
    own = wire.url.rstrip("/")
    for first, second in ((own, "https://evil.example"), ("https://evil.example", own)):
        twice = {"Origin": f"{first}\r\nOrigin: {second}"}
        assert status(wire, "POST", MAPS, BODY, **JSON, **twice) == 403


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "http://localhost:3000"}, 403),
        ({"Origin": "http://printer"}, 403),
        ({"Sec-Fetch-Site": "none"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 404),
        ({}, 404),
    ],
)
def test_an_upgrade_is_a_change(wire: Wire, fields: dict[str, str], code: int) -> None:
    upgrade = {"Upgrade": "websocket", "Connection": "Upgrade", **fields}
    assert status(wire, "GET", f"{MAPS}/a", **upgrade) == code


def test_hosts_can_be_added(tmp_path: Path) -> None:
    with Child(tmp_path, "--accept-hosts=api.example,two.example") as child:
        wire = child.wire()
        assert status(wire, "GET", MAPS, Host="api.example:8001") == 200
        assert status(wire, "POST", MAPS, BODY, **JSON, Origin="https://two.example") == 201
        assert status(wire, "GET", MAPS, Host="three.example") == 403
    with Child(tmp_path, "--accept-hosts=*") as child:
        assert status(child.wire(), "GET", MAPS, Host="three.example") == 200


def test_the_page_of_routes_needs_nothing_from_elsewhere(wire: Wire) -> None:
    answer = wire.get("/docs")
    assert answer.status == 200
    assert "<script" not in answer.text
    assert "src=" not in answer.text
    assert "//" not in answer.text
    for path in ("/-/reset", "/-/faults", "/-/requests"):
        assert path in answer.text
    assert wire.get("/openapi.json").json["paths"]["/-/reset"]


def test_the_page_of_routes_needs_the_rights_to_them(tmp_path: Path) -> None:
    with Child(tmp_path / "data", token_flag(tmp_path), "--authorization-mode=RBAC") as child:
        for path in ("/docs", "/openapi.json"):
            assert Wire(child.url, "").get(path).status in (401, 403)
            assert Wire(child.url, "root").get(path).status == 200


def test_long_names_of_this_machine_are_not_remembered() -> None:
    pages = WebPages("127.0.0.1")
    assert pages._is_ours("x" * 1_000_000)
    assert pages._is_ours("localhost:80")
    assert pages._known == {"localhost:80"}
