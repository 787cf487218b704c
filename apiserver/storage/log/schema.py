"""The schema as SQL text, so that a new store needs neither sqlalchemy nor alembic.

A test compares these texts with the SQL compiled from `tables` and with the result of the migrations. CHAIN lists the
migrations, oldest first. A new one is added here, in `tables` and in migrations/versions.
"""

from __future__ import annotations

CHAIN = ("0001", "0002", "0003")
HEAD = CHAIN[-1]

VERSION_TABLE = (
    "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY"
    " (version_num))"
)
FIRST_ROWS = (
    "INSERT INTO counter (id, revision, compacted, swept) VALUES (1, 0, 0, 0)",
    f"INSERT INTO alembic_version (version_num) VALUES ('{HEAD}')",  # noqa: S608
)

SQLITE_TABLES = (
    "CREATE TABLE author ( id BIGINT NOT NULL, text TEXT NOT NULL, PRIMARY KEY (id) )",
    (
        "CREATE TABLE counter ( id INTEGER NOT NULL, revision BIGINT NOT NULL, compacted BIGINT NOT NULL, swept BIGINT"
        " NOT NULL, PRIMARY KEY (id) )"
    ),
    (
        'CREATE TABLE log ( revision INTEGER NOT NULL, "key" TEXT NOT NULL, create_revision BIGINT NOT NULL, '
        "prev_revision BIGINT NOT NULL, deleted BOOLEAN NOT NULL, value BLOB NOT NULL, checksum BIGINT, "
        "written BIGINT, author BIGINT, PRIMARY KEY (revision), "
        'CONSTRAINT log_key_prev_revision UNIQUE ("key", prev_revision) )'
    ),
    "CREATE TABLE meta ( name VARCHAR(64) NOT NULL, value BLOB NOT NULL, PRIMARY KEY (name) )",
)

POSTGRES_TABLES = (
    "CREATE TABLE author ( id BIGINT NOT NULL, text TEXT NOT NULL, PRIMARY KEY (id) )",
    (
        "CREATE TABLE counter ( id INTEGER NOT NULL, revision BIGINT NOT NULL, compacted BIGINT NOT NULL, swept BIGINT"
        " NOT NULL, PRIMARY KEY (id) )"
    ),
    (
        'CREATE TABLE log ( revision BIGINT NOT NULL, key TEXT COLLATE "C" NOT NULL, '
        "create_revision BIGINT NOT NULL, prev_revision BIGINT NOT NULL, deleted BOOLEAN NOT NULL, "
        "value BYTEA NOT NULL, checksum BIGINT, written BIGINT, author BIGINT, PRIMARY KEY (revision), "
        "CONSTRAINT log_key_prev_revision UNIQUE (key, prev_revision) )"
    ),
    "CREATE TABLE meta ( name VARCHAR(64) NOT NULL, value BYTEA NOT NULL, PRIMARY KEY (name) )",
)

# Appends a batch in one round trip. The counter row is locked first, which serializes all servers' writers. A statement
# in a volatile function sees everything committed before it began, so the heads read afterwards are the latest. Each
# write returns one row: the row's numbers, or revision 0 and the key's current revision in prev_revision (0: not
# alive). The last revision is sent to every listener (NOTIFY).
POSTGRES_APPEND = """\
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

SQLITE = (*SQLITE_TABLES, VERSION_TABLE, *FIRST_ROWS)
POSTGRES = (*POSTGRES_TABLES, POSTGRES_APPEND, VERSION_TABLE, *FIRST_ROWS)


def foreign_version(version: str | None, place: str) -> str | None:
    """Return a one-line reason why a store cannot be served, or None.

    `version` is None if there are tables but no schema version.
    """
    if version is None:
        return f"{place} holds tables that are not kubedra's"
    if version not in CHAIN:
        return f"{place} was written by a newer release of kubedra (schema {version}, this release knows up to {HEAD})"
    return None
