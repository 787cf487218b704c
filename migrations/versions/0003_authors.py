"""Every row has its time and its author (docs/adr/0041-history.md). Rows of older releases have neither."""

from __future__ import annotations

from pathlib import Path
from runpy import run_path

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

LOG_APPEND = """\
CREATE FUNCTION log_append(keys text[], new_values bytea[], expectations bigint[], deletions boolean[], sums bigint[],
                           authors bigint[], written bigint)
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
        SELECT w.key, w.value, w.expected, w.deleted, w.sum, w.author
        FROM unnest(keys, new_values, expectations, deletions, sums, authors)
             AS w (key, value, expected, deleted, sum, author)
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
                                    + wanted.deleted::int, log_append.written, wanted.author);
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
    op.add_column("log", sa.Column("written", sa.BigInteger))
    op.add_column("log", sa.Column("author", sa.BigInteger))
    op.create_table(
        "author",
        sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("text", sa.Text, nullable=False),
    )
    if op.get_bind().dialect.name == "postgresql":
        op.execute("DROP FUNCTION log_append")
        op.execute(sa.text(LOG_APPEND.replace(":", "\\:")))


def downgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        before = run_path(str(Path(__file__).with_name("0002_checksum.py")))["LOG_APPEND"]
        op.execute("DROP FUNCTION log_append")
        op.execute(sa.text(before.replace(":", "\\:")))
    op.drop_table("author")
    op.drop_column("log", "author")
    op.drop_column("log", "written")
