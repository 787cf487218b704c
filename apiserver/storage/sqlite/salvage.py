"""Find the intact rows of a damaged SQLite store and build a new store from them.

The files are read as a copy: SQLite writes to what it opens, and a damaged file is evidence. Rows are read one by one,
by revision, so that an unreadable page costs only its own rows. The newest intact row of each key is kept, without its
history. A key whose newest row is damaged returns to an older state; the findings report it.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from apiserver.storage.log import queries, schema
from apiserver.storage.log.rows import record_of, row_of
from apiserver.storage.log.types import DamagedRow, Durability, Record, UnusableDatabase
from apiserver.storage.sqlite.commit_marker import CommitMarker
from apiserver.storage.sqlite.opening import DATABASE, connect, identity_of
from apiserver.storage.sqlite.writer import INSERT_AUTHOR, INSERT_SIGNED

__all__ = ["Findings", "inspect", "rebuild"]

_ROW = f"SELECT {queries.COLUMNS} FROM log WHERE revision = ?"  # noqa: S608
#: The first schema has no checksums.
_FIRST_ROW = _ROW.replace(", checksum", "")
_FIRST = schema.CHAIN[0]
_REVISIONS = "SELECT revision FROM log"
_SUFFIXES = ("", "-wal", "-shm")


@dataclass(slots=True)
class Findings:
    """The contents of a store and its problems."""

    #: The newest whole row of each key, deletions included.
    newest: dict[str, Record] = field(default_factory=dict)
    #: Time and author of rows by revision, and the texts of authors; empty for older releases.
    signatures: dict[int, tuple[int | None, int | None]] = field(default_factory=dict)
    authors: list[tuple[int, str]] = field(default_factory=list)
    meta: list[tuple[str, bytes]] = field(default_factory=list)
    #: The database's revision, and the newest acknowledged one.
    revision: int = 0
    answered: int = 0
    #: One line per problem.
    problems: list[str] = field(default_factory=list)

    @property
    def live_rows(self) -> list[Record]:
        """The rows to keep, in revision order."""
        return sorted(record for record in self.newest.values() if not record.deleted)


def inspect(directory: Path) -> Findings:
    """Read everything readable. The caller holds the directory's lock.

    Raises:
        UnusableDatabase: Nothing is readable.
        OSError: The files cannot be copied.
    """
    if not (directory / DATABASE).exists():
        raise UnusableDatabase(f"{directory} contains no kubedra database ({DATABASE})")
    with tempfile.TemporaryDirectory(prefix=".check-", dir=directory) as place:
        for suffix in _SUFFIXES:
            if (directory / (DATABASE + suffix)).exists():
                shutil.copyfile(directory / (DATABASE + suffix), Path(place) / (DATABASE + suffix))
        with closing(sqlite3.connect(Path(place) / DATABASE, isolation_level=None)) as connection:
            return _inspect(connection, directory)


def _inspect(connection: sqlite3.Connection, directory: Path) -> Findings:
    found = Findings()
    try:
        version = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        identity = identity_of(connection)
    except sqlite3.Error as error:
        raise UnusableDatabase(f"{directory / DATABASE} cannot be read at all: {error}") from error
    if reason := schema.foreign_version(version and version[0], str(directory / DATABASE)):
        raise UnusableDatabase(reason)
    with closing(CommitMarker(directory, identity)) as mark:
        found.answered, _ = mark.read()
    _check_structure(connection, found)
    _check_counter(connection, found)
    _read_rows(connection, found, first=version == (_FIRST,))
    with suppress(sqlite3.Error):  # rows without authors are complete objects
        signed = connection.execute("SELECT revision, written, author FROM log")
        found.signatures = {revision: (written, author) for revision, written, author in signed}
        found.authors = [(int(key), str(text)) for key, text in connection.execute("SELECT id, text FROM author")]
    try:
        found.meta = [(str(name), bytes(value)) for name, value in connection.execute("SELECT name, value FROM meta")]
    except sqlite3.Error as error:
        found.problems.append(
            f"keys of the store: unreadable ({error}); tokens of service accounts must be issued again"
        )
    if found.answered > found.revision:
        found.problems.append(
            f"revisions {found.revision + 1} to {found.answered}: acknowledged, but not in the database"
            " (its write-ahead log is damaged or gone)"
        )
    return found


def _check_structure(connection: sqlite3.Connection, found: Findings) -> None:
    try:
        lines = [str(line) for (line,) in connection.execute("PRAGMA integrity_check(20)")]
    except sqlite3.Error as error:
        lines = [str(error)]
    found.problems += [f"file: {' '.join(line.split())}" for line in lines if line != "ok"]


def _check_counter(connection: sqlite3.Connection, found: Findings) -> None:
    try:
        found.revision, _, _ = connection.execute(queries.COUNTER).fetchone()
    except (sqlite3.Error, TypeError):
        found.problems.append("counter: unreadable; the revision is taken from the rows")


def _read_rows(connection: sqlite3.Connection, found: Findings, *, first: bool) -> None:
    """Read the newest whole rows, of the `first` schema without a check of their contents."""
    damaged: list[tuple[int, str]] = []
    for revision in _list_revisions(connection, max(found.revision, found.answered)):
        try:
            columns = connection.execute(_FIRST_ROW if first else _ROW, (revision,)).fetchone()
            if columns is None:
                continue
            record = _unchecked_record_of(columns) if first else record_of(columns)
        except DamagedRow as error:
            damaged.append((revision, error.key if isinstance(error.key, str) else ""))
        except sqlite3.Error:
            damaged.append((revision, ""))
        else:
            found.revision = max(found.revision, revision)
            older = found.newest.get(record.key)
            if older is None or older.revision < revision:
                found.newest[record.key] = record
    found.problems += [_report(found, revision, key) for revision, key in damaged]


def _unchecked_record_of(columns: tuple[Any, ...]) -> Record:
    """Convert a row without a checksum to a record. Raise DamagedRow for columns of other types."""
    try:
        return record_of(row_of(Record(*columns)))
    except (TypeError, AttributeError):
        raise DamagedRow(columns[0], columns[1]) from None


def _list_revisions(connection: sqlite3.Connection, newest: int) -> Iterator[int]:
    """Yield the revisions that rows may have: those in the index and all up to the newest known one."""
    try:
        listed = [int(revision) for (revision,) in connection.execute(f"{_REVISIONS} ORDER BY revision")]
    except (sqlite3.Error, TypeError, ValueError):
        listed = []
    yield from sorted({*listed, *range(1, newest + 1)}) if newest else listed


def _report(found: Findings, revision: int, key: str) -> str:
    """Describe a damaged row in one line: its key, and which of the key's states is left."""
    if not key:
        return f"revision {revision}: unreadable, key unknown"
    kept = found.newest.get(key)
    if kept is None:
        return f"{key}: the row at revision {revision} is damaged; no other row is left"
    if kept.revision > revision:
        return f"{key}: an older row (revision {revision}) is damaged"
    return f"{key}: the row at revision {revision} is damaged; the newest intact row is revision {kept.revision}"


