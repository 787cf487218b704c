"""Tokens of other issuers: OpenID Connect providers, webhooks, bootstrap secrets."""

from __future__ import annotations

import base64
import hashlib
import http.server
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from apiserver.api.features.gates import Features
from apiserver.api.helpers.config_files import ConfigurationError
from apiserver.api.objects import Json
from apiserver.authentication.oidc.configuration import read_again, read_authenticators
from apiserver.authentication.tokens.service_account_keys import encode
from apiserver.options.flags import SettingsError
from apiserver.options.settings import read
from apiserver.runtime.offload import LONG
from tests.conformance.webhook import _certificate
from tests.support.patience import wait_until
from tests.support.reviewers import decider
from tests.support.server import HeldTime, serve
from tests.support.tokens import token_flag
from tests.support.wire import Wire

pytestmark = pytest.mark.integration

SELF = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
VERSION = "apiserver.config.k8s.io/v1"


class Issuer:
    """An OpenID Connect provider on loopback. `fetched` lists the requested paths."""

    def __init__(self) -> None:
        certificate, context = _certificate(())
        self.authority = certificate.decode()
        self.keys: dict[str, Any] = {"k": rsa.generate_private_key(65537, 2048)}
        self.fetched: list[str] = []
        #: Headers that the keys come with, and what their answer waits for.
        self.headers: dict[str, str] = {}
        self.open = threading.Event()
        self.open.set()
        issuer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_: Any) -> None:
                """Log nothing."""

            def do_GET(self) -> None:
                issuer.fetched.append(self.path)
                issuer.open.wait(30)
                body = json.dumps(issuer.document() if self.path.startswith("/.well") else issuer.published()).encode()
                self.send_response(200)
                for name, value in {"Content-Length": str(len(body)), **issuer.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self.url = f"https://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def document(self) -> Json:
        return {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}

    def published(self) -> Json:
        return {"keys": [public_jwk(name, key.public_key()) for name, key in self.keys.items()]}

    def token(self, key: str = "k", **claims: Any) -> str:
        """Return a token for the audience `us` that is valid for an hour."""
        algorithm = "RS256" if isinstance(self.keys[key], rsa.RSAPrivateKey) else "ES256"
        whole = {"iss": self.url, "aud": "us", "sub": "jane", "exp": time.time() + 3600, **claims}
        parts = ({"alg": algorithm, "kid": key}, whole)
        signed = ".".join(encode(json.dumps(part).encode()) for part in parts).encode()
        if algorithm == "RS256":
            made = self.keys[key].sign(signed, padding.PKCS1v15(), hashes.SHA256())
        else:
            pair = decode_dss_signature(self.keys[key].sign(signed, ec.ECDSA(hashes.SHA256())))
            made = b"".join(number.to_bytes(32, "big") for number in pair)
        return f"{signed.decode()}.{encode(made)}"


def public_jwk(name: str, key: Any) -> Json:
    def text(number: int) -> str:
        return encode(number.to_bytes((number.bit_length() + 7) // 8, "big"))

    numbers = key.public_numbers()
    if isinstance(key, rsa.RSAPublicKey):
        return {"kid": name, "kty": "RSA", "use": "sig", "n": text(numbers.n), "e": text(numbers.e)}
    return {"kid": name, "kty": "EC", "crv": "P-256", "x": text(numbers.x), "y": text(numbers.y)}


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    found = Issuer()
    yield found
    found.close()


def flags(tmp_path: Path, *more: str) -> tuple[str, ...]:
    return (token_flag(tmp_path), "--authorization-mode=RBAC", *more)


def authentication_flags(tmp_path: Path, issuer: Issuer, **said: Any) -> tuple[str, ...]:
    where = {"url": issuer.url, "audiences": ["us"], "certificateAuthority": issuer.authority}
    jwt = {"issuer": where, "claimMappings": {"username": {"claim": "sub", "prefix": "oidc:"}}, **said}
    (tmp_path / "authn").write_text(
        json.dumps({"apiVersion": VERSION, "kind": "AuthenticationConfiguration", "jwt": [jwt]})
    )
    return flags(tmp_path, f"--authentication-config={tmp_path / 'authn'}")


def user_info(wire: Wire) -> Json:
    answer = wire.post(SELF, {})
    return dict(answer.json["status"]["userInfo"]) if answer.status == 201 else {"status": answer.status}


def error_of(root: Wire, token: str) -> str:
    """Return the error of a review, without that of the first authenticator."""
    found = str(root.post(REVIEWS, {"spec": {"token": token}}).json["status"].get("error", ""))
    first = "[invalid bearer token, "
    return found.removeprefix(first).removesuffix("]") if found.startswith(first) else found


def test_claims_make_a_user(tmp_path: Path, issuer: Issuer) -> None:
    mappings = {
        "username": {"expression": "'oidc:' + claims.sub"},
        "groups": {"expression": "claims.roles.split(',')"},
        "uid": {"claim": "id"},
        "extra": [{"key": "example.com/team", "valueExpression": "claims.team.name"}],
    }
    rules = [{"expression": "claims.exp > 0"}, {"claim": "hd", "requiredValue": "example.com"}]
    users = [{"expression": "!user.username.startsWith('oidc:system')", "message": "no system users"}]
    given = {"claimMappings": mappings, "claimValidationRules": rules, "userValidationRules": users}
    with serve(*authentication_flags(tmp_path, issuer, **given)) as running:
        root = running.wire("root")
        claims: Json = {"roles": "a,b", "id": "7", "team": {"name": "infra"}, "hd": "example.com", "jti": "j"}
        assert user_info(running.wire(issuer.token(**claims))) == {
            "username": "oidc:jane", "uid": "7", "groups": ["a", "b", "system:authenticated"],
            "extra": {"authentication.kubernetes.io/credential-id": ["JTI=j"], "example.com/team": ["infra"]},
        }  # fmt: skip
        wrong = {**claims, "hd": "other"}
        assert error_of(root, issuer.token(**wrong)) == (
            "oidc: required claim hd value does not match. Got = other, want = example.com"
        )
        assert error_of(root, issuer.token(**{**claims, "sub": "system:x"})) == (
            "oidc: error evaluating user info validation rule: validation expression"
            " '!user.username.startsWith('oidc:system')' failed: no system users"
        )
        assert error_of(root, issuer.token(sub="j")).startswith("oidc: error evaluating group claim expression: ")
        assert user_info(running.wire(issuer.token(**wrong))) == {"status": 401}


def test_a_token_has_to_be_signed_in_time_and_for_this_server(tmp_path: Path, issuer: Issuer) -> None:
    with serve(*authentication_flags(tmp_path, issuer)) as running:
        root = running.wire("root")
        good = issuer.token()
        head, body, signature = good.split(".")
        assert user_info(running.wire(good))["username"] == "oidc:jane"
        start = "oidc: verify token: "
        assert error_of(root, f"{head}.{body}.{signature[:-8]}AAAAAAAA").startswith(
            f"{start}failed to verify signature"
        )
        assert error_of(root, issuer.token(exp=time.time() - 10)) == f"{start}oidc: token is expired"
        assert error_of(root, issuer.token(aud=["them"])) == f'{start}oidc: expected audience "us" got ["them"]'
        none = encode(json.dumps({"alg": "none"}).encode())
        assert "unsupported algorithm" in error_of(root, f"{none}.{body}.")
        assert error_of(root, issuer.token(iss="https://other")) == "invalid bearer token"


def test_keys_are_fetched_once_and_again_for_a_name_that_is_new(tmp_path: Path, issuer: Issuer) -> None:
    with serve(*authentication_flags(tmp_path, issuer)) as running:
        issuer.fetched.clear()
        for _ in range(3):
            assert user_info(running.wire(issuer.token()))["username"] == "oidc:jane"
        assert issuer.fetched == ["/.well-known/openid-configuration", "/keys"]
        issuer.keys["new"] = ec.generate_private_key(ec.SECP256R1())
        assert user_info(running.wire(issuer.token("new")))["username"] == "oidc:jane"
        assert issuer.fetched[2:] == ["/keys"]
        del issuer.keys["new"]


@pytest.mark.parametrize(
    ("headers", "last"),
    [
        ({}, False),
        ({"Cache-Control": "max-age=3600"}, True),
        ({"Cache-Control": "public, max-age=1, s-maxage=3600"}, True),
        ({"Cache-Control": "max-age=29"}, False),
        ({"Expires": "Fri, 01 Jan 2100 00:00:00 GMT"}, True),
    ],
)
def test_keys_are_fetched_for_an_unknown_name_unless_they_may_be_cached(
    tmp_path: Path, issuer: Issuer, headers: dict[str, str], last: bool
) -> None:
    """Otherwise a client could cause a fetch per request with invented names."""
    with serve(*authentication_flags(tmp_path, issuer)) as running:
        root = running.wire("root")
        issuer.headers = headers
        try:
            assert user_info(running.wire(issuer.token()))["username"] == "oidc:jane"
            issuer.fetched.clear()
            for number in range(3):
                _, body, signature = issuer.token().split(".")
                head = encode(json.dumps({"alg": "RS256", "kid": f"made up {number}"}).encode())
                wrong = "oidc: verify token: failed to verify signature: failed to verify id token signature"
                assert error_of(root, f"{head}.{body}.{signature}") == wrong
            assert issuer.fetched == ([] if last else ["/keys"] * 3)
        finally:
            issuer.headers = {}


def test_requests_that_want_keys_at_the_same_time_wait_for_one_answer(tmp_path: Path, issuer: Issuer) -> None:
    """The first request is long and runs in a thread."""
    with serve(*authentication_flags(tmp_path, issuer)) as running:
        issuer.fetched.clear()
        issuer.open.clear()
        try:
            with ThreadPoolExecutor(5) as threads:
                metadata = {"annotations": {"a": "x" * LONG}}
                review = {"metadata": metadata, "spec": {"token": issuer.token()}}
                first = threads.submit(running.wire("root").post, REVIEWS, review)
                wait_until(lambda: len(issuer.fetched) == 1, "the issuer is asked")
                asked = [threads.submit(user_info, running.wire(issuer.token())) for _ in range(4)]
                assert user_info(running.wire("root"))["username"] == "root"
                issuer.open.set()
                assert [each.result().get("username") for each in asked] == ["oidc:jane"] * 4
                assert first.result().json["status"]["user"]["username"] == "oidc:jane"
        finally:
            issuer.open.set()
        assert issuer.fetched == ["/.well-known/openid-configuration", "/keys"]


def test_flags_name_one_issuer(tmp_path: Path, issuer: Issuer) -> None:
    (tmp_path / "ca").write_text(issuer.authority)
    given = (
        f"--oidc-issuer-url={issuer.url}", "--oidc-client-id=us", f"--oidc-ca-file={tmp_path / 'ca'}",
        "--oidc-groups-claim=groups", "--oidc-groups-prefix=g:", "--oidc-required-claim=hd=x",
    )  # fmt: skip
    with serve(*flags(tmp_path, *given)) as running:
        found = user_info(running.wire(issuer.token(groups="one", hd="x")))
        assert (found["username"], found["groups"]) == (f"{issuer.url}#jane", ["g:one", "system:authenticated"])
        assert user_info(running.wire(issuer.token(groups="one"))) == {"status": 401}
    with pytest.raises(SettingsError, match="oidc-issuer-url and oidc-client-id must be specified together"):
        read(["--oidc-issuer-url=https://a"])


def test_metrics_tell_when_keys_were_fetched_and_which_they_are(tmp_path: Path, issuer: Issuer) -> None:
    def of_keys(wire: Wire) -> dict[str, float]:
        lines = [line for line in wire.get("/metrics").text.splitlines() if "jwks_fetch" in line and line[0] != "#"]
        return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}

    def digest(text: str) -> str:
        return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"

    with serve(*authentication_flags(tmp_path, issuer)) as running:
        root, before = running.wire("root"), time.time()
        assert of_keys(root) == {}
        assert user_info(running.wire(issuer.token()))["username"] == "oidc:jane"
        (moment, at), (keys, one) = sorted(of_keys(root).items(), reverse=True)
        assert 'result="success"' in moment
        assert digest(issuer.url) in moment
        assert before - 1 < at < time.time() + 1
        assert digest(json.dumps(issuer.published())) in keys
        assert one == 1


def test_a_configuration_of_authenticators_has_a_gate_of_its_own() -> None:
    off = ("--emulated-version=1.33", "--feature-gates=StructuredAuthenticationConfiguration=false")
    with pytest.raises(SettingsError, match="=true to use authentication-config file"):
        read([*off, "--authentication-config=file"])


def test_some_paths_allow_anonymous_requests(tmp_path: Path) -> None:
    said = {"enabled": True, "conditions": [{"path": "/livez"}]}
    text = json.dumps({"apiVersion": VERSION, "kind": "AuthenticationConfiguration", "anonymous": said})
    (tmp_path / "authn").write_text(text)
    with serve(*flags(tmp_path, f"--authentication-config={tmp_path / 'authn'}")) as running:
        anonymous = running.wire()
        assert [anonymous.get(path).status for path in ("/livez", "/healthz", "/api/v1/pods")] == [200, 401, 401]


def test_the_anonymous_setting_does_not_change_while_a_server_runs() -> None:
    def text(*, enabled: bool) -> bytes:
        kind = {"apiVersion": VERSION, "kind": "AuthenticationConfiguration"}
        return json.dumps({**kind, "anonymous": {"enabled": enabled}}).encode()

    first = read_authenticators(text(enabled=False), Features())
    assert read_again(text(enabled=False), first, Features()) == first
    with pytest.raises(ConfigurationError, match="anonymous: Forbidden: changed from initial configuration file"):
        read_again(text(enabled=True), first, Features())


ISSUER: Json = {"url": "https://a", "audiences": ["x"]}
NAME: Json = {"username": {"claim": "sub", "prefix": ""}}


@pytest.mark.parametrize(
    ("jwt", "says"),
    [
        ({"issuer": {"url": "http://a"}, "claimMappings": NAME},
         ['jwt[0].issuer.url: Invalid value: "http://a": URL scheme must be https',
          "jwt[0].issuer.audiences: Required value: at least one jwt[0].issuer.audiences is required"]),
        ({"issuer": ISSUER, "claimMappings": {"username": {"claim": "sub"}}},
         ["jwt[0].claimMappings.username.prefix: Required value: prefix is required when claim is set."]),
        ({"issuer": ISSUER, "claimMappings": {**NAME, "groups": {"expression": "1 +"}}},
         ['jwt[0].claimMappings.groups.expression: Invalid value: "1 +": compilation failed: ERROR: <input>:1:4:']),
        ({"issuer": ISSUER, "claimMappings": {"username": {"expression": "claims['email'] + (true ? '' : 'claims.email_verified')"}}},
         ["claims.email_verified must be used in claimMappings.username.expression"]),
        ({"issuer": ISSUER, "claimMappings": {"username": {"expression": "claims.email"}}},
         ["claims.email_verified must be used in claimMappings.username.expression"]),
        ({"issuer": ISSUER, "claimMappings": NAME, "userValidationRules": [{"expression": "1"}]},
         ['jwt[0].userValidationRules[0].expression: Invalid value: "1": must evaluate to bool']),
        ({"issuer": {**ISSUER, "url": "https://own"}, "claimMappings": NAME},
         ["URL must not overlap with disallowed issuers: [https://own]"]),
    ],
)  # fmt: skip
def test_errors_of_an_issuer_are_named(jwt: Json, says: list[str]) -> None:
    text = json.dumps({"apiVersion": VERSION, "kind": "AuthenticationConfiguration", "jwt": [jwt]})
    with pytest.raises(ConfigurationError) as error:
        read_authenticators(text.encode(), Features(), ("https://own",))
    for each in says:
        assert each in str(error.value)


def test_the_decision_of_a_token_webhook_is_cached(tmp_path: Path) -> None:
    with decider(tmp_path, "TokenReview", "authentication.k8s.io/v1") as webhook:
        more = (f"--authentication-token-webhook-config-file={webhook.kubeconfig}",
                "--authentication-token-webhook-version=v1", "--authentication-token-webhook-cache-ttl=10s")  # fmt: skip
        with serve(*flags(tmp_path, *more), time=HeldTime()) as running:
            webhook.says({"authenticated": True, "user": {"username": "kim", "groups": ["g"]}})
            kim = running.wire("a-token")
            for _ in range(2):
                assert user_info(kim) == {"username": "kim", "groups": ["g", "system:authenticated"]}
            assert [call["spec"]["token"] for call in webhook.calls] == ["a-token"]
            running.time.advance(11)
            webhook.says({"authenticated": False, "error": "gone"})
            assert user_info(kim) == {"status": 401}
            assert error_of(running.wire("root"), "a-token") == "gone"
            webhook.fails()
            assert "rejected our request" in error_of(running.wire("root"), "another")


def test_a_secret_lets_a_node_join(tmp_path: Path) -> None:
    with serve(*flags(tmp_path, "--enable-bootstrap-token-auth"), time=HeldTime()) as running:
        root, joins = running.wire("root"), running.wire("abcdef.0123456789abcdef")
        assert user_info(joins) == {"status": 401}
        data = {
            "token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true",
            "auth-extra-groups": "system:bootstrappers:foo", "expiration": "2100-01-01T00:00:00Z",
        }  # fmt: skip
        secrets = "/api/v1/namespaces/kube-system/secrets"

        def store(**changed: str) -> None:
            root.delete(f"{secrets}/bootstrap-token-abcdef")
            coded = {key: base64.b64encode(value.encode()).decode() for key, value in {**data, **changed}.items()}
            body = {"metadata": {"name": "bootstrap-token-abcdef"}, "type": "bootstrap.kubernetes.io/token"}
            root.create(secrets, {**body, "data": coded})

        store()
        assert user_info(joins) == {
            "username": "system:bootstrap:abcdef",
            "groups": ["system:bootstrappers", "system:bootstrappers:foo", "system:authenticated"],
        }
        for wrong in (
            {"token-secret": "0123456789abcdee"}, {"expiration": "2000-01-01T00:00:00Z"},
            {"usage-bootstrap-authentication": "false"}, {"auth-extra-groups": "system:masters"},
        ):  # fmt: skip
            store(**wrong)
            assert user_info(joins) == {"status": 401}
