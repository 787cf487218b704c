"""GET of an object.

no version: the newest · a version: not older than it (waits up to three seconds, then 504)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver.api.status import not_found
from apiserver.registry.body.options import get_options
from apiserver.registry.conversion import shown
from apiserver.registry.verbs.revisions import parse_version, reached

if TYPE_CHECKING:
    from apiserver.messages import Request
    from apiserver.registry.context import Context
    from apiserver.registry.store import Store
    from apiserver.storage.cache import Entry

__all__ = ["get", "get_present"]


async def get(store: Store, ctx: Context, request: Request) -> Entry:
    """The state of one object. Raises StatusError."""
    wanted = get_options(request.params).resource_version if request.query else ""
    if wanted:
        cached = store.resource.cached
        await reached(store.cache, parse_version(wanted, cached=cached), cached=cached)
    else:
        await store.registry.consistent()
    return await shown(store, ctx, get_present(store, ctx.namespace, ctx.name))


def get_present(store: Store, namespace: str, name: str) -> Entry:
    """The state of one object as this server's cache holds it. Raises 404."""
    entry = store.cache.get(store.resource.key(namespace, name))
    if entry is None:
        raise not_found(store.resource.plural, store.resource.group, name)
    return entry
