"""Delete and deletecollection: the rules of `deletion`, applied to what is stored."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from apiserver.api.status import StatusError, not_found
from apiserver.registry.admission import Attributes
from apiserver.registry.body.convert import encode_stored, read
from apiserver.registry.body.options import DeleteOptions
from apiserver.registry.verbs.deletion import Step, begin, check_preconditions, success
from apiserver.registry.verbs.list import list_entries
from apiserver.registry.verbs.results import DeleteResult, Listing, Unsaved
from apiserver.storage.types import KeyMissing, RevisionConflict, Write

if TYPE_CHECKING:
    from apiserver.registry.body.options import ListOptions
    from apiserver.registry.context import Context
    from apiserver.registry.store import Store
    from apiserver.storage.cache import Entry

__all__ = ["delete_entries", "delete_entry"]

Json = dict[str, Any]

#: How many objects of a collection are deleted at once, to share commits.
AT_ONCE: Final = 64


async def delete_entry(store: Store, ctx: Context, options: DeleteOptions) -> DeleteResult:
    resource = store.resource
    key = resource.key(ctx.namespace if resource.namespaced else "", ctx.name)
    while True:
        await store.turn(key)
        entry = store.cache.get(key)
        if entry is None:
            raise not_found(resource.plural, resource.group, ctx.name)
        obj = read(entry)
        check_preconditions(resource, obj["metadata"], options.preconditions)
        result = await _start(store, ctx, key, entry, obj, options)
        if result is None:
            result = await _step(store, ctx, key, entry, obj, options)
        if result is not None:
            return result


async def _start(
    store: Store, ctx: Context, key: str, entry: Entry, obj: Json, options: DeleteOptions
) -> DeleteResult | None:
    """Kinds whose deletion begins with a change of their own and ends elsewhere (namespaces)."""
    changed = store.strategy.starts_deletion(ctx, obj, options)
    if not changed and store.strategy.may_remove(obj):
        return None
    if not changed:
        return DeleteResult(entry, gone=False)
    await _admit(store, ctx, entry)
    written = await _write(store, key, entry, obj, options.dry_run)
    return None if written is None else DeleteResult(written, gone=False)


async def _step(
    store: Store, ctx: Context, key: str, entry: Entry, obj: Json, options: DeleteOptions
) -> DeleteResult | None:
    """Deletes, or goes as far as finalizers and the grace period let it. None: somebody else was faster, begin
    again.
    """
    step = begin(ctx, obj, options)
    if step.then == "pending":
        return _answer(store, entry, gone=False)
    await _admit(store, ctx, entry)
    current = entry
    if step.obj is not None:
        written = await _write(store, key, entry, step.obj, options.dry_run)
        if written is None:
            return None
        current = written
    if step.then == "keep":
        return DeleteResult(current, gone=False, code=_code(options))
    if options.dry_run:
        return _dry(store, current, step)
    return await _remove(store, key, current, written=step.obj is not None)


def _code(options: DeleteOptions) -> int:
    """Dependents are to go in the background and the object stays for a while: accepted."""
    return 202 if options.orphan is False else 200


def _dry(store: Store, entry: Entry, step: Step) -> DeleteResult:
    return DeleteResult(entry, gone=True) if step.obj is not None else _answer(store, entry, gone=True)


async def _admit(store: Store, ctx: Context, entry: Entry) -> None:
    if store.admission.of(store.resource, "DELETE"):
        attributes = Attributes("DELETE", ctx, ctx.name, None, read(entry))
        await store.admission.admit(attributes)
        await store.admission.validate(attributes)


async def _write(store: Store, key: str, entry: Entry, obj: Json, dry_run: bool) -> Entry | None:
    """Stores the object as it is now being deleted; unchanged, it keeps its version."""
    obj["metadata"].pop("resourceVersion", None)
    before = read(entry)
    del before["metadata"]["resourceVersion"]
    if obj == before:
        return entry
    if dry_run:
        return Unsaved(key, obj, entry.revision)
    try:
        return await store.append(Write(key, encode_stored(obj), entry.revision))
    except (RevisionConflict, KeyMissing) as refused:
        await store.registry.catch_up(refused)
        return None


async def _remove(store: Store, key: str, entry: Entry, *, written: bool) -> DeleteResult | None:
    try:
        last = await store.append(Write(key, entry.value, entry.revision, deleted=True))
    except (RevisionConflict, KeyMissing) as refused:
        if not written or isinstance(refused, RevisionConflict):
            await store.registry.catch_up(refused)
            return None
        last = entry
    return _answer(store, last, gone=True)


def _answer(store: Store, entry: Entry, *, gone: bool) -> DeleteResult:
    status = None if store.resource.delete_returns_object else success(store.resource, entry.obj["metadata"])
    return DeleteResult(entry, gone, status)


async def delete_entries(store: Store, ctx: Context, options: DeleteOptions, selection: ListOptions) -> Listing:
    """Deletes what a list selects, and answers the list as it was."""
    listing = await list_entries(store, ctx, selection)
    one_by_one = options.preconditions is not None
    size = 1 if one_by_one else AT_ONCE
    for start in range(0, len(listing.entries), size):
        page = listing.entries[start : start + size]
        outcomes = await asyncio.gather(
            *(_delete_listed(store, ctx, entry, options) for entry in page), return_exceptions=True
        )
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
    return listing


async def _delete_listed(store: Store, ctx: Context, entry: Entry, options: DeleteOptions) -> None:
    parts = entry.key.rsplit("/", 2)
    namespace = parts[1] if store.resource.namespaced else ""
    one = ctx.of_object(namespace, parts[2])
    try:
        await delete_entry(store, one, options)
    except StatusError as error:
        if error.reason != "NotFound":
            raise
