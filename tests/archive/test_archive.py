"""The portable file is read whole or not at all, and says what is wrong with it in one line."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kubedra.archive import archive as module
from kubedra.archive.archive import ArchiveError, header, read_archive, write_archive
from kubedra.version import __version__

CREATED = "2026-01-01T00:00:00Z"
ITEMS = [f"/registry/pods/default/p{n}\t{n}\t{n}\t{{}}".encode() for n in range(50_000)]


def fields(kind: str = "snapshot", **more: Any) -> dict[str, Any]:
    return header(kind, release="1.36", created=CREATED, **more)


def save(path: Path, items: list[bytes] = ITEMS, **more: Any) -> Path:
    with write_archive(path, fields(**more)) as archive:
        archive.write_all(items)
    return path


def load(path: Path | str, kind: str = "", **options: Any) -> list[bytes]:
    with read_archive(path, kind, **options) as archive:
        return list(archive)


@contextmanager
def limited_file_size(size: int) -> Iterator[None]:
    """Limit files of this process, as a full disk would."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)


@pytest.mark.parametrize(
    "items", [[], [b""], [b"one"], ITEMS, [random.Random(1).randbytes(5_000_000).replace(b"\n", b"")]]
)
def test_the_items_and_the_header_come_back(tmp_path: Path, items: list[bytes]) -> None:
    path = save(tmp_path / "a", items, revision=7)
    with read_archive(path, "snapshot") as archive:
        assert list(archive) == items
        assert archive.header["revision"] == 7
        assert (archive.finished, archive.items) == (True, len(items))


def test_a_file_without_its_last_bytes_is_truncated_wherever_it_ends(tmp_path: Path) -> None:
    whole = save(tmp_path / "a", ITEMS[:60]).read_bytes()
    for length in range(len(b"kubedra-archive 1\n"), len(whole)):
        (tmp_path / "b").write_bytes(whole[:length])
        with pytest.raises(ArchiveError, match=r"b is truncated: it(s end is missing| has no header)$"):
            load(tmp_path / "b")


def test_a_file_with_any_changed_byte_is_refused(tmp_path: Path) -> None:
    whole = save(tmp_path / "a", ITEMS[:60]).read_bytes()
    window = len(b"kubedra-archive 1\n") + 5  # only how much memory the decompressor may use
    for place in {*range(len(whole))} - {window}:
        changed = bytearray(whole)
        changed[place] ^= 0x41
        (tmp_path / "b").write_bytes(changed)
        with pytest.raises(
            ArchiveError, match=r"^[^\n]*b (is altered|is truncated|is not an archive|has format)[^\n]*$"
        ):
            load(tmp_path / "b")


def test_a_frame_that_was_removed_is_detected(tmp_path: Path) -> None:
    sizes = []
    with write_archive(tmp_path / "a", fields("recording"), growing=True) as archive:
        for item in ITEMS[:3]:
            archive.write(item)
            archive.flush()
            sizes.append((tmp_path / "a").stat().st_size)
    whole = (tmp_path / "a").read_bytes()
    (tmp_path / "a").write_bytes(whole[: sizes[0]] + whole[sizes[1] :])
    with pytest.raises(ArchiveError, match="a is altered: its checksum does not match"):
        load(tmp_path / "a")


def test_bytes_behind_the_end_are_refused(tmp_path: Path) -> None:
    path = save(tmp_path / "a", ITEMS[:3])
    path.write_bytes(path.read_bytes() * 2)
    with pytest.raises(ArchiveError, match="a is altered"):
        load(path)


@pytest.mark.parametrize("content", [b"", b"{}", b"PK\x03\x04", b"kubedra-archive x\n", os.urandom(5000), b"\0" * 4096])
def test_a_foreign_file_is_named_as_such(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(ArchiveError, match=r"a is not an archive of kubedra$"):
        load(tmp_path / "a")


def test_a_newer_format_asks_for_a_newer_kubedra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FORMAT", 2)
    path = save(tmp_path / "a", ITEMS[:3])
    monkeypatch.undo()
    with pytest.raises(ArchiveError, match=r"a has format 2; kubedra \S+ reads formats up to 1: upgrade kubedra$"):
        load(path)


def test_a_recording_is_not_a_snapshot(tmp_path: Path) -> None:
    path = save(tmp_path / "a", ITEMS[:3], kind="recording")
    assert load(path, "recording") == ITEMS[:3]
    with pytest.raises(ArchiveError, match="a is a recording, not a snapshot"):
        load(path, "snapshot")


def test_a_missing_file_and_a_directory_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match=r"^cannot read \S+/none: no such file or directory$"):
        load(tmp_path / "none")
    with pytest.raises(ArchiveError, match=r"^cannot read \S+: is a directory$"):
        load(tmp_path)
    with pytest.raises(ArchiveError, match=r"^cannot write \S+/none/a: no such file or directory$"):
        save(tmp_path / "none" / "a")


