"""Certificates that an authority signs: names, usages and times, by the kind of its key."""

from __future__ import annotations

import datetime as dt
import ipaddress
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from apiserver.tls.self_signed import load_or_create_authority
from controllers.signing.authority import AlternativeNames, Authority, AuthorityError, Pair
from controllers.signing.purposes import KUBELET_CLIENT, SIGNERS, common_name
from tests.controllers.test_certificate_requests import (
    CLIENT,
    FOR_CLIENTS,
    FOR_NODES,
    KEY,
    NODES_NAME,
    NOW,
    SERVES,
    SERVING,
    make_csr,
    subject,
)

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return Pair(*load_or_create_authority(tmp_path_factory.mktemp("authority")))


def make_authority(key: Any, *, identifier: bool = True) -> Authority:
    name = subject("authority")
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(NOW).not_valid_after(NOW + dt.timedelta(days=99))
    if identifier:
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    algorithm = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    return Authority(builder.sign(key, algorithm), key)


def sign(authority: Authority, asks: Any, usages: list[str], lifetime: dt.timedelta = dt.timedelta(days=1)) -> Any:
    return x509.load_pem_x509_certificate(authority.sign(asks, usages, lifetime, NOW))


@pytest.mark.parametrize(
    ("key", "algorithm"),
    [
        (ec.generate_private_key(ec.SECP256R1()), "sha256"),
        (ec.generate_private_key(ec.SECP384R1()), "sha384"),
        (ec.generate_private_key(ec.SECP521R1()), "sha512"),
        (rsa.generate_private_key(65537, 2048), "sha256"),
        (ed25519.Ed25519PrivateKey.generate(), None),
    ],
    ids=["P-256", "P-384", "P-521", "RSA", "Ed25519"],
)
def test_each_kind_of_key_signs_with_its_algorithm(key: Any, algorithm: str | None) -> None:
    found = sign(make_authority(key), make_csr("a"), FOR_CLIENTS)
    hashed = found.signature_hash_algorithm
    assert (hashed.name if hashed else None) == algorithm


def test_the_authoritys_key_is_named_where_it_has_an_identifier() -> None:
    kinds = [
        {type(extension.value) for extension in sign(make_authority(KEY, identifier=has), make_csr("a"), []).extensions}
        for has in (True, False)
    ]
    assert kinds == [{x509.BasicConstraints, x509.AuthorityKeyIdentifier}, {x509.BasicConstraints}]


@pytest.mark.parametrize(("hours", "minutes"), [(7, 7 * 60), (8, 8 * 60 - 5), (9, 9 * 60 - 5)])
def test_what_is_valid_for_eight_hours_or_more_began_five_minutes_ago(hours: int, minutes: int) -> None:
    found = sign(make_authority(KEY), make_csr("a"), [], dt.timedelta(hours=hours))
    assert found.not_valid_before_utc == NOW - dt.timedelta(minutes=5)
    assert found.not_valid_after_utc == NOW + dt.timedelta(minutes=minutes)


@pytest.mark.parametrize(
    ("usages", "basic", "extended"),
    [
        ([], set(), []),
        (["any"], set(), ["2.5.29.37.0"]),
        (["client auth", "server auth"], set(), ["1.3.6.1.5.5.7.3.1", "1.3.6.1.5.5.7.3.2"]),
        (["email protection", "s/mime"], set(), ["1.3.6.1.5.5.7.3.4"]),
        (["digital signature", "signing"], {"digital_signature"}, []),
        (["key agreement", "encipher only"], {"key_agreement", "encipher_only"}, []),
        (["key agreement", "decipher only"], {"key_agreement", "decipher_only"}, []),
        (["encipher only", "decipher only"], set(), []),
        (["crl sign", "cert sign"], {"crl_sign", "key_cert_sign"}, []),
        (["data encipherment", "content commitment"], {"data_encipherment", "content_commitment"}, []),
    ],
)
def test_usages_stand_where_they_belong(usages: list[str], basic: set[str], extended: list[str]) -> None:
    found = {type(each.value): each for each in sign(make_authority(KEY), make_csr("a"), usages).extensions}
    usage = found.get(x509.KeyUsage)
    names = ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
             "key_cert_sign", "crl_sign")  # fmt: skip
    had = {name for name in names if usage is not None and getattr(usage.value, name)}
    if "key_agreement" in had:
        had |= {name for name in ("encipher_only", "decipher_only") if getattr(usage.value, name)}  # type: ignore[union-attr]
    assert had == basic
    assert usage is None or usage.critical
    others = found.get(x509.ExtendedKeyUsage)
    assert ([each.dotted_string for each in others.value] if others else []) == extended


