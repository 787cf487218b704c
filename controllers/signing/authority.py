"""A certificate authority: a certificate with its key.

Subject, extensions and validity of signed certificates follow upstream's pkg/controller/certificates/authority.
`cryptography` is loaded with the first certificate.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes

__all__ = ["AlternativeNames", "Authority", "AuthorityError", "Pair"]

#: Backdating of certificates, which allows for clock skew.
_BACKDATE: Final = timedelta(minutes=5)
#: Certificates with a shorter lifetime have it in full from now on.
_SHORT: Final = timedelta(hours=8)
#: The signed parts of a subject in order. Of parts in `_LAST` only the last value is signed, of others all.
_SUBJECT: Final = (
    "2.5.4.6", "2.5.4.10", "2.5.4.11", "2.5.4.7", "2.5.4.8", "2.5.4.9", "2.5.4.17", "2.5.4.3", "2.5.4.5",
)  # fmt: skip
_LAST: Final = ("2.5.4.3", "2.5.4.5")
_EXTENDED: Final = {
    "any": "2.5.29.37.0",
    "server auth": "1.3.6.1.5.5.7.3.1",
    "client auth": "1.3.6.1.5.5.7.3.2",
    "code signing": "1.3.6.1.5.5.7.3.3",
    "email protection": "1.3.6.1.5.5.7.3.4",
    "s/mime": "1.3.6.1.5.5.7.3.4",
    "ipsec end system": "1.3.6.1.5.5.7.3.5",
    "ipsec tunnel": "1.3.6.1.5.5.7.3.6",
    "ipsec user": "1.3.6.1.5.5.7.3.7",
    "timestamping": "1.3.6.1.5.5.7.3.8",
    "ocsp signing": "1.3.6.1.5.5.7.3.9",
    "microsoft sgc": "1.3.6.1.4.1.311.10.3.3",
    "netscape sgc": "2.16.840.1.113730.4.1",
}
#: Argument of `x509.KeyUsage` by usage.
_BASIC: Final = {
    "signing": "digital_signature",
    "digital signature": "digital_signature",
    "content commitment": "content_commitment",
    "key encipherment": "key_encipherment",
    "data encipherment": "data_encipherment",
    "key agreement": "key_agreement",
    "cert sign": "key_cert_sign",
    "crl sign": "crl_sign",
    "encipher only": "encipher_only",
    "decipher only": "decipher_only",
}


class AuthorityError(ValueError):
    """An authority is unusable. The text is one line."""


class Pair(NamedTuple):
    """The PEM files of an authority."""

    certificate: Path
    key: Path

    def read(self) -> Authority:
        """Load the authority from its files. Raise AuthorityError."""
        from cryptography import x509
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        try:
            found = x509.load_pem_x509_certificates(self.certificate.read_bytes())
        except (OSError, ValueError) as error:
            raise AuthorityError(f"{self.certificate}: not a certificate in PEM ({error})") from None
        if len(found) != 1:
            raise AuthorityError(f"{self.certificate}: expected 1 certificate, found {len(found)}")
        try:
            key = load_pem_private_key(self.key.read_bytes(), None)
        except (OSError, ValueError, TypeError) as error:
            raise AuthorityError(f"{self.key}: not a private key in PEM ({error})") from None
        if key.public_key() != found[0].public_key():
            raise AuthorityError(f"{self.key}: not the key of {self.certificate}")
        return Authority(found[0], key)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class AlternativeNames:
    """The subject alternative names of a request."""

    dns: tuple[str, ...] = ()
    emails: tuple[str, ...] = ()
    addresses: tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, ...] = ()
    uris: tuple[str, ...] = ()

    @staticmethod
    def of(request: x509.CertificateSigningRequest) -> AlternativeNames:
        """Return the names of a request."""
        from cryptography import x509

        try:
            names = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except x509.ExtensionNotFound:
            return AlternativeNames()
        addresses = names.get_values_for_type(x509.IPAddress)
        return AlternativeNames(
            tuple(names.get_values_for_type(x509.DNSName)),
            tuple(names.get_values_for_type(x509.RFC822Name)),
            tuple(found for found in addresses if isinstance(found, (ipaddress.IPv4Address, ipaddress.IPv6Address))),
            tuple(names.get_values_for_type(x509.UniformResourceIdentifier)),
        )


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate with its key."""

    certificate: x509.Certificate
    key: CertificateIssuerPrivateKeyTypes

    def sign(
        self, request: x509.CertificateSigningRequest, usages: Iterable[str], lifetime: timedelta, now: datetime
    ) -> bytes:
        """Return a signed certificate in PEM. Raise AuthorityError if the authority has expired."""
        from cryptography import x509
        from cryptography.hazmat.primitives.serialization import Encoding

        begin, end = self._validity(lifetime, now)
        subject = _subject(request.subject)
        builder = (
            x509.CertificateBuilder()
            .serial_number(x509.random_serial_number())
            .issuer_name(self.certificate.subject)
            .subject_name(subject)
            .public_key(request.public_key())
            .not_valid_before(begin)
            .not_valid_after(end)
        )
        for extension, critical in (
            *_usages(frozenset(usages)),
            (x509.BasicConstraints(ca=False, path_length=None), True),
            *self._key_identifier(),
            *_names(AlternativeNames.of(request), critical=not subject.rdns),
        ):
            builder = builder.add_extension(extension, critical)
        return builder.sign(self.key, self._hash()).public_bytes(Encoding.PEM)

    def _validity(self, lifetime: timedelta, now: datetime) -> tuple[datetime, datetime]:
        last = self.certificate.not_valid_after_utc
        if now >= last:
            raise AuthorityError(f"the signer has expired: NotAfter={last:%Y-%m-%d %H:%M:%S} +0000 UTC")
        rest = lifetime - (timedelta() if lifetime < _SHORT else _BACKDATE)
        return now - _BACKDATE, now + min(last - now, rest)

    def _key_identifier(self) -> Iterable[tuple[x509.ExtensionType, bool]]:
        """Yield the authority key identifier, if the authority has one."""
        from cryptography import x509

        try:
            own = self.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
        except x509.ExtensionNotFound:
            return
        yield x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own), False

    def _hash(self) -> hashes.SHA256 | hashes.SHA384 | hashes.SHA512 | None:
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec, ed25519

        if isinstance(self.key, ed25519.Ed25519PrivateKey):
            return None
        bits = self.key.key_size if isinstance(self.key, ec.EllipticCurvePrivateKey) else 256
        if bits == 384:
            return hashes.SHA384()
        return hashes.SHA512() if bits == 521 else hashes.SHA256()


