"""The endpoint of a components' process: GET /healthz and /livez say that it lives, /readyz that it works or stands by,
/metrics what it counted.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from apiserver.runtime.metrics import CONTENT_TYPE

_PLAIN = "text/plain; charset=utf-8"
_HEALTH = ("/healthz", "/livez", "/readyz")
#: Seconds for a request to arrive.
_PATIENCE = 5.0


@contextlib.asynccontextmanager
async def answering(
    address: tuple[str, int] | None, ready: Callable[[], str], metrics: Callable[[], str]
) -> AsyncIterator[int]:
    """Answers as long as the block runs; gives the port. `ready` returns "" or why not, `metrics` the
    Prometheus text. Raises OSError if the address cannot be had."""
    if address is None:
        yield 0
        return

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_PATIENCE):
                line = await reader.readline()
                while (await reader.readline()).strip():
                    pass
                writer.write(answer(line.decode("latin-1"), ready, metrics))
                await writer.drain()
        except (OSError, ValueError):  # gone, too slow (TimeoutError), or a line without end
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, *address)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


def answer(request_line: str, ready: Callable[[], str], metrics: Callable[[], str]) -> bytes:
    """The whole answer to a request that begins with this line."""
    method, _, rest = request_line.strip().partition(" ")
    path = rest.partition(" ")[0].partition("?")[0]
    content_type = _PLAIN
    if path != "/metrics" and path not in _HEALTH:
        status, text = "404 Not Found", "not found"
    elif method not in ("GET", "HEAD"):
        status, text = "405 Method Not Allowed", "method not allowed"
    elif path == "/metrics":
        status, text, content_type = "200 OK", metrics(), CONTENT_TYPE
    else:
        reason = ready() if path == "/readyz" else ""
        status, text = ("500 Internal Server Error", reason) if reason else ("200 OK", "ok")
    body = b"" if method == "HEAD" else text.encode()
    head = (
        f"HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\ncontent-length: {len(text.encode())}\r\nconnection:"
        " close\r\n\r\n"
    )
    return head.encode() + body
