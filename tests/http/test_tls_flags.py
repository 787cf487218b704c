"""TLS flags: suites, versions and curves by the names and numbers of Go."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from apiserver.options.flags import SettingsError
from apiserver.options.settings import read
from apiserver.tls.self_signed import load_or_create_certificate

pytestmark = pytest.mark.integration


def context(*flags: str) -> ssl.SSLContext:
    """Return the context of a server with these flags."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    read(["--tls", *flags]).tls_options.restrict(made)
    return made


def older(made: ssl.SSLContext) -> set[str]:
    """Return the suites for versions before TLS 1.3; those of 1.3 are always enabled."""
    return {suite["name"] for suite in made.get_ciphers() if suite["protocol"] != "TLSv1.3"}


def agreed(folder: Path, server: ssl.SSLContext, curve: str) -> bool:
    """Return whether a client with one curve can connect to the server."""
    server.load_cert_chain(*load_or_create_certificate(folder))
    client = ssl.create_default_context(cafile=str(folder / "tls.crt"))
    client.set_ecdh_curve(curve)
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [client.wrap_bio(back, there, server_hostname="localhost"), server.wrap_bio(there, back, server_side=True)]
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError:
                return False
    return True


def test_suites_go_by_gos_names_and_the_others_are_refused() -> None:
    names = "TLS_RSA_WITH_AES_256_CBC_SHA,TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305,TLS_AES_128_GCM_SHA256"
    made = context(f"--tls-cipher-suites={names}", "--tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256")
    assert older(made) == {"AES256-SHA", "ECDHE-ECDSA-CHACHA20-POLY1305", "ECDHE-RSA-AES128-GCM-SHA256"}
    assert made.minimum_version == ssl.TLSVersion.TLSv1_2


def test_suites_of_only_the_newest_version_exclude_older_versions() -> None:
    assert context("--tls-cipher-suites=TLS_AES_128_GCM_SHA256").minimum_version == ssl.TLSVersion.TLSv1_3


def test_the_oldest_version_is_a_flag() -> None:
    assert context().minimum_version == ssl.TLSVersion.TLSv1_2
    assert context("--tls-min-version=VersionTLS13").minimum_version == ssl.TLSVersion.TLSv1_3


def test_one_curve_shuts_the_others_out_and_all_change_nothing(tmp_path: Path) -> None:
    assert agreed(tmp_path, context("--tls-curve-preferences=24"), "secp384r1")
    assert not agreed(tmp_path, context("--tls-curve-preferences=24"), "prime256v1")
    assert agreed(tmp_path, context("--tls-curve-preferences=23,24,25,29,4588"), "prime256v1")


def test_suites_that_need_an_rsa_key_make_the_servers_own_one_rsa(tmp_path: Path) -> None:
    def key_of(*flags: str) -> object:
        certificate, _ = load_or_create_certificate(tmp_path, rsa=read(["--tls", *flags]).tls_options.rsa)
        return x509.load_pem_x509_certificate(certificate.read_bytes()).public_key()

    assert isinstance(key_of("--tls-cipher-suites=TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"), ec.EllipticCurvePublicKey)
    assert isinstance(key_of("--tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"), rsa.RSAPublicKey)


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--tls-cipher-suites=TLS_NULL", "Cipher suite TLS_NULL not supported or doesn't exist"),
        ("--tls-min-version=TLS13", 'unknown tls version "TLS13"'),
        ("--tls-curve-preferences=70000", r"curve preference 70000 is out of range \(must be 1-65535\)"),
        ("--tls-curve-preferences=29,29", "duplicate curve preference 29"),
        ("--tls-curve-preferences=1", "curve preference 1 is not known"),
        ("--tls-curve-preferences=23,24", "one curve, or all of 23, 24, 25, 29"),
    ],
)
def test_a_wrong_flag_is_named(flag: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message) as caught:
        read(["--tls", flag])
    assert str(caught.value).startswith(flag.split("=")[0])
    with pytest.raises(SettingsError, match="needs --tls or --tls-cert-file"):
        read([flag])


def test_suites_that_openssl_does_not_have_are_named() -> None:
    with pytest.raises(ValueError, match=r"--tls-cipher-suites: OpenSSL .* supports none of these"):
        context("--tls-cipher-suites=TLS_RSA_WITH_RC4_128_SHA")
