"""TLS by pyOpenSSL, where clients are asked for certificates.

Python's `ssl` ends the handshake of a client whose certificate it cannot verify. Kubernetes lets it in and answers what
it asks: 401, or, where it has a good token as well, as to that token. So every certificate is taken here, and whoever
authenticates a request verifies it (`apiserver.authentication.x509.client_certificates`). Clients receive the names of
the authorities that count, by which they choose what to show.

Event loops drive a connection by the methods of `ssl.SSLObject`, which `TakingConnection` has, and by `ssl.MemoryBIO`.
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

__all__ = ["TakingConnection", "TakingContext", "restricted"]

#: The most that a record carries, and what it may be on the wire.
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
    # A session that is resumed would bring a certificate without its chain.
    | SSL.OP_NO_TICKET
)


def restricted(options: TlsSettings) -> SSL.Context:
    """What allows what the flags do. Raises ValueError, in one line that names the flag."""
    made = SSL.Context(SSL.TLS_SERVER_METHOD)
    made.set_options(_OPTIONS)
    made.set_session_cache_mode(SSL.SESS_CACHE_OFF)
    made.set_session_id(b"kubedra")
    made.set_min_proto_version(options.minimum)
    try:
        made.set_cipher_list(_suites(options).encode())
    except SSL.Error as error:
        library = SSL.OpenSSL_version(SSL.OPENSSL_VERSION).decode()
        raise ValueError(f"--tls-cipher-suites: {library} has none of these ({_said(error)})") from None
    if options.curve:
        if options.curve not in _CURVES:
            flag = f"--tls-curve-preferences {options.curve}"
            raise ValueError(f"{flag}: where clients are asked for certificates, one of 23, 24 and 25")
        made.set_tmp_ecdh(_CURVES[options.curve])
    return made


class TakingContext:
    """What connections are made with that ask for certificates."""

    def __init__(self, certificate: bytes, key: bytes, options: TlsSettings, told: Sequence[x509.Certificate]) -> None:
        """`certificate` and `key`, in PEM, are the server's; `told` the authorities whose names clients get. Raises
        ValueError.
        """
        self.openssl = made = restricted(options)
        try:
            own, *others = x509.load_pem_x509_certificates(certificate)
            made.use_certificate(own)
            for other in others:
                made.add_extra_chain_cert(other)
            made.use_privatekey(cast(Any, load_pem_private_key(key, None)))
        except (SSL.Error, TypeError) as error:
            raise ValueError(_said(error)) from None
        for authority in {each.subject: each for each in told}.values():
            made.add_client_ca(authority)
        made.set_verify(SSL.VERIFY_PEER, _take)

    def choose(self, by_name: Callable[[str | None], Any]) -> None:
        """Connections go on with the context that is found for the name which a client asks for."""

        def chosen(connection: SSL.Connection) -> None:
            name = connection.get_servername()
            found = by_name(name.decode("ascii", "replace") if name else None)
            if found is not None:
                connection.set_context(found.openssl)

        self.openssl.set_tlsext_servername_callback(chosen)

    def wrap_bio(
        self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, server_side: bool = True, **_: Any
    ) -> TakingConnection:
        assert server_side
        return TakingConnection(self.openssl, incoming, outgoing)


class TakingConnection:
    """One connection, with the methods of `ssl.SSLObject` that event loops and servers call."""

    def __init__(self, context: SSL.Context, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO) -> None:
        self._incoming, self._outgoing = incoming, outgoing
        self._openssl = SSL.Connection(context)
        self._openssl.set_accept_state()
        #: Whether OpenSSL may hold something that came in and was not read.
        self._unread = False

    def do_handshake(self) -> None:
        self._take_in()
        try:
            with _as_in_ssl():
                self._openssl.do_handshake()
        finally:
            self._send_out()

    def read(self, size: int = _RECORD, buffer: Any = None) -> Any:
        """Of what came in, as bytes, at most one record; with a buffer how many were put there. Nothing where the
        client has ended. Raises ssl.SSLWantReadError.
        """
        self._take_in()
        size = min(size, _RECORD)
        try:
            return self._openssl.recv(size) if buffer is None else self._openssl.recv_into(buffer, size)
        except SSL.WantReadError:
            self._unread = False
            self._send_out()
            raise ssl.SSLWantReadError from None
        except SSL.ZeroReturnError:
            self._unread = False
            return b"" if buffer is None else 0
        except SSL.Error as error:
            self._send_out()
            raise _translated(error) from error

    def write(self, data: Any) -> int:
        """How much of it was written: all. OpenSSL takes one record at a time; an event loop that were told so would
        copy what is left after each, which holds it up where an answer is long.
        """
        size = len(data)
        with _as_in_ssl():
            written = self._openssl.send(data)
            while written < size:
                written += self._openssl.send(memoryview(data)[written:])
        self._send_out()
        return written

    def pending(self) -> int:
        """More than nothing where there may be something to read: a loop asks no further otherwise."""
        return self._openssl.pending() or self._unread

    def unwrap(self) -> None:
        """Says that nothing more comes, and waits for the same. Raises ssl.SSLWantReadError."""
        self._take_in()
        try:
            with _as_in_ssl():
                # The second call reads what the client says.
                if not self._openssl.shutdown() and not self._openssl.shutdown():
                    raise ssl.SSLWantReadError
        finally:
            self._send_out()

    def getpeercert(self, binary_form: bool = False) -> Any:
        """As of a certificate that is not verified: nothing but its bytes."""
        shown = self._openssl.get_peer_certificate()
        if shown is None:
            return None
        return _encoded(shown) if binary_form else {}

    def shown(self) -> tuple[bytes, ...]:
        """The client's certificate and those that it sent along, in DER; nothing where it has none. They are not read:
        a stranger's may be anything.
        """
        own = self._openssl.get_peer_certificate()
        # Of servers OpenSSL gets the chain without the certificate itself.
        others = self._openssl.get_peer_cert_chain() or ()
        return () if own is None else tuple(map(_encoded, (own, *others)))

    def cipher(self) -> tuple[str, str, int] | None:
        name, version, bits = (
            self._openssl.get_cipher_name(), self._openssl.get_cipher_version(), self._openssl.get_cipher_bits(),
        )  # fmt: skip
        return (name, version or "", bits or 0) if name else None

    def compression(self) -> None:
        return None

    def version(self) -> str:
        return self._openssl.get_protocol_version_name()

    def _take_in(self) -> None:
        if self._incoming.pending:
            self._openssl.bio_write(self._incoming.read())
            self._unread = True
        elif self._incoming.eof:
            self._openssl.bio_shutdown()

    def _send_out(self) -> None:
        while True:
            try:
                data = self._openssl.bio_read(_ON_THE_WIRE)
            except SSL.WantReadError:
                return
            self._outgoing.write(data)
            if len(data) < _ON_THE_WIRE:
                return


def _encoded(certificate: X509) -> bytes:
    return dump_certificate(FILETYPE_ASN1, certificate)


def _take(*_: object) -> bool:
    """What `ssl` cannot say: that a certificate is not looked at here."""
    return True


@contextmanager
def _as_in_ssl() -> Iterator[None]:
    try:
        yield
    except SSL.Error as error:
        raise _translated(error) from error


def _translated(error: SSL.Error) -> ssl.SSLError:
    if isinstance(error, SSL.WantReadError):
        return ssl.SSLWantReadError()
    if isinstance(error, SSL.WantWriteError):
        return ssl.SSLWantWriteError()
    if isinstance(error, SSL.ZeroReturnError):
        return ssl.SSLZeroReturnError(ssl.SSL_ERROR_ZERO_RETURN, "the client has ended the connection")
    if isinstance(error, SSL.SysCallError):
        return ssl.SSLEOFError(ssl.SSL_ERROR_EOF, "the client is gone")
    return ssl.SSLError(ssl.SSL_ERROR_SSL, _said(error))


def _said(error: BaseException) -> str:
    """In one line what OpenSSL says: the reason is the last part of each entry."""
    entries = error.args[0] if error.args else ()
    reasons = [entry[-1] for entry in entries if isinstance(entry, tuple)] if isinstance(entries, list) else []
    return "; ".join(filter(None, reasons)) or str(error) or type(error).__name__


def _suites(options: TlsSettings) -> str:
    """Those that are allowed; by itself what Python allows by itself."""
    if options.suites:
        return ":".join(options.suites)
    usual = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).get_ciphers()
    return ":".join(suite["name"] for suite in usual if suite["protocol"] != "TLSv1.3")
