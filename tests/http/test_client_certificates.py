"""Identities by client certificate and by front proxy."""

from __future__ import annotations

import datetime as dt
import http.client
import json
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from OpenSSL.crypto import X509, PKey

from apiserver.api.objects import Json
from apiserver.authentication.x509.verify_chain import is_trusted_chain
from apiserver.options.flags import SettingsError
from apiserver.options.settings import read
from tests.http.authorities import Authority
from tests.support.tokens import token_flag
from tests.support.wire import Child

pytestmark = pytest.mark.integration

REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


class Server:
    """A server that trusts two authorities: of users, and of front proxies."""

    def __init__(self, folder: Path, child: Child, users: Authority, proxies: Authority) -> None:
        self.users, self.proxies, self._folder, self._child = users, proxies, folder, child

    def ask(
        self, method: str, path: str, shown: Path | None, headers: dict[str, Any], body: str = ""
    ) -> tuple[int, Json]:
        context = ssl.create_default_context(cafile=str(self._folder / "data" / "tls.crt"))
        if shown is not None:
            context.load_cert_chain(shown)
        host, _, port = self._child.url.removeprefix("https://").partition(":")
        connection = http.client.HTTPSConnection(host, int(port), context=context)
        try:
            connection.putrequest(method, path)
            for name, value in {
                "Content-Type": "application/json",
                "Content-Length": str(len(body)),
                **headers,
            }.items():
                for one in value if isinstance(value, list) else [value]:
                    connection.putheader(name, one)
            connection.endheaders(body.encode())
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def metrics(self) -> str:
        ca = (self._folder / "data" / "tls.crt").read_text()
        return self._child.wire("secret", ca).get("/metrics").text

    def user_of(self, shown: Path | None, **headers: Any) -> Json | int:
        """Return the authenticated user, or the status code of a refusal."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        status, answer = self.ask("POST", REVIEW, shown, named, "{}")
        return answer["status"]["userInfo"] if status == 201 else status


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("certificates")
    users, proxies = Authority(folder, "users"), Authority(folder, "proxies")
    tokens = token_flag(folder, 'secret,root,1,"system:masters"\n')
    flags = (
        "--tls", tokens, "--authorization-mode=RBAC",
        f"--client-ca-file={users.file}", f"--requestheader-client-ca-file={proxies.file}",
        "--requestheader-allowed-names=front,back", "--requestheader-username-headers=X-Remote-User",
        "--requestheader-uid-headers=X-Remote-Uid", "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
    )  # fmt: skip
    with Child(folder / "data", *flags) as child:
        yield Server(folder, child, users, proxies)


def test_a_certificate_names_a_user_and_its_groups(server: Server) -> None:
    found = server.user_of(server.users.client("alice", "devs", "ops", uid="u-1"))
    assert isinstance(found, dict)
    assert (found["username"], found["uid"], sorted(found["groups"])) == (
        "alice", "u-1", ["devs", "ops", "system:authenticated"],
    )  # fmt: skip
    (credential,) = found["extra"]["authentication.kubernetes.io/credential-id"]
    assert credential.startswith("X509SHA256=")


def test_how_long_certificates_will_last_is_counted_with_each_request(server: Server) -> None:
    def counted(bound: str) -> int:
        found = server.metrics().split(f'apiserver_client_certificate_expiration_seconds_bucket{{le="{bound}"}} ')[1]
        return int(found.split()[0])

    before = counted("86400"), counted("43200")
    server.user_of(server.users.client("alice"))  # a day
    server.user_of(None)
    assert (counted("86400"), counted("43200")) == (before[0] + 1, before[1])


def test_members_of_the_masters_may_do_everything(server: Server) -> None:
    admin = server.users.client("admin", "system:masters")
    assert server.ask("GET", "/api/v1/secrets", admin, {})[0] == 200
    bob = server.users.client("bob")
    assert server.ask("GET", "/api/v1/secrets", bob, {})[0] == 403
    assert server.ask("GET", "/-/info", admin, {})[0] == 200
    assert server.ask("GET", "/-/info", bob, {}) == (403, {"detail": 'User "bob" may not use /-/'})
    assert server.ask("GET", "/-/info", admin, {"Impersonate-User": "bob"})[0] == 403


def test_tokens_count_beside_certificates_and_after_them(server: Server) -> None:
    token = {"Authorization": "Bearer secret"}
    assert server.ask("GET", "/api/v1/secrets", None, token)[0] == 200
    found = server.user_of(server.users.client("alice"), **token)
    assert isinstance(found, dict)
    assert found["username"] == "alice"


def test_a_front_proxy_asks_for_others(server: Server) -> None:
    headers = {
        "X_Remote_User": "carol",
        "X_Remote_Uid": "c-1",
        "X_Remote_Group": ["a", "b"],
        "X_Remote_Extra_Scope": "s",
    }
    found = server.user_of(server.proxies.client("front"), **headers)
    assert found == {
        "username": "carol",
        "uid": "c-1",
        "groups": ["a", "b", "system:authenticated"],
        "extra": {"scope": ["s"]},
    }


def test_only_a_front_proxy_may_name_the_user(server: Server) -> None:
    claimed = {"X_Remote_User": "carol", "X_Remote_Group": "system:masters"}
    found = server.user_of(server.users.client("alice"), **claimed)
    assert isinstance(found, dict)
    assert (found["username"], "system:masters" in found["groups"]) == ("alice", False)
    assert server.user_of(server.proxies.client("stranger"), **claimed) == 401
    assert server.user_of(server.proxies.client("front")) == 401
    assert (
        server.ask("GET", "/api/v1/secrets", None, {"X-Remote-User": "x", "X-Remote-Group": "system:masters"})[0] == 403
    )


def test_an_anonymous_path_refuses_an_unverified_certificate(tmp_path: Path) -> None:
    users = Authority(tmp_path, "users")
    (tmp_path / "others").mkdir()
    stranger = Authority(tmp_path / "others", "users").client("alice")
    tokens = token_flag(tmp_path, 'secret,root,1,"system:masters"\n')
    (tmp_path / "authn").write_text(json.dumps({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AuthenticationConfiguration",
        "anonymous": {"enabled": True, "conditions": [{"path": "/version"}]},
    }))  # fmt: skip
    flags = (
        "--tls", tokens, "--authorization-mode=RBAC",
        f"--client-ca-file={users.file}", f"--authentication-config={tmp_path}/authn",
    )  # fmt: skip
    with Child(tmp_path / "data", *flags) as child:
        server = Server(tmp_path, child, users, users)
        answers = [server.ask("GET", "/version", shown, {})[0] for shown in (None, users.client("bob"), stranger)]
    assert answers == [200, 200, 401]


def test_a_certificate_of_an_unknown_authority_names_no_user_and_a_token_beside_it_counts(
    server: Server, tmp_path: Path
) -> None:
    stranger = Authority(tmp_path, "users").client("alice", "system:masters")
    assert server.user_of(stranger) == 401
    assert server.ask("GET", "/livez", stranger, {})[0] == 401
    assert server.user_of(stranger, X_Remote_User="carol", X_Remote_Group="system:masters") == 401
    assert server.user_of(stranger, Authorization="Bearer wrong") == 401
    found = server.user_of(stranger, Authorization="Bearer secret")
    assert isinstance(found, dict)
    assert found["username"] == "root"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--client-ca-file=FILE"], "--client-ca-file needs --tls or --tls-cert-file"),
        (["--client-ca-file=/nowhere", "--tls"], "--client-ca-file /nowhere: no such file"),
        (["--requestheader-username-headers=X"], "needs --requestheader-client-ca-file"),
    ],
)
def test_errors_name_unusable_flags(tmp_path: Path, flags: list[str], said: str) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(SettingsError, match=said):
        read([flag.replace("FILE", str(file)) for flag in flags])


def test_access_is_not_open_with_client_certificates(tmp_path: Path) -> None:
    users = Authority(tmp_path, "users")
    settings = read(["--tls", f"--client-ca-file={users.file}", f"--data-dir={tmp_path}"])
    assert settings.tokens == {}


NOW = dt.datetime(2030, 1, 1, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)
CLIENT, SERVER = ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH


class Issued(NamedTuple):
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def issue(
    name: str, by: Issued | None = None, *, ca: bool = False, uses: tuple[x509.ObjectIdentifier, ...] = (),
    begins: dt.timedelta = -DAY, ends: dt.timedelta = DAY, path: int | None = None,
) -> Issued:  # fmt: skip
    """Make a certificate; `begins` and `ends` are relative to NOW."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(by.certificate.subject if by else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW + begins)
        .not_valid_after(NOW + ends)
        .add_extension(x509.BasicConstraints(ca, path if ca else None), critical=True)
    )
    if uses:
        builder = builder.add_extension(x509.ExtendedKeyUsage(list(uses)), critical=False)
    return Issued(builder.sign(by.key if by else key, hashes.SHA256()), key)


