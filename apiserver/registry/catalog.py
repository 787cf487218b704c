"""All stores of one server and what they share."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from apiserver.api.status import unavailable
from apiserver.registry.admission import Admission
from apiserver.registry.body.convert import Forms
from apiserver.registry.body.decode import Kinds
from apiserver.registry.dropped import DroppedFields
from apiserver.registry.metadata import new_suffix
from apiserver.registry.resource import Resource, Version
from apiserver.registry.store import Store
from apiserver.registry.verbs.list import WAIT_SECONDS
from apiserver.registry.verbs.selection import index_terms
from apiserver.storage.types import FutureRevision, StorageUnavailable, Write, WriteRefused

if TYPE_CHECKING:
    from apiserver.api.features import Features
    from apiserver.registry.authority import Authority, Identity
    from apiserver.storage.cache import WatchCache
    from apiserver.storage.types import Record, RevisionLog

Json = dict[str, Any]

__all__ = ["Registry"]


def _utc_now() -> datetime:
    return datetime.now(UTC)


def _new_uid() -> str:
    return str(uuid.uuid4())


def _allow(*_: Any) -> bool:
    return True


class Registry:
    """All stores of one server and what they share. `stores` is by (group, plural).

    `admission` is a chain from `apiserver.admission`; `authorize(user, verb, group, resource, subresource, namespace,
    name)`
    answers a rule's questions; `clock` gives UTC now, `new_uid` an object's uid, `new_suffix` generateName's five
    letters.
    `shared`: other servers write to the same database, so a read asks it for its revision first. `warn_dropped`:
    whoever writes a field that
    a disabled feature gate drops gets a warning; `dropped` remembers it in any case. `served` tells in which versions a
    resource is served. Adds a cache for each storage prefix to `cache`, which the caller starts afterwards.
    """

    def __init__(
        self,
        catalog: Iterable[Resource],
        log: RevisionLog,
        cache: WatchCache,
        *,
        admission: Admission,
        features: Features,
        clock: Callable[[], datetime] = _utc_now,
        new_uid: Callable[[], str] = _new_uid,
        new_suffix: Callable[[], str] = new_suffix,
        authorize: Callable[..., bool] = _allow,
        shared: bool = False,
        warn_dropped: bool = False,
        served: Callable[[Resource, Version], bool] = _allow,
    ) -> None:
        self.dropped = DroppedFields(warns=warn_dropped)
        self.log, self.cache, self.admission, self.features = log, cache, admission, features
        #: who answers more than yes or no; set by whoever wires the server.
        self.authority: Authority | None = None
        self.identity: Identity | None = None
        self.clock, self.new_uid, self.new_suffix, self.authorize, self.shared = (
            clock,
            new_uid,
            new_suffix,
            authorize,
            shared,
        )
        self._busy: dict[str, asyncio.Future[None]] = {}
        resources = tuple(catalog)
        self.kinds = Kinds(resources)
        self.stores: Mapping[tuple[str, str], Store] = self._stores(resources, served)
        self._by_plural = {store.resource.plural: store for store in reversed(self.stores.values())}

    def _stores(
        self, resources: tuple[Resource, ...], served: Callable[[Resource, Version], bool]
    ) -> dict[tuple[str, str], Store]:
        sharing: dict[str, list[Resource]] = {}
        for resource in resources:
            sharing.setdefault(resource.prefix(), []).append(resource)
        caches = {prefix: self.cache.add(prefix, _indexes(group)) for prefix, group in sharing.items()}
        forms = {prefix: Forms(group, served) for prefix, group in sharing.items()}
        return {
            (resource.group, resource.plural): Store(
                self, resource, caches[resource.prefix()], forms[resource.prefix()], sharing[resource.prefix()][0].group
            )
            for resource in resources
        }

    def store(self, group: str, plural: str) -> Store:
        return self.stores[group, plural]

    def lookup(self, plural: str, namespace: str, name: str) -> Json | None:
        """A stored object (read-only), for rules that need to know of others."""
        store = self._by_plural.get(plural)
        if store is None:
            return None
        entry = store.cache.get(store.resource.key(namespace, name))
        return None if entry is None else entry.obj

    def all_of(self, plural: str) -> list[Json]:
        """All stored objects of a kind (read-only)."""
        store = self._by_plural.get(plural)
        return [] if store is None else [entry.obj for entry in store.cache.list().entries]

    async def idle(self, key: str) -> None:
        """Waits until no write of this key is under way here: to read it now is to read what that write made of it."""
        while (busy := self._busy.get(key)) is not None:
            await busy

    async def turn(self, key: str) -> None:
        """`idle`, and then what other servers wrote before is here, too."""
        await self.idle(key)
        await self.consistent()

    async def consistent(self) -> None:
        """Waits until the caches hold all that any server committed before the call. Raises StatusError where they
        cannot: 503.
        """
        if self.shared:
            await self._reach(await self._newest())

    async def catch_up(self, refused: WriteRefused) -> None:
        """Waits until the caches show why a write was refused."""
        await self._reach(refused.revision or await self._newest())

    async def _newest(self) -> int:
        try:
            return await self.log.current_revision()
        except StorageUnavailable as error:
            raise unavailable(str(error)) from error

    async def _reach(self, revision: int) -> None:
        try:
            await self.cache.wait_for(revision, WAIT_SECONDS)
        except FutureRevision as error:
            raise unavailable(f"this server has not caught up with the database: {error}") from None

    async def append(self, write: Write) -> Record:
        """Commits one write; afterwards the caches show it. Raises WriteRefused."""
        done = asyncio.get_running_loop().create_future()
        busy = self._busy
        busy[write.key] = done
        try:
            return await self.log.append(write)
        except StorageUnavailable as error:
            raise unavailable(str(error)) from error
        finally:
            if busy.get(write.key) is done:
                del busy[write.key]
            done.set_result(None)


def _indexes(resources: list[Resource]) -> Mapping[str, Any]:
    indexes: dict[str, Any] = {}
    for resource in resources:
        indexes.update(index_terms(resource))
    return indexes
