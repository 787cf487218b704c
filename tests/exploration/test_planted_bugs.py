"""Controllers with a bug each: exploration finds it, shrinks the schedule, and repeats it from its line.

The explored tests are in `buggy.py` and run in a pytest of their own, as a user would run them.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys

import pytest

from tests.clients.install import HOME

pytestmark = [pytest.mark.integration, pytest.mark.slow]

#: The explored tests with their bugs, and the points at which a schedule shows them.
BUGS = {
    "test_no_update_is_lost": r"(red|blue):",
    "test_no_event_is_missed": r"marker:",
    "test_no_device_is_allocated_twice": r"allocator:",
    "test_the_outside_worker_creates_its_object": r"worker:create:configmaps",
}
_REPLAY = re.compile(r"pytest (?:\S+::)?(?P<test>\S+) (?P<option>--kubedra-schedule=.*)$", re.MULTILINE)


def run_pytest(*arguments: str, correct: bool = False, path: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "CORRECT": "yes" if correct else "no", "PYTHONPATH": path, "COLUMNS": "500"}
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "--timeout=0", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment)


@pytest.mark.timeout(600)
def test_planted_bugs_are_found_shrunk_and_repeated() -> None:
    found = run_pytest("tests/exploration/buggy.py")
    replays = {match["test"]: match["option"] for match in _REPLAY.finditer(found.stdout)}
    assert replays.keys() == BUGS.keys(), found.stdout
    for test, option in replays.items():
        deviations = shlex.split(option)[0].partition("=")[2].split()
        assert 1 <= len(deviations) <= 2, option
        assert all(re.match(BUGS[test], deviation) for deviation in deviations), option
        again = run_pytest(f"tests/exploration/buggy.py::{test}", *shlex.split(option))
        assert "1 failed" in again.stdout, again.stdout


@pytest.mark.timeout(600)
def test_controllers_without_the_bugs_pass_the_same_schedules() -> None:
    found = run_pytest("tests/exploration/buggy.py", "--kubedra-explore=15", "-k", "not outside", correct=True)
    assert "3 passed" in found.stdout, found.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--kubedra-schedule=nonsense"], '--kubedra-schedule: "nonsense" is not a deviation: write'),
        (["--kubedra-schedule=a#1=delay"], '--kubedra-schedule: "a#1=delay": delay takes @SECONDS'),
    ],
)
def test_a_wrong_schedule_is_one_line(arguments: list[str], message: str) -> None:
    found = run_pytest("tests/exploration/buggy.py::test_no_event_is_missed", *arguments)
    assert message in found.stdout + found.stderr


def test_an_operator_with_kopf_is_explored() -> None:
    if not (HOME / "python" / "kopf").is_dir():
        pytest.skip("kopf is not installed: ./dev clients")
    found = run_pytest("tests/clients/programs/explored_kopf.py", path=str(HOME / "python"))
    assert "1 passed" in found.stdout, found.stdout
