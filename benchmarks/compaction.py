"""Latency of writes and of database reads, during a compaction and without one.

    python -m benchmarks.compaction [--rows 50000] [TARGET ...]     (default: a temporary directory at full durability)

The compaction drops a history of `--rows` rows of 2000 objects. Writers run until it ends, and then for the same time
without it.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable

import uvloop

from apiserver.storage import RevisionLog, Write, open_log

VALUE = b'{"metadata":{"name":"a"},"spec":"' + b"x" * 960 + b'"}'
OBJECTS = 2000
WRITERS = 16
READERS = 4


async def fill(log: RevisionLog, rows: int, heads: dict[str, int]) -> None:
    for start in range(0, rows, OBJECTS):
        batch = min(OBJECTS, rows - start)
        records = await asyncio.gather(
            *(log.append(Write(key, VALUE, revision)) for key, revision in list(heads.items())[:batch])
        )
        heads.update((record.key, record.revision) for record in records)


async def load(log: RevisionLog, heads: dict[str, int], until: Callable[[], bool]) -> tuple[list[float], list[float]]:
    """Return the latencies of writes and of reads of the current revision, in milliseconds."""
    writes: list[float] = []
    reads: list[float] = []

    async def timed(work: Awaitable[object], latencies: list[float]) -> object:
        begin = time.perf_counter()
        done = await work
        latencies.append((time.perf_counter() - begin) * 1e3)
        return done

    async def write(keys: list[str]) -> None:
        while not until():
            key = random.choice(keys)
            record = await timed(log.append(Write(key, VALUE, heads[key])), writes)
            heads[key] = record.revision  # type: ignore[attr-defined]
            await asyncio.sleep(0)

    async def read() -> None:
        while not until():
            await timed(log.current_revision(), reads)
            await asyncio.sleep(0.005)

    keys = list(heads)
    await asyncio.gather(
        *(write(keys[number::WRITERS]) for number in range(WRITERS)), *(read() for _ in range(READERS))
    )
    return writes, reads


def print_latencies(label: str, latencies: list[float]) -> None:
    latencies.sort()
    p99 = latencies[int(len(latencies) * 0.99)]
    print(
        f"{label:28} {len(latencies):7,}   p50 {statistics.median(latencies):7.2f} ms   p99 {p99:7.2f} ms   max"
        f" {latencies[-1]:7.2f} ms",
        flush=True,
    )


async def measure(target: str, rows: int) -> None:
    print(target.partition("?")[0][:60])
    log = await open_log(target)
    heads = {f"/registry/claims/ns/{number:05}": 0 for number in range(OBJECTS)}
    await fill(log, rows, heads)
    compacting = asyncio.create_task(log.compact(log.revision))
    begin = time.perf_counter()
    writes, reads = await load(log, heads, compacting.done)
    seconds = time.perf_counter() - begin
    end = time.perf_counter() + max(seconds, 2.0)
    quiet_writes, quiet_reads = await load(log, heads, lambda: time.perf_counter() > end)
    print(f"compaction dropped {await compacting:,} rows in {seconds:.1f} s")
    for label, latencies in (
        ("writes, none", quiet_writes),
        ("writes, compaction", writes),
        ("revision, none", quiet_reads),
        ("revision, compaction", reads),
    ):
        print_latencies(label, latencies)
    await log.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    options = parser.parse_args()
    for target in options.targets:
        uvloop.run(measure(target, options.rows))
    if not options.targets:
        with tempfile.TemporaryDirectory() as directory:
            uvloop.run(measure(directory, options.rows))


if __name__ == "__main__":
    main()
