"""Credentials of a client, and the verification of the server.

Facts: client-go (transport: token files, impersonation; rest: precedence of credentials).
"""

from __future__ import annotations

import os
import ssl
import tempfile
from base64 import b64encode
from pathlib import Path
from time import monotonic
from typing import Final, NamedTuple, Protocol

__all__ = [
    "NO_CREDENTIALS",
    "CredentialHeaders",
    "Credentials",
    "Headers",
    "KubeconfigError",
    "Plugin",
    "escape_header",
    "load_chain",
]

Headers = tuple[tuple[str, str], ...]
#: Cache duration of the headers of a token file, in seconds.
_CACHE_SECONDS: Final = 50.0
#: Characters of a header name. Other characters of a key are written as %XX.
_TOKEN: Final = frozenset("!#$&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


class KubeconfigError(ValueError):
    """A kubeconfig or a credential is unusable; the message is one line."""


class Plugin(Protocol):
    """A source of credentials that expire."""

    def token(self) -> str:
        """Return a currently valid token, or "". Raises KubeconfigError."""

    def show(self, trust: ssl.SSLContext) -> None:
        """Load the current certificate and its successors into a context. Raises KubeconfigError."""

    def is_current(self) -> bool:
        """Return whether the next call returns without running the program."""

    def expire(self) -> None:
        """Drop a credential that a server rejected."""


class Credentials(NamedTuple):
    """The credentials of a user, with certificate and key in PEM.

    `impersonation` are the headers that name another user. `server_name` is the expected name in the server's
    certificate, if it is not the host. `insecure` accepts any certificate.
    """

    token: str = ""
    token_file: str = ""
    user: str = ""
    password: str = ""
    certificate: bytes = b""
    key: bytes = b""
    server_name: str = ""
    insecure: bool = False
    impersonation: Headers = ()
    plugin: Plugin | None = None

    @property
    def renewable(self) -> bool:
        """Whether the headers can change between requests."""
        return bool(self.token_file) or self.plugin is not None

    def headers(self) -> Headers:
        """Return the headers of a request. May block if `renewable`. Raises OSError and ValueError."""
        token = self._read_token() if self.token_file else self.token
        if self.plugin is not None and not token and not self.user:
            token = self.plugin.token()
        if token:
            return ("authorization", f"Bearer {token}"), *self.impersonation
        if self.user:
            basic = b64encode(f"{self.user}:{self.password}".encode()).decode()
            return ("authorization", f"Basic {basic}"), *self.impersonation
        return self.impersonation

    def expire(self) -> None:
        """Drop a rejected credential, so that the next request gets a new one if possible."""
        if self.plugin is not None:
            self.plugin.expire()

    def _read_token(self) -> str:
        try:
            return Path(self.token_file).read_text().strip()
        except (OSError, UnicodeDecodeError):
            if not self.token:
                raise
            return self.token

    def show(self, trust: ssl.SSLContext) -> None:
        """Load the certificate into a context, and set its verification. Raises OSError and ValueError."""
        if self.insecure:
            trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
        if self.certificate:
            load_chain(trust, self.certificate, self.key)
        elif self.plugin is not None:
            self.plugin.show(trust)


NO_CREDENTIALS: Final = Credentials()


def load_chain(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Load a certificate and its key, both in PEM, into a context. Raises OSError and ssl.SSLError."""
    # `ssl` reads certificates only from files: write a private one and remove it immediately.
    handle, name = tempfile.mkstemp(suffix=".pem")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(certificate + b"\n" + key)
        # With a password, even an empty one, an encrypted key raises an error. Without one, OpenSSL would prompt for
        # it.
        context.load_cert_chain(name, password="")
    finally:
        Path(name).unlink()


class CredentialHeaders:
    """The headers of renewable credentials, for an event loop. Files are read and programs run in a thread."""

    def __init__(self) -> None:
        self._read: dict[Credentials, tuple[float, Headers]] = {}

    async def headers(self, credentials: Credentials) -> Headers:
        """Return the headers of a request; those read earlier if the token file is unreadable.

        Raises OSError and ValueError.
        """
        plugin = credentials.plugin
        if not credentials.token_file and (plugin is None or plugin.is_current()):
            return credentials.headers()
        known = self._read.get(credentials)
        if known is not None and plugin is None and monotonic() - known[0] < _CACHE_SECONDS:
            return known[1]
        import asyncio

        try:
            headers = await asyncio.to_thread(credentials.headers)
        except (OSError, ValueError):
            if known is None or plugin is not None:
                raise
            return known[1]  # the file may be half-written at this moment
        self._read[credentials] = monotonic(), headers
        return headers


def escape_header(key: str) -> str:
    """Return a key escaped for the name of a header."""
    return "".join(char if char in _TOKEN else "".join(f"%{byte:02X}" for byte in char.encode()) for char in key)
