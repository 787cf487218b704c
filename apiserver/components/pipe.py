"""The server's end of the pipe to components in a child process: answer their requests and call their methods.

The other end is `controllers.runtime.pipe`. Both processes are forks of one program, so calls are pickled.
"""

from __future__ import annotations

import asyncio
import logging
import pickle
from typing import Any, cast

from apiserver.http.handlers.chain import HandlerChain
from apiserver.http.server.coalesce import Coalescer
from apiserver.request.messages import ConnectionClosed, Request, Response, Stream, User
from apiserver.runtime.frames import WINDOW, FrameKind, Frames, build_frame, build_parts, split_parts

__all__ = ["Pipe", "PipeClosed"]

log = logging.getLogger("apiserver")


class PipeClosed(Exception):
    """The other end of the pipe is closed."""


class _RunningRequest:
    """A running request. `unread` is the number of bytes of its chunks that the other end has not read yet."""

    __slots__ = ("drained", "task", "unread")

    def __init__(self) -> None:
        self.task: asyncio.Task[None]
        self.unread = 0
        self.drained: asyncio.Future[None] | None = None

    def acknowledge(self, size: int) -> None:
        """Subtract the bytes that the other end has read, and resume a waiting writer."""
        self.unread -= size
        if self.drained is not None and not self.drained.done():
            self.drained.set_result(None)


class Pipe(asyncio.Protocol):
    """The server's end: answers concurrent requests in order of completion. All are of one `user`."""

    def __init__(self, chain: HandlerChain, user: User, coalescer: Coalescer) -> None:
        self._chain, self._user, self._coalescer = chain, user, coalescer
        self._loop = asyncio.get_running_loop()
        self._frames = Frames()
        self._transport: asyncio.Transport
        self._running: dict[int, _RunningRequest] = {}
        self._calls: dict[int, asyncio.Future[Any]] = {}
        self._last_call = 0
        #: Set when the other end has closed.
        self.closed = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        for running in list(self._running.values()):
            running.task.cancel()
        for call in self._calls.values():
            if not call.done():
                call.set_exception(PipeClosed())
        self._calls.clear()
        self.closed.set()

    def close(self) -> None:
        """Close the connection."""
        self._transport.close()

    def data_received(self, data: bytes) -> None:
        for kind, number, payload in self._frames.feed(data):
            if kind == FrameKind.REQUEST:
                self._begin(number, payload)
            elif kind == FrameKind.RESULT or kind == FrameKind.FAILURE:
                self._finish_call(number, payload, failed=kind == FrameKind.FAILURE)
            elif (running := self._running.get(number)) is not None:
                if kind == FrameKind.TAKEN:
                    running.acknowledge(int(payload))
                else:
                    running.task.cancel()

    # Requests

    def _begin(self, number: int, payload: bytes) -> None:
        (method, path, query, headers), body = split_parts(payload)
        request = Request(method, path, query, headers, body, self._user)
        answer = self._chain.try_fast(request)
        if answer is not None:
            self._write(number, answer)
            return
        running = self._running[number] = _RunningRequest()
        running.task = self._loop.create_task(self._answer(number, request, running))

    async def _answer(self, number: int, request: Request, running: _RunningRequest) -> None:
        try:
            answer = await self._chain.handle(request)
            if isinstance(answer, Response):
                self._write(number, answer)
            else:
                await self._stream(number, answer, running)
        except ConnectionClosed as error:
            self._send(build_frame(FrameKind.BROKEN, number, str(error).encode()))
        except Exception:
            log.exception("an answer to a component failed")
            self._send(build_frame(FrameKind.BROKEN, number))
        finally:
            del self._running[number]

    def _write(self, number: int, answer: Response) -> None:
        self._send(build_parts(FrameKind.ANSWER, number, (answer.status, answer.headers), answer.body))

    async def _stream(self, number: int, answer: Stream, running: _RunningRequest) -> None:
        answer.inside = True
        self._send(build_parts(FrameKind.OPENED, number, (answer.status, answer.headers), b""))
        try:
            async for chunk in answer.chunks:
                self._send(build_frame(FrameKind.CHUNK, number, chunk))
                running.unread += len(chunk)
                while running.unread > WINDOW:
                    running.drained = self._loop.create_future()
                    await running.drained
                await self._coalescer.wait()
        finally:
            await answer.close()
        self._send(build_frame(FrameKind.END, number))

    def _send(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)

    # Calls

    async def call(self, name: str, *arguments: Any) -> Any:
        """Call the other end's method and return its result. Raise its exception, or PipeClosed."""
        if self._transport.is_closing():
            raise PipeClosed
        self._last_call += 1
        number, call = self._last_call, self._loop.create_future()
        self._calls[number] = call
        self._send(build_frame(FrameKind.CALL, number, pickle.dumps((name, arguments))))
        try:
            return await call
        finally:
            self._calls.pop(number, None)

    def _finish_call(self, number: int, payload: bytes, *, failed: bool) -> None:
        call = self._calls.get(number)
        if call is None or call.done():
            return
        result = pickle.loads(payload)  # noqa: S301 - from our own fork, through a private pipe
        if failed:
            call.set_exception(result)
        else:
            call.set_result(result)
