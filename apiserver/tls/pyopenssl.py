"""TLS by pyOpenSSL, for servers that ask clients for certificates.

Python's `ssl` aborts the handshake of a client whose certificate it cannot verify. Kubernetes accepts the connection
and answers its requests: with 401, or by a valid token. Every certificate is therefore accepted here, and request
authentication verifies it (`apiserver.authentication.x509.client_certificates`). Clients receive the names of the
accepted authorities, by which they choose a certificate.

Event loops use a connection through the methods of `ssl.SSLObject`, which `TakingConnection` implements, and through
`ssl.MemoryBIO`.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, cast

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from OpenSSL import SSL
from OpenSSL.crypto import FILETYPE_ASN1, X509, dump_certificate

if TYPE_CHECKING:
    from apiserver.tls.settings import TlsSettings

__all__ = ["ClientCertificateConnection", "ClientCertificateContext", "build_context"]

#: Maximum bytes of a record's content, and of a record on the wire.
_RECORD: Final = 16 * 1024
_ON_THE_WIRE: Final = _RECORD + 512
_CURVES: Final[dict[str, ec.EllipticCurve]] = {
    "prime256v1": ec.SECP256R1(),
    "secp384r1": ec.SECP384R1(),
    "secp521r1": ec.SECP521R1(),
}
_OPTIONS: Final = (
    SSL.OP_ALL
    | SSL.OP_NO_COMPRESSION
    | SSL.OP_NO_RENEGOTIATION
    | SSL.OP_CIPHER_SERVER_PREFERENCE
    # A resumed session would have a certificate without its chain.
    | SSL.OP_NO_TICKET
)


def build_context(options: TlsSettings) -> SSL.Context:
    """Build a context restricted by the flags. Raise ValueError, in one line that names the flag."""
    context = SSL.Context(SSL.TLS_SERVER_METHOD)
    context.set_options(_OPTIONS)
    context.set_session_cache_mode(SSL.SESS_CACHE_OFF)
    context.set_session_id(b"kubedra")
    context.set_min_proto_version(options.minimum)
    try:
        context.set_cipher_list(_suites(options).encode())
    except SSL.Error as error:
        library = SSL.OpenSSL_version(SSL.OPENSSL_VERSION).decode()
        raise ValueError(f"--tls-cipher-suites: {library} supports none of these ({_error_text(error)})") from None
    if options.curve:
        if options.curve not in _CURVES:
            flag = f"--tls-curve-preferences {options.curve}"
            raise ValueError(f"{flag}: with client certificates only 23, 24 and 25 are supported")
        context.set_tmp_ecdh(_CURVES[options.curve])
    return context


class ClientCertificateContext:
    """A context whose connections ask for certificates and accept any."""

    def __init__(
        self, certificate: bytes, key: bytes, options: TlsSettings, authorities: Sequence[x509.Certificate]
    ) -> None:
        """Build the context from the server's `certificate` and `key` in PEM. Raise ValueError.

        `authorities` are those whose names are sent to clients.
        """
        self.openssl = context = build_context(options)
        try:
            own, *others = x509.load_pem_x509_certificates(certificate)
            context.use_certificate(own)
            for other in others:
                context.add_extra_chain_cert(other)
            context.use_privatekey(cast(Any, load_pem_private_key(key, None)))
        except (SSL.Error, TypeError) as error:
            raise ValueError(_error_text(error)) from None
        for authority in {each.subject: each for each in authorities}.values():
            context.add_client_ca(authority)
        context.set_verify(SSL.VERIFY_PEER, _accept_certificate)

    def choose(self, by_name: Callable[[str | None], Any]) -> None:
        """Switch each connection to the context that `by_name` returns for the client's server name."""

        def switch(connection: SSL.Connection) -> None:
            name = connection.get_servername()
            found = by_name(name.decode("ascii", "replace") if name else None)
            if found is not None:
                connection.set_context(found.openssl)

        self.openssl.set_tlsext_servername_callback(switch)

    def wrap_bio(
        self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, server_side: bool = True, **_: Any
    ) -> ClientCertificateConnection:
        assert server_side
        return ClientCertificateConnection(self.openssl, incoming, outgoing)


