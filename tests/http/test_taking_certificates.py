"""Connections that request client certificates: handshakes, data, and the verified peer."""

from __future__ import annotations

import datetime as dt
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from OpenSSL import SSL

from apiserver.authentication.x509 import client_certificates as handlers
from apiserver.authentication.x509.client_certificates import ClientCertificates, PresentedCertificates
from apiserver.options.settings import read
from apiserver.request.messages import Peer
from apiserver.runtime import clock
from apiserver.tls.listener import Https, HttpsError
from apiserver.tls.pyopenssl import ClientCertificateConnection
from apiserver.tls.self_signed import load_or_create_certificate
from tests.http.authorities import Authority

pytestmark = pytest.mark.integration


def asking(folder: Path, users: Authority, *flags: str) -> tuple[ClientCertificates, Https]:
    settings = read(["--tls", f"--client-ca-file={users.file}", *flags])
    certificates = ClientCertificates(settings.identity, with_uid=False)
    return certificates, Https(load_or_create_certificate(folder / "own"), settings.tls_options, certificates)


class Ends:
    """A client and a server after their handshake, and the bytes between them."""

    def __init__(
        self, https: Https, shown: Path | None, first: bytes = b"", name: str | None = None, **client: Any
    ) -> None:
        """Shake hands.

        Args:
            https: the server.
            shown: the certificate of the client.
            first: data that is sent with the last message of the client's handshake.
            name: the server name.
            client: see `a_client`.
        """
        self.there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.client = a_client(shown, **client).wrap_bio(back, self.there, server_hostname=name)
        self.server: ClientCertificateConnection = https.context.wrap_bio(self.there, back, server_side=True)
        while not is_complete(self.client.do_handshake):
            is_complete(self.server.do_handshake)
        if first:
            self.client.write(first)
        assert is_complete(self.server.do_handshake)


