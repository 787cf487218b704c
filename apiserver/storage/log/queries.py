"""SQL shared by both databases, with named parameters in sqlite3's syntax.

A row's successor is the row of the same key whose prev_revision is the row's revision. One probe of the unique index
therefore finds whether a row is the state at a revision, however long the history of its key is.
"""

from __future__ import annotations

import re

COLUMNS = "revision, key, create_revision, prev_revision, deleted, value, checksum"

_ALIVE = """
FROM log l WHERE key >= :low AND key < :high AND revision <= :at AND NOT deleted AND NOT EXISTS (
    SELECT 1 FROM log n WHERE n.key = l.key AND n.prev_revision = l.revision AND n.revision <= :at)"""

COUNTER = "SELECT revision, compacted, swept FROM counter WHERE id = 1"
GET = f"SELECT {COLUMNS} FROM log WHERE key = :key AND revision <= :at ORDER BY prev_revision DESC LIMIT 1"  # noqa: S608
STATE = f"SELECT {COLUMNS} {_ALIVE} ORDER BY key LIMIT :limit"
STATE_COUNT = f"SELECT count(*) {_ALIVE}"
AFTER = f"SELECT {COLUMNS} FROM log WHERE revision > :after ORDER BY revision LIMIT :limit"  # noqa: S608
HISTORY = """
SELECT n.revision, n.key, n.create_revision, n.prev_revision, n.deleted, n.value, n.checksum,
       o.revision AS old_revision, o.key AS old_key, o.create_revision AS old_create_revision,
       o.prev_revision AS old_prev_revision, o.deleted AS old_deleted, o.value AS old_value, o.checksum AS old_checksum
FROM log n LEFT JOIN log o ON o.revision = n.prev_revision AND NOT o.deleted
WHERE n.revision > :after AND n.revision <= :through AND n.key >= :low AND n.key < :high
ORDER BY n.revision LIMIT :limit"""

# The author and the time of rows. The index of keys finds the rows; a look-up of an author costs one probe.
SIGNED = f"""
SELECT {COLUMNS}, l.written, a.text FROM log l LEFT JOIN author a ON a.id = l.author
WHERE key >= :low AND key < :high AND revision <= :at ORDER BY key DESC, prev_revision DESC LIMIT :limit"""  # noqa: S608
# Times are searched from the newest row back, because a clock may be set back and virtual time begins again.
AT_TIME = """
SELECT revision FROM log WHERE revision > :low AND revision <= :high AND written <= :written
ORDER BY revision DESC LIMIT 1"""
TIME_OF = "SELECT written FROM log WHERE revision >= :revision AND revision <= :at ORDER BY revision LIMIT 1"

COUNT_AUTHORS = "SELECT count(*) FROM author"
DELETE_UNUSED_AUTHORS = "DELETE FROM author WHERE id NOT IN (SELECT author FROM log WHERE author IS NOT NULL)"

# Compaction first records its promise, then sweeps. The rows to delete are found through the rows that replaced them,
# so the cost of a sweep depends on the writes since the last one, not on the size of the store.
PROMISE = "UPDATE counter SET compacted = :revision WHERE id = 1 AND compacted < :revision"
SWEEP_REPLACED = """
DELETE FROM log WHERE revision IN (
    SELECT prev_revision FROM log WHERE revision > :low AND revision <= :high AND prev_revision > 0)"""
SWEEP_DELETIONS = "DELETE FROM log WHERE revision > :low AND revision <= :high AND deleted"
SWEPT = "UPDATE counter SET swept = :high WHERE id = 1 AND swept < :high"

NO_LIMIT = 1 << 31
NO_END = "\U0010ffff"


def postgres(text: str) -> str:
    """Convert named parameters to psycopg's syntax."""
    return re.sub(r":(\w+)", r"%(\1)s", text)


HEADS = """
SELECT key, revision, CASE WHEN deleted THEN 0 ELSE create_revision END
FROM log l WHERE NOT EXISTS (SELECT 1 FROM log n WHERE n.key = l.key AND n.prev_revision = l.revision)"""
