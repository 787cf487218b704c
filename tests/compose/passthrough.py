"""The balancer's configuration, read strictly, and done by a plain program where there is no haproxy.

`python -m tests.compose.passthrough FILE ADDRESS…`: TCP to those of the addresses whose health check succeeds, and the
monitor.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import sys
from dataclasses import dataclass, field
from pathlib import Path

#: Every directive that the file may use, by kind of section. What is not here has not been thought about.
KNOWN = {
    "global": {"log"},
    "defaults": {"mode", "log", "timeout", "option", "retries"},
    "resolvers": {"parse-resolv-conf", "hold"},
    "frontend": {"mode", "bind", "default_backend", "timeout", "monitor-uri", "monitor"},
    "backend": {"balance", "option", "http-check", "default-server", "server-template", "server"},
}


@dataclass(slots=True)
class Section:
    kind: str
    name: str
    lines: list[list[str]] = field(default_factory=list)

    def all(self, directive: str) -> list[list[str]]:
        return [line[1:] for line in self.lines if line[0] == directive]

    def one(self, directive: str) -> list[str]:
        (found,) = self.all(directive)
        return found


def parse(text: str) -> list[Section]:
    """Parse the sections. Raise ValueError for an unknown directive."""
    sections: list[Section] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split("#")[0].split()
        if not words:
            continue
        if not line[0].isspace():
            if words[0] not in KNOWN:
                raise ValueError(f"line {number}: unknown section {words[0]}")
            sections.append(Section(words[0], words[1] if len(words) > 1 else ""))
        elif words[0] not in KNOWN[sections[-1].kind]:
            raise ValueError(f"line {number}: unknown directive {words[0]} in {sections[-1].kind}")
        else:
            sections[-1].lines.append(words)
    return sections


def named(sections: list[Section], kind: str, name: str = "") -> Section:
    return next(section for section in sections if section.kind == kind and section.name == name)


class Balancer:
    """The configuration of one TCP frontend with a monitor."""

    def __init__(self, sections: list[Section], addresses: list[str]) -> None:
        front, health = named(sections, "frontend", "kubernetes"), named(sections, "frontend", "health")
        back = named(sections, "backend", front.one("default_backend")[0])
        options = back.one("default-server")
        self.listen, self.monitor = front.one("bind")[0].rsplit(":", 1), health.one("bind")[0].rsplit(":", 1)
        port = int(back.one("server-template")[2].rsplit(":", 1)[1])
        self.servers = [(address, port) for address in addresses]
        self.up: set[tuple[str, int]] = set()
        self.check_line = f"{' '.join(back.all('option')[0][1:])} HTTP/1.0\r\n\r\n".encode()
        self.tls = ssl.create_default_context(cafile=options[options.index("ca-file") + 1])
        self.name = options[options.index("verifyhost") + 1]
        self.turn = 0

    async def run(self) -> None:
        async with (
            await asyncio.start_server(self.carry, self.listen[0], int(self.listen[1])) as service,
            await asyncio.start_server(self.answer, self.monitor[0], int(self.monitor[1])),
        ):
            checking = asyncio.ensure_future(self.check())
            await service.serve_forever()
            checking.cancel()

    async def check(self) -> None:
        while True:
            for server in self.servers:
                (self.up.add if await self.well(server) else self.up.discard)(server)
            await asyncio.sleep(0.2)

    async def well(self, server: tuple[str, int]) -> bool:
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(4):
                reader, writer = await asyncio.open_connection(*server, ssl=self.tls, server_hostname=self.name)
                writer.write(self.check_line)
                line = await reader.readline()
                writer.close()
                return b" 200 " in line
        return False

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"HTTP/1.0 200 OK\r\n\r\n" if self.up else b"HTTP/1.0 503 Service Unavailable\r\n\r\n")
        writer.close()

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.turn += 1
        up = sorted(self.up)
        for server in up[self.turn % max(len(up), 1) :] + up[: self.turn % max(len(up), 1)]:
            try:
                there, back = await asyncio.open_connection(*server)
            except OSError:
                continue
            await asyncio.gather(pump(reader, back), pump(there, writer), return_exceptions=True)
            return
        writer.close()


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()


if __name__ == "__main__":
    asyncio.run(Balancer(parse(Path(sys.argv[1]).read_text()), sys.argv[2:]).run())
