"""Look-ups by something other than the key: a field, a label.

An index is a reader of the cache's window like any watcher: it is built at its first use and reads on from its place at
each later one, so an index that nobody asks costs nothing, and a write never waits for one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from apiserver.storage.log.types import Expired
from apiserver.storage.watchcache.entry import Entry
from apiserver.storage.watchcache.window import Cursor, Window

if TYPE_CHECKING:
    from collections.abc import ValuesView

Terms = Callable[[Entry], Iterable[str]]


class Index:
    """Live entries by term. `terms` says under which terms an entry is found; it must depend on the entry alone."""

    __slots__ = ("_cursor", "_entries", "_found", "_terms", "_window")

    def __init__(self, terms: Terms, entries: dict[str, Entry], window: Window) -> None:
        self._terms = terms
        self._entries = entries
        self._window = window
        self._cursor: Cursor | None = None
        self._found: dict[str, dict[str, Entry]] = {}

    def find(self, term: str) -> ValuesView[Entry]:
        """The live entries under a term, in no particular order."""
        self._read_on()
        return self._found.get(term, {}).values()

    def _read_on(self) -> None:
        if self._cursor is None or not self._follow(self._cursor):
            self._found.clear()
            for entry in self._entries.values():
                self._put(entry)
            self._cursor = Cursor(self._window, self._window.progress.revision)

    def _follow(self, cursor: Cursor) -> bool:
        try:
            while events := cursor.next_batch():
                for event in events:
                    if event.old is not None:
                        self._take(event.old)
                    if not event.deleted:
                        self._put(event.new)
        except Expired:
            return False
        return True

    def _put(self, entry: Entry) -> None:
        for term in self._terms(entry):
            self._found.setdefault(term, {})[entry.key] = entry

    def _take(self, entry: Entry) -> None:
        for term in self._terms(entry):
            under = self._found.get(term)
            if under is not None:
                under.pop(entry.key, None)
                if not under:
                    del self._found[term]
