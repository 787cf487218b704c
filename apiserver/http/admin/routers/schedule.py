"""`/-/schedule`: the schedule of an explored test, for clients outside this process."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException
from pydantic import Field

from apiserver.http.admin.models import Model, describe_body, parse_body_as
from apiserver.http.admin.operations import Operations
from kubedra.exploration.schedule import FixedSchedule, RandomSchedule, ScheduleError, parse, render


class ChosenSchedule(Model):
    """A schedule: one of random numbers, or one of given deviations."""

    number: int | None = Field(None, description="seed of a random schedule")
    deviations: str = Field("none", description="deviations, as in `--kubedra-schedule`; none for the plain run")


class Point(Model):
    """A choice point that has been passed."""

    name: str
    actions: list[str] = Field(description="what may happen there")


class RunningSchedule(Model):
    """The schedule so far."""

    taken: str = Field(description="deviations so far")
    visited: list[Point] = Field(description="choice points so far")


def create(operations: Operations) -> APIRouter:
    router, schedules = APIRouter(tags=["faults"]), operations.schedules

    @router.put(
        "/-/schedule",
        status_code=204,
        summary="Disturb the requests of all clients but the test's by a schedule",
        openapi_extra=describe_body(ChosenSchedule),
    )
    async def set_(chosen: Annotated[ChosenSchedule, Depends(parse_body_as(ChosenSchedule))]) -> None:
        """Replace the schedule. Clients with the user agents `kubedra` and `kubedra-wait` are never disturbed."""
        try:
            fixed = FixedSchedule(parse(chosen.deviations))
        except ScheduleError as error:
            raise HTTPException(400, f"deviations: {error}") from error
        schedules.set(fixed if chosen.number is None else RandomSchedule(chosen.number))

    @router.get("/-/schedule", summary="The schedule so far", responses={404: {"description": "no schedule runs"}})
    async def get() -> RunningSchedule:
        if schedules.current is None:
            raise HTTPException(404, "no schedule runs")
        visited = [Point(name=name, actions=list(actions)) for name, actions in schedules.current.visited]
        return RunningSchedule(taken=render(schedules.current.taken), visited=visited)

    @router.delete("/-/schedule", status_code=204, summary="End the schedule")
    async def clear() -> None:
        schedules.clear()

    return router
