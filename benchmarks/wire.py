"""A cheap load client: HTTP/1.1 over asyncio streams, keep-alive, requests rendered before the clock starts."""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

Render = Callable[[int], bytes]


def request(method: str, path: str, body: Any = None, content_type: str = "application/json") -> bytes:
    """Render a request."""
    data = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: kubedra\r\nAccept: application/json\r\n"
    if data:
        head += f"Content-Type: {content_type}\r\nContent-Length: {len(data)}\r\n"
    return head.encode() + b"\r\n" + data


class Connection:
    """One keep-alive connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def open(cls, url: str) -> Connection:
        parts = urlsplit(url)
        return cls(*await asyncio.open_connection(parts.hostname, parts.port, limit=1 << 26))

    async def head(self) -> tuple[int, int | None]:
        """Read status and content length (None: chunked)."""
        lines = (await self.reader.readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
        length = next((int(line[15:]) for line in lines if line.startswith(b"content-length:")), None)
        return int(lines[0].split()[1]), length

    async def chunk(self) -> bytes:
        size = int((await self.reader.readuntil(b"\r\n")).split(b";")[0], 16)
        return (await self.reader.readexactly(size + 2))[:-2]

    async def ask(self, raw: bytes) -> tuple[int, bytes]:
        """Send one request and read its whole answer."""
        self.writer.write(raw)
        status, length = await self.head()
        if length is not None:
            return status, await self.reader.readexactly(length)
        parts = []
        while part := await self.chunk():
            parts.append(part)
        return status, b"".join(parts)

    def close(self) -> None:
        self.writer.close()


@dataclass(frozen=True, slots=True)
class Figure:
    """One row: operations per second and latencies in milliseconds."""

    per_second: float
    p50: float
    p99: float
    errors: int

    def __str__(self) -> str:
        return f"{self.per_second:10,.0f}/s   p50 {self.p50:7.2f} ms   p99 {self.p99:7.2f} ms" + (
            f"   {self.errors} ERRORS" if self.errors else ""
        )


async def run(url: str, count: int, connections: int, render: Render) -> Figure:
    """Send `count` requests over `connections` connections. Each awaits an answer before its next request."""
    raw = [render(i) for i in range(count)]
    numbers = iter(range(count))
    latencies: list[float] = []
    errors = 0

    async def work(connection: Connection) -> None:
        nonlocal errors
        for number in numbers:
            begin = time.perf_counter()
            status, _ = await connection.ask(raw[number])
            latencies.append(time.perf_counter() - begin)
            errors += status >= 300

    opened = [await Connection.open(url) for _ in range(connections)]
    begin = time.perf_counter()
    await asyncio.gather(*(work(connection) for connection in opened))
    elapsed = time.perf_counter() - begin
    for connection in opened:
        connection.close()
    latencies.sort()
    p99 = latencies[min(len(latencies) - 1, int(len(latencies) * 0.99))]
    return Figure(count / elapsed, statistics.median(latencies) * 1e3, p99 * 1e3, errors)


async def fan_out(url: str, collection: str, count: int, watchers: int, render: Render) -> float:
    """Return events per second to `watchers` open watches while `count` objects are created."""
    first = await Connection.open(url)
    _, body = await first.ask(request("GET", f"{collection}?limit=1"))
    revision = json.loads(body)["metadata"]["resourceVersion"]
    finished: list[float] = []

    async def watch(connection: Connection, opened: asyncio.Event) -> None:
        connection.writer.write(request("GET", f"{collection}?watch=true&resourceVersion={revision}"))
        await connection.head()
        opened.set()
        seen = 0
        while seen < count:
            seen += (await connection.chunk()).count(b'"type":"ADDED"')
        finished.append(time.perf_counter())
        connection.close()

    ready = [asyncio.Event() for _ in range(watchers)]
    tasks = [asyncio.create_task(watch(await Connection.open(url), event)) for event in ready]
    await asyncio.gather(*(event.wait() for event in ready))
    begin = time.perf_counter()
    await run(url, count, 8, render)
    await asyncio.gather(*tasks)
    first.close()
    return count * watchers / (max(finished) - begin)
