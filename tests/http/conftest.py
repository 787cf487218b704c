"""Servers for the tests of a module. A module's FLAGS are flags of its server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.server import Running, serve
from tests.support.wire import Wire


@pytest.fixture(scope="module")
def running(request: pytest.FixtureRequest) -> Iterator[Running]:
    with serve(*getattr(request.module, "FLAGS", ())) as server:
        yield server


@pytest.fixture(scope="module")
def wire(running: Running) -> Wire:
    return running.wire()
