"""Injected faults: failures on request, to test clients.

The handler is in the chain only while there are rules that may still fire.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import count
from random import Random
from typing import Final, Literal

from apiserver.api.errors.status import MODIFIED, StatusError, qualified
from apiserver.http.formats.errors import status_response
from apiserver.http.formats.watch import error_event
from apiserver.http.handlers.chain import Handler, HandlerChain
from apiserver.request.info import RequestInfo
from apiserver.request.messages import ConnectionClosed, Request, Response, Stream, User

#: The way a watch ends for a client: as after its timeout; with the connection; with the event of an expired
#: version.
WatchEnd = Literal["end", "close", "expired"]
#: The reason and the text of each status.
_STATUS: Final[Mapping[int, tuple[str, str]]] = {
    409: ("Conflict", MODIFIED),
    410: ("Expired", "The provided resource version is too old."),
    429: ("TooManyRequests", "the server has received too many requests and has asked us to try again later"),
    500: ("InternalError", "an error on the server prevented the request from succeeding"),
    503: ("ServiceUnavailable", "the server is currently unable to handle the request"),
}
#: Response header with the rule's ID.
HEADER: Final = "Kubedra-Fault"


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A filter of requests: all given patterns must match (`*`, `?` and `[…]` as in file names).

    `resource` is the plural, of a subresource with it (`pods/status`); `path` is as it was sent, without the query.
    """

    verb: str = ""
    group: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    user: str = ""
    user_agent: str = ""
    path: str = ""

    async def fits(self, request: Request, info: RequestInfo, user: Callable[[Request], Awaitable[str]]) -> bool:
        """Return whether the request fits. `user` names its user; it is called only if a pattern for users is given."""
        resource = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
        if (self.group and not info.resource) or not (
            _fits(self.verb, info.verb)
            and _fits(self.group, info.group)
            and _fits(self.resource, resource)
            and _fits(self.namespace, info.namespace)
            and _fits(self.name, info.name)
            and _fits(self.path, request.path)
            and _fits(self.user_agent, request.headers.get("user-agent", ""))
        ):
            return False
        return not self.user or fnmatchcase(await user(request), self.user)


def _fits(pattern: str, text: str) -> bool:
    return not pattern or (text != "" and fnmatchcase(text, pattern))


@dataclass(slots=True, kw_only=True)
class Rule:
    """A rule for matching requests: they take `latency` more seconds, and then one outcome.

    status              the response is this error, and nothing else happens
    close               the connection closes before the request has any effect, or `after` it, without a response
    watch_end           a watch ends this way, `watch_seconds` after it opened

    Without one of these nothing else happens. `count` is the number of times the rule fires (None: always),
    `probability` its chance each time, by random numbers from `seed`.
    """

    id: str
    match: Match
    latency: float = 0.0
    status: int = 0
    retry_after: int | None = None
    message: str = ""
    close: Literal["", "before", "after"] = ""
    watch_end: WatchEnd | Literal[""] = ""
    watch_seconds: float = 0.0
    count: int | None = None
    probability: float = 1.0
    seed: int = 0
    fired: int = 0
    random: Random = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.random = Random(self.seed)  # noqa: S311 - repeatable on purpose

    @property
    def active(self) -> bool:
        """Whether it may fire again."""
        return self.count is None or self.fired < self.count

    @property
    def kind(self) -> str:
        """Its outcome in two words: "status 409", "close after", "watch expired", or "latency"."""
        if self.status:
            return f"status {self.status}"
        if self.close:
            return f"close {self.close}"
        return f"watch {self.watch_end}" if self.watch_end else "latency"

    def fires(self) -> bool:
        """Decide whether it fires for a matching request, and count that."""
        if not self.active or (self.probability < 1 and self.random.random() >= self.probability):
            return False
        self.fired += 1
        return True

    def error(self, info: RequestInfo) -> StatusError:
        """Build the error of the response."""
        reason, text = _STATUS[self.status]
        text = self.message or text
        details: dict[str, object] = {
            key: value for key, value in (("name", info.name), ("group", info.group), ("kind", info.resource)) if value
        }
        if self.status == 409:
            text = f'Operation cannot be fulfilled on {qualified(info.resource, info.group)} "{info.name}": {text}'
        if self.retry_after is not None:
            details["retryAfterSeconds"] = self.retry_after
        return StatusError(self.status, reason, text, details, ((HEADER, self.id),))


