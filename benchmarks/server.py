"""The API server's figures: start, memory, throughput and latency of each operation.

    python -m benchmarks.server [--url URL] [--objects 3000] [--storage sqlite|memory|URL] [--durability
    full|normal|off] [--only create,get]

Without --url the run starts a server. It syncs each commit before the answer unless --durability is lower.
Compare figures of one run on one machine only.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from benchmarks.wire import Connection, Figure, fan_out, request, run
from kubedra import ControlPlane

NAMESPACE = "benchmark"
CLAIMS = f"/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}/resourceclaims"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
_APPLY = "?fieldManager=benchmark&force=true"
_STATUS = {
    "status": {
        "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}],
        "allocation": {
            "devices": {"results": [{"request": "gpu", "driver": "gpu.example.com", "pool": "p", "device": "d"}]}
        },
    }
}


def claim(name: str, shard: int = 0) -> dict[str, Any]:
    exactly = {
        "deviceClassName": "gpu.example.com",
        "selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}],
    }
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"shard": str(shard)}},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
    }


def resource_slice(number: int) -> dict[str, Any]:
    devices = [
        {
            "name": f"gpu-{index}",
            "attributes": {"model": {"string": "H200"}, "index": {"int": index}, "driverVersion": {"version": "1.2.3"}},
            "capacity": {"memory": {"value": "141Gi"}},
        }
        for index in range(16)
    ]
    spec = {
        "driver": "gpu.example.com",
        "nodeName": f"n{number}",
        "pool": {"name": f"n{number}", "generation": 1, "resourceSliceCount": 1},
        "devices": devices,
    }
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"s{number}"},
        "spec": spec,
    }


def rows(url: str, n: int) -> dict[str, Callable[[], Awaitable[Figure | float]]]:
    """Return each operation by name, in the order in which they depend on each other."""
    return {
        "create claim, 16 connections": lambda: run(
            url, n, 16, lambda i: request("POST", CLAIMS, claim(f"c{i}", i % 50))
        ),
        "create claim, 1 connection": lambda: run(
            url, 300, 1, lambda i: request("POST", CLAIMS, claim(f"one{i}", i % 50))
        ),
        "get": lambda: run(url, n, 16, lambda i: request("GET", f"{CLAIMS}/c{i}")),
        "merge patch of status": lambda: run(
            url, n, 16, lambda i: request("PATCH", f"{CLAIMS}/c{i}/status", _STATUS, "application/merge-patch+json")
        ),
        "server-side apply": lambda: run(
            url,
            n,
            16,
            lambda i: request("PATCH", f"{CLAIMS}/a{i}{_APPLY}", claim(f"a{i}"), "application/apply-patch+yaml"),
        ),
        "create slice of 16 devices": lambda: run(url, 500, 16, lambda i: request("POST", SLICES, resource_slice(i))),
        "list all claims": lambda: run(url, 40, 4, lambda _: request("GET", CLAIMS)),
        "list 500 slices": lambda: run(url, 40, 4, lambda _: request("GET", SLICES)),
        "list by label, 2 %": lambda: run(
            url, 200, 4, lambda i: request("GET", f"{CLAIMS}?labelSelector=shard%3D{i % 50}")
        ),
        "fan-out, 50 watchers (events)": lambda: fan_out(
            url, CLAIMS, 500, 50, lambda i: request("POST", CLAIMS, claim(f"w{i}", i % 50))
        ),
        "delete": lambda: run(url, n, 16, lambda i: request("DELETE", f"{CLAIMS}/c{i}")),
    }


async def measure(url: str, objects: int, only: set[str]) -> None:
    first = await Connection.open(url)
    await first.ask(
        request(
            "POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        )
    )
    first.close()
    for name, row in rows(url, objects).items():
        if not only or any(name.startswith(word) for word in only):
            figure = await row()
            print(f"{name:32} {f'{figure:10,.0f}/s' if isinstance(figure, float) else figure}", flush=True)


def starts(rounds: int, flags: dict[str, Any]) -> float:
    """Return the median seconds from exec to the first answer."""
    taken = []
    for _ in range(rounds):
        begin = time.perf_counter()
        with ControlPlane(controllers=False, **flags):
            taken.append(time.perf_counter() - begin)
    return statistics.median(taken)


def resident(pid: int) -> float:
    """Return the resident memory of a process in MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="measure this server instead of starting one")
    parser.add_argument("--objects", type=int, default=3000)
    parser.add_argument("--storage", default="sqlite")
    parser.add_argument("--durability", default="full")
    parser.add_argument("--only", default="", help="print only rows whose names begin with one of these")
    options = parser.parse_args()
    only = {word for word in options.only.split(",") if word}
    if options.url:
        asyncio.run(measure(options.url, options.objects, only))
        return
    flags = {"storage": options.storage, "args": [f"--durability={options.durability}"]}
    print(f"storage {options.storage}, durability {options.durability}")
    if not only:
        print(f"{'start, median of 5':32} {starts(5, flags):10.2f} s")
    with (
        tempfile.TemporaryDirectory() as directory,
        ControlPlane(controllers=False, data_dir=directory, **flags) as plane,
    ):
        asyncio.run(measure(plane.url, options.objects, only))
        print(f"{'memory after the run':32} {resident(plane.pid):10.0f} MB")


if __name__ == "__main__":
    main()
