"""Replacement of a stored object, for subresources that change it (binding, eviction) and for the server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver.api.objects import UpdateFunc
from apiserver.registry.definition.options import WriteOptions
from apiserver.registry.fields.managers import Manager
from apiserver.registry.verbs.pipeline import Mutation, append_changed, precondition_failed, read_stored

if TYPE_CHECKING:
    from apiserver.registry.definition.context import Context
    from apiserver.registry.store.store import Store
    from apiserver.storage.watchcache.cache import Entry

__all__ = ["replace_object"]


async def replace_object(
    store: Store,
    ctx: Context,
    change: UpdateFunc,
    *,
    uid: str = "",
    resource_version: str = "",
    dry_run: bool = False,
    tracked: bool = False,
) -> Entry:
    """Store the result of `change` for the object ctx.name, without its strategy and without admission.

    `uid` and `resource_version` are preconditions. If `tracked`, ctx.manager manages the changes as an update of
    ctx.subresource; otherwise managed fields stay unchanged.
    Raises StatusError.
    """
    m = Mutation(store, ctx, WriteOptions(dry_run=dry_run))
    m.uid, m.tracked = uid, tracked
    writer = Manager(ctx.manager, "Update", store.bodies[ctx.version, ""].api_version, ctx.subresource)
    while True:
        await read_stored(m)
        stored = m.old["metadata"].pop("resourceVersion")
        if resource_version and resource_version != stored:
            raise precondition_failed(m, "ResourceVersion", resource_version, stored)
        m.obj = change(m.obj)
        m.obj["metadata"].pop("resourceVersion", None)
        if tracked and m.obj != m.old:
            store.tracker.track_update(m.old, m.obj, writer, ctx.now)
        entry = await append_changed(m)
        if entry is not None:
            return entry
