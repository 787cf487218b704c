"""Containers of nodes that run processes: their kubelet is reached over a unix socket.

The protocol is that of `controllers.kubelet.run.server`. Only kubelets of the same user are called: they are announced
in the server's own directory.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import quote

from apiserver.api.errors.status import StatusError, bad_request
from apiserver.api.values.names import dns_subdomain
from apiserver.request.messages import Response, Stream

__all__ = ["KUBELETS", "Kubelets"]

#: The subdirectory of the data directory in which kubelets announce themselves.
KUBELETS: Final = "kubelets"

#: Size in bytes of chunks that are passed on, and of a response's head.
_PIECE: Final = 64 * 1024
#: Request headers of a websocket.
_OF_WEBSOCKET: Final = ("connection", "upgrade", "sec-websocket-key", "sec-websocket-version", "sec-websocket-protocol")


class Kubelets:
    """Create the connections; kubelets announce their sockets in `directory`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def serves(self, node: str) -> bool:
        """Return whether the node runs processes. Callers check this before other calls."""
        # A binding may contain any text; only valid node names are looked up below the directory.
        return not dns_subdomain(node) and (self._directory / node).is_file()

    async def log(self, node: str, uid: str, container: str, query: str) -> Response | Stream | None:
        """Return a container's log; None if the container is no process."""
        opened = await self._request(node, f"/logs/{uid}/{quote(container)}?{query}", {})
        if opened is None:
            return None
        status, _, reader, writer = opened
        if status == 404:
            writer.close()
            return None
        stream = Stream(200, "text/plain")
        stream.chunks = _forward_chunks(reader, writer, stream)
        return stream

    async def execute(
        self, node: str, uid: str, container: str, query: str, headers: Mapping[str, str]
    ) -> Stream | None:
        """Run a command in a container, as a websocket that takes the connection over. Raise 400.

        Return None if the container is no process.
        """
        kept = {name: headers[name] for name in _OF_WEBSOCKET if name in headers}
        opened = await self._request(node, f"/exec/{uid}/{quote(container)}?{query}", kept)
        if opened is None:
            return None
        status, fields, reader, writer = opened
        if status != 101:
            text = (await reader.read(_PIECE)).decode(errors="replace")
            writer.close()
            if status == 404:
                return None
            raise bad_request(text)
        stream = Stream(101, headers=fields)
        stream.incoming = writer.write
        stream.chunks = _forward_chunks(reader, writer, stream)
        return stream

    async def _request(
        self, node: str, target: str, headers: Mapping[str, str]
    ) -> tuple[int, tuple[tuple[str, str], ...], asyncio.StreamReader, asyncio.StreamWriter] | None:
        """Return the status, the fields and the streams of a response; None if there is no kubelet."""
        try:
            path = (self._directory / node).read_text()
            reader, writer = await asyncio.open_unix_connection(path, limit=_PIECE)
        except OSError:
            return None
        fields = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        writer.write(f"GET {target} HTTP/1.1\r\nHost: {quote(node)}\r\n{fields}\r\n".encode("latin-1"))
        try:
            first, *rest = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").strip().split("\r\n")
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            writer.close()
            raise StatusError(500, "InternalError", f"the kubelet of node {node} went away") from error
        pairs = (line.partition(":") for line in rest)
        return int(first.split()[1]), tuple((name.strip(), value.strip()) for name, _, value in pairs), reader, writer


async def _forward_chunks(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, stream: Stream
) -> AsyncIterator[bytes]:
    try:
        while piece := await reader.read(_PIECE):
            stream.sent += len(piece)
            yield piece
    except ConnectionError:
        return
    finally:
        writer.close()
        stream.finish()
