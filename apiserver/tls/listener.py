"""Serve https with certificates and client authorities that follow their files.

Each new connection uses the current files; open connections continue. If client certificates are requested,
connections are pyOpenSSL's (`apiserver.tls.pyopenssl`), otherwise those of `ssl`, which cost less per request. Facts:
k8s.io/apiserver, pkg/server/dynamiccertificates.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from apiserver.api.values.names import dns_subdomain
from apiserver.runtime.reloading import ReloadedFiles
from kubedra.kubeconfig.credentials import load_chain

if TYPE_CHECKING:
    from apiserver.authentication.x509.client_certificates import ClientCertificates
    from apiserver.tls.pyopenssl import ClientCertificateContext
    from apiserver.tls.settings import TlsSettings

    _ServerContext = ssl.SSLContext | ClientCertificateContext

__all__ = ["Https", "HttpsError"]


class HttpsError(ValueError):
    """A certificate or a setting that https cannot use, in one line that names its flag."""


class _Context(ssl.SSLContext):
    """Delegates each connection to the current context: a listening socket keeps the context it started with.

    Event loops require an `ssl.SSLContext`, whatever creates the connection.
    """

    current: _ServerContext

    def wrap_bio(self, *args: Any, **kwargs: Any) -> Any:
        return self.current.wrap_bio(*args, **kwargs)


class Https:
    """The https settings of a server: `context` is for the listening socket; the caller follows `files`."""

    def __init__(
        self, files: tuple[Path, Path], options: TlsSettings, certificates: ClientCertificates | None = None
    ) -> None:
        """Load the certificates. `files` are a certificate and its key. Raise HttpsError."""
        self._options, self._certificates = options, certificates
        self.context = _Context(ssl.PROTOCOL_TLS_SERVER)
        self._pairs: list[tuple[bytes, bytes]] = []
        try:
            self._check()
        except ValueError as error:
            raise HttpsError(str(error)) from None
        certificate, key = files
        self.files = [self._open_pair(f"--tls-cert-file {certificate}, --tls-private-key-file {key}", certificate, key)]
        for pair in options.named:
            where = f"--tls-sni-cert-key {pair.certificate},{pair.key}"
            self.files.append(self._open_pair(where, pair.certificate, pair.key))
        self._renew()
        if certificates is not None:
            certificates.changed.append(self._renew)

    def _check(self) -> None:
        """Raise ValueError for unsupported flags."""
        if self._certificates is None:
            self._options.restrict(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
            return
        from apiserver.tls.pyopenssl import build_context

        build_context(self._options)

    def _open_pair(self, flag: str, certificate: Path, key: Path) -> ReloadedFiles:
        """Load and check a pair. Raise HttpsError."""
        try:
            file = ReloadedFiles(
                "serving certificate", (certificate, key), partial(self._replace_pair, len(self._pairs))
            )
            pair = file.texts[0], file.texts[1]
            self._build_context(*pair)
        except (OSError, ValueError) as error:
            raise HttpsError(f"{flag}: not a certificate and its key in PEM ({error})") from error
        self._pairs.append(pair)
        return file

    def _replace_pair(self, place: int, certificate: bytes, key: bytes) -> None:
        before = self._pairs
        self._pairs = [*before[:place], (certificate, key), *before[place + 1 :]]
        try:
            self._renew()
        except (OSError, ValueError):
            self._pairs = before
            raise

    def _renew(self) -> None:
        """Build the current context from all pairs. Raise OSError or ValueError."""
        default, *others = (self._build_context(*pair) for pair in self._pairs)
        if others:
            found = partial(_find_context, self._by_name(others))
            if isinstance(default, ssl.SSLContext):
                default.sni_callback = partial(_choose, found)
            else:
                default.choose(found)
        self.context.current = default

    def _by_name(self, contexts: list[_ServerContext]) -> dict[str, _ServerContext]:
        """Map names to contexts. Names in flags precede those of certificates, and earlier ones precede later ones."""
        own: dict[str, _ServerContext] = {}
        given: dict[str, _ServerContext] = {}
        for pair, (certificate, _), context in zip(self._options.named, self._pairs[1:], contexts, strict=True):
            for name in pair.names:
                given.setdefault(name, context)
            for name in () if pair.names else _names_of(certificate):
                own.setdefault(name, context)
        return own | given

    def _build_context(self, certificate: bytes, key: bytes) -> _ServerContext:
        """Build the context of a pair. Raise OSError or ValueError."""
        if self._certificates is not None:
            from apiserver.tls.pyopenssl import ClientCertificateContext

            return ClientCertificateContext(certificate, key, self._options, self._certificates.authorities)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._options.restrict(context)
        load_chain(context, certificate, key)
        return context


def _find_context(named: dict[str, _ServerContext], name: str | None) -> _ServerContext | None:
    """Return the context for the server name that a client sent; None for the default one."""
    asked = (name or "").lower().rstrip(".")
    return named.get(asked) or named.get("*" + asked[asked.find(".") :] if "." in asked else "*")


def _choose(
    by_name: Callable[[str | None], Any], connection: ssl.SSLObject, name: str | None, _: ssl.SSLContext
) -> None:
    found = by_name(name)
    if found is not None:
        connection.context = found


def _names_of(certificate: bytes) -> list[str]:
    """Return the names of a certificate: its common name if it is a host name, and its alternative DNS names."""
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
