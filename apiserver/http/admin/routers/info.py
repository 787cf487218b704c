"""`/-/info`: the server's release and contents."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import Field

from apiserver.http.admin.models import Model
from apiserver.http.admin.operations import Operations


class Info(Model):
    """The server's release and contents."""

    version: str = Field(description="release of kubedra")
    emulates: str = Field(description="emulated Kubernetes release")
    resource_version: str = Field(description="current resourceVersion of the store")
    objects: dict[str, int] = Field(description="number of stored objects per resource")
    watches: int = Field(description="number of open watches")


def create(operations: Operations) -> APIRouter:
    router = APIRouter(tags=["server"])

    @router.get("/-/info", summary="Release and contents of the server")
    async def info() -> Info:
        return Info(version=operations.version, **operations.info())

    return router
