"""What several areas' tests stand on."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import pytest_timeout
from hypothesis import HealthCheck, Phase, settings

from kubedra import nodes
from kubedra.client import Methods
from tests.support import watchdog
from tests.support.postgres import Database

# A run of the suite repeats itself: a property test tries the same examples until it changes, however slow the machine
# is. HYPOTHESIS_PROFILE=explore looks for new ones (CONTRIBUTING).
settings.register_profile("same", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# Mutation runs want to know that a test fails, not the smallest example with which it does.
settings.register_profile("first", settings.get_profile("same"), phases=[Phase.explicit, Phase.generate])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


# Waits of clients end with the test's own limit, which is in fair seconds; the defaults for users are in real ones.
_LONG = 3600.0
Methods.wait.__kwdefaults__["timeout"] = _LONG
nodes.READY_TIMEOUT = _LONG


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The URL of a running Postgres that belongs to this test run alone, or of the one that KUBEDRA_TEST_POSTGRES names."""
    if given := os.environ.get("KUBEDRA_TEST_POSTGRES"):
        yield given
        return
    with Database() as database:
        yield database.url


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: pytest_timeout.Settings) -> bool | None:
    """`timeout` of pyproject.toml and of the marker is in fair seconds (tests/support/patience.py)."""
    return watchdog.watch(item, settings) or None
