"""Create the self-signed certificate of `--tls` and `kubedra credentials`, and the authority that signs requests.

The certificate is for the given hosts, localhost and the loopback addresses. The authority signs
CertificateSigningRequests.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kubedra.runtime import private_files as private

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.x509 import CertificateBuilder

_VALID = dt.timedelta(days=365)
#: A certificate is replaced when less than this is left.
_SPARE = dt.timedelta(days=30)
#: The component that signs certificates.
SIGNER: Final = "certificatesigningrequest-signing-controller"
_AUTHORITY: Final = "signing-ca.crt"
_FIRST_DAY: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
#: "No well-defined expiration" (RFC 5280).
_LAST_DAY: Final = dt.datetime(9999, 12, 31, 23, 59, 59, tzinfo=dt.UTC)


def load_or_create_certificate(directory: Path, *hosts: str, rsa: bool = False) -> tuple[Path, Path]:
    """Return the (certificate, key) files for these names and addresses.

    Files of an earlier start are reused while they are valid for all. `rsa` requests an RSA key, which takes longer to
    generate, for cipher suites that need one.
    """
    certificate, key = directory / "tls.crt", directory / "tls.key"
    private.make_directory(directory)
    if certificate.exists() and key.exists() and _usable(certificate.read_bytes(), hosts, rsa=rsa):
        private.close_file(key)
    else:
        _create_certificate(certificate, key, hosts, rsa=rsa)
    return certificate, key


def load_or_create_authority(directory: Path) -> tuple[Path, Path]:
    """Return the (certificate, key) files of an authority, created if missing. Raise OSError.

    It is valid at any time: the certificates it signs are valid by the control plane's clock, which may be virtual.
    """
    certificate, key = directory / _AUTHORITY, directory / "signing-ca.key"
    private.make_directory(directory)
    if certificate.exists() and key.exists():
        private.close_file(key)
    else:
        _create_authority(certificate, key)
    return certificate, key


def _create_authority(certificate_file: Path, key_file: Path) -> None:
    from cryptography import x509

    # The number distinguishes the authorities of several control planes.
    key, builder = _build_self_signed(f"kubedra-signer@{secrets.randbits(32)}", _FIRST_DAY, _LAST_DAY)
    signs = dict.fromkeys(
        ("content_commitment", "data_encipherment", "key_agreement", "crl_sign", "encipher_only", "decipher_only"),
        False,
    )
    usage = x509.KeyUsage(digital_signature=True, key_encipherment=True, key_cert_sign=True, **signs)
    builder = (
        builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    _write(builder, key, certificate_file, key_file)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the host as an address, or None for a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _usable(pem: bytes, hosts: tuple[str, ...], *, rsa: bool) -> bool:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

    try:
        certificate = x509.load_pem_x509_certificate(pem)
        if rsa and not isinstance(certificate.public_key(), RSAPublicKey):
            return False
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, x509.ExtensionNotFound):
        return False
    left = certificate.not_valid_after_utc - dt.datetime.now(dt.UTC)
    known = {*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))}
    return left > _SPARE and {str(_address(host) or host) for host in hosts} <= known


def _create_certificate(certificate_file: Path, key_file: Path, hosts: tuple[str, ...], *, rsa: bool) -> None:
    from cryptography import x509

    addresses = dict.fromkeys(
        address for host in (*hosts, "127.0.0.1", "::1") if (address := _address(host)) is not None
    )
    spoken = dict.fromkeys(("localhost", "kubernetes.default.svc", *(host for host in hosts if _address(host) is None)))
    names = [*(x509.DNSName(name) for name in spoken), *(x509.IPAddress(address) for address in addresses)]
    now = dt.datetime.now(dt.UTC)
    key, builder = _build_self_signed("kubedra", now - dt.timedelta(minutes=5), now + _VALID, rsa=rsa)
    builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False).add_extension(
        x509.BasicConstraints(ca=True, path_length=0), critical=True
    )
    _write(builder, key, certificate_file, key_file)


def _build_self_signed(
    name: str, first: dt.datetime, last: dt.datetime, *, rsa: bool = False
) -> tuple[EllipticCurvePrivateKey | RSAPrivateKey, CertificateBuilder]:
    """Generate a key, and prepare a certificate for `name` that it signs itself, valid from `first` until `last`."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
    from cryptography.x509.oid import NameOID

    key = generate_private_key(65537, 2048) if rsa else ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(first)
        .not_valid_after(last)
    )
    return key, builder


def _write(
    builder: CertificateBuilder, key: EllipticCurvePrivateKey | RSAPrivateKey, certificate_file: Path, key_file: Path
) -> None:
    from cryptography.hazmat.primitives import hashes, serialization

    certificate = builder.sign(key, hashes.SHA256())
    plain = serialization.NoEncryption()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    private.write(key_file, pem)
    private.write(certificate_file, certificate.public_bytes(serialization.Encoding.PEM))
