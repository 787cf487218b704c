"""Where every key is now, for a log that nobody else writes: the check of a write without asking the database.

A deleted key is remembered, with create revision 0, until compaction has removed its deletion: a key that comes back
must follow that row (UNIQUE(key, prev_revision)).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from apiserver.storage.types import KeyExists, KeyMissing, Record, RevisionConflict, Write, WriteRefused

Head = tuple[int, int]
_NEVER: Head = (0, 0)


class Heads:
    """The last row of each key as (revision, create revision); live keys and deletions that are not swept yet."""

    def __init__(self, rows: Iterable[tuple[str, int, int]] = ()) -> None:
        self._heads: dict[str, Head] = {key: (revision, created) for key, revision, created in rows}
        graves = sorted((revision, key) for key, (revision, created) in self._heads.items() if not created)
        self._graves: deque[tuple[int, str]] = deque(graves)

    def decide(self, write: Write, revision: int) -> Record | WriteRefused:
        """The row that a write makes as the given revision, or why it makes none."""
        key, value, expected, deleted, _ = write
        head, created = self._heads.get(key, _NEVER)
        if created:
            if expected != head or not expected:
                return refusal(write, head)
        elif expected or deleted:
            return refusal(write, 0)
        return Record(revision, key, created or revision, head, deleted, value)

    def take(self, record: Record) -> tuple[str, Head | None]:
        """Moves a key's head to a row; returns what `put_back` needs."""
        before = self._heads.get(record.key)
        self._heads[record.key] = (record.revision, 0 if record.deleted else record.create_revision)
        if record.deleted:
            self._graves.append((record.revision, record.key))
        return record.key, before

    def put_back(self, taken: list[tuple[str, Head | None]]) -> None:
        """Undoes takes whose commit failed."""
        for key, before in reversed(taken):
            if not self._heads[key][1]:
                self._graves.pop()
            if before is None:
                del self._heads[key]
            else:
                self._heads[key] = before

    def alive(self, keep: tuple[str, ...]) -> list[int]:
        """The revisions of live keys that start with none of the prefixes, in key order."""
        found = sorted((key, head) for key, (head, created) in self._heads.items() if created)
        return [head for key, head in found if not key.startswith(keep)]

    def bury(self, swept: int) -> None:
        """Forgets deletions that compaction has removed."""
        while self._graves and self._graves[0][0] <= swept:
            revision, key = self._graves.popleft()
            if self._heads.get(key) == (revision, 0):
                del self._heads[key]


def refusal(write: Write, found: int) -> WriteRefused:
    """Why a write is refused whose key is alive at `found`, or not alive (0)."""
    kind = KeyMissing if not found else RevisionConflict if write.expected or write.deleted else KeyExists
    return kind(write.key, write.expected, found)
