"""Tokens of Secrets at the server: the right to have them signed, their validation, and the record of their use."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from apiserver.api.objects import Json
from tests.support.patience import wait_until
from tests.support.server import Running, serve
from tests.support.tokens import token_flag
from tests.support.wire import Child, Wire

pytestmark = pytest.mark.integration

SIGN = "/openid/v1/secret-tokens"
ACCOUNTS, SECRETS = "/api/v1/namespaces/default/serviceaccounts", "/api/v1/namespaces/default/secrets"
SELF, REVIEW = (f"/apis/authentication.k8s.io/v1/{kind}reviews" for kind in ("selfsubject", "token"))
NAME, UID = "kubernetes.io/service-account.name", "kubernetes.io/service-account.uid"
TYPE = "kubernetes.io/service-account-token"
TRACKING = "/api/v1/namespaces/kube-system/configmaps/kube-apiserver-legacy-service-account-token-tracking"


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    tokens = 'root,root,1,"system:masters"\nalice,alice,2,\n'
    with serve(token_flag(tmp_path, tokens), "--authorization-mode=RBAC") as running:
        yield running


def make_token(root: Wire, **account: Any) -> str:
    """Create an account and a Secret, as the controller fills it; return the token."""
    root.create(ACCOUNTS, {"metadata": {"name": "a"}, **account})
    root.create(SECRETS, {"metadata": {"name": "s", "annotations": {NAME: "a"}}, "type": TYPE})
    token = str(root.post(SIGN, {"namespace": "default", "secret": "s"}).json["token"])
    assert root.patch(f"{SECRETS}/s", {"data": {"token": base64.b64encode(token.encode()).decode()}}).status == 200
    return token


def test_only_administrators_have_tokens_signed(running: Running) -> None:
    root = running.wire("root")
    make_token(root)
    body = {"namespace": "default", "secret": "s"}
    assert running.wire("alice").post(SIGN, body).status == 403
    assert running.wire().post(SIGN, body).status == 403
    assert root.get(SIGN).status == 405
    assert root.post(SIGN, {"namespace": "default"}).failure == (400, "BadRequest")


def test_only_the_tokens_of_such_secrets_are_signed(running: Running) -> None:
    root = running.wire("root")
    root.create(ACCOUNTS, {"metadata": {"name": "a"}})
    root.create(SECRETS, {"metadata": {"name": "opaque", "annotations": {NAME: "a"}}})
    root.create(SECRETS, {"metadata": {"name": "of-b", "annotations": {NAME: "b"}}, "type": TYPE})
    root.create(SECRETS, {"metadata": {"name": "older", "annotations": {NAME: "a", UID: "older"}}, "type": TYPE})
    for name in ("opaque", "of-b", "older", "missing"):
        assert root.post(SIGN, {"namespace": "default", "secret": name}).status == 404


def test_a_token_is_for_the_secrets_account_only(running: Running) -> None:
    root = running.wire("root")
    token = make_token(root)

    def error() -> str:
        found = str(root.post(REVIEW, {"spec": {"token": token}}).json["status"].get("error", ""))
        return found.removeprefix("[invalid bearer token, ").removesuffix("]")

    assert error() == ""
    uid = root.get(f"{ACCOUNTS}/a").json["metadata"]["uid"]
    root.delete(f"{ACCOUNTS}/a")
    assert error() == 'serviceaccounts "a" not found'
    again = root.create(ACCOUNTS, {"metadata": {"name": "a", "finalizers": ["example.com/f"]}})["metadata"]["uid"]
    assert error() == f"ServiceAccount UID ({again}) does not match claim ({uid})"
    root.delete(f"{ACCOUNTS}/a")
    assert error() == "ServiceAccount default/a has been deleted"
    root.patch(f"{SECRETS}/s", {"data": {"token": "eA=="}})
    assert error() == "Token does not match server's copy"


def test_the_use_of_a_generated_secret_is_warned_of_and_counted(running: Running) -> None:
    root = running.wire("root")
    token = make_token(root, secrets=[{"name": "s"}])
    user = running.wire(token)
    answer = user.post(SELF, {})
    warning = "Use tokens from the TokenRequest API or manually created secret-based tokens instead of auto-generated"
    assert answer.status == 201
    assert warning in answer.headers["warning"]
    root.patch(f"{ACCOUNTS}/a", {"secrets": None})
    assert "warning" not in user.post(SELF, {}).headers
    assert "warning" not in root.post(REVIEW, {"spec": {"token": token}}).headers
    root.patch(f"{SECRETS}/s", {"metadata": {"labels": {"kubernetes.io/legacy-token-invalid-since": "2026-01-01"}}})
    assert user.post(SELF, {}).status == 401
    metrics = root.get("/metrics").text
    for name, count in (
        ("legacy_tokens", 4),
        ("legacy_auto_token_uses", 1),
        ("legacy_manual_token_uses", 2),
        ("invalid_legacy_auto_token_uses", 1),
    ):
        assert f"\nserviceaccount_{name}_total {count}\n" in metrics


def test_the_audit_log_has_the_use_of_tokens(tmp_path: Path) -> None:
    policy, log = tmp_path / "policy.yaml", tmp_path / "audit.log"
    policy.write_text("{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: Metadata}]}")
    audit = (f"--audit-policy-file={policy}", f"--audit-log-path={log}")
    closed = (
        token_flag(tmp_path),
        "--authorization-mode=RBAC",
        "--tls",
        "--controllers=serviceaccount-token-controller",
    )
    with Child(tmp_path / "data", *closed, *audit) as child:
        authority = (tmp_path / "data/tls.crt").read_text()
        root = child.wire("root", ca=authority)
        root.create(ACCOUNTS, {"metadata": {"name": "a"}})
        root.create(SECRETS, {"metadata": {"name": "s", "annotations": {NAME: "a"}}, "type": TYPE})
        wait_until(lambda: "token" in (root.get(f"{SECRETS}/s").json.get("data") or {}), "the controller fills it")
        data = {key: base64.b64decode(value).decode() for key, value in root.get(f"{SECRETS}/s").json["data"].items()}
        assert (data["ca.crt"], data["namespace"]) == (authority, "default")
        user = child.wire(data["token"], ca=authority)
        assert user.post(SELF, {}).json["status"]["userInfo"]["username"] == "system:serviceaccount:default:a"
        root.patch(f"{SECRETS}/s", {"metadata": {"labels": {"kubernetes.io/legacy-token-invalid-since": "2026-01-01"}}})
        assert user.get("/api/v1/pods").status == 401

        def find_events() -> list[Json]:
            lines = map(json.loads, log.read_text().splitlines())
            return [event for event in lines if "authentication.k8s.io/legacy-token" in event.get("annotations", {})]

        wait_until(lambda: find_events()[-1]["requestURI"] == "/api/v1/pods", "the events are written")
    events, prefix = find_events(), "authentication.k8s.io/legacy-token"
    subject = {prefix: "system:serviceaccount:default:a"}
    assert [event["stage"] for event in events] == ["RequestReceived", "ResponseComplete", "ResponseStarted"]
    assert events[0]["annotations"] == subject | {f"{prefix}-manual-secret": "s"}
    assert events[1]["annotations"].items() >= (subject | {f"{prefix}-manual-secret": "s"}).items()
    assert events[2]["annotations"] == subject | {f"{prefix}-invalidated": "s/default"}


def test_the_begin_of_the_tracking_is_restored(tmp_path: Path) -> None:
    flags = ("--storage=sqlite", f"--data-dir={tmp_path}")
    with serve(*flags) as running:
        day = running.wire().get(TRACKING).json["data"]["since"]
    with serve(*flags) as running:
        wire = running.wire()
        assert wire.delete(TRACKING).status == 200
        wait_until(lambda: wire.get(TRACKING).status == 200, "it is there again")
        for wrong in ({"since": "soon"}, {"since": None}):
            assert wire.patch(TRACKING, {"data": wrong}).status == 200
            wait_until(lambda: (wire.get(TRACKING).json.get("data") or {}).get("since", "") >= day, "the day is back")
