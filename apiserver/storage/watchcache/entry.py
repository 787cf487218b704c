"""States and events as readers share them: encoded once, decoded at most once.

A stored value is the JSON of an object that begins with its metadata and does not name its revision:
`{"metadata":{"name":"a",...},"spec":...}`. An entry splices the revision in once and keeps what follows the opening,
its *tail*; any reader makes an object by putting an opening before it, and a list by joining tails:

    b'{"kind":"Pod","apiVersion":"v1","metadata":{' + entry.tail
    b'{"metadata":{' + b',{"metadata":{'.join(entry.tail for entry in entries)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from apiserver.storage.log.types import Record

Decode = Callable[[bytes], Any]

T = TypeVar("T")

OPENING = b'{"metadata":{'
_SKIP = len(OPENING)


class Entry:
    """One state of one key. All readers share it: never change `obj`.

    Not a dataclass: one is made for each write, and a frozen one takes five times as long to make.
    """

    __slots__ = ("_decode", "_encodings", "_obj", "create_revision", "key", "primed", "revision", "tail")

    def __init__(self, record: Record, decode: Decode) -> None:
        self.key = record.key
        self.revision = record.revision
        self.create_revision = record.create_revision
        value = record.value
        if not value.startswith(OPENING):
            raise ValueError(f"{record.key}: a stored value begins with {OPENING.decode()}, unlike {value[:40]!r}")
        comma = b"" if value[_SKIP : _SKIP + 1] == b"}" else b","
        #: The value after its opening, with the revision as first member of the metadata.
        self.tail = b'"resourceVersion":"%d"%b' % (record.revision, comma) + value[_SKIP:]
        self._decode = decode
        self._obj: Any = None
        #: The object from its writer, which says all that the bytes say; None if there is none.
        self.primed: Any = None
        self._encodings: dict[Any, Any] | None = None

    @property
    def value(self) -> bytes:
        """The bytes as they are stored, without the revision."""
        rest = self.tail[len(b'"resourceVersion":""') + len(str(self.revision)) :]
        return OPENING + (rest[1:] if rest.startswith(b",") else rest)

    @property
    def obj(self) -> Any:
        """The decoded object, with metadata.resourceVersion in it."""
        if self._obj is None:
            self._obj = self._decode(OPENING + self.tail)
        return self._obj

    def prime(self, obj: Any) -> None:
        """Hands over the object, where the writer has it at hand already; it must be what `obj` would decode."""
        if self._obj is None:
            self._obj = self.primed = obj

    @property
    def encodings(self) -> dict[Any, Any]:
        """Further forms of this state, by whatever key their maker chooses; made once, shared by all."""
        if self._encodings is None:
            self._encodings = {}
        return self._encodings

    def forget(self) -> None:
        """Drops all that can be made again."""
        self._obj = self._encodings = self.primed = None

    def moved(self, revision: int) -> Entry:
        """The same state bearing another revision."""
        return Entry(Record(revision, self.key, self.create_revision, 0, False, self.value), self._decode)

    def __repr__(self) -> str:
        return f"Entry({self.key}@{self.revision})"


class Event:
    """One row as a change: `old` is the state before (None: the key was not alive), `new` the state written.

    For a deletion `new` is the last state bearing the deletion's revision.
    """

    __slots__ = ("_departed", "_encodings", "deleted", "new", "old")

    def __init__(self, old: Entry | None, new: Entry, deleted: bool) -> None:
        self.old = old
        self.new = new
        self.deleted = deleted
        self._departed: Entry | None = None
        self._encodings: dict[Any, Any] | None = None

    @property
    def key(self) -> str:
        return self.new.key

    @property
    def revision(self) -> int:
        return self.new.revision

    @property
    def departed(self) -> Entry:
        """The old state with this event's revision, for a watcher whose selection the object has left."""
        if self._departed is None:
            if self.old is None:
                raise ValueError(f"{self.key} was not alive before revision {self.revision}")
            self._departed = self.old.moved(self.revision)
        return self._departed

    @property
    def encodings(self) -> dict[Any, Any]:
        """Encoded forms of the event, by whatever key their maker chooses; made once, shared by all watchers."""
        if self._encodings is None:
            self._encodings = {}
        return self._encodings

    def forget(self) -> None:
        """Drops all that can be made again. A `new` that is current is left alone: readers of the present use it."""
        self._encodings = self._departed = None
        if self.old is not None:
            self.old.forget()
        if self.deleted:
            self.new.forget()

    def __repr__(self) -> str:
        return f"Event({'-' if self.deleted else '+'}{self.key}@{self.revision})"


class FleetingEvent(Event):
    """Of an object that is hardly read again once it is not new any more: nothing that can be made again is kept."""

    __slots__ = ()

    def forget(self) -> None:
        super().forget()
        self.new.forget()


class Batch(list[T], Generic[T]):
    """Successive events that several readers get as one and the same list. `forms`: what they made of all of it, by
    whatever key its maker chooses; made once, shared by all. Not to be changed."""

    __slots__ = ("forms",)

    def __init__(self, events: Iterable[T] = ()) -> None:
        super().__init__(events)
        self.forms: dict[Any, Any] = {}
