"""Commands in a container over a websocket: `kubectl exec`.

Each message begins with its channel number. Source of facts: Kubernetes' remotecommand protocol (v4.channel.k8s.io,
v5.channel.k8s.io): 0 is stdin, 1 stdout, 2 stderr, 3 the final Status, 4 the terminal size. In v5, 255 closes the
channel whose number follows.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pty
import struct
import subprocess
import termios
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress

from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, BytesMessage, CloseConnection, Ping, Request, TextMessage
from wsproto.utilities import ProtocolError

from controllers.kubelet.run.process import Process, end_with_parent

_PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_STDIN, _STDOUT, _STDERR, _ERROR, _RESIZE, _CLOSE = 0, 1, 2, 3, 4, 255
_PIECE = 32 * 1024
_NEEDS_WEBSOCKETS = (
    "exec needs websockets, which kubectl speaks from 1.31 on (1.29 and 1.30: KUBECTL_REMOTE_COMMAND_WEBSOCKETS=true)"
)
_NEEDS_PROTOCOL = "the websocket speaks none of v5.channel.k8s.io, v4.channel.k8s.io"


async def respond(writer: asyncio.StreamWriter, status: str, text: str) -> None:
    """Send a whole response of plain text."""
    body = text.encode()
    writer.write(
        f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    )
    await writer.drain()


async def run_in(
    process: Process,
    params: Mapping[str, Sequence[str]],
    head: bytes,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    """Run `params["command"]` in the directory of a container's process until it or the connection ends.

    Respond with 400 to a request that is not a websocket handshake.
    """
    socket = WSConnection(ConnectionType.SERVER)
    try:
        socket.receive_data(head)
        request = next(iter(socket.events()), None)
    except ProtocolError:
        request = None
    if not isinstance(request, Request):
        await respond(writer, "400 Bad Request", _NEEDS_WEBSOCKETS)
        return
    protocol = next((name for name in _PROTOCOLS if name in request.subprotocols), None)
    if protocol is None:
        await respond(writer, "400 Bad Request", _NEEDS_PROTOCOL)
        return
    writer.write(socket.send(AcceptConnection(subprotocol=protocol)))
    await _Session(socket, process, params, reader, writer).run()


class _Session:
    def __init__(
        self,
        socket: WSConnection,
        process: Process,
        params: Mapping[str, Sequence[str]],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._socket, self._process, self._params = socket, process, params
        self._reader, self._writer = reader, writer
        self._terminal: int | None = None
        self._stdin: asyncio.WriteTransport | None = None

    def _is_enabled(self, name: str) -> bool:
        return (self._params.get(name) or [""])[0] in ("true", "1")

    async def run(self) -> None:
        try:
            child = await self._start(list(self._params.get("command") or ()))
        except (OSError, ValueError) as error:
            await self._outcome(_failure(f"exec: {getattr(error, 'strerror', None) or error}"))
            return
        listening = asyncio.create_task(self._listen(child))
        outputs = [asyncio.create_task(work) for work in self._outputs(child)]
        try:
            waiting = asyncio.create_task(asyncio.to_thread(child.wait))
            await asyncio.wait((waiting, listening), return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                child.kill()  # the client disconnected
            code = await waiting
            await asyncio.wait(outputs, timeout=5)
            await self._outcome(_success() if not code else _exit_status(code if code > 0 else 128 - code))
        finally:
            for task in (listening, *outputs):
                task.cancel()
            if self._stdin is not None:
                self._stdin.close()

    async def _start(self, command: list[str]) -> subprocess.Popen[bytes]:
        if not command:
            raise ValueError("you must specify at least one command for the container")
        stdin: int
        if self._is_enabled("tty"):
            self._terminal, stdin = pty.openpty()
            streams = (stdin, stdin, stdin)
        else:
            source = subprocess.PIPE if self._is_enabled("stdin") else subprocess.DEVNULL
            streams = (source, subprocess.PIPE, subprocess.PIPE)

        def prepare() -> None:
            end_with_parent()
            if self._terminal is not None:
                fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        child = subprocess.Popen(  # noqa: S603, ASYNC220 - exec means to run commands; starting one is quick
            command,
            cwd=self._process.directory,
            env=dict(self._process.environment),
            stdin=streams[0],
            stdout=streams[1],
            stderr=streams[2],
            start_new_session=True,
            preexec_fn=prepare,  # noqa: PLW1509 - system calls, looked up before
        )
        if self._terminal is not None:
            os.close(stdin)
        elif child.stdin is not None:
            loop = asyncio.get_running_loop()
            self._stdin, _ = await loop.connect_write_pipe(asyncio.Protocol, child.stdin)
        return child

    def _outputs(self, child: subprocess.Popen[bytes]) -> list[Coroutine[object, object, None]]:
        if self._terminal is not None:
            return [self._forward(_STDOUT, os.fdopen(self._terminal, "rb", buffering=0))]
        return [self._forward(_STDOUT, child.stdout), self._forward(_STDERR, child.stderr)]

    async def _forward(self, channel: int, pipe: object) -> None:
        """Forward the command's output as it arrives."""
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
        with suppress(OSError):  # raised by a terminal whose other end is closed
            while piece := await reader.read(_PIECE):
                await self._send(channel, piece)

    async def _send(self, channel: int, data: bytes) -> None:
        self._writer.write(self._socket.send(BytesMessage(bytes((channel,)) + data)))
        await self._writer.drain()

    async def _outcome(self, status: Mapping[str, object]) -> None:
        with suppress(ConnectionError):
            await self._send(_ERROR, json.dumps(status).encode())
            self._writer.write(self._socket.send(CloseConnection(1000)))
            await self._writer.drain()

    async def _listen(self, child: subprocess.Popen[bytes]) -> None:
        """Handle the client's messages until it disconnects."""
        parts: list[bytes] = []
        while data := await self._reader.read(_PIECE):
            try:
                self._socket.receive_data(data)
            except ProtocolError:
                return
            for event in self._socket.events():
                if isinstance(event, (BytesMessage, TextMessage)):
                    parts.append(event.data.encode() if isinstance(event.data, str) else bytes(event.data))
                    if event.message_finished:
                        self._handle_message(b"".join(parts))
                        parts = []
                elif isinstance(event, Ping):
                    self._writer.write(self._socket.send(event.response()))
                elif isinstance(event, CloseConnection):
                    return

    def _handle_message(self, message: bytes) -> None:
        channel, data = message[0] if message else _ERROR, message[1:]
        if channel == _STDIN and self._terminal is not None:
            with suppress(OSError):  # the command has ended
                os.write(self._terminal, data)
        elif channel == _STDIN and self._stdin is not None and data:
            self._stdin.write(data)
        elif channel == _CLOSE and data[:1] == bytes((_STDIN,)) and self._stdin is not None:
            self._stdin.close()
        elif channel == _RESIZE and self._terminal is not None:
            with suppress(ValueError, KeyError, OSError):
                size = json.loads(data)
                packed = struct.pack("HHHH", size["Height"], size["Width"], 0, 0)
                fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, packed)


def _success() -> dict[str, object]:
    return {"metadata": {}, "status": "Success"}


def _exit_status(code: int) -> dict[str, object]:
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


def _failure(message: str) -> dict[str, object]:
    return {"metadata": {}, "status": "Failure", "message": message, "reason": "InternalError", "code": 500}
