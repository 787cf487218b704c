"""Runs the migrations: on the connection that the server hands over, or on `-x url=...` from alembic's command line."""

from __future__ import annotations

from alembic import context
from sqlalchemy import Connection, create_engine

from apiserver.storage.log.tables import metadata
from apiserver.storage.log.upgrade import alchemy_url


def run(connection: Connection) -> None:
    """Migrates in one transaction; on SQLite, tables that must be altered are copied."""
    context.configure(connection=connection, target_metadata=metadata, render_as_batch=True)
    with context.begin_transaction():
        context.run_migrations()


if (given := context.config.attributes.get("connection")) is not None:
    run(given)
else:
    with create_engine(alchemy_url(context.get_x_argument(as_dictionary=True)["url"])).begin() as opened:
        run(opened)