def _subject(requested: x509.Name) -> x509.Name:
    from cryptography import x509

    parts = []
    for dotted in _SUBJECT:
        found = requested.get_attributes_for_oid(x509.ObjectIdentifier(dotted))
        if found:
            parts.append(x509.RelativeDistinguishedName(dict.fromkeys(found[-1:] if dotted in _LAST else found)))
    return x509.Name(parts)


def _usages(usages: frozenset[str]) -> Iterable[tuple[x509.ExtensionType, bool]]:
    from cryptography import x509

    basic = dict.fromkeys(_BASIC.values(), False) | {_BASIC[usage]: True for usage in usages if usage in _BASIC}
    if not basic["key_agreement"]:
        # Without key agreement both are undefined (RFC 5280), and the library rejects them.
        basic["encipher_only"] = basic["decipher_only"] = False
    if any(basic.values()):
        yield x509.KeyUsage(**basic), True
    extended = dict.fromkeys(dotted for usage, dotted in _EXTENDED.items() if usage in usages)
    if extended:
        yield x509.ExtendedKeyUsage(map(x509.ObjectIdentifier, extended)), False


def _names(names: AlternativeNames, *, critical: bool) -> Iterable[tuple[x509.ExtensionType, bool]]:
    from cryptography import x509

    found: list[x509.GeneralName] = [
        *map(x509.DNSName, names.dns),
        *map(x509.RFC822Name, names.emails),
        *map(x509.IPAddress, names.addresses),
        *map(x509.UniformResourceIdentifier, names.uris),
    ]
    if found:
        yield x509.SubjectAlternativeName(found), critical
