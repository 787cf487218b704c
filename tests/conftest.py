"""Settings and fixtures of all tests."""

from __future__ import annotations

import tests.support.bytecode  # noqa: F401 - before all others

# isort: split

import compileall
import gc
import os
import re
import shutil
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
import pytest_timeout
from hypothesis import HealthCheck, Phase, settings

from tests.clients.install import installed
from tests.support import forked, rewritten, virtual, watchdog
from tests.support.postgres import Database

# A run of the suite repeats itself: a property test tries the same examples until it changes, however slow the machine
# is. HYPOTHESIS_PROFILE=explore looks for new ones (CONTRIBUTING).
settings.register_profile("same", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# Mutation runs want to know that a test fails, not the smallest example with which it does.
settings.register_profile("first", settings.get_profile("same"), phases=[Phase.explicit, Phase.generate])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


# Waits of clients end with the test's own limit, which is in fair seconds.
os.environ["KUBEDRA_WAIT_TIMEOUT"] = "3600"


# Before whatever else starts them in a way of its own (tools/mutation/servers.py).
forked.install()

_OURS = ("apiserver", "controllers", "kubedra", "migrations")


def pytest_configure(config: pytest.Config) -> None:
    """Compile the sources once, and the tests in shares.

    A server that is started would compile the sources itself wherever bytecode is not written (PYTHONDONTWRITEBYTECODE,
    as in most images); that takes two thirds of its start. Each worker rewrites the assertions of a share of the tests.
    """
    worker = getattr(config, "workerinput", None)
    if worker is None:
        for package in _OURS:
            compileall.compile_dir(config.rootpath / package, quiet=2, workers=0)
    else:
        files = sorted((config.rootpath / "tests").rglob("test_*.py"))
        rewritten.write(config, files[int(worker["workerid"].removeprefix("gw")) :: worker["workercount"]])


# Where the machine has no kubectl or Helm, tests that want one use an installed one.
for tool in ("kubectl", "helm"):
    if shutil.which(tool) is None:
        os.environ["PATH"] = os.pathsep.join((os.environ.get("PATH", ""), *(str(f.parent) for f in installed(tool))))


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """Yield the URL of a Postgres of this test run, or of the one that KUBEDRA_TEST_POSTGRES names."""
    if given := os.environ.get("KUBEDRA_TEST_POSTGRES"):
        yield given
        return
    with Database() as database:
        yield database.url


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> None:
    """Run coroutine tests in virtual time."""
    virtual.make_synchronous(pyfuncitem)


_WHOLLY_INTEGRATION = re.compile(r"^pytestmark = (\[\n(    .*\n)*?    )?.*pytest\.mark\.integration\b", re.MULTILINE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out modules that a run of the unit tier would import only to deselect all of their tests."""
    if config.option.markexpr.startswith("not integration and ") and collection_path.name.startswith("test_"):
        return bool(_WHOLLY_INTEGRATION.search(collection_path.read_text())) or None
    return None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the garbage collector off what stays: imported modules and collected tests.

    It does not run meanwhile, passes them over afterwards, and runs as seldom as in a server of its own process.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000, 20, 50)
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: pytest_timeout.Settings) -> bool | None:
    """`timeout` of pyproject.toml and of the marker is in fair seconds (tests/support/patience.py)."""
    return watchdog.watch(item, settings) or None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Report the clients that this run tried, and those that it missed."""
    reports = [report for found in ("passed", "failed") for report in terminalreporter.getreports(found)]
    tried = sorted({str(value) for report in reports for key, value in report.user_properties if key == "client"})
    missed = [
        str(report.longrepr[2])
        for report in terminalreporter.getreports("skipped")
        if report.nodeid.startswith("tests/clients/")
    ]
    if tried or missed:
        terminalreporter.write_line(f"clients tried: {'; '.join(tried) or 'none'}")
    if missed:
        names = sorted(reason.removeprefix("Skipped: ").partition(" is not there")[0] for reason in missed)
        terminalreporter.write_line(f"clients missed: {'; '.join(names)}")
