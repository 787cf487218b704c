"""`/-/reset`: delete all objects."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import Field

from apiserver.http.admin.models import Model
from apiserver.http.admin.operations import Operations


class ResetResult(Model):
    """The result of a reset."""

    deleted: int = Field(description="number of deleted objects")
    resource_version: str = Field(description="resourceVersion after the reset")


def create(operations: Operations) -> APIRouter:
    router = APIRouter(tags=["server"])

    @router.post("/-/reset", summary="Delete all objects except the built-in ones")
    async def reset() -> ResetResult:
        """Delete all objects except the built-in ones and those that the server created at its start (`--nodes`).

        Also delete all faults and records of requests and drivers' calls.
        """
        deleted, revision = await operations.reset()
        return ResetResult(deleted=deleted, resource_version=str(revision))

    return router
