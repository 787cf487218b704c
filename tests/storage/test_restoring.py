"""A log goes back to an earlier state by new rows, and begins with a state of another log, on each database."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

import pytest

from apiserver.storage import Record, RevisionLog, Snapshot, StorageUnavailable, Write
from apiserver.storage.log import restoring
from apiserver.storage.log.types import Restore
from tests.storage.conftest import OpenStore
from tests.storage.test_log_contract import create, on_the_loop

pytestmark = [pytest.mark.integration, pytest.mark.real_time]


def going_back(records: Iterable[Record], *, own: bool = True, recreated: str = "pods/") -> Restore:
    return Restore({record.key: record for record in records}, own, lambda key: key.startswith(recreated))


def content(snapshot: Snapshot) -> list[tuple[str, bytes]]:
    return [(record.key, record.value) for record in snapshot.records]


@on_the_loop
async def test_what_differs_gets_new_rows_and_the_rest_keeps_its_own(log: RevisionLog) -> None:
    for key in ("a/changed", "a/deleted", "a/same", "pods/changed"):
        await create(log, key)
    before = await log.state()
    await log.append(Write("a/changed", b"2", 1))
    await log.append(Write("a/deleted", b"1", 2, deleted=True))
    await log.append(Write("pods/changed", b"2", 4))
    await create(log, "a/new")
    seen: list[Record] = []
    log.subscribe(seen.extend)
    restored = await log.restore(going_back(before.records))
    assert (
        restored.rows
        == seen
        == [
            Record(9, "a/new", 8, 8, True, b"1"),
            Record(10, "pods/changed", 4, 7, True, b"2"),
            Record(11, "a/changed", 1, 5, False, b"1"),
            Record(12, "a/deleted", 12, 6, False, b"1"),
            Record(13, "pods/changed", 13, 10, False, b"1"),
        ]
    )
    now = await log.state()
    assert content(now) == content(before)
    assert {record.key: record.revision for record in restored.state.values()} == {
        record.key: record.revision for record in now.records
    }
    assert await log.after(8, 100) == seen


@on_the_loop
async def test_restored_rows_have_their_time_and_the_author_of_the_restore(log: RevisionLog) -> None:
    await create(log, "a/x")
    before = await log.state()
    await log.append(Write("a/x", b"2", 1, author="you"))
    await log.restore(going_back(before.records)._replace(author="restore"))
    newest, changed, _ = await log.signed_rows("a/x", "a/x\1", 10)
    assert [newest.author, changed.author] == ["restore", "you"]
    assert newest.written >= changed.written > 0


@on_the_loop
async def test_a_state_that_is_there_already_writes_nothing(log: RevisionLog) -> None:
    await create(log, "a/x")
    state = await log.state()
    foreign = [record._replace(revision=record.revision + 70) for record in state.records]
    assert (await log.restore(going_back(state.records))).rows == []
    restored = await log.restore(going_back(foreign, own=False))
    assert (restored.rows, log.revision) == ([], 1)
    assert restored.state["a/x"].revision == 1


@on_the_loop
async def test_equal_revisions_of_another_log_say_nothing(log: RevisionLog) -> None:
    await create(log, "a/x")
    other = [Record(1, "a/x", 1, 0, False, b"other")]
    assert [row.value for row in (await log.restore(going_back(other, own=False))).rows] == [b"other"]


@on_the_loop
async def test_writes_go_on_after_a_restore(log: RevisionLog) -> None:
    first = await create(log, "a/x")
    before = await log.state()
    await log.append(Write("a/x", b"2", first.revision))
    restored = await log.restore(going_back(before.records))
    row = await log.append(Write("a/x", b"3", restored.state["a/x"].revision))
    assert (row.revision, row.create_revision, row.prev_revision) == (4, 1, 3)


@on_the_loop
async def test_a_large_restore_replaces_the_state(log: RevisionLog) -> None:
    keys = [f"a/{number:05}" for number in range(restoring.MOST_EVENTS + 1)]
    wanted = [Record(number, key, number, 0, False, b"v") for number, key in enumerate(keys, 1)]
    events: list[Sequence[Record]] = []
    states: list[Snapshot] = []
    log.subscribe(events.append, states.append)
    await log.restore(going_back(wanted, own=False))
    assert not events
    assert [content(state) for state in states] == [[(key, b"v") for key in keys]]
    assert content(await log.state()) == content(states[0])
    assert log.revision == states[0].revision == len(keys)


@pytest.mark.parametrize("seed", range(5))
async def test_any_state_of_a_random_history_can_be_reached_again(open_store: OpenStore, seed: int) -> None:
    choice = random.Random(seed)
    async with open_store() as log:
        states = [await log.state()]
        for _ in range(40):
            live = {record.key: record.revision for record in (await log.state()).records}
            key = choice.choice(["a/", "pods/"]) + choice.choice("xyz")
            deleted = key in live and choice.random() < 0.4
            await log.append(Write(key, choice.choice([b"1", b"2"]), live.get(key, 0), deleted=deleted))
            states.append(await log.state())
            if choice.random() < 0.3:
                goal = choice.choice(states)
                await log.restore(going_back(goal.records, own=choice.random() < 0.5))
                assert content(await log.state()) == content(goal)


async def test_a_loaded_store_continues_where_the_other_one_was(open_store: OpenStore) -> None:
    rows = [Record(17, "a/x", 4, 0, False, b"x"), Record(9, "b/y", 9, 0, False, b"y")]
    async with open_store() as log:
        await log.load(rows, 23, {"key": b"secret"})
        assert await log.state() == Snapshot(23, rows)
        assert (log.revision, log.compacted, await log.current_revision()) == (23, 23, 23)
        assert await log.get_meta("key") == b"secret"
        assert await log.append(Write("a/x", b"2", 17)) == Record(24, "a/x", 4, 17, False, b"2")
        assert await log.after(23, 10) == [Record(24, "a/x", 4, 17, False, b"2")]
        with pytest.raises(StorageUnavailable, match="not empty"):
            await log.load(rows, 23, {})
        assert await log.get("b/y") == rows[1]


async def test_a_loaded_store_can_be_opened_again(target: tuple[str, object], open_store: OpenStore) -> None:
    if target[0] == "memory:":
        pytest.skip("memory does not last")
    async with open_store() as log:
        await log.load([Record(17, "a/x", 4, 0, False, b"x")], 23, {})
    async with open_store() as log:
        assert (log.revision, log.compacted) == (23, 23)
        assert (await create(log, "b")).revision == 24
