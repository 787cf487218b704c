"""Certificate chains of clients, with the verdicts of a real kube-apiserver."""

from __future__ import annotations

import datetime as dt
from typing import NamedTuple

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from OpenSSL.crypto import X509, PKey

from apiserver.authentication.x509.verify_chain import is_trusted_chain

pytestmark = pytest.mark.integration

NOW = dt.datetime(2030, 1, 1, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)
CLIENT, SERVER = ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH


class Made(NamedTuple):
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def made(
    name: str, by: Made | None = None, *, ca: bool = False, uses: tuple[x509.ObjectIdentifier, ...] = (),
    begins: dt.timedelta = -DAY, ends: dt.timedelta = DAY, path: int | None = None,
) -> Made:  # fmt: skip
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
    return Made(builder.sign(by.key if by else key, hashes.SHA256()), key)


ROOT = made("root", ca=True)
BETWEEN = made("between", ROOT, ca=True)
NARROW = made("narrow", ROOT, ca=True, path=0)
BELOW = made("below", NARROW, ca=True)
FOR_SERVERS = made("for servers", ROOT, ca=True, uses=(SERVER,))
NONE = made("no authority", ROOT)


@pytest.mark.parametrize(
    ("shown", "good"),
    [
        ([made("u", ROOT)], True),
        ([made("u", ROOT, uses=(CLIENT,))], True),
        ([made("u", ROOT, uses=(SERVER, CLIENT))], True),
        ([made("u", ROOT, uses=(ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE,))], True),
        ([made("u", ROOT, uses=(SERVER,))], False),
        ([made("u", ROOT, ends=-DAY / 2)], False),
        ([made("u", ROOT, begins=DAY / 2)], False),
        ([made("u", made("root", ca=True))], False),
        ([made("u", BETWEEN), BETWEEN], True),
        ([made("u", BETWEEN)], False),
        ([made("u", BELOW), BELOW, NARROW], False),
        ([made("u", FOR_SERVERS, uses=(CLIENT,)), FOR_SERVERS], False),
        ([made("u", NONE), NONE], False),
        ([ROOT], True),
        ([made("alone")], False),
    ],
)
def test_a_certificate_counts_that_leads_to_an_authority_and_is_for_clients(shown: list[Made], good: bool) -> None:
    assert is_trusted_chain([each.certificate for each in shown], [ROOT.certificate], NOW) is good


@pytest.mark.filterwarnings("ignore:X509.sign")  # nothing else signs so any more
def test_nothing_counts_that_is_signed_by_sha_1() -> None:
    signed = X509.from_cryptography(made("u", ROOT).certificate)
    signed.sign(PKey.from_cryptography_key(ROOT.key), "sha1")
    assert not is_trusted_chain([signed.to_cryptography()], [ROOT.certificate], NOW)
    signed.sign(PKey.from_cryptography_key(ROOT.key), "sha256")
    assert is_trusted_chain([signed.to_cryptography()], [ROOT.certificate], NOW)


def test_an_intermediate_authority_is_trusted_by_itself() -> None:
    assert is_trusted_chain([made("u", BETWEEN).certificate], [BETWEEN.certificate], NOW)
