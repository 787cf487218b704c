"""Runs in forked children: each starts from the same state, and nothing of it remains.

A prepared control plane costs much more than a run of a small test. So it is prepared once, and each run is a copy of
the process, which also has the modules and objects of the test as they were. Where a system cannot fork, runs are made
one after the other, each on a control plane of its own.
"""

from __future__ import annotations

import gc
import os
import pickle
import select
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from kubedra.exploration.schedule import Deviation, Schedule

__all__ = ["CAN_FORK", "Outcome", "record", "run_forked"]

CAN_FORK = hasattr(os, "fork")
#: The packages whose modules are imported on first use.
_SERVER = ("apiserver.", "controllers.", "kubedra.")
#: Seconds of real time after which a child is killed: a busy machine needs much longer than the second of a usual run.
_LIMIT = 600.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a run: the exception's type and text, empty if the run passed.

    `visited` has the choice points of a run without deviations, `imported` the modules of the server that it imported.
    """

    kind: str = ""
    message: str = ""
    trace: str = ""
    taken: list[Deviation] = field(default_factory=list)
    visited: list[tuple[str, Sequence[str]]] = field(default_factory=list)
    imported: list[str] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        return bool(self.kind)


def record(run: Callable[[Schedule], None], schedule: Schedule) -> Outcome:
    """Run and return the outcome."""
    before = set(sys.modules)
    try:
        run(schedule)
    except BaseException as error:  # noqa: BLE001 - pytest's own are no Exceptions
        kind = f"{type(error).__module__}.{type(error).__qualname__}"
        return Outcome(kind, str(error), traceback.format_exc(), schedule.taken)
    if schedule.taken:
        return Outcome(taken=schedule.taken)
    imported = [name for name in sys.modules if name not in before and name.startswith(_SERVER)]
    return Outcome(visited=schedule.visited, imported=imported)


class _Child:
    """A running child process."""

    def __init__(self, run: Callable[[Schedule], None], schedule: Schedule, prepare: Callable[[], None]) -> None:
        self.reading, writing = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # other threads keep no locks that a run needs
            self.pid = os.fork()
        if self.pid == 0:
            _be_child(run, schedule, prepare, writing)
        os.close(writing)
        self.until = time.monotonic() + _LIMIT
        self._parts: list[bytes] = []

    def read(self) -> bool:
        """Read what has come; return whether that was all."""
        part = os.read(self.reading, 1 << 16)
        self._parts.append(part)
        return not part

    def outcome(self) -> Outcome:
        """Wait for the end of the process and return its result."""
        os.close(self.reading)
        _, status = os.waitpid(self.pid, 0)
        try:
            found: Outcome = pickle.loads(b"".join(self._parts))  # noqa: S301 - our own child
        except (EOFError, pickle.UnpicklingError):
            code = os.waitstatus_to_exitcode(status)
            how = f"was killed after {_LIMIT:.0f} s" if code == -signal.SIGKILL else f"ended with {code}"
            return Outcome("ChildProcessError", f"the process of the run {how}")
        return found

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)


def _be_child(run: Callable[[Schedule], None], schedule: Schedule, prepare: Callable[[], None], writing: int) -> None:
    """Run in this child process, write the outcome, and end without any clean-up of the parent's."""
    code = 1
    try:
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nothing, stream)
        gc.set_threshold(20_000, 20, 50)  # all older objects are frozen
        prepare()
        found = pickle.dumps(record(run, schedule))
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(found)
        code = 0
    finally:
        os._exit(code)


def run_forked(
    run: Callable[[Schedule], None], schedules: Iterable[Schedule], prepare: Callable[[], None], workers: int
) -> Iterator[Outcome]:
    """Run each schedule in a child process, several at a time; yield the outcomes in order.

    `prepare` is called first in each child. Closing the iterator kills the children that still run.
    """
    waiting, running, done = iter(enumerate(schedules)), dict[int, tuple[int, _Child]](), dict[int, Outcome]()
    following = 0
    gc.collect()
    gc.freeze()
    try:
        while True:
            while len(running) < workers and (job := next(waiting, None)) is not None:
                child = _Child(run, job[1], prepare)
                running[child.reading] = job[0], child
            if not running:
                return
            _read_children(running, done)
            while following in done:
                yield done.pop(following)
                following += 1
    finally:
        for _, child in running.values():
            child.kill()
            child.outcome()
        gc.unfreeze()


def _read_children(running: dict[int, tuple[int, _Child]], done: dict[int, Outcome]) -> None:
    """Wait for a child to write or to end, and collect outcomes."""
    first = min(child.until for _, child in running.values())
    ready = select.select([*running], [], [], max(0.0, first - time.monotonic()))[0]
    if not ready:
        for _, child in running.values():
            if child.until <= time.monotonic():
                child.kill()  # its pipe ends
                child.until += _LIMIT
        return
    for reading in ready:
        number, child = running[reading]
        if child.read():
            del running[reading]
            done[number] = child.outcome()
