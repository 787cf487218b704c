"""The HTTP endpoint of a components' process: /healthz, /livez, /readyz and /metrics.

/healthz and /livez always answer ok. /readyz answers ok once the process works or stands by.
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
    """Serve the endpoint as long as the block runs; yield its port.

    Args:
        address: Host and port; None serves nothing and yields 0.
        ready: Returns "" or the reason why the process is not ready.
        metrics: Returns the Prometheus text.

    Raises:
        OSError: The address cannot be bound.
    """
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
    """Render the whole answer to a request with this request line."""
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
