"""A control plane in the background: `up --detach`, `status`, `logs`, `down`.

The server of a data directory is found by its record (kubedra.runtime.server_record).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from kubedra.runtime import private_files as private
from kubedra.runtime import process
from kubedra.runtime.server_record import open_record

LOG = "server.log"
#: Seconds until a stopping server is killed.
STOP_TIMEOUT = 10.0
_PAUSE = 0.05


class LifecycleError(Exception):
    """The reason why a command failed, in one line."""


def running(data_dir: Path) -> dict[str, Any] | None:
    """Return the record of the server that runs on a data directory; None if none does."""
    with open_record(data_dir) as server:
        return server.content if server else None


def detach(command: str, arguments: Sequence[str], data_dir: Path) -> dict[str, Any]:
    """Start a server in the background for `kubedra COMMAND`. Return its record and `warnings` once it is ready.

    Raises LifecycleError with the server's last log line.
    """
    found = running(data_dir)
    if found is not None:
        raise LifecycleError(
            f"{data_dir}: a server is already running at {found['url']} (pid {found['pid']}); stop it with"
            f" `kubedra down --data-dir {data_dir}`"
        )
    prog = f"kubedra {command}"
    # Two starts at the same time have a log each, so that each reports its own error.
    log = data_dir / f"{LOG}.{os.getpid()}"
    try:
        child = _start_process(prog, arguments, data_dir, log)
        line = _read_announcement(child, log)
        lines = log.read_text(errors="replace").strip().splitlines()
        if not line:
            child.wait()
            raise LifecycleError(
                lines[-1].removeprefix(f"{prog}: ") if lines else f"the server ended with exit code {child.returncode}"
            )
        child.returncode = 0  # the server outlives this process; without this, Popen would warn that it still runs
        log.replace(data_dir / LOG)
    finally:
        if running(data_dir) is None and log.exists():
            log.replace(data_dir / LOG)
        log.unlink(missing_ok=True)
    record: dict[str, Any] = json.loads(line)
    return {**record, "warnings": [text for text in lines if text.startswith("warning: ")]}


def _start_process(prog: str, arguments: Sequence[str], data_dir: Path, log: Path) -> subprocess.Popen[str]:
    """Start a server process that outlives this one and writes to a log. Raises LifecycleError."""
    try:
        private.make_directory(data_dir)
        descriptor = private.open_file(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    except OSError as error:
        raise LifecycleError(f"{log}: {error.strerror}") from error
    with os.fdopen(descriptor, "w") as output:
        return subprocess.Popen(  # noqa: S603 - our own interpreter and module
            process.command("apiserver", *arguments, "--announce"),
            env={**process.environment(), "KUBEDRA_PROG": prog},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=output,
            text=True,
            start_new_session=True,
        )


def _read_announcement(child: subprocess.Popen[str], log: Path) -> str:
    """Return the line that a server prints when it is ready, or "" if it ended.

    Kill a server that makes no progress, and raise LifecycleError.
    """
    assert child.stdout is not None
    with child.stdout:
        try:
            return process.wait_for_announcement(child, log)
        except process.SilentError as error:
            child.kill()
            child.wait()
            raise LifecycleError(
                f"the server did not become ready and logged nothing for {process.PATIENCE:g} s; the last line of"
                f" {log}: {error}"
            ) from None


def stop(data_dir: Path) -> int:
    """End the server of a data directory and wait for it. Return its process id. Raises LifecycleError if none runs."""
    with open_record(data_dir) as server:
        pid = server.pid if server else None
        if server is None or pid is None:
            raise LifecycleError(f"{data_dir}: no server is running")
        if not pid:
            raise LifecycleError(f"{data_dir}: the server runs in another container; stop it there")
        number, deadline = signal.SIGTERM, time.monotonic() + STOP_TIMEOUT
        try:
            os.kill(pid, number)
            while server.pid == pid:
                if time.monotonic() > deadline and number is not signal.SIGKILL:
                    number = signal.SIGKILL
                    os.kill(pid, number)
                time.sleep(_PAUSE)
        except PermissionError:
            raise LifecycleError(f"{data_dir}: the server (pid {pid}) belongs to another user") from None
        except ProcessLookupError:
            pass
    return pid


def log_lines(data_dir: Path, *, follow: bool = False) -> Iterator[str]:
    """Yield the log of a detached server; with `follow`, also new lines until the server has ended."""
    path = data_dir / LOG
    if not path.exists():
        raise LifecycleError(f"{path}: no log; only a server started with --detach writes one")
    with path.open(errors="replace") as log, open_record(data_dir) as server:
        yield from log
        while follow and server is not None and server.pid is not None:
            yield from _poll(log)
        yield from log


def _poll(log: IO[str]) -> Iterator[str]:
    line = log.readline()
    if line:
        yield line
    else:
        time.sleep(_PAUSE)
