"""The generic store: one for each resource, all semantics of upstream's generic registry.

`Registry` holds what all stores of a server share. A store reads from its resource's watch cache and writes to the log;
its
verbs are in modules of their own (reading, watching, writing, removing), which take the store as their first argument.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson

from apiserver.api.status import unavailable
from apiserver.registry.attributes import Admission
from apiserver.registry.conversion import Forms
from apiserver.registry.decoding import Kinds
from apiserver.registry.dropped import DroppedFields
from apiserver.registry.managedfields import FieldTracker, manager_name
from apiserver.registry.metadata import new_suffix
from apiserver.registry.options import DeleteOptions, GetOptions, ListOptions, WriteOptions
from apiserver.registry.reading import WAIT_SECONDS, get_entry, list_entries
from apiserver.registry.removing import delete_entries, delete_entry
from apiserver.registry.resource import Resource, Version, same_form
from apiserver.registry.results import DeleteResult, Listing, Result, WatchEvent
from apiserver.registry.selection import index_terms
from apiserver.registry.settling import settler_of
from apiserver.registry.strategy import Context
from apiserver.registry.watching import open_watch
from apiserver.registry.writing import create_entry, replace_entry, update_entry
from apiserver.storage.cache import Entry
from apiserver.storage.types import FutureRevision, StorageUnavailable, Write, WriteRefused

if TYPE_CHECKING:
    from apiserver.api.features import Features
    from apiserver.messages import User
    from apiserver.registry.authority import Authority, Identity
    from apiserver.storage.cache import Cache, WatchCache
    from apiserver.storage.types import Record, RevisionLog

Json = dict[str, Any]
Change = Callable[[Json | None], Json]

__all__ = ["Change", "Registry", "Store"]


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


class Store:
    """One resource's store. Every method raises StatusError with upstream's texts."""

    def __init__(self, registry: Registry, resource: Resource, cache: Cache, forms: Forms, kind_group: str) -> None:
        self.registry, self.resource, self.cache, self.strategy = registry, resource, cache, resource.strategy
        self.forms = forms
        #: the group of the kind as it is stored, which is that of the first resource with this prefix: invalid objects
        #: are told in its terms.
        self.kind_group = kind_group
        self.tracker = FieldTracker(forms.get, resource.strategy.reset_fields_of)
        self.turn = registry.turn
        #: turns an object into what storing makes of it, where that is not the object itself.
        self.settle = settler_of(
            next((version for version in resource.versions if version.to_hub is same_form), resource.versions[0]).schema
        )
        #: what a body of each version and subresource has to be; filled as they are asked for.
        self.targets: dict[tuple[str, str], Any] = {}

    @property
    def shared(self) -> bool:
        return self.registry.shared

    @property
    def admission(self) -> Admission:
        return self.registry.admission

    def new_uid(self) -> str:
        return self.registry.new_uid()

    def new_suffix(self) -> str:
        return self.registry.new_suffix()

    def context(
        self,
        *,
        user: User,
        version: str,
        verb: str,
        namespace: str = "",
        name: str = "",
        subresource: str = "",
        user_agent: str = "",
        manager: str = "",
    ) -> Context:
        """What rules may know of a request. `manager` is the fieldManager parameter; without one the user agent
        counts.
        """
        registry = self.registry
        return Context(
            now=registry.clock(),
            user=user,
            features=registry.features,
            resource=self.resource,
            version=version,
            namespace=namespace,
            name=name,
            subresource=subresource,
            verb=verb,
            manager=manager_name(manager, user_agent) if manager or user_agent else "",
            lookup=registry.lookup,
            all_of=registry.all_of,
            authorize=partial(registry.authorize, user),
        )

    async def append(self, write: Write) -> Entry:
        """Commits one write and gives the state that it made: for a deletion, the last one with the deletion's
        version.
        """
        record = await self.registry.append(write)
        entry = self.cache.get(write.key)
        return entry if entry is not None and entry.revision == record.revision else Entry(record, orjson.loads)

    async def get(self, ctx: Context, options: GetOptions) -> Entry:
        return await get_entry(self, ctx, options)

    def watch(self, ctx: Context, options: ListOptions) -> AsyncIterator[list[WatchEvent]]:
        """Checks the options at once; the iterator ends by timeout, with an ERROR event, or when it is closed."""
        return open_watch(self, ctx, options, asyncio.get_running_loop().time)

    async def create(self, ctx: Context, obj: Json, options: WriteOptions) -> Entry:
        return await create_entry(self, ctx, obj, options)

    async def update(
        self,
        ctx: Context,
        name: str,
        change: Change,
        options: WriteOptions,
        subresource: str = "",
        *,
        uid: str | None = None,
        create: bool | None = None,
        tracked: bool = False,
    ) -> Result:
        """`change` may be called several times. `create`: whether a missing object is made (default: as the kind
        allows).
        `tracked`: the change keeps managed fields itself."""
        allowed = self.resource.create_on_update if create is None else create
        return await update_entry(
            self, ctx, name, change, options, subresource, uid=uid, create=allowed, tracked=tracked
        )

    async def replace(
        self,
        ctx: Context,
        name: str,
        change: Callable[[Json], Json],
        *,
        uid: str = "",
        resource_version: str = "",
        dry_run: bool = False,
    ) -> Entry:
        """Writes the stored object as a subresource of its own rules does (binding): without strategy and managed
        fields.
        """
        return await replace_entry(self, ctx, name, change, uid, resource_version, dry_run)

    async def delete(self, ctx: Context, options: DeleteOptions) -> DeleteResult:
        self.strategy.check_delete(ctx)
        return await delete_entry(self, ctx, options)

    async def delete_collection(self, ctx: Context, options: DeleteOptions, selection: ListOptions) -> Listing:
        return await delete_entries(self, ctx, options, selection)

    async def list(self, ctx: Context, options: ListOptions) -> Listing:
        return await list_entries(self, ctx, options)
