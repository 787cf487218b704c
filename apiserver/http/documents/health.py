"""/healthz, /livez and /readyz, as a whole and by check, and /metrics/slis, which counts their results."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from apiserver.api.errors.status import PlainError
from apiserver.request.messages import Request, Response
from apiserver.runtime.metrics import Counter, Gauge, text

#: Returns "" if all is well, else the problem.
Check = Callable[[], Awaitable[str]]
HEALTH: Final = ("healthz", "livez", "readyz")
_TEXT: Final = "text/plain; charset=utf-8"
_NO_SNIFF: Final = (("X-Content-Type-Options", "nosniff"),)
#: Checks of readiness only.
_ONLY_READY: Final = frozenset({"etcd-readiness", "informer-sync", "kubeconfig", "shutdown"})
#: Checks of liveness only.
_ONLY_ALIVE: Final = frozenset({"loopback-serving-certificate"})

log = logging.getLogger(__name__)


class Health:
    """The checks of a server by name."""

    def __init__(self, checks: Mapping[str, Check]) -> None:
        self._checks = checks
        self._last: dict[tuple[str, ...], float] = {}
        self._counts = Counter(
            "kubernetes_healthchecks_total", "[STABLE] This metric records the results of all healthcheck.",
            ("name", "status", "type"),
        )  # fmt: skip
        self._results = Gauge(
            "kubernetes_healthcheck", "[STABLE] This metric records the result of a single healthcheck.",
            ("name", "type"), lambda: self._last,
        )  # fmt: skip

    def indicators(self) -> str:
        """Render /metrics/slis: the last results and the counts of checks, from requests for all checks."""
        return text((self._results, self._counts))

    def paths(self) -> list[str]:
        """Return every path below the three documents."""
        return [f"/{kind}/{name}" for kind in HEALTH for name in self._get_checks(kind)]

    def _get_checks(self, kind: str) -> dict[str, Check]:
        without = _ONLY_ALIVE if kind == "readyz" else _ONLY_READY
        return {name: check for name, check in self._checks.items() if name not in without}

    async def answer(self, request: Request, kind: str, rest: list[str]) -> Response:
        """Return the health as a whole or of one check. Raise 404.

        Reasons of failures are logged, since any client may read the response.
        """
        checks = self._get_checks(kind)
        if not rest:
            return await self._all(request, kind, checks)
        check = checks.get("/".join(rest))
        if check is None:
            raise PlainError(404, "404 page not found")
        problem = await check()
        if problem:
            return Response(500, f"internal server error: {problem}\n".encode(), _TEXT, _NO_SNIFF)
        return Response(200, b"ok", _TEXT)

    async def _all(self, request: Request, kind: str, checks: Mapping[str, Check]) -> Response:
        excluded = request.params.get("exclude", [])
        failed, lines = [], []
        for name, check in checks.items():
            if name in excluded:
                lines.append(f"[+]{name} excluded: ok\n")
                continue
            problem = await check()
            self._last[name, kind] = 0 if problem else 1
            self._counts.inc(name, "error" if problem else "success", kind)
            if problem:
                log.warning("%s check %s failed: %s", kind, name, problem)
                failed.append(name)
                lines.append(f"[-]{name} failed: reason withheld\n")
            else:
                lines.append(f"[+]{name} ok\n")
        unknown = sorted({name for name in excluded if name not in checks})
        if unknown:
            names = ",".join(f'"{name}"' for name in unknown)
            lines.append(f"warn: some health checks cannot be excluded: no matches for {names}\n")
        if failed:
            return Response(500, f"{''.join(lines)}{kind} check failed\n".encode(), _TEXT, _NO_SNIFF)
        shown = f"{''.join(lines)}{kind} check passed\n" if "verbose" in request.params else "ok"
        return Response(200, shown.encode(), _TEXT, _NO_SNIFF)
