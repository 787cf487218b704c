"""Try a mutant with the tests that reach it, the fastest first.

A change inside a function replaces the function's code, in a fork of a process that has imported and collected
everything. A change of code that runs on import needs a process that imports again.
"""

from __future__ import annotations

import ast
import gc
import pickle
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from itertools import accumulate
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from tests.support.wire import ROOT
from tools.mutation.changes import Mutant
from tools.mutation.child import Send, run_in_child, start_in_child
from tools.mutation.reach import Reach, Traced, pytest_main, run_test

#: A test that exceeds its traced CPU seconds by so many fair seconds hangs.
SILENCE = 3.0
#: Fair seconds for a new process to import, collect and finish its first test.
START = 60.0
#: CPU seconds of tests per mutant, the fastest first; a mutant that passes them survives.
ENOUGH = 6.0
#: Tests of the declarations of all modules, which run no line of most modules.
DECLARATIONS = ("tests/resources/test_declarations.py",)
KILLED, SURVIVED, REIMPORT = 1, 0, 2


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of a mutant: the test that failed or "", the number of tests that reach it, CPU seconds."""

    killed: bool
    by: str
    tests: int
    seconds: float


#: Receives each verdict.
OnVerdict = Callable[[Mutant, Verdict], None]


def judge(mutants: Sequence[Mutant], reach: Reach, on_verdict: OnVerdict) -> list[Verdict]:
    """Try each mutant and report each outcome. The process must not have imported the sources."""
    inside = {n: mutant for n, mutant in enumerate(mutants) if mutant.function and not _on_import(mutant, reach)}
    verdicts: dict[int, Verdict] = {}
    if inside:
        files = sorted({test.file for mutant in inside.values() for test in _judges(mutant, reach)})
        session = Session(inside, reach, on_verdict)
        output = run_in_child(lambda send: session.run(files, send)).output
        verdicts = pickle.loads(output)
    left = [n for n in range(len(mutants)) if n not in verdicts]

    def half(numbers: list[int]) -> dict[int, Verdict]:
        found = {}
        for n in numbers:
            found[n] = _try_reimported(mutants[n], reach)
            on_verdict(mutants[n], found[n])
        return found

    other = start_in_child(lambda send: send(pickle.dumps(half(left[1::2]))))
    verdicts |= half(left[::2])
    verdicts |= pickle.loads(other().output)
    return [verdicts[n] for n in range(len(mutants))]


def _on_import(mutant: Mutant, reach: Reach) -> bool:
    return reach.on_import(mutant.path, *mutant.lines)


def _judges(mutant: Mutant, reach: Reach) -> list[Traced]:
    """Return the tests that reach a mutant, fastest first.

    All tests that reach its file reach code that runs on import; those that run the very line come first.
    """
    direct = [test for test in reach.tests if test.reaches(mutant.path, *mutant.lines)]
    direct.sort(key=lambda test: test.seconds)
    if not mutant.function or _on_import(mutant, reach):
        touching = [test for test in reach.tests if test.lines.get(mutant.path) or test.file in DECLARATIONS]
        others = [test for test in touching if test not in direct]
        direct += sorted(others, key=lambda test: test.seconds)
    cost = list(accumulate(test.seconds for test in direct))
    return [test for test, sofar in zip(direct, cost, strict=True) if sofar <= max(ENOUGH, cost[0])]


class Session:
    """A pytest plugin: the process collects all tests and forks once per mutant."""

    def __init__(self, mutants: dict[int, Mutant], reach: Reach, on_verdict: OnVerdict) -> None:
        self._mutants, self._reach, self._on_verdict = mutants, reach, on_verdict
        self._verdicts: dict[int, Verdict] = {}

    def run(self, files: Sequence[str], send: Send) -> int:
        code = pytest_main(files, self) if files else 0
        send(pickle.dumps(self._verdicts))
        return code

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        gc.unfreeze()  # what is set aside is not among the collector's objects
        functions = list(_functions())
        gc.freeze()

        def half(first: int) -> dict[int, Verdict]:
            verdicts = {}
            for n in list(self._mutants)[first::2]:
                mutant, judges = self._mutants[n], _judges(self._mutants[n], self._reach)
                verdict = _forked(mutant, functions, [items[test.id] for test in judges], judges)
                if verdict is not None:
                    verdicts[n] = verdict
                    self._on_verdict(mutant, verdict)
            return verdicts

        other = start_in_child(lambda send: send(pickle.dumps(half(1))))
        self._verdicts |= half(0)
        self._verdicts |= pickle.loads(other().output)
        return True


def _forked(
    mutant: Mutant, functions: list[FunctionType], items: list[pytest.Item], judges: list[Traced]
) -> Verdict | None:
    """Try a mutant in a fork; return None if it cannot be applied there."""
    if not judges:
        return Verdict(False, "", 0, 0.0)

    def work(send: Send) -> int:
        return try_tests(items, send) if exchange(mutant, functions) else REIMPORT

    outcome = run_in_child(work, _patience(judges))
    return None if outcome.code == REIMPORT else _verdict(outcome.code, outcome.output, judges, outcome.seconds)


def _patience(judges: list[Traced]) -> Callable[[int], float]:
    return lambda passed: SILENCE + (judges[passed].seconds if passed < len(judges) else 0)


def _verdict(code: int | None, output: bytes, judges: list[Traced], seconds: float) -> Verdict:
    """Build the verdict; children write one byte per passed test."""
    killed = code != SURVIVED
    failed = judges[len(output)].id if len(output) < len(judges) else "the end of the tests"
    return Verdict(killed, failed if killed else "", len(judges), seconds)


def try_tests(items: Sequence[pytest.Item], send: Send) -> int:
    for item, following in zip(items, [*items[1:], None], strict=False):  # of none there is no following one
        if not run_test(item, following):
            return KILLED
        send(b".")
    return SURVIVED


class _OrderedTests:
    """A pytest plugin that runs tests in a given order until one fails.

    If the mutant changes the parameters of a test, the new items, unknown before, replace the missing ones.
    """

    def __init__(self, tests: Sequence[Traced], known: Container[str], send: Send) -> None:
        self._tests, self._known, self._send = tests, known, send

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        found = [items[test.id] for test in self._tests if test.id in items]
        gone = {_unparametrized(test.id) for test in self._tests if test.id not in items}
        came = [
            item for item in session.items if item.nodeid not in self._known and _unparametrized(item.nodeid) in gone
        ]
        # A file that cannot be imported has failed already.
        if session.testsfailed or try_tests(found, self._send) == KILLED or any(map(self._fails, came)):
            session.testsfailed = 1
        return True

    def _fails(self, item: pytest.Item) -> bool:
        """Run one test. A skipped test does not fail."""
        failed = any(report.failed for report in runtestprotocol(item, log=False, nextitem=None))
        self._send(b".")
        return failed


def _unparametrized(name: str) -> str:
    return name.partition("[")[0]


def _try_reimported(mutant: Mutant, reach: Reach) -> Verdict:
    """Try a mutant in a new process, tests of declarations first: they are one file to collect."""
    judges = _judges(mutant, reach)
    first = [test for test in judges if test.file in DECLARATIONS]
    known = {test.id for test in reach.tests}
    verdict = _try_reimported_by(mutant, first, known)
    rest = [test for test in judges if test.file not in DECLARATIONS]
    return verdict if verdict.killed or not rest else _try_reimported_by(mutant, rest, known)


def _try_reimported_by(mutant: Mutant, judges: list[Traced], known: Container[str]) -> Verdict:
    if not judges:
        return Verdict(False, "", 0, 0.0)

    def work(send: Send) -> int:
        _import_changed(mutant)
        return (
            KILLED
            if pytest_main(sorted({test.file for test in judges}), _OrderedTests(judges, known, send))
            else SURVIVED
        )

    outcome = run_in_child(work, lambda passed: _patience(judges)(passed) + (0 if passed else START))
    return _verdict(outcome.code, outcome.output, judges, outcome.seconds)


def _import_changed(mutant: Mutant) -> None:
    """Make this process import the mutant in place of its file."""
    read = SourceFileLoader.get_code

    def get_code(loader: SourceFileLoader, name: str) -> Any:
        if loader.path == str(ROOT / mutant.path):
            return _compiled(mutant.tree, mutant.path)
        return read(loader, name)

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign,assignment]


def exchange(mutant: Mutant, functions: Sequence[FunctionType]) -> bool:
    """Replace the code of each function of the changed file; return False if that is impossible."""
    original = _by_place(_compiled(ast.parse((ROOT / mutant.path).read_text()), mutant.path))
    changed = _by_place(_compiled(mutant.tree, mutant.path))
    codes: dict[CodeType, CodeType] = {}
    for place, before in original.items():
        after = changed.get(place, [])  # none of what stood in a part that was left out
        if after and len(after) != len(before):
            return False
        codes |= {old: new for old, new in zip(before, after, strict=False) if old != new}
    found = [function for function in functions if function.__code__ in codes]
    if any(f.__code__.co_freevars != codes[f.__code__].co_freevars for f in found):
        return False
    for function in found:
        function.__code__ = codes[function.__code__]
    return bool(found)


def _compiled(tree: ast.Module, path: str) -> CodeType:
    return compile(tree, str(ROOT / path), "exec", dont_inherit=True)


def _by_place(module: CodeType) -> dict[tuple[str, int], list[CodeType]]:
    """Return the functions of a file by name and line."""
    found: dict[tuple[str, int], list[CodeType]] = {}
    for code in _codes(module):
        if code is not module:
            found.setdefault((code.co_qualname, code.co_firstlineno), []).append(code)
    return found


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _functions() -> Iterator[FunctionType]:
    """Yield all existing functions of the sources."""
    for thing in gc.get_objects():
        if type(thing) is FunctionType and Path(thing.__code__.co_filename).is_relative_to(ROOT):
            yield thing
