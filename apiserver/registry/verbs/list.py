"""GET of a collection: the state that answers, and the selection of its objects.

    no version: the newest, at one revision for all pages · 0: the cached state, unpaged · a version: not older than
    it; with resourceVersionMatch=Exact, or with a limit and no match, exactly it · continue: at the token's revision

A list without selectors does not read its objects. A list with selectors uses an index if it can.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from apiserver.api.errors.status import StatusError, bad_request, expired
from apiserver.registry.definition.options import ListOptions, list_options
from apiserver.registry.store.results import Listing
from apiserver.registry.verbs.continuation import decode_token, encode_token
from apiserver.registry.verbs.get import list_computed
from apiserver.registry.verbs.revisions import parse_version, reached, too_large
from apiserver.registry.verbs.selection import Selection, selection_of
from apiserver.runtime.offload import iterate_in_slices, on_loop
from apiserver.storage.log.types import Compacted, Expired, FutureRevision

if TYPE_CHECKING:
    from apiserver.registry.definition.context import Context
    from apiserver.registry.store.store import Store
    from apiserver.request.messages import Request
    from apiserver.storage.watchcache.cache import Cache, Entry
    from apiserver.storage.watchcache.cache import Listing as StoredListing

__all__ = ["list_", "list_entries", "list_present"]

_PAGE: Final = 500

_LIST_EXPIRED: Final = "The resourceVersion for the provided list is too old."
_CONTINUE_EXPIRED: Final = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without"
    " the continue parameter, or use the continue token in this response to retrieve the remainder of the results."
    " Continuing with the provided token results in an inconsistent list - objects that were created, modified, or"
    " deleted between the time the first chunk was returned and now may show up in the list."
)


#: Maximum number of objects tested before other tasks may run.
_MANY: Final = 2000


class _ContinueExpired(StatusError):
    """A 410 with a token that continues in the present."""

    def __init__(self, token: str) -> None:
        super().__init__(410, "Expired", _CONTINUE_EXPIRED)
        self.token = token

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "metadata": {"continue": self.token}}


async def list_(store: Store, ctx: Context, request: Request) -> Listing:
    """List a collection. Raise StatusError."""
    return await list_entries(store, ctx, list_options(request.params, watch=False) if request.query else ListOptions())


def list_present(store: Store, namespace: str) -> Listing:
    """Return the whole collection in this server's cache."""
    cache = store.cache
    return Listing(cache.list(store.resource.prefix(namespace)).entries, cache.revision)


async def list_entries(store: Store, ctx: Context, options: ListOptions) -> Listing:
    """List the selected entries of a collection. Raise StatusError."""
    return await _list_selected(store, ctx, options, selection_of(store, ctx, options))


@on_loop
async def _list_selected(store: Store, ctx: Context, options: ListOptions, selection: Selection) -> Listing:
    if store.resource.compute_objects is not None:
        entries, key, test = await list_computed(store, ctx), selection.key, selection.test
        entries = [each for each in entries if each.key.startswith(selection.prefix) and (not key or each.key == key)]
        entries = [each for each in entries if test is None or test(each)]
        listing = Listing(entries, 0)
    elif store.resource.conversion is not None:
        listing = await _list_converted(store, ctx, options, selection)
    else:
        listing = await _list_stored(store, options, selection)
    return replace(listing, shards=selection.shards) if selection.shards else listing


async def _list_converted(store: Store, ctx: Context, options: ListOptions, selection: Selection) -> Listing:
    """List a kind with an external converter. Labels and fields are those of the requested version."""
    conversion, limit, test = store.resource.conversion, options.limit, selection.test
    assert conversion is not None
    if test is None:
        listing = await _list_stored(store, options, selection)
        return replace(listing, entries=await conversion.convert_entries(listing.entries, ctx.version, kept=True))
    everything = Selection(selection.prefix, None, None)
    listing = await _list_stored(store, options, everything, whole=True)
    kept = [entry for entry in await conversion.convert_entries(listing.entries, ctx.version, kept=True) if test(entry)]
    if limit <= 0 or len(kept) <= limit:
        return Listing(kept, listing.revision)
    token = encode_token(kept[limit - 1].key + "\0", selection.prefix, listing.revision)
    return Listing(kept[:limit], listing.revision, token)


