"""Faults of the machine: stopped servers, a lost database, few descriptors, clock jumps."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import socket
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit, urlunsplit

import pytest

from apiserver.app import Server
from apiserver.options.settings import read
from apiserver.storage import UnusableDatabase
from tests.support.patience import wait_until
from tests.support.postgres import Database, fresh_schema
from tests.support.server import HeldTime, serve
from tests.support.wire import Child, Wire

pytestmark = pytest.mark.integration

MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    """Start a database that tests may restart."""
    with Database() as database:
        yield database


@pytest.fixture(scope="module")
def pair(database: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Child, Child]]:
    """Start two servers on one database."""
    directory, url = tmp_path_factory.mktemp("pair"), fresh_schema(database.url)
    with Child(directory / "one", f"--storage={url}") as one, Child(directory / "two", f"--storage={url}") as two:
        yield one, two


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Child]:
    """Serve on SQLite with at most 48 descriptors."""
    if shutil.which("prlimit") is None:
        pytest.skip("no prlimit here")
    limit = ("prlimit", "--nofile=48:48")
    with Child(tmp_path_factory.mktemp("alone") / "data", "--storage=sqlite", before=limit) as child:
        yield child


def write(wire: Wire, name: str) -> int:
    """Create an object, and repeat that until it is answered; return the status."""

    def try_create() -> int:
        status = wire.request("POST", MAPS, {"metadata": {"name": name}}).status
        return status if status in (201, 409) else 0

    return int(wait_until(try_create, f"{name} is written"))


def names(wire: Wire) -> set[str]:
    return {item["metadata"]["name"] for item in wire.get(MAPS).json["items"]} - {"kube-root-ca.crt"}


def test_a_database_that_crashes_under_two_servers_loses_nothing_that_was_answered(
    database: Database, pair: tuple[Child, Child]
) -> None:
    wires = [child.wire() for child in pair]
    for turn in range(2):
        for number, wire in enumerate(wires):
            assert write(wire, f"before-{turn}-{number}") == 201
        database.restart("immediate")
        for number, wire in enumerate(wires):
            # A write whose answer was lost may have happened.
            assert write(wire, f"after-{turn}-{number}") in (201, 409)
    for wire in wires:
        wait_until(partial(is_ready, wire), "it is ready again")
    expected = {f"{when}-{turn}-{number}" for when in ("before", "after") for turn in (0, 1) for number in (0, 1)}
    assert names(wires[0]) == names(wires[1])
    assert expected <= names(wires[0])
    assert "Traceback" not in "".join(child.log() for child in pair)


def test_a_server_that_was_stopped_for_a_while_shows_what_happened_meanwhile(pair: tuple[Child, Child]) -> None:
    awake, asleep = pair[0].wire(), pair[1].wire()
    assert write(asleep, "first") == 201
    version = asleep.get(MAPS).json["metadata"]["resourceVersion"]
    with asleep.watch(f"{MAPS}?watch=true&resourceVersion={version}") as watch:
        pair[1].process.send_signal(signal.SIGSTOP)
        try:
            for number in range(5):
                assert write(awake, f"meanwhile-{number}") == 201
        finally:
            pair[1].process.send_signal(signal.SIGCONT)
        seen = [watch.event()["object"]["metadata"]["name"] for _ in range(5)]
    assert seen == [f"meanwhile-{number}" for number in range(5)]
    assert names(asleep) == names(awake)
    assert write(asleep, "last") == 201
    assert "last" in names(awake)


def test_a_single_server_continues_after_a_stop(alone: Child) -> None:
    wire = alone.wire()
    assert write(wire, "before") == 201
    alone.process.send_signal(signal.SIGSTOP)
    alone.process.send_signal(signal.SIGCONT)
    assert write(wire, "after") == 201
    assert {"before", "after"} <= names(wire)


def test_with_few_descriptors_connections_wait_or_close_and_those_that_are_open_are_served(alone: Child) -> None:
    wire = alone.wire()
    assert write(wire, "first") == 201
    address = ("127.0.0.1", int(alone.url.rpartition(":")[2]))
    with contextlib.ExitStack() as many:
        kept = many.enter_context(socket.create_connection(address))
        ask(kept)
        for _ in range(100):
            many.enter_context(socket.create_connection(address))
        for _ in range(20):
            ask(kept)
    wait_until(lambda: is_ready(wire), "new connections are taken again")
    assert write(wire, "second") == 201
    assert {"first", "second"} <= names(wire)
    assert "Traceback" not in alone.log()
    assert len(alone.log()) < 20_000, "a line each second at most"


def ask(connection: socket.socket) -> None:
    connection.sendall(b"GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")


def is_ready(wire: Wire) -> bool:
    with contextlib.suppress(OSError):
        return wire.get("/readyz").status == 200
    return False


@pytest.mark.parametrize("seconds", [86_400, -86_400])
def test_a_clock_that_jumps_changes_no_order_and_loses_nothing(seconds: int) -> None:
    time = HeldTime()
    with serve(time=time) as running:
        wire = running.wire()
        event = {"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}}
        assert wire.request("POST", "/api/v1/namespaces/default/events", event).status == 201
        before = wire.create_config_map("before")
        with wire.watch(f"{MAPS}?watch=true&resourceVersion={before['metadata']['resourceVersion']}") as watch:
            time.advance(seconds)
            after = wire.create_config_map("after")
            assert watch.event()["object"]["metadata"]["name"] == "after"
        assert int(after["metadata"]["resourceVersion"]) > int(before["metadata"]["resourceVersion"])
        patch = {"data": {"k": "v"}}
        changed = wire.request("PATCH", f"{MAPS}/before", patch, {"Content-Type": "application/merge-patch+json"})
        assert changed.status == 200
        assert wire.request("DELETE", f"{MAPS}/after").status == 200
        # How long an Event lives is measured by the machine's steady clock.
        assert wire.get("/api/v1/namespaces/default/events/e").status == 200
        assert wire.get("/readyz").status == 200


class Cut:
    """A relay to the database that closes everything after so many bytes of its answers."""

    def __init__(self, target: str, most: int) -> None:
        self.passed, self._target, self._most = 0, target, most
        self._writers: list[asyncio.StreamWriter] = []

    async def open(self) -> int:
        """Listen; return the port."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers, database = await asyncio.open_unix_connection(self._target)
        self._writers += (writer, database)
        await asyncio.gather(self._carry(reader, database, 0), self._carry(answers, writer, 1), return_exceptions=True)

    async def _carry(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, counts: int) -> None:
        while data := await source.read(4096):
            self.passed += len(data) * counts
            if self.passed > self._most:
                self.cut()
                return
            sink.write(data)
            await sink.drain()
        sink.close()

    def cut(self) -> None:
        """Close all connections and refuse new ones."""
        self._server.close()
        for writer in self._writers:
            writer.close()


