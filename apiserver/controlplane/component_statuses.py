"""Health of the control plane's components, for ComponentStatuses.

Checked are the components in this process, and those that listen on the ports of Kubernetes' own.
Facts: pkg/registry/core/rest/storage_core.go (names and ports), pkg/probe/http.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from importlib import import_module
from typing import Final

from apiserver.runtime.clock import Timer, timers

__all__ = ["ComponentHealth"]

#: The ports of components in processes of their own.
_PORTS: Final = {"scheduler": 10259, "controller-manager": 10257}
_SCHEDULER: Final = "kube-scheduler"
_SECONDS: Final = 20.0


class ComponentHealth:
    """A health check of components.

    `running` returns the components of this process, `stored` the store's problem ("" for none).
    """

    def __init__(self, running: Callable[[], Sequence[str]], stored: Callable[[], Awaitable[str]]) -> None:
        self._running, self._stored = running, stored

    async def __call__(self) -> list[tuple[str, bool, str]]:
        """Return (name, health, message) of each component."""
        running = set(self._running())
        here = {"scheduler": _SCHEDULER in running, "controller-manager": bool(running - {_SCHEDULER})}
        asked = await asyncio.gather(
            *(_report_healthy() if here[name] else _ask(port) for name, port in _PORTS.items())
        )
        problem = await self._stored()
        found = [(name, *answer) for name, answer in zip(_PORTS, asked, strict=True)]
        return [*found, ("etcd-0", not problem, problem or "ok")]


async def _report_healthy() -> tuple[bool, str]:
    return True, "ok"


async def _ask(port: int) -> tuple[bool, str]:
    await asyncio.to_thread(import_module, "httpx")  # the import takes 100 ms, and must not block other requests
    import httpx

    from apiserver.webhooks.failures import connection_text

    address = f"127.0.0.1:{port}"
    url = f"https://{address}/healthz"
    try:
        with timers(Timer.MACHINE):
            # The certificates of these ports are self-signed; upstream does not verify them either.
            async with httpx.AsyncClient(verify=False, trust_env=False, timeout=_SECONDS) as client:  # noqa: S501
                answer = await client.get(url)
    except (httpx.HTTPError, OSError) as error:
        return False, f'Get "{url}": {connection_text(error, "127.0.0.1", address)}'
    return 200 <= answer.status_code < 400, answer.text
