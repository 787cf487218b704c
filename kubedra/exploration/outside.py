"""Explored tests of programs in other processes: runs one after the other, on one server, in its own time.

The server disturbs the requests of every client but the test's (`/-/schedule`). It cannot order the work of other
processes, nor kill or pause them, and a schedule does not always give the same run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from kubedra.exploration.forks import Outcome, record
from kubedra.exploration.schedule import Schedule, parse
from kubedra.runtime.objects import Json

__all__ = ["OutsideExplorer"]


class _Client(Protocol):
    @property
    def request(self) -> Callable[..., Json]: ...


class _Kube(Protocol):
    """The test's handle of its control plane."""

    def client(self) -> Any: ...

    def renew(self) -> None:
        """Empty the control plane and stop the nodes of the test."""


class OutsideExplorer:
    """A test and its control plane in a process of its own."""

    def __init__(self, kube: _Kube) -> None:
        self._kube = kube
        self.test: Callable[[], object]

    def play(self, schedule: Schedule) -> None:
        """Run the test once. Its exception is raised."""
        self._kube.renew()
        client: _Client = self._kube.client()
        client.request("PUT", "/-/schedule", schedule.as_json())
        try:
            self.test()
        finally:
            state = client.request("GET", "/-/schedule")
            client.request("DELETE", "/-/schedule")
            schedule.taken = parse(state["taken"])
            schedule.visited = [(point["name"], tuple(point["actions"])) for point in state["visited"]]

    def outcomes(self, schedules: Iterable[Schedule], _: int = 1) -> Iterator[Outcome]:
        """Run the test under each schedule. Yield the outcomes in order."""
        for schedule in schedules:
            yield record(self.play, schedule)
