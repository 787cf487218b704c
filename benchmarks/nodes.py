"""Throughput of nodes: from bind to Running, with one claim per pod.

    python -m benchmarks.nodes [--pods 1000] [--nodes 50] [--real 2] [--real-pods 100]

First, pods run on emulated nodes of one server with one emulated driver. Then they run on nodes in separate processes
(`kubedra node run`), each with a driver behind its socket. Times are those of the watch events.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from apiserver.api.objects import Json
from benchmarks.soak import resident
from kubedra import ControlPlane
from kubedra.client.client import Client
from kubedra.driver import Driver
from kubedra.plane.node_process import NodeProcess


class PodWatch:
    """The bind and start times of pods, as seen by a watch."""

    def __init__(self, url: str, prefix: str) -> None:
        self._prefix = prefix
        self.bound: dict[str, float] = {}
        self.ran: dict[str, float] = {}
        parts = urlsplit(url)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port)
        self._connection.request("GET", "/api/v1/pods?watch=true&timeoutSeconds=3600")
        self._answer = self._connection.getresponse()
        threading.Thread(target=self._read, daemon=True).start()

    def wait(self, number: int, seconds: float = 600) -> None:
        until = time.monotonic() + seconds
        while len(self.ran) < number:
            if time.monotonic() > until:
                raise SystemExit(f"{len(self.ran)} of {number} pods run after {seconds:.0f} s")
            time.sleep(0.02)

    def _read(self) -> None:
        for line in self._answer:
            now, pod = time.monotonic(), json.loads(line)["object"]
            name = pod["metadata"]["name"]
            if not name.startswith(self._prefix):
                continue
            if pod["spec"].get("nodeName"):
                self.bound.setdefault(name, now)
            if pod.get("status", {}).get("phase") == "Running":
                self.ran.setdefault(name, now)


class CountingDriver(Driver):
    """A driver that prepares claims and counts the calls."""

    name = "real.example.com"

    def __init__(self) -> None:
        self.calls: list[float] = []

    def devices(self) -> list[Json]:
        return [{"name": f"d{number}"} for number in range(128)]

    def prepare(self, claim: Any) -> dict[str, list[str]]:
        self.calls.append(time.monotonic())
        return {device: [f"example.com/d={device}"] for device in claim.devices}


def template(name: str, driver: str) -> list[Json]:
    kind = "resource.k8s.io/v1"
    selectors = [{"cel": {"expression": f"device.driver == '{driver}'"}}]
    devices = {"requests": [{"name": "r", "exactly": {"deviceClassName": name}}]}
    return [
        {"apiVersion": kind, "kind": "DeviceClass", "metadata": {"name": name}, "spec": {"selectors": selectors}},
        {
            "apiVersion": kind,
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": name},
            "spec": {"spec": {"devices": devices}},
        },
    ]


def pod(name: str, claim: str) -> Json:
    container = {"name": "c", "image": "i", "resources": {"claims": [{"name": "d"}]}}
    spec = {"containers": [container], "resourceClaims": [{"name": "d", "resourceClaimTemplateName": claim}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def cpu_seconds(process: int) -> float:
    """Return the processor time of a process in seconds."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(plane: ControlPlane, client: Client, claim: str, number: int) -> None:
    """Create the pods and print the time until they ran."""
    used, url = cpu_seconds(plane.pid), plane.url
    watched, began = PodWatch(url, f"{claim}-"), time.monotonic()
    for index in range(number):
        client.create(pod(f"{claim}-{index}", claim))
    watched.wait(number)
    total = max(watched.ran.values()) - began
    delays = sorted(watched.ran[name] - watched.bound[name] for name in watched.ran)
    last = delays[int(len(delays) * 0.99)]
    spent = 1000 * (cpu_seconds(plane.pid) - used) / number
    print(f"  {number} pods run after {total:.1f} s, {number / total:.0f} per second")
    print(f"  {spent:.1f} ms of the server's CPU time per pod")
    print(f"  bind to Running: median {1000 * statistics.median(delays):.0f} ms, 99 % within {1000 * last:.0f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    for flag, default in (("--pods", 1000), ("--nodes", 50), ("--real", 2), ("--real-pods", 100)):
        parser.add_argument(flag, type=int, default=default)
    args = parser.parse_args()
    each = -(-args.pods // max(args.nodes, 1))
    with ControlPlane() as plane, plane.client() as client:
        for index in range(args.nodes):
            client.add_node(f"node-{index}", devices=each)
        client.apply([*template("emulated", "gpu.example.com"), *template("real", "real.example.com")])
        if args.nodes:
            before = resident(plane.pid)
            print(f"{args.nodes} emulated nodes, one driver with {each} devices on each")
            measure(plane, client, "emulated", args.pods)
            print(f"  the server's memory: {before:.0f} MiB before, {resident(plane.pid):.0f} MiB after")
        if args.real:
            measure_driver_pods(plane, client, args.real, args.real_pods * args.real)


def measure_driver_pods(plane: ControlPlane, client: Client, number: int, pods: int) -> None:
    """Measure nodes in processes of their own, with drivers behind sockets."""
    drivers, nodes = [CountingDriver() for _ in range(number)], []
    with tempfile.TemporaryDirectory(prefix="kubedra-") as root:
        try:
            for index, driver in enumerate(drivers):
                node = NodeProcess(f"real-{index}", plane.kubeconfig, Path(root) / str(index))
                nodes.append(node)
                node.start()
                client.wait(f"node/real-{index}", "condition=Ready")
                node.run_driver(driver)
            print(f"{number} nodes as processes, each with a driver behind a socket")
            measure(plane, client, "real", pods)
            calls = sorted(call for driver in drivers for call in driver.calls)
            print(f"  {len(calls) / (calls[-1] - calls[0]):.0f} driver calls per second ({len(calls)} in all)")
            print(f"  a node's memory: {max(resident(node.pid) for node in nodes):.0f} MiB")
        finally:
            for node in nodes:
                node.close()


if __name__ == "__main__":
    main()
