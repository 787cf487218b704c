"""The location of the server's packages, and child processes that run them.

In a wheel the packages are in the private directory `kubedra/_server`, in a checkout in the repository's root. A child
process has that directory first on PYTHONPATH and runs with `-P`, so that `apiserver` or `controllers` packages of the
host project cannot shadow them.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from pathlib import Path

#: Seconds without progress until the start of a child fails. Progress is log output or the announcement.
PATIENCE = 30.0


#: The process ids of the control planes that this process started.
CONTROL_PLANES: set[int] = set()


class SilentError(RuntimeError):
    """A starting child made no progress. The message is the last line of its log."""


def server_root() -> Path:
    """Return the directory of `apiserver` and `controllers`."""
    here = Path(__file__).resolve().parents[1]
    private = here / "_server"
    return private if private.is_dir() else here.parent


def command(module: str, *args: str) -> list[str]:
    """Return the command line that runs one of the server's modules."""
    return [sys.executable, "-P", "-m", module, *args]


def environment() -> dict[str, str]:
    """Return the environment of a child: the caller's, with the server's packages first on PYTHONPATH."""
    inherited = os.environ.get("PYTHONPATH", "")
    path = os.pathsep.join(part for part in (str(server_root()), inherited) if part)
    return {**os.environ, "PYTHONPATH": path}


def wait_for_announcement(child: subprocess.Popen[str], log: Path, patience: float = PATIENCE) -> str:
    """Wait for the line that a child prints when it is ready. Return it, or "" if the child ended.

    Raises SilentError after `patience` seconds without that line and without new log output.
    """
    assert child.stdout is not None, "its standard output is a pipe"
    size, until = -1, 0.0
    while True:
        if (now_size := log.stat().st_size) != size:
            size, until = now_size, time.monotonic() + patience
        left = until - time.monotonic()
        if select.select([child.stdout], [], [], max(min(left, 0.25), 0))[0]:
            return child.stdout.readline()
        if left <= 0:
            lines = log.read_text(errors="replace").split("\n")
            raise SilentError(next((line for line in reversed(lines) if line.strip()), "its log is empty"))
