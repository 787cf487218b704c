"""SQL statements of the log on Postgres."""

from __future__ import annotations

from apiserver.storage.log import queries

APPEND = "SELECT * FROM log_append(%b::text[], %b::bytea[], %b::int8[], %b::bool[], %b::int8[], %b::int8[], %b::int8)"
INSERT_AUTHORS = "INSERT INTO author SELECT * FROM unnest(%b::int8[], %b::text[]) ON CONFLICT DO NOTHING"
LOCK_COUNTER = "SELECT revision FROM counter WHERE id = 1 FOR UPDATE"
RESET = f"""
INSERT INTO log ({queries.COLUMNS}, written, author)
SELECT d.revision, key, create_revision, replaced, true, value, checksum - prev_revision + d.revision + 1,
       %(written)s, %(author)s
FROM (
    SELECT %(base)s + row_number() OVER (ORDER BY key) AS revision, revision AS replaced,
           key, create_revision, prev_revision, value, checksum
    FROM log l
    WHERE NOT deleted AND NOT EXISTS (SELECT 1 FROM log n WHERE n.key = l.key AND n.prev_revision = l.revision)
    AND l.key <> ALL (%(keep)s::text[])
) d
RETURNING {queries.COLUMNS}"""  # noqa: S608
ADVANCE = "UPDATE counter SET revision = %(revision)s WHERE id = 1"
NOTIFY = "SELECT pg_notify('kubedra_log', %(revision)s::text)"
ROWS_AT = f"SELECT {queries.COLUMNS} FROM log WHERE revision = ANY (%(revisions)s::int8[])"  # noqa: S608
COPY = f"COPY log ({queries.COLUMNS}, written, author) FROM STDIN"
COPY_TYPES = ("int8", "text", "int8", "int8", "bool", "bytea", "int8", "int8", "int8")
BEGIN_AT = "UPDATE counter SET revision = %(revision)s, compacted = %(revision)s, swept = %(revision)s WHERE id = 1"
PUT_META = """
INSERT INTO meta (name, value) VALUES (%(name)s, %(value)s) ON CONFLICT (name) DO UPDATE SET value = excluded.value"""
# One statement, so one snapshot: the counter and the rows that belong to it.
PULL = f"""
SELECT c.revision, c.compacted, l.* FROM counter c LEFT JOIN LATERAL (
    SELECT {queries.COLUMNS} FROM log WHERE revision > %(after)s ORDER BY revision LIMIT %(limit)s) l ON true
WHERE c.id = 1 ORDER BY l.revision"""  # noqa: S608
# Statements shared with SQLite.
GET = queries.postgres(queries.GET)
STATE = queries.postgres(queries.STATE)
STATE_COUNT = queries.postgres(queries.STATE_COUNT)
AFTER = queries.postgres(queries.AFTER)
HISTORY = queries.postgres(queries.HISTORY)
SIGNED = queries.postgres(queries.SIGNED)
AT_TIME = queries.postgres(queries.AT_TIME)
TIME_OF = queries.postgres(queries.TIME_OF)
PROMISE = queries.postgres(queries.PROMISE)
SWEEP_REPLACED = queries.postgres(queries.SWEEP_REPLACED)
SWEEP_DELETIONS = queries.postgres(queries.SWEEP_DELETIONS)
SWEPT = queries.postgres(queries.SWEPT)
