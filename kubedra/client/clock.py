"""The control plane's time, for tests: what it is, and moving it where it is virtual."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from kubedra.client.responses import decode
from kubedra.client.steps import Awaiting, Blocking, Call, Step, Steps, awaiting, blocking

Json = dict[str, Any]
#: A failing test's report ends in the test: pytest leaves this module's frames out.
__tracebackhide__ = True

#: Real seconds that moving time may take.
_PATIENCE = 600.0

__all__ = ["AsyncClock", "Clock", "ClockMethods", "RealTimeError"]


class RealTimeError(RuntimeError):
    """Time passes by itself in this control plane."""


class ClockMethods:
    """What `Clock` and `AsyncClock` can do, as steps."""

    def now(self) -> Steps[datetime]:
        """The control plane's time."""
        answer = yield from _ask(Call(method="GET", path="/-/clock", params={"limit": "0"}))
        return datetime.fromisoformat(answer["now"])

    def advance(
        self, /, delay: timedelta | None = None, *, pause: timedelta = timedelta(), **units: float
    ) -> Steps[Json]:
        """Lets time pass: `advance(minutes=5)`, or by a timedelta. Returns when all that fell due is at rest.

        `pause`: real time without a request before each timer, so that clients outside can react to what happened.
        Raises RealTimeError where time is real.
        """
        delay = delay if delay is not None else timedelta(**units)
        return (yield from _move({"advance": _text(delay), "pause": _text(pause)}))

    def run_until_idle(self, limit: timedelta = timedelta(hours=1), *, pause: timedelta = timedelta()) -> Steps[Json]:
        """Lets time pass until nothing is left to happen but upkeep (resync, renewal of leases), by `limit` at most.
        Raises RealTimeError, and TimeoutError where work is left at the limit."""
        moved = yield from _move({"until": "idle", "limit": _text(limit), "pause": _text(pause)})
        if not moved["idle"]:
            raise TimeoutError(f"work is left after {limit}: {moved['next']}")
        return moved

    def step(self, limit: timedelta, *, pause: timedelta = timedelta()) -> Steps[Json]:
        """Lets time pass until the next timer, by `limit` at most."""
        return (yield from _move({"until": "next", "limit": _text(limit), "pause": _text(pause)}))


class Clock:
    """`/-/clock` of one server. `client` gives a client of it."""

    def __init__(self, client: Callable[[], Blocking]) -> None:
        self._client = client
        self._methods = ClockMethods()

    def _do(self, step: Step) -> Any:
        return self._client()._do(step)

    now = blocking(ClockMethods.now)
    advance = blocking(ClockMethods.advance)
    run_until_idle = blocking(ClockMethods.run_until_idle)
    step = blocking(ClockMethods.step)


class AsyncClock:
    """`Clock` for an event loop."""

    def __init__(self, client: Awaiting) -> None:
        self._client = client
        self._methods = ClockMethods()

    async def _do(self, step: Step) -> Any:
        return await self._client._do(step)

    now = awaiting(ClockMethods.now)
    advance = awaiting(ClockMethods.advance)
    run_until_idle = awaiting(ClockMethods.run_until_idle)
    step = awaiting(ClockMethods.step)


def _move(how: Json) -> Steps[Json]:
    return (yield from _ask(Call(method="POST", path="/-/clock", body=how, timeout=_PATIENCE)))


def _ask(call: Call) -> Steps[Json]:
    code, text = yield call
    if code == 409:
        raise RealTimeError(json.loads(text).get("detail", "time is real here"))
    return decode(code, text)


def _text(delay: timedelta) -> str:
    return f"{delay / timedelta(milliseconds=1):.3f}ms"
