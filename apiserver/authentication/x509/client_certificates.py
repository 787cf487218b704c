"""Identity of a client certificate: a user, or a front proxy that names users in headers.

Every certificate opens a connection (`apiserver.tls.pyopenssl`). Each request verifies it against the authorities of
that time. Their files are read again when they change.
Facts: k8s.io/apiserver, pkg/authentication/request/x509 and headerrequest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from apiserver.request.messages import Peer, User
from apiserver.runtime.clock import now
from apiserver.runtime.reloading import ReloadedFiles

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

    from apiserver.authentication.settings import IdentitySettings, ProxySettings

__all__ = ["CertificateError", "ClientCertificates", "PresentedCertificates", "get_proxied_user"]

AUTHENTICATED: Final = "system:authenticated"
_CREDENTIAL: Final = "authentication.kubernetes.io/credential-id"
#: The subject's attribute with a user's uid.
_UID: Final = "1.3.6.1.4.1.57683.2"


class CertificateError(ValueError):
    """Error in a file of authorities, in one line."""


class ClientCertificates:
    """The authorities of one server for users' and front proxies' certificates.

    The callbacks in `changed` run when the authorities change.
    """

    def __init__(self, settings: IdentitySettings, *, with_uid: bool) -> None:
        """Load the authorities. Raise CertificateError."""
        self._with_uid = with_uid
        self._names = settings.proxy.names if settings.proxy else ()
        self._of_clients, self._of_proxies = bool(settings.user_authorities), settings.proxy is not None
        self.clients: list[Certificate] = []
        self.proxies: list[Certificate] = []
        #: All authorities; replaced by a new list at every change.
        self.authorities: list[Certificate] = []
        self.changed: list[Callable[[], object]] = []
        #: The files to watch.
        self.files: list[ReloadedFiles] = []
        if settings.user_authorities:
            self._open("--client-ca-file", settings.user_authorities, self._load_clients)
        if settings.proxy is not None:
            self._open("--requestheader-client-ca-file", (settings.proxy.ca,), self._load_proxies)

    def _open(self, flag: str, paths: tuple[Path, ...], load: Callable[..., None]) -> None:
        try:
            file = ReloadedFiles(flag, paths, load)
            load(*file.texts)
        except (OSError, ValueError) as error:
            raise CertificateError(f"{flag} {paths[0]}: {error}") from error
        self.files.append(file)

    def _load_clients(self, *texts: bytes) -> None:
        self.clients = [certificate for text in texts for certificate in _read(text)]
        self._notify()

    def _load_proxies(self, text: bytes) -> None:
        self.proxies = _read(text)
        self._notify()

    def _notify(self) -> None:
        self.authorities = [*self.clients, *self.proxies]
        for listener in self.changed:
            listener()

    def peer(self, chain: Sequence[Certificate], at: datetime) -> Peer:
        """Return the identity of a certificate chain at a time. Raise the errors in `chains.UNREADABLE`."""
        from cryptography.x509.oid import NameOID

        from apiserver.authentication.x509.verify_chain import is_trusted_chain

        certificate = chain[0]
        names = [str(part.value) for part in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
        name = names[-1] if names else ""
        client = self._of_clients and is_trusted_chain(chain, self.clients, at)
        proxy = (
            self._of_proxies and is_trusted_chain(chain, self.proxies, at) and (not self._names or name in self._names)
        )
        user = self._user(certificate, name) if client and name else None
        refused = (self._of_clients and not client) or (self._of_proxies and not proxy)
        return Peer(user, proxy, certificate.not_valid_after_utc.timestamp(), refused)

    def _user(self, certificate: Certificate, name: str) -> User:
        from cryptography.hazmat.primitives.serialization import Encoding
        from cryptography.x509 import ObjectIdentifier
        from cryptography.x509.oid import NameOID

        subject = certificate.subject
        groups = [str(part.value) for part in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
        uids = subject.get_attributes_for_oid(ObjectIdentifier(_UID)) if self._with_uid else []
        digest = hashlib.sha256(certificate.public_bytes(Encoding.DER)).hexdigest()
        extra = {_CREDENTIAL: (f"X509SHA256={digest}",)}
        return User(name, str(uids[0].value) if uids else "", (*groups, AUTHENTICATED), extra)


class PresentedCertificates:
    """The certificates that a client presented when it connected.

    The identity may change while the connection is open: certificates expire and authorities change.
    """

    def __init__(self, certificates: ClientCertificates, encoded: Sequence[bytes]) -> None:
        """Set the certificates in DER: the client's first, then the others that it sent."""
        self._certificates, self._encoded = certificates, encoded
        self._peer = Peer(None, refused=True)
        self._authorities: list[Certificate] | None = None
        self._since = self._until = 0.0

    def peer(self) -> Peer:
        """Return the current identity."""
        time, authorities = now(), self._certificates.authorities
        if not (authorities is self._authorities and self._since <= time.timestamp() < self._until):
            self._verify(time, authorities)
        return self._peer

    def _verify(self, time: datetime, authorities: list[Certificate]) -> None:
        from cryptography import x509

        from apiserver.authentication.x509.verify_chain import UNREADABLE

        self._authorities, self._since, self._until = authorities, -inf, inf
        try:
            chain = [x509.load_der_x509_certificate(each) for each in self._encoded]
            self._peer = self._certificates.peer(chain, time)
            self._since, self._until = _get_validity_period(time.timestamp(), [*chain, *authorities])
        except UNREADABLE:
            self._peer = Peer(None, refused=True)  # A malformed certificate has no identity.


def _get_validity_period(at: float, certificates: list[Certificate]) -> tuple[float, float]:
    """Return the period around a time in which none of these certificates becomes valid or expires."""
    times = [each.not_valid_before_utc.timestamp() for each in certificates]
    times += [each.not_valid_after_utc.timestamp() for each in certificates]
    return max((time for time in times if time <= at), default=-inf), min((t for t in times if t > at), default=inf)


def _read(text: bytes) -> list[Certificate]:
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificates(text)
    except ValueError as error:
        raise ValueError(f"no certificates in PEM ({error})") from error


def get_proxied_user(headers: Mapping[str, str], proxy: ProxySettings) -> User | None:
    """Return the user that a front proxy names, or None. Repeated headers are joined by newlines."""

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
