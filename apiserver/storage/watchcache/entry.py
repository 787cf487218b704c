"""States and events shared by all readers: encoded once, decoded at most once.

A stored value is the JSON of an object that begins with its metadata and omits its revision:
`{"metadata":{"name":"a",...},"spec":...}`. An entry inserts the revision once and keeps what follows the opening, its
*tail*. A reader builds an object by prepending an opening, and a list by joining tails:

    b'{"kind":"Pod","apiVersion":"v1","metadata":{' + entry.escaped_tail
    b'{"metadata":{' + b',{"metadata":{'.join(entry.escaped_tail for entry in entries)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from apiserver.api.values.go_json import escape_html
from apiserver.storage.log.types import Record

Decode = Callable[[bytes], Any]

T = TypeVar("T")

OPENING = b'{"metadata":{'
_SKIP = len(OPENING)


class Entry:
    """One state of one key. All readers share it and must not change `obj`.

    Not a dataclass: each write makes one, and a frozen dataclass takes five times as long to make.
    """

    __slots__ = ("_decode", "_encodings", "_escaped", "_obj", "create_revision", "key", "primed", "revision", "tail")

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
        self._escaped: bytes | None = None
        self._decode = decode
        self._obj: Any = None
        #: The object from its writer, equal to the decoded bytes; None if there is none.
        self.primed: Any = None
        self._encodings: dict[Any, Any] | None = None

    @property
    def escaped_tail(self) -> bytes:
        """The tail as responses contain it: with the escapes of Go's encoder."""
        escaped = self._escaped
        if escaped is None:
            escaped = self._escaped = escape_html(self.tail)
        return escaped

    @property
    def value(self) -> bytes:
        """The stored bytes, without the revision."""
        rest = self.tail[len(b'"resourceVersion":""') + len(str(self.revision)) :]
        return OPENING + (rest[1:] if rest.startswith(b",") else rest)

    @property
    def obj(self) -> Any:
        """The decoded object, including metadata.resourceVersion."""
        if self._obj is None:
            self._obj = self._decode(OPENING + self.tail)
        return self._obj

    def prime(self, obj: Any) -> None:
        """Set the object if its writer has it decoded; it must equal the result of decoding."""
        if self._obj is None:
            self._obj = self.primed = obj

    @property
    def encodings(self) -> dict[Any, Any]:
        """Encodings of this state by a key of the encoder's choice; made once, shared by all readers."""
        if self._encodings is None:
            self._encodings = {}
        return self._encodings

    def drop_derived(self) -> None:
        """Drop all derived forms."""
        self._obj = self._encodings = self.primed = None

    def with_revision(self, revision: int) -> Entry:
        """Return the same state at another revision."""
        return Entry(Record(revision, self.key, self.create_revision, 0, False, self.value), self._decode)

    def __repr__(self) -> str:
        return f"Entry({self.key}@{self.revision})"


class Event:
    """One row as a change. `old` is the state before (None: the key was not alive), `new` the written state.

    For a deletion `new` is the last state at the deletion's revision.
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
        """The old state at this event's revision, for a watcher whose selector no longer matches the object."""
        if self._departed is None:
            if self.old is None:
                raise ValueError(f"{self.key} was not alive before revision {self.revision}")
            self._departed = self.old.with_revision(self.revision)
        return self._departed

    @property
    def encodings(self) -> dict[Any, Any]:
        """Encodings of the event by a key of the encoder's choice; made once, shared by all watchers."""
        if self._encodings is None:
            self._encodings = {}
        return self._encodings

    def drop_derived(self) -> None:
        """Drop all derived forms, except those of a current `new`: readers of the current state use it."""
        self._encodings = self._departed = None
        if self.old is not None:
            self.old.drop_derived()
        if self.deleted:
            self.new.drop_derived()

    def __repr__(self) -> str:
        return f"Event({'-' if self.deleted else '+'}{self.key}@{self.revision})"


class FleetingEvent(Event):
    """An event of an object that is rarely read later: its derived forms are dropped as well."""

    __slots__ = ()

    def drop_derived(self) -> None:
        super().drop_derived()
        self.new.drop_derived()


class Batch(list[T], Generic[T]):
    """Successive events that several readers share as one list. Readers must not change it.

    `forms` contains encodings of the whole batch by a key of the encoder's choice; made once, shared by all.
    """

    __slots__ = ("forms",)

    def __init__(self, events: Iterable[T] = ()) -> None:
        super().__init__(events)
        self.forms: dict[Any, Any] = {}
