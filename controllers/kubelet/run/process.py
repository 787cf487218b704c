"""One process of a container and its log. On Linux the process is killed when its parent ends for any reason."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from apiserver.api.helpers.pod_logs import Line
from apiserver.runtime import clock
from controllers.kubelet.pods.containers import ContainerError, ContainerExit

#: Maximum size of a log in bytes. The older half of a longer log is dropped.
_LONGEST_LOG = 10 * 1024 * 1024
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def end_with_parent() -> None:
    """Make the kernel kill this process when its parent ends. Runs in the child."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class Log:
    """The timestamped lines of one container run. A thread appends; the event loop reads."""

    def __init__(self, path: Path) -> None:
        self._path, self._loop = path, asyncio.get_running_loop()
        self._lines: list[Line] = []
        self._size = self._dropped = 0
        self._grown = asyncio.Event()
        self.closed = False
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("w")

    def append(self, at: datetime, text: str) -> None:
        """Append a line; called by the thread."""
        self._file.write(f"{at.isoformat()} {text}\n")
        self._file.flush()
        self._on_loop(self._add_line, (at, text))

    def close(self) -> None:
        """End the log; called by the thread."""
        self._file.close()
        self._on_loop(self._close)

    def _on_loop(self, do: Callable[..., None], *what: Line) -> None:
        with suppress(RuntimeError):  # the loop is closed: only the file is left to read
            self._loop.call_soon_threadsafe(do, *what)

    def lines(self, since: int = 0) -> tuple[list[Line], int]:
        """Return the lines from a position on, and the position after them."""
        return self._lines[max(since - self._dropped, 0) :], self._dropped + len(self._lines)

    async def wait_grown(self) -> None:
        """Wait until a line is added or the log is closed."""
        if not self.closed:
            await self._grown.wait()

    def _add_line(self, line: Line) -> None:
        self._lines.append(line)
        self._size += len(line[1])
        if self._size > _LONGEST_LOG:
            half = len(self._lines) // 2
            self._size -= sum(len(text) for _, text in self._lines[:half])
            del self._lines[:half]
            self._dropped += half
        self._wake()

    def _close(self) -> None:
        self.closed = True
        self._wake()

    def _wake(self) -> None:
        grown, self._grown = self._grown, asyncio.Event()
        grown.set()


class Process:
    """One process. `ended` is called once, on the loop."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        directory: Path,
        log: Log,
        ended: Callable[[], None],
    ) -> None:
        """Start the process. Raise ContainerError."""
        self.environment, self.directory, self.log = environment, directory, log
        self.end: ContainerExit | None = None
        self._ended, self._loop = ended, asyncio.get_running_loop()
        self._sigterm_sent = False
        self._timers: list[asyncio.TimerHandle] = []
        try:
            self._child = subprocess.Popen(  # noqa: S603 - --run exists to run the commands of pods
                list(command),
                cwd=directory,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=end_with_parent,  # noqa: PLW1509 - one system call, looked up before
            )
        except OSError as error:
            log.close()
            known = {FileNotFoundError: "executable file not found in $PATH", PermissionError: "permission denied"}
            why = known.get(type(error), error.strerror or str(error))
            raise ContainerError("RunContainerError", f'exec: "{command[0]}": {why}') from error
        threading.Thread(target=self._read, name=f"log {command[0]}", daemon=True).start()
        threading.Thread(target=self._wait, name=f"wait {command[0]}", daemon=True).start()

    @property
    def pid(self) -> int:
        return self._child.pid

    def terminate(self, after: float, kill_after: float) -> None:
        """Send SIGTERM after `after` seconds, only once, and SIGKILL after `kill_after` seconds.

        A later call replaces pending signals.
        """
        if self.end is not None:
            return
        self._cancel_timers()
        if after <= 0:
            self._send_sigterm()
        else:
            self._timers.append(self._loop.call_later(after, self._send_sigterm))
        self._timers.append(self._loop.call_later(max(kill_after, 0), self.kill))

    def _send_sigterm(self) -> None:
        if not self._sigterm_sent:
            self._sigterm_sent = True
            self._signal(signal.SIGTERM)

    def _cancel_timers(self) -> None:
        while self._timers:
            self._timers.pop().cancel()

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        """Send a signal to the process group."""
        if self.end is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._child.pid, number)

    def _read(self) -> None:
        assert self._child.stdout is not None, "stdout is a pipe"
        with self._child.stdout as pipe:
            for line in _lines_of(pipe):
                self.log.append(clock.now(), line)
        self.log.close()

    def _wait(self) -> None:
        code = self._child.wait()
        end = ContainerExit(clock.now(), code if code >= 0 else 128 - code)
        with suppress(RuntimeError):  # the loop is closed: the node has stopped
            self._loop.call_soon_threadsafe(self._finish, end)

    def _finish(self, end: ContainerExit) -> None:
        self.end = end
        self._cancel_timers()
        self._ended()


def _lines_of(pipe: object) -> Iterator[str]:
    for line in pipe:  # type: ignore[attr-defined]
        yield line.decode(errors="replace").rstrip("\n")
