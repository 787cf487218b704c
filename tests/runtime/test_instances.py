"""The components as a process of their own, in this one: waiting for the server, leading or standing by, the end."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from apiserver.app import Server
from apiserver.http.handlers.authenticator import ADMIN
from apiserver.inprocess import InProcess
from apiserver.settings import read as read_settings
from controllers import __main__ as module
from controllers.commandline import FlagError, Given
from controllers.flags import read
from controllers.instance import CredentialsError, Instance
from controllers.node.dra.checkpoint import CheckpointError
from controllers.options import Options
from controllers.runtime.client import Client
from controllers.runtime.election import Election, LeaseLostError
from controllers.runtime.kinds import LEASES, NAMESPACES, SERVICE_ACCOUNTS, Kind
from controllers.runtime.kubeconfig import KubeconfigError
from controllers.runtime.transport import TransportError
from tests.support.patience import become, wait_until
from tests.support.ports import free_port
from tests.support.virtual import passes, run

Json = dict[str, Any]
SERVER = "http://server"
EVENTS = Kind("", "v1", "events", "Event")
COMPONENTS = ("serviceaccount-controller",)


class Line:
    """The way to a server. `ready` is what /readyz answers, or the error; None: as the server does."""

    def __init__(self, inner: InProcess) -> None:
        self._inner = inner
        self.ready: tuple[int, bytes] | TransportError | None = None
        self.asked = 0

    async def request(self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes) -> Any:
        if path == "/readyz":
            self.asked += 1
            if isinstance(self.ready, TransportError):
                raise self.ready
            if self.ready is not None:
                return self.ready[0], {}, self.ready[1]
        return await self._inner.request(method, path, query, headers, body)

    async def stream(self, *arguments: Any) -> Any:
        return await self._inner.stream(*arguments)

    async def close(self) -> None: ...


class Running:
    """An instance at work, with its line."""

    def __init__(self, transport: InProcess, identity: str = "", names: tuple[str, ...] = COMPONENTS) -> None:
        self.line = Line(transport)
        election = Election(name="lease", namespace="kube-system", identity=identity) if identity else None
        self.instance = Instance(Client(self.line), Options(), names, election, SERVER)
        self.task: asyncio.Task[None] | None = None

    def start(self) -> Running:
        self.task = asyncio.create_task(self.instance.run())
        return self

    async def stop(self) -> None:
        assert self.task is not None
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    @property
    def end(self) -> BaseException | None:
        assert self.task is not None
        assert self.task.done()
        return self.task.exception()


class Town:
    def __init__(self, server: Server) -> None:
        self.transport = InProcess(server.chain, ADMIN)
        self.client = Client(self.transport)

    async def works(self, namespace: str) -> bool:
        """Whether somebody gives a new namespace its account."""
        await self.client.create(NAMESPACES, {"metadata": {"name": namespace}})
        await passes(1)
        return bool((await self.client.list(SERVICE_ACCOUNTS, namespace))["items"])


@asynccontextmanager
async def a_town() -> AsyncIterator[Town]:
    server = await Server.open(read_settings(["--storage", "memory"]))
    try:
        yield Town(server)
    finally:
        await server.close()


def in_town(scenario: Callable[[Town], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with a_town() as town:
            await scenario(town)

    run(whole)


def test_it_waits_until_the_server_is_ready_and_says_once_why(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(town: Town) -> None:
        caplog.set_level(logging.WARNING, "controllers")
        running = Running(town.transport)
        running.line.ready = TransportError("no\nconnection")
        running.start()
        await passes(1)
        assert running.instance.unready() == f"waiting for {SERVER}"
        assert running.instance.metrics() == ""
        assert 4 <= running.line.asked <= 7, "every 200 ms"
        running.line.ready = (500, b"etcd " + b"x" * 300 + b"\xff")
        await passes(1)
        running.line.ready = (503, b"")
        await passes(1)
        assert [record.getMessage() for record in caplog.records if record.name == "controllers"] == [
            f"waiting for {SERVER}: no connection",
            f"waiting for {SERVER}: not ready: 500 etcd {'x' * 195}",
            f"waiting for {SERVER}: not ready: 503",
        ]
        assert not await town.works("early")
        running.line.ready = None
        await passes(1)
        assert running.instance.unready() == ""
        assert await town.works("ns")
        assert 'workqueue_depth{name="serviceaccount-controller"} 0\n' in running.instance.metrics()
        assert running.instance.elector is None
        assert (await town.client.list(LEASES, ""))["items"] == []
        await running.stop()
        assert not await town.works("late")

    in_town(scenario)


def test_it_says_that_it_reads_until_it_has_read() -> None:
    async def scenario(town: Town) -> None:
        seen = set()
        running = Running(town.transport).start()
        while running.instance.unready():
            seen.add(running.instance.unready())
            await asyncio.sleep(0)
        assert seen == {f"waiting for {SERVER}", "collections are being read"}
        await running.stop()

    in_town(scenario)


def test_one_whom_the_server_does_not_know_ends() -> None:
    async def scenario(town: Town) -> None:
        running = Running(town.transport)
        running.line.ready = (401, b"")
        running.start()
        await passes(1)
        assert isinstance(running.end, CredentialsError)
        assert str(running.end) == f"{SERVER} does not accept these credentials (401 Unauthorized)"

    in_town(scenario)


def test_of_two_one_works_and_the_other_begins_at_once_when_it_has_stopped(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(town: Town) -> None:
        caplog.set_level(logging.INFO, "controllers")
        first = Running(town.transport, "first").start()
        await passes(1)
        second = Running(town.transport, "second").start()
        await passes(5)
        assert [each.instance.unready() for each in (first, second)] == ["", ""], "who stands by is ready"
        assert (first.instance.manager is not None, second.instance.manager) == (True, None)
        assert await town.works("one")
        await first.stop()
        assert (await town.client.get(LEASES, "lease", "kube-system"))["spec"]["holderIdentity"] == ""
        await passes(5)
        assert (await town.client.get(LEASES, "lease", "kube-system"))["spec"]["holderIdentity"] == "second"
        assert await town.works("two")
        events = (await town.client.list(EVENTS, "kube-system"))["items"]
        assert sorted(event["message"] for event in events) == ["first became leader", "second became leader"]
        [event, _] = events
        assert (event["reason"], event["type"], event["source"]["component"]) == ("LeaderElection", "Normal", "kubedra")
        about = event["involvedObject"]
        assert (about["kind"], about["name"], about["namespace"]) == ("Lease", "lease", "kube-system")
        await second.stop()
        said = [record.getMessage() for record in caplog.records if record.name == "controllers"]
        assert said == [
            "lease kube-system/lease: this instance leads",
            "running serviceaccount-controller",
            "lease kube-system/lease: standing by, first leads",
            "lease kube-system/lease: this instance leads",
            "running serviceaccount-controller",
        ]

    in_town(scenario)


def test_one_whose_lease_is_taken_ends_and_leaves_it() -> None:
    async def scenario(town: Town) -> None:
        running = Running(town.transport, "first").start()
        await passes(1)
        taken = {"spec": {"holderIdentity": "usurper", "leaseDurationSeconds": 3600}}
        await town.client.patch(LEASES, "lease", taken, "kube-system", type="merge")
        await passes(5)
        assert isinstance(running.end, LeaseLostError)
        assert str(running.end) == "the lease kube-system/lease was taken by usurper"
        assert (await town.client.get(LEASES, "lease", "kube-system"))["spec"]["holderIdentity"] == "usurper"
        assert not await town.works("late")

    in_town(scenario)


@pytest.mark.parametrize("identity", ["", "first"])
def test_what_a_component_fails_with_ends_all(identity: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(_: object) -> None:
        raise CheckpointError("torn")

    async def scenario(town: Town) -> None:
        monkeypatch.setattr("controllers.instance.Manager.run", fails)
        running = Running(town.transport, identity).start()
        await passes(1)
        assert isinstance(running.end, CheckpointError)
        if identity:
            lease = await town.client.get(LEASES, "lease", "kube-system")
            assert lease["spec"]["holderIdentity"] == "", "the next one may begin"

    in_town(scenario)


# --- the process


def outcome(error: BaseException | None, monkeypatch: pytest.MonkeyPatch, verbosity: int = 0) -> int:
    """The exit code where the components end so."""

    async def serve(_: Given) -> None:
        if error is not None:
            raise error

    monkeypatch.setattr(module, "serve", serve)
    given = replace(read(["--server=http://127.0.0.1:1"]), verbosity=verbosity)
    return module.run(lambda: given, "prog")


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (None, 0, ""),
        (FlagError("--x: wrong"), 2, "prog: --x: wrong\n"),
        (CredentialsError("unknown"), 2, "prog: unknown\n"),
        (LeaseLostError("lost"), 1, "prog: lost\n"),
        (CheckpointError("torn"), 1, "prog: torn\n"),
    ],
)
def test_how_it_ended_is_one_line_and_an_exit_code(
    error: BaseException | None, code: int, said: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    assert outcome(error, monkeypatch) == code
    assert capsys.readouterr().err == said


@pytest.mark.parametrize("error", [FlagError("--x: a\nb"), KubeconfigError("a\n b"), OSError("a b")])
def test_a_mistake_in_what_it_was_told_is_one_line(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    def told() -> Given:
        raise error

    assert module.run(told, "prog") == 2
    said = capsys.readouterr().err
    assert said == (f"prog: {error}\n" if isinstance(error, FlagError) else "prog: a b\n")


def test_it_says_as_much_as_it_was_asked_to(monkeypatch: pytest.MonkeyPatch) -> None:
    levels: list[int] = []
    monkeypatch.setattr(logging, "basicConfig", lambda **how: levels.append(how["level"]))
    monkeypatch.setattr(logging.getLogger("hpack"), "level", logging.DEBUG)
    for verbosity in range(4):
        outcome(None, monkeypatch, verbosity)
    assert levels == [logging.WARNING, logging.INFO, logging.DEBUG, logging.DEBUG]
    assert logging.getLogger("hpack").level == logging.INFO, "frames are nobody's business"


class Refusing(BaseHTTPRequestHandler):
    """A server that is never ready, or does not know who asks."""

    code = 503

    def do_GET(self) -> None:
        self.send_response(self.code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None: ...


@contextmanager
def a_server(answer: int) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Answering", (Refusing,), {"code": answer}))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def asked(port: int, path: str) -> tuple[int, str]:
    connection = HTTPConnection("127.0.0.1", port)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except OSError:
        return 0, ""
    finally:
        connection.close()


@pytest.fixture
def signals() -> Iterator[None]:
    """Signals are as they were, whatever the process made of them."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.usefixtures("signals")
