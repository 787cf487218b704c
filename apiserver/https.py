"""What a server shows over https, and whose certificates it verifies; both as their files say at the time.

Each new connection is made with what holds then; those that are open go on. Facts: k8s.io/apiserver,
pkg/server/dynamiccertificates.
"""

from __future__ import annotations

import ssl
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from apiserver.api.kubeconfigs import load_chain
from apiserver.api.names import dns_subdomain
from apiserver.reloading import Followed

if TYPE_CHECKING:
    from apiserver.http.handlers.certificates import ClientCertificates
    from apiserver.tlsflags import TlsSettings

__all__ = ["Https", "HttpsError"]


class HttpsError(ValueError):
    """A certificate or a setting that https cannot be spoken with, in one line that names its flag."""


class _Context(ssl.SSLContext):
    """Hands each connection over to the context that holds when it is made: a listening socket keeps the one it began
    with, and an authority that is once in a context cannot be taken out. Sessions are not resumed across the change,
    so nobody comes in with a certificate that was verified before.
    """

    current: ssl.SSLContext

    def wrap_bio(self, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        return self.current.wrap_bio(*args, **kwargs)

    def wrap_socket(self, *args: Any, **kwargs: Any) -> ssl.SSLSocket:
        return self.current.wrap_socket(*args, **kwargs)


class Https:
    """`context` is for the listening socket; `files` are to be followed."""

    def __init__(
        self, files: tuple[Path, Path], options: TlsSettings, certificates: ClientCertificates | None = None
    ) -> None:
        """`files`: a certificate and its key. Raises HttpsError."""
        self._options, self._certificates = options, certificates
        self.context = _Context(ssl.PROTOCOL_TLS_SERVER)
        self._pairs: list[tuple[bytes, bytes]] = []
        try:
            options.restrict(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        except ValueError as error:
            raise HttpsError(str(error)) from None
        certificate, key = files
        self.files = [self._opened(f"--tls-cert-file {certificate}, --tls-private-key-file {key}", certificate, key)]
        for pair in options.named:
            where = f"--tls-sni-cert-key {pair.certificate},{pair.key}"
            self.files.append(self._opened(where, pair.certificate, pair.key))
        self._renew()
        if certificates is not None:
            certificates.changed.append(self._renew)

    def _opened(self, flag: str, certificate: Path, key: Path) -> Followed:
        """A pair, found to be of use. Raises HttpsError."""
        try:
            file = Followed("serving certificate", (certificate, key), partial(self._take, len(self._pairs)))
            pair = file.texts[0], file.texts[1]
            self._made(*pair)
        except (OSError, ValueError) as error:
            raise HttpsError(f"{flag}: not a certificate and its key in PEM ({error})") from error
        self._pairs.append(pair)
        return file

    def _take(self, place: int, certificate: bytes, key: bytes) -> None:
        before = self._pairs
        self._pairs = [*before[:place], (certificate, key), *before[place + 1 :]]
        try:
            self._renew()
        except (OSError, ValueError):
            self._pairs = before
            raise

    def _renew(self) -> None:
        """Raises OSError, ValueError."""
        default, *others = (self._made(*pair) for pair in self._pairs)
        if others:
            default.sni_callback = partial(_choose, self._by_name(others))
        self.context.current = default

    def _by_name(self, contexts: list[ssl.SSLContext]) -> dict[str, ssl.SSLContext]:
        """Names that flags give go before those of certificates, and what is given first before what comes later."""
        own: dict[str, ssl.SSLContext] = {}
        given: dict[str, ssl.SSLContext] = {}
        for pair, (certificate, _), context in zip(self._options.named, self._pairs[1:], contexts, strict=True):
            for name in pair.names:
                given.setdefault(name, context)
            for name in () if pair.names else _names_of(certificate):
                own.setdefault(name, context)
        return own | given

    def _made(self, certificate: bytes, key: bytes) -> ssl.SSLContext:
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._options.restrict(made)
        load_chain(made, certificate, key)
        if self._certificates is not None:
            made.load_verify_locations(cadata=self._certificates.encoded)
            made.verify_mode = ssl.CERT_OPTIONAL
        return made


def _choose(named: dict[str, ssl.SSLContext], connection: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
    """Goes on with the certificate that a client asks for; with the server's own where there is none for the name."""
    asked = (name or "").lower().rstrip(".")
    found = named.get(asked) or named.get("*" + asked[asked.find(".") :] if "." in asked else "*")
    if found is not None:
        connection.context = found


def _names_of(certificate: bytes) -> list[str]:
    """The names that a certificate is for: its common name, where that can be one, and the DNS names of its owner."""
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    found = x509.load_pem_x509_certificate(certificate)
    common = [str(part.value) for part in found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)][-1:]
    names = [name for name in common if name == "*" or not dns_subdomain(name.removeprefix("*."))]
    try:
        others = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return names
    return [*names, *(name.lower() for name in others.get_values_for_type(x509.DNSName))]
