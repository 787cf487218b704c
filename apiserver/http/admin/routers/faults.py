"""`/-/faults`: failures to inject."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Literal, Self, cast

from fastapi import APIRouter, Depends, HTTPException, Path
from pydantic import Field, model_validator

from apiserver.http.admin.models import Model, describe_body, parse_body_as
from apiserver.http.admin.operations import Operations
from apiserver.http.handlers.faults import Match, Rule

_UNKNOWN: dict[int | str, dict[str, Any]] = {404: {"description": "fault not found"}}
Status = Literal[409, 410, 429, 500, 503]
Id = Annotated[str, Path(description="ID from the response to POST")]
_PATTERN = "a pattern: `*`, `?` and `[…]` as in file names"


class FaultMatch(Model):
    """A filter of requests: all given fields must match. Without fields all requests match."""

    verb: str = Field("", description=f"get, list, watch, create, update, patch, delete, deletecollection; {_PATTERN}")
    group: str = Field("", description=f"API group; {_PATTERN}")
    resource: str = Field("", description=f"plural, or with a subresource such as `pods/status`; {_PATTERN}")
    namespace: str = Field("", description=_PATTERN)
    name: str = Field("", description=_PATTERN)
    user: str = Field("", description=f"user name; {_PATTERN}")
    user_agent: str = Field("", description=_PATTERN)
    path: str = Field("", description=f"URL path, including non-resource paths; {_PATTERN}")


class WatchFault(Model):
    """A watch that ends early."""

    end: Literal["end", "close", "expired"] = Field(
        description="end: normal timeout; close: the connection closes; expired: event 410, so clients list again"
    )
    after_seconds: float = Field(0, ge=0, description="seconds after the watch opened")


class Fault(Model):
    """A failure to inject. At most one of `status`, `close` and `watch`; `latencySeconds` precedes it."""

    match: FaultMatch = FaultMatch.model_validate({})
    latency_seconds: float = Field(0, ge=0, description="delay of the response, in server time")
    status: Status | None = Field(None, description="respond with this error")
    retry_after_seconds: int | None = Field(
        None, ge=0, description="Retry-After header of the error; makes client-go retry"
    )
    message: str = Field("", description="error message; default: upstream's")
    close: Literal["before", "after"] | None = Field(
        None, description="close the connection without a response, before or after the request takes effect"
    )
    watch: WatchFault | None = None
    count: int | None = Field(None, ge=1, description="number of times to fire; default: unlimited")
    probability: float = Field(1, gt=0, le=1, description="probability per matching request")
    seed: int = Field(0, description="random seed: the same seed and requests give the same faults")

    @model_validator(mode="after")
    def consistent(self) -> Self:
        chosen = [name for name in ("status", "close", "watch") if getattr(self, name) is not None]
        if len(chosen) > 1:
            raise ValueError(f"{' and '.join(chosen)} are mutually exclusive: inject one fault each")
        if not chosen and not self.latency_seconds:
            raise ValueError("one of latencySeconds, status, close and watch is required")
        if self.status is None and (self.retry_after_seconds is not None or self.message):
            raise ValueError("retryAfterSeconds and message require status")
        return self

    def rule(self, id: str) -> Rule:
        return Rule(
            id=id,
            match=Match(**self.match.model_dump()),
            latency=self.latency_seconds,
            status=self.status or 0,
            retry_after=self.retry_after_seconds,
            message=self.message,
            close=self.close or "",
            watch_end=self.watch.end if self.watch is not None else "",
            watch_seconds=self.watch.after_seconds if self.watch is not None else 0,
            count=self.count,
            probability=self.probability,
            seed=self.seed,
        )


class InjectedFault(Fault):
    """A fault and its state."""

    id: str
    fired: int = Field(description="number of times it fired")
    active: bool = Field(description="whether it can still fire")

    @classmethod
    def of(cls, rule: Rule) -> InjectedFault:
        watch = WatchFault(end=rule.watch_end, after_seconds=rule.watch_seconds) if rule.watch_end else None
        return cls(
            id=rule.id,
            match=FaultMatch(**asdict(rule.match)),
            latency_seconds=rule.latency,
            status=cast(Status, rule.status) if rule.status else None,
            retry_after_seconds=rule.retry_after,
            message=rule.message,
            close=rule.close or None,
            watch=watch,
            count=rule.count,
            probability=rule.probability,
            seed=rule.seed,
            fired=rule.fired,
            active=rule.active,
        )


def create(operations: Operations) -> APIRouter:
    router, faults = APIRouter(tags=["faults"]), operations.faults

    @router.get("/-/faults", summary="All faults, in evaluation order")
    async def list_() -> list[InjectedFault]:
        return [InjectedFault.of(rule) for rule in faults.rules()]

    @router.post(
        "/-/faults",
        status_code=201,
        summary="Inject a fault into future requests",
        openapi_extra=describe_body(Fault),
    )
    async def add(fault: Annotated[Fault, Depends(parse_body_as(Fault))]) -> InjectedFault:
        """Add a fault. The first matching fault that fires decides the outcome of a request.

        Faults apply to every client, including the components that run with the server; `match.userAgent` and
        `match.user` select clients. Paths below `/-/` are never affected.
        """
        rule = fault.rule(faults.new_id())
        faults.add(rule)
        return InjectedFault.of(rule)

    @router.get("/-/faults/{id}", summary="One fault", responses=_UNKNOWN)
    async def get(id: Id) -> InjectedFault:
        rule = faults.get(id)
        if rule is None:
            raise HTTPException(404, f"fault {id!r} not found")
        return InjectedFault.of(rule)

    @router.delete("/-/faults/{id}", status_code=204, summary="Remove a fault", responses=_UNKNOWN)
    async def remove(id: Id) -> None:
        if not faults.remove(id):
            raise HTTPException(404, f"fault {id!r} not found")

    @router.delete("/-/faults", status_code=204, summary="Remove all faults")
    async def clear() -> None:
        faults.clear()

    return router
