"""A control plane in the background: `up --detach`, `status`, `logs`, `down`.

What runs on a data directory stands in its `server.json`, which the server writes when it is ready and takes away when
it ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from kubedra import private, process

RECORD = "server.json"
LOG = "server.log"
#: Seconds until a stopping server is killed.
STOP_TIMEOUT = 10.0
_PAUSE = 0.05


class LifecycleError(Exception):
    """Why a command failed, in one line."""


def running(data_dir: Path) -> dict[str, Any] | None:
    """What `server.json` says of the server on a data directory; None if none runs."""
    try:
        record: dict[str, Any] = json.loads((data_dir / RECORD).read_text())
    except (OSError, ValueError):
        return None
    return record if _alive(int(record["pid"])) else None


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    with contextlib.suppress(OSError):
        # A process id may have gone to another program since; and one that ended unwaited for is no server either.
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        return b"apiserver" in command
    return True


def detach(command: str, arguments: Sequence[str], data_dir: Path) -> dict[str, Any]:
    """Start a server in the background, for `kubedra COMMAND`; its record once it is ready. Raises LifecycleError with
    the server's own words.
    """
    found = running(data_dir)
    if found is not None:
        raise LifecycleError(f"{data_dir}: a server runs there already, at {found['url']} (pid {found['pid']})")
    prog = f"kubedra {command}"
    log = data_dir / LOG
    child = _begun(prog, arguments, data_dir, log)
    line = _announced(child, log)
    if not line:
        child.wait()
        words = log.read_text(errors="replace").strip().splitlines()
        raise LifecycleError(
            words[-1].removeprefix(f"{prog}: ") if words else f"the server ended with exit code {child.returncode}"
        )
    child.returncode = 0  # it lives on without us: nobody waits for it here
    record: dict[str, Any] = json.loads(line)
    return record


def _begun(prog: str, arguments: Sequence[str], data_dir: Path, log: Path) -> subprocess.Popen[str]:
    """The server's process, which outlives this one and writes to a log. Raises LifecycleError."""
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


def _announced(child: subprocess.Popen[str], log: Path) -> str:
    """What a server says of itself once it is ready; "" where it ended. One that is silent for too long is killed.
    Raises LifecycleError.
    """
    assert child.stdout is not None
    with child.stdout:
        try:
            return process.announcement(child, log)
        except process.SilentError as error:
            child.kill()
            child.wait()
            raise LifecycleError(
                f"the server was not ready and made no progress for {process.PATIENCE:g} s; the last line of {log}:"
                f" {error}"
            ) from None


def stop(data_dir: Path) -> int:
    """End the server of a data directory and wait for it; its process id. Raises LifecycleError where none runs."""
    record = running(data_dir)
    if record is None:
        raise LifecycleError(f"{data_dir}: no server runs there")
    pid = int(record["pid"])
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_TIMEOUT
    while _alive(pid):
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
        time.sleep(_PAUSE)
    (data_dir / RECORD).unlink(missing_ok=True)
    return pid


def log_lines(data_dir: Path, *, follow: bool = False) -> Iterator[str]:
    """The log of a detached server; with `follow` also what comes, until the server ends."""
    path = data_dir / LOG
    if not path.exists():
        raise LifecycleError(f"{path}: no such log; only a server started with --detach writes one")
    with path.open(errors="replace") as log:
        yield from log
        while follow and running(data_dir) is not None:
            yield from _more(log)


def _more(log: IO[str]) -> Iterator[str]:
    line = log.readline()
    if line:
        yield line
    else:
        time.sleep(_PAUSE)
