"""The handler that lets requests in by priority and fairness. It stands behind authentication, before authorization."""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Awaitable, Callable, Iterable, Mapping
from time import perf_counter
from typing import Any, Final

from apiserver.api.durations import parse_duration
from apiserver.api.metrics import Counter, Family, Gauge, Histogram, Labels
from apiserver.api.status import PlainError
from apiserver.http.fairness.flows import Flow, Flows
from apiserver.http.fairness.levels import Level, Rejected, share_seats
from apiserver.http.handlers.chain import Handler
from apiserver.messages import Request, Response, Stream
from apiserver.requestinfo import LONG_RUNNING

__all__ = ["Fairness"]

Json = Mapping[str, Any]

_CATCH_ALL: Final = "catch-all"
_NAME: Final = "apiserver_flowcontrol"
_OF_FLOW: Final = ("priority_level", "flow_schema")
_SECONDS: Final = (0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30)
_LENGTHS: Final = (0, 10, 25, 50, 100, 250, 500, 1000)
#: Seconds that a request may take which does not say it; a fourth of it may pass in a queue, but no more than a minute.
_DEADLINE: Final = 60.0
_LONGEST: Final = 60.0
#: Flows whose schemas are gone and whose counts are kept.
_KEPT: Final = 1000


class Fairness:
    """`seats`: how many requests the server answers at once, those aside that are exempt."""

    next: Handler

    def __init__(self, seats: int) -> None:
        self._seats = seats
        self._levels: dict[str, Level] = {}
        self._flows = Flows()
        #: Flows by name, with their counts, also those whose schemas are gone.
        self._known: dict[tuple[str, str], Flow] = {}
        self._rejected = Counter(f"{_NAME}_rejected_requests_total", "Requests refused.", (*_OF_FLOW, "reason"))
        self._waited = Histogram(
            f"{_NAME}_request_wait_duration_seconds", "Time in queues.", (*_OF_FLOW, "execute"), _SECONDS
        )
        self._took = Histogram(
            f"{_NAME}_request_execution_seconds", "Time that limited requests took; watches, to open.",
            (*_OF_FLOW, "type"), _SECONDS,
        )  # fmt: skip
        self._lengths = Histogram(
            f"{_NAME}_request_queue_length_after_enqueue", "Lengths of queues that requests came into.", _OF_FLOW,
            _LENGTHS,
        )  # fmt: skip

    def configure(self, schemas: Iterable[Json], levels: Iterable[Json]) -> None:
        """Takes the FlowSchemas and PriorityLevelConfigurations that there are. Requests that wait keep their place."""
        found: dict[str, Level] = {}
        for each in levels:
            name: str = each["metadata"]["name"]
            found[name] = self._levels.get(name) or Level(name)
            found[name].configure(each)
        self._levels = found
        share_seats(found, self._seats)
        order = sorted(
            schemas, key=lambda each: (each["spec"].get("matchingPrecedence", 1000), each["metadata"]["name"])
        )
        ruled = []
        for schema in order:
            level = found.get(schema["spec"]["priorityLevelConfiguration"]["name"])
            if level is not None:  # a schema whose level is not there does not count
                ruled.append((schema["spec"], self._flow(schema, level)))
        if len(self._known) > _KEPT:
            present = {flow for _, flow in ruled}
            self._known = {key: flow for key, flow in self._known.items() if flow in present or flow.executing}
        last = next((flow for _, flow in ruled if flow.name == _CATCH_ALL), None)
        self._flows = Flows(ruled, last)

    def _flow(self, schema: Json, level: Level) -> Flow:
        flow = Flow(schema, level)
        before = self._known.get((level.name, flow.name))
        if before is not None:  # who is under way counts in the one that was there
            before.level, before.distinguish, before.marks = level, flow.distinguish, flow.marks
            return before
        self._known[level.name, flow.name] = flow
        return flow

    def try_fast(self, request: Request) -> Response | None:
        flow = self._flows.of(request)
        if flow is None:
            return self.next.try_fast(request)
        request.marks = flow.marks
        level = flow.level
        if level.exempt:
            answer = self.next.try_fast(request)
            if answer is not None:
                flow.dispatched += 1
            return answer
        if not level.take():
            return None
        since = perf_counter()
        try:
            answer = self.next.try_fast(request)
        except BaseException:
            level.leave(since)
            raise
        if answer is None:
            level.give_back()
            return None
        flow.dispatched += 1
        level.leave(since)
        return answer

    def handle(self, request: Request) -> Awaitable[Response | Stream]:
        info = request.info
        flow = self._flows.of(request)
        if flow is None or info.subresource in LONG_RUNNING or info.verb == "proxy":
            return self.next.handle(request)
        request.marks = flow.marks
        if flow.level.exempt:
            flow.dispatched += 1
            return self.next.handle(request)
        return self._limited(request, flow)

    async def _limited(self, request: Request, flow: Flow) -> Response | Stream:
        level = flow.level
        if not level.take():
            await self._wait(request, flow)
        flow.dispatched += 1
        flow.executing += 1
        started = perf_counter()
        try:
            return await self.next.handle(request)
        finally:
            flow.executing -= 1
            kind = "watch" if request.info.verb == "watch" else "regular"
            self._took.observe(perf_counter() - started, level.name, flow.name, kind)
            level.leave(started)

    async def _wait(self, request: Request, flow: Flow) -> None:
        """Raises 429."""
        level, since = flow.level, perf_counter()
        try:
            seconds, length = await level.wait(flow, flow.key(request), _patience(request))
        except Rejected as rejected:
            self._rejected.inc(level.name, flow.name, str(rejected))
            self._waited.observe(perf_counter() - since, level.name, flow.name, "false")
            raise PlainError(429, "Too many requests, please try again later.", (("Retry-After", "1"),)) from None
        self._waited.observe(seconds, level.name, flow.name, "true")
        self._lengths.observe(length, level.name, flow.name)

    def families(self) -> list[Family]:
        """What is counted of flows and levels."""
        dispatched = Counter(f"{_NAME}_dispatched_requests_total", "Requests let in.", _OF_FLOW)
        for (level, schema), flow in self._known.items():
            dispatched.sample(level, schema).value = flow.dispatched
        executing: dict[Labels, float] = {key: float(flow.executing) for key, flow in self._known.items()}
        waiting = self._waiting()
        of_levels: Mapping[str, tuple[str, Callable[[Level], int]]] = {
            "nominal_limit_seats": ("Seats of each level.", lambda level: level.seats),
            "lower_limit_seats": ("Seats that each level keeps.", lambda level: level.least),
            "upper_limit_seats": ("Seats that each level may have.", lambda level: level.most),
            "current_limit_seats": ("Seats that each level has now.", lambda level: max(level.seats, level.executing)),
        }
        return [
            dispatched, self._rejected, self._waited, self._took, self._lengths,
            _gauge("current_executing_requests", "Limited requests that are being answered.", _OF_FLOW, executing),
            _gauge("current_executing_seats", "Seats in use.", _OF_FLOW, executing),
            _gauge("current_inqueue_requests", "Requests that wait.", _OF_FLOW, waiting),
            _gauge("current_inqueue_seats", "Seats for which requests wait.", _OF_FLOW, waiting),
            *(
                _gauge(name, text, _OF_FLOW[:1], {(level.name,): read(level) for level in self._levels.values()})
                for name, (text, read) in of_levels.items()
            ),
        ]  # fmt: skip

    def _waiting(self) -> dict[Labels, float]:
        found = Counts(each.flow.name for level in self._levels.values() for each in level.waiting)
        return {key: float(found[key[1]]) for key in self._known}


def _gauge(name: str, text: str, labels: Labels, values: Mapping[Labels, float]) -> Family:
    return Gauge(f"{_NAME}_{name}", text, labels, lambda: values)


def _patience(request: Request) -> float:
    """Seconds that a request may wait."""
    given = request.params.get("timeout", ("",))[0] if "timeout=" in request.query else ""
    seconds = parse_duration(given).total_seconds() if given and request.info.verb != "watch" else 0
    return min(min(seconds or _DEADLINE, _DEADLINE) / 4, _LONGEST)
