"""Look up entries by a field or label instead of the key.

An index reads the cache's window like a watcher: it is built at its first use and catches up at each later one. An
unused index costs nothing, and a write never waits for one.
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
    """Live entries by term. `terms` returns the terms of an entry and must depend only on the entry."""

    __slots__ = ("_by_term", "_cursor", "_entries", "_terms", "_window")

    def __init__(self, terms: Terms, entries: dict[str, Entry], window: Window) -> None:
        self._terms = terms
        self._entries = entries
        self._window = window
        self._cursor: Cursor | None = None
        self._by_term: dict[str, dict[str, Entry]] = {}

    def find(self, term: str) -> ValuesView[Entry]:
        """Return the live entries under a term, in no particular order."""
        self._read_on()
        return self._by_term.get(term, {}).values()

    def _read_on(self) -> None:
        if self._cursor is None or not self._follow(self._cursor):
            self._by_term.clear()
            for entry in self._entries.values():
                self._add(entry)
            self._cursor = Cursor(self._window, self._window.progress.revision)

    def _follow(self, cursor: Cursor) -> bool:
        try:
            while events := cursor.next_batch():
                for event in events:
                    if event.old is not None:
                        self._remove(event.old)
                    if not event.deleted:
                        self._add(event.new)
        except Expired:
            return False
        return True

    def _add(self, entry: Entry) -> None:
        for term in self._terms(entry):
            self._by_term.setdefault(term, {})[entry.key] = entry

    def _remove(self, entry: Entry) -> None:
        for term in self._terms(entry):
            under = self._by_term.get(term)
            if under is not None:
                under.pop(entry.key, None)
                if not under:
                    del self._by_term[term]
