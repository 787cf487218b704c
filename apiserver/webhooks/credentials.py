"""How this server shows to others who it is: for each host what a kubeconfig says, and tokens that others renew.

Facts: apiserver, pkg/util/webhook (authentication.go, webhook.go); client-go, transport/token_source.go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from time import monotonic
from typing import Final

from apiserver.api.credentials.kubeconfigs import NOBODY, Credentials, read_users

__all__ = ["EMPTY", "TokenFiles", "Wallet", "read_wallet"]

_HTTPS: Final = 443
#: Seconds for which a token that was read is shown.
_RENEWED: Final = 50.0


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
        return self._credentials.get("*", NOBODY)


EMPTY: Final = Wallet({})


def read_wallet(path: Path) -> Wallet:
    """The users of a kubeconfig, by whom they are for. Raises KubeconfigError."""
    return Wallet(read_users(path))


class TokenFiles:
    """What credentials put into a request, whose tokens may lie in files that others renew: read now and then, and not
    on the event loop.
    """

    def __init__(self) -> None:
        self._read: dict[Credentials, tuple[float, dict[str, str]]] = {}

    async def headers(self, credentials: Credentials) -> dict[str, str]:
        """Raises OSError and ValueError where a token was never read."""
        if not credentials.token_file:
            return credentials.headers()
        known = self._read.get(credentials)
        if known is not None and monotonic() - known[0] < _RENEWED:
            return known[1]
        try:
            found = await asyncio.to_thread(credentials.headers)
        except (OSError, ValueError):
            if known is None:
                raise
            return known[1]  # it may be written just now
        self._read[credentials] = monotonic(), found
        return found
