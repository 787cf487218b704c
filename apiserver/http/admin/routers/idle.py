"""`/-/idle`: whether the control plane is idle."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import Field

from apiserver.http.admin.models import Model
from apiserver.http.admin.operations import Operations


class NextTimer(Model):
    """The next timer of a component, upkeep excluded."""

    component: str
    seconds: float = Field(description="seconds until it is due")


class IdleState(Model):
    """The pending work of the controllers, the scheduler and the node agent in this process."""

    resting: bool = Field(description="whether components run in this process and none has work")
    components: list[str] = Field(description="components that run in this process")
    busy: list[str] = Field(description="components that have work")
    next: NextTimer | None = Field(description="null if only upkeep timers are pending")
    watches: int = Field(description="open watches of external clients, `kubedra wait` excluded")
    quiet_seconds: float | None = Field(
        description="seconds since the last write, leases and events excluded; null if there was none"
    )


def create(operations: Operations) -> APIRouter:
    router = APIRouter(tags=["server"])

    @router.get("/-/rest", summary="The former path of /-/idle", deprecated=True)
    @router.get("/-/idle", summary="Whether the control plane is idle")
    async def idle() -> IdleState:
        """Return the state. If `resting` is true, nothing changes by itself until the next timer is due.

        It is always false if no components run in this process.
        """
        status = await operations.idle()
        due = status.next_timer
        return IdleState(
            resting=bool(status.components) and not status.busy,
            components=list(status.components),
            busy=list(status.busy),
            next=None if due is None else NextTimer(component=due[0], seconds=due[1]),
            watches=status.watches,
            quiet_seconds=status.quiet,
        )

    return router
