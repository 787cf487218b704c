"""Several servers on one database as one: a check of histories under load, kills and a database that goes away.

    python -m tests.servers.checker [--kills 200] [--seed N] [--servers 2] [--compaction 1s] [--keep DIR]

Writers, watchers and readers work over real HTTP on two or more servers while servers are killed (SIGKILL, SIGTERM),
put to sleep and cut off, and the database is restarted or crashes. Afterwards `history.judge` holds everything that any
client saw against the table of the log:

    writes     an answered write is there, once, at its revision, and replaced what it was to replace; a refused one is
               not; one without an
               answer is there once or not at all
    reads      linearizable: get and list show a state of the time of the read, on whichever server; at a version, not
               older, or exactly it
    watches    exactly the events that happened, in order, across all resumptions on other servers
    errors     none but those that a client can repeat: 503 with Retry-After, 409, 410 and a new list, a connection that
               ended with its server
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.servers.clients import LAST, Reader, World, Writer
from tests.servers.cluster import Cluster
from tests.servers.history import judge
from tests.servers.truth import Follower, Truth
from tests.servers.watchers import Watcher
from tests.support.patience import patience
from tests.support.postgres import Database

#: How long watchers may take to see the last write.
LAST_SECONDS = 20.0


@dataclass
class Report:
    """One run: its figures and what was wrong."""

    figures: dict[str, str | int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [
            f"{name:36} {value:>10,}" if isinstance(value, int) else f"{name:36} {value:>10}"
            for name, value in self.figures.items()
        ]
        return "\n".join([*lines, f"{'violations':36} {len(self.wrong):>10,}", *self.wrong[:40]])


async def check(
    database: Database,
    directory: Path,
    *,
    kills: int,
    seed: int,
    servers: int = 2,
    compaction: str = "1s",
    pause: float = 0.6,
) -> Report:
    """One run on a fresh database."""
    cluster = Cluster(database, directory, servers, (f"--etcd-compaction-interval={compaction}",), seed)
    follower = Follower(database.url)
    world = World(cluster, seed)
    began = time.monotonic()
    try:
        await cluster.start()
        await _work(cluster, database, world, follower, kills, seed, pause)
    finally:
        await cluster.close()
    truth = Truth(follower.rows)
    wrong = [*follower.gaps, *judge(world.history, truth), *_broken(world), *cluster.complaints()]
    return Report(_figures(world, cluster, truth, time.monotonic() - began), wrong)


async def _work(
    cluster: Cluster, database: Database, world: World, follower: Follower, kills: int, seed: int, pause: float
) -> None:
    following = asyncio.create_task(follower.run())
    kinds = (("", 0.0), ("", 0.0), ("red", 0.0), ("blue", 0.0), ("", 4.0), ("red", 4.0))
    watchers = [Watcher(world, f"watcher{number}", color, late) for number, (color, late) in enumerate(kinds)]
    workers = [Writer(world, f"writer{number}") for number in range(6)] + [
        Reader(world, f"reader{number}") for number in range(3)
    ]
    working = [asyncio.create_task(worker.run()) for worker in workers]
    watching = [asyncio.create_task(watcher.run()) for watcher in watchers]
    chance = random.Random(seed)
    try:
        await asyncio.sleep(pause)
        while cluster.counts["SIGKILL"] + cluster.counts["SIGTERM"] < kills:
            await cluster.kill()
            await asyncio.sleep(chance.random() * 2 * pause)
            if chance.random() < 0.25:
                await cluster.disturb()
            _raise(working, watching)
        await cluster.settle()
        world.stop.set()
        await asyncio.gather(*working)
        await _finish(world, watchers)
        following.cancel()
        await asyncio.wait((following,))
        await follower.finish()
    finally:
        for task in (*working, *watching, following):
            task.cancel()
        await asyncio.gather(*working, *watching, following, return_exceptions=True)
        for client in (*workers, *watchers):
            client.close()


def _raise(*groups: list[asyncio.Task[None]]) -> None:
    """Raise the error of a client that failed by its own mistake."""
    for task in (task for group in groups for task in group):
        if task.done() and not task.cancelled():
            task.result()


async def _finish(world: World, watchers: list[Watcher]) -> None:
    """Write a last object of each color; every watcher has to see it."""
    writer = Writer(world, "finisher")
    for color in ("red", "blue"):
        for _ in range(200):
            body = {"metadata": {"name": LAST, "labels": {"color": color}}, "data": {"op": f"last-{color}"}}
            namespace = {"red": "default", "blue": "kube-public"}[color]
            answer = await writer.ask("POST", f"/api/v1/namespaces/{namespace}/configmaps", body)
            if answer is not None and answer.status in (201, 409):
                break
    writer.close()
    for watcher in watchers:
        try:
            async with patience(LAST_SECONDS):
                await watcher.done.wait()
        except TimeoutError:
            world.fault(
                f"{watcher.name} never saw the last write; it came to {watcher.segment and watcher.segment.reached}"
            )


def _broken(world: World) -> list[str]:
    """Return the connections that ended although their server lived."""
    return [
        f"{server.url}: {what}, though the server lived"
        for server, when, what in world.broken
        if server.ended is None or when < server.ended
    ]


def _figures(world: World, cluster: Cluster, truth: Truth, seconds: float) -> dict[str, str | int]:
    counts = cluster.counts
    starts, total = counts.pop("starts"), counts.pop("start ms")
    latencies = sorted(world.latencies) or [0.0]
    return {
        "seconds": int(seconds),
        "servers killed": counts["SIGKILL"] + counts["SIGTERM"],
        **dict(sorted(counts.items())),
        "start, mean ms": total // max(starts, 1),
        "revisions": truth.last,
        **dict(sorted(world.counts.items())),
        "write p50, ms": f"{statistics.median(latencies) * 1e3:.1f}",
        "write p99, ms": f"{latencies[int(len(latencies) * 0.99)] * 1e3:.1f}",
        "write max, ms": f"{latencies[-1] * 1e3:.1f}",
        "reads checked": len(world.history.reads),
        "lists checked": len(world.history.lists),
        "watch histories checked": len(world.history.segments),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(3), "big"))
    parser.add_argument("--servers", type=int, default=2)
    parser.add_argument("--compaction", default="1s", help="--etcd-compaction-interval of the servers")
    parser.add_argument("--keep", type=Path, help="where the servers' logs are to stay")
    options = parser.parse_args()
    print(f"seed {options.seed}, {options.servers} servers, compaction every {options.compaction}", flush=True)
    with tempfile.TemporaryDirectory() as temporary, Database() as database:
        directory = options.keep or Path(temporary)
        directory.mkdir(parents=True, exist_ok=True)
        chosen = {name: getattr(options, name) for name in ("kills", "seed", "servers", "compaction")}
        report = asyncio.run(check(database, directory, **chosen))
    print(report)
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
