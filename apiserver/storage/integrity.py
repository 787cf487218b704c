"""Whether a row that is read back is the row that was written: every row carries a checksum of itself.

The checksum is the CRC-32 of key and value plus the row's numbers, so that a database can number rows and still store
it (`log_append`), and a flipped bit anywhere in a row shows. It finds damage; it is no protection against forgery.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from zlib import crc32

from apiserver.storage.types import DamagedRow, Record

__all__ = ["content_checksum", "record_of", "row_of"]


def content_checksum(key: str, value: bytes) -> int:
    """The part of a checksum that does not depend on how the row is numbered."""
    return crc32(value, crc32(key.encode("utf-8", "surrogateescape")))


def row_of(record: Record) -> tuple[Any, ...]:
    """A record as the columns `queries.COLUMNS`."""
    revision, key, create_revision, prev_revision, deleted, value = record
    gone = int(deleted)  # SQLite takes a number as it is, and asks around who might adapt a bool
    checksum = content_checksum(key, value) + revision + create_revision + prev_revision + gone
    return (revision, key, create_revision, prev_revision, gone, value, checksum)


def record_of(columns: Sequence[Any]) -> Record:
    """A row as a database returns it; SQLite has no booleans. Raises DamagedRow where it is not what was written."""
    revision, key, create_revision, prev_revision, deleted, value, stored = columns
    try:
        record = Record(revision, key, create_revision, prev_revision, bool(deleted), value)
        if row_of(record)[-1] == stored:
            return record
    except (TypeError, AttributeError):
        pass  # damage may change a column's type, too
    raise DamagedRow(revision, key)
