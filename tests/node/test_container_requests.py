"""Logs and exec of containers that run as processes, over the socket of their node."""

from __future__ import annotations

import asyncio
import json
import signal
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Event,
    Ping,
    Pong,
    RejectConnection,
    Request,
    TextMessage,
)

from apiserver.api.objects import Json
from controllers.kubelet.run.containers import ProcessContainers
from controllers.kubelet.run.server import RunServer
from tests.support.patience import become, patience
from tests.support.recording import RecordingClient

pytestmark = [pytest.mark.integration, pytest.mark.real_time]

VERSIONS = ("v5.channel.k8s.io", "v4.channel.k8s.io")


class Node:
    """One pod `u` with a container `c`, and the socket that the server finds by its announcement."""

    def __init__(self, place: Path) -> None:
        self.place, self.announced = place, place / "kubelets"
        self.containers = ProcessContainers(
            RecordingClient(), place / "run", [], lambda *_: [], lambda _: None  # type: ignore[arg-type]
        )  # fmt: skip
        self.server = RunServer(self.announced, self._find)
        self.open: list[asyncio.StreamWriter] = []
        self.pod: Json = {"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": {}}

    def _find(self, uid: str) -> tuple[Json, ProcessContainers] | None:
        return (self.pod, self.containers) if uid == "u" else None

    def start(self, script: str, **variables: str) -> None:
        env = [{"name": name, "value": value} for name, value in variables.items()]
        container = {"name": "c", "command": ["/bin/sh", "-c", script], "env": env}
        self.pod["spec"] = {"containers": [container]}
        self.containers.start(self.pod, container, 0)

    async def ended(self) -> None:
        process = self.containers.process(self.pod, "c")
        assert process is not None
        await become(lambda: process.end is not None and process.log.closed, "it has ended")

    @property
    def socket(self) -> str:
        return (self.announced / "n").read_text()

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        made = await asyncio.open_unix_connection(self.socket)
        self.open.append(made[1])
        return made

    async def ask(self, path: str, *more: bytes) -> bytes:
        """Return the whole response."""
        reader, writer = await self.connect()
        writer.write(f"GET {path} HTTP/1.1\r\n".encode() + b"".join(more) + b"\r\n")
        async with patience():
            return await reader.read()

    async def logs(self, **options: str) -> str:
        head, _, body = (await self.ask(f"/logs/u/c?{urlencode(options)}")).partition(b"\r\n\r\n")
        assert head == b"HTTP/1.1 200 OK"
        return body.decode()


@asynccontextmanager
async def make_node(place: Path) -> AsyncIterator[Node]:
    node = Node(place)
    await node.server.announce("n")
    try:
        yield node
    finally:
        for writer in node.open:
            writer.close()
        node.containers.close()
        await node.server.close()


async def test_the_socket_of_a_node_is_private_and_removed_with_it(tmp_path: Path) -> None:
    async with make_node(tmp_path) as node:
        path = Path(node.socket)
        modes = [stat.S_IMODE(each.stat().st_mode) for each in (path, path.parent, node.announced)]
        assert modes == [0o600, 0o700, 0o700]
        await node.server.announce("another")
        assert (node.announced / "another").read_text() == node.socket, "one for all nodes of a process"
    assert not path.parent.exists()
    assert list(node.announced.iterdir()) == []
    await RunServer(tmp_path / "none", lambda _: None).close()


async def test_a_node_that_cannot_announce_its_socket_logs_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").touch()
    server = RunServer(tmp_path / "file" / "below", lambda _: None)
    await server.announce("n")
    assert "node n: logs and exec are unavailable" in caplog.text
    await server.close()