def test_a_start_while_the_database_goes_away_is_one_line(database: Database, tmp_path: Path) -> None:
    """The database ends after so many bytes of its answers, at any moment of the start."""
    target = unix_socket(database)

    async def start(most: int) -> tuple[str, int]:
        cut = Cut(target, most)
        port = await cut.open()
        parts = urlsplit(fresh_schema(database.url))
        query = {**dict(parse_qsl(parts.query)), "host": "127.0.0.1", "port": str(port)}
        url = urlunsplit(parts._replace(query=urlencode(query)))
        try:
            server = await Server.open(read([f"--storage={url}", f"--data-dir={tmp_path}", "--port=0"]))
        except UnusableDatabase as error:
            return str(error), cut.passed
        else:
            await server.close()
            return "", cut.passed
        finally:
            cut.cut()

    said, size = asyncio.run(start(1 << 40))
    assert said == ""
    for part in (0, 1, 3, 5, 7, 9):
        said, _ = asyncio.run(start(size * part // 10))
        assert said, f"the database was away after {part} tenths"
        assert "\n" not in said


def unix_socket(database: Database) -> str:
    """Return the path of the database's socket."""
    (directory,) = parse_qs(urlsplit(database.url).query)["host"]
    return str(next(Path(directory).glob(".s.PGSQL.*[0-9]")))
