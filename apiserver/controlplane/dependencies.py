"""The parts that a process gives its server besides the settings: components, logs, and the announcement.

Components are clients of the server, and the server reports on them. So a server is created with its `Components`, and
they start when it serves.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from apiserver.http.admin.idle import PendingWork
from apiserver.runtime.metrics import Family

if TYPE_CHECKING:
    from apiserver.http.handlers.chain import HandlerChain
    from apiserver.http.handlers.dispatch import Unattended
    from apiserver.http.server.coalesce import Coalescer
    from apiserver.http.sinks.jsonlines import JsonLines
    from apiserver.state.contents import Contents

__all__ = ["Components", "Dependencies", "RunningComponents"]


class RunningComponents(Protocol):
    """The running components of one server.

    Implemented by `controllers.manager.manager.Manager` and `child_process.ChildProcessComponents`.
    """

    @property
    def names(self) -> Sequence[str]: ...

    async def run(self) -> None:
        """Run until cancelled. The first failure ends all components and is raised."""

    async def wait_ready(self) -> None:
        """Return once the components have read their objects."""

    async def wait_nodes(self) -> tuple[int, list[str]]:
        """Return the number of ready nodes once their slices are published, and warnings about them."""
        ...

    async def restart(self) -> None:
        """Restart after the store was emptied."""

    async def explain(self, kind: str, namespace: str, name: str) -> dict[str, Any]:
        """Explain the state of a pod, claim or node. Raise LookupError for a missing object."""
        ...

    async def scheduling_attempts(self, uid: str) -> Sequence[tuple[str, str, str]]:
        """Return the latest attempts to schedule a pod as (RFC 3339 time, result, text), oldest first."""
        ...

    async def driver_calls(self) -> Sequence[dict[str, Any]]:
        """Return the latest calls between kubelets and real drivers, oldest first."""
        ...

    async def get_pending_work(self) -> PendingWork:
        """Return the pending work."""
        ...

    async def metric_families(self) -> Sequence[Family]:
        """Return the metric families."""
        ...


#: Explains a pod, claim or node (kind, namespace, name).
Explain = Callable[[str, str, str], Awaitable[dict[str, Any]]]
#: Connects components as clients to this chain. Their watches share one coalescer. Raises SettingsError.
Connect: TypeAlias = "Callable[[HandlerChain, Coalescer], Awaitable[RunningComponents]]"


class Components:
    """The components of one server, none before `start` and none without `connect`.

    `unattended`, by group and resource, returns the warnings about a written object, given whether it is new.
    """

    def __init__(self, connect: Connect | None = None, unattended: Unattended = MappingProxyType({})) -> None:
        self._connect, self.unattended = connect, unattended
        self.running: RunningComponents | None = None

    async def start(self, chain: HandlerChain, coalescer: Coalescer) -> RunningComponents | None:
        """Start them as clients of the server. Raise SettingsError."""
        if self._connect is not None:
            self.running = await self._connect(chain, coalescer)
        return self.running

    @property
    def names(self) -> Sequence[str]:
        return self.running.names if self.running is not None else ()

    @property
    def explain(self) -> Explain | None:
        return self.running.explain if self.running is not None else None

    async def scheduling_attempts(self, uid: str) -> Sequence[tuple[str, str, str]]:
        return await self.running.scheduling_attempts(uid) if self.running is not None else ()

    async def driver_calls(self) -> Sequence[dict[str, Any]]:
        return await self.running.driver_calls() if self.running is not None else ()

    async def restart(self) -> None:
        if self.running is not None:
            await self.running.restart()

    async def get_pending_work(self) -> PendingWork:
        return await self.running.get_pending_work() if self.running is not None else ((), None)

    async def metric_families(self) -> Sequence[Family]:
        return await self.running.metric_families() if self.running is not None else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependencies:
    """The dependencies of a server; by default without components and without an announcement.

    The server closes the logs.
    """

    components: Components = field(default_factory=Components)
    #: Whether the process has made its announcement of the server, if any.
    announced: Callable[[], bool] = lambda: True
    #: The first state of an empty storage.
    initial: Contents | None = None
    request_log: JsonLines | None = None
    audit_log: JsonLines | None = None
