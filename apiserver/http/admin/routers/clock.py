"""`/-/clock`: the time, the pending timers, and advancing virtual time."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, HTTPException
from pydantic import Field

from apiserver.api.values.durations import parse_duration
from apiserver.http.admin.models import Model, describe_body, parse_body_as
from apiserver.http.admin.operations import Operations
from apiserver.runtime.clock import now
from apiserver.runtime.virtual_loop import VirtualLoop


class PendingTimer(Model):
    """A pending timer."""

    due: datetime
    purpose: Literal["work", "upkeep"] = Field(description="upkeep: periodic work that recurs while the server runs")
    calls: str = Field(description="the function that the timer calls, or the task that it resumes")


class Clock(Model):
    """The control plane's time."""

    virtual: bool = Field(description="whether time advances only on request (--clock virtual)")
    now: datetime
    next: PendingTimer | None = Field(description="the next due timer; null with real time")
    pending: int = Field(description="number of pending timers")
    work: int = Field(description="number of pending timers, upkeep excluded")


class Timers(Clock):
    """The control plane's time, with the pending timers."""

    timers: list[PendingTimer] = Field(description="pending timers, ordered by due time")


class AdvanceRequest(Model):
    """How to advance time: by a duration, or until an event."""

    advance: str | None = Field(None, description="duration such as 5m; 0 only waits until all work is done")
    until: Literal["next", "idle"] | None = Field(
        None, description="next: fire the next timer; idle: advance until only upkeep timers are pending"
    )
    limit: str = Field("1h", description="with until: maximum duration to advance")
    pause: str = Field(
        "0", description="real time without requests to wait before each timer, so that external clients can react"
    )


class AdvanceResult(Clock):
    """The time after an advance."""

    fired: int = Field(description="number of timers that fired")
    idle: bool = Field(description="whether only upkeep timers are pending")


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

    @router.get("/-/clock", summary="Current time and pending timers")
    async def get_clock(limit: int = 100) -> Timers:
        """Return the time and the pending timers. `limit`: number of timers to show."""
        return Timers(**_clock().model_dump(), timers=_pending()[:limit])

    @router.post("/-/clock", summary="Advance virtual time", openapi_extra=describe_body(AdvanceRequest))
    async def advance_clock(
        body: Annotated[AdvanceRequest, Depends(parse_body_as(AdvanceRequest))],
    ) -> AdvanceResult:
        """Fire the due timers in order, completing the effects of each before the next. Return when all is idle."""
        loop = asyncio.get_running_loop()
        if not isinstance(loop, VirtualLoop):
            raise HTTPException(409, "the clock is real: start the server with --clock virtual to advance it")
        if (body.advance is None) is (body.until is None):
            raise HTTPException(400, 'set either advance or until: {"advance": "5m"} or {"until": "idle"}')
        pause, limit = _seconds("pause", body.pause), _seconds("limit", body.limit)
        if body.advance is not None:
            result = await loop.advance(_seconds("advance", body.advance), pause)
        elif body.until == "next":
            result = await loop.step(limit, pause)
        else:
            result = await loop.run_until_idle(limit, pause)
        return AdvanceResult(**_clock().model_dump(), fired=result.fired, idle=result.idle)

    return router
