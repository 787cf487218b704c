"""kubedra's own routes under `/-/`, and their documentation at `/docs`: the FastAPI part of the server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from fastapi import FastAPI
from fastapi.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from apiserver.http.admin import documentation
from apiserver.http.admin.operations import Operations
from apiserver.http.admin.routers import ROUTERS
from apiserver.request.messages import Request


@dataclass(frozen=True, slots=True)
class AdministratorsOnly:
    """The ASGI middleware that responds 401 or 403 to other users before a route is searched.

    `allowed` returns the reason of a refusal, or "".
    """

    app: ASGIApp
    allowed: Callable[[Request], Awaitable[str]]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self.app
        if scope["type"] == "http" and (problem := await self.allowed(scope["state"]["kube_request"])):
            app = JSONResponse({"detail": problem}, 401 if problem == "Unauthorized" else 403)
        await app(scope, receive, send)


def create_admin(operations: Operations) -> FastAPI:
    """Build the application. Every path requires all permissions; other users get 401 or 403."""
    app = FastAPI(
        title="kubedra",
        version=operations.version,
        description="Routes of the control plane beyond the Kubernetes API.",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
    )

    app.add_middleware(AdministratorsOnly, allowed=operations.allowed)
    for module in ROUTERS:
        app.include_router(module.create(operations))
    app.include_router(documentation.create(app))
    return app
