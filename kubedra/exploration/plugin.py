"""Explored tests in pytest: `@pytest.mark.kube(explore=200)`."""

from __future__ import annotations

import functools
import inspect
import shlex
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest

from kubedra.exploration.plane import LoopControlPlane
from kubedra.exploration.schedule import FixedSchedule, ScheduleError, parse, render
from kubedra.exploration.search import Explorer, Finding, Trials, run_plain, search

__all__ = ["OPTIONS", "explore", "make_explorer"]

#: Options of the marker for a control plane on the loop of the test.
OPTIONS: Final = frozenset(
    {
        "nodes", "devices", "controllers", "emulated_version", "feature_gates", "runtime_config", "jobs_exit_after",
        "args", "explore_components",
    }
)  # fmt: skip


def coroutine_function(item: pytest.Function) -> Callable[..., Any] | None:
    """Return the coroutine function of a test, without the wrappers of plugins that run such tests."""
    test = inspect.unwrap(item.obj)
    if not inspect.iscoroutinefunction(test):
        return None
    owner = getattr(item.obj, "__self__", None)
    return test if owner is None or inspect.ismethod(test) else functools.partial(test, owner)


def make_explorer(options: Mapping[str, Any]) -> Explorer:
    """Start the control plane of an explored test."""
    explorer = Explorer(LoopControlPlane(**options))
    explorer.open()
    return explorer


def explore(item: pytest.Function, explorer: Trials, count: int, given: str | None) -> None:
    """Run an explored test under its schedules, or under the given one. Raise the test's exception."""
    __tracebackhide__ = True
    test = coroutine_function(item) or item.obj
    arguments = {name: item.funcargs[name] for name in item._fixtureinfo.argnames}
    explorer.test = functools.partial(test, **arguments)
    if given is not None:
        deviations = _parse(given)
        if deviations:
            run_plain(explorer)
        _play(explorer, FixedSchedule(deviations), "")
        return
    begin = time.monotonic()
    found = search(explorer, range(1, count + 1)) if count else None
    item.user_properties.append(("kubedra_schedules", found.number if found else count))
    if found is None or not found.number:
        _play(explorer, FixedSchedule(), "")
        return
    text = _describe(item, found, count, time.monotonic() - begin)
    _play(explorer, FixedSchedule(found.deviations), text)
    raise AssertionError(
        f"{text}\nThe failure did not repeat in this process, so the test depends on more than its schedule:\n"
        f"{found.outcome.trace or found.outcome.message}"
    )


def _play(explorer: Trials, schedule: FixedSchedule, note: str) -> None:
    __tracebackhide__ = True
    try:
        explorer.play(schedule)
    except BaseException as error:
        if note:
            error.add_note(note)
        raise


def _parse(text: str) -> list[Any]:
    try:
        return parse(text)
    except ScheduleError as error:
        raise pytest.UsageError(f"--kubedra-schedule: {error}") from None


def _describe(item: pytest.Function, found: Finding, count: int, seconds: float) -> str:
    """Return the text about a failing schedule that follows the test's exception."""
    replay = f"--kubedra-schedule={shlex.quote(render(found.deviations))}"
    return (
        f"schedule {found.number} of {count} fails, found and shrunk from {len(found.first)} to"
        f" {len(found.deviations)} deviations in {seconds:.1f} s. Replay it:\n"
        f"  pytest {shlex.quote(item.nodeid)} {replay}"
    )
