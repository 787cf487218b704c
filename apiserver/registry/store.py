"""The generic store: one for each resource, all semantics of upstream's generic registry.

A store reads from its resource's watch cache and writes to the log; its verbs are in `apiserver.registry.verbs`,
which take the store as their first argument.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson

from apiserver.registry.admission import Admission
from apiserver.registry.body.convert import Forms
from apiserver.registry.body.normalize import settler_of
from apiserver.registry.body.options import DeleteOptions, GetOptions, ListOptions, WriteOptions
from apiserver.registry.context import Context
from apiserver.registry.fields.managers import FieldTracker, manager_name
from apiserver.registry.resource import Resource, same_form
from apiserver.registry.verbs.delete import delete_entries, delete_entry
from apiserver.registry.verbs.list import get_entry, list_entries
from apiserver.registry.verbs.results import DeleteResult, Listing, Result, WatchEvent
from apiserver.registry.verbs.update import create_entry, replace_entry, update_entry
from apiserver.registry.verbs.watch import open_watch
from apiserver.storage.cache import Entry
from apiserver.storage.types import Write

if TYPE_CHECKING:
    from apiserver.messages import User
    from apiserver.registry.catalog import Registry
    from apiserver.storage.cache import Cache

Json = dict[str, Any]
Change = Callable[[Json | None], Json]

__all__ = ["Change", "Store"]


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
