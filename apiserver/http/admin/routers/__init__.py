"""The routes under `/-/`, one module each: `create(operations) -> APIRouter`. New modules are listed here."""

from __future__ import annotations

from apiserver.http.admin.routers import (
    adoption,
    clock,
    clusters,
    coverage,
    driver_calls,
    dropped,
    explain,
    faults,
    history,
    idle,
    info,
    requests,
    reset,
    schedule,
    snapshots,
)

#: In the order of `/docs`.
ROUTERS = (
    info,
    reset,
    snapshots,
    clusters,
    adoption,
    idle,
    explain,
    history,
    clock,
    dropped,
    requests,
    driver_calls,
    faults,
    schedule,
    coverage,
)
