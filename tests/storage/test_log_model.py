"""The log against the simplest model of one: a dict and a list."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from apiserver.storage import (
    Compacted,
    KeyExists,
    KeyMissing,
    Record,
    RevisionConflict,
    RevisionLog,
    Write,
    WriteRefused,
    open_log,
)

pytestmark = pytest.mark.integration

KEYS = st.sampled_from(["a/x", "a/y", "a/y/z", "b/x"])
WRITES = st.tuples(KEYS, st.binary(max_size=3), st.booleans(), st.sampled_from(["right", "right", "zero", "wrong"]))


class Model:
    """What a log must answer. `rows` is the whole history; compaction only forbids to look at it."""

    def __init__(self) -> None:
        self.rows: list[Record] = []
        self.compacted = 0

    def head(self, key: str) -> Record | None:
        return next((row for row in reversed(self.rows) if row.key == key), None)

    def alive(self, key: str) -> Record | None:
        head = self.head(key)
        return None if head is None or head.deleted else head

    def append(self, write: Write) -> Record | type[WriteRefused]:
        alive, head = self.alive(write.key), self.head(write.key)
        if alive is None and (write.expected or write.deleted):
            return KeyMissing
        if alive is not None and write.expected != alive.revision:
            return RevisionConflict if write.expected or write.deleted else KeyExists
        revision = len(self.rows) + 1
        row = Record(
            revision,
            write.key,
            alive.create_revision if alive else revision,
            head.revision if head else 0,
            write.deleted,
            write.value,
        )
        self.rows.append(row)
        return row

    def state(self, prefix: str, at: int) -> list[Record]:
        heads = {row.key: row for row in self.rows[:at]}
        return [heads[key] for key in sorted(heads) if key.startswith(prefix) and not heads[key].deleted]


class LogMachine(RuleBasedStateMachine):
    """Random batches, compactions, resets and re-openings, each followed by a comparison of all that can be read."""

    reopens = False

    @staticmethod
    def place() -> str:
        """Return the target of a new, empty store."""
        return "memory:"

    @initialize()
    def start(self) -> None:
        self.runner = asyncio.Runner()
        self.target = self.place()
        self.model = Model()
        self.fed: list[Record] = []
        self._open()

    def _open(self) -> None:
        self.log: RevisionLog = self.runner.run(open_log(self.target, durability="off", poll_interval=5))
        self.log.subscribe(self.fed.extend)

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.runner.run(self.log.close())
            self.runner.close()

    @rule(batch=st.lists(WRITES, min_size=1, max_size=6))
    def write(self, batch: list[tuple[str, bytes, bool, str]]) -> None:
        async def together(writes: list[Write]) -> list[Any]:
            return await asyncio.gather(*map(self.log.append, writes), return_exceptions=True)

        writes, expected = [], []
        for key, value, deleted, guess in batch:
            alive = self.model.alive(key)
            right = alive.revision if alive else 0
            write = Write(key, value, {"right": right, "zero": 0, "wrong": right + 1}[guess], deleted)
            writes.append(write)
            expected.append(self.model.append(write))
        answers = self.runner.run(together(writes))
        for answer, wanted in zip(answers, expected, strict=True):
            if isinstance(wanted, Record):
                # A deletion that is compacted cannot be named as the row before any more.
                assert answer._replace(prev_revision=0) == wanted._replace(prev_revision=0)
                assert answer.prev_revision in (wanted.prev_revision, 0)
                assert answer.prev_revision or wanted.prev_revision <= self.model.compacted
            else:
                assert type(answer) is wanted

    @precondition(lambda self: self.model.rows)
    @rule(keep=st.lists(st.sampled_from(["a/", "a/x", "a/y"]), max_size=2))
    def reset(self, keep: list[str]) -> None:
        gone = [row for row in self.model.state("", len(self.model.rows)) if row.key not in keep]
        for row in gone:
            self.model.append(Write(row.key, row.value, row.revision, deleted=True))

        async def reset() -> int:
            return await self.log.reset(keep)

        assert self.runner.run(reset()) == len(gone)

    @precondition(lambda self: self.model.rows)
    @rule(data=st.data())
    def compact(self, data: st.DataObject) -> None:
        at = data.draw(st.integers(self.model.compacted, len(self.model.rows)))
        self.runner.run(self.log.compact(at))
        self.model.compacted = at

    @precondition(lambda self: self.reopens)
    @rule()
    def reopen(self) -> None:
        self.runner.run(self.log.close())
        self._open()

    @precondition(lambda self: self.model.compacted)
    @rule(data=st.data())
    def look_before_the_compaction(self, data: st.DataObject) -> None:
        at = data.draw(st.integers(0, self.model.compacted - 1))
        for read in (self.log.state("", at), self.log.after(at, 5), self.log.history("", at, at + 1, 5)):
            with pytest.raises(Compacted):
                self.runner.run(read)

    @rule(prefix=st.sampled_from(["", "a/", "a/y", "c"]), data=st.data())
    def read_the_past(self, prefix: str, data: st.DataObject) -> None:
        at = data.draw(st.integers(self.model.compacted, len(self.model.rows)))
        assert _plain(self.runner.run(self.log.state(prefix, at)).records) == _plain(self.model.state(prefix, at))
        changes = self.runner.run(self.log.history(prefix, at, len(self.model.rows), 100))
        assert _plain(change.record for change in changes) == _plain(
            row for row in self.model.rows[at:] if row.key.startswith(prefix)
        )
        for record, old in changes:
            before = {row.key: row for row in self.model.rows[: record.revision - 1]}.get(record.key)
            assert _plain([old] if old else []) == _plain([before] if before and not before.deleted else [])

    @invariant()
    def everything_agrees(self) -> None:
        if not hasattr(self, "log"):
            return
        rows = self.model.rows
        assert self.log.revision == self.runner.run(self.log.current_revision()) == len(rows)
        assert self.log.compacted == self.model.compacted
        assert _plain(self.fed) == _plain(rows)
        assert _plain(self.runner.run(self.log.after(self.model.compacted, 1000))) == _plain(
            rows[self.model.compacted :]
        )
        assert _plain(self.runner.run(self.log.state()).records) == _plain(self.model.state("", len(rows)))


def _plain(rows: Iterable[Record]) -> list[Record]:
    return [row._replace(prev_revision=0) for row in rows]


def _run(machine: type[LogMachine], examples: int) -> None:
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples, stateful_step_count=15, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )


def test_sqlite_in_memory_behaves_as_the_model() -> None:
    _run(LogMachine, 60)


def test_sqlite_in_a_file_behaves_as_the_model(tmp_path_factory: pytest.TempPathFactory) -> None:
    class OnFile(LogMachine):
        reopens = True

        @staticmethod
        def place() -> str:
            return str(tmp_path_factory.mktemp("model"))

    _run(OnFile, 20)


def test_postgres_behaves_as_the_model(postgres_url: str) -> None:
    import psycopg

    schemas = iter(range(10**6))

    class OnPostgres(LogMachine):
        reopens = True

        @staticmethod
        def place() -> str:
            name = f"model{next(schemas)}"
            with psycopg.connect(postgres_url, autocommit=True) as connection:
                connection.execute(f"CREATE SCHEMA {name}")
            return f"{postgres_url}&options=-csearch_path%3D{name}"

    _run(OnPostgres, 8)
