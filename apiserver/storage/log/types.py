"""The words of the revision log: what is written, what comes back, what can go wrong.

A log is a sequence of rows. A row states what one key became at one revision; revisions are dense (1, 2, 3, ...) and
in commit order, so a revision is both a version of the whole store and a place in its history. Values are opaque bytes.

    StorageError                the root; never raised itself
    |-- WriteRefused            the write's expectation does not hold; nothing was written
    |   |-- KeyExists           expected 0, but the key is alive
    |   |-- KeyMissing          expected a revision, but the key is not alive
    |   `-- RevisionConflict    the key is alive at another revision
    |-- RevisionUnavailable     the past or the future that was asked for cannot be had
    |   |-- Expired             the window of recent events has passed it (a watch or list at it: 410)
    |   |   `-- Compacted       so has the log: the history is gone
    |   `-- FutureRevision      the store has not come that far
    |-- StorageUnavailable      the database did not answer; the fate of a write is unknown; trying again may help
    |   |-- StorageFull         there is no room for the write, which did not happen; trying again soon does not help
    |   `-- DamagedRow          a row that is read back is not what was written; trying again does not help
    `-- UnusableDatabase        the file or database cannot be served; one line says why (start-up only)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from enum import StrEnum
from typing import Any, NamedTuple, Protocol


class Write(NamedTuple):
    """One compare-and-append. `expected` is the revision the key must be alive at; 0 means that it must not be alive.

    A deletion carries the last state's bytes as its value, which may differ from the bytes stored before. `frees`: the
    write is a step of a deletion, which goes on when the disk is full.
    """

    key: str
    value: bytes
    expected: int
    deleted: bool = False
    frees: bool = False


class Record(NamedTuple):
    """One row of the log. `prev_revision` is the row of the same key before this one (a deletion counts), or 0."""

    revision: int
    key: str
    create_revision: int
    prev_revision: int
    deleted: bool
    value: bytes


class HistoryEvent(NamedTuple):
    """A row with the state that it replaced: `old` is None when the key was not alive before."""

    record: Record
    old: Record | None


class Snapshot(NamedTuple):
    """Rows alive at one revision, in key order; `remaining` more follow that the limit cut off."""

    revision: int
    records: list[Record]
    remaining: int = 0


class Durability(StrEnum):
    """What an answered write survives: FULL a power cut, NORMAL and OFF a crash of the server.

    After a power cut NORMAL has lost the last moments at most; OFF may leave a file that cannot be used.
    """

    FULL = "full"
    NORMAL = "normal"
    OFF = "off"


class StorageError(Exception):
    """The root of the storage errors."""


class WriteRefused(StorageError):
    """`revision` is where the key is now; 0 if it is not alive."""

    def __init__(self, key: str, expected: int, revision: int) -> None:
        super().__init__(key, expected, revision)
        self.key = key
        self.expected = expected
        self.revision = revision

    def __str__(self) -> str:
        return f"{self.key}: expected revision {self.expected}, found {self.revision}"


class KeyExists(WriteRefused):
    """The key must not exist, but does."""


class KeyMissing(WriteRefused):
    """The key must exist, but does not."""


class RevisionConflict(WriteRefused):
    """The key is alive at another revision than expected."""


class RevisionUnavailable(StorageError):
    """`revision` was asked for; `bound` is the nearest that can be had."""

    def __init__(self, revision: int, bound: int) -> None:
        super().__init__(revision, bound)
        self.revision = revision
        self.bound = bound


class Expired(RevisionUnavailable):
    """The events after `revision` are not at hand any more."""

    def __str__(self) -> str:
        return f"revision {self.revision} is too old (the oldest is {self.bound})"


class Compacted(Expired):
    """The history after `revision` is not complete any more; `bound` is the compacted revision."""

    def __str__(self) -> str:
        return f"revision {self.revision} is compacted (up to {self.bound})"


class FutureRevision(RevisionUnavailable):
    """`revision` is above the current one, `bound`."""

    def __str__(self) -> str:
        return f"revision {self.revision} is in the future (now {self.bound})"


class StorageUnavailable(StorageError):
    """The database did not answer. A write that ends so may or may not have been committed."""


class StorageFull(StorageUnavailable):
    """There is no room for a write, which did not happen."""


class DamagedRow(StorageUnavailable):
    """A row is not what was written. `revision` and `key` are what it says of itself, which may be damaged as well."""

    def __init__(self, revision: Any, key: Any) -> None:
        super().__init__(revision, key)
        self.revision = revision
        self.key = key

    def __str__(self) -> str:
        return f"the database is damaged: the row of {self.key!r} at revision {self.revision!r} is not what was written"


class UnusableDatabase(StorageError):
    """The database cannot be served: locked by another server, written by a newer release, or not a database."""


Feed = Callable[[Sequence[Record]], None]
Lost = Callable[[Snapshot], None]


class RevisionLog(Protocol):
    """The store. All methods are called on the event loop that opened it.

    Ordering: `append` takes its place in the queue when it is called, not when it is awaited. Rows reach every
    subscriber in revision order, each exactly once, before the awaitables of the writes that made them resolve; on a
    database shared by several servers the rows of the others come through the same feed.
    """

    @property
    def revision(self) -> int:
        """The revision that the feed has reached here; subscribers have seen all rows up to it."""
        ...

    @property
    def compacted(self) -> int:
        """History after this revision is complete."""
        ...

    def append(self, write: Write) -> Awaitable[Record]:
        """Commits one write, together with all others that wait. Raises WriteRefused, StorageUnavailable."""
        ...

    async def get(self, key: str, at: int | None = None) -> Record | None:
        """The row that is alive now or at a revision, read from the database."""
        ...

    async def state(
        self, prefix: str = "", at: int | None = None, *, start: str = "", limit: int | None = None
    ) -> Snapshot:
        """Rows under a prefix alive at a revision (None: the current one), in key order, from key `start` on."""
        ...

    async def after(self, revision: int, limit: int) -> list[Record]:
        """The rows that follow a revision, oldest first. Raises Compacted, FutureRevision."""
        ...

    async def history(self, prefix: str, after: int, through: int, limit: int) -> list[HistoryEvent]:
        """Rows under a prefix with after < revision <= through, oldest first, each with the state it replaced."""
        ...

    @property
    def cramped(self) -> bool:
        """Whether only what frees room is written, because the disk is full."""
        ...

    def problem(self) -> str:
        """Why writes fail, as far as that is known without asking the database; "" where nothing is wrong."""
        ...

    async def current_revision(self) -> int:
        """The database's revision now, rows of other servers included; the feed reaches it soon after."""
        ...

    async def compact(self, revision: int) -> int:
        """Drops rows that no state at or after `revision` needs, in small steps; says how many went."""
        ...

    def reset(self, keep: Iterable[str] = ()) -> Awaitable[int]:
        """Deletes every live key that starts with none of the `keep` prefixes, in one commit; says how many.

        The revision goes on growing and the feed reports each deletion with the key's last state. Like `append` it
        takes its place in the queue when it is called.
        """
        ...

    async def remember(self, name: str, value: bytes) -> bytes:
        """Keeps something about the store itself under a name, for good. The first value stays; it is returned."""
        ...

    async def recall(self, name: str) -> bytes | None:
        """What is kept under a name; None for nothing."""
        ...

    def subscribe(self, feed: Feed, lost: Lost | None = None) -> Callable[[], None]:
        """Calls `feed` on the loop with each run of committed rows; the returned function ends it.

        `lost` is called instead, with the whole state, where rows of other servers were compacted before this server
        could read them: it was cut off from the database for longer than history is kept.
        """
        ...

    async def close(self) -> None:
        """Commits what waits, then lets go of the database. Later writes raise StorageUnavailable."""
        ...