def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    before = save(tmp_path / "a", ITEMS[:3]).read_bytes()
    large = [random.Random(n).randbytes(1000).hex().encode() for n in range(500)]
    with limited_file_size(100_000), pytest.raises(ArchiveError, match=r"^cannot write \S+/a: file too large$"):
        save(tmp_path / "a", large)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_bytes() == before


def test_an_error_of_the_caller_leaves_the_old_file_and_stays_itself(tmp_path: Path) -> None:
    save(tmp_path / "a", ITEMS[:3])
    with pytest.raises(ConnectionError), write_archive(tmp_path / "a", fields()):
        raise ConnectionError
    assert load(tmp_path / "a") == ITEMS[:3]
    assert len(list(tmp_path.iterdir())) == 1


def test_only_the_owner_can_read_a_file(tmp_path: Path) -> None:
    assert save(tmp_path / "a").stat().st_mode & 0o777 == 0o600


def test_a_killed_writer_leaves_what_it_flushed(tmp_path: Path) -> None:
    program = (
        "import os, sys; from kubedra.archive.archive import *\n"
        "with write_archive(sys.argv[1], header('recording', release='1.36', created=''), growing=True) as archive:\n"
        "    for n in range(10):\n"
        "        archive.write(b'%d' % n)\n"
        "        if n in (3, 6): archive.flush()\n"
        "    archive._compress(); archive._file.flush(); os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "a")])
    with pytest.raises(ArchiveError, match="a is truncated"):
        load(tmp_path / "a")
    with read_archive(tmp_path / "a", "recording", allow_unfinished=True) as archive:
        assert list(archive) == [b"%d" % n for n in range(7)]
        assert not archive.finished


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_reader_has_only_a_part_of_the_file_in_memory(tmp_path: Path) -> None:
    item = b"x" * 1_000_000
    with write_archive(tmp_path / "a", fields()) as archive:
        for _ in range(100):
            archive.write(item)
    program = (
        "import re, sys; from kubedra.archive.archive import read_archive\n"
        "with read_archive(sys.argv[1]) as archive: n = sum(map(len, archive))\n"
        "print(n, re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1])"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path / "a")], capture_output=True, check=True)
    size, kilobytes = map(int, done.stdout.split())
    assert size == 100_000_000
    assert kilobytes < 80_000


def test_a_url_of_fsspec_is_a_place_like_any_other(tmp_path: Path) -> None:
    save("memory://bucket/a", ITEMS[:3])  # type: ignore[arg-type]
    assert load("memory://bucket/a") == ITEMS[:3]
    with pytest.raises(ArchiveError, match=r"^cannot read memory://bucket/none: "):
        load("memory://bucket/none")
    with pytest.raises(ArchiveError, match=r"^cannot read nonsense://bucket/a: protocol not known: nonsense"):
        load("nonsense://bucket/a")
    with pytest.raises(ArchiveError, match=r"^cannot write memory://bucket/b: a URL cannot grow; use a path$"):
        write_archive("memory://bucket/b", fields(), growing=True).__enter__()


def test_a_url_without_fsspec_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(
        ArchiveError, match=r"^cannot read s3://b/a: a URL needs fsspec: pip install 'kubedra\[fsspec\]'$"
    ):
        load("s3://b/a")


def test_the_header_names_the_kubedra_that_wrote_it() -> None:
    found = json.loads(json.dumps(fields(seed=3)))
    assert found == {
        "kind": "snapshot",
        "format": 1,
        "kubedra": __version__,
        "release": "1.36",
        "created": CREATED,
        "seed": 3,
    }
