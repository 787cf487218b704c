"""Writing a stored object as it is: what subresources do that change one themselves (binding, eviction), and the server
on its own account.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from apiserver.api.errors.status import not_found
from apiserver.api.schema.objects import Hub, Json
from apiserver.registry.body.convert import read, read_compact
from apiserver.registry.fields.managers import Manager
from apiserver.registry.store.conversion import shown
from apiserver.registry.store.results import Unsaved
from apiserver.registry.verbs.update import precondition_failed
from apiserver.storage.log.types import KeyMissing, RevisionConflict

if TYPE_CHECKING:
    from apiserver.registry.definition.context import Context
    from apiserver.registry.store.store import Store
    from apiserver.storage.watchcache.cache import Entry

__all__ = ["replace_object"]


async def replace_object(
    store: Store,
    ctx: Context,
    func: Callable[[Hub], Json],
    *,
    uid: str = "",
    resource_version: str = "",
    dry_run: bool = False,
    manager: str = "",
    subresource: str = "",
) -> Entry:
    """Stores what `func` makes of the object ctx.name: preconditions in the storage's words, no strategy, no admission
    (that was asked about the subresource). What changes is managed by `manager`, as if it had updated the subresource;
    without one managed fields stay as they are. Raises StatusError.
    """
    resource = store.resource
    writer = Manager(manager, "Update", store.bodies[ctx.version, ""].api_version, subresource)
    key = resource.key(ctx.namespace, ctx.name)
    while True:
        await store.registry.turn(key)
        entry = store.cache.get(key)
        if entry is None:
            raise not_found(resource.plural, resource.group, ctx.name)
        if resource.conversion is not None:
            entry = await shown(store, ctx, entry)
        old = read(entry)
        metadata = old["metadata"]
        if uid and uid != metadata["uid"]:
            raise precondition_failed(store, ctx, key, "UID", uid, metadata["uid"])
        if resource_version and resource_version != metadata["resourceVersion"]:
            raise precondition_failed(store, ctx, key, "ResourceVersion", resource_version, metadata["resourceVersion"])
        new = Hub(func(read_compact(entry) if manager else read(entry)))
        new["metadata"].pop("resourceVersion", None)
        metadata.pop("resourceVersion", None)
        if new == old:
            return entry
        if manager:
            store.tracker.updated(old, new, writer, ctx.now)
        if dry_run:
            return Unsaved(key, new, entry.revision)
        try:
            return await store.put(ctx, key, new, entry.revision)
        except (RevisionConflict, KeyMissing) as refused:
            await store.registry.catch_up(refused)
