"""Requests and watches under a schedule: the first link of the chain while a test is explored.

Each request of an explored client is a choice point, and so is each batch of events of its watches
(`kubedra.exploration.schedule`).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.http.formats.errors import status_response
from apiserver.http.formats.watch import error_event
from apiserver.http.handlers.chain import Handler, HandlerChain
from apiserver.http.handlers.faults import Match, Rule
from apiserver.request.messages import ConnectionClosed, Request, Response, Stream

if TYPE_CHECKING:
    from kubedra.exploration.schedule import Deviation, Schedule

__all__ = ["Client", "Exploration", "Schedules", "client_of_request"]

T = TypeVar("T")
_READING: Final = frozenset({"get", "list"})
_REPLACING: Final = frozenset({"update", "patch"})
_OF_PROCESSES: Final = frozenset({"pause", "kill", "kill-before"})
#: Each refusal: the status, and Retry-After.
_REFUSALS: Final[dict[str, tuple[int, int | None]]] = {
    "conflict": (409, None),
    "error": (500, None),
    "throttle": (429, 1),
}


class Client(Protocol):
    """A sender of requests. Only a process on the server's loop can be paused and killed."""

    name: str
    is_process: bool

    def pause(self, seconds: float) -> None: ...

    def kill_for(self, seconds: float) -> None:
        """Kill the process and start it again after so many seconds."""


#: The client of the request that is handled; None for requests that no schedule disturbs.
client_of_request: ContextVar[Client | None] = ContextVar("client_of_request", default=None)
#: User agents of requests that no schedule disturbs: those of the test itself.
_OF_THE_TEST: Final = frozenset({"kubedra", "kubedra-wait"})


class OutsideClient:
    """A client that is known by its user agent."""

    is_process = False

    def __init__(self, name: str) -> None:
        self.name = name

    def pause(self, seconds: float) -> None:
        """Do nothing: the process is another one."""

    def kill_for(self, seconds: float) -> None:
        """Do nothing: the process is another one."""


def by_user_agent(request: Request) -> Client | None:
    """Return the client of a request from outside; None for the test's own."""
    name = re.split(r"[/\s]", request.headers.get("user-agent", ""), maxsplit=1)[0] or "unnamed"
    return None if name in _OF_THE_TEST else OutsideClient(name)


class Exploration:
    """The link. `schedule` decides; `client` returns the sender of a request."""

    next: Handler

    def __init__(
        self,
        schedule: Callable[[], Schedule | None],
        client: Callable[[Request], Client | None] = lambda _: client_of_request.get(),
    ) -> None:
        self._schedule, self._client = schedule, client

    def try_fast(self, request: Request) -> Response | None:
        return None

    async def handle(self, request: Request) -> Response | Stream:
        schedule, client = self._schedule(), self._client(request)
        if schedule is None or client is None or not request.info.resource:
            return await self.next.handle(request)
        name = name_client(client.name, request.headers.get("user-agent", ""))
        actions = _actions(request.info.verb)
        if not client.is_process:
            actions = tuple(action for action in actions if action not in _OF_PROCESSES)
        found = schedule.choose(f"{name}:{_describe(request)}", actions)
        answer = await self._answer(request, client, found)
        if isinstance(answer, Stream) and answer.status == 200:
            self._follow(answer, f"{name}:event:{request.info.resource}", schedule, request)
        return answer

    async def _answer(self, request: Request, client: Client, found: Deviation | None) -> Response | Stream:
        action, seconds = (found.action, found.seconds) if found else ("", 0.0)
        request.fault = str(found or "")
        if action == "delay":
            await asyncio.sleep(seconds)
        elif action == "pause":
            client.pause(seconds)
        elif action == "kill-before":
            client.kill_for(seconds)
        if action in ("unsent", "kill-before"):
            raise ConnectionClosed(action)
        if refusal := _REFUSALS.get(action):
            return status_response(request, _error(*refusal, request))
        answer = await self.next.handle(request)
        if action == "late":
            await asyncio.sleep(seconds)
        elif action == "kill":
            client.kill_for(seconds)
        if action in ("lost", "kill"):
            if isinstance(answer, Stream):
                await answer.close()
            raise ConnectionClosed(action)
        return answer

    def _follow(self, stream: Stream, point: str, schedule: Schedule, request: Request) -> None:
        """Make each batch of a watch a choice point."""
        accept, gone = request.headers.get("accept", ""), _error(410, None, request)
        stream.chunks = _disturb(stream.chunks, point, schedule, lambda: error_event(accept, gone))
        if (objects := stream.objects) is not None:
            expired: list[tuple[str, Json]] = [("ERROR", gone.to_dict())]
            stream.objects = lambda: _disturb(objects(), point, schedule, lambda: expired)


class Schedules:
    """The schedule for clients outside, one at a time. Its link is in the chain meanwhile."""

    def __init__(self, chain: HandlerChain) -> None:
        self._chain = chain
        self._link = Exploration(lambda: self.current, by_user_agent)
        self.current: Schedule | None = None

    def set(self, schedule: Schedule) -> None:
        """Begin a schedule instead of the present one."""
        self.clear()
        self.current = schedule
        schedule.begin()
        self._chain.insert_first(self._link)

    def clear(self) -> None:
        """End the schedule, if there is one."""
        if self.current is not None:
            self.current.end()
            self.current = None
            self._chain.remove_link(self._link)


async def _disturb(
    batches: AsyncIterator[T], point: str, schedule: Schedule, expired: Callable[[], T]
) -> AsyncGenerator[T, None]:
    """Yield the batches of a watch, later or only up to one of them."""
    try:
        async for batch in batches:
            found = schedule.choose(point, ("delay", "close", "expired"))
            if found is not None and found.action == "close":
                raise ConnectionClosed(point)
            if found is not None and found.action == "expired":
                yield expired()
                return
            if found is not None:
                await asyncio.sleep(found.seconds)
            yield batch
    finally:
        close: Any = getattr(batches, "aclose", None)
        if close is not None:
            await close()


def _error(status: int, retry_after: int | None, request: Request) -> StatusError:
    return Rule(id="schedule", match=Match(), status=status, retry_after=retry_after).error(request.info)


def _describe(request: Request) -> str:
    """Return the part of a point's name after the component."""
    info = request.info
    resource = f"{info.resource}.{info.subresource}" if info.subresource else info.resource
    return f"{info.verb}:{resource}/{info.name}" if info.name else f"{info.verb}:{resource}"


def _actions(verb: str) -> tuple[str, ...]:
    """Return the actions that a request may meet."""
    if verb == "watch":
        return "delay", "error", "unsent", "kill", "pause"
    always = "delay", "late", "error", "throttle", "unsent", "kill", "pause"
    if verb in _READING:
        return always
    return (*always, "lost", "kill-before", *(("conflict",) if verb in _REPLACING else ()))


def name_client(process: str, user_agent: str) -> str:
    """Return the name of a client in points.

    Controllers of one process have user agents that end with their names: "kube-controller-manager/v1.36
    (linux/amd64) kubernetes/job-controller".
    """
    _, _, controller = user_agent.rpartition(" kubernetes/")
    return controller if " kubernetes/" in user_agent else process
