"""GET of an object.

no version: the newest · a version: not older than it (waits up to three seconds, then 504)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver.api.errors.status import not_found
from apiserver.api.objects import Hub
from apiserver.registry.definition.options import get_options
from apiserver.registry.store.conversion import convert_entry
from apiserver.registry.store.results import Unsaved
from apiserver.registry.verbs.revisions import parse_version, reached

if TYPE_CHECKING:
    from apiserver.registry.definition.context import Context
    from apiserver.registry.store.store import Store
    from apiserver.request.messages import Request
    from apiserver.storage.watchcache.cache import Entry

__all__ = ["get", "get_present", "list_computed"]


async def get(store: Store, ctx: Context, request: Request) -> Entry:
    """Return the state of one object. Raise StatusError."""
    wanted = get_options(request.params).resource_version if request.query else ""
    if store.resource.compute_objects is not None:
        return await _get_computed(store, ctx)
    if wanted:
        cached = store.resource.cached
        await reached(store.cache, parse_version(wanted, cached=cached), cached=cached)
    else:
        await store.registry.consistent()
    # Upstream reads the newest state from etcd and converts it. A request with a version is answered from its cache.
    return await convert_entry(store.resource, ctx, get_present(store, ctx.namespace, ctx.name), kept=bool(wanted))


async def _get_computed(store: Store, ctx: Context) -> Entry:
    """Return an object of a kind without stored objects."""
    for entry in await list_computed(store, ctx):
        if entry.key == store.key(ctx.namespace, ctx.name):
            return entry
    raise not_found(store.resource.singular or store.resource.kind.lower(), store.resource.group, ctx.name)


async def list_computed(store: Store, ctx: Context) -> list[Entry]:
    """Return all objects of a kind without stored objects."""
    assert store.resource.compute_objects is not None
    objects = await store.resource.compute_objects(store, ctx)
    keys = (store.key(obj["metadata"].get("namespace", ""), obj["metadata"]["name"]) for obj in objects)
    return [Unsaved(key, Hub(obj), 0) for key, obj in zip(keys, objects, strict=True)]


def get_present(store: Store, namespace: str, name: str) -> Entry:
    """Return the state of one object in this server's cache. Raise 404."""
    entry = store.cache.get(store.key(namespace, name))
    if entry is None:
        raise not_found(store.resource.plural, store.resource.group, name)
    return entry
