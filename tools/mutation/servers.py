"""Fork the servers of tests from the test's process.

They contain the mutant, import nothing, and their lines are traced.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import pytest

from tests.support.forked import Forked, import_all, live, start_by

#: The command line of a server: `python -P -m apiserver FLAGS`.
_COMMAND = ["-P", "-m", "apiserver"]
#: Starts and ends the trace of a server; the second function returns it. None: no trace.
Trace = tuple[Callable[[], None], Callable[[], Any]]
TRACE: Trace | None = None
#: The directory of the servers' traces.
FOUND = Path()
#: The ids of forked servers.
STARTED: list[int] = []


class Plugin:
    """A pytest plugin: servers are forked from the end of collection on."""

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        import_all()  # what a server imports itself would not be changed
        start_by(_popen)


def _popen(arguments: Sequence[str], **options: Any) -> Any:
    if list(arguments[1:4]) == _COMMAND:
        return fork(list(arguments[4:]), **options)
    return subprocess.Popen(arguments, **options)


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and of its servers, running or ended."""
    found = os.times()
    seconds = found.user + found.system + found.children_user + found.children_system
    for pid in STARTED:
        with contextlib.suppress(OSError, ProcessLookupError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
            if fields[0] != "Z":
                seconds += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return seconds


def fork(flags: list[str], *, env: Mapping[str, str], stderr: IO[str], cwd: Path | str = ".", **_: Any) -> Forked:
    """Fork a server with these flags."""

    def forked(*files: int) -> int:
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if not pid:
            logging.root.handlers.clear()  # they write where the tests do
            live(_main, flags, dict(env), str(cwd), files)
        return pid

    server = Forked(forked, stderr)
    STARTED.append(server.pid)
    return server


def _main(flags: list[str]) -> int:
    from apiserver.command.start import main

    if TRACE is None:
        return main(flags)
    begin, end = TRACE
    begin()
    try:
        return main(flags)
    finally:
        (FOUND / str(os.getpid())).write_bytes(pickle.dumps(end()))
