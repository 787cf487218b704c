"""Several servers on one database act as one, and the checker notices when they do not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.servers.checker import check
from tests.servers.clients import ALL
from tests.servers.cluster import Cluster
from tests.servers.history import History, List, Read, Segment, Write, judge
from tests.servers.truth import Row, Truth
from tests.servers.wire import Line
from tests.support.postgres import Database

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    """Start a database that tests may restart."""
    with Database() as started:
        yield started


@pytest.mark.real_time
async def test_servers_that_start_together_create_built_in_objects_once(database: Database, tmp_path: Path) -> None:
    cluster = Cluster(database, tmp_path, 3, (), seed=1)
    try:
        await cluster.start()
        lines = [Line(server.url) for server in cluster.up()]
        lists = [await line.ask("GET", "/api/v1/namespaces") for line in lines]
        for line in lines:
            line.close()
    finally:
        await cluster.close()
    assert cluster.counts["starts that failed"] == 0, cluster.slots[0].log.read_text()
    assert sorted(item["metadata"]["name"] for item in lists[0].body["items"]) == [
        "default",
        "kube-node-lease",
        "kube-public",
        "kube-system",
    ]
    assert lists[0].body == lists[1].body == lists[2].body


@pytest.mark.real_time
async def test_pages_of_one_list_come_from_several_servers(database: Database, tmp_path: Path) -> None:
    cluster = Cluster(database, tmp_path, 2, (), seed=1)
    try:
        await cluster.start()
        one, two = (Line(server.url) for server in cluster.up())
        for number in range(6):
            made = await one.ask(
                "POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": f"page{number}"}}
            )
            assert made.status == 201
            page = await two.ask("GET", f"{ALL}?limit={number + 1}")
            assert [item["metadata"]["name"] for item in page.body["items"]] == [
                f"page{each}" for each in range(number + 1)
            ]
        first = await one.ask("GET", f"{ALL}?limit=3")
        await one.ask("DELETE", "/api/v1/namespaces/default/configmaps/page4")
        rest = await two.ask("GET", f"{ALL}?limit=3&continue={first.body['metadata']['continue']}")
        assert [item["metadata"]["name"] for item in rest.body["items"]] == ["page3", "page4", "page5"]
        assert rest.revision == first.revision
        one.close()
        two.close()
    finally:
        await cluster.close()


def test_nothing_is_lost_repeated_reordered_or_stale_while_servers_are_killed(
    database: Database, tmp_path: Path
) -> None:
    report = asyncio.run(check(database, tmp_path, kills=5, seed=11, pause=0.3))
    print(report)
    assert not report.wrong
    assert int(report.figures["writes answered"]) > 20


# The checker itself: each of these histories breaks one rule.

KEY = "default/a"
ROWS = [
    Row(1, KEY, False, "op1", "red", "u"),
    Row(2, KEY, False, "op2", "blue", "u"),
    Row(3, "default/b", False, "op3", "red", "v"),
    Row(4, KEY, True, "op2", "blue", "u"),
]
WRITES = [
    Write("op1", KEY, 0, 1, "done", 1),
    Write("op2", KEY, 2, 3, "done", 2, base=1),
    Write("op3", "default/b", 4, 5, "done", 3),
    Write("", KEY, 6, 7, "done", uid="u"),
]
RIGHT = History(
    writes=WRITES,
    reads=[
        Read(KEY, 3, 4, 2),
        Read(KEY, 2.5, 2.8, 1),
        Read(KEY, 8, 9, 0),
        Read(KEY, 5, 6.5, 0),
        Read(KEY, 8, 9, 2, least=2),
    ],
    lists=[
        List(5, 5.5, 3, (2, 3)),
        List(8, 9, 4, (3,)),
        List(8, 9, 1, (1,), fresh=False, exact=1),
        List(5, 6, 3, (3,), color="red"),
    ],
    segments=[
        Segment("all", "", 0, [("ADDED", 1), ("MODIFIED", 2), ("ADDED", 3), ("DELETED", 4)]),
        Segment("red", "red", 0, [("ADDED", 1), ("DELETED", 2), ("ADDED", 3)]),
    ],
)


def test_a_right_history_is_right() -> None:
    assert judge(RIGHT, Truth(ROWS)) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"writes": [Write("op9", KEY, 0, 1, "done", 1)]}, "is lost"),
        ({"writes": [Write("op1", KEY, 0, 1, "done", 2)]}, "happened at revision 1"),
        ({"writes": [Write("op1", KEY, 0, 1, "refused")]}, "refused write happened"),
        ({"writes": [Write("op2", KEY, 0, 1, "done", 2, base=7)]}, "unseen"),
        ({"writes": [WRITES[3], WRITES[3]]}, "2 clients were told"),
        ({"reads": [Read(KEY, 4, 5, 1)]}, "stale"),
        ({"reads": [Read(KEY, 4, 5, 0)]}, "stale"),
        ({"reads": [Read(KEY, 8, 9, 2)]}, "stale"),
        ({"reads": [Read(KEY, 1, 1.5, 2)]}, "impossible"),
        ({"reads": [Read(KEY, 8, 9, 1, least=2)]}, "stale"),
        ({"reads": [Read(KEY, 8, 9, 0, exists=True)]}, "stale"),
        ({"lists": [List(5.2, 5.5, 2, (2,))]}, "stale list"),
        ({"lists": [List(5, 5.5, 3, (2,))]}, "misses [3]"),
        ({"lists": [List(8, 9, 4, (2, 3))]}, "has [2]"),
        ({"lists": [List(8, 9, 2, (2,), fresh=False, exact=1)]}, "stale list"),
        ({"lists": [List(8, 9, 2, (2,), fresh=False, least=3)]}, "stale list"),
        (
            {"segments": [Segment("w", "", 0, [("ADDED", 1), ("ADDED", 3), ("DELETED", 4)])]},
            "('ADDED', 3) where ('MODIFIED', 2)",
        ),
        (
            {"segments": [Segment("w", "", 0, [("ADDED", 1), ("MODIFIED", 2), ("MODIFIED", 2)])]},
            "w since 0: 3 events instead of 2",
        ),
        ({"segments": [Segment("w", "", 0, [("MODIFIED", 2), ("ADDED", 1)])]}, "where ('ADDED', 1)"),
        ({"segments": [Segment("w", "red", 0, [("ADDED", 1), ("MODIFIED", 2)])]}, "where ('DELETED', 2)"),
        ({"segments": [Segment("w", "", 0, [("ADDED", 1)], reached=4)]}, "1 events instead of 4"),
        ({"seen": {2: (KEY, "op1")}}, "was seen at revision 2"),
        ({"faults": ["500"]}, "500"),
    ],
)
def test_a_wrong_history_is_found(change: dict[str, object], words: str) -> None:
    found = judge(replace(RIGHT, **change), Truth(ROWS))  # type: ignore[arg-type]
    assert any(words in line for line in found), found


def test_a_write_that_happened_twice_is_found() -> None:
    twice = [*ROWS, Row(5, "default/c", False, "op3", "red", "w")]
    assert any("happened 2 times" in line for line in judge(RIGHT, Truth(twice)))