async def _list_stored(store: Store, options: ListOptions, selection: Selection, *, whole: bool = False) -> Listing:
    """List the entries as stored. With `whole` the limit is ignored."""
    cache = store.cache
    if not options.resource_version and not options.continue_token and options.limit <= 0:
        await store.registry.consistent()
        return await _select_current(cache, selection)
    exact, start, limit = await _where(cache, selection, options)
    limit = 0 if whole else limit
    if exact > cache.revision or (not exact and (options.continue_token or not options.resource_version)):
        await store.registry.consistent()
    if exact and exact != cache.revision:
        return await _at(cache, selection, exact, start, limit, options)
    if limit <= 0 and not start:
        return await _select_current(cache, selection)
    return _page(cache, selection, start, limit)


async def _where(cache: Cache, selection: Selection, options: ListOptions) -> tuple[int, str, int]:
    """Return the exact revision to list at (0: the present), the start key and the limit."""
    version, match, limit = options.resource_version, options.resource_version_match, options.limit
    if options.continue_token:
        start, revision = decode_token(options.continue_token, selection.prefix)
        if version not in ("", "0"):
            raise bad_request("specifying resource version is not allowed when using continue")
        return max(revision, 0), start, limit
    if not version:
        return 0, "", limit
    revision = parse_version(version, cached=False)
    if match == "Exact" or (not match and limit > 0 and revision > 0):
        return revision, "", limit
    await reached(cache, revision)
    return 0, "", 0 if revision == 0 else limit


async def _select_current(cache: Cache, selection: Selection) -> Listing:
    """Return all selected entries of the present. Other tasks run while many objects are tested."""
    revision = cache.revision
    test = selection.test
    if test is None:
        return Listing(cache.list(selection.prefix).entries, revision)
    if selection.key is not None:
        entry = cache.get(selection.key)
        return Listing([entry] if entry is not None and test(entry) else [], revision)
    if not selection.index:
        found = cache.list(selection.prefix).entries
    else:
        found = cache.find(selection.index, selection.term, selection.prefix).entries
        if selection.exact:
            return Listing(found, revision)
    if len(found) > _MANY:
        return Listing([entry async for entry in iterate_in_slices(found) if test(entry)], revision)
    return Listing([entry for entry in found if test(entry)], revision)


def _page(cache: Cache, selection: Selection, start: str, limit: int) -> Listing:
    """Return a page of the present: entries up to the limit, and a token if more follow."""
    revision = cache.revision
    if selection.test is None or limit <= 0:
        found = cache.list(selection.prefix, start, limit if limit > 0 else None)
        return _build_page(
            found,
            [e for e in found.entries if selection.test is None or selection.test(e)],
            selection,
            revision,
            bool(found.remaining),
        )
    kept: list[Entry] = []
    while True:
        found = cache.list(selection.prefix, start, max(_PAGE, limit))
        for index, entry in enumerate(found.entries):
            if len(kept) == limit:
                return _build_page(found, kept, selection, revision, index < len(found.entries))
            if selection.test(entry):
                kept.append(entry)
        if not found.remaining or len(kept) == limit:
            return _build_page(found, kept, selection, revision, bool(found.remaining))
        start = found.entries[-1].key + "\0"


async def _at(
    cache: Cache, selection: Selection, revision: int, start: str, limit: int, options: ListOptions
) -> Listing:
    """Return a page of the past.

    With selectors the whole list is filtered first, so that a page has as many objects as requested.
    """
    plain = selection.test is None
    try:
        found = await cache.at(revision, selection.prefix, start, limit if plain and limit > 0 else None)
    except FutureRevision as error:
        raise too_large(revision, error.bound) from None
    except (Compacted, Expired):
        if options.continue_token:
            raise _ContinueExpired(encode_token(start, selection.prefix, -1)) from None
        raise expired(_LIST_EXPIRED) from None
    if plain:
        return _build_page(found, found.entries, selection, revision, bool(found.remaining))
    assert selection.test is not None
    kept: list[Entry] = []
    for entry in found.entries:
        if limit > 0 and len(kept) == limit:
            return _build_page(found, kept, selection, revision, True)
        if selection.test(entry):
            kept.append(entry)
    return _build_page(found, kept, selection, revision, False)


def _build_page(found: StoredListing, kept: list[Entry], selection: Selection, revision: int, more: bool) -> Listing:
    if not more or not kept:
        return Listing(kept, revision)
    token = encode_token(kept[-1].key + "\0", selection.prefix, revision)
    return Listing(kept, revision, token, found.remaining if selection.plain else None)