def test_a_subject_is_written_in_the_usual_order_with_one_common_name() -> None:
    parts = (("2.5.4.3", "first"), ("2.5.4.11", "unit"), ("2.5.4.10", "org"), ("2.5.4.3", "last"), ("2.5.4.10", "org2"),
             ("1.2.840.113549.1.9.1", "a@b"))  # fmt: skip
    name = x509.Name([x509.NameAttribute(x509.ObjectIdentifier(oid), value) for oid, value in parts])
    asks = x509.CertificateSigningRequestBuilder().subject_name(name).sign(KEY, hashes.SHA256())
    found = sign(make_authority(KEY), asks, [])
    assert [(each.oid.dotted_string, each.value) for each in found.subject] == [
        ("2.5.4.10", "org"), ("2.5.4.10", "org2"), ("2.5.4.11", "unit"), ("2.5.4.3", "last"),
    ]  # fmt: skip
    assert common_name(asks) == "last"
    nameless = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    assert common_name(nameless.sign(KEY, hashes.SHA256())) == ""


def test_alternative_names_are_critical_where_there_is_no_subject() -> None:
    every = (x509.DNSName("a.example"), x509.RFC822Name("a@b"), x509.IPAddress(ipaddress.ip_address("fd00::1")),
             x509.UniformResourceIdentifier("spiffe://a"))  # fmt: skip
    for named in (True, False):
        builder = x509.CertificateSigningRequestBuilder().subject_name(subject("a") if named else x509.Name([]))
        asks = builder.add_extension(x509.SubjectAlternativeName(every), critical=False).sign(KEY, hashes.SHA256())
        found = sign(make_authority(KEY), asks, []).extensions.get_extension_for_class(x509.SubjectAlternativeName)
        assert (list(found.value), found.critical) == (list(every), not named)
    assert AlternativeNames.of(asks) == AlternativeNames(
        ("a.example",), ("a@b",), (ipaddress.ip_address("fd00::1"),), ("spiffe://a",)
    )
    assert AlternativeNames.of(make_csr("a")) == AlternativeNames()


@pytest.mark.parametrize(
    ("signer", "kind", "name"),
    [
        (KUBELET_CLIENT, "Email", x509.RFC822Name("a@b")),
        (KUBELET_CLIENT, "IP", x509.IPAddress(ipaddress.ip_address("10.0.0.1"))),
        (KUBELET_CLIENT, "URI", x509.UniformResourceIdentifier("spiffe://a")),
        (SERVING, "URI", x509.UniformResourceIdentifier("spiffe://a")),
    ],
)
def test_nodes_have_no_other_names(signer: str, kind: str, name: x509.GeneralName) -> None:
    names = (name, x509.DNSName("n")) if signer == SERVING else (name,)
    usages = SERVES if signer == SERVING else FOR_NODES
    assert SIGNERS[signer](make_csr(*NODES_NAME, names=names), usages) == f"{kind} subjectAltNames are not allowed"


def test_usages_of_nodes_are_these_and_no_others() -> None:
    asks = make_csr(*NODES_NAME)
    wrong = "usages did not match [client auth digital signature key encipherment]"
    for usages in (["client auth"], ["digital signature"], [*FOR_NODES, "server auth"], []):
        assert SIGNERS[KUBELET_CLIENT](asks, usages) == wrong
    assert SIGNERS[CLIENT](asks, ["client auth", "server auth"]) == "invalid usage for client certificate: server auth"
    serving = make_csr("n", "system:nodes", names=(x509.DNSName("n"),))
    assert SIGNERS[SERVING](serving, SERVES) == "subject common name does not begin with system:node:"
    assert SIGNERS[SERVING](make_csr("system:node:n"), SERVES) == "subject organization is not system:nodes"


def test_files_have_one_certificate_and_its_key(pair: Pair, tmp_path: Path) -> None:
    twice = tmp_path / "twice"
    twice.write_bytes(pair.certificate.read_bytes() * 2)
    with pytest.raises(AuthorityError, match="twice: expected 1 certificate, found 2"):
        Pair(twice, pair.key).read()
    with pytest.raises(AuthorityError, match="not a private key in PEM"):
        Pair(pair.certificate, pair.certificate).read()
