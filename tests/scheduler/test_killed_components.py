"""Components that are killed before or after a write and restarted: no device is held twice, and nothing leaks.

`python -m benchmarks.killed` does the same with processes, for as long as wanted.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress

import pytest

from apiserver.api.objects import Json
from apiserver.authentication.authenticator import ADMIN
from apiserver.components.in_process import InProcess
from controllers.manager.manager import Manager
from controllers.options.options import Options
from controllers.runtime.client import Client, StatusError
from controllers.runtime.kinds import PODS, RESOURCE_CLAIMS
from controllers.runtime.transport import Headers, Transport, TransportError
from controllers.scheduler import Scheduler
from tests.scheduler.books import Books
from tests.scheduler.world import World
from tests.support.objects import make_claim, make_claim_template, make_pod, make_request
from tests.support.virtual import passes

pytestmark = pytest.mark.integration

PROCESSES = (("scheduler",), ("resourceclaim-controller",), ("node-agent", "node-lifecycle-controller"))
NODES, DEVICES = 2, 2
WAVES, PODS_OF_WAVE = 2, 8


class Mortal:
    """A transport whose process is killed at a write, before or after the server sees it.

    The first life ends after `first` writes. Later lives are up to eight writes longer.
    """

    def __init__(self, transport: Transport, first: int) -> None:
        self._transport, self._first = transport, first
        self.lives, self._left = 0, 0
        self.killed = asyncio.Event()

    def revive(self) -> None:
        """Start the next life."""
        self._left = self._first + self.lives % 9
        self.lives += 1
        self.killed.clear()

    async def request(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Headers, bytes]:
        if method != "GET" and "/leases" not in path and "/events" not in path:
            self._left -= 1
        if self._left > 0:
            return await self._transport.request(method, path, query, headers, body)
        if self._left == 0 and self.lives % 2:
            await self._transport.request(method, path, query, headers, body)
        self.killed.set()
        raise TransportError("the process is dead")

    async def stream(
        self, method: str, path: str, query: str, headers: Mapping[str, str], deadline: float | None = None
    ) -> tuple[int, Headers, AsyncIterator[bytes]]:
        return await self._transport.stream(method, path, query, headers, deadline)

    async def close(self) -> None: ...


class Process:
    """A component with informers of its own that restarts whenever it is killed."""

    def __init__(self, world: World, names: tuple[str, ...], first: int) -> None:
        self._mortal = Mortal(InProcess(world.server.chain, ADMIN), first)
        self._names, self._client = names, Client(self._mortal, release=world.release)
        self._options = Options(seed=1, nodes=NODES, devices="gpu.example.com", devices_per_node=DEVICES)
        self.manager = self._make_manager()

    def _make_manager(self) -> Manager:
        return Manager(self._client, self._options, self._names)

    @property
    def lives(self) -> int:
        """The number of starts."""
        return self._mortal.lives

    async def live(self) -> None:
        while True:
            self._mortal.revive()
            running = asyncio.create_task(self.manager.run())
            killed = asyncio.create_task(self._mortal.killed.wait())
            try:
                await asyncio.wait((running, killed), return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in (running, killed):
                    task.cancel()
                await asyncio.gather(running, killed, return_exceptions=True)
            assert self._mortal.killed.is_set(), running
            await asyncio.sleep(1)
            self.manager = self._make_manager()


@asynccontextmanager
async def living(world: World, first: int) -> AsyncIterator[list[Process]]:
    processes = [Process(world, names, first) for names in PROCESSES]
    tasks = [asyncio.create_task(process.live()) for process in processes]
    try:
        yield processes
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def pods_of(wave: int) -> list[Json]:
    """Build more pods than there are devices: with claims of their own, with a shared claim, and without claims."""
    found = []
    own, shared = {"resourceClaimTemplateName": "one"}, {"resourceClaimName": "shared"}
    for number in range(PODS_OF_WAVE):
        claim = [own, shared, own, None][number % 4]
        more: Json = {"resourceClaims": [{"name": "d", **claim}]} if claim else {}
        # Half of the pods end by themselves. The others are deleted while they run.
        more["annotations"] = {"kubedra.dev/exit-after": "3s"} if number % 2 else {}
        found.append(make_pod(f"p{wave}-{number}", requests={"cpu": "100m"}, restartPolicy="Never", **more))
    return found


async def play(world: World) -> None:
    """Create waves of pods, each while the one before ends."""
    requests = [make_request(device_class="gpu.example.com")]
    await world.add(make_claim_template("one", requests=requests), make_claim("shared", requests=requests))
    for wave in range(WAVES):
        pods = pods_of(wave)
        await world.add(*pods)
        for pod in pods:
            name = pod["metadata"]["name"]
            await world.bound(name)
            if "annotations" not in pod["metadata"]:
                await asyncio.sleep(2)
                await world.client.delete(PODS, name, "ns", grace_period=1)
    for pod in await world.items(PODS):
        with suppress(StatusError):
            await world.client.delete(PODS, pod["metadata"]["name"], "ns")


@pytest.mark.parametrize("first", [1, 4])
async def test_components_that_are_killed_at_their_writes_leave_nothing_behind(first: int) -> None:
    books = Books()
    async with World("garbage-collector-controller") as world, living(world, first) as processes:
        world.server.log.subscribe(books.read)
        await play(world)
        await passes(200)
        assert not books.problems
        assert not books.leaks()
        await world.client.delete(RESOURCE_CLAIMS, "shared", "ns")
        await passes(60)
        assert not (await world.client.list(RESOURCE_CLAIMS))["items"]
        assert books.checked > WAVES * PODS_OF_WAVE * 6
        assert all(process.lives > 5 for process in processes)
        [scheduler] = processes[0].manager.components
        assert isinstance(scheduler, Scheduler)
        assert not scheduler.allocator.allocated.exclusive
        assert not scheduler.queue.pods
