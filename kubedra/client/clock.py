"""The clock of a control plane, for tests: read it, and advance virtual time."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from kubedra.client.responses import decode
from kubedra.client.steps import AsyncStepRunner, Call, Step, StepRunner, Steps, as_async, as_blocking
from kubedra.runtime.objects import Json

#: pytest hides this module's frames in the reports of failing tests.
__tracebackhide__ = True

#: Timeout of a request that advances the time, in seconds of real time.
_TIMEOUT = 600.0

__all__ = ["AsyncClock", "Clock", "ClockMethods", "RealTimeError"]


class RealTimeError(RuntimeError):
    """The control plane runs in real time, so its clock cannot be advanced."""


class ClockMethods:
    """The methods of `Clock` and `AsyncClock`, as steps."""

    def now(self) -> Steps[datetime]:
        """Return the time of the control plane."""
        answer = yield from _call(Call(method="GET", path="/-/clock", params={"limit": "0"}))
        return datetime.fromisoformat(answer["now"])

    def advance(
        self, /, delay: timedelta | None = None, *, pause: timedelta = timedelta(), **units: float
    ) -> Steps[Json]:
        """Advance virtual time: `advance(minutes=5)`, or by a timedelta. Return when all due work is done.

        `pause` is real time without a request before each timer, so that external clients can react. Raises
        RealTimeError if the control plane runs in real time.
        """
        delay = delay if delay is not None else timedelta(**units)
        return (yield from _advance({"advance": _format(delay), "pause": _format(pause)}))

    def run_until_idle(self, limit: timedelta = timedelta(hours=1), *, pause: timedelta = timedelta()) -> Steps[Json]:
        """Advance virtual time by at most `limit`, until only periodic work is left (resync, renewal of leases).

        Raises RealTimeError, and TimeoutError if work is left at the limit.
        """
        state = yield from _advance({"until": "idle", "limit": _format(limit), "pause": _format(pause)})
        if not state["idle"]:
            raise TimeoutError(f"work is left after {limit}: {state['next']}")
        return state

    def step(self, limit: timedelta, *, pause: timedelta = timedelta()) -> Steps[Json]:
        """Advance virtual time to the next timer, by at most `limit`."""
        return (yield from _advance({"until": "next", "limit": _format(limit), "pause": _format(pause)}))


class Clock:
    """The clock (`/-/clock`) of one server. `client` returns a client of that server."""

    def __init__(self, client: Callable[[], StepRunner]) -> None:
        self._client = client
        self._methods = ClockMethods()

    def _do(self, step: Step) -> Any:
        return self._client()._do(step)

    now = as_blocking(ClockMethods.now)
    advance = as_blocking(ClockMethods.advance)
    run_until_idle = as_blocking(ClockMethods.run_until_idle)
    step = as_blocking(ClockMethods.step)


class AsyncClock:
    """`Clock` for an event loop."""

    def __init__(self, client: AsyncStepRunner) -> None:
        self._client = client
        self._methods = ClockMethods()

    async def _do(self, step: Step) -> Any:
        return await self._client._do(step)

    now = as_async(ClockMethods.now)
    advance = as_async(ClockMethods.advance)
    run_until_idle = as_async(ClockMethods.run_until_idle)
    step = as_async(ClockMethods.step)


def _advance(request: Json) -> Steps[Json]:
    return (yield from _call(Call(method="POST", path="/-/clock", body=request, timeout=_TIMEOUT)))


def _call(call: Call) -> Steps[Json]:
    code, text = yield call
    if code == 409:
        raise RealTimeError(json.loads(text).get("detail", "the control plane runs in real time"))
    return decode(code, text)


def _format(delay: timedelta) -> str:
    return f"{delay / timedelta(milliseconds=1):.3f}ms"
