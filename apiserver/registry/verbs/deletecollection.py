"""DELETE of a collection: a DELETE of each object in a list.

list options → options → [listed → each deleted, several at a time]; the answer is the list as it was
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from apiserver.api.errors.status import StatusError
from apiserver.registry.definition.options import DeleteOptions, ListOptions, list_options
from apiserver.registry.store.results import Listing
from apiserver.registry.verbs.delete import delete_object, options_of
from apiserver.registry.verbs.list import list_entries
from apiserver.registry.verbs.selection import check_fields
from apiserver.runtime.offload import on_loop

if TYPE_CHECKING:
    from apiserver.registry.definition.context import Context
    from apiserver.registry.store.store import Store
    from apiserver.request.messages import Request
    from apiserver.storage.watchcache.cache import Entry

__all__ = ["delete_collection"]

#: Number of concurrent deletions; they share commits.
_AT_ONCE: Final = 64


async def delete_collection(store: Store, ctx: Context, request: Request) -> Listing:
    """Delete the objects of a list, and return the list from before. Raise StatusError."""
    selection = list_options(request.params, watch=False) if request.query else ListOptions()
    check_fields(store.variants[ctx.version], ctx.version, selection.fields)
    options = options_of(request)
    ctx.dry_run, ctx.options = options.dry_run, options
    ctx.warnings += store.strategy.warnings_on_delete(ctx, options)
    listing = await list_entries(store, ctx, selection)
    one_by_one = options.preconditions is not None
    size = 1 if one_by_one else _AT_ONCE
    for start in range(0, len(listing.entries), size):
        page = listing.entries[start : start + size]
        for outcome in await (_delete_page if store.resource.conversion is None else _delete_in_turn)(
            store, ctx, page, options
        ):
            if outcome is not None:
                raise outcome
    return listing


@on_loop
async def _delete_page(
    store: Store, ctx: Context, page: Sequence[Entry], options: DeleteOptions
) -> list[BaseException | None]:
    deletions = (_delete_listed(store, ctx, entry, options) for entry in page)
    return await asyncio.gather(*deletions, return_exceptions=True)


async def _delete_in_turn(
    store: Store, ctx: Context, page: Sequence[Entry], options: DeleteOptions
) -> list[BaseException | None]:
    """Delete one after the other in the caller's task, because admission may have to wait for a conversion."""
    for entry in page:
        try:
            await _delete_listed(store, ctx, entry, options)
        except StatusError as error:
            return [error]
    return []


async def _delete_listed(store: Store, ctx: Context, entry: Entry, options: DeleteOptions) -> None:
    parts = entry.key.rsplit("/", 2)
    namespace = parts[1] if store.resource.namespaced else ""
    one = ctx.of_object(namespace, parts[2])
    try:
        await delete_object(store, one, options)
    except StatusError as error:
        if error.reason != "NotFound":
            raise
