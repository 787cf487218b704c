"""Tables in SQLAlchemy Core. Migrations must produce them, and `schema` contains them as text.

Neither the start nor a request imports this module: see docs/adr/0002-revision-log.md.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Dialect,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.schema import CreateTable

metadata = MetaData()

# SQLite's row id is a column only if its type reads INTEGER.
_Revision = BigInteger().with_variant(Integer(), "sqlite")
# Key order is byte order on both databases.
_Key = Text().with_variant(Text(collation="C"), "postgresql")

log = Table(
    "log",
    metadata,
    Column("revision", _Revision, primary_key=True, autoincrement=False),
    Column("key", _Key, nullable=False),
    Column("create_revision", BigInteger, nullable=False),
    Column("prev_revision", BigInteger, nullable=False),
    Column("deleted", Boolean, nullable=False),
    Column("value", LargeBinary, nullable=False),
    # See apiserver.storage.log.rows; null only while the migration that added it is under way.
    Column("checksum", BigInteger),
    # Microseconds since 1970 and the row of `author`; null in rows of older releases.
    Column("written", BigInteger),
    Column("author", BigInteger),
    UniqueConstraint("key", "prev_revision", name="log_key_prev_revision"),
)

# The authors of rows, each text once. An id is a hash of the text, so that servers need not agree on it.
author = Table(
    "author",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("text", Text, nullable=False),
)

# One row, id 1. `revision`: the newest; `compacted`: history after it is complete; `swept`: rows up to it were removed.
counter = Table(
    "counter",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("revision", BigInteger, nullable=False),
    Column("compacted", BigInteger, nullable=False),
    Column("swept", BigInteger, nullable=False),
)

# Metadata of the store, such as keys that all its servers share.
meta = Table(
    "meta",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("value", LargeBinary, nullable=False),
)


def create_statements(dialect: Dialect) -> tuple[str, ...]:
    """Return the CREATE TABLE statements, each on one line."""
    return tuple(" ".join(str(CreateTable(table).compile(dialect=dialect)).split()) for table in metadata.sorted_tables)
