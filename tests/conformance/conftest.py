"""Servers for conversations; each worker has its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance import recordings, written
from tests.conformance.ledger import Ledger
from tests.conformance.servers import Servers


def _servers(request: pytest.FixtureRequest, tokens: Path) -> Iterator[Servers]:
    with Servers(tokens, lambda: request.getfixturevalue("postgres_url")) as servers:
        yield servers


@pytest.fixture(scope="session")
def servers_of_recordings(request: pytest.FixtureRequest) -> Iterator[Servers]:
    """Those that the recorded conversations' users know."""
    folder = recordings.folder()
    assert folder is not None
    yield from _servers(request, folder / "tokens.csv")


@pytest.fixture(scope="session")
def servers(request: pytest.FixtureRequest) -> Iterator[Servers]:
    """Those that our own conversations' users know."""
    yield from _servers(request, written.TOKENS)


@pytest.fixture(scope="session")
def ledger() -> Ledger:
    return Ledger.read()