def rebuild(directory: Path, found: Findings) -> Path:
    """Build a new store from the intact rows and keep the old files beside it. Return their new name.

    The caller holds the directory's lock. No revision is used twice: the new store continues after the newest known
    one, and clients must list again.

    Raises:
        OSError, sqlite3.Error: The old files are unchanged.
    """
    draft = directory / f"{DATABASE}.repaired"
    draft.unlink(missing_ok=True)
    newest = max(found.revision, found.answered)
    with closing(connect(draft, Durability.FULL)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        signed = ((*row_of(row), *found.signatures.get(row.revision, (None, None))) for row in found.live_rows)
        connection.executemany(INSERT_SIGNED, signed)
        connection.executemany(INSERT_AUTHOR, found.authors)
        connection.executemany("INSERT INTO meta (name, value) VALUES (?, ?)", found.meta)
        connection.execute("UPDATE counter SET revision = ?, compacted = ?, swept = ?", (newest, newest, newest))
        connection.execute("COMMIT")
    kept = _unused_path(directory)
    for suffix in _SUFFIXES:
        if (directory / (DATABASE + suffix)).exists():
            (directory / (DATABASE + suffix)).rename(kept.with_name(kept.name + suffix))
    draft.rename(directory / DATABASE)
    return kept


def _unused_path(directory: Path) -> Path:
    number = 1
    while (path := directory / f"{DATABASE}.damaged-{number}").exists():
        number += 1
    return path
