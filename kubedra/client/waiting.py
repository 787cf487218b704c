"""`Client.wait`: wait until an object meets a condition, the timeout is over, or the control plane is idle."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

from kubedra.client.clock import ClockMethods
from kubedra.client.failed_waits import describe_failed_wait
from kubedra.client.paths import field_selector
from kubedra.client.responses import ApiError
from kubedra.client.steps import Call, CloseWatch, NextEvent, OpenWatch, Steps
from kubedra.runtime import process
from kubedra.runtime.objects import Json

#: pytest hides this module's frames in the reports of failing tests.
__tracebackhide__ = True

#: Real time for external clients to react to a timer of virtual time.
_REACTION = timedelta(milliseconds=10)
#: Interval of idleness checks, and the time without writes that counts as idle, in seconds.
_QUIET = 1.0
#: User agent of the watches of `wait`. The server ignores these when it checks for idleness; other watchers may act.
WAITING = "kubedra-wait"
#: Maximum number of warning events in the error of a failed wait.
_WARNINGS = 3
#: Maximum number of changes in the error of a failed wait.
_CHANGES = 3


def default_timeout(seconds: float) -> float:
    """Return $KUBEDRA_WAIT_TIMEOUT, or this default of the caller."""
    return float(os.environ.get("KUBEDRA_WAIT_TIMEOUT") or seconds)


class AtRestError(TimeoutError):
    """A wait failed early, because the idle control plane can no longer change the object."""


class Reader(Protocol):
    """The client methods that a wait uses."""

    reports_idleness: bool
    monotonic: Callable[[], float]

    def request(
        self, method: str, path: str, body: Any = None, *, params: Mapping[str, str] | None = None
    ) -> Steps[Json]: ...

    def events(self, target: str = "", *, namespace: str | None = None) -> Steps[list[Json]]: ...

    def history(self, target: str, *, namespace: str | None = None, limit: int = 100) -> Steps[list[Json]]: ...


class Wait:
    """One wait, as steps."""

    def __init__(
        self,
        methods: Reader,
        target: str,
        until: str | Callable[[Json], object],
        path: str,
        namespace: str | None,
    ) -> None:
        self._methods, self._target, self._until, self._path = methods, target, until, path
        self._namespace = namespace
        self._predicate = until if callable(until) else condition(until)
        self._selector = field_selector({"metadata.name": target.partition("/")[2]})
        self._last: Json | None = None

    def _is_met(self, obj: Json | None) -> bool:
        """Return whether a state meets the condition. None is the state of an object that does not exist."""
        if (obj is None and self._until == "delete") or (
            obj is not None and self._until != "delete" and self._predicate(obj)
        ):
            self._last = obj or self._last
            return True
        self._last = obj
        return False

    def watch_until_met(self, timeout: float, fail_fast: bool) -> Steps[Json]:
        """List and watch the object, and check every second whether the control plane is idle."""
        begin = self._methods.monotonic()
        deadline, idle = begin + timeout, ""
        while True:
            listing = yield from self._list()
            items = listing.get("items") or []
            if self._is_met(items[0] if items else None):
                return self._last or {}
            if idle:
                # The control plane was idle before this state was read, so no change is under way.
                raise AtRestError((yield from self._describe_idle(self._methods.monotonic() - begin, idle)))
            if self._methods.monotonic() >= deadline:
                raise TimeoutError((yield from self._describe_timeout(timeout)))
            lasting = deadline - self._methods.monotonic()
            if fail_fast and self._methods.reports_idleness:
                lasting = min(lasting, _QUIET)
            if (yield from self._watch(listing["metadata"]["resourceVersion"], lasting)):
                return self._last or {}
            left = deadline - self._methods.monotonic()
            if fail_fast and left > 0:
                idle = yield from self._idle_reason(left)

    def _list(self) -> Steps[Json]:
        return (yield from self._methods.request("GET", self._path, params={"fieldSelector": self._selector}))

    def _watch(self, revision: str, seconds: float) -> Steps[bool]:
        """Return whether the condition was met within `seconds`."""
        until = self._methods.monotonic() + seconds
        params = {
            "watch": "true",
            "fieldSelector": self._selector,
            "resourceVersion": revision,
            "timeoutSeconds": str(max(1, int(seconds + 0.999))),
        }
        watch = yield OpenWatch(path=self._path, params=params, timeout=max(0.01, seconds), user_agent=WAITING)
        try:
            while (event := (yield NextEvent(watch))) is not None:
                if event["type"] == "ERROR":
                    return False
                if event["type"] != "BOOKMARK" and self._is_met(
                    None if event["type"] == "DELETED" else event["object"]
                ):
                    return True
                if self._methods.monotonic() >= until:
                    return False
        finally:
            yield CloseWatch(watch)
        return False

    def advance_until_met(self, timeout: float) -> Steps[Json]:
        """Advance virtual time timer by timer, and check the object after each."""
        clock = ClockMethods()
        now = yield from clock.now()
        end = now + timedelta(seconds=timeout)
        while True:
            items = (yield from self._list()).get("items") or []
            if self._is_met(items[0] if items else None):
                return self._last or {}
            now = yield from clock.now()
            if now >= end:
                raise TimeoutError((yield from self._describe_timeout(timeout)))
            yield from clock.step(end - now, pause=_REACTION)

    def _idle_reason(self, left: float) -> Steps[str]:
        """Return why nothing will happen for `left` seconds, or "" if something may."""
        code, text = yield Call(method="GET", path="/-/idle")
        if code != 200:
            # The server is not kubedra's, or the user has no access to this path.
            self._methods.reports_idleness = False
            return ""
        state = json.loads(text)
        due = state["next"]
        if not state["resting"] or state["watches"] or (due and due["seconds"] <= left) or _has_children():
            return ""
        if state["quietSeconds"] is not None and state["quietSeconds"] < _QUIET:
            return ""
        timer = f"the next timer, of {due['component']}, fires in {due['seconds']:.0f} s" if due else "no timer is set"
        return f"none of its {len(state['components'])} components has queued work, and {timer}"

    def _describe_timeout(self, timeout: float) -> Steps[str]:
        head = f"{self._target} did not reach {self._condition()} within {timeout:g} s"
        return (yield from self._describe(head, ""))

    def _describe_idle(self, seconds: float, reason: str) -> Steps[str]:
        head = f"{self._target} will not reach {self._condition()}"
        idle = f"the control plane is idle after {seconds:.1f} s ({reason})"
        end = f"{idle}; pass fail_fast=False to wait until the timeout"
        return (yield from self._describe(head, end))

    def _describe(self, head: str, end: str) -> Steps[str]:
        warnings, changes = (yield from self._list_warnings()), (yield from self._list_changes())
        return describe_failed_wait(head, end, self._last, warnings, changes)

    def _condition(self) -> str:
        return self._until if isinstance(self._until, str) else getattr(self._until, "__name__", "the condition")

    def _list_warnings(self) -> Steps[list[str]]:
        """Return the latest warning events of the object."""
        try:
            events = yield from self._methods.events(self._target, namespace=self._namespace)
        except (ApiError, OSError, ValueError):
            return []
        return [f"{e.get('reason')}: {e.get('message')}" for e in events if e.get("type") == "Warning"][-_WARNINGS:]

    def _list_changes(self) -> Steps[list[Json]]:
        """Return the last changes of the object; none if the server has no history."""
        try:
            return (yield from self._methods.history(self._target, namespace=self._namespace, limit=_CHANGES))
        except (ApiError, OSError, ValueError, KeyError):
            return []


def condition(text: str) -> Callable[[Json], bool]:
    """Return the predicate of a condition given as text. Raises ValueError for invalid text."""
    head, _, rest = text.partition("=")
    if head == "phase" and rest:
        return lambda obj: obj.get("status", {}).get("phase") == rest
    if head == "condition" and rest:
        kind, _, status = rest.partition("=")
        return lambda obj: any(
            c["type"] == kind and c["status"] == (status or "True")
            for c in obj.get("status", {}).get("conditions") or ()
        )
    if text in {"create", "delete"}:
        return lambda _: text == "create"
    raise ValueError(f'cannot wait for "{text}": use phase=X, condition=TYPE[=STATUS], create, delete or a function')


def _has_children() -> bool:
    """Return whether this process has child processes besides control planes.

    Such a child may be an operator before its first watch, or a background command. Return False if the system does not
    list children.
    """
    children: set[int] = set()
    try:
        for task in Path("/proc/self/task").iterdir():
            children |= {int(pid) for pid in (task / "children").read_text().split()}
    except OSError:
        return False
    return any(pid != os.getpid() for pid in children - process.CONTROL_PLANES)
