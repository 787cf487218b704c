"""Record the lines that each test reaches, once, beside the repository's other caches.

A record belongs to the tests of one file. It holds for one state of the sources and of that file. Lines that run on
import are recorded separately: a change of them cannot be made by replacing a function's code.
"""

from __future__ import annotations

import ast
import hashlib
import os
import pickle
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from tests.support.wire import ROOT
from tools.mutation import servers
from tools.mutation.child import Send, run_in_child, start_in_child

CACHE = ROOT / ".mutation_cache"
#: The traced packages.
SOURCES = ("apiserver", "controllers", "kubedra")

#: The context of a test's own server: its lines count for all tests that use it.
_SERVER = "#server"
#: Fixtures with a shared server.
_SERVED_BY = frozenset({"kube", "kube_server", "plane"})

#: A bit per line, by file.
Lines = dict[str, int]


@dataclass(slots=True)
class Traced:
    """A test that passes on unchanged code: its file, the lines that it reaches, and its CPU seconds while traced."""

    file: str
    id: str
    lines: Lines
    seconds: float

    def reaches(self, path: str, first: int, last: int) -> bool:
        return bool(self.lines.get(path, 0) >> first & ((1 << last - first + 1) - 1))


@dataclass(slots=True)
class Reach:
    """The record of some test files: the tests, and the lines that run on import."""

    tests: list[Traced] = field(default_factory=list)
    imported: Lines = field(default_factory=dict)

    def on_import(self, path: str, first: int, last: int) -> bool:
        return bool(self.imported.get(path, 0) >> first & ((1 << last - first + 1) - 1))

    def add(self, other: Reach) -> None:
        self.tests += other.tests
        _merge(self.imported, other.imported)


class Tracer:
    """Records the lines of the sources that run in any thread, with coverage's tracer in C."""

    def __init__(self) -> None:
        import coverage  # a dependency of development, which the suite does without

        roots = [str(ROOT / name) for name in SOURCES]
        self._coverage = coverage.Coverage(data_file=None, config_file=False, source=roots, messages=False)
        self._coverage.set_option("run:disable_warnings", ["no-data-collected", "module-not-measured"])

    def start(self) -> None:
        self._coverage.start()

    def name(self, context: str) -> None:
        """Attribute the lines from now on to this context."""
        self._coverage.switch_context(context)

    def stop(self) -> dict[str, Lines]:
        """Stop; return the lines by context."""
        self._coverage.stop()
        data = self._coverage.get_data()
        found: dict[str, Lines] = {}
        for file in data.measured_files():
            path = os.path.relpath(file, ROOT)
            for line, names in data.contexts_by_lineno(file).items():
                for name in names:
                    lines = found.setdefault(name, {})
                    lines[path] = lines.get(path, 0) | 1 << line
        return found


class Recorder:
    """A pytest plugin that runs each file's tests in a process of its own and records the lines of each."""

    def __init__(self, stamps: dict[str, str]) -> None:
        self._stamps = stamps
        self._tracer = Tracer()
        self._tracer.start()  # before conftest.py imports most of the sources

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        imported = self._tracer.stop().get("", {})
        files: dict[str, list[pytest.Item]] = {}
        for item in (item for item in session.items if not _on_another_database(item)):
            files.setdefault(str(item.path.relative_to(ROOT)), []).append(item)
        ordered = list(files.items())
        other = start_in_child(lambda _: self._write_all(ordered[1::2], imported))
        self._write_all(ordered[::2], imported)
        if other().code != 0:
            raise SystemExit("mutation: recording the tests failed")
        return True

    def _write_all(self, files: list[tuple[str, list[pytest.Item]]], imported: Lines) -> None:
        for file, items in files:
            started = time.monotonic()
            outcome = run_in_child(partial(self._write, file, items, imported))
            if outcome.code != 0:
                raise SystemExit(f"mutation: recording the tests of {file} failed")
            print(f"recorded {file}: {len(items)} tests in {time.monotonic() - started:.1f} s", file=sys.stderr)

    def _write(self, file: str, items: list[pytest.Item], imported: Lines, _: Send) -> None:
        reach = Reach(self._record(file, items), imported)
        (CACHE / self._stamps[file]).write_bytes(pickle.dumps(reach))

    def _record(self, file: str, items: list[pytest.Item]) -> list[Traced]:
        tracer, passed = Tracer(), []
        served: set[str] = set()
        tracer.start()
        with tempfile.TemporaryDirectory() as place:
            servers.FOUND = Path(place)
            servers.TRACE = lambda: tracer.name(_SERVER), lambda: tracer.stop().get(_SERVER, {})
            for item, following in zip(items, [*items[1:], None], strict=True):
                began, started = servers.cpu_seconds(), len(servers.STARTED)
                tracer.name(item.nodeid)
                if not run_test(item, following):
                    continue
                passed.append((item.nodeid, servers.cpu_seconds() - began))
                if len(servers.STARTED) > started or _asks_a_server(item):
                    served.add(item.nodeid)
            lines = tracer.stop()
            by_servers: Lines = {}
            for found in servers.FOUND.iterdir():
                _merge(by_servers, pickle.loads(found.read_bytes()))
        for name in served:
            _merge(lines.setdefault(name, {}), by_servers)
        return [Traced(file, name, lines.get(name, {}), seconds) for name, seconds in passed]


