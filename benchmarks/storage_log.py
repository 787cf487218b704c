"""Cost of a write: throughput, latency and event loop time.

usage: python benchmarks/storage_log.py [TARGET ...]     (default: memory: and a temporary directory at each durability)

`loop` is CPU time of the event loop's thread per write; it delays requests. `fan-out` is the rate of delivered events
without I/O.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time

import uvloop

from apiserver.storage import RevisionLog, WatchCache, Write, open_log

VALUE = b'{"metadata":{"name":"a"},"spec":"' + b"x" * 960 + b'"}'


async def writers(log: RevisionLog, count: int, writes: int, stamp: int) -> tuple[float, float]:
    """Return wall and loop microseconds per write; half of the writes are creates, half updates."""

    async def writer(name: str) -> None:
        for number in range(writes // count // 2):
            key = f"/registry/claims/{name}/{stamp}-{number:05}"
            record = await log.append(Write(key, VALUE, 0))
            await log.append(Write(key, VALUE, record.revision))

    wall, loop = time.perf_counter(), time.thread_time()
    await asyncio.gather(*(writer(f"ns{number}") for number in range(count)))
    return (time.perf_counter() - wall) / writes * 1e6, (time.thread_time() - loop) / writes * 1e6


async def measure(target: str, durability: str) -> None:
    log = await open_log(target, durability=durability)
    await writers(log, 16, 1600, 0)
    for label, caches in (("only log", None), ("with cache", WatchCache(log, json.loads))):
        if caches is not None:
            claims = caches.add("/registry/claims/")
            await caches.start()
        for count, writes in ((1, 1000), (16, 8000)):
            wall, loop = await writers(log, count, writes, time.monotonic_ns())
            print(
                f"{target[:24]:24} {durability:7} {label:11} {count:3} writers {wall:7.0f} us/write {loop:6.1f} us loop"
                f" {1e6 / wall:7.0f}/s"
            )
    start = time.perf_counter()
    page = claims.list(limit=500)
    listed = time.perf_counter()
    everything = claims.list()
    print(
        f"list of 500: {(listed - start) * 1e6:.0f} us; of {len(everything.entries)}:"
        f" {(time.perf_counter() - listed) * 1e6:.0f} us; {page.remaining} remain"
    )
    since = log.revision - 5000
    start, events = time.perf_counter(), 0
    for _ in range(50):
        cursor = claims.cursor(since)
        while batch := cursor.next_batch():
            for event in batch:
                events += event.revision > 0
    print(f"fan-out: {events / (time.perf_counter() - start) / 1e6:.1f} million events/s")
    kept = await log.append(Write("/registry/keep/x", VALUE, 0))
    await log.reset(["/registry/keep/"])
    await log.compact(log.revision)
    for number in (100, 500, 2000):
        await asyncio.gather(*(log.append(Write(f"/registry/claims/{number}/{n}", VALUE, 0)) for n in range(number)))
        start = time.perf_counter()
        assert await log.reset(["/registry/keep/"]) == number
        print(f"reset of {number}: {(time.perf_counter() - start) * 1e3:.1f} ms")
    assert await log.get(kept.key) == kept
    await log.close()


def main() -> None:
    if sys.argv[1:]:
        for target in sys.argv[1:]:
            uvloop.run(measure(target, "full"))
        return
    uvloop.run(measure("memory:", "off"))
    for durability in ("off", "normal", "full"):
        with tempfile.TemporaryDirectory(dir=".") as directory:
            uvloop.run(measure(directory, durability))


if __name__ == "__main__":
    main()
