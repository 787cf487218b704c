"""Measure snapshots and forks: python -m benchmarks.state [--objects 1000] [--forks 8].

Prints milliseconds of wall-clock time and, in brackets, of the server's processor time, which other processes disturb
less. The memory of a fork is what it does not share (Private_Dirty).
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from kubedra import Client, ControlPlane

ROUNDS = 7


def processor_ms(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 10.0


def private_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Private_Dirty")) / 1024


def measure(name: str, pid: int, step: Callable[[], object], between: Callable[[], object] = lambda: None) -> None:
    """Print the median of several rounds."""
    times, work = [], []
    for _ in range(ROUNDS):
        between()
        before, begin = processor_ms(pid), time.perf_counter()
        step()
        times.append((time.perf_counter() - begin) * 1000)
        work.append(processor_ms(pid) - before)
    print(f"{name:36} {statistics.median(times):8.1f} ms  ({statistics.mean(work):.0f} ms)")


def fill(client: Client, count: int) -> None:
    """Create the objects."""
    for number in range(count):
        client.create(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"c{number}"}, "data": {"a": "b" * 500}}
        )


def snapshots(objects: int, directory: Path) -> Path:
    file = directory / "state.kubedra"
    with ControlPlane(nodes=2, devices="gpu.example.com") as plane, plane.client() as client:
        fill(client, objects)
        kept = client.snapshot("kept")
        measure(f"take ({kept.objects} objects)", plane.pid, lambda: client.snapshot("other"))
        measure("restore, nothing changed", plane.pid, lambda: client.restore(kept))

        def change() -> None:
            client.delete("configmap/c0")
            client.patch("configmap/c1", {"data": {"a": "c"}})

        measure("restore, two objects changed", plane.pid, lambda: client.restore(kept), change)
        measure("restore, all objects deleted", plane.pid, lambda: client.restore(kept), plane.reset)
        measure("save to a file", plane.pid, lambda: kept.save(file))
        measure("restore from the file", plane.pid, lambda: client.restore(file), plane.reset)
    print(f"{'size of the file':36} {file.stat().st_size / 1e6:8.2f} MB")
    return file


def start(file: Path) -> None:
    begin = time.perf_counter()
    with ControlPlane(controllers=False):
        empty = time.perf_counter() - begin
    begin = time.perf_counter()
    with ControlPlane(controllers=False, args=[f"--from={file}"]):
        print(f"{'start --from, beyond an empty start':36} {(time.perf_counter() - begin - empty) * 1000:8.1f} ms")


def forks(count: int) -> None:
    with ControlPlane(nodes=2, devices="gpu.example.com", args=["--forks"]) as plane:
        plane.fork().stop()  # the first one imports the routes
        made = []
        measure("fork", plane.pid, lambda: made.append(plane.fork()))
        made += [plane.fork() for _ in range(count - ROUNDS)]
        work = statistics.median(processor_ms(fork.pid) for fork in made)
        print(f"{'processor time of a fork itself':36} {work:8.1f} ms")
        print(f"{'memory of a fork':36} {statistics.median(private_mb(fork.pid) for fork in made):8.1f} MB")
        for fork in made:
            fork.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--objects", type=int, default=1000)
    parser.add_argument("--forks", type=int, default=8)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        start(snapshots(options.objects, Path(directory)))
    forks(options.forks)


if __name__ == "__main__":
    main()