class ClientCertificateConnection:
    """One connection, with the methods of `ssl.SSLObject` that event loops and servers call."""

    def __init__(self, context: SSL.Context, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO) -> None:
        self._incoming, self._outgoing = incoming, outgoing
        self._openssl = SSL.Connection(context)
        self._openssl.set_accept_state()
        #: Whether OpenSSL may have received data that was not read.
        self._unread = False

    def do_handshake(self) -> None:
        self._receive()
        try:
            with _ssl_errors():
                self._openssl.do_handshake()
        finally:
            self._flush()

    def read(self, size: int = _RECORD, buffer: Any = None) -> Any:
        """Return received bytes, at most one record; with a buffer return their number. Empty after the client's end.

        Raises:
            ssl.SSLWantReadError: No data has arrived.
        """
        self._receive()
        size = min(size, _RECORD)
        try:
            return self._openssl.recv(size) if buffer is None else self._openssl.recv_into(buffer, size)
        except SSL.WantReadError:
            self._unread = False
            self._flush()
            raise ssl.SSLWantReadError from None
        except SSL.ZeroReturnError:
            self._unread = False
            return b"" if buffer is None else 0
        except SSL.Error as error:
            self._flush()
            raise _convert_error(error) from error

    def write(self, data: Any) -> int:
        """Write all data and return its length.

        OpenSSL writes one record per call. If fewer bytes were reported, the event loop would copy the rest after each
        record of a long response.
        """
        size = len(data)
        with _ssl_errors():
            written = self._openssl.send(data)
            while written < size:
                written += self._openssl.send(memoryview(data)[written:])
        self._flush()
        return written

    def pending(self) -> int:
        """Return a positive number if there may be something to read; otherwise the loop does not call read."""
        return self._openssl.pending() or self._unread

    def unwrap(self) -> None:
        """Send the end of data and wait for the client's. Raise ssl.SSLWantReadError."""
        self._receive()
        try:
            with _ssl_errors():
                # The second call reads the client's answer.
                if not self._openssl.shutdown() and not self._openssl.shutdown():
                    raise ssl.SSLWantReadError
        finally:
            self._flush()

    def getpeercert(self, binary_form: bool = False) -> Any:
        """Return the client's certificate in DER, or {} for an unverified certificate in other forms."""
        shown = self._openssl.get_peer_certificate()
        if shown is None:
            return None
        return _encode(shown) if binary_form else {}

    def peer_certificates(self) -> tuple[bytes, ...]:
        """Return the client's certificate and its chain in DER, unverified; empty if there is none."""
        own = self._openssl.get_peer_certificate()
        # On the server side OpenSSL returns the chain without the certificate itself.
        others = self._openssl.get_peer_cert_chain() or ()
        return () if own is None else tuple(map(_encode, (own, *others)))

    def cipher(self) -> tuple[str, str, int] | None:
        name, version, bits = (
            self._openssl.get_cipher_name(), self._openssl.get_cipher_version(), self._openssl.get_cipher_bits(),
        )  # fmt: skip
        return (name, version or "", bits or 0) if name else None

    def compression(self) -> None:
        return None

    def version(self) -> str:
        return self._openssl.get_protocol_version_name()

    def _receive(self) -> None:
        if self._incoming.pending:
            self._openssl.bio_write(self._incoming.read())
            self._unread = True
        elif self._incoming.eof:
            self._openssl.bio_shutdown()

    def _flush(self) -> None:
        while True:
            try:
                data = self._openssl.bio_read(_ON_THE_WIRE)
            except SSL.WantReadError:
                return
            self._outgoing.write(data)
            if len(data) < _ON_THE_WIRE:
                return


def _encode(certificate: X509) -> bytes:
    return dump_certificate(FILETYPE_ASN1, certificate)


def _accept_certificate(*_: object) -> bool:
    """Accept every certificate, which `ssl` has no setting for."""
    return True


@contextmanager
def _ssl_errors() -> Iterator[None]:
    try:
        yield
    except SSL.Error as error:
        raise _convert_error(error) from error


def _convert_error(error: SSL.Error) -> ssl.SSLError:
    if isinstance(error, SSL.WantReadError):
        return ssl.SSLWantReadError()
    if isinstance(error, SSL.WantWriteError):
        return ssl.SSLWantWriteError()
    if isinstance(error, SSL.ZeroReturnError):
        return ssl.SSLZeroReturnError(ssl.SSL_ERROR_ZERO_RETURN, "the client closed the connection")
    if isinstance(error, SSL.SysCallError):
        return ssl.SSLEOFError(ssl.SSL_ERROR_EOF, "the client closed the connection unexpectedly")
    return ssl.SSLError(ssl.SSL_ERROR_SSL, _error_text(error))


def _error_text(error: BaseException) -> str:
    """Return OpenSSL's reasons in one line: the last part of each entry."""
    entries = error.args[0] if error.args else ()
    reasons = [entry[-1] for entry in entries if isinstance(entry, tuple)] if isinstance(entries, list) else []
    return "; ".join(filter(None, reasons)) or str(error) or type(error).__name__


def _suites(options: TlsSettings) -> str:
    """Return the allowed cipher suites; by default those that Python enables."""
    if options.suites:
        return ":".join(options.suites)
    usual = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).get_ciphers()
    return ":".join(suite["name"] for suite in usual if suite["protocol"] != "TLSv1.3")
