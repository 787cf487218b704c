"""kubedra's own routes under `/-/`, and their documentation at `/docs`: the FastAPI part of the application."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any

from fastapi import Depends, FastAPI, HTTPException, Request
from pydantic import BaseModel, Field

from apiserver.http.admin import clock
from apiserver.registry.dropped import Loss


class ResetResult(BaseModel):
    """What a reset did."""

    deleted: int = Field(description="objects that are gone")
    resourceVersion: str = Field(description="the version of the empty state")  # noqa: N815 - the wire's spelling


class Info(BaseModel):
    """What this server is."""

    version: str = Field(description="release of kubedra")
    emulates: str = Field(description="release of Kubernetes that it behaves like")
    resourceVersion: str = Field(description="the store's version now")  # noqa: N815 - the wire's spelling
    objects: dict[str, int] = Field(description="stored objects by resource")
    watches: int = Field(description="open watches")


class DroppedField(BaseModel):
    """A field that is not there although it was sent."""

    path: str = Field(description="where it stood, in the stored version")
    gate: str = Field(description="the feature gate that is disabled")


class DroppedFields(BaseModel):
    """What the last write of an object that lost fields lost."""

    group: str
    kind: str
    namespace: str = Field(description="empty for objects outside namespaces")
    name: str
    when: datetime
    fields: list[DroppedField]

    @classmethod
    def of(cls, loss: Loss) -> DroppedFields:
        fields = [DroppedField(path=field.path, gate=field.gate) for field in loss.fields]
        return cls(
            group=loss.group, kind=loss.kind, namespace=loss.namespace, name=loss.name, when=loss.when, fields=fields
        )


class Operations(BaseModel):
    """What the routes need of the server, as functions."""

    model_config = {"arbitrary_types_allowed": True}

    reset: Callable[[], Awaitable[tuple[int, int]]]
    info: Callable[[], Mapping[str, Any]]
    dropped: Callable[[str, str, str], list[Loss]]
    allowed: Callable[[Mapping[str, str]], str]


def create_admin(operations: Operations, version: str) -> FastAPI:
    """The application. Every route is for whoever may do everything; others get 401 or 403."""
    app = FastAPI(
        title="kubedra",
        version=version,
        description="What the control plane does beyond Kubernetes.",
        docs_url="/docs",
        redoc_url=None,
    )

    def administrator(request: Request) -> None:
        problem = operations.allowed({name.lower(): value for name, value in request.headers.items()})
        if problem:
            raise HTTPException(401 if problem == "Unauthorized" else 403, problem)

    guarded = [Depends(administrator)]

    app.include_router(clock.router, dependencies=guarded)

    @app.post("/-/reset", summary="Empty everything but the built-in objects", dependencies=guarded)
    async def reset() -> ResetResult:
        deleted, revision = await operations.reset()
        return ResetResult(deleted=deleted, resourceVersion=str(revision))

    @app.get("/-/info", summary="What this server is and holds", dependencies=guarded)
    async def info() -> Info:
        return Info(version=version, **operations.info())

    @app.get(
        "/-/dropped",
        summary="Fields that disabled feature gates dropped from objects, the latest first",
        dependencies=guarded,
    )
    async def dropped(kind: str = "", namespace: str = "", name: str = "") -> list[DroppedFields]:
        return [DroppedFields.of(loss) for loss in operations.dropped(kind, namespace, name)]

    return app
