"""Authorities that sign certificates of clients."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID, ObjectIdentifier

UID = ObjectIdentifier("1.3.6.1.4.1.57683.2")


class Authority:
    """An authority that signs client certificates; its files are in one folder."""

    def __init__(self, folder: Path, name: str, ends: dt.timedelta = dt.timedelta(days=1)) -> None:
        """Create the authority; its certificates end at `ends` from now."""
        self.folder, self._key = folder, ec.generate_private_key(ec.SECP256R1())
        self._ends, self._name = ends, x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        own = self._built(self._name, self._key, ends, ca=True)
        self.file = folder / f"{name}.crt"
        self.file.write_bytes(own.public_bytes(serialization.Encoding.PEM))

    def _built(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, ends: dt.timedelta, *, ca: bool
    ) -> x509.Certificate:
        now = dt.datetime.now(dt.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(minutes=9))
            .not_valid_after(now + ends)
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )

    def client(self, name: str, *organizations: str, uid: str = "", ends: dt.timedelta | None = None) -> Path:
        """Write a certificate and its key into one file; by default it ends with the authority's."""
        parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in organizations]
        parts += [x509.NameAttribute(UID, uid)] if uid else []
        key = ec.generate_private_key(ec.SECP256R1())
        made = self._built(
            x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, name)]), key, ends or self._ends, ca=False
        )
        plain = serialization.NoEncryption()
        pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
        path = self.folder / f"{name}-{len(list(self.folder.iterdir()))}.pem"
        path.write_bytes(made.public_bytes(serialization.Encoding.PEM) + pem)
        return path
