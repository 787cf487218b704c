"""The endpoint for logs and exec: HTTP on a unix socket, called by the API server and accessible to its owner only.

`GET /logs/UID/CONTAINER?…` returns the log until the connection ends. `GET /exec/UID/CONTAINER?command=…` becomes a
websocket (`exec`). A container without a process returns 404: the API server emulates its logs itself. The file
`announcements/NODE`, in a directory shared with the API server, contains the socket's path.
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from apiserver.api.helpers.pod_logs import LogOptions
from apiserver.api.objects import Json
from apiserver.runtime import clock
from controllers.kubelet.run.containers import ProcessContainers
from controllers.kubelet.run.exec import respond, run_in
from controllers.kubelet.run.process import Process

log = logging.getLogger(__name__)
#: Maximum size of a request's head in bytes.
_LONGEST_HEAD = 64 * 1024
#: Returns the pod with a uid and the containers of its node; None if there is none.
FindPod = Callable[[str], tuple[Json, ProcessContainers] | None]


class RunServer:
    """The socket of the nodes of one process."""

    def __init__(self, announcements: Path, find: FindPod) -> None:
        self._announcements, self._find = announcements, find
        self._server: asyncio.Server | None = None
        self._opening = asyncio.Lock()  # nodes are announced concurrently
        self._directory: tempfile.TemporaryDirectory[str] | None = None
        self._announced: set[Path] = set()

    async def announce(self, node: str) -> None:
        """Serve the node's containers and write its announcement. Log a warning on failure."""
        try:
            await self._announce(node)
        except OSError as error:
            log.warning("node %s: logs and exec are unavailable: %s", node, error)

    async def _announce(self, node: str) -> None:
        async with self._opening:
            if self._server is None:
                # A directory of its own has mode 0700 and a short path, as sockets require.
                self._directory = tempfile.TemporaryDirectory(prefix="kubedra-run-")
                path = Path(self._directory.name) / "s"
                self._server = await asyncio.start_unix_server(self._serve, path, limit=_LONGEST_HEAD)
                path.chmod(0o600)
        assert self._directory is not None, "created with the server"
        self._announcements.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = self._announcements / node
        file.write_text(f"{self._directory.name}/s")
        self._announced.add(file)

    async def close(self) -> None:
        for file in self._announced:
            file.unlink(missing_ok=True)
        if self._server is not None:
            self._server.close()
        if self._directory is not None:
            self._directory.cleanup()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            await self._answer(head, reader, writer)
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            pass
        except asyncio.CancelledError:
            raise
        except Exception:
            log.exception("a request for a container failed")
        finally:
            with suppress(ConnectionError):
                writer.close()

    async def _answer(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        target = urlsplit(head.split(b" ", 2)[1].decode("latin-1"))
        what, uid, container = (unquote(part) for part in target.path.strip("/").split("/"))
        params = parse_qs(target.query, keep_blank_values=True)
        found = self._find(uid)
        options = LogOptions.parse(params, clock.now())
        process = None
        if found is not None:
            process = found[1].process(found[0], container, previous=what == "logs" and options.previous)
        if process is None:
            await respond(writer, "404 Not Found", f"container {container} has no process")
        elif what == "logs":
            await send_log(writer, process, options)
        elif process.end is not None:
            await respond(writer, "400 Bad Request", f"container {container} is not running")
        else:
            await run_in(process, params, head, reader, writer)


async def send_log(writer: asyncio.StreamWriter, process: Process, options: LogOptions) -> None:
    """Send the existing lines, and with `follow` also the new ones, until the connection ends."""
    lines, place = process.log.lines()
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n" + options.select(lines))
    await writer.drain()
    while options.follow and not options.full and not writer.is_closing():
        lines, place = process.log.lines(place)
        if lines:
            writer.write(options.format(lines))
            await writer.drain()
        elif process.log.closed:
            return
        else:
            await process.log.wait_grown()
