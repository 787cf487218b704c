"""HTTP for clients under faults: an answer, or a connection that ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import orjson

from apiserver.api.objects import Json
from tests.support.patience import patience


class Ended(Exception):
    """The connection was refused, reset or closed before the answer was whole."""


class NoAnswer(Exception):
    """A server that was up did not answer in time."""


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: Json

    @property
    def revision(self) -> int:
        return int(self.body["metadata"]["resourceVersion"])

    @property
    def reason(self) -> str:
        return str(self.body.get("reason", ""))


class Line:
    """One connection to one server, opened when first used and again after it ended."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname, parts.port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def ask(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Answer:
        """Send one request. Raise Ended or NoAnswer."""
        try:
            async with patience():
                status, headers, reader = await self._send(method, path, body, content_type)
                raw = await reader.readexactly(int(headers["content-length"]))
        except TimeoutError as error:
            self.close()
            raise NoAnswer(f"{method} {path}") from error
        except (OSError, asyncio.IncompleteReadError) as error:
            self.close()
            raise Ended(str(error)) from error
        return Answer(status, headers, orjson.loads(raw))

    async def watch(self, path: str) -> AsyncIterator[Answer | Json]:
        """Yield the events of a watch, or only the answer that refused it. Raise Ended if the stream breaks off."""
        try:
            async with patience():
                status, headers, reader = await self._send("GET", path, None, "")
                if status != 200:
                    yield Answer(
                        status, headers, orjson.loads(await reader.readexactly(int(headers["content-length"])))
                    )
                    return
            rest = b""
            while size := int(await reader.readuntil(b"\r\n"), 16):
                *lines, rest = (rest + (await reader.readexactly(size + 2))[:-2]).split(b"\n")
                for line in lines:
                    yield orjson.loads(line)
            await reader.readexactly(2)
        except TimeoutError as error:
            raise NoAnswer(f"watch {path}") from error
        except (OSError, ValueError, asyncio.IncompleteReadError) as error:
            raise Ended(str(error)) from error
        finally:
            self.close()

    async def _send(
        self, method: str, path: str, body: Any, content_type: str
    ) -> tuple[int, dict[str, str], asyncio.StreamReader]:
        if self._writer is None:
            self._reader, self._writer = await asyncio.open_connection(self._host, self._port, limit=1 << 24)
        reader, writer = self._reader, self._writer
        assert reader is not None
        data = b"" if body is None else orjson.dumps(body)
        head = f"{method} {path} HTTP/1.1\r\nHost: checker\r\nAccept: application/json\r\n"
        if data:
            head += f"Content-Type: {content_type}\r\nContent-Length: {len(data)}\r\n"
        writer.write(head.encode() + b"\r\n" + data)
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        pairs = (line.partition(":") for line in lines if line)
        return int(first.split()[1]), {name.lower(): value.strip() for name, _, value in pairs}, reader

    def close(self) -> None:
        """Abort the connection with its pending request."""
        if self._writer is not None:
            self._writer.transport.abort()
        self._reader = self._writer = None
