"""Who a client's certificate is of: a user, or a front proxy that asks for others and names them in headers.

A certificate is verified when the connection is made, against all authorities that count; here it is told which of them
signed it. The authorities' files are read again when they change.
Facts: k8s.io/apiserver, pkg/authentication/request/x509 and headerrequest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from apiserver.messages import Peer, User
from apiserver.reloading import Followed

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
    """The authorities of one server: those of users' certificates, and those of front proxies'. What is in `changed` is
    called when others take their place.
    """

    def __init__(self, settings: IdentitySettings, *, with_uid: bool) -> None:
        """Raises CertificateError."""
        self._with_uid = with_uid
        self._names = settings.proxy.names if settings.proxy else ()
        self.clients: list[Certificate] = []
        self.proxies: list[Certificate] = []
        self.changed: list[Callable[[], object]] = []
        #: The files, for those who follow them.
        self.files: list[Followed] = []
        self._open("--client-ca-file", settings.client_ca, self._take_clients)
        if settings.proxy is not None:
            self._open("--requestheader-client-ca-file", settings.proxy.ca, self._take_proxies)

    @property
    def encoded(self) -> bytes:
        """All authorities, as `ssl` takes them."""
        from cryptography.hazmat.primitives.serialization import Encoding

        return b"".join(authority.public_bytes(Encoding.DER) for authority in (*self.clients, *self.proxies))

    def _open(self, flag: str, path: Path | None, take: Callable[[bytes], None]) -> None:
        if path is None:
            return
        try:
            file = Followed(flag, (path,), take)
            take(*file.texts)
        except (OSError, ValueError) as error:
            raise CertificateError(f"{flag} {path}: {error}") from error
        self.files.append(file)

    def _take_clients(self, text: bytes) -> None:
        self.clients = _read(text)
        self._tell()

    def _take_proxies(self, text: bytes) -> None:
        self.proxies = _read(text)
        self._tell()

    def _tell(self) -> None:
        for told in self.changed:
            told()

    def peer(self, encoded: bytes) -> Peer:
        """Whom a verified certificate names."""
        from cryptography import x509
        from cryptography.x509.oid import NameOID

        certificate = x509.load_der_x509_certificate(encoded)
        names = [str(part.value) for part in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
        name = names[-1] if names else ""
        # One that an authority in between signed was verified, too: of the only ones there are, if so.
        client = _signed(certificate, self.clients) or not self.proxies
        proxy = _signed(certificate, self.proxies) and (not self._names or name in self._names)
        user = self._user(certificate, name, encoded) if client and name else None
        return Peer(user, proxy, certificate.not_valid_after_utc.timestamp())

    def _user(self, certificate: Certificate, name: str, encoded: bytes) -> User:
        from cryptography.x509 import ObjectIdentifier
        from cryptography.x509.oid import NameOID

        subject = certificate.subject
        groups = [str(part.value) for part in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
        uids = subject.get_attributes_for_oid(ObjectIdentifier(_UID)) if self._with_uid else []
        extra = {_CREDENTIAL: (f"X509SHA256={hashlib.sha256(encoded).hexdigest()}",)}
        return User(name, str(uids[0].value) if uids else "", (*groups, AUTHENTICATED), extra)


def _read(text: bytes) -> list[Certificate]:
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificates(text)
    except ValueError as error:
        raise ValueError(f"no certificates in PEM ({error})") from error


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
