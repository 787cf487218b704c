"""Access reviews, and tokens of service accounts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from apiserver.authentication.tokens.service_account_keys import KeyPairs, SharedKey, encode
from apiserver.authentication.tokens.service_account_tokens import ISSUER, AccountTokens, TokenError
from tests.support.wire import Wire

REVIEWS = "/apis/authorization.k8s.io/v1"
SELF = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


def ask(wire: Wire, **attributes: str) -> dict[str, Any]:
    answer = wire.create(f"{REVIEWS}/selfsubjectaccessreviews", {"spec": {"resourceAttributes": attributes}})
    return dict(answer["status"])


def test_a_review_names_the_binding_that_allows(alice: Wire, namespace: str, grant: Callable[..., None]) -> None:
    asked = {"verb": "get", "resource": "pods", "namespace": namespace}
    assert ask(alice, **asked) == {"allowed": False}
    grant({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]})
    reason = f'RBAC: allowed by RoleBinding "r/{namespace}" of Role "r" to User "alice"'
    assert ask(alice, **asked) == {"allowed": True, "reason": reason}


def test_a_review_about_another_user_needs_the_right_to_create_it(alice: Wire, root: Wire) -> None:
    spec = {"user": "x", "groups": ["system:masters"], "resourceAttributes": {"verb": "*", "resource": "*"}}
    assert alice.post(f"{REVIEWS}/subjectaccessreviews", {"spec": spec}).status == 403
    assert root.post(f"{REVIEWS}/subjectaccessreviews", {"spec": spec}).json["status"] == {"allowed": True}


def test_a_review_with_a_field_selector_is_answered_as_the_request_would_be(root: Wire) -> None:
    def allowed(**selector: Any) -> dict[str, Any]:
        asked = {"verb": "list", "group": "resource.k8s.io", "resource": "resourceslices", "fieldSelector": selector}
        spec = {"user": "system:node:w1", "groups": ["system:nodes"], "resourceAttributes": asked}
        return dict(root.post(f"{REVIEWS}/subjectaccessreviews", {"spec": spec}).json["status"])

    assert allowed(rawSelector="spec.nodeName=w1") == {"allowed": True}
    assert allowed(requirements=[{"key": "spec.nodeName", "operator": "In", "values": ["w1"]}]) == {"allowed": True}
    found = allowed(requirements=[{"key": "spec.nodeName", "operator": "Near", "values": ["w1"]}])
    assert not found["allowed"]
    assert found["evaluationError"] == "spec.resourceAttributes.fieldSelector ignored due to parse error"


def test_a_review_of_rules_lists_what_bindings_give(alice: Wire, namespace: str, grant: Callable[..., None]) -> None:
    rule = {"verbs": ["get"], "apiGroups": ["apps"], "resources": ["deployments"], "resourceNames": ["d"]}
    grant(rule)
    answer = alice.post(f"{REVIEWS}/selfsubjectrulesreviews", {"spec": {"namespace": namespace}}).json
    assert rule in answer["status"]["resourceRules"]
    assert {"verbs": ["get"], "nonResourceURLs": ["/healthz", "/livez", "/readyz", "/version", "/version/"]} in answer[
        "status"
    ]["nonResourceRules"]
    assert (answer["status"]["incomplete"], answer["spec"]) == (False, {})


def test_a_review_of_a_nodes_rules_is_incomplete(node: Wire) -> None:
    status = node.post(f"{REVIEWS}/selfsubjectrulesreviews", {"spec": {"namespace": "default"}}).json["status"]
    assert status["incomplete"]
    assert status["evaluationError"] == "node authorizer does not support user rule resolution"


@pytest.fixture
def account(root: Wire, namespace: str) -> str:
    root.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "s"}})
    return f"/api/v1/namespaces/{namespace}/serviceaccounts/s"


def token_of(wire: Wire, account: str, **spec: Any) -> str:
    answer = wire.create(f"{account}/token", {"spec": spec})
    return str(answer["status"]["token"])


def test_a_token_makes_its_bearer_the_service_account(root: Wire, account: str, namespace: str) -> None:
    info = root.user(token_of(root, account)).post(SELF, {}).json["status"]["userInfo"]
    assert info["username"] == f"system:serviceaccount:{namespace}:s"
    assert info["groups"] == ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]


def test_a_token_of_a_pod_names_pod_and_node_and_ends_with_the_pod(root: Wire, account: str, namespace: str) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    spec = {"nodeName": "w9", "serviceAccountName": "s", "containers": [{"name": "c", "image": "i"}]}
    root.create(pods, {"metadata": {"name": "p"}, "spec": spec})
    bearer = root.user(token_of(root, account, boundObjectRef={"apiVersion": "v1", "kind": "Pod", "name": "p"}))
    extra = bearer.post(SELF, {}).json["status"]["userInfo"]["extra"]
    assert extra["authentication.kubernetes.io/node-name"] == ["w9"]
    assert extra["authentication.kubernetes.io/pod-name"] == ["p"]
    assert root.delete(f"{pods}/p?gracePeriodSeconds=0").status == 200
    assert bearer.post(SELF, {}).status == 401


def test_a_token_ends_with_its_account_even_if_one_of_the_same_name_comes(root: Wire, account: str) -> None:
    bearer = root.user(token_of(root, account))
    assert root.delete(account).status == 200
    assert bearer.post(SELF, {}).status == 401
    root.create(account.removesuffix("/s"), {"metadata": {"name": "s"}})
    assert bearer.post(SELF, {}).status == 401


def test_a_token_for_another_audience_is_refused_but_a_review_names_its_user(
    root: Wire, account: str, namespace: str
) -> None:
    token = token_of(root, account, audiences=["vault"])
    assert root.user(token).post(SELF, {}).status == 401

    def review(*audiences: str) -> dict[str, Any]:
        body = {"spec": {"token": token, "audiences": list(audiences)}}
        return dict(root.post("/apis/authentication.k8s.io/v1/tokenreviews", body).json["status"])

    found = review("vault", "x")
    assert found["authenticated"]
    assert found["audiences"] == ["vault"]
    assert found["user"]["username"] == f"system:serviceaccount:{namespace}:s"
    wrong = f'token audiences ["vault"] is invalid for the target audiences ["{ISSUER}"]'
    assert review()["error"] == f"[invalid bearer token, {wrong}]"


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        (
            {"kind": "ConfigMap", "apiVersion": "v1", "name": "c"},
            "cannot bind token to object of type /v1, Kind=ConfigMap",
        ),
        ({"kind": "Pod", "apiVersion": "v1", "name": "none"}, 'pods "none" not found'),
    ],
)
def test_a_token_is_bound_to_pods_nodes_and_secrets_that_are_there(
    root: Wire, account: str, reference: dict[str, str], message: str
) -> None:
    assert root.post(f"{account}/token", {"spec": {"boundObjectRef": reference}}).message == message


class Clock:
    now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


async def test_a_token_is_valid_only_in_its_time_and_under_its_key() -> None:
    clock = Clock()
    account = {"metadata": {"name": "s", "uid": "u"}}
    tokens, others = (AccountTokens(lambda *_: account, clock, SharedKey(key)) for key in (b"key", b"other"))
    begin = int(clock.now.timestamp())
    kubernetes = {"namespace": "n", "serviceaccount": {"name": "s", "uid": "u"}}
    claims = {"aud": [ISSUER], "exp": begin + 600, "nbf": begin, "jti": "j", "kubernetes.io": kubernetes}
    token = await tokens.issue(claims)
    assert await tokens.identify(token, (ISSUER,)) is not None
    assert await others.identify(token, (ISSUER,)) is None
    head, body, signature = token.split(".")
    altered = (f"{head}.{body}.{signature[:-2]}AA", f"{head}.{body[:-4]}AAAA.{signature}", f"{head}.{body}.")
    for forged in (*altered, "a.b.c", "...", "a.b"):
        assert await tokens.identify(forged, (ISSUER,)) is None
    pair = ec.generate_private_key(ec.SECP256R1())
    others.keys = KeyPairs(pair, [pair])
    odd = encode(b'{"alg":"ES256","kid":[]}')
    assert await others.identify(f"{odd}.{body}.{signature}", (ISSUER,)) is None, "whatever the id of its key is"
    clock.now += timedelta(hours=1)
    with pytest.raises(TokenError, match="has expired"):
        await tokens.identify(token, (ISSUER,))
