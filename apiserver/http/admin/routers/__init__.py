"""The routes under `/-/`, a module each: `create(operations) -> APIRouter`. A new module is listed here."""

from __future__ import annotations

from apiserver.http.admin.routers import clock, dropped, explain, faults, info, requests, reset
from apiserver.http.admin.routers import idle as rest

#: In the order in which `/docs` shows them.
ROUTERS = (info, reset, rest, explain, clock, dropped, requests, faults)
