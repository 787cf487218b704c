"""A recording has the state and every change, goes on after failures, and survives a kill."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kubedra.archive.archive import ArchiveError, header, write_archive
from kubedra.cli import main
from kubedra.client.client import Client
from kubedra.client.responses import ApiError
from kubedra.cluster_copy.kinds import Kind
from kubedra.recording.changes import Change, format_time, parse_time, read_recording
from kubedra.recording.following import Follower
from kubedra.recording.recording import parse_duration
from kubedra.runtime import process
from tests.cluster_copy.sources import cluster, write_config
from tests.support.patience import ended, wait_until

Json = dict[str, Any]
BEGIN = datetime(2026, 11, 28, 12, tzinfo=UTC)
MAPS = Kind("", "v1", "configmaps", "ConfigMap", True)


def config_map(name: str, version: int, uid: str = "u") -> Json:
    metadata = {"name": name, "namespace": "d", "uid": uid, "resourceVersion": str(version)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


class Server:
    """A server with planned lists and watches. The last watch stays open."""

    def __init__(self, lists: list[list[Json]], watches: list[list[Json] | Exception]) -> None:
        self.lists, self.watches, self.versions = lists, watches, list[str]()
        self.done = asyncio.Event()

    async def request(self, method: str, path: str, *, params: dict[str, str] | None = None) -> Json:
        assert (method, path) == ("GET", "/api/v1/configmaps")
        items = self.lists.pop(0)
        return {"items": items, "metadata": {"resourceVersion": str(100 + len(self.lists))}}

    async def watch(self, path: str, *, timeout: float, **params: str) -> AsyncIterator[Json]:  # noqa: ASYNC109 - the client's
        self.versions.append(params["resourceVersion"])
        if not self.watches:
            self.done.set()
            await asyncio.Event().wait()
        planned = self.watches.pop(0)
        if isinstance(planned, Exception):
            raise planned
        for event in planned:
            yield event


def event(type_: str, obj: Json) -> Json:
    return {"type": type_, "object": obj}


async def follow(server: Server) -> tuple[list[tuple[str, str, str]], list[tuple[str, str]]]:
    """Return the recorded changes and problems until the last planned watch is open."""
    changes: list[tuple[str, str, str]] = []
    problems: list[tuple[str, str]] = []
    follower = Follower(
        server, MAPS, "",
        lambda type_, obj: changes.append((type_, obj["metadata"]["name"], obj["metadata"]["resourceVersion"])),
        lambda kind, reason: problems.append((kind, reason)),
    )  # fmt: skip
    await follower.begin()
    running = asyncio.create_task(follower.run())
    await server.done.wait()
    running.cancel()
    return changes, problems


async def test_a_watch_that_ends_is_resumed_at_its_last_version() -> None:
    bookmark = event("BOOKMARK", {"metadata": {"resourceVersion": "180"}})
    server = Server([[config_map("a", 1)]], [[event("MODIFIED", config_map("a", 150))], [bookmark]])
    changes, problems = await follow(server)
    assert changes == [("STATE", "a", "1"), ("MODIFIED", "a", "150")]
    assert (server.versions, problems) == (["100", "150", "180"], [])


async def test_after_410_the_differences_are_recorded() -> None:
    gone = event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"})
    lists = [
        [config_map("same", 1), config_map("changed", 2), config_map("gone", 3), config_map("again", 4)],
        [config_map("same", 1), config_map("changed", 9), config_map("new", 8), config_map("again", 7, uid="v")],
    ]
    changes, _ = await follow(Server(lists, [[gone]]))
    assert changes[4:] == [
        ("MODIFIED", "changed", "9"), ("ADDED", "new", "8"), ("DELETED", "again", "4"), ("ADDED", "again", "7"),
        ("DELETED", "gone", "3"),
    ]  # fmt: skip


async def test_a_lost_connection_is_reported_and_tried_again() -> None:
    refused = ApiError(503, "ServiceUnavailable", "not now")
    server = Server([[]], [ConnectionResetError("reset"), refused, [event("ADDED", config_map("a", 150))]])
    changes, problems = await follow(server)
    assert changes == [("ADDED", "a", "150")]
    assert problems == [("configmaps", "reset"), ("configmaps", "not now")]


def write_and_die(place: Path) -> None:
    fields = header("recording", release="1.36", created=format_time(BEGIN))
    with write_archive(place, fields, growing=True) as file:
        file.write(Change(BEGIN, "STATE", config_map("a", 1)).encode())
        file.flush()
        file.write(Change(BEGIN + timedelta(seconds=5), "ADDED", config_map("b", 2)).encode())
        raise KeyboardInterrupt


def test_a_recording_without_its_end_is_read_up_to_the_last_frame(tmp_path: Path) -> None:
    place = tmp_path / "day.kubedra"
    with pytest.raises(KeyboardInterrupt):
        write_and_die(place)
    recording = read_recording(place)
    assert [change.key for change in recording.changes] == [("ConfigMap", "d", "a")]
    assert not recording.finished


def test_a_recording_with_a_foreign_item_is_an_error(tmp_path: Path) -> None:
    place = tmp_path / "day.kubedra"
    with write_archive(place, header("recording", release="1.36", created=format_time(BEGIN))) as file:
        file.write(b'{"time":"yesterday"}')
    with pytest.raises(ArchiveError, match="is altered: item 1 is no change of an object"):
        read_recording(place)


@pytest.mark.parametrize(("text", "seconds"), [("1h30m", 5400), ("90s", 90), ("2m", 120)])
def test_durations(text: str, seconds: int) -> None:
    assert parse_duration("--for", text).total_seconds() == seconds


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--for=soon", "-o", "x"], "kubedra record: --for soon: not a duration, such as 1h30m or 90s"),
        (["--kubeconfig=/nowhere", "-o", "x"], "kubedra record: /nowhere: no such file or directory"),
    ],
)
def test_a_mistake_is_one_line(args: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["record", *args]) == 2
    assert capsys.readouterr().err == f"{message}\n"


def test_times_without_a_zone_are_refused() -> None:
    with pytest.raises(ValueError, match="has no time zone"):
        parse_time("2026-11-28T12:00:00")


@pytest.mark.integration
def test_a_killed_recorder_leaves_what_it_has_seen_and_only_reads(tmp_path: Path) -> None:
    with cluster() as (running, client):
        config, place = write_config(tmp_path, client.url), tmp_path / "day.kubedra"
        recorder = subprocess.Popen(
            [sys.executable, "-m", "kubedra", "record", f"--kubeconfig={config}", "-o", str(place)],
            env=process.environment(), stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert recorder.stderr is not None
        assert recorder.stderr.readline().startswith("recording ")
        create(client, "first")
        wait_until(lambda: "first" in names(place), "the change is in the file")
        recorder.send_signal(signal.SIGKILL)
        ended(recorder)
        recorder.stderr.close()
        sent = {record.info.verb for record in running.server.requests.latest() if "record" in record.user_agent}
    assert "first" in names(place)
    assert not read_recording(place).finished
    assert sent <= {"get", "list", "watch"}


def create(client: Client, name: str) -> None:
    client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})


def names(place: Path) -> set[str]:
    return {change.object["metadata"]["name"] for change in read_recording(place).changes if change.type == "ADDED"}
