"""Service account tokens that are signed with key files, and the documents with their public keys."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from apiserver.api.objects import Json
from apiserver.authentication.tokens.secret_tokens import OF_SECRETS
from apiserver.authentication.tokens.service_account_keys import KeyFileError, SharedKey, encode, read_key_files
from tests.support.server import Running, serve
from tests.support.tokens import token_flag
from tests.support.wire import Wire

pytestmark = pytest.mark.integration

ISSUER, OLDER = "https://new.example.com", "https://old.example.com"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
Make = Callable[[], Any]
KINDS: list[tuple[Make, str, str]] = [
    (lambda: rsa.generate_private_key(65537, 2048), "RS256", "RSA"),
    (lambda: ec.generate_private_key(ec.SECP256R1()), "ES256", "EC"),
    (lambda: ec.generate_private_key(ec.SECP521R1()), "ES512", "EC"),
]


def write_key(path: Path, key: Any) -> Path:
    plain = serialization.NoEncryption()
    path.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain))
    return path


def part(token: str, index: int) -> Json:
    text = token.split(".")[index]
    return dict(json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))))


def token_of(root: Wire, account: str = "a", **spec: Any) -> Json:
    root.post(ACCOUNTS, {"metadata": {"name": account}})
    answer = root.create(f"{ACCOUNTS}/{account}/token", {"spec": spec})
    return dict(answer)


def flags(tmp_path: Path, *more: str) -> tuple[str, ...]:
    return (token_flag(tmp_path), "--authorization-mode=RBAC", *more)


@pytest.mark.parametrize(("make", "algorithm", "kind"), KINDS)
def test_a_token_names_its_published_key(tmp_path: Path, make: Make, algorithm: str, kind: str) -> None:
    key = write_key(tmp_path / "key", make())
    signing = (f"--service-account-signing-key-file={key}", f"--service-account-issuer={ISSUER}")
    with serve(*flags(tmp_path, *signing)) as running:
        root = running.wire("root")
        token = token_of(root)["status"]["token"]
        assert (part(token, 0)["alg"], part(token, 1)["iss"], part(token, 1)["aud"]) == (algorithm, ISSUER, [ISSUER])
        published = root.get("/openid/v1/jwks", Accept="application/jwk-set+json")
        (known,) = published.json["keys"]
        assert (known["kid"], known["alg"], known["kty"]) == (part(token, 0)["kid"], algorithm, kind)
        assert running.wire(token).get("/api/v1/namespaces").status == 403, "it is known, and may do nothing"
        forged = token[:-8] + ("A" * 8 if token[-8:] != "A" * 8 else "B" * 8)
        for changed in (forged, f"{token}=", f"{token}==", f"{token}!", token.replace(".", "=.", 1)):
            assert running.wire(changed).get("/api/v1/namespaces").status == 401


def test_the_issuer_document_has_the_url_of_the_keys(tmp_path: Path) -> None:
    key = write_key(tmp_path / "key", ec.generate_private_key(ec.SECP256R1()))
    signing = (f"--service-account-signing-key-file={key}", f"--service-account-issuer={ISSUER}")
    with serve(*flags(tmp_path, *signing), "--port=6443", "--advertise-address=192.0.2.9") as running:
        root = running.wire("root")
        (found,) = root.get("/api").json["serverAddressByClientCIDRs"]
        assert found == {"clientCIDR": "0.0.0.0/0", "serverAddress": "192.0.2.9:6443"}
        assert root.get("/.well-known/openid-configuration").json == {
            "issuer": ISSUER,
            "jwks_uri": "http://192.0.2.9:6443/openid/v1/jwks",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        }
        assert root.get("/openid/v1/jwks", Accept="application/json").status == 406
        assert root.post("/.well-known/openid-configuration", {}).status == 405
        assert root.get("/.well-known/openid-configuration/more").json["reason"] == "NotFound"


@pytest.mark.parametrize("issuer", ["here", "http://tokens.example", "https://tokens.example?a=b"])
def test_an_issuer_that_openid_does_not_allow_has_no_documents(tmp_path: Path, issuer: str) -> None:
    with serve(*flags(tmp_path, f"--service-account-issuer={issuer}")) as running:
        root = running.wire("root")
        assert [root.get(path).status for path in ("/.well-known/openid-configuration", "/openid/v1/jwks")] == [404] * 2
        assert not {path for path in root.get("/").json["paths"] if "openid" in path}


def test_older_keys_and_issuers_are_taken_still(tmp_path: Path) -> None:
    old, new = (write_key(tmp_path / name, ec.generate_private_key(ec.SECP256R1())) for name in ("old", "new"))
    database = f"--data-dir={tmp_path / 'data'}", "--storage=sqlite"
    issued = (f"--service-account-signing-key-file={old}", f"--service-account-issuer={OLDER}")
    with serve(*flags(tmp_path, *issued), *database) as running:
        token = token_of(running.wire("root"), audiences=["both"])["status"]["token"]

    def status(*more: str) -> int:
        signing = (f"--service-account-signing-key-file={new}", f"--service-account-issuer={ISSUER}")
        with serve(*flags(tmp_path, *signing, "--api-audiences=both", *more), *database) as running:
            return running.wire(token).get("/api/v1/namespaces").status

    assert status(f"--service-account-key-file={new}", f"--service-account-issuer={OLDER}") == 401
    assert status(f"--service-account-key-file={new}", f"--service-account-key-file={old}") == 401
    both = (f"--service-account-key-file={new}", f"--service-account-key-file={old}")
    assert status(*both, f"--service-account-issuer={OLDER}") == 403


def test_the_token_that_a_secret_holds_is_good_as_long_as_it_holds_it(tmp_path: Path) -> None:
    key = write_key(tmp_path / "key", ec.generate_private_key(ec.SECP256R1()))
    with serve(*flags(tmp_path, f"--service-account-signing-key-file={key}")) as running:
        root = running.wire("root")
        account = root.post(ACCOUNTS, {"metadata": {"name": "a"}}).json["metadata"]
        start = "kubernetes.io/serviceaccount/"
        claims = {
            f"{start}namespace": "default", f"{start}secret.name": "s", f"{start}service-account.name": "a",
            f"{start}service-account.uid": account["uid"], "sub": "system:serviceaccount:default:a",
        }  # fmt: skip
        # As a controller signs it that has the key.
        keys = read_key_files(key, (key,))
        signed = ".".join(encode(json.dumps(part).encode()) for part in (keys.header, {"iss": OF_SECRETS, **claims}))
        token = f"{signed}.{encode(keys.sign(signed.encode()))}"
        user = running.wire(token)
        assert user.get("/api/v1/namespaces").status == 401, "no secret holds it"
        secrets, data = "/api/v1/namespaces/default/secrets", {"token": base64.b64encode(token.encode()).decode()}
        root.create(secrets, {"metadata": {"name": "s"}, "data": data})
        found = user.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
        assert found.json["status"]["userInfo"]["username"] == "system:serviceaccount:default:a"
        used = root.get(f"{secrets}/s").json["metadata"]
        day = datetime.now(UTC).date()
        label, days = "kubernetes.io/legacy-token-last-used", [str(day - timedelta(days=number)) for number in (0, 1)]
        assert used["labels"][label] in days, "the day may have ended meanwhile"
        user.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
        assert root.get(f"{secrets}/s").json["metadata"]["resourceVersion"] == used["resourceVersion"]
        invalid = {"metadata": {"labels": {"kubernetes.io/legacy-token-invalid-since": "2026-01-01"}}}
        assert root.patch(f"{secrets}/s", invalid).status == 200
        assert user.get("/api/v1/namespaces").status == 401
        assert root.delete(f"{secrets}/s").status == 200
        assert user.get("/api/v1/namespaces").status == 401


@pytest.fixture
def running(tmp_path: Path) -> Any:
    with serve(*flags(tmp_path, "--service-account-max-token-expiration=2h")) as running:
        yield running


def test_tokens_last_no_longer_than_they_may(running: Running) -> None:
    root = running.wire("root")
    made = token_of(root, expirationSeconds=86400)
    claims = part(made["status"]["token"], 1)
    assert (made["spec"]["expirationSeconds"], claims["exp"] - claims["iat"]) == (7200, 7200)


def test_the_token_of_a_pod_outlives_the_time_at_which_it_should_be_renewed(tmp_path: Path) -> None:
    with serve(*flags(tmp_path, "--disable-admission-plugins=ServiceAccount")) as running:
        root = running.wire("root")
        spec = {"serviceAccountName": "a", "containers": [{"name": "c", "image": "i"}]}
        root.create("/api/v1/namespaces/default/pods", {"metadata": {"name": "p"}, "spec": spec})
        bound = {"kind": "Pod", "apiVersion": "v1", "name": "p"}
        claims = part(token_of(root, expirationSeconds=3607, boundObjectRef=bound)["status"]["token"], 1)
        assert claims["exp"] - claims["iat"] == 365 * 24 * 3600
        assert claims["kubernetes.io"]["warnafter"] - claims["iat"] == 3607


def test_a_file_without_keys_is_named(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_text("nothing")
    with pytest.raises(KeyFileError, match=f"--service-account-signing-key-file {empty}: no RSA key"):
        read_key_files(empty, (empty,))


def test_without_files_the_store_keeps_a_key_pair_and_older_tokens_stay_good(tmp_path: Path) -> None:
    store = (*flags(tmp_path), f"--data-dir={tmp_path}/data", "--storage=sqlite")
    with serve(*store) as running:
        root = running.wire("root")
        found = root.get("/.well-known/openid-configuration").json
        assert found["id_token_signing_alg_values_supported"] == ["RS256"]
        [key] = root.get("/openid/v1/jwks", Accept="application/jwk-set+json").json["keys"]
        token = token_of(root)["status"]["token"]
        assert part(token, 0) == {"alg": "RS256", "kid": key["kid"]}
        # As a server signed it before there were key pairs.
        accounts, recall = running.server._access.accounts, running.server.log.get_meta
        secret = running.call(lambda: recall("service-account-key"))
        assert secret is not None
        pair, accounts.keys = accounts.keys, SharedKey(secret)
        older, accounts.keys = token_of(root)["status"]["token"], pair
        assert part(older, 0)["alg"] == "HS256"
    with serve(*store) as running:
        assert running.wire(token).get("/api/v1/namespaces").status == 403, "the same key, read again"
        assert running.wire(older).get("/api/v1/namespaces").status == 403
        assert running.wire(older[:-2] + "AA").get("/api/v1/namespaces").status == 401
