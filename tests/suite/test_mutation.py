"""Mutation runs (tools/mutation): each mutant is one change, present only while it is tried."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.forked import Forked
from tests.support.wire import ROOT
from tools.mutation import changes, servers, trial
from tools.mutation.__main__ import TESTS
from tools.mutation.child import run_in_child
from tools.mutation.reach import Reach, Traced

pytestmark = pytest.mark.integration

_SOURCE = '''
"""A module."""
LIMIT = 3

def longest(words: list[str]) -> list[str]:
    """All words that are not too long."""
    found = []
    for word in words:
        if len(word) > LIMIT:
            continue
        found.append(word)
    if not words:
        raise ValueError("no words")
    return found
'''


def _mutants() -> list[changes.Mutant]:
    tree = ast.parse(_SOURCE)
    return [changes.mutant(ROOT / "a.py", tree, change) for change in changes.changes(tree)]


def test_comparisons_conditions_constants_results_and_statements_go_wrong_one_at_a_time() -> None:
    assert {(mutant.before, mutant.after) for mutant in _mutants()} == {
        ("LIMIT = 3", "LIMIT = 4"),
        ("if len(word) > LIMIT:", "if len(word) >= LIMIT:"),
        ("continue", "pass"),
        ("found.append(word)", "pass"),
        ("if not words:", "if not not words:"),
        ("raise ValueError('no words')", "pass"),
        ("return found", "return None"),
    }


def test_a_mutant_knows_its_lines_and_whether_it_runs_on_import() -> None:
    at = {mutant.before: (mutant.lines, mutant.function) for mutant in _mutants()}
    assert at["LIMIT = 3"] == ((3, 3), "")
    assert at["if len(word) > LIMIT:"] == ((9, 9), "longest:5")


def test_each_mutant_on_the_list_of_equivalent_ones_is_about_a_line_that_is_there() -> None:
    assert changes.stale(changes.known()) == []
    gone = ["no/such.py: a = 1 => a = 2", "tools/mutation/changes.py: a = 1 => a = 2"]
    assert changes.stale(gone) == gone


def test_only_tests_that_reach_a_line_judge_it() -> None:
    tests = [Traced("t.py", f"t.py::{n}", {"a.py": 1 << line}, 0.1) for n, line in enumerate((9, 11, 9))]
    mutant = next(mutant for mutant in _mutants() if mutant.lines == (9, 9))
    assert [test.id for test in trial._judges(mutant, Reach(tests))] == ["t.py::0", "t.py::2"]


@pytest.mark.parametrize(
    ("reached", "limit", "killed"),
    [
        (["test_limit[1]", "test_limit[2]"], 2, False),
        (["test_limit[1]", "test_limit[2]"], 3, True),
        (["test_limit[2]"], 1, False),
        (["test_limit[1]"], 0, False),
    ],
    ids=["as before", "one came in place of another", "one is gone", "all are gone"],
)
def test_where_a_mutant_changes_the_parameters_of_a_test_those_that_came_judge_it(
    reached: list[str], limit: int, killed: bool, tmp_path: Path
) -> None:
    source = (
        "import pytest\nLIMIT = {}\n@pytest.mark.parametrize('n', [1, LIMIT][:LIMIT])\ndef test_limit(n): assert n < 3"
    )
    file = tmp_path / "test_a.py"
    file.write_text(source.format(limit))
    tests = [Traced("test_a.py", f"test_a.py::{name}", {}, 0.1) for name in reached]
    options = ["-q", "-n0", "-p", "no:cacheprovider", f"--rootdir={tmp_path}", str(file)]

    def work(send: Callable[[bytes], None]) -> int:
        known = {test.id for test in tests}
        return trial.KILLED if pytest.main(options, [trial._OrderedTests(tests, known, send)]) else trial.SURVIVED

    assert run_in_child(work).code == (trial.KILLED if killed else trial.SURVIVED)


def test_what_a_child_breaks_is_gone_with_it_and_one_that_is_silent_is_ended() -> None:
    def exchanged(send: object) -> int:
        changes.known.__code__ = (lambda: {"broken"}).__code__
        return len(changes.known())

    assert run_in_child(exchanged).code == 1
    assert "broken" not in changes.known()
    assert run_in_child(lambda _: len(os.read(os.pipe()[0], 1)), lambda output: 0.2).code is None


def test_a_server_that_a_test_starts_has_what_was_changed_before(tmp_path: Path) -> None:
    def started() -> Forked:
        with (tmp_path / "log").open("w") as log:
            flags = ["--storage=memory", "--port=0", "--announce", "--attached"]
            return servers.fork(flags, env=os.environ, stderr=log)

    def work(_: object) -> None:
        import apiserver.command.start as server

        sound = started()
        assert sound.stdout is not None
        assert "url" in sound.stdout.readline()
        sound.terminate()
        assert sound.wait(20) == 0
        server.choose_components.__code__ = (lambda settings: 1 / 0).__code__
        assert started().wait(20) == 99

    assert run_in_child(work).code == 0
    assert "ZeroDivisionError" in (tmp_path / "log").read_text()


def test_the_tests_of_each_package_exist() -> None:
    assert [place for places in TESTS.values() for place in places if not (ROOT / place).exists()] == []
