"""How this server shows to others who it is: for each host what a kubeconfig says.

Facts: apiserver, pkg/util/webhook (authentication.go, webhook.go).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kubedra.kubeconfig.credentials import NO_CREDENTIALS, Credentials
from kubedra.kubeconfig.reader import read_users

__all__ = ["EMPTY", "Wallet", "read_wallet"]

_HTTPS: Final = 443


class Wallet:
    """Credentials for several others, by their hosts: `name.namespace.svc`, `host:port`, `*.example.com`, `*`."""

    def __init__(self, credentials: Mapping[str, Credentials]) -> None:
        self._credentials = dict(credentials)

    def of(self, host: str, port: int) -> Credentials:
        """What is shown to whom; the closest name decides."""
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


EMPTY: Final = Wallet({})


def read_wallet(path: Path) -> Wallet:
    """The users of a kubeconfig, by whom they are for. Raises KubeconfigError."""
    return Wallet(read_users(path))