class Faults:
    """The rules in order; the first one that fires decides.

    The handler is first in the chain while there are rules; `authenticate` returns the user of a request.
    """

    next: Handler

    def __init__(self, chain: HandlerChain, authenticate: Callable[[Request], Awaitable[User]]) -> None:
        self._chain, self._authenticate = chain, authenticate
        self._rules: dict[str, Rule] = {}
        self._numbers = count(1)
        self._inserted = False

    # The rules

    def new_id(self) -> str:
        return f"fault-{next(self._numbers)}"

    def add(self, rule: Rule) -> None:
        self._rules[rule.id] = rule
        self._update_chain()

    def rules(self) -> list[Rule]:
        return list(self._rules.values())

    def get(self, id: str) -> Rule | None:
        return self._rules.get(id)

    def remove(self, id: str) -> bool:
        """Remove a rule; return whether it existed."""
        found = self._rules.pop(id, None)
        self._update_chain()
        return found is not None

    def clear(self) -> None:
        self._rules.clear()
        self._update_chain()

    def _update_chain(self) -> None:
        """Join or leave the chain: in it while there are active rules."""
        needed = any(rule.active for rule in self._rules.values())
        if needed and not self._inserted:
            self._chain.insert_first(self)
        elif self._inserted and not needed:
            self._chain.remove_link(self)
        self._inserted = needed

    # The handler

    def try_fast(self, request: Request) -> Response | None:
        return None

    async def handle(self, request: Request) -> Response | Stream:
        info = request.info
        rule = await self._choose(request, info)
        if rule is None:
            return await self.next.handle(request)
        request.fault = rule.id
        if rule.latency:
            await asyncio.sleep(rule.latency)
        if rule.close == "before":
            raise ConnectionClosed(rule.id)
        if rule.status:
            return status_response(request, rule.error(info))
        answer = await self.next.handle(request)
        if isinstance(answer, Stream) and (rule.close or rule.watch_end):
            end = rule.watch_end or "close"
            answer.objects = None
            answer.chunks = _end_early(answer.chunks, end, rule.watch_seconds, request.headers.get("accept", ""))
        elif rule.close:
            raise ConnectionClosed(rule.id)
        return answer

    async def _choose(self, request: Request, info: RequestInfo) -> Rule | None:
        for rule in self._rules.values():
            if rule.watch_end and info.verb != "watch":
                continue
            if await rule.match.fits(request, info, self._user) and rule.fires():
                self._update_chain()
                return rule
        return None

    async def _user(self, request: Request) -> str:
        """Return the user's name; "" if authentication will fail."""
        if request.user is None:
            try:
                request.user = await self._authenticate(request)
            except StatusError:
                return ""
        return request.user.name


async def _end_early(chunks: AsyncIterator[bytes], end: WatchEnd, seconds: float, accept: str) -> AsyncIterator[bytes]:
    """Yield the chunks of a stream until its time is over."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    try:
        while (left := until - loop.time()) > 0:
            step = asyncio.ensure_future(anext(chunks, None))
            await asyncio.wait({step}, timeout=left)
            if not step.done():
                step.cancel()
                await asyncio.gather(step, return_exceptions=True)
                break
            chunk = step.result()
            if chunk is None:
                return
            yield chunk
    finally:
        close = getattr(chunks, "aclose", None)
        if close is not None:
            await close()
    if end == "close":
        raise ConnectionClosed
    if end == "expired":
        reason, text = _STATUS[410]
        yield error_event(accept, StatusError(410, reason, text))