def _asks_a_server(item: pytest.Item) -> bool:
    return not _SERVED_BY.isdisjoint(getattr(item, "fixturenames", ()))


def _merge(lines: Lines, more: Lines) -> None:
    for path, reached in more.items():
        lines[path] = lines.get(path, 0) | reached


def _on_another_database(item: pytest.Item) -> bool:
    """Return whether the test repeats a conversation on SQLite or Postgres: too slow for a mutant."""
    parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    return item.get_closest_marker("slow") is not None and parameters.get("storage", "memory") != "memory"


def run_test(item: pytest.Item, following: pytest.Item | None) -> bool:
    """Run a test with its fixtures, and keep those that the following test shares."""
    from _pytest.runner import runtestprotocol

    reports = runtestprotocol(item, log=False, nextitem=following)
    return all(report.passed for report in reports)


def load_reach(places: Sequence[str]) -> Reach:
    """Return the lines that the tests at these places reach; trace the tests without a valid record.

    The process must not have imported the sources.
    """
    CACHE.mkdir(exist_ok=True)
    stamps = _stamps(places)
    if stale := [file for file, stamp in stamps.items() if not (CACHE / stamp).exists()]:
        outcome = run_in_child(lambda _: pytest_main(stale, Recorder(stamps)))
        if outcome.code != 0:
            raise SystemExit("mutation: the tests could not be recorded; do they pass?")
    reach = Reach()
    for stamp in stamps.values():
        if (CACHE / stamp).exists():  # not where a file has no test to run
            reach.add(pickle.loads((CACHE / stamp).read_bytes()))
    return reach


def pytest_main(arguments: Sequence[str], plugin: object) -> int:
    """Run pytest in this process, without workers and with the existing imports."""
    imported = "ignore::pytest.PytestAssertRewriteWarning"
    options = ["-q", "-n0", "--capture=no", "-p", "no:cacheprovider", "-W", imported, f"--rootdir={ROOT}"]
    return int(pytest.main([*options, *arguments], [plugin, servers.Plugin()]))


def _stamps(places: Sequence[str]) -> dict[str, str]:
    """Return the record names of all test files at these places; a name hashes everything that the record depends on."""
    tests = ROOT / "tests"
    sources = _hash([file for name in SOURCES for file in sorted((ROOT / name).rglob("*.py"))])
    forked = _hash([Path(servers.__file__)])
    written = _hash(sorted((tests / "conversations").rglob("*.yaml")))
    stamps = {}
    for file in _files(places):
        name = str(file.relative_to(ROOT))
        more = written if file.parent.name == "conformance" else ""
        more += forked if re.search(r"\bkube\b|\bChild\b|ControlPlane", file.read_text()) else ""
        used = {*tests.glob("conftest.py"), *file.parent.glob("conftest.py")}
        _follow(file, used)
        stamps[name] = hashlib.sha256(f"{sources}{more}{name}{_hash(sorted(used))}".encode()).hexdigest()[:24]
    return stamps


def _follow(file: Path, used: set[Path]) -> None:
    """Add a test file and its imports."""
    used.add(file)
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            for name in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names)):
                found = ROOT / f"{name.replace('.', '/')}.py"
                if name.startswith("tests.") and found not in used and found.exists():
                    _follow(found, used)


def _files(places: Sequence[str]) -> Iterator[Path]:
    for place in places:
        found = ROOT / place
        yield from sorted(found.rglob("test_*.py")) if found.is_dir() else [found]


def _hash(files: Sequence[Path]) -> str:
    found = hashlib.sha256()
    for file in files:
        found.update(file.read_bytes())
    return found.hexdigest()
