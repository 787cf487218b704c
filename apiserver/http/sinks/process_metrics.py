"""The process's use of the machine, with the metric names of Prometheus' client libraries."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from apiserver.runtime.metrics import Family, Gauge, Labels

__all__ = ["process_families"]

_OWN: Final = Path("/proc/self")


class _CpuSeconds:
    """Processor time, a counter that is read on rendering."""

    name, kind = "process_cpu_seconds_total", "counter"
    help = "Processor time of the process, in seconds."

    def lines(self) -> Iterator[str]:
        yield f"{self.name} {time.process_time():.2f}"


def _memory(index: int) -> Mapping[Labels, float]:
    """Return memory in bytes: all mapped (0) or resident (1); empty if the system does not provide it."""
    try:
        return {(): int((_OWN / "statm").read_bytes().split()[index]) * os.sysconf("SC_PAGE_SIZE")}
    except OSError:
        return {}


def _open_files() -> Mapping[Labels, float]:
    try:
        return {(): sum(1 for _ in (_OWN / "fd").iterdir())}
    except OSError:
        return {}


def _max_files() -> Mapping[Labels, float]:
    try:
        import resource
    except ImportError:
        return {}  # Windows has no such limit
    return {(): resource.getrlimit(resource.RLIMIT_NOFILE)[0]}


def process_families(started: float) -> list[Family]:
    """Return the families of the process; `started` is its start, in seconds since 1970."""

    def gauge(name: str, text: str, value: float) -> Family:
        return Gauge(name, text, (), lambda: {(): value})

    return [
        _CpuSeconds(),
        Gauge("process_resident_memory_bytes", "Resident memory.", (), lambda: _memory(1)),
        Gauge("process_virtual_memory_bytes", "Virtual memory.", (), lambda: _memory(0)),
        Gauge("process_open_fds", "Open file descriptors.", (), _open_files),
        Gauge("process_max_fds", "Maximum number of open file descriptors.", (), _max_files),
        gauge("process_start_time_seconds", "Start time of the process, in Unix time.", started),
    ]
