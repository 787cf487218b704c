"""The components' end of the pipe to the server that forked them.

It is a transport for their requests and serves the server's calls. The server's end is `apiserver.components.pipe`.
"""

from __future__ import annotations

import asyncio
import logging
import pickle
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, cast

from apiserver.runtime.frames import WINDOW, FrameKind, Frames, build_frame, build_parts, split_parts
from controllers.runtime.transport import Headers, TransportError

__all__ = ["Calls", "PipeTransport"]

log = logging.getLogger("controllers")

#: The dispatcher of the server's calls: name and arguments.
Calls = Callable[[str, tuple[Any, ...]], Awaitable[Any]]
#: Status and headers, the body, and the chunks of a chunked answer.
_Answer = tuple[tuple[int, Headers], bytes, "_Chunks | None"]


class _Chunks:
    """The arrived part of a chunked answer."""

    def __init__(self) -> None:
        self._arrived: deque[bytes] = deque()
        self._waiting: asyncio.Future[None] | None = None
        #: The reason for the end: "" after a complete answer, None before the end.
        self._end: str | None = None

    def add(self, chunk: bytes) -> None:
        self._arrived.append(chunk)
        self._wake()

    def end(self, why: str) -> None:
        self._end = why
        self._wake()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def next(self) -> bytes | None:
        """Return the next chunk; None at the end. Raise TransportError."""
        while not self._arrived:
            if self._end is not None:
                if self._end:
                    raise TransportError(self._end)
                return None
            self._waiting = asyncio.get_running_loop().create_future()
            await self._waiting
        return self._arrived.popleft()


class PipeTransport(asyncio.Protocol):
    """A transport (`controllers.runtime.transport`) that matches answers to requests by number."""

    def __init__(self, calls: Calls, lost: Callable[[], object] = lambda: None) -> None:
        """Create the transport. `lost` is called when the server is gone, before pending requests fail."""
        self._calls, self._lost = calls, lost
        self._loop = asyncio.get_running_loop()
        self._frames = Frames()
        self._transport: asyncio.Transport
        self._pending: dict[int, asyncio.Future[_Answer]] = {}
        self._open: dict[int, _Chunks] = {}
        self._last = 0
        self._call_tasks: set[asyncio.Task[None]] = set()
        #: Set when the server is gone.
        self.closed = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost()
        for number in [*self._pending, *self._open]:
            self._fail(number, "the server is gone")
        self.closed.set()

    def data_received(self, data: bytes) -> None:
        for kind, number, payload in self._frames.feed(data):
            if kind == FrameKind.ANSWER:
                self._resolve(number, (*split_parts(payload), None))
            elif kind == FrameKind.CHUNK:
                if (chunks := self._open.get(number)) is not None:
                    chunks.add(payload)
            elif kind == FrameKind.OPENED:
                if number in self._pending:
                    chunks = self._open[number] = _Chunks()
                    self._resolve(number, (*split_parts(payload), chunks))
            elif kind == FrameKind.END:
                if (chunks := self._open.get(number)) is not None:
                    chunks.end("")
            elif kind == FrameKind.BROKEN:
                self._fail(number, f"the connection closed: {payload.decode()}")
            elif kind == FrameKind.CALL:
                task = self._loop.create_task(self._answer_call(number, payload))
                self._call_tasks.add(task)
                task.add_done_callback(self._call_tasks.discard)

    def _resolve(self, number: int, answer: _Answer) -> None:
        answer_future = self._pending.pop(number, None)
        if answer_future is not None and not answer_future.done():
            answer_future.set_result(answer)

    def _fail(self, number: int, why: str) -> None:
        if (chunks := self._open.get(number)) is not None:
            chunks.end(why)
        elif (answer_future := self._pending.pop(number, None)) is not None and not answer_future.done():
            answer_future.set_exception(TransportError(why))

    # Requests

    async def _send(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, _Answer]:
        if self._transport.is_closing():
            raise TransportError("the server is gone")
        self._last = number = self._last + 1
        answer_future = self._pending[number] = self._loop.create_future()
        self._transport.write(build_parts(FrameKind.REQUEST, number, (method, path, query, headers), body))
        try:
            return number, await answer_future
        except asyncio.CancelledError:
            self._pending.pop(number, None)
            self._cancel(number)
            raise

    def _cancel(self, number: int) -> None:
        self._open.pop(number, None)
        if not self._transport.is_closing():
            self._transport.write(build_frame(FrameKind.CANCEL, number))

    async def request(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Headers, bytes]:
        number, ((status, answered), answer, chunks) = await self._send(method, path, query, headers, body)
        if chunks is not None:
            answer = b"".join([chunk async for chunk in self._read(number, chunks)])
        return status, answered, answer

    async def stream(
        self, method: str, path: str, query: str, headers: Mapping[str, str], deadline: float | None = None
    ) -> tuple[int, Headers, AsyncIterator[bytes]]:
        number, ((status, answered), answer, chunks) = await self._send(method, path, query, headers, b"")
        return status, answered, _whole(answer) if chunks is None else self._read(number, chunks)

    async def _read(self, number: int, chunks: _Chunks) -> AsyncGenerator[bytes, None]:
        """Yield the chunks and report to the server from time to time how many bytes were read."""
        read = 0
        try:
            while (chunk := await chunks.next()) is not None:
                yield chunk
                read += len(chunk)
                if read > WINDOW // 4 and not self._transport.is_closing():
                    self._transport.write(build_frame(FrameKind.TAKEN, number, b"%d" % read))
                    read = 0
        finally:
            self._cancel(number)

    async def close(self) -> None:
        self._transport.close()

    # Calls

    async def _answer_call(self, number: int, payload: bytes) -> None:
        name, arguments = pickle.loads(payload)  # noqa: S301 - from the process that forked this one
        try:
            result = build_frame(FrameKind.RESULT, number, pickle.dumps(await self._calls(name, arguments)))
        except Exception as error:  # noqa: BLE001 - the caller receives it
            result = build_frame(FrameKind.FAILURE, number, _pickle_error(error))
        if not self._transport.is_closing():
            self._transport.write(result)


def _pickle_error(error: Exception) -> bytes:
    """Pickle an error; replace one that cannot be unpickled by its text."""
    try:
        pickled = pickle.dumps(error)
        pickle.loads(pickled)  # noqa: S301 - pickled in the line before
    except Exception:
        log.exception("a call failed")
        return pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))
    return pickled


async def _whole(body: bytes) -> AsyncIterator[bytes]:
    yield body
