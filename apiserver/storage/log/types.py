"""Types and errors of the revision log.

A log is a sequence of rows. A row is the state of one key at one revision. Revisions are dense (1, 2, 3, ...) and in
commit order: a revision is both a version of the whole store and a position in its history. Values are opaque bytes.

    StorageError                the root; never raised itself
    |-- WriteRefused            the write's expectation does not hold; nothing was written
    |   |-- KeyExists           expected 0, but the key is alive
    |   |-- KeyMissing          expected a revision, but the key is not alive
    |   `-- RevisionConflict    the key is alive at another revision
    |-- RevisionUnavailable     the requested past or future revision is not available
    |   |-- Expired             the window of recent events has passed it (a watch or list at it: 410)
    |   |   `-- Compacted       so has the log: the history is gone
    |   `-- FutureRevision      the store has not reached the revision
    |-- StorageUnavailable      the database did not answer; the fate of a write is unknown; a retry may help
    |   |-- StorageFull         no space for the write, which did not happen; an immediate retry does not help
    |   `-- DamagedRow          a row that is read back is not what was written; a retry does not help
    `-- UnusableDatabase        the file or database cannot be served; the message has one line (start-up only)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple, Protocol


class Write(NamedTuple):
    """One compare-and-append. `expected` is the revision at which the key must be alive; 0 if it must not be alive.

    A deletion carries the last state's bytes as its value, which may differ from the stored bytes. `frees` marks a step
    of a deletion: it is written even when the disk is full. `author` names the writer in a form of the caller; the
    log keeps each text once.
    """

    key: str
    value: bytes
    expected: int
    deleted: bool = False
    frees: bool = False
    author: str = ""


class Record(NamedTuple):
    """One row of the log. `prev_revision` is the previous row of the same key (a deletion counts), or 0."""

    revision: int
    key: str
    create_revision: int
    prev_revision: int
    deleted: bool
    value: bytes


class SignedRow(NamedTuple):
    """A row with its time in microseconds since 1970 and its author; 0 and "" if they are not known."""

    record: Record
    written: int
    author: str


class HistoryEvent(NamedTuple):
    """A row and the state it replaced. `old` is None if the key was not alive before."""

    record: Record
    old: Record | None


class Snapshot(NamedTuple):
    """Rows alive at one revision, in key order. `remaining` counts the rows beyond the limit."""

    revision: int
    records: list[Record]
    remaining: int = 0


class Restore(NamedTuple):
    """A restore: the wanted rows by key.

    `own` says that the revisions are those of this log, so that equal revisions mean equal objects. `recreated` returns
    whether a changed object is deleted and created again instead of updated. `author` is that of the new rows.
    """

    wanted: Mapping[str, Record]
    own: bool
    recreated: Callable[[str], bool]
    author: str = ""


class Restored(NamedTuple):
    """The new rows of a restore, and the live rows after it by key."""

    rows: list[Record]
    state: dict[str, Record]

    def snapshot(self) -> Snapshot:
        """Return the state in key order."""
        return Snapshot(self.rows[-1].revision, [self.state[key] for key in sorted(self.state)])


class Durability(StrEnum):
    """What an acknowledged write survives: FULL a power cut, NORMAL and OFF a crash of the server.

    After a power cut NORMAL has lost at most the last few writes. OFF may leave an unusable file.
    """

    FULL = "full"
    NORMAL = "normal"
    OFF = "off"


class StorageError(Exception):
    """Root of the storage errors."""


class WriteRefused(StorageError):
    """A write whose expectation does not hold. `revision` is the key's current revision; 0 if it is not alive."""

    def __init__(self, key: str, expected: int, revision: int) -> None:
        super().__init__(key, expected, revision)
        self.key = key
        self.expected = expected
        self.revision = revision

    def __str__(self) -> str:
        return f"{self.key}: expected revision {self.expected}, found {self.revision}"


class KeyExists(WriteRefused):
    """The key must not exist, but it does."""


class KeyMissing(WriteRefused):
    """The key must exist, but it does not."""


class RevisionConflict(WriteRefused):
    """The key is alive at another revision than expected."""


class RevisionUnavailable(StorageError):
    """The requested `revision` is not available; `bound` is the nearest available one."""

    def __init__(self, revision: int, bound: int) -> None:
        super().__init__(revision, bound)
        self.revision = revision
        self.bound = bound


class Expired(RevisionUnavailable):
    """The events after `revision` are no longer available."""

    def __str__(self) -> str:
        return f"revision {self.revision} is too old (the oldest is {self.bound})"


class Compacted(Expired):
    """The history after `revision` is no longer complete. `bound` is the compacted revision."""

    def __str__(self) -> str:
        return f"revision {self.revision} is compacted (up to {self.bound})"


class FutureRevision(RevisionUnavailable):
    """`revision` is above the current one, `bound`."""

    def __str__(self) -> str:
        return f"revision {self.revision} is in the future (now {self.bound})"


class StorageUnavailable(StorageError):
    """The database did not answer. The write may or may not have been committed."""


