"""Memory and file size of a control plane in virtual time while pods are created and deleted.

    python -m benchmarks.soak [--rate 50] [--minutes 60] [--event-ttl 10m]

In each second of virtual time `--rate` pods are created. Each is scheduled, runs for 10 s and is deleted 10 s later.
One line is printed per tenth of the run. Without a leak the figures stay constant after the first Events have expired
(--event-ttl) and history is compacted (5 min).
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import tempfile
import time
from collections import deque
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kubedra import ControlPlane

PODS = "/api/v1/namespaces/default/pods"
LIFE = 20
NODES = 20


class Server:
    """The control plane's API, on one connection."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"Content-Type": "application/json"} if body is not None else {}
        self._connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = self._connection.getresponse()
        text = answer.read()
        if answer.status >= 300:
            raise SystemExit(f"{method} {path}: {answer.status} {text[:300]!r}")
        return json.loads(text)


def pod(name: str) -> Any:
    return {
        "metadata": {"name": name, "annotations": {"kubedra.dev/exit-after": "10s"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
    }


def resident(process: int) -> float:
    """Return the resident memory of a process in MiB."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rate", type=int, default=50, help="pods per second (default 50)")
    parser.add_argument("--minutes", type=int, default=60, help="minutes of virtual time (default 60)")
    parser.add_argument("--event-ttl", default="10m")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        flags = [f"--event-ttl={args.event_ttl}"]
        with ControlPlane(
            nodes=NODES, storage="sqlite", data_dir=directory, clock="virtual", seed=1, args=flags
        ) as plane:
            soak(plane, Path(directory), args.rate, args.minutes * 60)


def soak(plane: ControlPlane, directory: Path, rate: int, seconds: int) -> None:
    server = Server(plane.url)
    alive: deque[list[str]] = deque()
    process = int((directory / "lock").read_text())
    began = time.monotonic()
    for second in range(1, seconds + 1):
        names = [f"p-{second}-{number}" for number in range(rate)]
        for name in names:
            server.ask("POST", PODS, pod(name))
        alive.append(names)
        if len(alive) > LIFE:
            for name in alive.popleft():
                server.ask("DELETE", f"{PODS}/{name}")
        server.ask("POST", "/-/clock", {"advance": "1s"})
        if second % max(seconds // 10, 1) == 0:
            shown = server.ask("GET", "/-/info")["objects"]
            size = sum(file.stat().st_size for file in directory.glob("kubedra.db*")) / (1 << 20)
            kept = f"{shown.get('pods', 0)} pods and {shown.get('events', 0)} events kept"
            grown = f"memory {resident(process):6.1f} MiB  files {size:6.1f} MiB"
            line = f"{second / 60:5.1f} min  {second * rate:7d} pods  {grown}  {kept}"
            print(f"{line}  {time.monotonic() - began:5.0f} s", flush=True)


if __name__ == "__main__":
    main()
