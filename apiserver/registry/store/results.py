"""The store's results: lists, writes, deletions, watch events. Their objects are storage entries, encoded once."""

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
    """An unsaved state: the result of a dry run, or the last state of an object.

    Revision 0 leaves out the resourceVersion.
    """

    __slots__ = ()

    def __init__(self, key: str, obj: Hub, revision: int, version: str = "") -> None:
        """Build the state. `version` is the request's resourceVersion, which the object of a dry run keeps."""
        value = encode_stored(obj)
        super().__init__(Record(revision, key, revision, 0, False, value), orjson.loads)
        if not revision:
            shown = b'"resourceVersion":%b,' % orjson.dumps(version) if version else b""
            self.tail = shown + value[len(b'{"metadata":{') :]


@dataclass(frozen=True, slots=True)
class Listing:
    """Objects in key order at one revision.

    `revision` becomes metadata.resourceVersion, 0 if objects are not stored. `remaining` is None if it is left out.
    `shards` is the shard selector, or "".
    """

    entries: Sequence[Entry]
    revision: int
    continue_token: str = ""
    remaining: int | None = None
    shards: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a write; `created` makes the status 201.

    `body`, if set, replaces the entry as the whole answer (a Status, a TokenRequest: with kind and apiVersion).
    """

    entry: Entry | None
    created: bool = False
    body: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class DeleteResult:
    """The result of a deletion.

    `status`, if set, is the body (a Status object), else `entry`. `code` is 200 or 202.
    """

    entry: Entry
    gone: bool
    status: dict[str, Any] | None = None
    code: int = 200


class WatchEvent:
    """One watch event.

    A BOOKMARK has a revision and no entry; `initial_end` marks the end of the initial events. An ERROR has `status` and
    is the last event.
    All watchers that see a change as the same event type share one WatchEvent. `encodings` caches its lines by a key of
    the encoder's choice (version, form).
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