def a_client(shown: Path | None, *, curve: str = "", newest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> ssl.SSLContext:
    """Return the context of a client of at most the version `newest`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode, context.maximum_version = False, ssl.CERT_NONE, newest
    if curve:
        context.set_ecdh_curve(curve)
    if shown is not None:
        context.load_cert_chain(shown)
    return context


def is_complete(step: Callable[[], object]) -> bool:
    try:
        step()
    except ssl.SSLWantReadError:
        return False
    return True


def read_pending(server: ClientCertificateConnection) -> bytes:
    """Read everything that is pending, as an event loop does."""
    found = b""
    try:
        while server.pending() or server._incoming.pending:
            found += server.read(256 * 1024)
    except ssl.SSLWantReadError:
        pass
    return found


def test_data_sent_with_the_end_of_the_handshake_is_read(tmp_path: Path) -> None:
    users = Authority(tmp_path, "users")
    _, https = asking(tmp_path, users)
    ends = Ends(https, users.client("alice"), b"GET / HTTP/1.1\r\n\r\n")
    assert read_pending(ends.server) == b"GET / HTTP/1.1\r\n\r\n"
    assert not ends.server.pending()


def test_large_bodies_and_answers_arrive_whole_and_a_connection_ends_in_order(tmp_path: Path) -> None:
    users, sent = Authority(tmp_path, "users"), bytes(range(256)) * 400
    _, https = asking(tmp_path, users)
    ends = Ends(https, None)
    assert ends.server.peer_certificates() == ()
    ends.client.write(sent)
    assert read_pending(ends.server) == sent
    assert ends.server.write(sent) == len(sent), "an event loop copies what is left"
    found = b""
    while len(found) < len(sent):
        found += ends.client.read(1 << 20)
    assert found == sent
    assert not is_complete(ends.client.unwrap)
    assert ends.server.read() == b""
    ends.server.unwrap()
    ends.client.unwrap()


def test_clients_get_the_names_of_the_current_authorities(tmp_path: Path) -> None:
    users, others = Authority(tmp_path, "users"), Authority(tmp_path, "others")
    certificates, https = asking(tmp_path, users)

    def authority_names() -> list[str | None]:
        client = SSL.Connection(SSL.Context(SSL.TLS_CLIENT_METHOD))
        client.set_connect_state()
        there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
        with pytest.raises(SSL.WantReadError):
            client.do_handshake()
        there.write(client.bio_read(1 << 16))
        assert not is_complete(https.context.wrap_bio(there, back, server_side=True).do_handshake)
        client.bio_write(back.read())
        client.do_handshake()
        return [name.CN for name in client.get_client_ca_list()]

    assert authority_names() == ["users"]
    users.file.write_text(users.file.read_text() + others.file.read_text())
    certificates.files[0].reload()
    assert authority_names() == ["users", "others"]


def test_a_certificate_that_ends_while_its_connection_is_open_counts_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = Authority(tmp_path, "users")
    certificates, https = asking(tmp_path, users)
    shown = PresentedCertificates(certificates, Ends(https, users.client("alice")).server.peer_certificates())
    first = shown.peer()
    assert (first.user and first.user.name, first.refused) == ("alice", False)
    assert shown.peer() is first, "it is not verified again for each request"
    monkeypatch.setattr(handlers, "now", lambda: clock.now() + dt.timedelta(days=2))
    assert (shown.peer().user, shown.peer().refused) == (None, True)


@pytest.mark.parametrize(
    ("was", "now"),
    [(bytes.fromhex("a003020102"), bytes.fromhex("a003020105")), (b"alice", b"\xff\xfe\xff\xfe\xff")],
    ids=("version", "name"),
)
def test_an_unreadable_certificate_names_no_user(tmp_path: Path, was: bytes, now: bytes) -> None:
    users = Authority(tmp_path, "users")
    certificates, _ = asking(tmp_path, users)
    shown = x509.load_pem_x509_certificate(users.client("alice").read_bytes()).public_bytes(Encoding.DER)
    assert was in shown
    odd = PresentedCertificates(certificates, (shown.replace(was, now),))
    first = odd.peer()
    assert first == Peer(None, refused=True)
    assert odd.peer() is first, "it is not read again for each request"


def test_a_connection_is_made_whatever_certificate_is_shown(tmp_path: Path) -> None:
    users = Authority(tmp_path, "users")
    _, https = asking(tmp_path, users)
    file = users.client("alice")
    made, key = x509.load_pem_x509_certificate(file.read_bytes()), file.read_bytes().partition(b"-----BEGIN PRIV")[2]
    # A version that no certificate has.
    odd = made.public_bytes(Encoding.DER).replace(bytes.fromhex("a003020102"), bytes.fromhex("a003020105"))
    file.write_bytes(ssl.DER_cert_to_PEM_cert(odd).encode() + b"-----BEGIN PRIV" + key)
    assert Ends(https, file).server.peer_certificates() == (odd,)


def test_certificates_that_a_client_sends_along_are_shown_after_its_own(tmp_path: Path) -> None:
    users, between = Authority(tmp_path, "users"), Authority(tmp_path, "between")
    _, https = asking(tmp_path, users)
    file = users.client("alice")
    file.write_bytes(file.read_bytes() + between.file.read_bytes())
    own, along = x509.load_pem_x509_certificates(file.read_bytes())
    shown = Ends(https, file).server.peer_certificates()
    assert shown == (own.public_bytes(Encoding.DER), along.public_bytes(Encoding.DER))


def test_flags_on_tls_hold_for_connections_that_request_certificates(tmp_path: Path) -> None:
    users = Authority(tmp_path, "users")
    _, https = asking(tmp_path, users, "--tls-cipher-suites=TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256")
    ends = Ends(https, users.client("alice"))
    assert (ends.server.version(), ends.client.version()) == ("TLSv1.3", "TLSv1.3")
    _, https = asking(tmp_path, users, "--tls-min-version=VersionTLS13")
    with pytest.raises(ssl.SSLError):
        Ends(https, None, newest=ssl.TLSVersion.TLSv1_2)
    _, https = asking(tmp_path, users, "--tls-curve-preferences=24")
    Ends(https, None, curve="secp384r1")
    with pytest.raises(ssl.SSLError):
        Ends(https, None, curve="prime256v1")
    with pytest.raises(HttpsError, match="X25519: with client certificates only 23, 24 and 25 are supported"):
        asking(tmp_path, users, "--tls-curve-preferences=29")
    with pytest.raises(HttpsError, match=r"--tls-cipher-suites: OpenSSL .* supports none of these"):
        asking(tmp_path, users, "--tls-cipher-suites=TLS_RSA_WITH_RC4_128_SHA")


def test_clients_get_the_certificate_that_is_for_the_name_which_they_ask_for(tmp_path: Path) -> None:
    users = Authority(tmp_path, "users")
    pairs = {name: load_or_create_certificate(tmp_path / name) for name in ("a.test", "b.test")}
    flags = [f"--tls-sni-cert-key={certificate},{key}:{name}" for name, (certificate, key) in pairs.items()]
    _, https = asking(tmp_path, users, *flags)

    def got(name: str | None) -> bytes | None:
        ends = Ends(https, users.client("alice"), name=name)
        assert ends.server.peer_certificates(), "clients are asked for theirs whatever name they say"
        return ends.client.getpeercert(True)

    own = ssl.PEM_cert_to_DER_cert((tmp_path / "own" / "tls.crt").read_text())
    assert [got("c.test"), got(None)] == [own, own]
    for name, (certificate, _) in pairs.items():
        assert got(name) == ssl.PEM_cert_to_DER_cert(certificate.read_text())


def test_the_authorities_in_the_servers_file_are_sent_along(tmp_path: Path) -> None:
    users = Authority(tmp_path, "users")
    certificate, _ = load_or_create_certificate(tmp_path / "own")
    certificate.write_text(certificate.read_text() + users.file.read_text())
    _, https = asking(tmp_path, users)
    client, (there, back) = SSL.Connection(SSL.Context(SSL.TLS_CLIENT_METHOD)), (ssl.MemoryBIO(), ssl.MemoryBIO())
    client.set_connect_state()
    server = https.context.wrap_bio(there, back, server_side=True)
    with pytest.raises(SSL.WantReadError):
        client.do_handshake()
    there.write(client.bio_read(1 << 16))
    assert not is_complete(server.do_handshake)
    client.bio_write(back.read())
    client.do_handshake()
    sent = client.get_peer_cert_chain(as_cryptography=True) or []
    assert sent[1:] == [x509.load_pem_x509_certificate(users.file.read_bytes())]


def test_a_key_of_another_certificate_is_refused(tmp_path: Path) -> None:
    users = Authority(tmp_path, "users")
    certificates, _ = asking(tmp_path, users)
    (certificate, _), (_, key) = (
        load_or_create_certificate(tmp_path / "own"),
        load_or_create_certificate(tmp_path / "other"),
    )
    with pytest.raises(HttpsError, match=r"not a certificate and its key in PEM \(.*key values mismatch\)"):
        Https((certificate, key), read(["--tls"]).tls_options, certificates)


def test_tls_sessions_are_not_resumed_because_their_chain_is_unknown(tmp_path: Path) -> None:
    users = Authority(tmp_path, "users")
    _, https = asking(tmp_path, users)
    context = a_client(users.client("alice"), newest=ssl.TLSVersion.TLSv1_2)
    session, kept = None, list[ClientCertificateConnection]()
    for _ in range(2):
        there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = context.wrap_bio(back, there, session=session)
        server: ClientCertificateConnection = https.context.wrap_bio(there, back, server_side=True)
        while not is_complete(client.do_handshake):
            is_complete(server.do_handshake)
        assert not client.session_reused
        session = client.session
        kept.append(server)


def test_a_client_that_is_gone_without_a_word_ends_the_connection(tmp_path: Path) -> None:
    _, https = asking(tmp_path, Authority(tmp_path, "users"))
    ends = Ends(https, None)
    ends.there.write_eof()
    with pytest.raises(ssl.SSLEOFError):
        ends.server.read()


def test_an_authority_that_ends_takes_its_clients_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    users = Authority(tmp_path, "users", dt.timedelta(hours=1))
    certificates, https = asking(tmp_path, users)
    shown = PresentedCertificates(
        certificates, Ends(https, users.client("alice", ends=dt.timedelta(days=1))).server.peer_certificates()
    )
    assert shown.peer().user
    monkeypatch.setattr(handlers, "now", lambda: clock.now() + dt.timedelta(hours=2))
    assert (shown.peer().user, shown.peer().refused) == (None, True)


def test_other_authorities_count_for_connections_that_are_open(tmp_path: Path) -> None:
    users, others = Authority(tmp_path, "users"), Authority(tmp_path, "others")
    certificates, https = asking(tmp_path, users)
    shown = PresentedCertificates(certificates, Ends(https, users.client("alice")).server.peer_certificates())
    assert shown.peer().user
    users.file.write_text(others.file.read_text())
    certificates.files[0].reload()
    assert shown.peer().refused
