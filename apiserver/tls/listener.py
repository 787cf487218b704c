"""What a server shows over https, and whether it asks clients for certificates; both as their files say at the time.

Each new connection is made with what holds then; those that are open go on. Where clients are asked, connections are
pyOpenSSL's (`apiserver.tls.pyopenssl`), elsewhere those of `ssl`, which cost a request less. Facts: k8s.io/apiserver,
pkg/server/dynamiccertificates.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from apiserver.api.values.names import dns_subdomain
from apiserver.runtime.reloading import Followed
from kubedra.kubeconfig.credentials import load_chain

if TYPE_CHECKING:
    from apiserver.authentication.x509.client_certificates import ClientCertificates
    from apiserver.tls.pyopenssl import TakingContext
    from apiserver.tls.settings import TlsSettings

    _Made = ssl.SSLContext | TakingContext

__all__ = ["Https", "HttpsError"]


class HttpsError(ValueError):
    """A certificate or a setting that https cannot be spoken with, in one line that names its flag."""


class _Context(ssl.SSLContext):
    """Hands each connection over to the context that holds when it is made: a listening socket keeps the one it began
    with. Event loops want an `ssl.SSLContext`, whatever makes the connection.
    """

    current: _Made

    def wrap_bio(self, *args: Any, **kwargs: Any) -> Any:
        return self.current.wrap_bio(*args, **kwargs)


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
            self._check()
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

    def _check(self) -> None:
        """Raises ValueError for flags that cannot be followed."""
        if self._certificates is None:
            self._options.restrict(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
            return
        from apiserver.tls.pyopenssl import restricted

        restricted(self._options)

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
            found = partial(_found, self._by_name(others))
            if isinstance(default, ssl.SSLContext):
                default.sni_callback = partial(_choose, found)
            else:
                default.choose(found)
        self.context.current = default

    def _by_name(self, contexts: list[_Made]) -> dict[str, _Made]:
        """Names that flags give go before those of certificates, and what is given first before what comes later."""
        own: dict[str, _Made] = {}
        given: dict[str, _Made] = {}
        for pair, (certificate, _), context in zip(self._options.named, self._pairs[1:], contexts, strict=True):
            for name in pair.names:
                given.setdefault(name, context)
            for name in () if pair.names else _names_of(certificate):
                own.setdefault(name, context)
        return own | given

    def _made(self, certificate: bytes, key: bytes) -> _Made:
        """What a pair is shown with. Raises OSError, ValueError."""
        if self._certificates is not None:
            from apiserver.tls.pyopenssl import TakingContext

            return TakingContext(certificate, key, self._options, self._certificates.authorities)
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._options.restrict(made)
        load_chain(made, certificate, key)
        return made


def _found(named: dict[str, _Made], name: str | None) -> _Made | None:
    """What there is for the name that a client asks for; None where it gets the server's own."""
    asked = (name or "").lower().rstrip(".")
    return named.get(asked) or named.get("*" + asked[asked.find(".") :] if "." in asked else "*")


def _choose(
    by_name: Callable[[str | None], Any], connection: ssl.SSLObject, name: str | None, _: ssl.SSLContext
) -> None:
    found = by_name(name)
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