ROOT = issue("root", ca=True)
BETWEEN = issue("between", ROOT, ca=True)
NARROW = issue("narrow", ROOT, ca=True, path=0)
BELOW = issue("below", NARROW, ca=True)
FOR_SERVERS = issue("for servers", ROOT, ca=True, uses=(SERVER,))
NONE = issue("no authority", ROOT)


@pytest.mark.parametrize(
    ("shown", "good"),
    [
        ([issue("u", ROOT)], True),
        ([issue("u", ROOT, uses=(CLIENT,))], True),
        ([issue("u", ROOT, uses=(SERVER, CLIENT))], True),
        ([issue("u", ROOT, uses=(ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE,))], True),
        ([issue("u", ROOT, uses=(SERVER,))], False),
        ([issue("u", ROOT, ends=-DAY / 2)], False),
        ([issue("u", ROOT, begins=DAY / 2)], False),
        ([issue("u", issue("root", ca=True))], False),
        ([issue("u", BETWEEN), BETWEEN], True),
        ([issue("u", BETWEEN)], False),
        ([issue("u", BELOW), BELOW, NARROW], False),
        ([issue("u", FOR_SERVERS, uses=(CLIENT,)), FOR_SERVERS], False),
        ([issue("u", NONE), NONE], False),
        ([ROOT], True),
        ([issue("alone")], False),
    ],
)
def test_a_certificate_counts_that_leads_to_an_authority_and_is_for_clients(shown: list[Issued], good: bool) -> None:
    assert is_trusted_chain([each.certificate for each in shown], [ROOT.certificate], NOW) is good


@pytest.mark.filterwarnings("ignore:X509.sign")  # nothing else signs so any more
def test_nothing_counts_that_is_signed_by_sha_1() -> None:
    signed = X509.from_cryptography(issue("u", ROOT).certificate)
    signed.sign(PKey.from_cryptography_key(ROOT.key), "sha1")
    assert not is_trusted_chain([signed.to_cryptography()], [ROOT.certificate], NOW)
    signed.sign(PKey.from_cryptography_key(ROOT.key), "sha256")
    assert is_trusted_chain([signed.to_cryptography()], [ROOT.certificate], NOW)


def test_an_intermediate_authority_is_trusted_by_itself() -> None:
    assert is_trusted_chain([issue("u", BETWEEN).certificate], [BETWEEN.certificate], NOW)
