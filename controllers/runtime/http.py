"""The transport over HTTP/1.1: keep-alive connections (`connection.py`) and a separate one for each watch.

Redirects, cookies, proxies and compressed answers are not supported. Support for them costs general clients more than a
whole request does here (docs/adr/0004).
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping
from ssl import SSLContext
from typing import Final
from urllib.parse import quote, urlsplit

from controllers.runtime.connection import BrokenError, Connection, connect
from controllers.runtime.transport import Headers
from kubedra.kubeconfig.credentials import CredentialHeaders
from kubedra.kubeconfig.reader import Cluster

#: Concurrent requests. A server commits concurrent writes together; with sixteen it waited for its clients
#: (docs/adr/0004).
_CONNECTIONS: Final = 64
#: Methods that may be repeated when it is unknown whether the server received the request.
_REPEATABLE: Final = frozenset(("GET", "HEAD"))
#: Characters of a request target besides letters and digits.
_TARGET: Final = "%/:=&,;+$!*'()@~?-._[]"
_PLAIN_TARGET: Final = re.compile(f"[A-Za-z0-9{re.escape(_TARGET)}]*")
_UNAUTHORIZED: Final = 401
#: Cached sets of header fields; a component has a handful.
_CACHED_FIELDS: Final = 256


class HttpTransport:
    """Keep-alive connections to one server, at most 64, and one more for each watch."""

    def __init__(self, cluster: Cluster) -> None:
        parts = urlsplit(cluster.server)
        self._server, self._prefix = cluster.server, parts.path.rstrip("/")
        self._secure = parts.scheme == "https"
        self._host, self._port = parts.hostname or "", parts.port or (443 if self._secure else 80)
        self._host_line = f"host: {parts.netloc.rpartition('@')[2]}\r\n"
        self._cluster, self._renewable = cluster, cluster.credentials.renewable
        self._credential_headers, self._header_source = cluster.headers(), CredentialHeaders()
        self._fields: dict[tuple[tuple[str, str], ...], str] = {}
        self._tls: SSLContext | None = None
        self._idle: deque[Connection] = deque()
        self._free = asyncio.Semaphore(_CONNECTIONS)

    async def _connect(self) -> Connection:
        if self._secure and self._tls is None:
            self._tls = self._cluster.tls_context()
            assert self._tls is not None
            self._tls.set_alpn_protocols(["http/1.1"])
        return await connect(self._server, self._host, self._port, self._tls)

    async def _renew(self) -> None:
        try:
            headers = await self._header_source.headers(self._cluster.credentials)
        except (OSError, ValueError):
            return  # the server decides about the previous headers
        if headers != self._credential_headers:
            self._credential_headers = headers
            self._fields.clear()

    def _idle_connection(self) -> Connection | None:
        """Return the most recently used idle connection, so that surplus ones age and close."""
        while self._idle:
            connection = self._idle.pop()
            if connection.usable:
                return connection
            connection.close()
        return None

    def _render(self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes) -> bytes:
        target = f"{self._prefix}{path}?{query}" if query else f"{self._prefix}{path}"
        if _PLAIN_TARGET.fullmatch(target) is None:
            target = quote(target, safe=_TARGET)
        items = tuple(headers.items())
        fields = self._fields.get(items)
        if fields is None:
            if len(self._fields) >= _CACHED_FIELDS:
                self._fields.clear()
            fields = self._fields[items] = (
                f" HTTP/1.1\r\n{self._host_line}{_lines(self._credential_headers)}{_lines(items)}"
            )
        length = f"content-length: {len(body)}\r\n\r\n" if body or method not in _REPEATABLE else "\r\n"
        return f"{method} {target}{fields}{length}".encode("latin-1") + body

    async def request(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Headers, bytes]:
        if self._renewable:
            await self._renew()
        request = self._render(method, path, query, headers, body)
        await self._free.acquire()
        try:
            reused = self._idle_connection()
            connection = reused or await self._connect()
            try:
                answer = await connection.request(request)
            except BrokenError as error:
                # A server may close an idle connection at the moment of its reuse.
                if reused is None or not error.unanswered or method not in _REPEATABLE:
                    raise
                connection = await self._connect()
                answer = await connection.request(request)
            if connection.usable:
                self._idle.append(connection)
            if answer[0] == _UNAUTHORIZED:
                self._cluster.credentials.expire()
            return answer
        finally:
            self._free.release()

    async def stream(
        self, method: str, path: str, query: str, headers: Mapping[str, str], deadline: float | None = None
    ) -> tuple[int, Headers, AsyncIterator[bytes]]:
        if self._renewable:
            await self._renew()
        connection = await self._connect()
        status, answered = await connection.open(self._render(method, path, query, headers, b""), deadline)
        if status == _UNAUTHORIZED:
            self._cluster.credentials.expire()
        return status, answered, connection.chunks()

    async def close(self) -> None:
        while self._idle:
            self._idle.pop().close()


def _lines(fields: Iterable[tuple[str, str]]) -> str:
    return "".join(f"{name}: {value}\r\n" for name, value in fields)
