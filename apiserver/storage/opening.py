"""Open a store by its target.

A target is "memory:", a Postgres URL, or a data directory with an optional "sqlite:" prefix. Drivers are imported when
a target needs them. alembic and sqlalchemy are imported only for a store of an older release.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver.storage.log.types import Durability, UnusableDatabase

if TYPE_CHECKING:
    from apiserver.storage.log.types import RevisionLog


async def open_log(
    target: str, *, durability: Durability | str = Durability.FULL, poll_interval: float = 1.0
) -> RevisionLog:
    """Open a store. Raise UnusableDatabase with a one-line reason if it cannot be served.

    `poll_interval` is in seconds. It bounds the delay of other servers' rows if Postgres notifications are lost.
    """
    durability = Durability(durability)
    if target.startswith(("postgresql://", "postgres://")):
        try:
            from apiserver.storage.postgres.log import open_postgres
        except ImportError as error:
            # The driver is an extra (docs/adr/0006-dependencies.md); without libpq its import fails as well.
            reason = " ".join(str(error).split())
            raise UnusableDatabase(
                f"Postgres needs the package's extra, pip install 'kubedra[postgres]': {reason}"
            ) from error

        return await open_postgres(target, durability, poll_interval)
    from apiserver.storage.sqlite.opening import open_directory, open_memory

    if target in ("memory:", "sqlite::memory:"):
        return open_memory()
    return await open_directory(target.removeprefix("sqlite:"), durability)
