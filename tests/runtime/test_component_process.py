"""The process of components, in this one: flags, signals, what it says and its exit code."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from apiserver.runtime.gc_tuning import THRESHOLDS
from controllers.kubelet.dra.checkpoint import CheckpointError
from controllers.manager import start as module
from controllers.manager.flags import read
from controllers.manager.instance import CredentialsError, Instance
from controllers.options.command_line import FlagError, Flags
from controllers.runtime.election import LeaseLostError
from kubedra.kubeconfig.reader import KubeconfigError
from tests.support.patience import become, wait_until
from tests.support.ports import free_port
from tests.support.wire import environment

pytestmark = pytest.mark.integration


def outcome(error: BaseException | None, monkeypatch: pytest.MonkeyPatch, verbosity: int = 0) -> int:
    """Return the exit code after the components end with this error."""

    async def serve(_: Flags) -> None:
        if error is not None:
            raise error

    monkeypatch.setattr(module, "serve", serve)
    given = replace(read(["--server=http://127.0.0.1:1"]), verbosity=verbosity)
    return module.run(lambda: given, "prog", CheckpointError)


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
    def told() -> Flags:
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
    """A server that is never ready, or rejects the credentials."""

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


@pytest.mark.parametrize("name", ["controllers", "controllers.kubelet"])
def test_a_process_of_components_collects_garbage_in_small_rounds_and_sets_aside_what_lives(name: str) -> None:
    script = (
        "import contextlib, gc, io, json, runpy, sys\n"
        f"sys.argv = ['{name}', '--help']\n"
        "with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):\n"
        f"    runpy.run_module('{name}', run_name='__main__')\n"
        "print(json.dumps([gc.get_threshold(), gc.get_freeze_count()]))"
    )
    command = [sys.executable, "-P", "-c", script]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    thresholds, aside = json.loads(done.stdout)
    assert tuple(thresholds) == THRESHOLDS
    assert aside > 10_000
