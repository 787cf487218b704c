"""Where the server's packages are and how a child process runs them.

In a wheel they stand in the private directory `kubedra/_server`; in a checkout in the repository's root. The child gets
that directory first on PYTHONPATH and runs with `-P`, so that neither the host's working directory nor its own
`apiserver/` or
`controllers/` package can come in between.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from pathlib import Path

#: Seconds in which a starting child has to make progress: to write something into its log, or to announce itself.
PATIENCE = 30.0


#: The process ids of the control planes that this process has started.
CONTROL_PLANES: set[int] = set()


class SilentError(RuntimeError):
    """A child that neither gets ready nor ends nor logs anything; the text is its log's last line."""


def server_root() -> Path:
    """The directory that holds `apiserver` and `controllers`."""
    here = Path(__file__).resolve().parents[1]
    private = here / "_server"
    return private if private.is_dir() else here.parent


def command(module: str, *args: str) -> list[str]:
    """The command line that runs one of the server's modules in a child process."""
    return [sys.executable, "-P", "-m", module, *args]


def environment() -> dict[str, str]:
    """The child's environment: the caller's, with the server's packages first on PYTHONPATH."""
    inherited = os.environ.get("PYTHONPATH", "")
    path = os.pathsep.join(part for part in (str(server_root()), inherited) if part)
    return {**os.environ, "PYTHONPATH": path}


def announcement(child: subprocess.Popen[str], log: Path, patience: float = PATIENCE) -> str:
    """The line that a child prints when it is ready; "" where it ended before. Raises SilentError when for `patience`
    seconds nothing came of it, neither that line nor more of its log.
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
