"""Free space in a database: on the disk, or in the pages of rows that are gone."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from apiserver.storage.log.types import Compacted, Expired, FutureRevision, RevisionUnavailable
from apiserver.storage.sqlite.disk_reserve import FreeSpace, find_free_space

pytestmark = pytest.mark.integration


class NoDisk:
    """A reserve that cannot be allocated."""

    def allocate(self) -> bool:
        return False


class Disk(NoDisk):
    def allocate(self) -> bool:
        return True


def test_room_inside_is_what_the_pages_of_deleted_rows_hold(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "db")
    try:
        connection.execute("CREATE TABLE t (v BLOB)")
        connection.executemany("INSERT INTO t VALUES (?)", [(b"x" * 4000,)] * 20)
        connection.commit()
        connection.execute("DELETE FROM t")
        connection.commit()
        free = connection.execute("PRAGMA freelist_count").fetchone()[0]
        size = connection.execute("PRAGMA page_size").fetchone()[0]
        assert free
        assert find_free_space(connection, NoDisk(), free * size) is FreeSpace.DATABASE  # type: ignore[arg-type]
        assert find_free_space(connection, NoDisk(), free * size + 1) is FreeSpace.NONE  # type: ignore[arg-type]
        assert find_free_space(connection, Disk(), free * size + 1) is FreeSpace.DISK  # type: ignore[arg-type]
        assert find_free_space(connection, None, free * size + 1) is FreeSpace.DISK
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (Expired(5, 7), "revision 5 is too old (the oldest is 7)"),
        (Compacted(5, 7), "revision 5 is compacted (up to 7)"),
        (FutureRevision(9, 7), "revision 9 is in the future (now 7)"),
    ],
)
def test_a_revision_that_cannot_be_had_is_named_with_the_nearest_that_can(
    error: RevisionUnavailable, text: str
) -> None:
    assert str(error) == text
