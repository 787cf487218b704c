"""`Client.wait`: until an object is as wanted, its time is over, or nothing is left that could make it so."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

from kubedra.client.clock import ClockMethods
from kubedra.client.paths import field_selector
from kubedra.client.responses import ApiError
from kubedra.client.steps import Call, Close, Next, Open, Steps
from kubedra.runtime import process

#: A failing test's report ends in the test: pytest leaves this module's frames out.
__tracebackhide__ = True
Json = dict[str, Any]

#: Real time that clients outside have to react to what a timer of virtual time caused.
_REACTION = timedelta(milliseconds=10)
#: Seconds after which a wait asks whether anything is left to happen, and for which nothing must have been written.
_QUIET = 1.0
#: By this a server knows watches of those who only wait; whoever else watches may act on what happens.
WAITING = "kubedra-wait"
#: Warnings about the object that a wait in vain shows.
_WARNINGS = 3


class AtRestError(TimeoutError):
    """A wait ended before its time: in the control plane nothing is left to happen by which the object could become as
    wanted.
    """


class Reader(Protocol):
    """The methods of a client that a wait uses."""

    tells_rest: bool

    def request(
        self, method: str, path: str, body: Any = None, *, params: Mapping[str, str] | None = None
    ) -> Steps[Json]: ...

    def events(self, target: str = "", *, namespace: str | None = None) -> Steps[list[Json]]: ...


class Wait:
    """One wait, as steps."""

    def __init__(
        self,
        methods: Reader,
        target: str,
        until: str | Callable[[Json], bool],
        path: str,
        namespace: str | None,
    ) -> None:
        self._methods, self._target, self._until, self._path = methods, target, until, path
        self._namespace = namespace
        self._wanted = until if callable(until) else condition(until)
        self._selector = field_selector({"metadata.name": target.partition("/")[2]})
        self._last: Json | None = None

    def _met(self, obj: Json | None) -> bool:
        """Whether this state is the wanted one; None while there is no such object."""
        if (obj is None and self._until == "delete") or (
            obj is not None and self._until != "delete" and self._wanted(obj)
        ):
            self._last = obj or self._last
            return True
        self._last = obj
        return False

    def watching(self, timeout: float, fail_fast: bool) -> Steps[Json]:
        """Look, watch, and once a second ask whether anything is left to happen."""
        begin = time.monotonic()
        deadline, rest = begin + timeout, ""
        while True:
            listing = yield from self._listing()
            items = listing.get("items") or []
            if self._met(items[0] if items else None):
                return self._last or {}
            if rest:
                # At rest before this state was read: nothing is on its way.
                raise AtRestError((yield from self._in_vain(self._early(time.monotonic() - begin, rest))))
            if time.monotonic() >= deadline:
                raise TimeoutError((yield from self._in_vain(self._late(timeout))))
            lasting = deadline - time.monotonic()
            if fail_fast and self._methods.tells_rest:
                lasting = min(lasting, _QUIET)
            if (yield from self._watch(listing["metadata"]["resourceVersion"], lasting)):
                return self._last or {}
            left = deadline - time.monotonic()
            if fail_fast and left > 0:
                rest = yield from self._rest(left)

    def _listing(self) -> Steps[Json]:
        return (yield from self._methods.request("GET", self._path, params={"fieldSelector": self._selector}))

    def _watch(self, revision: str, seconds: float) -> Steps[bool]:
        """Whether the wanted state came within `seconds`."""
        until = time.monotonic() + seconds
        params = {
            "watch": "true",
            "fieldSelector": self._selector,
            "resourceVersion": revision,
            "timeoutSeconds": str(max(1, int(seconds + 0.999))),
        }
        watch = yield Open(path=self._path, params=params, timeout=max(0.01, seconds), user_agent=WAITING)
        try:
            while (event := (yield Next(watch))) is not None:
                if event["type"] == "ERROR":
                    return False
                if event["type"] != "BOOKMARK" and self._met(None if event["type"] == "DELETED" else event["object"]):
                    return True
                if time.monotonic() >= until:
                    return False
        finally:
            yield Close(watch)
        return False

    def as_time_passes(self, timeout: float) -> Steps[Json]:
        """Look after each timer of virtual time."""
        clock = ClockMethods()
        now = yield from clock.now()
        end = now + timedelta(seconds=timeout)
        while True:
            items = (yield from self._listing()).get("items") or []
            if self._met(items[0] if items else None):
                return self._last or {}
            now = yield from clock.now()
            if now >= end:
                raise TimeoutError((yield from self._in_vain(self._late(timeout))))
            yield from clock.step(end - now, pause=_REACTION)

    def _rest(self, left: float) -> Steps[str]:
        """Why nothing will happen for `left` seconds; "" where something may."""
        code, text = yield Call(method="GET", path="/-/rest")
        if code != 200:
            # Another server than kubedra's, or somebody who may not ask.
            self._methods.tells_rest = False
            return ""
        rest = json.loads(text)
        due = rest["next"]
        if not rest["resting"] or rest["watches"] or (due and due["seconds"] <= left) or _has_children():
            return ""
        if rest["quietSeconds"] is not None and rest["quietSeconds"] < _QUIET:
            return ""
        after = (
            f"the next timer, of {due['component']}, falls due in {due['seconds']:.0f} s" if due else "no timer is set"
        )
        return f"none of its {len(rest['components'])} components has anything queued, and {after}"

    def _late(self, timeout: float) -> str:
        return f"{self._target} did not reach {self._what()} within {timeout} s"

    def _early(self, seconds: float, rest: str) -> str:
        return (
            f"{self._target} will not reach {self._what()}: after {seconds:.1f} s the control plane is at rest ({rest};"
            " fail_fast=False waits to the end)"
        )

    def _what(self) -> str:
        return self._until if isinstance(self._until, str) else getattr(self._until, "__name__", "the wanted state")

    def _in_vain(self, text: str) -> Steps[str]:
        seen = json.dumps(self._last.get("status", {}), indent=1) if self._last else "it does not exist"
        warnings = yield from self._warnings()
        return f"{text}; last seen: {seen}" + "".join(f"\n{warning}" for warning in warnings)

    def _warnings(self) -> Steps[list[str]]:
        """The latest warning events about the object."""
        try:
            events = yield from self._methods.events(self._target, namespace=self._namespace)
        except (ApiError, OSError, ValueError):
            return []
        return [f"{e.get('reason')}: {e.get('message')}" for e in events if e.get("type") == "Warning"][-_WARNINGS:]


def condition(text: str) -> Callable[[Json], bool]:
    """The predicate of a condition given as text, for `wait`. Raises ValueError if the text is not one."""
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
    """Whether this process has child processes besides control planes: an operator that has not begun to watch, a
    command in the background. False where the system does not say.
    """
    children: set[int] = set()
    try:
        for task in Path("/proc/self/task").iterdir():
            children |= {int(pid) for pid in (task / "children").read_text().split()}
    except OSError:
        return False
    return any(pid != os.getpid() for pid in children - process.CONTROL_PLANES)
