"""The control plane's time, for tests: what it is, and moving it where it is virtual."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kubedra.client import Client

Json = dict[str, Any]

#: Real seconds that moving time may take.
_PATIENCE = 600.0

__all__ = ["Clock", "RealTimeError"]


class RealTimeError(RuntimeError):
    """Time passes by itself in this control plane."""


class Clock:
    """`/-/clock` of one server. `client` gives a client of it."""

    def __init__(self, client: Callable[[], Client]) -> None:
        self._client = client

    def now(self) -> datetime:
        """The control plane's time."""
        return datetime.fromisoformat(self._client().request("GET", "/-/clock?limit=0")["now"])

    def advance(self, delay: timedelta | None = None, *, pause: timedelta = timedelta(), **units: float) -> Json:
        """Lets time pass: `advance(minutes=5)`, or by a timedelta. Returns when all that fell due is at rest.

        `pause`: real time without a request before each timer, so that clients outside can react to what happened.
        Raises RealTimeError where time is real.
        """
        delay = delay if delay is not None else timedelta(**units)
        return self._move({"advance": _text(delay), "pause": _text(pause)})

    def run_until_idle(self, limit: timedelta = timedelta(hours=1), *, pause: timedelta = timedelta()) -> Json:
        """Lets time pass until nothing is left to happen but upkeep (resync, renewal of leases), by `limit` at most.
        Raises RealTimeError, and TimeoutError where work is left at the limit."""
        moved = self._move({"until": "idle", "limit": _text(limit), "pause": _text(pause)})
        if not moved["idle"]:
            raise TimeoutError(f"work is left after {limit}: {moved['next']}")
        return moved

    def step(self, limit: timedelta, *, pause: timedelta = timedelta()) -> Json:
        """Lets time pass until the next timer, by `limit` at most."""
        return self._move({"until": "next", "limit": _text(limit), "pause": _text(pause)})

    def _move(self, how: Json) -> Json:
        from kubedra.client import ApiError

        try:
            return self._client().request("POST", "/-/clock", how, timeout=_PATIENCE)
        except ApiError as error:
            if error.code != 409:
                raise
            detail = (error.status or {}).get("detail", "time is real here")
            raise RealTimeError(detail) from error


def _text(delay: timedelta) -> str:
    return f"{delay / timedelta(milliseconds=1):.3f}ms"
