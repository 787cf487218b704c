"""Changes of the whole state of a cluster: its beginning, resets, snapshots that are restored, and forks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from apiserver.api.values.times import timestamp
from apiserver.controlplane.crds import CustomResources
from apiserver.controlplane.dependencies import Components
from apiserver.controlplane.local_apiservices import LocalApis
from apiserver.controlplane.server_lease import IdentityLease
from apiserver.controlplane.system_objects import BuiltIn
from apiserver.options.settings import Settings
from apiserver.registry.definition.authors import RESET
from apiserver.registry.store.store import Registry
from apiserver.runtime.clock import now
from apiserver.state.contents import Contents, build_header
from apiserver.state.snapshots import RestoreResult, Snapshots
from apiserver.storage import UnusableDatabase
from apiserver.storage.log.types import RevisionLog

__all__ = ["ClusterState", "begin_with"]


class ClusterState:
    """The objects of a server as one value.

    Args:
        settings: those of the server.
        log: the server's log.
        registry: the registry on the log.
        built_in: the objects that every server has.
        apis: the APIServices of the server's own groups.
        custom: the APIs of definitions.
        lease: the identity lease of the server, if it has one.
        components: the components in the server.
        clear_records: deletes faults, schedules and records of requests and drivers' calls.
    """

    def __init__(
        self,
        settings: Settings,
        log: RevisionLog,
        registry: Registry,
        built_in: BuiltIn,
        apis: LocalApis,
        custom: CustomResources,
        lease: IdentityLease | None,
        components: Components,
        clear_records: Callable[[], None],
    ) -> None:
        self._settings, self._log, self._registry = settings, log, registry
        self._built_in, self._apis, self._custom, self._lease = built_in, apis, custom, lease
        self._components, self._clear_records = components, clear_records
        self.snapshots = Snapshots(log, self._describe_snapshot, self._settle)
        #: The revision of the last reset; 0: none.
        self.last_reset = 0

    async def reset(self) -> tuple[int, int]:
        """Delete all objects except the initial ones; return the number of deleted objects and the new revision.

        The initial objects are the built-in namespaces (as new) and those that the components create again (`--nodes`).
        Injected faults and records of requests are deleted, too.
        """
        deleted = await self._log.reset(self._built_in.get_initial_keys() + self._apis.get_initial_keys(), RESET)
        self.last_reset = self._log.revision
        self._registry.dropped.clear()
        self._clear_records()
        await self._ensure_own_objects()
        await self._components.restart()
        return deleted, self._log.revision

    async def restore(self, name: str, reset: bool) -> RestoreResult:
        """Go back to a snapshot. With `reset` also delete faults and records of requests."""
        found = await self.snapshots.restore(name)
        if reset:
            self._clear_records()
        return found

    async def begin_fork(self, snapshot: str) -> None:
        """Begin in a forked process: with its own records and random numbers, and maybe with a snapshot.

        Endpoints of the service kubernetes keep the address of the original: writing them would double the time and the
        memory of a fork.
        """
        if self._settings.seed is None:
            self._registry.random_source.reseed()
        self._clear_records()
        self._registry.dropped.clear()
        if snapshot:
            await self.snapshots.restore(snapshot)

    async def _settle(self) -> None:
        """Bring the server into agreement with a restored state: its own objects, and the APIs of definitions."""
        self._registry.dropped.clear()
        await self._custom.wait_served()
        await self._ensure_own_objects()

    async def _ensure_own_objects(self) -> None:
        await self._built_in.ensure()
        await self._apis.ensure()
        if self._lease is not None:
            await self._lease.renew()

    def _describe_snapshot(self, revision: int, meta: Mapping[str, bytes]) -> dict[str, Any]:
        """Return the header of a snapshot."""
        settings = self._settings
        release = ".".join(map(str, settings.features.release))
        return build_header(
            release=release, time=timestamp(now()), revision=revision, virtual=settings.clock is not None,
            seed=settings.seed, meta=meta,
        )  # fmt: skip


async def begin_with(log: RevisionLog, contents: Contents) -> None:
    """Fill an empty log. Raise UnusableDatabase if it has objects."""
    if log.revision:
        raise UnusableDatabase(
            "--from: the storage has objects of an earlier start; --fresh deletes them, without --from they stay"
        )
    await log.load(contents.records, contents.revision, contents.meta)
