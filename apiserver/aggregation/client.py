"""Client of other API servers: HTTPS for the name of the service, with the certificate of a front proxy."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from apiserver.aggregation.remotes import Remote
from apiserver.request.connection_upgrade import forward_upgrade
from apiserver.request.messages import Response, Stream, User
from apiserver.runtime.clock import Timer, outside, timers
from apiserver.webhooks.client import trust_of
from kubedra.kubeconfig.credentials import Credentials, escape_header

if TYPE_CHECKING:
    import httpx

__all__ = ["AGGREGATOR", "RemoteClient", "user_headers"]

#: User of availability and discovery requests.
AGGREGATOR: Final = User("system:kube-aggregator", groups=("system:masters",))

Pairs = Sequence[tuple[str, str]]


class Answer(NamedTuple):
    """A response to the aggregator itself."""

    status: int
    body: bytes
    content_type: str
    etag: str


def user_headers(user: User) -> list[tuple[str, str]]:
    """Return the headers in which a front proxy names the user (client-go/transport)."""
    found = [("X-Remote-User", user.name), *(("X-Remote-Group", group) for group in user.groups)]
    if user.uid:
        found.append(("X-Remote-Uid", user.uid))
    for key, values in user.extra.items():
        found += [(f"X-Remote-Extra-{escape_header(key)}", value) for value in values]
    return found


def _bytes(value: str) -> bytes:
    """Encode a header's value: values from clients were decoded as Latin-1, names of users may be any text."""
    try:
        return value.encode("latin-1")
    except UnicodeEncodeError:
        return value.encode()


def _format_address(place: tuple[str, int]) -> str:
    host, port = place
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _trust(remote: Remote) -> tuple[bytes, bool, str]:
    return remote.authority, remote.insecure, remote.service.host


class RemoteClient:
    """Connections to servers, one pool per kind of trust. `certificate` and its key authenticate this server."""

    def __init__(self, certificate: tuple[Path, Path] | None) -> None:
        """Load the client certificate. Raise OSError."""
        shown = (b"", b"") if certificate is None else tuple(path.read_bytes() for path in certificate)
        self._own = Credentials(certificate=shown[0], key=shown[1])
        self._pools: dict[tuple[bytes, bool, str], httpx.AsyncClient] = {}

    def retain(self, remotes: Iterable[Remote]) -> None:
        """Close the connections to all other servers, and to those whose trust has changed."""
        kept = {_trust(remote) for remote in remotes}
        for key in self._pools.keys() - kept:
            asyncio.ensure_future(self._pools.pop(key).aclose())  # noqa: RUF006 - closed in the background

    async def close(self) -> None:
        pools, self._pools = list(self._pools.values()), {}
        for pool in pools:
            await pool.aclose()

    async def send(
        self, remote: Remote, place: tuple[str, int], method: str, target: str, headers: Pairs, body: bytes = b""
    ) -> httpx.Response:
        """Send a request and return the response before its body is read. The caller closes it.

        Raises:
            httpx.HTTPError, OSError, ssl.SSLError: No response.
        """
        if "httpx" not in sys.modules:
            await asyncio.to_thread(import_module, "httpx")
        import httpx

        at = _format_address(place)
        request = httpx.Request(
            method, f"https://{at}/", content=body or None,
            headers=[(name.encode(), _bytes(value)) for name, value in (*headers, ("Host", at))],
            # The target as sent and authorized: httpx would normalize ".." and invalid parts of a URL.
            extensions={"sni_hostname": remote.service.host, "target": target.encode("latin-1")},
        )  # fmt: skip
        pool = self._pool(remote)
        with outside(), timers(Timer.MACHINE):
            try:
                return await pool.send(request, stream=True)
            except httpx.RemoteProtocolError:
                if method not in ("GET", "HEAD"):
                    raise
                # The server may just have closed an idle connection.
                return await pool.send(request, stream=True)

    async def forward_upgrade(
        self, remote: Remote, place: tuple[str, int], method: str, target: str, headers: Pairs, body: bytes
    ) -> Response | Stream:
        """Send a request for another protocol and return its response. Raise OSError, ssl.SSLError or Refused."""
        pairs = [(name.encode(), _bytes(value)) for name, value in (("Host", _format_address(place)), *headers)]
        trust = trust_of(remote.authority, self._own._replace(insecure=remote.insecure))
        with outside(), timers(Timer.MACHINE):
            return await forward_upgrade(
                place, trust, remote.service.host, method, target.encode("latin-1"), pairs, body
            )

    async def get(self, remote: Remote, place: tuple[str, int], path: str, accept: str, *, etag: str = "") -> Answer:
        """Send a request of the aggregator itself; `etag` is the known one. Raise as `send`, or TimeoutError."""
        headers = [("Accept", accept), ("User-Agent", "kube-aggregator"), *user_headers(AGGREGATOR)]
        if etag:
            headers.append(("If-None-Match", etag))
        with timers(Timer.MACHINE):
            async with asyncio.timeout(5.0):
                answer = await self.send(remote, place, "GET", path, headers)
                try:
                    body = await answer.aread()
                finally:
                    await answer.aclose()
        return Answer(answer.status_code, body, answer.headers.get("content-type", ""), answer.headers.get("etag", ""))

    def _pool(self, remote: Remote) -> httpx.AsyncClient:
        import httpx

        key = _trust(remote)
        pool = self._pools.get(key)
        if pool is None:
            pool = self._pools[key] = httpx.AsyncClient(
                verify=trust_of(remote.authority, self._own._replace(insecure=remote.insecure)),
                timeout=None,  # noqa: S113 - a watch has no end; callers limit other requests
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=20),
                trust_env=False,
                follow_redirects=False,
            )
        return pool
