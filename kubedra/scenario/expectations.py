"""The actions of steps that check something: each repeats its check until it succeeds or its time is over."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Final

from kubedra.client.client import ApiError
from kubedra.client.waiting import default_timeout
from kubedra.runtime.objects import Json
from kubedra.scenario.actions import Action
from kubedra.scenario.matching import check_count, describe_objects, find_mismatch
from kubedra.scenario.processes import StepError
from kubedra.scenario.values import parse_seconds
from kubedra.scenario.world import World

__all__ = ["EXPECTATIONS"]

#: Default seconds of a check in real time, and between two checks.
_PATIENCE: Final = 5.0
_POLL: Final = 0.05
_REACTION: Final = timedelta(milliseconds=10)


def _repeat(world: World, fields: Json, check: Callable[[], str]) -> None:
    """Call `check` until it returns no problem. Raise StepError with the last problem after `within`."""
    default = 0.0 if world.virtual else default_timeout(_PATIENCE)
    within = parse_seconds(fields["within"]) if "within" in fields else default
    begin, problem = _now(world), check()
    while problem:
        left = within - (_now(world) - begin)
        if left <= 0:
            head, newline, rest = problem.partition("\n")
            raise StepError(f"{head} after {within:g} s{newline}{rest}" if within else problem)
        if world.virtual:
            world.clock.step(timedelta(seconds=left), pause=_REACTION if world.has_processes else timedelta())
        else:
            time.sleep(min(_POLL, left))
        problem = check()


def _now(world: World) -> float:
    return world.clock.now().timestamp() if world.virtual else time.monotonic()


def _expect(world: World, value: str, fields: Json) -> None:
    word, _, name = value.partition("/")
    expected, count = fields.get("matches", {}), fields.get("count")

    def check_one() -> str:
        try:
            found = world.client.get(word, name, **_namespace(fields))
        except ApiError as error:
            if error.code != 404 or error.reason != "NotFound" or error.message.startswith("the server does not have"):
                raise
            return "" if count is not None and check_count(0, count) else f"{value} does not exist"
        mismatch = find_mismatch(found, expected)
        if count is None:
            return f"{value}: {mismatch}" if mismatch else ""
        number = 0 if mismatch else 1
        what = f"{value}: {mismatch}" if mismatch else f"{value} exists{' and matches' if expected else ''}"
        return "" if check_count(number, count) else f"{what}, expected count {count}"

    def check_all() -> str:
        selectors = {key: fields[key] for key in ("labelSelector", "fieldSelector") if key in fields}
        objects = world.client.list(word, **_namespace(fields), **selectors)
        number = sum(not find_mismatch(obj, expected) for obj in objects)
        if check_count(number, ">=1" if count is None else count):
            return ""
        wanted = "at least 1" if count is None else count
        matching = " that match" if expected else ""
        listed = f": {describe_objects(objects, expected)}" if objects else ""
        return f"found {number} {word}{matching}, expected {wanted}{listed}"

    _repeat(world, fields, check_one if name else check_all)


def _namespace(fields: Json) -> Json:
    return {"namespace": fields["namespace"]} if "namespace" in fields else {}


def _explain(world: World, value: str, fields: Json) -> None:
    def check() -> str:
        found = world.client.explain(value, **_namespace(fields))
        verdict, report = found.get("verdict"), found["report"]
        if "verdict" in fields and verdict != fields["verdict"]:
            return f"the verdict of {value} is {verdict}, expected {fields['verdict']}:\n{report}"
        if fields.get("contains", "") not in report:
            return f"the report of {value} does not have {fields['contains']!r}:\n{report}"
        return ""

    _repeat(world, fields, check)


def _logs(world: World, value: str, fields: Json) -> None:
    def check() -> str:
        text = world.client.logs(value, container=fields.get("container", ""), **_namespace(fields))
        return "" if fields["contains"] in text else f"the log of {value} does not have {fields['contains']!r}:\n{text}"

    _repeat(world, fields, check)


def _fired(world: World, value: str, fields: Json) -> None:
    if value not in world.faults:
        raise StepError(f"no fault {value} was injected; injected: {', '.join(world.faults) or 'none'}")
    _repeat(world, fields, lambda: _compare(f"fault {value} has hit", world.faults[value].fired(), "requests", fields))


def _requests(world: World, value: Json, fields: Json) -> None:
    options = {"user_agent" if key == "userAgent" else key: each for key, each in value.items()}
    _repeat(world, fields, lambda: _compare("found", len(world.client.requests(**options)), "requests", fields))


def _calls(world: World, value: Json, fields: Json) -> None:
    filters = {key: each for key, each in value.items() if key != "code"}

    def check() -> str:
        calls = [call for call in world.client.driver_calls(**filters) if value.get("code") in (None, call["code"])]
        problem = _compare("found", len(calls), "calls", fields)
        shown = "".join(f"\n  {call['method']} {call['node']} {call['code'] or 'running'}" for call in calls[-10:])
        return f"{problem}{shown}" if problem else ""

    _repeat(world, fields, check)


def _compare(head: str, number: int, what: str, fields: Json) -> str:
    return "" if check_count(number, fields["count"]) else f"{head} {number} {what}, expected {fields['count']}"


EXPECTATIONS: Final[dict[str, Action]] = {
    "expect": _expect,
    "explain": _explain,
    "logs": _logs,
    "fired": _fired,
    "requests": _requests,
    "calls": _calls,
}
