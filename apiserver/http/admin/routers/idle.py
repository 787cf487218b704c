"""`/-/idle`: whether the control plane is idle."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import Field

from apiserver.http.admin.models import Model
from apiserver.http.admin.operations import Operations


class NextTimer(Model):
    """The next timer of a component, upkeep excluded."""

    component: str
    seconds: float = Field(description="until it falls due")


class RestState(Model):
    """The pending work of the controllers, the scheduler and the node agent in this process."""

    resting: bool = Field(description="they run in this process, and none has anything to do now")
    components: list[str] = Field(description="those that run in this process")
    busy: list[str] = Field(description="those that have something to do now")
    next: NextTimer | None = Field(description="null where nothing but upkeep is left")
    watches: int = Field(description="open watches of other clients, which may act; those that only wait aside")
    quiet_seconds: float | None = Field(
        description="since an object was last written, leases and events aside; null where none was"
    )


def create(operations: Operations) -> APIRouter:
    router = APIRouter(tags=["server"])

    @router.get("/-/rest", summary="The former path of /-/idle", deprecated=True)
    @router.get("/-/idle", summary="Whether anything is left to happen")
    async def idle() -> RestState:
        """Return the state. If `resting` is true, nothing changes by itself until the next timer is due.

        It is always false if no components run in this process.
        """
        found = await operations.rest()
        due = found.next_timer
        return RestState(
            resting=bool(found.components) and not found.busy,
            components=list(found.components),
            busy=list(found.busy),
            next=None if due is None else NextTimer(component=due[0], seconds=due[1]),
            watches=found.watches,
            quiet_seconds=found.quiet,
        )

    return router
