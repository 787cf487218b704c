"""Servers of tests, forked from the test's process rather than started: a mutant is in them as well, they need not
import anything, and the lines that they reach are recorded.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import importlib
import logging
import os
import pickle
import pkgutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import pytest

_PR_SET_PDEATHSIG = 1
#: How a server is started: `python -P -m apiserver FLAGS`.
_COMMAND = ["-P", "-m", "apiserver"]
#: Begins what a server reaches, and gives it when the server ends. None: nobody wants to know.
Trace = tuple[Callable[[], None], Callable[[], Any]]
TRACE: Trace | None = None
#: Where servers leave what they reached.
FOUND = Path()
#: How many servers were forked.
STARTED: list[int] = []


class Plugin:
    """A plugin of pytest: from the end of collection on servers are forked."""

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        _import_all()
        for name in ("kubedra.control_plane", "tests.support.wire"):
            module = importlib.import_module(name)
            module.subprocess = SimpleNamespace(**{**vars(subprocess), "Popen": _popen})  # type: ignore[attr-defined]


def _import_all() -> None:
    """Whatever a server may import: what it imports itself would not be changed."""
    import controllers

    for module in pkgutil.walk_packages(controllers.__path__, "controllers."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


def _popen(arguments: Sequence[str], **options: Any) -> Any:
    if list(arguments[1:4]) == _COMMAND:
        return Forked(list(arguments[4:]), **options)
    return subprocess.Popen(arguments, **options)


def spent() -> float:
    """Seconds of CPU of this process, of its servers, and of those that have ended."""
    found = os.times()
    seconds = found.user + found.system + found.children_user + found.children_system
    for pid in STARTED:
        with contextlib.suppress(OSError, ProcessLookupError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
            if fields[0] != "Z":
                seconds += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return seconds


class Forked:
    """What `subprocess.Popen` would be, as far as tests use it."""

    def __init__(
        self, flags: list[str], *, env: Mapping[str, str], stderr: IO[str], cwd: Path | str = ".", **_: Any
    ) -> None:
        self.args, self.returncode = flags, None
        read_in, write_in = os.pipe()
        read_out, write_out = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(write_in)  # else it would wait for itself
            _serve(flags, dict(env), cwd, (read_in, write_out, stderr.fileno()))
        os.close(read_in)
        os.close(write_out)
        self.stdin, self.stdout = os.fdopen(write_in, "w"), os.fdopen(read_out)
        STARTED.append(self.pid)

    returncode: int | None

    def poll(self) -> int | None:
        if self.returncode is None:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            if ended:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        until = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if until is not None and time.monotonic() > until:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            time.sleep(0.002)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _serve(flags: list[str], environment: dict[str, str], cwd: Path | str, streams: tuple[int, int, int]) -> None:
    """The server's whole life, in the child."""
    code = 99
    try:
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        logging.root.handlers.clear()  # they write where the tests do
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        sys.stdin, sys.stdout, sys.stderr = (
            open(number, mode, buffering=1, closefd=False)  # noqa: SIM115 - for as long as the process lives
            for number, mode in ((0, "r"), (1, "w"), (2, "w"))
        )
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(cwd)
        asyncio.events._set_running_loop(None)
        code = _main(flags)
    except BaseException:  # noqa: BLE001 - nothing of this process goes on where it was forked
        traceback.print_exc()
    finally:
        os._exit(code)


def _main(flags: list[str]) -> int:
    from apiserver.__main__ import main

    if TRACE is None:
        return main(flags)
    begin, end = TRACE
    begin()
    try:
        return main(flags)
    finally:
        (FOUND / str(os.getpid())).write_bytes(pickle.dumps(end()))
