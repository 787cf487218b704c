"""Coalescing of events: the rate at which the streams of a server wake."""

from __future__ import annotations

import asyncio
from typing import Final

from apiserver.runtime.clock import Timer, purpose

#: Pause after a chunk in seconds: per recently active stream, and maximal.
_WAIT: Final = 0.0002
_MAX_WAIT: Final = 0.02
#: Maximal bytes of a frame that is cached for the next stream.
_MAX_CACHED: Final = 1024 * 1024


class Coalescer:
    """Lets each stream pause after a chunk, for a time that grows with the number of pausing streams.

    Events meanwhile go into one chunk, so that many watchers of a busy kind do not each wake for every event. An event
    after a quiet period is sent immediately, and silent streams delay no other stream.

    All pausing streams continue together, so that they find the same events and share their encoding.
    """

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] = []
        self._busy = 1
        self._framed = (b"", b"")

    async def wait(self) -> None:
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        if not self._waiting:
            loop.call_later(min(self._busy * _WAIT, _MAX_WAIT), self._wake)
        self._waiting.append(waiter)
        await waiter

    @purpose(Timer.MACHINE)
    def _wake(self) -> None:
        waiters, self._waiting = self._waiting, []
        self._busy = len(waiters)
        for each in waiters:
            if not each.done():
                each.set_result(None)

    def frame(self, chunk: bytes) -> bytes:
        """Frame a chunk for HTTP/1.1. Streams that send the same chunk in succession share the frame."""
        last, framed = self._framed
        if chunk is not last:
            framed = b"%x\r\n%b\r\n" % (len(chunk), chunk)
            if len(framed) <= _MAX_CACHED:
                self._framed = (chunk, framed)
        return framed
