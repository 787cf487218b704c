"""The routes under `/-/`, one module each: `create(operations) -> APIRouter`. New modules are listed here."""

from __future__ import annotations

from apiserver.http.admin.routers import clock, dropped, explain, faults, info, requests, reset
from apiserver.http.admin.routers import idle as rest

#: In the order of `/docs`.
ROUTERS = (info, reset, rest, explain, clock, dropped, requests, faults)
