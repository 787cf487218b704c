"""The latest calls between kubelets in other processes and their drivers, in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

__all__ = ["DriverCalls"]

#: Number of kept calls.
KEPT: Final = 1000


class DriverCalls:
    """The calls that kubelets have reported, by id. A later report of a call replaces the earlier one."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._calls: dict[tuple[str, str], dict[str, Any]] = {}

    def add(self, calls: Iterable[dict[str, Any]]) -> None:
        """Add or replace calls. Above the limit the oldest are dropped."""
        for call in calls:
            self._calls[call["node"], call["id"]] = call
        while len(self._calls) > self._kept:
            del self._calls[next(iter(self._calls))]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield the calls, oldest first."""
        return iter(self._calls.values())

    def clear(self) -> None:
        self._calls.clear()
