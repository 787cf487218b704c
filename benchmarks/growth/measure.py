"""The processor time of a request at one size and at four times that size."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

from apiserver.app import Server
from apiserver.authentication.authenticator import ADMIN
from apiserver.options.settings import read
from apiserver.request.messages import MAX_BODY, Request, Stream

#: Least processor time of the smallest size, in seconds, for the resolution of the clock.
ENOUGH = 0.004
#: Permitted cost factor of a four times larger request: linear growth is 4, quadratic 16.
ALLOWED = 7.0
#: Measurements of the two sizes in sequence before a case counts as too fast. Other processes on the core can double
#: the cost of one.
_PAIRS = 6
_SMALLEST, _LARGEST = 250, 128_000


@dataclass(frozen=True, slots=True)
class Case:
    """A case: `request` builds a request of a size.

    `before` builds the preceding requests, which are not measured. `send` replaces the chain of handlers. `largest`
    limits the size.
    """

    name: str
    before: Callable[[int], Sequence[Request]]
    request: Callable[[int], Request]
    send: Callable[[Server, Request], Awaitable[Any]] | None = None
    largest: int = _LARGEST


@dataclass(frozen=True, slots=True)
class Growth:
    """The cost of a case at a size and at four times that size, in seconds."""

    case: Case
    size: int
    cost: float
    fourfold: float
    status: int

    @property
    def ratio(self) -> float:
        return self.fourfold / max(self.cost, 1e-6)

    @property
    def too_fast(self) -> bool:
        """Whether the cost grows much faster than the size."""
        return self.ratio > ALLOWED

    def __str__(self) -> str:
        times = f"{self.cost * 1e3:8.1f} ms {self.fourfold * 1e3:9.1f} ms"
        return f"{self.ratio:6.1f} {self.size:7d} {times}  {self.status}  {self.case.name}"


def build_request(
    method: str, path: str, body: bytes = b"", media: str = "application/json", query: str = "", **headers: str
) -> Request:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Request(method, path, query, {"content-type": media, "user-agent": "growth", **named}, body, ADMIN)


def no_requests(_: int) -> tuple[Request, ...]:
    return ()


@asynccontextmanager
async def open_server() -> Any:
    """Open a server in memory with all APIs enabled."""
    with TemporaryDirectory() as directory:
        flags = ["--storage=memory", f"--data-dir={directory}", "--runtime-config=api/all=true"]
        server = await Server.open(read(flags))
        try:
            yield server
        finally:
            await server.close()


async def find_growth(server: Server, case: Case, enough: float = ENOUGH) -> Growth | None:
    """Measure the growth of a case. Return None if it costs next to nothing at its largest size."""
    await _cost(server, case, _SMALLEST)  # compiles and imports what is built on first use
    for size in _sizes(case):
        cost, _ = await _cost(server, case, size)
        if cost >= enough:
            return await _slowest_growth(server, case, size)
    return None


async def _slowest_growth(server: Server, case: Case, size: int) -> Growth:
    """Return the pair of measurements with the least growth. Stop at the first that is not too fast."""
    pairs = []
    for _ in range(_PAIRS):
        cost, _ = await _cost(server, case, size)
        fourfold, status = await _cost(server, case, 4 * size)
        pairs.append(Growth(case, size, cost, fourfold, status))
        if not pairs[-1].too_fast:
            break
    return min(pairs, key=lambda growth: growth.ratio)


def _sizes(case: Case) -> Iterator[int]:
    size = _SMALLEST
    while 4 * size <= case.largest and len(case.request(4 * size).body) <= MAX_BODY:
        yield size
        size *= 2


async def _cost(server: Server, case: Case, size: int) -> tuple[float, int]:
    for each in case.before(size):
        await server.chain.handle(each)
    request = case.request(size)
    gc.collect()
    gc.disable()  # its passes would be counted for the running case
    started = process_time()
    if case.send is not None:
        answer = await case.send(server, request)
    else:
        answer = server.chain.try_fast(request) or await server.chain.handle(request)
    spent = process_time() - started
    gc.enable()
    if isinstance(answer, Stream):
        await answer.close()
    return spent, getattr(answer, "status", 0)


def measure_all(cases: Sequence[Case], enough: float = ENOUGH) -> Iterator[Growth]:
    """Measure the cases in sequence on one server."""
    with asyncio.Runner() as runner:
        context = open_server()
        server = runner.run(context.__aenter__())
        gc.collect()
        gc.freeze()  # exclude existing objects: collections before a measurement visit only newer ones
        try:
            for case in cases:
                found = runner.run(find_growth(server, case, enough))
                if found is not None:
                    yield found
        finally:
            runner.run(context.__aexit__(None, None, None))
