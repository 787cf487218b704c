"""Watches: a cursor into the cache's window, converted to the events of one selection.

    no version, 0          the present as ADDED events in key order, then what follows
    a version              what followed it; one in the future waits silently
    sendInitialEvents      as without version; with allowWatchBookmarks a bookmark marks the end of the initial events

A change's event type depends on the selection. An object that begins to match is ADDED. One that stops matching is
DELETED, with its old state and the new version. If a watch falls behind the window, its last event is ERROR with 410.

Watchers that see the same event of a change share one WatchEvent and its encoded lines. An idle iterator costs nothing.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Final

from apiserver.api.errors.status import StatusError, unavailable
from apiserver.registry.definition.options import list_options
from apiserver.registry.store.results import WatchEvent
from apiserver.registry.verbs.revisions import parse_version, reached
from apiserver.registry.verbs.selection import Selection, selection_of
from apiserver.runtime.clock import Timer, server_loop, timers
from apiserver.storage.log.types import Expired, StorageUnavailable
from apiserver.storage.watchcache.entry import Batch, Entry, Event

if TYPE_CHECKING:
    from apiserver.registry.definition.context import Context
    from apiserver.registry.definition.options import ListOptions
    from apiserver.registry.store.store import Store
    from apiserver.request.messages import Request
    from apiserver.storage.watchcache.cache import Cache, Cursor

__all__ = ["open_watch", "watch"]

BOOKMARK_SECONDS: Final = 60.0
RETRY_SECONDS: Final = 0.2
_BATCH: Final = 1000


def watch(store: Store, ctx: Context, request: Request) -> AsyncIterator[list[WatchEvent]]:
    """Validate the options of a watch, then return its batches of events.

    Raises StatusError before it returns. The iterator yields non-empty batches. It ends by time-out, with an ERROR
    event, or when it is closed. With ctx.name it watches one object.
    """
    options = list_options(request.params, watch=True, watch_list=ctx.features.enabled("WatchList"))
    clock = (server_loop.get() or asyncio.get_running_loop()).time
    # The connection of a client in this process cannot break. Its only bookmark is the one at the end of the watch,
    # since the bookmarks of some sixty informers were most of the work of an idle server.
    return open_watch(store, ctx, options, clock, bookmark_seconds=math.inf if request.inside else BOOKMARK_SECONDS)


def open_watch(
    store: Store,
    ctx: Context,
    options: ListOptions,
    clock: Callable[[], float],
    bookmark_seconds: float = BOOKMARK_SECONDS,
) -> AsyncIterator[list[WatchEvent]]:
    """Validate the selection of a watch, then return its batches of events.

    `clock` is the event loop's time. Bookmarks come every `bookmark_seconds`; with infinity only at the time-out.
    Raises StatusError before it returns.
    """
    selection = selection_of(store, ctx, options)
    since = parse_version(options.resource_version)
    least = store.registry.watch_seconds
    seconds = float(options.timeout or 0) or least * (1 + random.random())  # noqa: S311 - spreads reconnects
    return _events(store, ctx.version, selection, options, since, seconds, clock, bookmark_seconds)


async def _events(
    store: Store,
    version: str,
    selection: Selection,
    options: ListOptions,
    since: int,
    seconds: float,
    clock: Callable[[], float],
    bookmark_seconds: float,
) -> AsyncIterator[list[WatchEvent]]:
    cache, alarm, conversion = store.cache, _Alarm(), store.resource.conversion
    deadline = clock() + seconds
    initial = options.send_initial_events if options.send_initial_events is not None else since == 0
    try:
        if initial:
            await _current(store, cache, since)
            revision, entries = cache.revision, _selected(cache, selection, all=conversion is not None)
            if conversion is not None:
                entries = await conversion.convert_entries(entries, version, kept=True)
            batch, since = _initial(entries, selection, options, revision), revision
            if batch:
                yield batch
        else:
            if since == 0:
                await store.registry.consistent()
                since = cache.revision
            await _reach_back(cache, since, deadline, clock)
        cursor = cache.cursor(since)
        sees = _view(selection, cache.prefix)
        bookmark_at = clock() + bookmark_seconds if options.allow_bookmarks else deadline
        while True:
            now = clock()
            if now >= deadline:
                if options.allow_bookmarks and bookmark_seconds == math.inf:
                    yield [WatchEvent("BOOKMARK", revision=cursor.revision)]
                return
            if now >= bookmark_at:
                yield [WatchEvent("BOOKMARK", revision=cursor.revision)]
                bookmark_at = now + bookmark_seconds
                alarm.cancel()
            alarm.set(min(deadline, bookmark_at) - now, cursor)
            if not await cursor.wait():
                if cursor.closed:
                    return
                alarm.cancel()
                continue
            events = cursor.next_batch(_BATCH)
            if conversion is not None:
                events = Batch(await conversion.convert_events(events, version))
            batch = sees(events)
            if batch:
                yield batch
    except Expired as error:
        yield [_expired(error, since)]
    except StorageUnavailable as error:
        yield [WatchEvent("ERROR", status=unavailable(str(error)).to_dict())]
    except StatusError as error:
        yield [WatchEvent("ERROR", status=error.to_dict())]
    finally:
        alarm.cancel()


class _Alarm:
    """Timer that ends a cursor's wait. It is shared by many waits, because most waits end early."""

    __slots__ = ("_timer",)

    def __init__(self) -> None:
        self._timer: asyncio.TimerHandle | None = None

    def set(self, seconds: float, cursor: Cursor) -> None:
        """Start the timer unless it is running."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(seconds, cursor.interrupt)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


async def _current(store: Store, cache: Cache, since: int) -> None:
    """Wait until the cache has the state for the initial events: the newest, or one at least as new as `since`."""
    if since:
        await reached(cache, since)
    else:
        await store.registry.consistent()


async def _reach_back(cache: Cache, since: int, deadline: float, clock: Callable[[], float]) -> None:
    """Extend the window back to a revision; while the database is unavailable, retry like an open watch."""
    while True:
        try:
            return await cache.reach_back(since)
        except StorageUnavailable:
            if cache.closed or clock() + RETRY_SECONDS >= deadline:
                raise
            with timers(Timer.MACHINE):
                await asyncio.sleep(RETRY_SECONDS)


def _selected(cache: Cache, selection: Selection, *, all: bool) -> list[Entry]:
    """Return the candidate entries of a selection.

    With `all` their labels and fields are not known yet, so no index applies.
    """
    if selection.key is not None:
        entry = cache.get(selection.key)
        return [] if entry is None else [entry]
    if selection.index and not all:
        return cache.find(selection.index, selection.term, selection.prefix).entries
    return cache.list(selection.prefix).entries


def _initial(entries: list[Entry], selection: Selection, options: ListOptions, revision: int) -> list[WatchEvent]:
    test = selection.test
    batch = [WatchEvent("ADDED", entry) for entry in entries if test is None or test(entry)]
    if options.send_initial_events and options.allow_bookmarks:
        batch.append(WatchEvent("BOOKMARK", revision=revision, initial_end=True))
    return batch


def _expired(error: Expired, since: int) -> WatchEvent:
    message = f"too old resource version: {error.revision or since} ({error.bound})"
    return WatchEvent("ERROR", status=StatusError(410, "Expired", message).to_dict())


def _view(selection: Selection, all_keys: str) -> Callable[[Batch[Event]], list[WatchEvent]]:
    """Return the function that converts a batch of changes to a selection's events.

    `all_keys` is the common prefix of all keys. Watchers without selectors also share the batches.
    """
    prefix, key, test = selection.prefix, selection.key, selection.test
    if test is None:

        def plain(events: Batch[Event]) -> Batch[WatchEvent]:
            made: Batch[WatchEvent] | None = events.forms.get(prefix)
            if made is None:
                whole = prefix == all_keys
                made = events.forms[prefix] = Batch(
                    _shared(event) for event in events if whole or event.key.startswith(prefix)
                )
            return made

        return plain

    def selected(events: Batch[Event]) -> list[WatchEvent]:
        batch = []
        for event in events:
            if event.key != key if key is not None else not event.key.startswith(prefix):
                continue
            matches = not event.deleted and test(event.new)
            matched = event.old is not None and test(event.old)
            if matches:
                batch.append(_shared_as(event, "MODIFIED" if matched else "ADDED"))
            elif matched:
                batch.append(_shared_as(event, "DELETED"))
        return batch

    return selected


def _shared(event: Event) -> WatchEvent:
    return _shared_as(event, "DELETED" if event.deleted else "ADDED" if event.old is None else "MODIFIED")


def _shared_as(event: Event, type: str) -> WatchEvent:
    """Return the shared WatchEvent of a change for an event type.

    A DELETED event of a change that is no deletion means that the object left a selection.
    """
    made = event.encodings.get(type)
    if made is None:
        entry = event.departed if type == "DELETED" and not event.deleted else event.new
        made = event.encodings[type] = WatchEvent(type, entry, event.revision)  # type: ignore[arg-type]
    shared: WatchEvent = made
    return shared
