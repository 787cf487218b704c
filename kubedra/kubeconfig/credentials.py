"""Credentials: what a client shows a server to be known, and whether it verifies the server.

Facts: client-go (transport: token files, impersonation; rest: which credential counts).
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
#: Seconds for which the headers of a token file are kept.
_KEPT: Final = 50.0
#: Characters of a header's name; any other of a key is written as %XX.
_TOKEN: Final = frozenset("!#$&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


class KubeconfigError(ValueError):
    """A kubeconfig or a credential that cannot be used, in one line."""


class Plugin(Protocol):
    """A source of credentials that expire."""

    def token(self) -> str:
        """Return a token that is valid now, or "". Raises KubeconfigError."""

    def show(self, trust: ssl.SSLContext) -> None:
        """Have a context show the certificate that is valid now, and its successors. Raises KubeconfigError."""

    def is_current(self) -> bool:
        """Return whether the next call returns without work."""

    def expire(self) -> None:
        """Drop a credential that a server refused."""


class Credentials(NamedTuple):
    """The credentials of a user, certificate and key in PEM. `impersonation`: the headers that name another user.

    `server_name` is the name that the server's certificate must have, if not its host; `insecure` accepts any.
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
        """Whether the headers of a later request may differ."""
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
        """Drop what a server refused, so that the next request gets a new credential if there can be one."""
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
        """Put the certificate into a context, and how it verifies. Raises OSError and ValueError."""
        if self.insecure:
            trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
        if self.certificate:
            load_chain(trust, self.certificate, self.key)
        elif self.plugin is not None:
            self.plugin.show(trust)


NO_CREDENTIALS: Final = Credentials()


def load_chain(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Have a context show a certificate, in PEM as its key. Raises OSError, ssl.SSLError."""
    # `ssl` reads certificates from files alone: a private one, removed at once.
    handle, name = tempfile.mkstemp(suffix=".pem")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(certificate + b"\n" + key)
        # With a password, even an empty one, an encrypted key is refused; without, OpenSSL would prompt for it.
        context.load_cert_chain(name, password="")
    finally:
        Path(name).unlink()


class CredentialHeaders:
    """The headers of renewable credentials for an event loop: files are read and programs run in a thread."""

    def __init__(self) -> None:
        self._read: dict[Credentials, tuple[float, Headers]] = {}

    async def headers(self, credentials: Credentials) -> Headers:
        """Return the headers of a request. Raises OSError and ValueError if there were none before."""
        plugin = credentials.plugin
        if not credentials.token_file and (plugin is None or plugin.is_current()):
            return credentials.headers()
        known = self._read.get(credentials)
        if known is not None and plugin is None and monotonic() - known[0] < _KEPT:
            return known[1]
        import asyncio

        try:
            found = await asyncio.to_thread(credentials.headers)
        except (OSError, ValueError):
            if known is None:
                raise
            return known[1]  # it may be written just now
        self._read[credentials] = monotonic(), found
        return found


def escape_header(key: str) -> str:
    """Return a key as a part of a header's name."""
    return "".join(char if char in _TOKEN else "".join(f"%{byte:02X}" for byte in char.encode()) for char in key)