class StorageFull(StorageUnavailable):
    """There is no space for a write. The write did not happen."""


class DamagedRow(StorageUnavailable):
    """A row differs from what was written. `revision` and `key` are read from the row and may be damaged as well."""

    def __init__(self, revision: Any, key: Any) -> None:
        super().__init__(revision, key)
        self.revision = revision
        self.key = key

    def __str__(self) -> str:
        return f"the database is damaged: the row of {self.key!r} at revision {self.revision!r} has a wrong checksum"


class UnusableDatabase(StorageError):
    """The database cannot be served: locked by another server, written by a newer release, or not a database."""


Feed = Callable[[Sequence[Record]], None]
Lost = Callable[[Snapshot], None]


class RevisionLog(Protocol):
    """The store. All methods are called on the event loop that opened it.

    Ordering: a write's position in the queue is set when `append` is called, not when it is awaited. Rows reach every
    subscriber in revision order, each exactly once, before the awaitables of their writes resolve. On a database shared
    by several servers the rows of the others come through the same feed.
    """

    @property
    def revision(self) -> int:
        """The revision that this server's feed has reached. Subscribers have received all rows up to it."""
        ...

    @property
    def compacted(self) -> int:
        """The revision after which the history is complete."""
        ...

    def append(self, write: Write) -> Awaitable[Record]:
        """Commit one write together with all others that are queued. Raise WriteRefused or StorageUnavailable."""
        ...

    async def get(self, key: str, at: int | None = None) -> Record | None:
        """Return a key's live row now or at a revision, read from the database."""
        ...

    async def state(
        self, prefix: str = "", at: int | None = None, *, start: str = "", limit: int | None = None
    ) -> Snapshot:
        """Return the rows under a prefix alive at a revision (None: the current one), in key order from `start`."""
        ...

    async def after(self, revision: int, limit: int) -> list[Record]:
        """Return the rows that follow a revision, oldest first. Raise Compacted or FutureRevision."""
        ...

    async def history(self, prefix: str, after: int, through: int, limit: int) -> list[HistoryEvent]:
        """Return rows under a prefix with after < revision <= through, oldest first, with the states replaced."""
        ...

    async def signed_rows(self, low: str, high: str, limit: int) -> list[SignedRow]:
        """Return the newest rows of the keys from `low` to before `high`, newest first per key, as far as kept."""
        ...

    async def revision_at(self, written: int) -> int:
        """Return the newest revision written at or before a time (microseconds since 1970); 0 if none is known."""
        ...

    async def time_of(self, revision: int) -> int:
        """Return the time of the first kept row at or after a revision, in microseconds since 1970; 0 if unknown."""
        ...

    @property
    def is_full(self) -> bool:
        """Whether the disk is full, so that only writes that free space are accepted."""
        ...

    def problem(self) -> str:
        """Return why writes fail, as far as known without a query; "" if they succeed."""
        ...

    async def current_revision(self) -> int:
        """Return the database's current revision, including rows of other servers. The feed reaches it soon after."""
        ...

    async def compact(self, revision: int) -> int:
        """Delete rows that no state at or after `revision` needs, in small steps. Return the number of rows deleted."""
        ...

    def reset(self, keep: Iterable[str] = (), author: str = "") -> Awaitable[int]:
        """Delete every live key except those of `keep`, in one commit. Return the number of deleted keys.

        Revisions continue to grow, and the feed reports each deletion with the key's last state. Like `append`, its
        position in the queue is set when it is called.
        """
        ...

    def restore(self, wanted: Restore) -> Awaitable[Restored]:
        """Turn the live state into an earlier one, in one commit; see `log.restoring`.

        Many rows reach subscribers as a new state (`lost`) instead of rows. Like `append`, its position in the queue
        is set when it is called.
        """
        ...

    async def load(self, records: Sequence[Record], revision: int, meta: Mapping[str, bytes]) -> None:
        """Fill an empty log with a state, its revisions and its metadata, in one commit. The history begins there.

        Raises:
            StorageUnavailable: The log is not empty, or the database failed. Nothing was written.
        """
        ...

    async def get_or_set_meta(self, name: str, value: bytes) -> bytes:
        """Store metadata of the store under a name. The first value stays until it is deleted, and is returned."""
        ...

    async def delete_meta(self, name: str, value: bytes) -> None:
        """Delete the metadata under a name if it has this value."""
        ...

    async def get_meta(self, name: str) -> bytes | None:
        """Return the metadata stored under a name, or None."""
        ...

    def subscribe(self, feed: Feed, lost: Lost | None = None) -> Callable[[], None]:
        """Call `feed` on the loop with each run of committed rows. Return a function that unsubscribes.

        `lost` is called instead, with the whole state, if rows of other servers were compacted before this server could
        read them: it was disconnected from the database for longer than history is kept.
        """
        ...

    async def close(self) -> None:
        """Commit queued writes, then release the database. Later writes raise StorageUnavailable."""
        ...
