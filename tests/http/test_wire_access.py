"""Access over the wire: tokens, anonymous requests, impersonation, and public paths."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

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
