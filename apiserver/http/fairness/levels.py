"""A priority level: limit its concurrent requests and queue the others.

A request occupies a *seat* until it is answered, a watch until it is open, and for at least 2 ms: the shortest time in
a kube-apiserver, for which limits are chosen. Without that minimum, requests that this server answers without waiting
would never compete, and the client with the most requests would be served most.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import Mapping
from math import ceil
from time import perf_counter
from typing import Any, Final

from apiserver.runtime.clock import Timer, purpose

__all__ = ["Level", "QueuedRequest", "Rejected", "share_seats"]

Json = Mapping[str, Any]

CONCURRENCY_LIMIT: Final = "concurrency-limit"
QUEUE_FULL: Final = "queue-full"
TIME_OUT: Final = "time-out"
#: Minimal seconds for which a seat is occupied.
_SHORTEST: Final = 0.002
_DEFAULT_QUEUING: Final[Json] = {"queues": 64, "handSize": 8, "queueLengthLimit": 50}


class Rejected(Exception):
    """A request was rejected; the message is one of the reasons in metrics."""


class QueuedRequest:
    """A queued request, with the name of its flow."""

    __slots__ = ("admitted", "flow", "since")

    def __init__(self, flow: str, admitted: asyncio.Future[None]) -> None:
        self.flow, self.admitted, self.since = flow, admitted, perf_counter()


class Level:
    """One PriorityLevelConfiguration.

    `seats` are its own. It may borrow up to `most` from other levels (`share_seats`), and lends all but `least`.
    """

    def __init__(self, name: str) -> None:
        self.name, self.uid = name, ""
        self.exempt = False
        self.shares = self.seats = self.least = self.most = 0
        self.executing = 0
        #: Release times of seats that are held for the minimal duration, by the system's clock.
        self._due: deque[float] = deque()
        self._queuing: Json | None = None
        self._queues: dict[int, deque[QueuedRequest]] = {}
        #: Non-empty queues in round-robin order.
        self._queue_order: deque[int] = deque()
        self._hands: dict[tuple[str, str], list[int]] = {}
        #: All levels of the server, as possible lenders.
        self._lenders: Mapping[str, Level] = {}

    def configure(self, level: Json) -> None:
        """Apply the object's spec."""
        spec: Json = level["spec"]
        self.uid, self.exempt = level["metadata"]["uid"], spec["type"] == "Exempt"
        limits: Json = spec.get("exempt" if self.exempt else "limited") or {}
        self.shares = limits.get("nominalConcurrencyShares", 0 if self.exempt else 30)
        self._lent, self._borrowed = limits.get("lendablePercent") or 0, limits.get("borrowingLimitPercent")
        response: Json = limits.get("limitResponse") or {}
        self._queuing = (response.get("queuing") or _DEFAULT_QUEUING) if response.get("type") == "Queue" else None
        self._hands.clear()

    def allot(self, server: int, shares: int, total: int, levels: Mapping[str, Level]) -> None:
        """Take the level's share of all seats of the server.

        `total` is the sum of the seats of all `levels`, which may lend.
        """
        self.seats = _compute_share(server, self.shares, shares)
        self.least = self.seats - round(self.seats * self._lent / 100)
        more = total if self._borrowed is None else round(self.seats * self._borrowed / 100)
        self.most = self.seats + more
        self._lenders = levels

    @property
    def waiting(self) -> list[QueuedRequest]:
        return [each for queue in self._queues.values() for each in queue]

    def try_acquire(self) -> bool:
        """Take a free seat, unless requests are queued; return whether it was taken."""
        if self._queue_order or (self.executing >= self.seats and not self._may_borrow()):
            return False
        self.executing += 1
        return True

    def _may_borrow(self) -> bool:
        """Return whether other levels have lendable, unused seats."""
        if self.executing >= self.most:
            return False
        limited = [level for level in self._lenders.values() if not level.exempt]
        kept = sum(max(level.executing, level.least) for level in limited if level is not self)
        return self.executing + kept < sum(level.seats for level in limited)

    def release(self, since: float) -> None:
        """Release a seat that was taken at a time (`perf_counter`), after the minimal duration."""
        left = since + _SHORTEST - perf_counter()
        if left <= 0:
            self.release_now()
            return
        self._due.append(since + _SHORTEST)
        if len(self._due) == 1:
            asyncio.get_running_loop().call_later(left, self._release_due)

    @purpose(Timer.MACHINE)
    def _release_due(self) -> None:
        now = perf_counter()
        while self._due and self._due[0] <= now:
            self._due.popleft()
            self.release_now()
        if self._due:
            asyncio.get_running_loop().call_later(self._due[0] - now, self._release_due)

    def release_now(self) -> None:
        """Release a seat now; queued requests get it."""
        self.executing -= 1
        while self._queue_order and (self.executing < self.seats or self._may_borrow()):
            self._admit_one()

    def _admit_one(self) -> None:
        """Admit the next request, round robin over the queues: they have equal shares whatever their length."""
        queue_index = self._queue_order.popleft()
        queue = self._queues[queue_index]
        first = queue.popleft()
        if queue:
            self._queue_order.append(queue_index)
        else:
            del self._queues[queue_index]
        self.executing += 1
        first.admitted.set_result(None)

    async def wait(self, key: tuple[str, str], seconds: float) -> tuple[float, int]:
        """Wait for a seat; return the seconds spent and the initial length of the queue. Raise Rejected.

        `key` is the name of the flow and the distinguisher of its requests.
        """
        queue_index = min(self._deal_hand(key), key=lambda each: len(self._queues.get(each, ())))
        queue = self._queues.setdefault(queue_index, deque())
        # A request that waits for the seat of an answered request would not wait upstream: it is not counted.
        room = self._queuing.get("queueLengthLimit", 50) if self._queuing is not None else 0
        if len(queue) >= room + len(self._due):
            if not queue:
                del self._queues[queue_index]
            raise Rejected(QUEUE_FULL if self._queuing is not None else CONCURRENCY_LIMIT)
        loop = asyncio.get_running_loop()
        waiting = QueuedRequest(key[0], loop.create_future())
        queue.append(waiting)
        length = len(queue)
        if length == 1:
            self._queue_order.append(queue_index)
        timer = loop.call_later(seconds, _time_out, waiting)
        try:
            await waiting.admitted
        except BaseException:
            self._remove(queue_index, waiting)
            raise
        finally:
            timer.cancel()
        return perf_counter() - waiting.since, length

    def _remove(self, queue_index: int, waiting: QueuedRequest) -> None:
        """Remove a waiting request; a seat that it just got goes to the next one."""
        queue = self._queues.get(queue_index, deque())
        if waiting in queue:
            queue.remove(waiting)
            if not queue:
                del self._queues[queue_index]
                self._queue_order.remove(queue_index)
        elif not waiting.admitted.cancelled() and waiting.admitted.done() and waiting.admitted.exception() is None:
            self.release_now()

    def _deal_hand(self, key: tuple[str, str]) -> list[int]:
        """Return the queues of a flow: a few of all, so that two flows seldom share every queue."""
        if self._queuing is None:
            return [0]
        hand = self._hands.get(key)
        if hand is None:
            queues: int = self._queuing.get("queues", 64)
            value = int.from_bytes(hashlib.sha256("\0".join(key).encode()).digest()[:8], "little")
            left = list(range(queues))
            hand = []
            for _ in range(min(self._queuing.get("handSize", 8), queues)):
                value, card = divmod(value, len(left))
                hand.append(left.pop(card))
            if len(self._hands) > 1000:
                self._hands.clear()
            self._hands[key] = hand
        return hand


@purpose(Timer.MACHINE)
def _time_out(waiting: QueuedRequest) -> None:
    if not waiting.admitted.done():
        waiting.admitted.set_exception(Rejected(TIME_OUT))


def _compute_share(server: int, part: int, shares: int) -> int:
    return ceil(server * part / shares) if shares else 0


def share_seats(levels: Mapping[str, Level], server: int) -> None:
    """Distribute the seats of the server over its levels."""
    shares = sum(level.shares for level in levels.values())
    total = sum(_compute_share(server, level.shares, shares) for level in levels.values())
    for level in levels.values():
        level.allot(server, shares, total, levels)
