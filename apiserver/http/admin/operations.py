"""The server's operations for the routes under `/-/`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from apiserver.http.admin.idle import IdleStatus
from apiserver.http.sinks.driver_calls import DriverCalls
from apiserver.http.sinks.ring import Ring
from apiserver.registry.catalog.adoption import Adoption
from apiserver.registry.definition.dropped_fields import Loss
from apiserver.request.messages import Request
from apiserver.state.snapshots import RestoreResult, Snapshots

if TYPE_CHECKING:
    from apiserver.history.reader import HistoryReader
    from apiserver.http.handlers.exploration import Schedules
    from apiserver.http.handlers.faults import Faults
    from apiserver.http.sinks.coverage import Coverage


class ForkError(Exception):
    """A copy of a server that is not possible, in one line."""


class Clusters(Protocol):
    """The copies of a server in forked processes. An announcement has `url`, `kubeconfig` and `pid`."""

    def all(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the announcements by name."""
        ...

    async def create(self, name: str, snapshot: str = "") -> Mapping[str, Any]:
        """Copy the server, maybe with a snapshot. Raise ForkError."""
        ...

    async def delete(self, name: str) -> None:
        """End a copy. Raise KeyError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operations:
    """The operations of the server that its routes use. A router that needs more adds a field.

    version     the release of kubedra
    allowed     (request) "" if its user, also an impersonated one, may use the routes, else the reason
    info        the fields of `/-/info` besides the version
    adoption    stores objects of other clusters
    reset       empties the store; (deleted objects, new revision)
    snapshots   the snapshots in memory
    restore     goes back to a snapshot (name, whether to delete faults and records, too)
    clusters    the copies of this server; None if it cannot have any
    dropped     (kind, namespace, name) the fields that feature gates dropped
    idle        polls the components for pending work
    explain     explains pods, claims and nodes (kind, namespace, name); None if no components run here
    history     the history of objects
    requests    the latest requests
    faults      the faults to inject
    schedules   the schedule of an explored test
    driver_calls      the calls of drivers that kubelets in other processes reported
    own_driver_calls  those of the kubelets in this server
    coverage    the recorder of `--coverage`; None without the flag
    """

    version: str
    allowed: Callable[[Request], Awaitable[str]]
    info: Callable[[], Mapping[str, Any]]
    adoption: Adoption
    reset: Callable[[], Awaitable[tuple[int, int]]]
    snapshots: Snapshots
    restore: Callable[[str, bool], Awaitable[RestoreResult]]
    clusters: Callable[[], Clusters | None]
    dropped: Callable[[str, str, str], list[Loss]]
    idle: Callable[[], Awaitable[IdleStatus]]
    explain: Callable[[], Callable[[str, str, str], Awaitable[dict[str, Any]]] | None]
    history: Callable[[], HistoryReader]
    requests: Ring
    faults: Faults
    schedules: Schedules
    driver_calls: DriverCalls
    own_driver_calls: Callable[[], Awaitable[Sequence[dict[str, Any]]]]
    coverage: Coverage | None
