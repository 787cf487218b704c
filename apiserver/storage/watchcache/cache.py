"""The watch cache of one prefix: its current state and a window of its recent events, fed by `WatchCache`.

It lives on the event loop: between two awaits nothing changes, so "list, then a cursor from its revision" is atomic.

Invariants: a cache equals the log's state under its prefix at `revision`; it was brought there row by row, in order,
before the write that made the row was answered. An operation touches only the keys it is about.
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

__all__ = ["Cache", "Cursor", "Entry", "Event", "Listing", "Present"]

HISTORY_ROWS = 2000
#: Prefixes whose entries are remembered.
_LISTED = 64


#: Gives a row in the present form of its kind.
Present = Callable[[Record], Record]


class Listing(NamedTuple):
    """Entries at one revision, in key order; `remaining` more follow that the limit cut off. Not to be changed: readers
    share them.
    """

    revision: int
    entries: list[Entry]
    remaining: int = 0


#: Handed over by nobody.
_NOTHING: tuple[bytes | None, Any] = (None, None)


class Cache:
    """The keys under one prefix. Made by WatchCache.add.

    `present` brings rows that were stored in an older form of their kind into the present one as they are read (it
    gives back what needs no change); the log keeps what was stored.
    """

    def __init__(
        self,
        prefix: str,
        log: RevisionLog,
        progress: Progress,
        decode: Decode,
        indexes: Mapping[str, Terms],
        present: Present | None = None,
    ) -> None:
        self.prefix = prefix
        self._present = present
        #: rows that are shown in another form than they are stored in, by key.
        self._stored: dict[str, Record] = {}
        self._log = log
        self._progress = progress
        self._decode = decode
        self._event: type[Event] = Event
        self._entries: dict[str, Entry] = {}
        self._keys = SortedKeys()
        #: All entries under a prefix, as long as none of them changes: clients that poll list the same again.
        self._listed: dict[str, list[Entry]] = {}
        self._window = Window(progress)
        self._indexes = {name: Index(terms, self._entries, self._window) for name, terms in indexes.items()}
        #: Windows of watches that began before the cache was renewed, and the form in which they show rows.
        self._former: dict[Window, Present] = {}
        #: Events up to this revision were of another form: whoever saw that one has to list again.
        self._renewed = 0
        self._when_changed: Callable[[bool], object] | None = None
        #: How many in this process follow the objects themselves, and what writers hand over for them, by key.
        self.followers = 0
        self._handed_over: dict[str, tuple[bytes, Any]] = {}
        self._observer: tuple[Callable[[Record], object], Callable[[], object]] | None = None

    # The present

    @property
    def revision(self) -> int:
        """The revision that this cache is current to. It advances with the whole feed, not only with this prefix."""
        return self._progress.revision

    @property
    def closed(self) -> bool:
        """Whether its watches were ended."""
        return self._window.closed

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: str) -> Entry | None:
        """The current state of a key."""
        return self._entries.get(key)

    def list(self, prefix: str = "", start: str = "", limit: int | None = None) -> Listing:
        """Current entries whose key begins with `prefix` (which includes the cache's own), from key `start` on."""
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
        """Tells a listener whether there are any keys: now, and with every change, before anybody can read of it."""
        self._when_changed = listener
        listener(bool(self._entries))

    def observe(self, applied: Callable[[Record], object], loaded: Callable[[], object]) -> Callable[[], None]:
        """Tells one observer of each row once it is applied, and when all is replaced by another state. Gives what ends
        that.
        """

        def end() -> None:
            self._observer = None

        self._observer = applied, loaded
        return end

    def find(self, index: str, term: str, prefix: str = "") -> Listing:
        """Current entries under a term of an index, in key order."""
        found = self._indexes[index].find(term)
        entries = sorted((entry for entry in found if entry.key.startswith(prefix)), key=lambda entry: entry.key)
        return Listing(self.revision, entries)

    def hold_little(self) -> None:
        """Keeps decoded and encoded forms of the newest objects alone, of which there may be very many."""
        self._event = FleetingEvent

    def add_index(self, name: str, terms: Terms) -> None:
        """Adds an index. It is built when it is first used."""
        self._indexes[name] = Index(terms, self._entries, self._window)

    # The past and the future

    async def at(self, revision: int, prefix: str = "", start: str = "", limit: int | None = None) -> Listing:
        """The list as it was at a revision: from the window if that reaches back, else from the log. What was compacted
        is gone for clients even while the window still has it: how long a page may wait does not depend on the traffic.

        Raises FutureRevision, Compacted.
        """
        prefix = prefix or self.prefix
        check_past(revision, self._log.compacted, self.revision)
        if revision >= self._window.floor:
            return self._rolled_back(revision, prefix, start, limit)
        rows = await self._log.state(prefix, revision, start=start, limit=limit)
        return Listing(revision, [self._entry(record) for record in rows.records], rows.remaining)

    def _rolled_back(self, revision: int, prefix: str, start: str, limit: int | None) -> Listing:
        """The state before the window's events after a revision: a key's first event holds what it was."""
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
        """Returns once the cache has reached a revision; raises FutureRevision after `timeout` seconds."""
        await self._progress.wait_for(revision, timeout)

    async def consistent(self, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Returns once the cache holds all that was committed, by any server, before the call."""
        await self._progress.wait_for(await self._log.current_revision(), timeout)

    # Watching

    def cursor(self, since: int) -> Cursor:
        """A cursor to the events after a revision (which may be in the future). Raises Expired: see `reach_back`."""
        return Cursor(self._window, since)

    async def reach_back(self, since: int) -> None:
        """Brings the events after an older revision back into the window, so that `cursor(since)` can be had.

        A watch resumes so after a restart of the server. Raises Expired if the log does not hold the events any more,
        if they are more than the window may hold, or if they were of another form: the watcher has to list again.
        """
        window = self._window
        floor = window.floor
        if since >= floor:
            return
        if since < self._renewed:
            raise Expired(since, floor)
        most = min(window.room(), HISTORY_ROWS)
        changes = await self._log.history(self.prefix, since, floor, most + 1)
        if window.floor > floor or len(changes) > most:
            raise Expired(since, window.floor)
        if since >= window.floor:
            return  # another watcher has brought back more meanwhile
        events = [self._past_event(*change) for change in changes if change.record.revision <= window.floor]
        if not window.extend_back(events, since):
            raise Expired(since, window.floor)

    def _past_event(self, record: Record, old: Record | None) -> Event:
        current = self._entries.get(record.key)
        new = current if current is not None and current.revision == record.revision else self._entry(record)
        return Event(None if old is None else self._entry(old), new, record.deleted)

    def _entry(self, record: Record) -> Entry:
        return Entry(record if self._present is None else self._present(record), self._decode)

    # Fed by WatchCache

    def hand_over(self, key: str, value: bytes, obj: Any) -> None:
        """What is about to be stored under a key, as `value` and as the object that was encoded so, which nobody
        changes from now on: where somebody follows the objects, it need not be decoded. Rows that are brought into
        another form as they are read are decoded all the same.
        """
        if self.followers and self._present is None:
            self._handed_over[key] = value, obj

    def take_back(self, key: str) -> None:
        """It was not stored after all."""
        self._handed_over.pop(key, None)

    def apply(self, record: Record) -> None:
        """Takes the next row of this prefix."""
        key = record.key
        if self._former:
            self._tell_former(record)
        entry = Entry(record, self._decode) if self._present is None else self._converted(record)
        if self._handed_over:
            value, obj = self._handed_over.pop(key, _NOTHING)
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
        """Replaces the contents with the state at a revision; earlier events cannot be read from then on."""
        self._listed.clear()
        self._entries.clear()
        self._stored.clear()
        self._entries.update((record.key, self._converted(record)) for record in records)
        self._keys = SortedKeys(self._entries)
        self._window.clear(revision)
        if self._when_changed is not None:
            self._when_changed(bool(self._entries))
        if self._observer is not None:
            self._observer[1]()

    def _converted(self, record: Record) -> Entry:
        """The present state of a key; what is stored of it is kept where that is something else."""
        entry = self._entry(record)
        if self._present is not None:
            self._stored.pop(record.key, None)
            if not record.deleted and entry.value != record.value:
                self._stored[record.key] = record
        return entry

    def stored_value(self, key: str, entry: Entry) -> bytes:
        """The bytes that are stored of an entry, which may be in an older form than what it shows."""
        row = self._stored.get(key)
        return entry.value if row is None else row.value

    def _row(self, key: str, entry: Entry) -> Record:
        """What is stored of an entry."""
        stored = self._stored.get(key)
        return stored or Record(entry.revision, key, entry.create_revision, 0, False, entry.value)

    def renew(
        self, indexes: Mapping[str, Terms], present: Present | None = None, former: Present | None = None
    ) -> Callable[[], None]:
        """Goes on with the same state, shown in another form, with other indexes, and nothing that was made of the
        entries. Watches end, with `former`, which shows any row in the form until now, only when what is given back is
        called.
        """
        window = self._window
        if former is None:
            window.close()
        else:
            self._former[window] = former
        self._renewed = self.revision
        self._listed.clear()
        if present is not None or self._present is not None:
            rows = {key: self._row(key, entry) for key, entry in self._entries.items()}
            self._present, self._stored = present, {}
            for key, row in rows.items():
                self._entries[key] = self._converted(row)
        self._window = Window(self._progress)
        self._indexes = {name: Index(terms, self._entries, self._window) for name, terms in indexes.items()}
        for entry in self._entries.values():
            entry.forget()

        def end() -> None:
            self._former.pop(window, None)
            window.close()

        return end

    def _tell_former(self, record: Record) -> None:
        """Shows the next row to the watches from before, which see it in the form of their time."""
        entry = self._entries.get(record.key)
        row = None if entry is None else self._row(record.key, entry)
        for window, form in self._former.items():
            old = None if row is None else Entry(form(row), self._decode)
            window.add(Event(old, Entry(form(record), self._decode), record.deleted))

    def wake(self) -> None:
        """Wakes the watchers: rows were applied."""
        if self._window.waiters:
            self._window.wake()
        for window in self._former:
            window.wake()

    def close(self) -> None:
        """Ends all watches."""
        for window in (self._window, *self._former):
            window.close()
        self._former.clear()
