"""The certificate that `--tls` and `kubedra credentials` make: self-signed, for the hosts given, localhost and the
loopback addresses.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
from pathlib import Path

from kubedra import private

_VALID = dt.timedelta(days=365)
#: A certificate is made anew when it has less than this left.
_SPARE = dt.timedelta(days=30)


def own_certificate(directory: Path, *hosts: str) -> tuple[Path, Path]:
    """(certificate, key) files for these names and addresses; those of an earlier start are used again while they are
    valid for all.
    """
    certificate, key = directory / "tls.crt", directory / "tls.key"
    private.make_directory(directory)
    if certificate.exists() and key.exists() and _usable(certificate.read_bytes(), hosts):
        private.close_file(key)
    else:
        _make(certificate, key, hosts)
    return certificate, key


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The host as an address; None where it is a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _usable(pem: bytes, hosts: tuple[str, ...]) -> bool:
    from cryptography import x509

    try:
        certificate = x509.load_pem_x509_certificate(pem)
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, x509.ExtensionNotFound):
        return False
    left = certificate.not_valid_after_utc - dt.datetime.now(dt.UTC)
    known = {*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))}
    return left > _SPARE and {str(_address(host) or host) for host in hosts} <= known


def _make(certificate_file: Path, key_file: Path, hosts: tuple[str, ...]) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubedra")])
    addresses = dict.fromkeys(
        address for host in (*hosts, "127.0.0.1", "::1") if (address := _address(host)) is not None
    )
    spoken = dict.fromkeys(("localhost", "kubernetes.default.svc", *(host for host in hosts if _address(host) is None)))
    names = [*(x509.DNSName(name) for name in spoken), *(x509.IPAddress(address) for address in addresses)]
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(minutes=5))
        .not_valid_after(now + _VALID)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    private.write(key_file, pem)
    private.write(certificate_file, certificate.public_bytes(serialization.Encoding.PEM))
