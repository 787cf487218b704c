"""`/-/clock`: the time, the pending timers, and advancing virtual time."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, HTTPException
from pydantic import Field

from apiserver.api.values.durations import parse_duration
from apiserver.http.admin.models import Model, body_of, documented
from apiserver.http.admin.operations import Operations
from apiserver.runtime.clock import now
from apiserver.runtime.virtual_loop import VirtualLoop


class PendingTimer(Model):
    """A pending timer."""

    due: datetime
    purpose: Literal["work", "upkeep"] = Field(description="upkeep comes back as long as the server runs")
    calls: str = Field(description="what is called, or who waits for it")


class Clock(Model):
    """The control plane's time."""

    virtual: bool = Field(description="whether it stands still until it is moved (--clock virtual)")
    now: datetime
    next: PendingTimer | None = Field(description="the next timer that falls due; null where time is real")
    pending: int = Field(description="timers that wait")
    work: int = Field(description="of these, those that are not upkeep")


class Timers(Clock):
    """The control plane's time, with the pending timers."""

    timers: list[PendingTimer] = Field(description="in the order in which they fall due")


class Move(Model):
    """How to advance time: by a duration, or until an event."""

    advance: str | None = Field(None, description="a duration such as 5m; 0 waits until everything is at rest")
    until: Literal["next", "idle"] | None = Field(
        None, description="to the next timer, or until no timer is left but those of upkeep"
    )
    limit: str = Field("1h", description="with until: how far at most")
    pause: str = Field(
        "0", description="real time without a request before each timer, so that clients outside can react"
    )


class Moved(Clock):
    """The time after an advance."""

    fired: int = Field(description="timers that fell due")
    idle: bool = Field(description="whether no timer is left but those of upkeep")


def _seconds(field: str, text: str) -> float:
    try:
        return parse_duration(text).total_seconds()
    except ValueError as error:
        raise HTTPException(400, f"{field} {text!r}: {error}") from error


def _clock() -> Clock:
    pending = _pending()
    return Clock(
        virtual=isinstance(asyncio.get_running_loop(), VirtualLoop),
        now=now(),
        next=pending[0] if pending else None,
        pending=len(pending),
        work=sum(timer.purpose == "work" for timer in pending),
    )


def _pending() -> list[PendingTimer]:
    loop = asyncio.get_running_loop()
    if not isinstance(loop, VirtualLoop):
        return []
    return [
        PendingTimer.model_validate({"due": due, "purpose": purpose.name.lower(), "calls": calls})
        for due, purpose, calls in loop.pending()
    ]


def create(_operations: Operations) -> APIRouter:
    router = APIRouter(tags=["clock"])

    @router.get("/-/clock", summary="The time, and the timers that wait")
    async def get_clock(limit: int = 100) -> Timers:
        """Return the time and the pending timers. `limit`: number of timers to show."""
        return Timers(**_clock().model_dump(), timers=_pending()[:limit])

    @router.post("/-/clock", summary="Move virtual time", openapi_extra=documented(Move))
    async def move_clock(move: Annotated[Move, Depends(body_of(Move))]) -> Moved:
        """Fire the due timers in order, completing the effects of each before the next. Return when all is idle."""
        loop = asyncio.get_running_loop()
        if not isinstance(loop, VirtualLoop):
            raise HTTPException(409, "time is real here: start the server with --clock virtual to move it")
        if (move.advance is None) is (move.until is None):
            raise HTTPException(400, 'say either {"advance": "5m"} or {"until": "idle"}')
        pause, limit = _seconds("pause", move.pause), _seconds("limit", move.limit)
        if move.advance is not None:
            moved = await loop.advance(_seconds("advance", move.advance), pause)
        elif move.until == "next":
            moved = await loop.step(limit, pause)
        else:
            moved = await loop.run_until_idle(limit, pause)
        return Moved(**_clock().model_dump(), fired=moved.fired, idle=moved.idle)

    return router
