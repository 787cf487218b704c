"""The contract of revision logs, on each database."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

import pytest

from apiserver.storage import (
    Compacted,
    Durability,
    FutureRevision,
    KeyExists,
    KeyMissing,
    Record,
    RevisionConflict,
    RevisionLog,
    StorageUnavailable,
    Write,
    WriteRefused,
)
from tests.storage.conftest import OpenStore

pytestmark = [pytest.mark.integration, pytest.mark.real_time]


def on_the_loop(
    test: Callable[[RevisionLog], Awaitable[None]],
) -> Callable[[OpenStore], Coroutine[Any, Any, None]]:
    """Open the store for a coroutine test."""

    async def run(open_store: OpenStore) -> None:
        async with open_store() as log:
            await test(log)

    return run


async def create(log: RevisionLog, key: str, value: bytes = b"1") -> Record:
    return await log.append(Write(key, value, 0))


@on_the_loop
async def test_an_empty_store_is_at_revision_zero(log: RevisionLog) -> None:
    assert (log.revision, await log.current_revision(), log.compacted) == (0, 0, 0)
    assert await log.state() == (0, [], 0)
    assert await log.get("a/b") is None
    assert await log.after(0, 10) == []


@on_the_loop
async def test_rows_say_how_a_key_came_to_be(log: RevisionLog) -> None:
    first = await create(log, "a/x", b"one")
    second = await log.append(Write("a/x", b"two", first.revision))
    gone = await log.append(Write("a/x", b"last", second.revision, deleted=True))
    again = await create(log, "a/x", b"new")
    assert [first, second, gone, again] == [
        Record(1, "a/x", 1, 0, False, b"one"),
        Record(2, "a/x", 1, 1, False, b"two"),
        Record(3, "a/x", 1, 2, True, b"last"),
        Record(4, "a/x", 4, 3, False, b"new"),
    ]
    assert await log.after(0, 10) == [first, second, gone, again]
    assert await log.after(1, 2) == [second, gone]
    assert [await log.get("a/x", at) for at in (1, 2, 3, 4)] == [first, second, None, again]
    assert await log.get("a/x") == again


@on_the_loop
async def test_a_write_must_meet_its_expectation(log: RevisionLog) -> None:
    there = await create(log, "a/x")
    for write, error, found in [
        (Write("a/x", b"", 0), KeyExists, there.revision),
        (Write("a/x", b"", there.revision + 7), RevisionConflict, there.revision),
        (Write("a/x", b"", there.revision + 7, deleted=True), RevisionConflict, there.revision),
        (Write("a/x", b"", 0, deleted=True), RevisionConflict, there.revision),
        (Write("a/y", b"", there.revision), KeyMissing, 0),
        (Write("a/y", b"", 0, deleted=True), KeyMissing, 0),
        (Write("a/y", b"", 5, deleted=True), KeyMissing, 0),
    ]:
        with pytest.raises(error) as refused:
            await log.append(write)
        assert type(refused.value) is error
        assert refused.value.revision == found
    assert log.revision == there.revision
    gone = await log.append(Write("a/x", b"", there.revision, deleted=True))
    with pytest.raises(KeyMissing):
        await log.append(Write("a/x", b"", gone.revision))


@on_the_loop
async def test_writes_that_share_a_commit_succeed_or_fail_alone(log: RevisionLog) -> None:
    """All of these are waiting when the commit begins, and they see each other in the order of their calls."""
    answers = await asyncio.gather(
        log.append(Write("a/x", b"1", 0)),
        log.append(Write("a/x", b"2", 0)),
        log.append(Write("a/x", b"3", 1)),
        log.append(Write("a/y", b"4", 9)),
        log.append(Write("a/x", b"5", 2, deleted=True)),
        log.append(Write("a/x", b"6", 0)),
        return_exceptions=True,
    )
    assert [type(answer) for answer in answers] == [Record, KeyExists, Record, KeyMissing, Record, Record]
    assert [answer.revision for answer in answers if isinstance(answer, Record | WriteRefused)] == [1, 1, 2, 0, 3, 4]
    assert [record.value for record in await log.after(0, 10)] == [b"1", b"3", b"5", b"6"]


@on_the_loop
async def test_the_feed_brings_each_row_once_in_order_and_before_the_answer(log: RevisionLog) -> None:
    seen: list[Record] = []
    unsubscribe = log.subscribe(seen.extend)

    async def writer(name: str) -> None:
        expected = 0
        for turn in range(10):
            record = await log.append(Write(f"a/{name}", b"%d" % turn, expected))
            assert seen[record.revision - 1] == record
            assert log.revision >= record.revision
            expected = record.revision

    await asyncio.gather(*(writer(str(number)) for number in range(8)))
    assert [record.revision for record in seen] == list(range(1, 81))
    unsubscribe()
    await create(log, "b/x")
    assert len(seen) == 80


@on_the_loop
async def test_a_failing_subscriber_harms_neither_writers_nor_other_subscribers(log: RevisionLog) -> None:
    seen: list[Record] = []
    failures: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: failures.append(context))

    def broken(records: Sequence[Record]) -> None:
        raise ValueError("broken subscriber")

    log.subscribe(broken)
    log.subscribe(seen.extend)
    record = await create(log, "a/x")
    assert seen == [record]
    assert [str(failure["exception"]) for failure in failures] == ["broken subscriber"]


@on_the_loop
async def test_a_write_whose_asker_went_away_is_committed(log: RevisionLog) -> None:
    asker = asyncio.ensure_future(log.append(Write("a/x", b"1", 0)))
    asker.cancel()
    with pytest.raises(KeyExists):
        await create(log, "a/x")


@on_the_loop
async def test_state_lists_live_rows_in_key_order_at_any_revision(log: RevisionLog) -> None:
    names = ["a/b/z", "a/b/a", "a/c", "b/x", "a/b-/y", "a/bé/ü", "a/b\U0001f600"]
    rows = {name: await create(log, name) for name in names}
    middle = log.revision
    await log.append(Write("a/b/a", b"2", rows["a/b/a"].revision))
    await log.append(Write("a/b/z", b"", rows["a/b/z"].revision, deleted=True))
    state = await log.state("a/", middle)
    assert [record.key for record in state.records] == sorted(name for name in names if name.startswith("a/"))
    assert all(record == rows[record.key] for record in state.records)
    now = await log.state("a/b/")
    assert [(record.key, record.value) for record in now.records] == [("a/b/a", b"2")]
    assert now.revision == log.revision
    assert (await log.state("nope/")).records == []
    assert len((await log.state()).records) == 6


@on_the_loop
async def test_state_can_be_read_in_pages(log: RevisionLog) -> None:
    rows = [await create(log, f"a/{number:03}") for number in range(23)]
    at = log.revision
    await log.append(Write("a/010", b"", rows[10].revision, deleted=True))
    await create(log, "a/0105")
    found, start, remaining = [], "", []
    while True:
        page = await log.state("a/", at, start=start, limit=7)
        assert page.revision == at
        found += page.records
        remaining.append(page.remaining)
        if not page.remaining:
            break
        start = page.records[-1].key + "\0"
    assert found == rows
    assert remaining == [16, 9, 2, 0]


@on_the_loop
async def test_history_tells_what_each_row_replaced(log: RevisionLog) -> None:
    first = await create(log, "a/x", b"1")
    await create(log, "b/x")
    second = await log.append(Write("a/x", b"2", first.revision))
    gone = await log.append(Write("a/x", b"3", second.revision, deleted=True))
    again = await create(log, "a/x", b"4")
    assert await log.history("a/", 0, log.revision, 10) == [
        (first, None),
        (second, first),
        (gone, second),
        (again, None),
    ]
    assert await log.history("a/", first.revision, gone.revision, 1) == [(second, first)]


@on_the_loop
async def test_the_future_cannot_be_read(log: RevisionLog) -> None:
    await create(log, "a/x")
    for read in (log.state("a/", 2), log.get("a/x", 2), log.after(2, 1), log.compact(2), log.history("a/", 2, 3, 1)):
        with pytest.raises(FutureRevision):
            await read


@on_the_loop
async def test_compaction_keeps_the_state_at_its_revision_and_all_that_follows(log: RevisionLog) -> None:
    one = await create(log, "a/one", b"1")
    two = await create(log, "a/two", b"2")
    two_later = await log.append(Write("a/two", b"2b", two.revision))
    dead = await create(log, "a/dead")
    await log.append(Write("a/dead", b"", dead.revision, deleted=True))
    at = log.revision
    one_later = await log.append(Write("a/one", b"1b", one.revision))
    assert await log.compact(at) == 3
    assert log.compacted == at
    assert (await log.state("a/", at)).records == [one, two_later]
    assert (await log.state("a/")).records == [one_later, two_later]
    assert await log.history("a/", at, log.revision, 10) == [(one_later, one)]
    for read in (log.state("a/", at - 1), log.after(at - 1, 1), log.get("a/one", at - 1), log.history("", 0, at, 1)):
        with pytest.raises(Compacted) as gone:
            await read
        assert gone.value.bound == at
    with pytest.raises(Compacted):
        await log.compact(at - 1)
    assert await log.compact(at) == 0


@on_the_loop
async def test_a_key_may_come_back_before_and_after_its_deletion_is_compacted(log: RevisionLog) -> None:
    for turn in range(4):
        there = await create(log, "a/x", b"%d" % turn)
        await log.append(Write("a/x", b"", there.revision, deleted=True))
        if turn % 2:
            await log.compact(log.revision)
            assert (await log.state()).records == []
    assert log.revision == 8
    assert (await create(log, "a/x")).revision == 9


@on_the_loop
async def test_compaction_runs_beside_writers(log: RevisionLog) -> None:
    """Writers go on while thousands of rows are swept, and no state that may be read is touched."""
    expected = {f"a/{number}": (await create(log, f"a/{number}")).revision for number in range(16)}

    async def writer(key: str) -> None:
        for _ in range(40):
            expected[key] = (await log.append(Write(key, b"x" * 100, expected[key]))).revision

    async def compactor() -> int:
        gone = 0
        while log.revision < 600:
            gone += await log.compact(log.revision)
            assert len((await log.state("a/")).records) == 16
        return gone

    _, gone = await asyncio.gather(asyncio.gather(*map(writer, expected)), compactor())
    assert gone + await log.compact(log.revision) == 16 * 40
    state = await log.state()
    assert {record.key: record.revision for record in state.records} == expected
    seen = [record.revision for record in await log.after(log.compacted, 1000)]
    assert seen == []


@on_the_loop
async def test_reset_empties_the_store_but_for_what_is_to_stay(log: RevisionLog) -> None:
    seen: list[Record] = []
    kept = await create(log, "ns/default")
    rows = [await create(log, f"pod/{number:02}", b"%d" % number) for number in range(30)]
    gone = await log.append(Write("pod/07", b"", rows[7].revision, deleted=True))
    log.subscribe(seen.extend)
    before = log.revision
    assert await log.reset(keep=["ns/default", "pod/0", "other"]) == 29
    assert (await log.state()).records == [kept]
    assert log.revision == before + 29
    assert [(record.key, record.value, record.deleted) for record in seen] == [
        (row.key, row.value, True) for row in rows if row.key != gone.key
    ]
    assert [record.revision for record in seen] == list(range(before + 1, log.revision + 1))
    assert await log.after(before, 100) == seen
    assert (await create(log, "pod/00")).revision == log.revision
    assert await log.reset(["ns/default", "pod/00"]) == 0
    assert await log.reset() == 2


@on_the_loop
async def test_reset_takes_its_turn_among_the_writes(log: RevisionLog) -> None:
    first, count, second = await asyncio.gather(
        log.append(Write("a/x", b"1", 0)), log.reset(), log.append(Write("a/x", b"2", 0))
    )
    assert (first.revision, count, second.revision) == (1, 1, 3)


@on_the_loop
async def test_the_first_thing_remembered_under_a_name_stays(log: RevisionLog) -> None:
    assert await log.get_meta("uid") is None
    assert await log.get_or_set_meta("uid", b"one") == b"one"
    assert await log.get_or_set_meta("uid", b"two") == b"one"
    await log.delete_meta("uid", b"two")
    assert await log.get_meta("uid") == b"one", "only its own value deletes it"
    await log.delete_meta("uid", b"one")
    assert await log.get_or_set_meta("uid", b"two") == b"two"


@on_the_loop
async def test_large_and_odd_values_are_kept_as_they_are(log: RevisionLog) -> None:
    for number, value in enumerate([b"", b"\0\xff", b"x" * 1_500_000]):
        record = await create(log, f"a/{number}", value)
        assert record.value == value
        assert await log.get(f"a/{number}") == record


async def test_closing_commits_what_waits_and_refuses_what_comes_later(open_store: OpenStore) -> None:
    async with open_store() as log:
        writes = [log.append(Write(f"a/{number}", b"", 0)) for number in range(5)]
        closing = asyncio.ensure_future(log.close())
        assert [(await write).revision for write in writes] == [1, 2, 3, 4, 5]
        await closing
        with pytest.raises(StorageUnavailable):
            await log.append(Write("a/x", b"", 0))
        with pytest.raises(StorageUnavailable):
            await log.state()


async def test_a_store_that_is_opened_again_goes_on_where_it_was(
    open_store: OpenStore, target: tuple[str, Durability]
) -> None:
    if target[0] == "memory:":
        pytest.skip("ends with the process")

    async with open_store() as log:
        kept = await create(log, "a/x")
        gone = await create(log, "a/gone")
        await log.append(Write("a/gone", b"", gone.revision, deleted=True))
        await log.get_or_set_meta("uid", b"one")
    async with open_store() as log:
        assert (log.revision, log.compacted) == (3, 0)
        assert (await log.state()).records == [kept]
        with pytest.raises(KeyExists):
            await create(log, "a/x")
        assert (await create(log, "a/gone")) == Record(4, "a/gone", 4, 3, False, b"1")
        await log.compact(4)
        assert await log.get_or_set_meta("uid", b"two") == b"one"
    async with open_store() as log:
        assert (log.revision, log.compacted) == (4, 4)
        assert [record.key for record in (await log.state()).records] == ["a/gone", "a/x"]


@on_the_loop
async def test_a_row_says_who_wrote_it_and_when(log: RevisionLog) -> None:
    first = await log.append(Write("a/x", b"1", 0, author="me"))
    second = await log.append(Write("a/x", b"2", first.revision, author="you"))
    await log.append(Write("a/x2", b"3", 0))
    await log.reset((), "reset")
    newest, changed, created = await log.signed_rows("a/x", "a/x\1", 10)
    assert [(row.record, row.author) for row in (changed, created)] == [(second, "you"), (first, "me")]
    assert (newest.record.deleted, newest.author) == (True, "reset")
    assert created.written <= changed.written <= newest.written
    assert [row.author for row in await log.signed_rows("a/x", "a/x\1", 1)] == ["reset"]
    assert [row.author for row in await log.signed_rows("a/x2", "a/x3", 10)] == ["reset", ""]


@on_the_loop
async def test_a_time_leads_to_the_newest_revision_of_then(log: RevisionLog) -> None:
    assert await log.revision_at(1 << 60) == 0
    revisions = []
    for number in range(3):
        revisions.append((await create(log, f"a/{number}")).revision)
        await asyncio.sleep(0.002)
    times = [await log.time_of(revision) for revision in revisions]
    assert [await log.revision_at(time) for time in times] == revisions
    assert [await log.revision_at(time - 1) for time in times] == [0, *revisions[:2]]
    await log.compact(revisions[1])
    assert await log.revision_at(times[0]) == 0, "the state of then is not kept"
    assert await log.time_of(revisions[2] + 1) == 0


@on_the_loop
async def test_authors_stay_with_rows_that_compaction_keeps(log: RevisionLog) -> None:
    first = await log.append(Write("a/x", b"1", 0, author="me"))
    second = await log.append(Write("a/x", b"2", first.revision, author="you"))
    await log.compact(second.revision)
    assert [row.author for row in await log.signed_rows("a/x", "a/x\1", 10)] == ["you"]
