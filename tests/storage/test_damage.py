"""Damaged stores: no wrong value, one clear line, and a repair that keeps the intact rows."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import sqlite3
import struct
from contextlib import closing
from pathlib import Path

import pytest

from apiserver.command import data as data_command
from apiserver.storage import DamagedRow, Durability, Record, UnusableDatabase, Write
from apiserver.storage.log.rows import record_of, row_of
from tests.storage.caches import opened_log

pytestmark = [pytest.mark.integration, pytest.mark.real_time]

FLIPS = 100
KEYS = 60


async def fill(directory: Path) -> Path:
    """Fill a store with 60 keys, each written three times."""
    async with opened_log(directory) as log:
        revisions: dict[str, int] = {}
        for turn in range(3):
            for number in range(KEYS):
                key = f"a/{number:03}"
                value = f"{number}:{turn}:".encode() + bytes([65 + turn]) * 300
                revisions[key] = (await log.append(Write(key, value, revisions.get(key, 0)))).revision
    return directory


async def read(directory: Path) -> dict[str, bytes]:
    """Return the state that a server would begin with."""
    async with opened_log(directory) as log:
        return {record.key: record.value for record in (await log.state()).records}


async def history(directory: Path) -> list[Record]:
    """Return every row, older ones included."""
    async with opened_log(directory) as log:
        return await log.after(0, 1000)


def test_a_row_that_is_not_what_was_written_is_refused() -> None:
    record = Record(7, "a/b", 3, 5, False, b'{"metadata":{}}')
    columns = row_of(record)
    assert record_of(columns) == record
    for place, other in enumerate((8, "a/c", 4, 6, True, b'{"metadatA":{}}', columns[6] + 1)):
        with pytest.raises(DamagedRow, match="has a wrong checksum"):
            record_of((*columns[:place], other, *columns[place + 1 :]))


def test_a_row_without_a_checksum_is_refused() -> None:
    with pytest.raises(DamagedRow):
        record_of((*Record(1, "a", 1, 0, False, b"x"), None))


async def test_a_flipped_byte_anywhere_is_refused_or_changes_nothing(tmp_path: Path) -> None:
    """100 places of the file: whatever is read is what was written, else reading is refused."""
    whole = await fill(tmp_path / "whole")
    expected, written = await read(whole), await history(whole)
    choice = random.Random(20)
    size = (whole / "kubedra.db").stat().st_size
    refused = []
    for number in range(FLIPS):
        damaged = tmp_path / f"flip-{number}"
        shutil.copytree(whole, damaged)
        place = choice.randrange(size)
        with (damaged / "kubedra.db").open("r+b") as file:
            file.seek(place)
            byte = file.read(1)[0]
            file.seek(place)
            file.write(bytes([byte ^ (1 << choice.randrange(8))]))
        try:
            assert (await read(damaged), await history(damaged)) == (expected, written), f"byte {place}"
        except (UnusableDatabase, DamagedRow) as error:
            refused.append(str(error))
    assert len(refused) > FLIPS / 3  # the file has free space, too, and times and authors have no checksum
    assert not [line for line in refused if "\n" in line or ("damaged" not in line and str(tmp_path) not in line)]


async def test_repair_keeps_every_whole_row_and_names_the_damaged_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = await fill(tmp_path)
    with closing(sqlite3.connect(directory / "kubedra.db")) as connection, connection:
        connection.execute(
            "UPDATE log SET value = 'rubbish' WHERE key = 'a/007' AND revision = (SELECT max(revision) FROM log WHERE key = 'a/007')"
        )
    assert data_command.main(["check", str(directory)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "a/007: the row at revision 128 is damaged; the newest intact row is revision 68"
    assert lines[1] == "60 objects are intact, at revision 180"
    assert data_command.main(["repair", str(directory)]) == 0
    kept = await read(directory)
    assert len(kept) == KEYS
    assert kept["a/007"].startswith(b"7:1:")
    assert all(value.split(b":")[1] == b"2" for key, value in kept.items() if key != "a/007")
    assert (directory / "kubedra.db.damaged-1").exists()
    assert data_command.main(["check", str(directory)]) == 0


async def test_a_repaired_store_gives_no_revision_twice_and_offers_no_older_history(tmp_path: Path) -> None:
    directory = await fill(tmp_path)
    with closing(sqlite3.connect(directory / "kubedra.db")) as connection, connection:
        connection.execute("UPDATE log SET value = 'rubbish' WHERE revision = 180")
    assert data_command.main(["repair", str(directory)]) == 0

    async with opened_log(directory) as log:
        assert (log.revision, log.compacted) == (180, 180)
        assert (await log.append(Write("a/new", b"x", 0))).revision == 181
        assert (await log.append(Write("a/059", b"x", 120))).revision == 182


@pytest.mark.parametrize("command", ["check", "repair"])
async def test_a_store_of_the_first_schema_is_read_without_a_migration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    directory = await fill(tmp_path)
    with closing(sqlite3.connect(directory / "kubedra.db")) as connection, connection:
        connection.execute("ALTER TABLE log DROP COLUMN checksum")
        connection.execute("UPDATE alembic_version SET version_num = '0001'")
        connection.execute("UPDATE log SET value = 7 WHERE revision = 128")
    assert data_command.main([command, str(directory)]) == (1 if command == "check" else 0)
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "a/007: the row at revision 128 is damaged; the newest intact row is revision 68"
    assert said[1] == "60 objects are intact, at revision 180"
    if command == "repair":
        assert (await read(directory))["a/007"].startswith(b"7:1:")


async def test_a_store_of_a_newer_release_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = await fill(tmp_path)
    with closing(sqlite3.connect(directory / "kubedra.db")) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    assert data_command.main(["check", str(directory)]) == 2
    assert "newer release" in capsys.readouterr().err


async def test_a_damaged_page_costs_the_rows_on_it_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = await fill(tmp_path)
    with closing(sqlite3.connect(directory / "kubedra.db")) as connection:
        (page_size,) = connection.execute("PRAGMA page_size").fetchone()
    path = directory / "kubedra.db"
    content = bytearray(path.read_bytes())
    found = content.rindex(b"59:2:")  # on a leaf page of the table
    start = found // page_size * page_size
    content[start : start + 8] = b"\xff" * 8  # the page's own header
    path.write_bytes(content)
    with pytest.raises(UnusableDatabase, match=r"is damaged: .*see `kubedra data check"):
        await read(directory)
    assert data_command.main(["repair", str(directory)]) == 0
    assert "unreadable" in capsys.readouterr().out
    kept = await read(directory)
    assert 0 < len(kept) <= KEYS
    assert sum(value.split(b":")[1] == b"2" for value in kept.values()) >= KEYS - page_size // 300


async def lose_answered_writes(directory: Path, durability: Durability) -> None:
    """Make a store whose last writes are in a write-ahead log that is lost with the process."""
    async with opened_log(directory, durability) as log:
        for number in range(5):
            await log.append(Write(f"a/{number}", b"x", 0))
        shutil.copytree(directory, directory.with_name("crashed"))
    crashed = directory.with_name("crashed")
    wal = crashed / "kubedra.db-wal"
    content = bytearray(wal.read_bytes())
    frame = 24 + struct.unpack(">I", content[8:12])[0]
    # The last frames do not match their checksums: SQLite takes the log for one that ends before them.
    for start in range(32 + frame * 3, len(content), frame):
        content[start + 30] ^= 0xFF
    wal.write_bytes(content)


async def test_answered_writes_that_a_damaged_log_lost_are_told_before_anything_is_served(tmp_path: Path) -> None:
    await lose_answered_writes(tmp_path / "store", Durability.FULL)
    with pytest.raises(
        UnusableDatabase, match=r"revisions? \d( to 5)? were acknowledged but are missing, because its write-"
    ):
        await read(tmp_path / "crashed")
    assert data_command.main(["check", str(tmp_path / "crashed")]) == 1
    assert data_command.main(["repair", str(tmp_path / "crashed")]) == 0

    async with opened_log(tmp_path / "crashed") as log:
        assert (await log.append(Write("b/new", b"x", 0))).revision == 6


async def test_what_a_power_cut_may_take_is_a_warning_and_no_revision_comes_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await lose_answered_writes(tmp_path / "store", Durability.NORMAL)

    async with opened_log(tmp_path / "crashed", Durability.NORMAL) as log:
        assert log.revision == log.compacted == 5
    assert "are lost; durability normal and off allow this" in caplog.text


async def test_a_directory_without_a_database_and_one_in_use_are_said_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert data_command.main(["check", str(tmp_path / "nowhere")]) == 2
    assert data_command.main(["check", str(tmp_path)]) == 2
    assert "contains no kubedra database" in capsys.readouterr().err
    store = tmp_path / "store"

    async with opened_log(store):
        assert await asyncio.to_thread(data_command.main, ["repair", str(store)]) == 2
    assert f"{store} is in use by another server (pid {os.getpid()})" in capsys.readouterr().err
