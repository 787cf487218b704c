"""The changes of objects: each row of the log with its time, its author and the fields that it changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import orjson

from apiserver.api.helpers.field_changes import FieldChange, compare_objects
from apiserver.api.objects import Json
from apiserver.api.values.times import parse_time
from apiserver.registry.definition.authors import Author, parse_author
from apiserver.registry.store.conversion import remove_mark
from apiserver.storage.watchcache.keys import end_of

if TYPE_CHECKING:
    from apiserver.registry.store.store import Registry, Store
    from apiserver.storage.log.types import SignedRow

__all__ = ["Change", "History"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
#: Maximum number of rows of the events about one object.
_EVENT_ROWS: Final = 1000


@dataclass(frozen=True, slots=True)
class Change:
    """One change of an object.

    `time` is None if the row was written by a release without times. `obj` is the state after the change, or the last
    state of a deleted object. `fields` are the changed fields; they are unknown (None) for a creation, a deletion, and
    the first known state of an object that was changed before the history begins.
    """

    revision: int
    time: datetime | None
    author: Author
    obj: Json
    deleted: bool
    created: bool
    fields: Sequence[FieldChange] | None

    @property
    def who(self) -> str:
        """The client as people call it: its field manager or the program of its user agent."""
        return self.author.manager or self.author.agent.partition("/")[0].partition(" ")[0] or "unknown"


class History:
    """Reads the changes of the objects of a registry. `last_reset` returns the revision of the last reset, or 0."""

    def __init__(self, registry: Registry, last_reset: Callable[[], int]) -> None:
        self._registry, self._last_reset = registry, last_reset

    async def changes(self, group: str, plural: str, namespace: str, name: str, limit: int) -> list[Change]:
        """Return the latest changes of an object, oldest first, as far as the log and the last reset reach.

        Raises:
            LookupError: The resource is not served, or the history has no such object.
        """
        store = self._find_store(group, plural)
        key = store.key(namespace, name)
        rows = await self._registry.log.signed_rows(key, f"{key}\1", limit + 1)
        changes = [*_changes(_since_reset(rows, self._last_reset()))]
        if not changes:
            raise LookupError(f"the history has no {store.resource.qualified} {_place(namespace, name)}")
        return changes[-limit:]

    async def events(self, namespace: str, name: str, uids: Iterable[str]) -> list[Change]:
        """Return the changes of the Events about objects of this name and these UIDs, in no order."""
        store = self._find_store("", "events")
        prefix = store.key(namespace or "default", f"{name}.")
        rows = await self._registry.log.signed_rows(prefix, end_of(prefix) or prefix, _EVENT_ROWS)
        wanted = {*uids}
        by_key: dict[str, list[SignedRow]] = {}
        for row in rows:
            by_key.setdefault(row.record.key, []).append(row)
        return [
            change
            for each in by_key.values()
            for change in _changes(_since_reset(each, self._last_reset()))
            if (change.obj.get("involvedObject") or {}).get("uid") in wanted
        ]

    def _find_store(self, group: str, plural: str) -> Store:
        store = self._registry.stores.get((group, plural))
        if store is None:
            raise LookupError(f'the server does not have a resource type "{".".join(filter(None, (plural, group)))}"')
        return store


def _place(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name


def _since_reset(rows: Sequence[SignedRow], last_reset: int) -> list[SignedRow]:
    """Return the rows of a key, newest first, that follow the last reset of the server, and the state that it kept.

    A restarted server finds an earlier reset by the deletions that it wrote.
    """
    found: list[SignedRow] = []
    for row in rows:
        if row.record.deleted and (row.record.revision <= last_reset or parse_author(row.author).verb == "reset"):
            break
        found.append(row)
        if row.record.revision <= last_reset:
            break
    return found


def _changes(rows: Sequence[SignedRow]) -> Iterable[Change]:
    """Convert the rows of one key, newest first, to changes, oldest first."""
    if not rows:
        return
    ordered = [(row, _decode(row)) for row in reversed(rows)]
    yield _change(*ordered[0], None, None)
    for (before, old), (row, obj) in pairwise(ordered):
        follows = row.record.prev_revision == before.record.revision
        yield _change(row, obj, before if follows else None, old)


def _change(row: SignedRow, obj: Json, before: SignedRow | None, old: Json | None) -> Change:
    record = row.record
    created = not record.deleted and record.create_revision == record.revision
    compared = before is not None and old is not None and not before.record.deleted and not record.deleted
    author = parse_author(row.author)
    if not author.verb:
        author = _guess_author(obj, deleted=record.deleted, created=created)
    return Change(
        revision=record.revision,
        time=_EPOCH + timedelta(microseconds=row.written) if row.written else None,
        author=author,
        obj=obj,
        deleted=record.deleted,
        created=created,
        fields=compare_objects(old, obj) if compared and old is not None else None,
    )


def _decode(row: SignedRow) -> Json:
    obj: Json = orjson.loads(remove_mark(row.record.value))
    obj["metadata"]["resourceVersion"] = str(row.record.revision)
    return obj


def _guess_author(obj: Json, *, deleted: bool, created: bool) -> Author:
    """Return the author of a row without one: the manager whose fields changed last."""
    if deleted:
        return Author("delete", "", "", "", "")
    entries: list[Any] = obj["metadata"].get("managedFields") or []
    last: Any = max(entries, key=lambda entry: entry.get("time") or "", default={})
    verb = "create" if created else "apply" if last.get("operation") == "Apply" else "update"
    return Author(verb, last.get("subresource", ""), "", "", last.get("manager", ""))


def time_of(change: Change) -> datetime:
    """Return the time of a change, for a row without one that of the newest manager or of the creation."""
    if change.time is not None:
        return change.time
    metadata = change.obj["metadata"]
    times = [metadata.get("creationTimestamp"), *(entry.get("time") for entry in metadata.get("managedFields") or ())]
    return max((parse_time(text) for text in times if text), default=_EPOCH)
