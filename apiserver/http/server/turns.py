"""Fair turns of connections.

One iteration of the event loop spends at most a slice of time on requests that can be answered without waiting. While
the slice lasts, requests are answered as they arrive. Connections with more input, or that arrive later, queue; each
turn is one response or the parsing of a small piece of input. So a client with many pipelined requests delays others
by one request per connection, and the other tasks of the loop by one slice per iteration. Of the requests that need a
task only a few start in each iteration: those that wait for a webhook, by hundreds, let the small ones pass.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from time import perf_counter
from typing import Final, Protocol

#: Seconds of one iteration of the loop. Tasks need several iterations per request.
SLICE: Final = 0.002
#: Tasks that start their work in one iteration. Each goes on in many of the following ones.
STARTS: Final = 16


class TurnTaker(Protocol):
    """A connection. `take_turn` does a bounded amount of work and returns whether there is more."""

    def take_turn(self) -> bool: ...


class Turns:
    """The queue of connections with work."""

    def __init__(self, now: Callable[[], float] = perf_counter) -> None:
        self._queue: OrderedDict[TurnTaker, None] = OrderedDict()
        self._now, self._until = now, 0.0
        self._scheduled = False
        self._starting: deque[asyncio.Future[None]] = deque()
        self._started = 0  # in this iteration

    def try_begin(self) -> bool:
        """Return whether a connection may work immediately: nothing is queued and the slice is not used up."""
        if self._queue:
            return False
        if not self._scheduled:
            self._schedule()
            self._until = self._now() + SLICE
            return True
        return self._now() < self._until

    async def start(self) -> None:
        """Wait until a task may start its work: a few in each iteration."""
        if self._started < STARTS and not self._starting:
            self._started += 1
            self._schedule()
            return
        turn = asyncio.get_running_loop().create_future()
        self._starting.append(turn)
        self._schedule()
        await turn

    def enqueue(self, connection: TurnTaker) -> None:
        """Give a connection a turn after those that wait; a connection waits only once."""
        self._queue[connection] = None
        self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        """Give turns until the slice is used up; the next iteration continues."""
        self._scheduled, self._started, self._until = False, 0, self._now() + SLICE
        while self._starting and self._started < STARTS:
            turn = self._starting.popleft()
            if not turn.done():
                turn.set_result(None)
                self._started += 1
        if self._starting:
            self._schedule()
        if not self._queue:
            return
        self._schedule()
        while self._queue:
            connection, _ = self._queue.popitem(last=False)
            if connection.take_turn():
                self._queue[connection] = None
            if self._now() >= self._until:
                break