def test_a_signal_ends_it_well(number: int) -> None:
    port = free_port()
    said: list[tuple[int, str]] = []

    def meanwhile(url: str) -> None:
        try:
            wait_until(lambda: asked(port, "/healthz")[0] == 200, "it answers")
            said.extend((asked(port, "/readyz"), asked(port, "/metrics")))
        finally:
            os.kill(os.getpid(), number)

    with a_server(503) as url:
        other = threading.Thread(target=meanwhile, args=(url,))
        other.start()
        flags = [f"--server={url}", f"--healthz-bind-address=127.0.0.1:{port}"]
        assert module.run(lambda: read(flags), "prog") == 0
        other.join()
        assert said == [(500, f"waiting for {url}"), (200, "")]
    assert asked(port, "/healthz")[0] == 0


@pytest.mark.usefixtures("signals")
def test_a_second_signal_ends_it_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)

    async def stubborn(_: Instance) -> None:
        for expected in ([], [130]):
            os.kill(os.getpid(), signal.SIGTERM)
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                assert codes == expected
            else:
                raise AssertionError("a signal cancels it")
            if not expected:
                os.kill(os.getpid(), signal.SIGTERM)
                await become(lambda: codes, "the second one is heard")
                return

    monkeypatch.setattr(Instance, "run", stubborn)
    assert module.run(lambda: read(["--server=http://127.0.0.1:1"]), "prog") == 0
    assert codes == [130]


def test_an_address_that_is_taken_and_credentials_that_are_wrong_are_named(capsys: Any) -> None:
    with a_server(401) as url:
        port = url.rpartition(":")[2]
        taken = [f"--server={url}", f"--healthz-bind-address=127.0.0.1:{port}"]
        assert module.run(lambda: read(taken), "prog") == 2
        assert capsys.readouterr().err.startswith("prog: --healthz-bind-address: ")
        assert module.run(lambda: read([f"--server={url}"]), "prog") == 2
        assert capsys.readouterr().err == f"prog: {url} does not accept these credentials (401 Unauthorized)\n"


def test_it_is_called_as_it_was_called(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("KUBEDRA_PROG", raising=False)
    assert module.main(["--nope"]) == 2
    monkeypatch.setenv("KUBEDRA_PROG", "kubedra controllers")
    assert module.main(["--nope"]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("python -m controllers: ")
    assert second.startswith("kubedra controllers: ")
