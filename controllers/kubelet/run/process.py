"""One process of a container, and what it writes. On Linux it ends with the process that started it, however that
ends.
"""

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
from controllers.kubelet.pods.containers import ContainerError, End

#: Bytes of a log that are kept; of a longer one the older half goes.
_LONGEST_LOG = 10 * 1024 * 1024
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def end_with_parent() -> None:
    """In the child: it is killed when its parent ends."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class Log:
    """What one run of a container wrote, line by line with its time. Appended by a thread, read on the loop."""

    def __init__(self, path: Path) -> None:
        self._path, self._loop = path, asyncio.get_running_loop()
        self._lines: list[Line] = []
        self._size = self._dropped = 0
        self._grown = asyncio.Event()
        self.closed = False
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("w")

    def append(self, at: datetime, text: str) -> None:
        """From the thread."""
        self._file.write(f"{at.isoformat()} {text}\n")
        self._file.flush()
        self._on_loop(self._take, (at, text))

    def close(self) -> None:
        """From the thread: nothing follows."""
        self._file.close()
        self._on_loop(self._close)

    def _on_loop(self, do: Callable[..., None], *what: Line) -> None:
        with suppress(RuntimeError):  # the loop is closed: the file alone is left to read
            self._loop.call_soon_threadsafe(do, *what)

    def lines(self, since: int = 0) -> tuple[list[Line], int]:
        """The lines from a place on, and the place after them."""
        return self._lines[max(since - self._dropped, 0) :], self._dropped + len(self._lines)

    async def grown(self) -> None:
        """Returns when something was added, or nothing will be."""
        if not self.closed:
            await self._grown.wait()

    def _take(self, line: Line) -> None:
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
    """`ended` is called on the loop, once."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        directory: Path,
        log: Log,
        ended: Callable[[], None],
    ) -> None:
        """Starts it. Raises ContainerError."""
        self.environment, self.directory, self.log = environment, directory, log
        self.end: End | None = None
        self._ended, self._loop = ended, asyncio.get_running_loop()
        self._told = False
        self._plans: list[asyncio.TimerHandle] = []
        try:
            self._child = subprocess.Popen(  # noqa: S603 - what a pod says is what --run is for
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

    def terminate(self, told: float, killed: float) -> None:
        """It is told to end in so many seconds, once, and killed in so many: what is said last counts."""
        if self.end is not None:
            return
        self._forget_plans()
        if told <= 0:
            self._tell()
        else:
            self._plans.append(self._loop.call_later(told, self._tell))
        self._plans.append(self._loop.call_later(max(killed, 0), self.kill))

    def _tell(self) -> None:
        if not self._told:
            self._told = True
            self._signal(signal.SIGTERM)

    def _forget_plans(self) -> None:
        while self._plans:
            self._plans.pop().cancel()

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        """To it and all that it started."""
        if self.end is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._child.pid, number)

    def _read(self) -> None:
        assert self._child.stdout is not None, "it is a pipe"
        with self._child.stdout as pipe:
            for line in _lines_of(pipe):
                self.log.append(clock.now(), line)
        self.log.close()

    def _wait(self) -> None:
        code = self._child.wait()
        end = End(clock.now(), code if code >= 0 else 128 - code)
        with suppress(RuntimeError):  # the loop is closed: everything ends
            self._loop.call_soon_threadsafe(self._note, end)

    def _note(self, end: End) -> None:
        self.end = end
        self._forget_plans()
        self._ended()


def _lines_of(pipe: object) -> Iterator[str]:
    for line in pipe:  # type: ignore[attr-defined]
        yield line.decode(errors="replace").rstrip("\n")
