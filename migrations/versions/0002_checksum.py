"""Every row carries a checksum of itself (apiserver.storage.log.rows)."""

from __future__ import annotations

from pathlib import Path
from runpy import run_path
from zlib import crc32

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_PAGE = 500
_READ = sa.text(
    "SELECT revision, key, create_revision, prev_revision, deleted, value FROM log"
    " WHERE revision > :after ORDER BY revision LIMIT :page"
)
_WRITE = sa.text("UPDATE log SET checksum = :sum WHERE revision = :revision")

LOG_APPEND = """\
CREATE FUNCTION log_append(keys text[], new_values bytea[], expectations bigint[], deletions boolean[], sums bigint[])
RETURNS TABLE (revision bigint, create_revision bigint, prev_revision bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    reached bigint;
    started bigint;
    wanted record;
    head record;
    alive boolean;
BEGIN
    SELECT c.revision INTO reached FROM counter c WHERE c.id = 1 FOR UPDATE;
    started := reached;
    FOR wanted IN
        SELECT w.key, w.value, w.expected, w.deleted, w.sum
        FROM unnest(keys, new_values, expectations, deletions, sums) AS w (key, value, expected, deleted, sum)
    LOOP
        SELECT l.revision, l.create_revision, l.deleted INTO head
        FROM log l WHERE l.key = wanted.key ORDER BY l.prev_revision DESC LIMIT 1;
        alive := FOUND AND NOT head.deleted;
        IF (alive AND wanted.expected = head.revision)
           OR (NOT alive AND wanted.expected = 0 AND NOT wanted.deleted) THEN
            reached := reached + 1;
            log_append.revision := reached;
            log_append.create_revision := CASE WHEN alive THEN head.create_revision ELSE reached END;
            log_append.prev_revision := coalesce(head.revision, 0);
            INSERT INTO log VALUES (reached, wanted.key, log_append.create_revision, log_append.prev_revision,
                                    wanted.deleted, wanted.value,
                                    wanted.sum + reached + log_append.create_revision + log_append.prev_revision
                                    + wanted.deleted::int);
        ELSE
            log_append.revision := 0;
            log_append.create_revision := 0;
            log_append.prev_revision := CASE WHEN alive THEN head.revision ELSE 0 END;
        END IF;
        RETURN NEXT;
    END LOOP;
    IF reached > started THEN
        UPDATE counter SET revision = reached WHERE id = 1;
        PERFORM pg_notify('kubedra_log', reached::text);
    END IF;
END $$"""


def upgrade() -> None:
    op.add_column("log", sa.Column("checksum", sa.BigInteger))
    connection = op.get_bind()
    after = 0
    while rows := connection.execute(_READ, {"after": after, "page": _PAGE}).fetchall():
        connection.execute(_WRITE, [{"revision": row.revision, "sum": _checksum(*row)} for row in rows])
        after = rows[-1].revision
    if connection.dialect.name == "postgresql":
        op.execute("DROP FUNCTION log_append")
        op.execute(sa.text(LOG_APPEND.replace(":", "\\:")))


def _checksum(revision: int, key: str, created: int, previous: int, deleted: bool, value: bytes) -> int:
    """As the release that made this migration defined it."""
    return crc32(bytes(value), crc32(key.encode(errors="surrogateescape"))) + revision + created + previous + deleted


def downgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        before = run_path(str(Path(__file__).with_name("0001_log.py")))["LOG_APPEND"]
        op.execute("DROP FUNCTION log_append")
        op.execute(sa.text(before.replace(":", "\\:")))
    op.drop_column("log", "checksum")
