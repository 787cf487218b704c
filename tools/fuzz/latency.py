"""The latency of a server as another process sees it, without the time that a busy machine takes from the server.

    with Latency(child.process.pid, port) as latency:
        latency.measure(10)
        latency.percentile("/readyz", 0.99)     seconds

`python -m tools.fuzz.latency [LOAD …]` prints a table: each load of `tools.fuzz.loads` on a server of its own.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.support.patience import Deadline
from tests.support.wire import Child, environment
from tools.fuzz.loads import LOADS, Client

#: What is asked for: the health, which passes many handlers, and a small object, which is answered immediately.
PATHS: Final = ("/readyz", "/api/v1/namespaces/default")


def _schedule(process: int) -> tuple[float, float]:
    """Return the seconds that a process's threads ran, and that they waited for a processor."""
    ran = waited = 0
    for task in Path(f"/proc/{process}/task").iterdir():
        try:
            first, second, _ = (task / "schedstat").read_text().split()
        except OSError:  # the thread has ended
            continue
        ran, waited = ran + int(first), waited + int(second)
    return ran / 1e9, waited / 1e9


def quiet(elapsed: float, ran: float, waited: float) -> float:
    """Return how long a wait would take on a quiet machine: at least the time that the server worked meanwhile."""
    return min(elapsed, max(ran, elapsed - waited))


class Latency:
    """Samples of a server's latency by path, in seconds."""

    def __init__(self, process: int, port: int, token: str = "", pause: float = 0.02) -> None:
        self._process, self._port, self._client, self._pause = process, port, Client(port, token), pause
        self.samples: dict[str, list[float]] = {path: [] for path in PATHS}
        self.elapsed: dict[str, list[float]] = {path: [] for path in PATHS}

    def measure(self, count: int, longest: float = 20.0) -> None:
        """Ask for each path so many times, each time on a new connection, as a load balancer does."""
        deadline = Deadline(longest)
        for _ in range(count):
            for path in PATHS:
                elapsed, sample = self._ask(path)
                self.elapsed[path].append(elapsed)
                self.samples[path].append(sample)
                time.sleep(self._pause)
            if deadline.passed:
                break

    def _ask(self, path: str) -> tuple[float, float]:
        before, began = _schedule(self._process), time.perf_counter()
        own = _schedule(os.getpid())
        with socket.create_connection(("127.0.0.1", self._port)) as connection:
            connection.settimeout(60)
            connection.sendall(self._client.get(path))
            answer = connection.recv(1 << 16)
        elapsed = time.perf_counter() - began
        after, mine = _schedule(self._process), _schedule(os.getpid())
        assert answer.startswith((b"HTTP/1.1 200 ", b"HTTP/1.1 401 ", b"HTTP/1.1 403 ")), f"{path}: {answer[:200]!r}"
        waited = after[1] - before[1] + mine[1] - own[1]
        return elapsed, quiet(elapsed, after[0] - before[0], waited)

    def percentile(self, path: str, part: float) -> float:
        """Return a percentile of the samples of a path."""
        found = sorted(self.samples[path])
        return found[min(len(found) - 1, int(len(found) * part))]


@contextmanager
def loaded(name: str, port: int, token: str = "") -> Iterator[None]:
    """Put a load on a server until the block ends."""
    command = [sys.executable, "-P", "-m", "tools.fuzz.loads", name, str(port), *([token] if token else [])]
    with subprocess.Popen(command, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as load:
        try:
            assert load.stdout is not None
            assert load.stdout.readline() == b"begun\n", f"the load {name} has not begun"
            yield
        finally:
            load.kill()


def main(names: Sequence[str]) -> None:
    """Print the latencies under each load."""
    print(f"{'load':<22}" + "".join(f"{path[-8:]:>9} p50{'p99':>9}{'max':>9}{'wall':>9}" for path in PATHS) + "   RSS")
    for name in names or LOADS:
        with tempfile.TemporaryDirectory() as directory, Child(Path(directory) / "server") as child:
            port = int(child.url.rpartition(":")[2])
            with loaded(name, port):
                latency = Latency(child.process.pid, port)
                latency.measure(60, 4)
            cells = ""
            for path in PATHS:
                figures = (*(latency.percentile(path, part) for part in (0.5, 0.99, 1)), max(latency.elapsed[path]))
                cells += f"{figures[0]:>13.3f}" + "".join(f"{each:>9.3f}" for each in figures[1:])
            status = Path(f"/proc/{child.process.pid}/status").read_text()
            resident = int(status.partition("VmRSS:")[2].split()[0]) // 1024
            print(f"{name:<22}{cells}{resident:>6}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
