"""Credentials of this server for other servers, from a kubeconfig, by host.

Facts: apiserver, pkg/util/webhook (authentication.go, webhook.go).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kubedra.kubeconfig.credentials import NO_CREDENTIALS, Credentials
from kubedra.kubeconfig.reader import read_users

__all__ = ["EMPTY", "CredentialStore", "read_credentials"]

_HTTPS: Final = 443


class CredentialStore:
    """Credentials by host: `name.namespace.svc`, `host:port`, `*.example.com`, `*`."""

    def __init__(self, credentials: Mapping[str, Credentials]) -> None:
        self._credentials = dict(credentials)

    def of(self, host: str, port: int) -> Credentials:
        """Return the credentials for a host; the closest name wins."""
        names = [f"{host}:{port}"] + ([host] if port == _HTTPS else [])
        for name in names:
            if name in self._credentials:
                return self._credentials[name]
        for name in names:
            parts = name.split(".")
            for count in range(1, len(parts)):
                found = self._credentials.get(".".join(("*", *parts[count:])))
                if found is not None:
                    return found
        return self._credentials.get("*", NO_CREDENTIALS)


EMPTY: Final = CredentialStore({})


def read_credentials(path: Path) -> CredentialStore:
    """Read the users of a kubeconfig, by host. Raise KubeconfigError."""
    return CredentialStore(read_users(path))
