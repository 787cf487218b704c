"""Start, script and observe the driver process of `grpcio_driver.py`."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

from apiserver.api.objects import Json
from tests.support.patience import ended, wait_until

PROGRAM = Path(__file__).with_name("grpcio_driver.py")


class DriverProcess:
    """A driver process as a context manager."""

    def __init__(self, root: Path, registry: Path, driver: str = "gpu.example.com", **flags: str) -> None:
        self.root, self.driver = root, driver
        self.log_file, self.script_file = root / f"{driver}.log", root / f"{driver}.json"
        directory = root / driver
        directory.mkdir(exist_ok=True)
        registry.mkdir(parents=True, exist_ok=True)
        self._command = [
            sys.executable,
            str(PROGRAM),
            f"--driver={driver}",
            f"--registry-dir={registry}",
            f"--plugin-dir={directory}",
            f"--log={self.log_file}",
            f"--script={self.script_file}",
            *(f"--{name.replace('_', '-')}={value}" for name, value in flags.items()),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        before = len(self.calls("started"))
        self._process = subprocess.Popen(self._command)
        wait_until(lambda: len(self.calls("started")) > before, "the driver listens")

    def stop(self, number: int = signal.SIGTERM) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            ended(self._process)
            self._process = None

    def kill(self) -> None:
        self.stop(signal.SIGKILL)

    def script(self, **what: Any) -> None:
        """Replace the script of the driver."""
        new = self.script_file.with_suffix(".new")
        new.write_text(json.dumps(what))
        new.replace(self.script_file)

    def calls(self, *methods: str) -> list[Json]:
        """Return the recorded calls of these methods, or all."""
        if not self.log_file.exists():
            return []
        lines = [json.loads(line) for line in self.log_file.read_text().splitlines()]
        return [line for line in lines if not methods or line["method"] in methods]

    def wait_called(self, method: str, times: int = 1) -> list[Json]:
        """Wait for this number of calls of a method and return them."""
        wait_until(lambda: len(self.calls(method)) >= times, f"{self.driver}: {times} × {method}")
        return self.calls(method)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self.stop(signal.SIGKILL)
