"""What the store answers: lists, writes, deletions, watch events. Objects in them are storage entries, encoded once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from apiserver.api.objects import Hub
from apiserver.registry.body.convert import encode_stored
from apiserver.storage.log.types import Record
from apiserver.storage.watchcache.cache import Entry

__all__ = ["DeleteResult", "EventType", "Listing", "Result", "Unsaved", "WatchEvent"]

EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]


class Unsaved(Entry):
    """A state that is answered but not stored: of a dry run, or of an object at its end. Revision 0 shows no
    resourceVersion.
    """

    __slots__ = ()

    def __init__(self, key: str, obj: Hub, revision: int, version: str = "") -> None:
        """`version` is the resourceVersion that an object of a dry run was sent with, and keeps."""
        value = encode_stored(obj)
        super().__init__(Record(revision, key, revision, 0, False, value), orjson.loads)
        if not revision:
            shown = b'"resourceVersion":%b,' % orjson.dumps(version) if version else b""
            self.tail = shown + value[len(b'{"metadata":{') :]


@dataclass(frozen=True, slots=True)
class Listing:
    """Objects in key order at one revision. `revision` goes into metadata.resourceVersion, 0 where objects are not
    stored; `remaining` None: not shown; `shards` is the shard selector that chose them, "" where there was none.
    """

    entries: Sequence[Entry]
    revision: int
    continue_token: str = ""
    remaining: int | None = None
    shards: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """A write's outcome; `created` makes the answer 201. `body`, when set, is the whole answer (a Status, a
    TokenRequest: with kind and apiVersion) instead of an entry."""

    entry: Entry | None
    created: bool = False
    body: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class DeleteResult:
    """`status`, when set, is the body (a Status object); else `entry` is. `code` is 200 or 202."""

    entry: Entry
    gone: bool
    status: dict[str, Any] | None = None
    code: int = 200


class WatchEvent:
    """One event. A BOOKMARK has no entry but a revision, and `initial_end` on the one that closes the initial events;
    an ERROR has `status`, and is the stream's last.

    Watchers share events: of one change, all watchers that see the same event type get the same WatchEvent. `encodings`
    is for its lines, encoded once by whatever key their maker chooses (version, form), shared by all.
    """

    __slots__ = ("encodings", "entry", "initial_end", "revision", "status", "type")

    def __init__(
        self,
        type: EventType,
        entry: Entry | None = None,
        revision: int = 0,
        initial_end: bool = False,
        status: dict[str, Any] | None = None,
    ) -> None:
        self.type, self.entry, self.revision, self.initial_end, self.status = type, entry, revision, initial_end, status
        self.encodings: dict[Any, bytes] = {}

    def __repr__(self) -> str:
        return f"WatchEvent({self.type}, {self.entry!r})"
