"""`/-/info`: the server's release and contents."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import Field

from apiserver.http.admin.models import Model
from apiserver.http.admin.operations import Operations


class Info(Model):
    """The server's release and contents."""

    version: str = Field(description="release of kubedra")
    emulates: str = Field(description="release of Kubernetes that it behaves like")
    resource_version: str = Field(description="the store's version now")
    objects: dict[str, int] = Field(description="stored objects by resource")
    watches: int = Field(description="open watches")


def create(operations: Operations) -> APIRouter:
    router = APIRouter(tags=["server"])

    @router.get("/-/info", summary="What this server is and holds")
    async def info() -> Info:
        return Info(version=operations.version, **operations.info())

    return router
