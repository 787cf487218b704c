"""The revision log."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

LOG_APPEND = """\
CREATE FUNCTION log_append(keys text[], new_values bytea[], expectations bigint[], deletions boolean[])
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
        SELECT w.key, w.value, w.expected, w.deleted
        FROM unnest(keys, new_values, expectations, deletions) AS w (key, value, expected, deleted)
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
                                    wanted.deleted, wanted.value);
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
    log_revision = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "log",
        sa.Column("revision", log_revision, primary_key=True, autoincrement=False),
        sa.Column("key", sa.Text().with_variant(sa.Text(collation="C"), "postgresql"), nullable=False),
        sa.Column("create_revision", sa.BigInteger, nullable=False),
        sa.Column("prev_revision", sa.BigInteger, nullable=False),
        sa.Column("deleted", sa.Boolean, nullable=False),
        sa.Column("value", sa.LargeBinary, nullable=False),
        sa.UniqueConstraint("key", "prev_revision", name="log_key_prev_revision"),
    )
    op.create_table(
        "counter",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("compacted", sa.BigInteger, nullable=False),
        sa.Column("swept", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "meta",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("value", sa.LargeBinary, nullable=False),
    )
    op.execute("INSERT INTO counter (id, revision, compacted, swept) VALUES (1, 0, 0, 0)")
    if op.get_bind().dialect.name == "postgresql":
        op.execute(sa.text(LOG_APPEND.replace(":", "\\:")))


def downgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.execute("DROP FUNCTION log_append")
    op.drop_table("meta")
    op.drop_table("counter")
    op.drop_table("log")
