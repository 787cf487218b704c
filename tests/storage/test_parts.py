"""Parts of the storage: the publisher, entries and events, failed commits, files, and heads of keys."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from apiserver.storage import Compacted, FutureRevision, StorageUnavailable, UnusableDatabase, Write, open_log
from apiserver.storage.log import queries
from apiserver.storage.log.rows import Heads, Publisher, check_past
from apiserver.storage.log.types import (
    Durability,
    Expired,
    Record,
    RevisionUnavailable,
    Snapshot,
    WriteRefused,
)
from apiserver.storage.sqlite.disk_reserve import RESERVE, Reserve
from apiserver.storage.sqlite.file_watchdog import FileWatchdog
from apiserver.storage.sqlite.log import SqliteLog, _sweep
from apiserver.storage.sqlite.opening import connect, identity_of
from apiserver.storage.sqlite.size import bytes_of
from apiserver.storage.sqlite.writer import INSERT, _commit
from apiserver.storage.watchcache.cache import RowConverter
from apiserver.storage.watchcache.entry import Batch, Entry, Event, FleetingEvent
from tests.storage.caches import Store, a_store, with_store

pytestmark = pytest.mark.integration


def row(revision: int, key: str = "a", *, deleted: bool = False, **spec: object) -> Record:
    value = json.dumps({"metadata": {"name": key}, "spec": spec}, separators=(",", ":")).encode()
    return Record(revision, key, revision, 0, deleted, value)


# Publishing rows


def test_rows_are_handed_out_once_in_order_and_without_a_gap() -> None:
    publisher = Publisher(5)
    seen: list[int] = []
    lost: list[Snapshot] = []
    leave = publisher.subscribe(lambda records: seen.extend(each.revision for each in records), lost.append)
    publisher.subscribe(lambda records: None, None)
    publisher.publish([])
    publisher.publish([row(6), row(7)])
    publisher.publish([row(7)])
    publisher.publish([row(6), row(7), row(8)])
    assert (seen, publisher.position) == ([6, 7, 8], 8)
    for gap in ([row(10)], [row(9), row(11)], [row(9), row(9)]):
        with pytest.raises(AssertionError, match="do not follow 8"):
            publisher.publish(gap)
    snapshot = Snapshot(20, [row(20)])
    publisher.replace(snapshot)
    assert (lost, publisher.position) == ([snapshot], 20)
    leave()
    leave()
    publisher.publish([row(21)])
    assert (seen, publisher.position) == ([6, 7, 8], 21)


async def test_a_subscriber_that_fails_when_rows_are_lost_does_not_stop_the_others() -> None:
    failures: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(str(context["exception"])))
    publisher = Publisher(0)
    snapshots: list[Snapshot] = []

    def broken(_: object) -> None:
        raise ValueError("broken")

    publisher.subscribe(lambda records: None, broken)
    publisher.subscribe(lambda records: None, snapshots.append)
    snapshot = Snapshot(3, [])
    publisher.replace(snapshot)
    assert (snapshots, failures, publisher.position) == ([snapshot], ["broken"], 3)


def test_a_past_is_told_from_what_was_compacted_to_the_present() -> None:
    for revision in (3, 5, 7):
        check_past(revision, 3, 7)
    with pytest.raises(Compacted):
        check_past(2, 3, 7)
    with pytest.raises(FutureRevision):
        check_past(8, 3, 7)


# Entries and events


def remembered(entry: Entry) -> bool:
    return entry._obj is not None or entry._encodings is not None


@pytest.mark.parametrize(
    ("kind", "deleted", "kept"), [(Event, False, True), (Event, True, False), (FleetingEvent, False, False)]
)
def test_an_event_lets_go_of_what_can_be_made_again_but_for_the_present_state(
    kind: type[Event], deleted: bool, kept: bool
) -> None:
    old, new = Entry(row(1), json.loads), Entry(row(2), json.loads)
    event = kind(old, new, deleted)
    departed = event.departed
    assert (departed.revision, departed.obj["metadata"]["resourceVersion"]) == (2, "2")
    event.encodings["x"] = old.encodings["x"] = new.encodings["x"] = 1
    assert old.obj["metadata"]["resourceVersion"] == "1"
    assert new.obj["metadata"]["resourceVersion"] == "2"
    event.drop_derived()
    assert (remembered(old), remembered(new)) == (False, kept)
    assert event.encodings == {}
    assert event.departed is not departed
    assert old.obj["metadata"]["name"] == "a", "it is made again"
    kind(None, new, deleted).drop_derived()
    with pytest.raises(ValueError, match="a was not alive before revision 2"):
        _ = kind(None, new, deleted).departed


def test_an_object_is_decoded_once_or_handed_over() -> None:
    def decode(raw: bytes) -> object:
        raise AssertionError(raw)

    entry = Entry(row(1), decode)
    mine: dict[str, object] = {"metadata": {}}
    entry.prime(mine)
    assert entry.obj is mine
    entry.prime({})
    assert entry.obj is mine
    batch = Batch([1, 2])
    assert (batch, batch.forms) == ([1, 2], {})


@with_store
async def test_a_cache_that_is_shown_in_another_form_keeps_what_is_stored(store: Store) -> None:
    def shown(by: str) -> RowConverter:
        return lambda record: record._replace(value=record.value.replace(b'"n":1', b'"n":"%b"' % by.encode()))

    await store.put("a", n=1)
    await store.put("b", n=2)
    pods = store.pods
    for present, value in ((shown("x"), "x"), (shown("y"), "y"), (None, 1), (shown("z"), "z")):
        cursor = pods.cursor(store.log.revision)
        store.entry("b").encodings["x"] = 1
        pods.change_form({}, present)
        assert store.entry("a").obj["spec"] == {"n": value}
        assert store.entry("b").obj["spec"] == {"n": 2}
        assert "x" not in store.entry("b").encodings
        assert cursor.closed
        assert len(pods.list().entries) == 2
    await store.put("c", n=1)
    assert store.entry("c").obj["spec"] == {"n": "z"}
    await store.put("c", n=3)
    await store.delete("a")
    pods.change_form({}, shown("w"))
    assert [entry.obj["spec"]["n"] for entry in pods.list().entries] == [2, 3], "of what was stored last"


# Failed commits


def database() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("CREATE TABLE counter (id INTEGER, revision INTEGER, swept INTEGER)")
    connection.execute("INSERT INTO counter VALUES (1, 5, 0)")
    return connection


def test_a_commit_or_a_sweep_that_fails_leaves_nothing_behind() -> None:
    connection = database()
    connection.execute("PRAGMA synchronous = 2")
    with pytest.raises(sqlite3.OperationalError, match="no such table: log"):
        _commit(connection, [(INSERT, [(6, "a", 6, 0, 0, b"", 0)])], 5, 6)
    assert not connection.in_transaction
    with pytest.raises(sqlite3.OperationalError, match="no such table: log"):
        _sweep(connection, {"low": 0, "high": 3})
    assert not connection.in_transaction
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
    connection.execute(f"CREATE TABLE log ({queries.COLUMNS})")
    with pytest.raises(StorageUnavailable, match="another process changed the database; restart the server"):
        _commit(connection, [(INSERT, [(6, "a", 6, 0, 0, b"", 0)])], 4, 6)
    assert not connection.in_transaction
    assert connection.execute("SELECT count(*) FROM log").fetchone() == (0,)
    _commit(connection, [(INSERT, [(6, "a", 6, 0, 0, b"", 0)])], 5, 6)
    counter = "SELECT revision, swept FROM counter"
    assert (connection.execute(counter).fetchone(), connection.in_transaction) == ((6, 0), False)
    _sweep(connection, {"low": 0, "high": 3})
    assert (connection.execute(counter).fetchone(), connection.in_transaction) == ((6, 3), False)


async def test_a_read_that_fails_is_told_as_the_storages_failure() -> None:
    async with a_store() as store:
        await store.put("a")
        assert isinstance(store.log, SqliteLog)
        store.log._connection.execute("ALTER TABLE log RENAME TO gone")
        with pytest.raises(StorageUnavailable, match="the read failed: no such table: log"):
            await store.log.state("")
        store.log._connection.execute("ALTER TABLE gone RENAME TO log")
        assert len((await store.log.state("")).records) == 1


# Files


async def test_what_cannot_be_read_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "kubedra.db").mkdir()
    with pytest.raises(UnusableDatabase) as refused:
        await open_log(str(tmp_path))
    assert str(refused.value) == f"{tmp_path / 'kubedra.db'} cannot be read: Is a directory"


async def test_a_store_that_is_closed_gives_back_its_reserve_and_its_size_is_that_of_its_files(tmp_path: Path) -> None:
    log = await open_log(str(tmp_path))
    await log.append(Write("a", b"1", 0))
    assert (bytes_of("sqlite", tmp_path) or 0) >= 4096
    held = (tmp_path / "reserve").exists()
    await log.close()
    assert not (tmp_path / "reserve").exists()
    assert held or os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize < 2 * RESERVE
    assert (bytes_of("memory", tmp_path), bytes_of("postgres", tmp_path)) == (0, None)
    sizes = [file.stat().st_size for file in tmp_path.iterdir() if file.name.startswith("kubedra.db")]
    assert bytes_of("sqlite", tmp_path) == sum(sizes)
    assert bytes_of("sqlite", tmp_path / "none") == 0


def test_a_reserve_is_taken_where_twice_its_size_is_free_and_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reserve, file = Reserve(tmp_path), tmp_path / "reserve"

    def pretend(blocks: int) -> Callable[[object], object]:
        return lambda _: type("Found", (), {"f_bavail": blocks, "f_frsize": 1})()

    monkeypatch.setattr("apiserver.storage.sqlite.disk_reserve.RESERVE", 4096)
    monkeypatch.setattr(os, "statvfs", pretend(2 * 4096 - 1))
    assert (reserve.allocate(), file.exists()) == (False, False)
    monkeypatch.setattr(os, "statvfs", pretend(2 * 4096))
    assert (reserve.allocate(), file.stat().st_size) == (True, 4096)
    made = file.stat().st_ino
    assert (reserve.allocate(), file.stat().st_ino) == (True, made), "it is there already"
    reserve.release()
    reserve.release()
    assert not file.exists()
    file.write_bytes(b"torn")
    assert (reserve.allocate(), file.stat().st_size) == (True, 4096)
    missing = Reserve(tmp_path / "none")
    assert not missing.allocate()


# Heads of keys


def decided(heads: Heads, key: str, expected: int, revision: int, *, deleted: bool = False) -> Record | str:
    made = heads.decide(Write(key, b"", expected, deleted=deleted), revision)
    return f"{type(made).__name__} {made}" if isinstance(made, WriteRefused) else made


def test_a_write_follows_the_last_row_of_its_key_or_is_told_where_that_is() -> None:
    heads = Heads([("alive", 5, 3), ("dead", 6, 0)])
    assert decided(heads, "alive", 5, 9) == Record(9, "alive", 3, 5, False, b"")
    assert decided(heads, "alive", 5, 9, deleted=True) == Record(9, "alive", 3, 5, True, b"")
    assert decided(heads, "dead", 0, 9) == Record(9, "dead", 9, 6, False, b"")
    assert decided(heads, "new", 0, 9) == Record(9, "new", 9, 0, False, b"")
    for key, expected, deleted, words in (
        ("alive", 4, False, "RevisionConflict alive: expected revision 4, found 5"),
        ("alive", 0, False, "KeyExists alive: expected revision 0, found 5"),
        ("alive", 0, True, "RevisionConflict alive: expected revision 0, found 5"),
        ("dead", 6, False, "KeyMissing dead: expected revision 6, found 0"),
        ("new", 1, False, "KeyMissing new: expected revision 1, found 0"),
        ("new", 0, True, "KeyMissing new: expected revision 0, found 0"),
    ):
        assert decided(heads, key, expected, 9, deleted=deleted) == words


def test_what_was_taken_is_put_back_and_what_is_swept_forgotten() -> None:
    heads = Heads([("a", 1, 1), ("b", 2, 2), ("c", 4, 0), ("d", 3, 0)])
    taken = [
        heads.advance(Record(5, "a", 1, 1, True, b"")),
        heads.advance(Record(6, "n", 6, 0, False, b"")),
        heads.advance(Record(7, "n", 6, 6, False, b"")),
    ]
    assert heads.live_revisions(frozenset()) == [2, 7]
    assert heads.live_revisions(frozenset({"n"})) == [2]
    heads.restore(taken)
    assert heads.live_revisions(frozenset()) == [1, 2]
    assert heads.live_revisions(frozenset({"x", "a"})) == [2]
    heads.advance(Record(8, "a", 1, 1, True, b""))
    heads.advance(Record(9, "c", 9, 4, False, b""))
    heads.drop_swept(3)
    assert decided(heads, "d", 0, 10) == Record(10, "d", 10, 0, False, b"")
    assert decided(heads, "a", 0, 10) == Record(10, "a", 10, 8, False, b"")
    heads.drop_swept(8)
    assert decided(heads, "a", 0, 10) == Record(10, "a", 10, 0, False, b"")
    assert heads.live_revisions(frozenset()) == [2, 9], "what lives again is not forgotten with its grave"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (Expired(2, 3), "revision 2 is too old (the oldest is 3)"),
        (Compacted(2, 3), "revision 2 is compacted (up to 3)"),
        (FutureRevision(5, 3), "revision 5 is in the future (now 3)"),
    ],
)
def test_a_revision_that_cannot_be_had_is_told_with_the_nearest(error: RevisionUnavailable, words: str) -> None:
    assert (str(error), error.bound) == (words, 3)


def test_a_connection_syncs_as_durability_says_and_new_files_are_told_apart(tmp_path: Path) -> None:
    identities = set()
    for durability, level in ((Durability.FULL, 2), (Durability.NORMAL, 1), (Durability.OFF, 0)):
        connection = connect(tmp_path / durability, durability)
        assert connection.execute("PRAGMA synchronous").fetchone() == (level,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        identities.add(identity_of(connection))
        connection.close()
        again = connect(tmp_path / durability, durability)
        assert identity_of(again) in identities
        again.close()
    assert len(identities) == 3
    assert 0 not in identities


def test_a_guard_that_is_closed_lets_go_of_its_file_and_its_thread(tmp_path: Path) -> None:
    connect(tmp_path / "kubedra.db", Durability.OFF).close()
    watchdog = FileWatchdog(tmp_path / "kubedra.db")
    watchdog.start(lambda reason: None)
    thread, descriptor = watchdog._thread, watchdog._descriptor
    assert thread is not None
    assert (thread.is_alive(), watchdog.problem()) == (True, "")
    watchdog.close()
    assert not thread.is_alive()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
