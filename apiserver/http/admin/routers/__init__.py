"""The routes under `/-/`, one module each: `create(operations) -> APIRouter`. New modules are listed here."""

from __future__ import annotations

from apiserver.http.admin.routers import clock, driver_calls, dropped, explain, faults, idle, info, requests, reset

#: In the order of `/docs`.
ROUTERS = (info, reset, idle, explain, clock, dropped, requests, driver_calls, faults)
