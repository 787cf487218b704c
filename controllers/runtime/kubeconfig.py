"""Where a server is and how to speak to it: a URL, or a kubeconfig file's current context."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

from apiserver.api.credentials.kubeconfigs import NOBODY, Credentials, KubeconfigError, read_kubeconfig

__all__ = ["Cluster", "KubeconfigError", "load_kubeconfig"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """One server, in PEM whom to trust for it (empty: the system's authorities), and the credentials for it."""

    server: str
    authority: bytes = b""
    credentials: Credentials = NOBODY

    def headers(self) -> dict[str, str]:
        return self.credentials.headers()

    def tls_context(self) -> ssl.SSLContext | None:
        """The context for https, or None for plain http."""
        if not self.server.startswith("https:"):
            return None
        context = ssl.create_default_context(cadata=self.authority.decode() if self.authority else None)
        self.credentials.show(context)
        return context


def load_kubeconfig(path: Path) -> Cluster:
    """The current context of a kubeconfig file. Raises KubeconfigError."""
    found = read_kubeconfig(path)
    return Cluster(server=found.server.rstrip("/"), authority=found.authority, credentials=found.credentials)
