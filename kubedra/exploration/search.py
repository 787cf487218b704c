"""Search for a schedule under which a test fails, and shrink it.

`Explorer` runs a test on a control plane of its own (`LoopControlPlane`) under any schedule: in this process (`play`),
or in copies of it (`outcomes`).
"""

from __future__ import annotations

import asyncio
import importlib
import os
from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from kubedra.exploration.forks import CAN_FORK, Outcome, record, run_forked
from kubedra.exploration.schedule import Deviation, FixedSchedule, Schedule, pick, shrink

if TYPE_CHECKING:
    from kubedra.exploration.plane import LoopControlPlane

__all__ = ["Explorer", "Finding", "Trials", "run_plain", "search"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A failing schedule.

    `number` is that of the schedule, 0 for the plain run; `first` has its deviations, `deviations` those that are left.
    """

    number: int
    first: list[Deviation]
    deviations: list[Deviation]
    outcome: Outcome


class Trials(Protocol):
    """A test that can be run under any schedule."""

    test: Callable[[], Any]

    def play(self, schedule: Schedule) -> None:
        """Run the test once. Its exception is raised."""

    def outcomes(self, schedules: Iterable[Schedule], workers: int = 1, /) -> Iterator[Outcome]:
        """Run the test under each schedule. Yield the outcomes in order."""
        ...


class Explorer:
    """A test and its control plane. `kube` is what the test gets."""

    def __init__(self, kube: LoopControlPlane) -> None:
        self.kube = kube
        self.test: Callable[[], Coroutine[Any, Any, object]]
        self._runner: asyncio.Runner | None = None

    def open(self) -> None:
        """Start the control plane. Its errors are raised."""
        self._runner = asyncio.Runner(loop_factory=self.kube.new_loop)
        self._runner.run(self.kube.start())

    def close(self) -> None:
        """Stop the control plane."""
        runner, self._runner = self._runner, None
        if runner is not None:
            with runner:
                runner.run(self.kube.stop())

    def play(self, schedule: Schedule) -> None:
        """Run the test once, in this process. Its exception is raised. Another run needs another control plane."""
        assert self._runner is not None, "the control plane is open"
        self._runner.run(self.kube.play(self.test, schedule))

    def outcomes(self, schedules: Iterable[Schedule], workers: int = 1) -> Iterator[Outcome]:
        """Run the test under each schedule, in copies of this process. Yield the outcomes in order."""
        if CAN_FORK:
            assert self._runner is not None, "the control plane is open"
            loop: Any = self._runner.get_loop()
            yield from run_forked(self.play, schedules, loop.after_fork, workers)
            return
        for schedule in schedules:
            yield record(self.play, schedule)
            self.close()
            self.open()


def workers() -> int:
    """Return how many copies run at a time: the processors of this worker of pytest-xdist."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, available // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


def run_plain(explorer: Trials) -> Outcome:
    """Run the plain schedule. Import what it imported, so that later runs begin with the same modules."""
    (plain,) = explorer.outcomes([FixedSchedule()])
    for module in plain.imported:
        importlib.import_module(module)
    return plain


def search(explorer: Trials, numbers: Iterable[int]) -> Finding | None:
    """Run the plain schedule and then those of the numbers. Return the first one that fails, shrunk."""
    plain = run_plain(explorer)
    if plain.failed:
        return Finding(0, [], [], plain)
    numbers = list(numbers)
    outcomes = explorer.outcomes((pick(number, plain.visited) for number in numbers), workers())
    for number, outcome in zip(numbers, outcomes, strict=True):
        if outcome.failed:
            outcomes.close()  # type: ignore[attr-defined]
            return _shrink(explorer, number, outcome)
    return None


def _shrink(explorer: Trials, number: int, outcome: Outcome) -> Finding:
    """Leave out what the failure does not need. Failures with another exception are other failures."""
    latest = outcome

    def fails(deviations: list[Deviation]) -> bool:
        nonlocal latest
        (found,) = explorer.outcomes([FixedSchedule(deviations)])
        if found.kind == outcome.kind:
            latest = found
        return found.kind == outcome.kind

    left = shrink(outcome.taken, fails)
    return Finding(number, outcome.taken, left, latest)
