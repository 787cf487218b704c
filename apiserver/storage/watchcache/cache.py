"""The watch cache of one prefix: its current state and a window of its recent events, fed by `WatchCache`.

It lives on the event loop: between two awaits nothing changes, so "list, then a cursor from its revision" is atomic.

Invariants: a cache equals the log's state under its prefix at `revision`. Rows are applied one by one, in order,
before their writes are answered. An operation touches only its own keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from apiserver.storage.log.rows import check_past
from apiserver.storage.log.types import Expired, Record, RevisionLog
from apiserver.storage.watchcache.entry import Decode, Entry, Event, FleetingEvent
from apiserver.storage.watchcache.index import Index, Terms
from apiserver.storage.watchcache.keys import SortedKeys, end_of
from apiserver.storage.watchcache.window import Cursor, Progress, Window

__all__ = ["Cache", "Cursor", "Entry", "Event", "Listing", "RowConverter"]

HISTORY_ROWS = 2000
#: Prefixes whose entries are cached.
_LISTED = 64


#: Converts a row to the current form of its kind.
RowConverter = Callable[[Record], Record]


class Listing(NamedTuple):
    """Entries at one revision, in key order. `remaining` counts those beyond the limit.

    Readers share the entries and must not change them.
    """

    revision: int
    entries: list[Entry]
    remaining: int = 0


#: No object was handed over.
_NOTHING: tuple[bytes | None, Any] = (None, None)


class Cache:
    """The keys under one prefix; created by WatchCache.add.

    `to_current` converts rows stored in an older form of their kind when they are read and returns all others
    unchanged. The log keeps the stored form.
    """

    def __init__(
        self,
        prefix: str,
        log: RevisionLog,
        progress: Progress,
        decode: Decode,
        indexes: Mapping[str, Terms],
        to_current: RowConverter | None = None,
    ) -> None:
        self.prefix = prefix
        self._to_current = to_current
        #: Stored rows whose served form differs, by key.
        self._stored: dict[str, Record] = {}
        self._log = log
        self._progress = progress
        self._decode = decode
        self._event: type[Event] = Event
        self._entries: dict[str, Entry] = {}
        self._keys = SortedKeys()
        #: All entries under a prefix until one of them changes: polling clients repeat the same list.
        self._listed: dict[str, list[Entry]] = {}
        self._window = Window(progress)
        self._indexes = {name: Index(terms, self._entries, self._window) for name, terms in indexes.items()}
        #: Windows of watches that began before a renewal, and the conversion to their form.
        self._former_windows: dict[Window, RowConverter] = {}
        #: Events up to this revision had another form: their watchers have to list again.
        self._form_revision = 0
        self._when_changed: Callable[[bool], object] | None = None
        #: Number of followers in this process that read objects, and the objects handed over for them, by key.
        self.followers = 0
        self._preloaded: dict[str, tuple[bytes, Any]] = {}
        self._observer: tuple[Callable[[Record], object], Callable[[], object]] | None = None

    # The present

    @property
    def revision(self) -> int:
        """The revision of this cache. It advances with the whole feed, not only with this prefix."""
        return self._progress.revision

    @property
    def closed(self) -> bool:
        """Whether its watches were ended."""
        return self._window.closed

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: str) -> Entry | None:
        """Return the current state of a key."""
        return self._entries.get(key)

    def list(self, prefix: str = "", start: str = "", limit: int | None = None) -> Listing:
        """Return current entries whose key begins with `prefix` (which includes the cache's own), from key `start`."""
        prefix = prefix or self.prefix
        if not start and limit is None:
            listed = self._listed.get(prefix)
            if listed is None:
                if len(self._listed) >= _LISTED:
                    self._listed.clear()
                keys = self._keys.range(prefix, end_of(prefix))
                listed = self._listed[prefix] = [self._entries[key] for key in keys]
            return Listing(self.revision, listed)
        end = end_of(prefix)
        low = max(prefix, start)
        keys = self._keys.range(low, end, limit)
        entries = self._entries
        remaining = 0
        if limit is not None and len(keys) == limit:
            remaining = self._keys.rank(end) - self._keys.rank(low) - limit
        return Listing(self.revision, [entries[key] for key in keys], remaining)

    def when_changed(self, listener: Callable[[bool], object]) -> None:
        """Call a listener with whether there are any keys: now, and on every change before readers can see it."""
        self._when_changed = listener
        listener(bool(self._entries))

    def observe(self, applied: Callable[[Record], object], loaded: Callable[[], object]) -> Callable[[], None]:
        """Call one observer with each applied row, and when the state is replaced. Return a function that ends it."""

        def end() -> None:
            self._observer = None

        self._observer = applied, loaded
        return end

    def find(self, index: str, term: str, prefix: str = "") -> Listing:
        """Return current entries under a term of an index, in key order."""
        found = self._indexes[index].find(term)
        entries = sorted((entry for entry in found if entry.key.startswith(prefix)), key=lambda entry: entry.key)
        return Listing(self.revision, entries)

    def limit_history(self) -> None:
        """Keep decoded and encoded forms only of the newest objects. Used for kinds with very many objects."""
        self._event = FleetingEvent

    def add_index(self, name: str, terms: Terms) -> None:
        """Add an index. It is built at its first use."""
        self._indexes[name] = Index(terms, self._entries, self._window)

    # The past and the future

    async def at(self, revision: int, prefix: str = "", start: str = "", limit: int | None = None) -> Listing:
        """Return the list at a revision, from the window if it reaches back far enough, else from the log.

        Compacted revisions are refused even while the window still contains them, so that the lifetime of a page does
        not depend on the traffic.

        Raises:
            FutureRevision, Compacted: The state at the revision is not available.
        """
        prefix = prefix or self.prefix
        check_past(revision, self._log.compacted, self.revision)
        if revision >= self._window.floor:
            return self._roll_back_to(revision, prefix, start, limit)
        rows = await self._log.state(prefix, revision, start=start, limit=limit)
        return Listing(revision, [self._entry(record) for record in rows.records], rows.remaining)

    def _roll_back_to(self, revision: int, prefix: str, start: str, limit: int | None) -> Listing:
        """Undo the window's events after a revision: a key's first event contains its earlier state."""
        before: dict[str, Entry | None] = {}
        for event in self._window.since(revision):
            before.setdefault(event.key, event.old)
        if not before:
            return self.list(prefix, start, limit)._replace(revision=revision)
        now = self.list(prefix, start, None if limit is None else limit + len(before))
        low, last = max(prefix, start), now.entries[-1].key if now.remaining else None
        entries = [entry for entry in now.entries if entry.key not in before]
        returned = [
            old
            for key, old in before.items()
            if old is not None and key >= low and key.startswith(prefix) and (last is None or key <= last)
        ]
        if returned:
            entries = sorted(entries + returned, key=lambda entry: entry.key)
        beyond = 0
        if last is not None:
            for key, old in before.items():
                if key > last and key.startswith(prefix):
                    beyond += (old is not None) - (key in self._entries)
        cut = len(entries) if limit is None else limit
        remaining = max(len(entries) - cut, 0) + now.remaining + beyond
        return Listing(revision, entries[:cut], remaining)

    async def wait_for(self, revision: int, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Return once the cache has reached a revision; raise FutureRevision after `timeout` seconds."""
        await self._progress.wait_for(revision, timeout)

    async def consistent(self, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Return once the cache includes everything committed, by any server, before the call."""
        await self._progress.wait_for(await self._log.current_revision(), timeout)

    # Watching

    def cursor(self, since: int) -> Cursor:
        """Return a cursor to the events after a revision (maybe a future one). Raise Expired: see `reach_back`."""
        return Cursor(self._window, since)

    async def reach_back(self, since: int) -> None:
        """Read the events after an older revision back into the window, so that `cursor(since)` succeeds.

        A watch resumes this way after a restart of the server.

        Raises:
            Expired: The log no longer has the events, the window cannot hold them, or they have another form. The
                watcher has to list again.
        """
        window = self._window
        floor = window.floor
        if since >= floor:
            return
        if since < self._form_revision:
            raise Expired(since, floor)
        most = min(window.free_slots(), HISTORY_ROWS)
        changes = await self._log.history(self.prefix, since, floor, most + 1)
        if window.floor > floor or len(changes) > most:
            raise Expired(since, window.floor)
        if since >= window.floor:
            return  # another watcher has read back more meanwhile
        events = [self._past_event(*change) for change in changes if change.record.revision <= window.floor]
        if not window.extend_back(events, since):
            raise Expired(since, window.floor)

    def _past_event(self, record: Record, old: Record | None) -> Event:
        current = self._entries.get(record.key)
        new = current if current is not None and current.revision == record.revision else self._entry(record)
        return Event(None if old is None else self._entry(old), new, record.deleted)

    def _entry(self, record: Record) -> Entry:
        return Entry(record if self._to_current is None else self._to_current(record), self._decode)

    # Fed by WatchCache

    def preload(self, key: str, value: bytes, obj: Any) -> None:
        """Pass the object that a writer is about to store as `value`, so that followers need not decode it.

        The object must not change afterwards. Rows that `to_current` converts are decoded in any case.
        """
        if self.followers and self._to_current is None:
            self._preloaded[key] = value, obj

    def discard_preloaded(self, key: str) -> None:
        """Drop an object that was handed over but not stored."""
        self._preloaded.pop(key, None)

    def apply(self, record: Record) -> None:
        """Apply the next row of this prefix."""
        key = record.key
        if self._former_windows:
            self._feed_former_windows(record)
        entry = Entry(record, self._decode) if self._to_current is None else self._convert(record)
        if self._preloaded:
            value, obj = self._preloaded.pop(key, _NOTHING)
            if value is record.value and not record.deleted:
                entry.prime({**obj, "metadata": {"resourceVersion": str(record.revision), **obj["metadata"]}})
        entries = self._entries
        old = entries.get(key)
        if record.deleted:
            if old is not None:
                del entries[key]
                self._keys.remove(key)
        else:
            entries[key] = entry
            if old is None:
                self._keys.add(key)
        if self._listed:
            self._listed.clear()
        self._window.add(self._event(old, entry, record.deleted))
        if self._when_changed is not None:
            self._when_changed(bool(entries))
        if self._observer is not None:
            self._observer[0](record)

    def load(self, records: Iterable[Record], revision: int) -> None:
        """Replace the contents with the state at a revision; earlier events become unavailable."""
        self._listed.clear()
        self._entries.clear()
        self._stored.clear()
        self._entries.update((record.key, self._convert(record)) for record in records)
        self._keys = SortedKeys(self._entries)
        self._window.clear(revision)
        if self._when_changed is not None:
            self._when_changed(bool(self._entries))
        if self._observer is not None:
            self._observer[1]()

    def _convert(self, record: Record) -> Entry:
        """Return the current state of a key. Keep its stored row if it differs from what is served."""
        entry = self._entry(record)
        if self._to_current is not None:
            self._stored.pop(record.key, None)
            if not record.deleted and entry.value != record.value:
                self._stored[record.key] = record
        return entry

    def stored_value(self, key: str, entry: Entry) -> bytes:
        """Return the stored bytes of an entry, which may have an older form than the entry."""
        row = self._stored.get(key)
        return entry.value if row is None else row.value

    def _row(self, key: str, entry: Entry) -> Record:
        """Return the stored row of an entry."""
        stored = self._stored.get(key)
        return stored or Record(entry.revision, key, entry.create_revision, 0, False, entry.value)

    def change_form(
        self,
        indexes: Mapping[str, Terms],
        to_current: RowConverter | None = None,
        to_former: RowConverter | None = None,
    ) -> Callable[[], None]:
        """Serve the same state in another form, with other indexes, and drop everything derived from the entries.

        Watches end immediately. With `to_former`, which converts any row to the previous form, they end when the
        returned function is called.
        """
        window = self._window
        if to_former is None:
            window.close()
        else:
            self._former_windows[window] = to_former
        self._form_revision = self.revision
        self._listed.clear()
        if to_current is not None or self._to_current is not None:
            rows = {key: self._row(key, entry) for key, entry in self._entries.items()}
            self._to_current, self._stored = to_current, {}
            for key, row in rows.items():
                self._entries[key] = self._convert(row)
        self._window = Window(self._progress)
        self._indexes = {name: Index(terms, self._entries, self._window) for name, terms in indexes.items()}
        for entry in self._entries.values():
            entry.drop_derived()

        def end() -> None:
            self._former_windows.pop(window, None)
            window.close()

        return end

    def _feed_former_windows(self, record: Record) -> None:
        """Add the next row to the windows of watches that began before a renewal, in their previous form."""
        entry = self._entries.get(record.key)
        row = None if entry is None else self._row(record.key, entry)
        for window, form in self._former_windows.items():
            old = None if row is None else Entry(form(row), self._decode)
            window.add(Event(old, Entry(form(record), self._decode), record.deleted))

    def wake(self) -> None:
        """Wake the watchers after rows were applied."""
        if self._window.waiters:
            self._window.wake()
        for window in self._former_windows:
            window.wake()

    def close(self) -> None:
        """End all watches."""
        for window in (self._window, *self._former_windows):
            window.close()
        self._former_windows.clear()
