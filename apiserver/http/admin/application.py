"""kubedra's own routes under `/-/`, and their documentation at `/docs`: the FastAPI part of the server."""

from __future__ import annotations

from fastapi import Depends, FastAPI, HTTPException, Request

from apiserver.http.admin import documentation
from apiserver.http.admin.operations import Operations
from apiserver.http.admin.routers import ROUTERS


def create_admin(operations: Operations) -> FastAPI:
    """Build the application. Every route requires all permissions; other users get 401 or 403."""
    app = FastAPI(
        title="kubedra",
        version=operations.version,
        description="Routes of the control plane beyond the Kubernetes API.",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
    )

    async def administrator(request: Request) -> None:
        problem = await operations.allowed(request.state.kube_request)
        if problem:
            raise HTTPException(401 if problem == "Unauthorized" else 403, problem)

    for module in ROUTERS:
        app.include_router(module.create(operations), dependencies=[Depends(administrator)])
    app.include_router(documentation.create(app), dependencies=[Depends(administrator)])
    return app
