"""`/-/coverage`: the behaviours of the server that its clients have reached."""

from __future__ import annotations

from fastapi import APIRouter, HTTPException
from pydantic import Field

from apiserver.http.admin.models import Model
from apiserver.http.admin.operations import Operations


class Reached(Model):
    """Hits of the behaviours by category and name; known ones without hits are 0. A reset does not change them."""

    scheduling: dict[str, int] = Field(description="results of the scheduler, and reasons of unschedulable pods")
    rejections: dict[str, int] = Field(description="reasons of error responses, and causes of invalid objects")
    admission: dict[str, int] = Field(description="admission plugins that refused a request")
    events: dict[str, int] = Field(description="reasons of events")
    faults: dict[str, int] = Field(description="kinds of injected faults that hit a request")
    drivers: dict[str, int] = Field(description="calls of kubelets to real drivers with their outcome")
    gates: dict[str, int] = Field(description="feature gates with another value than their default; releases")
    kinds: dict[str, int] = Field(description="resources that clients other than the components used")
    requests: dict[str, int] = Field(description="`VERSION RESOURCE VERB` of such requests that succeeded")
    causes: dict[str, int] = Field(description="fields that validation rejected, without known ones")


def create(operations: Operations) -> APIRouter:
    router = APIRouter(tags=["requests"])

    @router.get("/-/coverage", summary="Behaviours that clients have reached since the start; needs --coverage")
    async def coverage() -> Reached:
        """Return the hits of each known and each reached behaviour."""
        if operations.coverage is None:
            raise HTTPException(404, "the server records no coverage: start it with --coverage")
        return Reached.model_validate(operations.coverage.to_dict())

    return router
