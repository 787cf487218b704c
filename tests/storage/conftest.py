"""A fresh, empty store on each database that kubedra runs on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from apiserver.storage import Durability, RevisionLog
from tests.storage.caches import opened_log
from tests.support.postgres import fresh_schema

BACKENDS = ("sqlite-file", "sqlite-off", "sqlite-memory", "postgres")
OpenStore = Callable[[], AbstractAsyncContextManager[RevisionLog]]


@pytest.fixture
def postgres_schema_url(postgres_url: str) -> str:
    return fresh_schema(postgres_url)


@pytest.fixture(params=BACKENDS)
def target(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Durability]:
    """Return the arguments of open_log."""
    match request.param:
        case "sqlite-memory":
            return "memory:", Durability.OFF
        case "postgres":
            return request.getfixturevalue("postgres_schema_url"), Durability.FULL
        case kind:
            return str(tmp_path / "data"), Durability.OFF if kind == "sqlite-off" else Durability.FULL


@pytest.fixture
def open_store(target: tuple[str, Durability]) -> OpenStore:
    """Return a function that opens the store; except in memory, opening it again finds the rows written before."""
    return lambda: opened_log(*target, poll_interval=0.2)