async def test_an_invalid_request_gets_no_response(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with make_node(tmp_path) as node:
        assert await node.ask("/only/two") == b""
        assert "a request for a container failed" in caplog.text
        caplog.clear()
        reader, writer = await node.connect()
        writer.write(b"GET /logs")
        writer.write_eof()
        async with patience():
            assert await reader.read() == b""
        longest = 64 * 1024 - len(b"GET /logs/v/c HTTP/1.1\r\n")
        assert (await node.ask("/logs/v/c", b"x" * (longest - 2) + b"\r\n")).startswith(b"HTTP/1.1 404")
        assert (await node.ask("/logs/v/c", b"x" * longest + b"\r\n")).startswith(b"HTTP/1.1 404")
        assert await node.ask("/logs/v/c", b"x" * (longest + 1) + b"\r\n") == b""
        assert caplog.text == ""


async def test_a_container_without_a_process_is_not_found(tmp_path: Path) -> None:
    async with make_node(tmp_path) as node:
        node.start("exit 0")
        text = b"HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nContent-Length: 26\r\n\r\ncontainer d has no process"
        for path in ("/logs/u/d", "/logs/v/d", "/exec/u/d"):
            assert await node.ask(path) == text
        assert await node.ask("/logs/%75/c%20d") == text.replace(b"26", b"28").replace(b"r d", b"r c d")
        await node.ended()
        answer = await node.ask("/exec/u/c")
        assert answer.endswith(b"\r\nContent-Length: 26\r\n\r\ncontainer c is not running")


async def test_a_log_is_the_output_within_the_options(tmp_path: Path) -> None:
    async with make_node(tmp_path) as node:
        node.start("echo one; echo two; echo three")
        await node.ended()
        assert await node.logs() == "one\ntwo\nthree\n"
        assert await node.logs(tailLines="1") == "three\n"
        assert await node.logs(follow="true", limitBytes="5") == "one\nt"
        assert (await node.ask("/logs/u/c?previous=true")).startswith(b"HTTP/1.1 404")
        node.start("echo again")
        await node.ended()
        assert await node.logs(previous="true") == "one\ntwo\nthree\n"
        assert await node.logs(follow="true") == "again\n"


async def test_a_followed_log_streams_and_ends_with_its_process(tmp_path: Path) -> None:
    async with make_node(tmp_path) as node:
        go = tmp_path / "go"
        node.start(f"echo one; while ! test -e {go}; do sleep 0.01; done; echo two; echo three")
        process = node.containers.process(node.pod, "c")
        assert process is not None
        await become(lambda: process.log.lines()[0], "it wrote")
        assert await node.logs() == "one\n"
        reader, writer = await node.connect()
        writer.write(b"GET /logs/u/c?follow=true HTTP/1.1\r\n\r\n")
        async with patience():
            assert await reader.readuntil(b"one\n") == b"HTTP/1.1 200 OK\r\n\r\none\n"
            go.touch()
            assert await reader.read() == b"two\nthree\n"


class Exec:
    """A command in the container, over kubectl's websocket protocol."""

    def __init__(self, node: Node, *command: str, versions: tuple[str, ...] = VERSIONS, **options: str) -> None:
        self._node, self._versions = node, versions
        query = urlencode([*(("command", word) for word in command), *options.items()])
        self._target = f"/exec/u/c?{query}"
        self.ws = WSConnection(ConnectionType.CLIENT)
        self.output: dict[int, bytes] = {}
        self.seen: list[Event] = []

    async def open(self) -> Any:
        """Open the websocket. Return the response."""
        self._reader, self.writer = await self._node.connect()
        self.send_event(Request(host="n", target=self._target, subprotocols=list(self._versions)))
        return await self.until(AcceptConnection, RejectConnection)

    def send_event(self, event: Any) -> None:
        self.writer.write(self.ws.send(event))

    def send(self, channel: int, data: bytes) -> None:
        self.send_event(BytesMessage(bytes((channel,)) + data))

    async def until(self, *kinds: type) -> Any:
        async with patience():
            while True:
                for event in self.ws.events():
                    self.seen.append(event)
                    if isinstance(event, BytesMessage):
                        data = bytes(event.data)
                        self.output[data[0]] = self.output.get(data[0], b"") + data[1:]
                    if isinstance(event, kinds):
                        return event
                data = await self._reader.read(65536)
                assert data, "the connection ended"
                self.ws.receive_data(data)

    async def line(self, channel: int = 1) -> bytes:
        while b"\n" not in self.output.get(channel, b""):
            await self.until(BytesMessage)
        return self.output[channel].partition(b"\n")[0].strip()

    async def outcome(self) -> Json:
        closing = await self.until(CloseConnection)
        assert closing.code == 1000
        status: Json = json.loads(self.output[3])
        return status


async def execute(node: Node, *command: str, **options: Any) -> Exec:
    """Start a command."""
    made = Exec(node, *command, **options)
    await made.open()
    return made


@asynccontextmanager
async def make_running_node(place: Path) -> AsyncIterator[Node]:
    async with make_node(place) as node:
        node.start("exec sleep 60", WHO="me")
        yield node


SUCCESS = {"metadata": {}, "status": "Success"}


async def test_a_command_runs_in_the_directory_of_the_container(tmp_path: Path) -> None:
    async with make_running_node(tmp_path) as node:
        command = Exec(node, "/bin/sh", "-c", "echo $WHO; pwd -P; echo problem >&2", stdout="true")
        assert (await command.open()).subprotocol == VERSIONS[0]
        assert await command.outcome() == SUCCESS
        place = (tmp_path / "run").resolve() / "u" / "containers" / "c"
        assert (command.output[1], command.output[2]) == (f"me\n{place}\n".encode(), b"problem\n")


@pytest.mark.parametrize(("script", "code"), [("exit 5", 5), ("kill -9 $$", 128 + signal.SIGKILL)])
async def test_a_failed_command_reports_its_exit_code(tmp_path: Path, script: str, code: int) -> None:
    async with make_running_node(tmp_path) as node:
        command = await execute(node, "/bin/sh", "-c", script)
        assert await command.outcome() == {
            "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
            "message": f"command terminated with non-zero exit code: exit status {code}",
            "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
        }  # fmt: skip


async def test_a_command_that_cannot_be_started_reports_why(tmp_path: Path) -> None:
    async with make_running_node(tmp_path) as node:
        for words, why in (
            (("/no/such",), "exec: No such file or directory"),
            ((), "exec: you must specify at least one command for the container"),
        ):
            command = await execute(node, *words)
            status = await command.outcome()
            expected = ("Failure", "InternalError", 500, why)
            assert tuple(status[key] for key in ("status", "reason", "code", "message")) == expected


async def test_a_command_reads_its_input_until_it_is_closed(tmp_path: Path) -> None:
    async with make_running_node(tmp_path) as node:
        command = await execute(node, "/bin/cat", stdin="true")
        command.send(0, b"one\n")
        assert await command.line() == b"one"
        command.send_event(BytesMessage(b"\x00tw", message_finished=False))
        command.send_event(BytesMessage(b"o\n", message_finished=True))
        command.send_event(TextMessage("\x00three\n"))
        # None of these closes stdin.
        command.send(0, b"")
        command.send(7, b"no such stream\n")
        command.send(255, b"\x01")
        command.send_event(BytesMessage(b""))
        command.send(4, b'{"Width": 1, "Height": 1}')
        command.send(0, b"last\n")
        command.send(255, b"\x00")
        assert await command.outcome() == SUCCESS
        assert command.output[1] == b"one\ntwo\nthree\nlast\n"


async def test_a_command_without_stdin_reads_nothing(tmp_path: Path) -> None:
    async with make_running_node(tmp_path) as node:
        for command in (Exec(node, "/bin/cat"), Exec(node, "/bin/cat", stdin="false")):
            await command.open()
            command.send(0, b"x")
            assert await command.outcome() == SUCCESS
            assert 1 not in command.output
        numbered = Exec(node, "/bin/cat", stdin="1")
        await numbered.open()
        numbered.send(0, b"x")
        numbered.send(255, b"\x00")
        await numbered.outcome()
        assert numbered.output[1] == b"x"


async def test_a_terminal_has_a_size_and_one_stream(tmp_path: Path) -> None:
    async with make_running_node(tmp_path) as node:
        script = "read x; stty size; echo got $x; echo problem >&2; tty"
        command = await execute(node, "/bin/sh", "-c", script, stdin="true", tty="true")
        for broken in (b"no JSON", b"{}"):
            command.send(4, broken)
        command.send(4, json.dumps({"Width": 99, "Height": 33}).encode())
        command.send(0, b"line\r")
        assert await command.outcome() == SUCCESS
        lines = command.output[1].split(b"\r\n")
        assert lines[1:4] == [b"33 99", b"got line", b"problem"]
        assert lines[4].startswith(b"/dev/pts/")
        assert 2 not in command.output


async def test_a_ping_is_answered(tmp_path: Path) -> None:
    async with make_running_node(tmp_path) as node:
        command = await execute(node, "/bin/cat", stdin="true")
        command.send_event(Ping(payload=b"x"))
        assert (await command.until(Pong)).payload == b"x"
        command.send(255, b"\x00")
        await command.outcome()


@pytest.mark.parametrize("how", ["gone", "closed", "broken"])
async def test_a_command_ends_with_its_client(tmp_path: Path, how: str) -> None:
    async with make_running_node(tmp_path) as node:
        command = await execute(node, "/bin/sh", "-c", "echo $$; exec sleep 60")
        pid = int(await command.line())
        if how == "closed":
            command.send_event(CloseConnection(1000))
        elif how == "broken":
            command.writer.write(b"\xff" * 16)
        else:
            command.writer.close()
        await become(lambda: not Path(f"/proc/{pid}").exists(), "it is killed")


async def test_the_newest_common_version_is_used_and_one_is_required(tmp_path: Path) -> None:
    async with make_running_node(tmp_path) as node:
        for versions, chosen in ((VERSIONS[::-1], VERSIONS[0]), (VERSIONS[1:], VERSIONS[1])):
            command = Exec(node, "/bin/true", versions=versions)
            assert (await command.open()).subprotocol == chosen
            assert await command.outcome() == SUCCESS
        refused = await Exec(node, "/bin/true", versions=("channel.k8s.io",)).open()
        assert (type(refused), refused.status_code) == (RejectConnection, 400)
        answer = await node.ask("/exec/u/c?command=true", b"Host: n\r\n")
        assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
        assert b"exec needs websockets, which kubectl speaks from 1.31 on" in answer
