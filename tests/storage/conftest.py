"""A fresh, empty store on each database that kubedra runs on."""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from apiserver.storage import Durability, RevisionLog, open_log

BACKENDS = ("sqlite-file", "sqlite-off", "sqlite-memory", "postgres")
OpenStore = Callable[[], AbstractAsyncContextManager[RevisionLog]]


_numbers = itertools.count()


@pytest.fixture
def postgres_schema_url(postgres_url: str) -> str:
    """A URL whose connections see an empty schema of their own."""
    import psycopg

    name = f"t{os.getpid()}_{next(_numbers)}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    separator = "&" if "?" in postgres_url else "?"
    return f"{postgres_url}{separator}options=-csearch_path%3D{name}"


@pytest.fixture(params=BACKENDS)
def target(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Durability]:
    """What to hand to open_log."""
    match request.param:
        case "sqlite-memory":
            return "memory:", Durability.OFF
        case "postgres":
            return request.getfixturevalue("postgres_schema_url"), Durability.FULL
        case kind:
            return str(tmp_path / "data"), Durability.OFF if kind == "sqlite-off" else Durability.FULL


@pytest.fixture
def open_store(target: tuple[str, Durability]) -> OpenStore:
    """Opens the store; on all but the one in memory, opening again finds what was written."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[RevisionLog]:
        place, durability = target
        log = await open_log(place, durability=durability, poll_interval=0.2)
        try:
            yield log
        finally:
            await log.close()

    return opened
