"""Which lines does each test reach? Recorded once by tracing it, and kept beside the repository's other caches.

A record belongs to the tests of one file. It holds for one state of the sources and of that file; each is made again
when either changes. Lines that run while the modules are imported are recorded apart: a change there is not made by
exchanging a function's code.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

from tests.mutation.child import Say, run_apart
from tests.support.wire import ROOT

CACHE = ROOT / ".mutation_cache"
#: The packages whose lines are recorded.
SOURCES = ("apiserver", "controllers", "kubedra")

#: After so many calls of a function in one test nothing new is looked for in it: properties call some a million times.
ENOUGH = 300

#: Lines as bits of a number, by file.
Lines = dict[str, int]


@dataclass(slots=True)
class Traced:
    """A test that passes when nothing is wrong: where it stands, what it reaches, and its seconds of CPU when traced."""

    file: str
    id: str
    lines: Lines
    seconds: float

    def reaches(self, path: str, first: int, last: int) -> bool:
        return bool(self.lines.get(path, 0) >> first & ((1 << last - first + 1) - 1))


@dataclass(slots=True)
class Reach:
    """What was recorded of some files of tests: the tests, and the lines that run on import."""

    tests: list[Traced] = field(default_factory=list)
    imported: Lines = field(default_factory=dict)

    def on_import(self, path: str, first: int, last: int) -> bool:
        return bool(self.imported.get(path, 0) >> first & ((1 << last - first + 1) - 1))

    def add(self, other: Reach) -> None:
        self.tests += other.tests
        for path, lines in other.imported.items():
            self.imported[path] = self.imported.get(path, 0) | lines


class Tracer:
    """Sees the lines of the sources that run, in all threads."""

    def __init__(self) -> None:
        self._roots = tuple(f"{ROOT / name}{os.sep}" for name in SOURCES)
        self._left: dict[CodeType, int] = {}
        self._others: set[CodeType] = set()
        self._seen: set[tuple[CodeType, int]] = set()

    def start(self) -> None:
        threading.settrace(self._called)
        sys.settrace(self._called)

    def stop(self) -> None:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]

    def take(self) -> Lines:
        """The lines seen since the last time."""
        found: Lines = {}
        for code, line in self._seen.copy():
            path = os.path.relpath(code.co_filename, ROOT)
            found[path] = found.get(path, 0) | 1 << line
        self._seen.clear()
        self._left.clear()
        return found

    def _called(self, frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        if code in self._others:
            return None
        left = self._left.get(code)
        if left is None:
            if not code.co_filename.startswith(self._roots):
                self._others.add(code)
                return None
            left = ENOUGH
        elif not left:
            return None
        self._left[code] = left - 1
        self._seen.add((code, code.co_firstlineno))
        return self._line

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            self._seen.add((frame.f_code, frame.f_lineno))
        return self._line


class Recorder:
    """A plugin of pytest that runs each file's tests in a process of its own and keeps what each of them reaches."""

    def __init__(self, stamps: dict[str, str]) -> None:
        self._stamps = stamps
        self._tracer = Tracer()

    def pytest_sessionstart(self) -> None:
        self._tracer.start()

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self._tracer.stop()
        imported = self._tracer.take()
        files: dict[str, list[pytest.Item]] = {}
        for item in (item for item in session.items if not _on_another_database(item)):
            files.setdefault(str(item.path.relative_to(ROOT)), []).append(item)
        for file, items in files.items():
            started = time.monotonic()
            outcome = run_apart(partial(self._write, file, items, imported))
            if outcome.code != 0:
                raise SystemExit(f"mutation: recording the tests of {file} failed")
            print(f"recorded {file}: {len(items)} tests in {time.monotonic() - started:.1f} s", file=sys.stderr)
        return True

    def _write(self, file: str, items: list[pytest.Item], imported: Lines, _: Say) -> None:
        reach = Reach(self._record(file, items), imported)
        (CACHE / self._stamps[file]).write_bytes(pickle.dumps(reach))

    def _record(self, file: str, items: list[pytest.Item]) -> list[Traced]:
        found = []
        for item, following in zip(items, [*items[1:], None], strict=True):
            began = time.process_time()
            self._tracer.start()
            passed = passes(item, following)
            self._tracer.stop()
            lines = self._tracer.take()
            if passed:
                found.append(Traced(file, item.nodeid, lines, time.process_time() - began))
        return found


def _on_another_database(item: pytest.Item) -> bool:
    """Whether it says again, on SQLite or Postgres, what a conversation says in memory: too slow for a mutant."""
    parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    return item.get_closest_marker("slow") is not None and parameters.get("storage", "memory") != "memory"


def passes(item: pytest.Item, following: pytest.Item | None) -> bool:
    """Runs a test with its fixtures; those that the following one shares stay."""
    from _pytest.runner import runtestprotocol

    reports = runtestprotocol(item, log=False, nextitem=following)
    return all(report.passed for report in reports)


def recorded(places: Sequence[str]) -> Reach:
    """What the tests at these places reach, recorded now where no record holds. In a process that has imported nothing
    of the sources.
    """
    CACHE.mkdir(exist_ok=True)
    stamps = _stamps(places)
    if stale := [file for file, stamp in stamps.items() if not (CACHE / stamp).exists()]:
        outcome = run_apart(lambda _: pytest_main(stale, Recorder(stamps)))
        if outcome.code != 0:
            raise SystemExit("mutation: the tests could not be recorded; do they pass?")
    reach = Reach()
    for stamp in stamps.values():
        if (CACHE / stamp).exists():  # not where a file has no test to run
            reach.add(pickle.loads((CACHE / stamp).read_bytes()))
    return reach


def pytest_main(arguments: Sequence[str], plugin: object) -> int:
    """pytest in this process, as mutation runs want it: without workers."""
    options = ["-q", "-n0", "--capture=no", "-p", "no:cacheprovider", f"--rootdir={ROOT}"]
    return int(pytest.main([*options, *arguments], [plugin]))


def _stamps(places: Sequence[str]) -> dict[str, str]:
    """The names of the records of all files of tests at these places: they change with whatever a record depends on."""
    tests = ROOT / "tests"
    sources = [file for name in SOURCES for file in sorted((ROOT / name).rglob("*.py"))]
    helpers = [file for file in sorted(tests.rglob("*.py")) if not file.name.startswith("test_")]
    base = _hash([*sources, *(file for file in helpers if file.parent != Path(__file__).parent)])
    written = _hash(sorted((tests / "conversations").rglob("*.yaml")))
    stamps = {}
    for file in _files(places):
        name = str(file.relative_to(ROOT))
        more = written if file.parent.name == "conformance" else ""
        stamps[name] = hashlib.sha256(f"{base}{more}{name}{_hash([file])}".encode()).hexdigest()[:24]
    return stamps


def _files(places: Sequence[str]) -> Iterator[Path]:
    for place in places:
        found = ROOT / place
        yield from sorted(found.rglob("test_*.py")) if found.is_dir() else [found]


def _hash(files: Sequence[Path]) -> str:
    found = hashlib.sha256()
    for file in files:
        found.update(file.read_bytes())
    return found.hexdigest()
