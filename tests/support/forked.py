"""Processes of kubedra that tests start, forked from a process with everything imported and one server already run.

They are ready in a quarter of the processor time. Tests about the start of a process itself use a command line
(`tests/package/test_lifecycle.py`, `tests/howto`, `tests/http/test_wire_process.py`).

    install()     fork `ControlPlane`, `NodeProcess` and the suite's `Child` from now on

The forking process starts with the first of them. Requests come over a socket, with the files of the new process;
exit codes come back through a pipe.
"""

from __future__ import annotations

import array
import asyncio
import atexit
import contextlib
import ctypes
import gc
import importlib
import json
import os
import pkgutil
import random
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, Final, NoReturn

from kubedra.runtime import process

#: The modules of `python -P -m MODULE FLAGS`.
MODULES: Final = ("apiserver", "controllers", "controllers.kubelet")
#: Modules that start such processes.
_STARTING: Final = ("kubedra.plane.control_plane", "kubedra.plane.node_process", "tests.support.wire")
#: Variables that an interpreter reads at its start: other values need a new one.
_AT_START: Final = ("PYTHON", "LD_", "TZ", "LC_", "LANG")
_PR_SET_PDEATHSIG: Final = 1
_FDS: Final = 4


class Forked:
    """The part of `subprocess.Popen` that tests use: standard input is a pipe, `stderr` a file."""

    def __init__(
        self, fork: Callable[[int, int, int], int], stderr: IO[Any], *, piped: bool = True, text: bool = True
    ) -> None:
        """Start the process.

        Args:
            fork: starts it with these files as input, output and errors; returns its id.
            stderr: its errors.
            piped: whether its output is a pipe; otherwise that of the tests.
            text: whether its pipes are text.
        """
        mode = "" if text else "b"
        self.returncode: int | None = None
        self.stdout: IO[Any] | None = None
        theirs, ours = os.pipe()
        self.stdin: IO[Any] = os.fdopen(ours, f"w{mode}")
        output = os.dup(1)
        if piped:
            os.close(output)
            read, output = os.pipe()
            self.stdout = os.fdopen(read, f"r{mode}")
        try:
            self.pid = fork(theirs, output, stderr.fileno())
        finally:
            os.close(theirs)
            os.close(output)

    def ended(self) -> int | None:
        """Return the exit code of a process that has ended."""
        ended, status = os.waitpid(self.pid, os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if ended else None

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self.ended()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        until = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if until is not None and time.monotonic() > until:
                raise subprocess.TimeoutExpired(["kubedra"], timeout or 0)
            time.sleep(0.002)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def live(
    run: Callable[[list[str]], int], flags: list[str], environment: Mapping[str, str], cwd: str, files: Sequence[int]
) -> NoReturn:
    """Run a forked process to its end: `files` are its input, output and errors."""
    code = 99
    try:
        for number, file in enumerate(files):
            os.dup2(file, number)
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
        code = run(flags)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:  # noqa: BLE001 - nothing of this process goes on where it was forked
        traceback.print_exc()
    finally:
        os._exit(code)


# --- in the tests' process
# ----------------------------------------------------------------------------------------------------------------------


def install() -> None:
    """Let the modules that start processes fork them."""
    nursery = _Nursery()

    def popen(command: Sequence[str], **options: Any) -> Any:
        return nursery.start(command, **options) or subprocess.Popen(command, **options)

    start_by(popen)


def start_by(popen: Callable[..., Any]) -> None:
    """Let the modules that start processes use this instead of `subprocess.Popen`."""
    for name in _STARTING:
        module = importlib.import_module(name)
        module.subprocess = SimpleNamespace(**{**vars(subprocess), "Popen": popen})  # type: ignore[attr-defined]


class _Nursery:
    """The client of the forking process."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._lock = threading.Lock()
        self._environment = _at_start(process.environment())

    def start(self, command: Sequence[str], **options: Any) -> Forked | None:
        """Fork a process; return None for a command that cannot be forked."""
        own = list(command[:3]) == [sys.executable, "-P", "-m"] and command[3] in MODULES
        if not own or sys.platform != "linux" or _at_start(options["env"]) != self._environment:
            return None
        asked = {
            "module": command[3],
            "flags": [str(flag) for flag in command[4:]],
            "env": dict(options["env"]),
            "cwd": str(options.get("cwd") or Path.cwd()),
            "session": bool(options.get("start_new_session")),
        }
        return _Child(
            lambda *files: self._fork(asked, files), options["stderr"], piped="stdout" in options,
            text=bool(options.get("text")),
        )  # fmt: skip

    def _fork(self, asked: dict[str, Any], files: tuple[int, int, int]) -> int:
        mask = os.umask(0)
        os.umask(mask)
        text = json.dumps({**asked, "umask": mask}).encode()
        read, write = os.pipe()
        with self._lock:
            connection = self._connection()
            socket.send_fds(connection, [len(text).to_bytes(4, "big")], [*files, write])
            connection.sendall(text)
            pid = int.from_bytes(_exactly(connection, 4), "big")
        os.close(write)
        _ENDS[pid] = read
        return pid

    def _connection(self) -> socket.socket:
        if self._socket is None:
            self._socket, theirs = socket.socketpair()
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", f"from tests.support.forked import serve; serve({theirs.fileno()})"],
                env=process.environment(), pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL,
            )  # fmt: skip
            process.CONTROL_PLANES.add(self._process.pid)  # no test waits for its changes
            theirs.close()
            atexit.register(self._end)
        return self._socket

    def _end(self) -> None:
        assert self._socket is not None, "it has begun"
        self._socket.close()
        self._process.wait()


#: The pipes with the exit codes of forked processes, by id.
_ENDS: Final[dict[int, int]] = {}


class _Child(Forked):
    """A process that is a child of the forking process."""

    def ended(self) -> int | None:
        end = _ENDS[self.pid]
        with selectors.DefaultSelector() as selector:
            selector.register(end, selectors.EVENT_READ)
            if not selector.select(0):
                return None
        code = os.read(end, 16)
        os.close(_ENDS.pop(self.pid))
        return int(code or b"-9")


def _at_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(_AT_START)}


# --- in the process that forks
# ----------------------------------------------------------------------------------------------------------------------


def serve(number: int) -> None:
    """Fork a process per request on a socket, until its other end closes."""
    _prepare()
    connection = socket.socket(fileno=number)
    woken, wake = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    ends: dict[int, int] = {}
    with selectors.DefaultSelector() as selector:
        selector.register(connection, selectors.EVENT_READ)
        selector.register(woken, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is not connection:
                    with contextlib.suppress(BlockingIOError):
                        os.read(woken, 4096)
                    _tell(ends)
                    continue
                head, files, _, _ = socket.recv_fds(connection, 4, _FDS)
                if not head:
                    return
                asked = json.loads(_exactly(connection, int.from_bytes(head, "big")))
                pid = os.fork()
                if not pid:
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    selector.close()
                    connection.close()
                    for file in (woken, wake, files[3], *ends.values()):
                        os.close(file)
                    _be(asked, files[:3])
                for file in files[:3]:
                    os.close(file)
                ends[pid] = files[3]
                connection.sendall(pid.to_bytes(4, "big"))


def _tell(ends: dict[int, int]) -> None:
    """Send the exit codes of ended processes."""
    while ends:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        end = ends.pop(pid)
        with contextlib.suppress(BrokenPipeError):
            os.write(end, b"%d" % os.waitstatus_to_exitcode(status))
        os.close(end)


def _be(asked: Mapping[str, Any], files: Sequence[int]) -> NoReturn:
    """Be the new process."""
    main = importlib.import_module(f"{asked['module']}.__main__").main
    if asked["session"]:
        os.setsid()
    os.umask(asked["umask"])
    random.seed()
    tempfile.tempdir = None
    sys.argv = [asked["module"], *asked["flags"]]
    live(main, asked["flags"], asked["env"], asked["cwd"], [_out_of_the_way(file) for file in files])


def _out_of_the_way(file: int) -> int:
    """Duplicate a file until its number is above those of the standard files."""
    while file < 3:
        file = os.dup(file)
    return file


def _prepare() -> None:
    """Import everything that processes need, and let a server answer so that schemas are compiled."""
    from apiserver.app import Server
    from apiserver.options.settings import read
    from apiserver.request.messages import Request

    import_all()

    async def one() -> None:
        with tempfile.TemporaryDirectory() as directory:
            server = await Server.open(read(["--storage=memory", f"--data-dir={directory}"]))
            for path in ("/apis", "/api/v1/pods", "/readyz", "/openapi/v2"):
                await server.chain.handle(Request("GET", path, "", {"accept": "application/json"}, b""))
            await server.close()

    asyncio.run(one())
    gc.collect()
    gc.freeze()


def import_all() -> None:
    """Import everything that processes of kubedra may import, such as each controller."""
    import controllers

    for module in pkgutil.walk_packages(controllers.__path__, "controllers."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    for name in MODULES:
        importlib.import_module(f"{name}.__main__")


def _exactly(connection: socket.socket, size: int) -> bytes:
    found = array.array("B")
    while len(found) < size:
        part = connection.recv(size - len(found))
        if not part:
            raise EOFError("the process that forks others has ended")
        found.frombytes(part)
    return found.tobytes()
