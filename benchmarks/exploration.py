"""Measure runs of explored tests: schedules per second, and milliseconds of processor time per run.

python -m benchmarks.exploration [--runs 200]

The small test has one controller, three objects and only the API server. The other has the scheduler, the controllers
and the node agent, two nodes, and six pods with claims that start and end.
"""

from __future__ import annotations

import argparse
import functools
import os
import time
from collections.abc import Awaitable, Callable

from kubedra import LoopControlPlane
from kubedra.exploration.schedule import pick
from kubedra.exploration.search import Explorer, run_plain, workers
from tests.exploration.controllers import config_map, mark_items
from tests.exploration.test_own_components import test_pods_get_devices_and_return_them


async def mark_three(kube: LoopControlPlane) -> None:
    """Create three ConfigMaps and wait until a controller has labelled them."""
    kube.run("marker", functools.partial(mark_items, correct=True))
    for number in range(3):
        await kube.create(config_map(f"item-{number}"))
        await kube.advance(seconds=1)
    for number in range(3):
        await kube.wait(f"configmap/item-{number}", lambda item: "labels" in item["metadata"])


def measure(title: str, kube: LoopControlPlane, test: Callable[[LoopControlPlane], Awaitable[None]], runs: int) -> None:
    """Print the figures of a test."""
    begin = time.perf_counter()
    explorer = Explorer(kube)
    explorer.open()
    start = time.perf_counter() - begin
    explorer.test = functools.partial(test, kube)  # type: ignore[assignment]
    plain = run_plain(explorer)
    begin, before = time.perf_counter(), os.times()
    failed = sum(
        outcome.failed for outcome in explorer.outcomes((pick(n, plain.visited) for n in range(1, runs + 1)), workers())
    )
    seconds, after = time.perf_counter() - begin, os.times()
    used = sum(after[:4]) - sum(before[:4])
    print(
        f"{title}: {runs / seconds:.1f} schedules/s with {workers()} workers, {used / runs * 1000:.0f} ms of processor"
        f" time each; {len(plain.visited)} points, start {start:.2f} s, {failed} failed"
    )
    explorer.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=200)
    runs = parser.parse_args().runs
    measure("one controller", LoopControlPlane(controllers=False), mark_three, runs)
    measure("pods with claims", LoopControlPlane(), test_pods_get_devices_and_return_them, max(1, runs // 4))


if __name__ == "__main__":
    main()
