"""`/-/drivers/calls`: the latest calls between kubelets and the sockets of real drivers."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from pydantic import Field

from apiserver.http.admin.models import Model, describe_body, parse_body_as
from apiserver.http.admin.operations import Operations

_LONGEST = 256


class CalledClaim(Model):
    """A claim in a call."""

    namespace: str
    name: str
    uid: str


class DriverCall(Model):
    """A call of a kubelet to a driver, or one message of a stream (`ID/NUMBER`)."""

    id: str = Field(description="unique for each process of a kubelet", max_length=_LONGEST)
    time: datetime = Field(description="start of the call; for a message of a stream, its arrival")
    node: str = Field(max_length=_LONGEST)
    driver: str = Field(description="empty until the driver of a socket is known", max_length=_LONGEST)
    service: str = Field(description="full name of the gRPC service", max_length=_LONGEST)
    method: str = Field(max_length=_LONGEST)
    stream: bool = Field(False, description="whether the call is a stream or one of its messages")
    claims: list[CalledClaim] = Field([])
    request: dict[str, Any] = Field({}, description="the request, unless it only has claims")
    answer: dict[str, Any] = Field({}, description="the response, or the message of a stream")
    code: str = Field("", description="gRPC code in Go's spelling; empty while the call runs", max_length=_LONGEST)
    error: str = Field("", description="message of a failed call")
    seconds: float = Field(0, ge=0, description="duration of the call; 0 while it runs")


class ReportedCalls(Model):
    """Calls of a kubelet in another process."""

    calls: list[DriverCall] = Field(max_length=1000)


class Filter(Model):
    """A filter of calls: all given parameters must match."""

    node: str = ""
    driver: str = ""
    method: str = Field("", description="NodePrepareResources, NodeUnprepareResources, NodeWatchResources, GetInfo, …")
    claim: str = Field("", description="NAMESPACE/NAME")
    limit: int = Field(100, ge=1, description="maximum number of calls to return, latest first")

    def fits(self, call: dict[str, Any]) -> bool:
        names = [f"{claim['namespace']}/{claim['name']}" for claim in call["claims"]]
        return (
            self.node in ("", call["node"])
            and self.driver in ("", call["driver"])
            and self.method in ("", call["method"])
            and (not self.claim or self.claim in names)
        )


def create(operations: Operations) -> APIRouter:
    router = APIRouter(tags=["requests"])

    @router.get("/-/drivers/calls", summary="The latest calls of kubelets to real drivers, newest first")
    async def calls(query: Annotated[Filter, Query()]) -> list[DriverCall]:
        """Return the latest calls of `node run` and `up --plugin-dir`: registration, claims, health.

        Emulated drivers are not called.
        """
        known = [*operations.driver_calls, *await operations.own_driver_calls()]
        found = [DriverCall.model_validate(call) for call in known if query.fits(call)]
        return sorted(found, key=lambda call: call.time, reverse=True)[: query.limit]

    @router.post(
        "/-/drivers/calls", status_code=204, summary="Record calls", openapi_extra=describe_body(ReportedCalls)
    )
    async def report(reported: Annotated[ReportedCalls, Depends(parse_body_as(ReportedCalls))]) -> None:
        """Record the calls of a kubelet in another process (`kubedra node run`)."""
        found = [call.model_dump(mode="json", by_alias=True) for call in reported.calls]
        operations.driver_calls.add(found)
        if operations.coverage is not None:
            for call in found:
                operations.coverage.see_driver_call(call)

    @router.delete("/-/drivers/calls", status_code=204, summary="Delete the calls that other processes recorded")
    async def delete() -> None:
        operations.driver_calls.clear()

    return router
