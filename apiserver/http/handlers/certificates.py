"""Who a client's certificate is of: a user, or a front proxy that asks for others and names them in headers.

A certificate is verified when the connection is made, against all authorities that count; here it is told which of them
signed it. Facts: k8s.io/apiserver, pkg/authentication/request/x509 and headerrequest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from apiserver.messages import Peer, User

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

    from apiserver.identityflags import IdentitySettings, ProxySettings

__all__ = ["CertificateError", "ClientCertificates", "proxied_user"]

AUTHENTICATED: Final = "system:authenticated"
_CREDENTIAL: Final = "authentication.kubernetes.io/credential-id"
#: The part of a subject that holds a user's uid.
_UID: Final = "1.3.6.1.4.1.57683.2"


class CertificateError(ValueError):
    """A file of authorities that cannot be used, in one line."""


class ClientCertificates:
    """The authorities of one server. Raises CertificateError."""

    def __init__(self, settings: IdentitySettings, *, with_uid: bool) -> None:
        self._with_uid = with_uid
        self._clients = _load("--client-ca-file", settings.client_ca)
        self._proxies = _load("--requestheader-client-ca-file", settings.proxy.ca if settings.proxy else None)
        self._names = settings.proxy.names if settings.proxy else ()

    def peer(self, encoded: bytes) -> Peer:
        """Whom a verified certificate names."""
        from cryptography import x509
        from cryptography.x509.oid import NameOID

        certificate = x509.load_der_x509_certificate(encoded)
        names = [str(part.value) for part in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
        name = names[-1] if names else ""
        # One that an authority in between signed was verified, too: of the only ones there are, if so.
        client = _signed(certificate, self._clients) or not self._proxies
        proxy = _signed(certificate, self._proxies) and (not self._names or name in self._names)
        return Peer(self._user(certificate, name, encoded) if client and name else None, proxy)

    def _user(self, certificate: Certificate, name: str, encoded: bytes) -> User:
        from cryptography.x509 import ObjectIdentifier
        from cryptography.x509.oid import NameOID

        subject = certificate.subject
        groups = [str(part.value) for part in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
        uids = subject.get_attributes_for_oid(ObjectIdentifier(_UID)) if self._with_uid else []
        extra = {_CREDENTIAL: (f"X509SHA256={hashlib.sha256(encoded).hexdigest()}",)}
        return User(name, str(uids[0].value) if uids else "", (*groups, AUTHENTICATED), extra)


def _load(flag: str, path: Path | None) -> list[Certificate]:
    if path is None:
        return []
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificates(path.read_bytes())
    except (OSError, ValueError) as error:
        raise CertificateError(f"{flag} {path}: no certificates in PEM ({error})") from error


def _signed(certificate: Certificate, authorities: list[Certificate]) -> bool:
    from cryptography.exceptions import InvalidSignature

    for authority in authorities:
        try:
            certificate.verify_directly_issued_by(authority)
        except (ValueError, TypeError, InvalidSignature):
            continue
        return True
    return False


def proxied_user(headers: Mapping[str, str], proxy: ProxySettings) -> User | None:
    """For whom a front proxy asks; None where it does not say. Repeated headers come joined by newlines."""

    def first(names: tuple[str, ...]) -> str:
        return next((headers[name].partition("\n")[0] for name in names if headers.get(name)), "")

    name = first(proxy.user)
    if not name:
        return None
    groups = [group for header in proxy.group for group in headers.get(header, "").split("\n") if group]
    extra: dict[str, tuple[str, ...]] = {}
    for prefix in proxy.extra:
        for header, value in headers.items():
            if header.startswith(prefix):
                key = unquote(header.removeprefix(prefix))
                extra[key] = (*extra.get(key, ()), *value.split("\n"))
    return User(name, first(proxy.uid), (*groups, AUTHENTICATED), extra)
