"""Plan how a log goes back to an earlier state: the rows that turn the live state into the wanted one.

Revisions never go back, so restored objects get new rows. An object that is equal keeps its row. The rows of one
restore are one commit (docs/adr/0039-state-as-a-value.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from apiserver.storage.log.types import Record, Restore, Restored

__all__ = ["MOST_EVENTS", "Changed", "Plan", "build_rows", "plan"]

#: Restores with more rows replace the state of the caches, so that watchers list again, instead of sending events. A
#: watcher's window has 10 000 events.
MOST_EVENTS = 5000


class Changed(NamedTuple):
    """A live row that is not the wanted one; None: the key is not wanted."""

    key: str
    revision: int
    create_revision: int
    wanted: Record | None


class Plan(NamedTuple):
    """The differences: live rows whose values have to be read, and new keys with the revision of their last row."""

    changed: list[Changed]
    created: list[tuple[Record, int]]


def plan(heads: Iterable[tuple[str, tuple[int, int]]], restore: Restore) -> Plan:
    """Compare the last row of each key, (revision, create revision or 0 if deleted), with the wanted state."""
    changed, graves = list[Changed](), dict[str, int]()
    left = dict(restore.wanted)
    for key, (revision, created) in heads:
        if not created:
            graves[key] = revision
            continue
        record = left.pop(key, None)
        if record is None or not restore.own or record.revision != revision:
            changed.append(Changed(key, revision, created, record))
    return Plan(changed, [(record, graves.get(key, 0)) for key, record in left.items()])


def build_rows(found: Plan, values: Mapping[int, bytes], base: int, restore: Restore) -> Restored:
    """Return the rows that follow revision `base`: deletions first, then the rest in the order of their history.

    `values` are the values of the live rows by revision.
    """
    rows, state = list[Record](), dict(restore.wanted)
    written = [(record, last, 0) for record, last in found.created]
    for key, revision, created, wanted in sorted(found.changed, key=lambda each: each.key):
        value = values[revision]
        if wanted is not None and wanted.value == value:
            state[key] = Record(revision, key, created, 0, False, value)
            continue
        if wanted is None or restore.recreated(key):
            base += 1
            rows.append(Record(base, key, created, revision, True, value))
            revision, created = base, 0
        if wanted is not None:
            written.append((wanted, revision, created))
    for wanted, last, created in sorted(written, key=lambda each: (each[0].revision, each[0].key)):
        base += 1
        state[wanted.key] = row = Record(base, wanted.key, created or base, last, False, wanted.value)
        rows.append(row)
    return Restored(rows, state)
