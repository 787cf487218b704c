"""Access over the wire: tokens, anonymous requests, impersonation, and public paths."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from apiserver.http.server.webpages import WebPages
from kubedra import ControlPlane
from tests.support.tokens import token_flag
from tests.support.wire import Child, Wire

pytestmark = pytest.mark.integration

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
TOKENS = 'admin-token,admin,1,"system:masters"\nalice-token,alice,2,"devs,ops"\nbob-token,bob,3\n'


@pytest.fixture(scope="module")
def anonymous(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    directory = tmp_path_factory.mktemp("access")
    tokens = token_flag(directory, TOKENS)
    with Child(directory / "data", tokens, "--authorization-mode=Node,RBAC") as child:
        yield child.wire()


@pytest.fixture(scope="module")
def admin(anonymous: Wire) -> Wire:
    return anonymous.user("admin-token")


def test_the_administrator_may_do_everything(admin: Wire) -> None:
    admin.create_config_map("a")
    assert admin.get("/metrics").status == 200


@pytest.mark.parametrize("path", [CLAIMS, "/healthz", "/nope", f"{CLAIMS}?watch=true"])
def test_an_unknown_token_is_refused_everywhere(anonymous: Wire, path: str) -> None:
    answer = anonymous.user("nobody").get(path)
    assert (answer.status, answer.reason, answer.message) == (401, "Unauthorized", "Unauthorized")


@pytest.mark.parametrize("authorization", ["", "Bearer ", "Basic YWRtaW46eA=="])
def test_without_a_token_a_request_is_anonymous(anonymous: Wire, authorization: str) -> None:
    answer = anonymous.get(CLAIMS, Authorization=authorization)
    assert (answer.status, answer.json["details"]) == (403, {"group": "resource.k8s.io", "kind": "resourceclaims"})
    assert (
        answer.message
        == 'resourceclaims.resource.k8s.io is forbidden: User "system:anonymous" cannot list resource "resourceclaims" '
        'in API group "resource.k8s.io" in the namespace "default"'
    )


@pytest.mark.parametrize("path", ["/-/", "/-/info", "/-/nope", "/docs", "/docs/", "/docsx", "/openapi.json"])
@pytest.mark.parametrize("method", ["GET", "POST", "PUT"])
def test_own_paths_show_nothing_before_authentication(anonymous: Wire, method: str, path: str) -> None:
    statuses = [anonymous.user(token).request(method, path).status for token in ("", "nobody", "alice-token")]
    assert statuses == [403, 401, 403]


@pytest.mark.parametrize("path", [CLAIMS, "/-/info"])
def test_a_token_after_two_spaces_is_ignored_with_a_warning(anonymous: Wire, path: str) -> None:
    answer = anonymous.get(path, Authorization="Bearer  admin-token")
    assert answer.status == 403
    if path == CLAIMS:
        text = "the provided Authorization header contains extra space before the bearer token, and is ignored"
        assert text in answer.headers["warning"]


@pytest.mark.parametrize("token", ["admin-token=", "admin-token==", "Admin-token", '"admin-token"'])
def test_a_token_is_compared_exactly(anonymous: Wire, token: str) -> None:
    assert anonymous.user(token).get(CLAIMS).status == 401


def test_what_follows_a_token_and_a_space_is_no_part_of_it(anonymous: Wire) -> None:
    assert anonymous.get(CLAIMS, Authorization=" Bearer admin-token more ").status == 200


def test_everybody_may_ask_for_health_and_version_and_nothing_else(anonymous: Wire) -> None:
    assert [anonymous.get(path).status for path in ("/healthz", "/livez", "/readyz", "/version")] == [200] * 4
    answer = anonymous.get("/apis")
    assert answer.refusal == (403, 'forbidden: User "system:anonymous" cannot get path "/apis"')


def test_authenticated_users_may_use_discovery(anonymous: Wire) -> None:
    alice = anonymous.user("alice-token")
    assert [
        alice.get(path).status for path in ("/api", "/apis", "/api/v1", "/apis/resource.k8s.io/v1", "/version")
    ] == [200] * 5


@pytest.mark.parametrize(
    ("method", "path", "verb", "name"),
    [
        ("GET", f"{CLAIMS}/a", "get", "a"),
        ("GET", CLAIMS, "list", ""),
        ("GET", f"{CLAIMS}?watch=true", "watch", ""),
        ("POST", CLAIMS, "create", ""),
        ("PUT", f"{CLAIMS}/a", "update", "a"),
        ("PATCH", f"{CLAIMS}/a", "patch", "a"),
        ("DELETE", f"{CLAIMS}/a", "delete", "a"),
        ("DELETE", CLAIMS, "deletecollection", ""),
        ("GET", f"{CLAIMS}?fieldSelector=metadata.name%3Da", "list", "a"),
    ],
)
def test_a_refusal_names_user_verb_resource_and_scope(
    anonymous: Wire, method: str, path: str, verb: str, name: str
) -> None:
    answer = anonymous.user("alice-token").request(method, path, {} if method in ("POST", "PUT", "PATCH") else None)
    subject = f'resourceclaims.resource.k8s.io "{name}"' if name else "resourceclaims.resource.k8s.io"
    what = 'resource "resourceclaims" in API group "resource.k8s.io" in the namespace "default"'
    assert answer.refusal == (403, f'{subject} is forbidden: User "alice" cannot {verb} {what}')


def test_a_refusal_comes_before_every_other_error(anonymous: Wire) -> None:
    alice = anonymous.user("alice-token")
    assert alice.get("/apis/nope/v1/foos").message.startswith("foos.nope is forbidden")
    assert alice.get("/nope").message == 'forbidden: User "alice" cannot get path "/nope"'
    assert alice.get(CLAIMS, Accept="text/html").status == 403
    assert alice.request("POST", CLAIMS, b"{", {"Content-Type": "application/json"}).status == 403


def test_a_subresource_is_named_in_a_refusal(anonymous: Wire) -> None:
    answer = anonymous.user("bob-token").put(f"{CLAIMS}/a/status", {})
    assert 'cannot update resource "resourceclaims/status"' in answer.message


def test_the_administrator_may_act_as_another_user_and_others_may_not(anonymous: Wire, admin: Wire) -> None:
    acting = admin.get(CLAIMS, Impersonate_User="alice")
    assert (acting.status, 'User "alice" cannot list' in acting.message) == (403, True)
    assert admin.get(CLAIMS, Impersonate_User="alice", Impersonate_Group="system:masters").status == 200
    assert anonymous.user("alice-token").get(CLAIMS, Impersonate_User="admin").status == 403


def test_impersonation_needs_a_user(admin: Wire) -> None:
    answer = admin.get(CLAIMS, Impersonate_Group="devs")
    assert answer.failure == (400, "BadRequest")
    assert "without impersonating a user" in answer.message


def test_paths_outside_kubernetes_are_for_administrators(anonymous: Wire, admin: Wire) -> None:
    assert anonymous.post("/-/reset", None).status == 403
    assert anonymous.user("alice-token").post("/-/reset", None).status == 403
    assert anonymous.user("nobody").post("/-/reset", None).status == 401
    assert admin.post("/-/reset", None).status == 200


def test_impersonation_holds_for_kubedras_own_paths(anonymous: Wire, admin: Wire) -> None:
    assert admin.get("/-/info").status == 200
    refused = admin.get("/-/info", Impersonate_User="alice")
    assert (refused.status, refused.json["detail"]) == (403, 'User "alice" may not use /-/')
    assert admin.get("/-/info", Impersonate_User="bob", Impersonate_Group="system:masters").status == 200
    alice = anonymous.user("alice-token").get("/-/info", Impersonate_User="bob", Impersonate_Group="system:masters")
    assert alice.status == 403
    assert admin.get("/-/info", Impersonate_Group="g").status == 403, "companions without a user"


@pytest.mark.parametrize(("modes", "code"), [("AlwaysAllow", 401), ("Node,RBAC", 403)])
def test_with_tokens_anonymous_requests_are_refused(tmp_path: Path, modes: str, code: int) -> None:
    flags = [token_flag(tmp_path), f"--authorization-mode={modes}"]
    with ControlPlane(controllers=False, args=flags) as plane:
        assert httpx.get(f"{plane.url}/api/v1/namespaces").status_code == code
        assert httpx.post(f"{plane.url}/-/reset").status_code == code
        with plane.client() as client:
            assert client.list("namespaces")


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
