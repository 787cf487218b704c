"""Run waves of pods while components are killed and restarted, then audit the log.

    python -m benchmarks.killed [--pods 2000] [--wave 100] [--nodes 20] [--every 2] [--seed 1]

The server is a process with SQLite. Scheduler, claim controller, node agent and garbage collector are one process each.
One of them is killed (SIGKILL) every few seconds and restarted. A wave has pods with generated claims, with shared
claims, with an extended resource of devices, and without devices. Half of them complete, the other half are deleted
while running. Afterwards no claim of them may be left. At every revision of the log the devices in use are recomputed
from the claims. They must have one holder each, be held by running pods, and match the scheduler's own records. The
exit code is 1 otherwise. The test suite has a small form in tests/scheduler/test_killed_components.py.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

from apiserver.api.objects import Json
from apiserver.storage.log.types import Durability
from apiserver.storage.sqlite.opening import open_directory
from controllers.runtime.client import Client, StatusError
from controllers.runtime.http import HttpTransport
from controllers.runtime.kinds import DEVICE_CLASSES, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from kubedra.kubeconfig.reader import Cluster
from tests.scheduler.books import Books
from tests.support.patience import CLOCK
from tests.support.wire import Child, environment

DRIVER, RESOURCE = "gpu.example.com", "example.com/gpu"
SHARED = 4
PAGE = 5000


class Component:
    """A process of some components, restarted on demand."""

    def __init__(self, log: Path, url: str, name: str, *flags: str) -> None:
        self.name, self.started, self._log = name, 0, log
        self._command = [sys.executable, "-P", "-m", "controllers", f"--server={url}", f"--controllers={name}"]
        self._command += ["--leader-elect=false", *flags]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.started += 1
        with self._log.open("a") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, env=environment())

    def end(self, number: signal.Signals) -> None:
        assert self._process is not None
        assert self._process.poll() is None, f"{self.name} has ended by itself: {self._log.read_text()[-2000:]}"
        self._process.send_signal(number)
        self._process.wait()


def components(directory: Path, url: str, nodes: int) -> list[Component]:
    alone = ("scheduler", "resourceclaim-controller", "garbage-collector-controller")
    agent = "node-agent,node-lifecycle-controller"
    return [
        *(Component(directory / f"{name}.log", url, name) for name in alone),
        Component(directory / "nodes.log", url, agent, f"--nodes={nodes}", f"--devices={DRIVER}"),
    ]


async def wait_real_time(seconds: float) -> None:
    """Wait for a time of the fair clock, so that started processes make progress on a busy machine."""
    end = CLOCK.seconds + seconds
    while CLOCK.seconds < end:  # noqa: ASYNC110 - a clock has no events
        await asyncio.sleep(0.05)


async def kill_randomly(processes: list[Component], random_source: random.Random, every: float) -> None:
    """Kill and restart a random process at intervals, until cancelled."""
    while True:
        await wait_real_time(random_source.uniform(0, 2 * every))
        process = random_source.choice(processes)
        await asyncio.to_thread(process.end, signal.SIGKILL)
        await wait_real_time(random_source.choice((0, 0.5)))
        process.start()


def pod(number: int) -> Json:
    """Build a pod of one of four kinds. Every second one completes by itself."""
    spec: Json = {"restartPolicy": "Never"}
    container: Json = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}
    match number % 4:
        case 0:
            spec["resourceClaims"] = [{"name": "d", "resourceClaimTemplateName": "one"}]
        case 1:
            spec["resourceClaims"] = [{"name": "d", "resourceClaimName": f"shared-{number % SHARED}"}]
        case 2:
            container["resources"]["limits"] = {RESOURCE: "1"}
    ends = {"kubedra.dev/exit-after": f"{1 + number % 3}s"} if number // 4 % 2 else {}
    metadata = {"name": f"p{number}", "namespace": "default", "annotations": ends}
    return {"metadata": metadata, "spec": {**spec, "containers": [container]}}


async def prepare(client: Client) -> None:
    spec = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": DRIVER}}]}}
    await client.create(
        RESOURCE_CLAIM_TEMPLATES, {"metadata": {"name": "one", "namespace": "default"}, "spec": {"spec": spec}}
    )
    for number in range(SHARED):
        name = {"name": f"shared-{number}", "namespace": "default"}
        await client.create(RESOURCE_CLAIMS, {"metadata": name, "spec": spec})

    async def classed() -> bool:
        change = {"spec": {"extendedResourceName": RESOURCE}}
        with contextlib.suppress(StatusError):
            await client.patch(DEVICE_CLASSES, DRIVER, change, type="merge")
            return True
        return False

    await wait_until(classed)


async def wait_until(holds: Callable[[], Awaitable[bool]]) -> None:
    while not await holds():  # noqa: ASYNC110 - it is no event of this process
        await asyncio.sleep(0.5)


async def for_each(objects: Iterable[Json], do: Callable[[Json], Awaitable[object]]) -> None:
    for obj in objects:
        with contextlib.suppress(StatusError):
            await do(obj)


async def pods_of(client: Client) -> list[Json]:
    found: list[Json] = (await client.list(PODS, "default"))["items"]
    return found


async def run_wave(client: Client, numbers: range) -> None:
    """Create pods and wait until each is gone. Delete those that run on when bound, the others when completed."""
    for number in numbers:
        await client.create(PODS, pod(number))
    mine = {f"p{number}" for number in numbers}

    async def settled() -> bool:
        found = [each for each in await pods_of(client) if each["metadata"]["name"] in mine]
        placed = [each for each in found if each["spec"].get("nodeName")]
        lasting = [each for each in placed if not each["metadata"].get("annotations")]
        ended = [each for each in placed if (each.get("status") or {}).get("phase") in ("Succeeded", "Failed")]
        for which in (lasting, ended):
            await delete_each(client, which)
        return not found

    await wait_until(settled)


async def delete_each(client: Client, pods: list[Json]) -> None:
    waiting = [each for each in pods if not each["metadata"].get("deletionTimestamp")]
    await for_each(waiting, lambda obj: client.delete(PODS, obj["metadata"]["name"], "default", grace_period=1))


async def is_empty(client: Client) -> bool:
    claims = (await client.list(RESOURCE_CLAIMS))["items"]
    return len(claims) == SHARED and not any(claim["metadata"].get("finalizers") for claim in claims)


async def soak(url: str, args: argparse.Namespace, processes: list[Component]) -> None:
    client = Client(HttpTransport(Cluster(server=url)), user_agent="soak")
    for process in processes:
        process.start()
    await prepare(client)
    killing = asyncio.create_task(kill_randomly(processes, random.Random(args.seed), args.every))
    began = time.monotonic()
    for first in range(0, args.pods, args.wave):
        await run_wave(client, range(first, min(first + args.wave, args.pods)))
        starts = ", ".join(f"{process.name} {process.started}" for process in processes)
        print(f"{first + args.wave:6d} pods  {time.monotonic() - began:5.0f} s  started: {starts}", flush=True)
        if killing.done():
            killing.result()
    killing.cancel()
    await asyncio.gather(killing, return_exceptions=True)
    for process in processes:
        with contextlib.suppress(AssertionError):
            process.end(signal.SIGKILL)
        process.start()
    await wait_until(lambda: is_empty(client))
    await client.close()


async def audit(directory: Path) -> Books:
    """Read the whole log."""
    log = await open_directory(str(directory), Durability.OFF)
    books, revision = Books(), 0
    try:
        while rows := await log.after(revision, PAGE):
            books.read(rows)
            revision = rows[-1].revision
    finally:
        await log.close()
    return books


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pods", type=int, default=2000)
    parser.add_argument("--wave", type=int, default=100, help="pods created together (default 100)")
    parser.add_argument("--nodes", type=int, default=20, help="nodes with 8 devices each (default 20)")
    parser.add_argument("--every", type=float, default=2, help="average seconds between two kills (default 2)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the random kills (default 1)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        flags = ["--storage=sqlite", "--durability=normal", "--etcd-compaction-interval=0"]
        with Child(directory / "data", *flags) as server:
            processes = components(directory, server.url, args.nodes)
            try:
                asyncio.run(soak(server.url, args, processes))
            finally:
                for process in processes:
                    with contextlib.suppress(AssertionError):
                        process.end(signal.SIGKILL)
        books = asyncio.run(audit(directory / "data"))
    problems = [*books.problems, *books.leaks()]
    print(f"{books.checked} revisions of nodes, pods and claims checked, {len(problems)} problems")
    print(*problems[:50], sep="\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
