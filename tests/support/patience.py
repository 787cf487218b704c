"""Waiting that a busy machine does not break.

Deadlines here are in *fair seconds*: the part of each second that a process which wants a processor gets. While the
machine has processors to spare a fair second is a second; while twenty processes share two processors it is ten; and
time in which the whole machine stood still does not count.

    wait_until(lambda: server.ready, "the server is ready")
    done = run_command([...])                           subprocess.run, ended after a minute of fair seconds
    async with patience(10): ...                        asyncio.timeout

Linux says how many processes want to run (/proc/loadavg); elsewhere the load average of the last minute stands in.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
import os
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any, Final

#: Default fair seconds of a wait. Nothing here takes as long on an idle machine.
PATIENCE: Final = 20.0
#: Seconds between two measurements of the load, and the most that counts of the time between them.
TICK: Final = 0.1
LONGEST: Final = 0.5
_LOADAVG = Path("/proc/loadavg")


def processor_share() -> float:
    """Return the part of a processor that a running process gets: 1 if there are enough."""
    processors = os.cpu_count() or 1
    try:
        wanted = int(_LOADAVG.read_text().split()[3].partition("/")[0]) - 1.0  # this thread is running itself
    except OSError:
        wanted = os.getloadavg()[0]
    return processors / max(processors, wanted)


class FairClock:
    """Counts fair seconds in a thread of its own, which is started with the first use."""

    def __init__(self, share: Callable[[], float] = processor_share, now: Callable[[], float] = time.monotonic) -> None:
        self._share, self._now = share, now
        self._seconds = 0.0
        self._numbers = itertools.count()
        self._alarms: list[tuple[float, int, Callable[[], None]]] = []
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    @property
    def seconds(self) -> float:
        self._start()
        return self._seconds

    def alarm(self, seconds: float, ring: Callable[[], None]) -> Callable[[], None]:
        """Call `ring` on the clock's thread after so many fair seconds; return a function that cancels it."""
        self._start()
        with self._lock:
            number = next(self._numbers)
            heapq.heappush(self._alarms, (self._seconds + seconds, number, ring))

        def cancel() -> None:
            with self._lock:
                self._alarms = [alarm for alarm in self._alarms if alarm[1] != number]
                heapq.heapify(self._alarms)

        return cancel

    def count(self, elapsed: float) -> None:
        """Count elapsed seconds and ring due alarms."""
        self._seconds += min(elapsed, LONGEST) * self._share()
        with self._lock:
            due = []
            while self._alarms and self._alarms[0][0] <= self._seconds:
                due.append(heapq.heappop(self._alarms)[2])
        for ring in due:
            ring()

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="fair clock", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        last = self._now()
        while True:
            time.sleep(TICK)
            now = self._now()
            self.count(now - last)
            last = now


CLOCK: Final = FairClock()


class Deadline:
    """A deadline in so many fair seconds."""

    def __init__(self, seconds: float = PATIENCE) -> None:
        self._end = CLOCK.seconds + seconds

    @property
    def passed(self) -> bool:
        return CLOCK.seconds >= self._end


def wait_until(holds: Callable[[], Any], what: str, seconds: float = PATIENCE) -> Any:
    """Return the value of `holds` once it is true; raise an AssertionError with `what` at the deadline."""
    deadline = Deadline(seconds)
    while not (found := holds()):
        assert not deadline.passed, f"still not so: {what}"
        time.sleep(0.01)
    return found


async def become(holds: Callable[[], Any], what: str, seconds: float = PATIENCE) -> Any:
    """Do what `wait_until` does in a coroutine."""
    deadline = Deadline(seconds)
    while not (found := holds()):
        assert not deadline.passed, f"still not so: {what}"
        await asyncio.sleep(0.01)
    return found


def ended(process: subprocess.Popen[Any], what: str = "the process has ended", seconds: float = PATIENCE) -> int:
    """Return the exit code of a process that is expected to end."""
    deadline = Deadline(seconds)
    while True:
        try:
            return process.wait(TICK)
        except subprocess.TimeoutExpired:
            assert not deadline.passed, f"still not so: {what}"


def communicate(process: subprocess.Popen[Any], seconds: float = PATIENCE) -> tuple[Any, Any]:
    """Return standard output and standard error of a process. Raise subprocess.TimeoutExpired."""
    deadline = Deadline(seconds)
    while True:
        try:
            return process.communicate(timeout=TICK)
        except subprocess.TimeoutExpired:
            if deadline.passed:
                raise


def run_command(
    command: Sequence[str | Path], *, seconds: float = 60.0, check: bool = False, **options: Any
) -> subprocess.CompletedProcess[Any]:
    """Run a command, capture its output, and end it after fair seconds. Raise subprocess.TimeoutExpired."""
    given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    with subprocess.Popen(command, **given) as process:
        try:
            output, errors = communicate(process, seconds)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(command, process.returncode, output, errors)
    if check:
        done.check_returncode()
    return done


@contextlib.asynccontextmanager
async def patience(seconds: float = PATIENCE) -> AsyncIterator[None]:
    """Raise TimeoutError after fair seconds, like asyncio.timeout.

    It sets no timer on the loop: a virtual loop stays idle.
    """
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(None) as timeout:

        def end() -> None:
            with contextlib.suppress(RuntimeError):  # the block, or the loop, has just ended
                timeout.reschedule(loop.time())

        def ring() -> None:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(end)

        cancel = CLOCK.alarm(seconds, ring)
        try:
            yield
        finally:
            cancel()
