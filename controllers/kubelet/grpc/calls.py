"""The record of calls between a kubelet and the sockets of its drivers, for `/-/drivers/calls` and the log.

A call is recorded when it begins and again when it ends. Each message of a stream is a call of its own, with the id of
the stream and a number.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.runtime import clock
from controllers.kubelet.dra.drivers import ClaimId, DriverCallError
from controllers.runtime.client import Client
from controllers.runtime.transport import TransportError

log = logging.getLogger(__name__)
#: Number of kept calls.
KEPT: Final = 1000
PATH: Final = "/-/drivers/calls"
#: Maximum number of calls per request to the server.
_BATCH: Final = 100
#: Seconds between two attempts to reach the server.
_PAUSE: Final = 1.0


@dataclasses.dataclass(slots=True)
class Call:
    """A call or one message of a stream. While it runs, `code` is empty."""

    id: str
    time: str
    node: str
    driver: str
    service: str
    method: str
    stream: bool = False
    claims: list[Json] = dataclasses.field(default_factory=list)
    request: Json = dataclasses.field(default_factory=dict)
    answer: Json = dataclasses.field(default_factory=dict)
    code: str = ""
    error: str = ""
    seconds: float = 0.0

    def as_json(self) -> Json:
        found: Json = _camel(dataclasses.asdict(self))
        return found

    def __str__(self) -> str:
        about = ", ".join(f"{claim['namespace']}/{claim['name']}" for claim in self.claims)
        head = f"driver {self.driver}: {self.method}{f' [{about}]' if about else ''} ({self.id})"
        if not self.code:
            return f"{head} begins"
        return f"{head} {self.code} after {self.seconds * 1000:.0f} ms: {self.error or self.answer}"


class CallLog:
    """The latest calls of one node. `changed` is called with each new or ended call."""

    def __init__(self, node: str, kept: int = KEPT) -> None:
        self._node, self._number = node, 0
        #: Distinguishes the calls of a restarted kubelet.
        self._process = secrets.token_hex(3)
        self.calls: deque[Call] = deque(maxlen=kept)
        self.changed: Callable[[Call], None] = lambda call: None

    @contextmanager
    def record(
        self, driver: str, path: str, claims: Iterable[ClaimId] = (), request: Any = None, *, stream: bool = False
    ) -> Iterator[Call]:
        """Record a call of `/SERVICE/METHOD` during the block, which sets the answer. Exceptions end it as failed."""
        _, service, method = path.split("/")
        named = [{"namespace": claim.namespace, "name": claim.name, "uid": claim.uid} for claim in claims]
        call = Call(self._next_id(), _now(), self._node, driver, service, method, stream, named, to_json(request))
        began = time.monotonic()
        self._add(call)
        try:
            yield call
            call.code = "OK"
        except DriverCallError as error:
            call.code, call.error = error.code, error.message
            raise
        except asyncio.CancelledError:
            call.code, call.error = "Canceled", "context canceled"
            raise
        except Exception as error:
            call.code, call.error = "Internal", str(error)
            raise
        finally:
            call.seconds = round(time.monotonic() - began, 6)
            log.info("%s", call)
            self.changed(call)

    def message(self, stream: Call, number: int, answer: Any) -> None:
        """Record a message of a running stream."""
        call = dataclasses.replace(
            stream, id=f"{stream.id}/{number}", time=_now(), answer=to_json(answer), code="OK", claims=[], request={}
        )
        log.info("%s", call)
        self._add(call)

    def _add(self, call: Call) -> None:
        self.calls.append(call)
        if not call.code:
            log.debug("%s", call)
        self.changed(call)

    def _next_id(self) -> str:
        self._number += 1
        return f"{self._process}-{self._number}"


class CallReporter:
    """Sends the calls of a node in a process of its own to the server, if that is kubedra's and permits it."""

    def __init__(self, client: Client, calls: CallLog) -> None:
        self._client, self._pending = client, dict[str, Call]()
        self._news = asyncio.Event()
        calls.changed = self._add

    def _add(self, call: Call) -> None:
        self._pending[call.id] = call
        while len(self._pending) > KEPT:
            del self._pending[next(iter(self._pending))]
        self._news.set()

    async def run(self) -> None:
        """Send until cancelled, or until the server refuses."""
        while True:
            await self._news.wait()
            self._news.clear()
            while self._pending:
                calls = [self._pending.pop(key) for key in list(self._pending)[:_BATCH]]
                try:
                    body = {"calls": [call.as_json() for call in calls]}
                    await self._client.request("POST", PATH, "", body, parse=False)
                except (StatusError, TransportError) as error:
                    if isinstance(error, StatusError) and error.code < 500:
                        log.info("the server does not record the calls of drivers: %s", error.message)
                        return
                    self._pending = {call.id: call for call in calls} | self._pending
                    with clock.timers(clock.Timer.MACHINE):
                        await asyncio.sleep(_PAUSE)


def to_json(message: Any) -> Json:
    """Return a message of `kubedra.driver.messages` as JSON with names in camel case; {} for None."""
    found: Json = {} if message is None else _camel(dataclasses.asdict(message))
    return found


def _camel(value: Any) -> Any:
    if isinstance(value, dict):
        # Uids are keys, too; they have no underscores.
        return {_camel_name(name): _camel(item) for name, item in value.items()}
    return [_camel(item) for item in value] if isinstance(value, (list, tuple)) else value


def _camel_name(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _now() -> str:
    return clock.now().isoformat(timespec="microseconds").replace("+00:00", "Z")
