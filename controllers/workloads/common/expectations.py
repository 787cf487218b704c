"""What a controller has asked for and its informers have not shown yet: until they have, it must not count.

Creations are counted; deletions are known one by one, because a pod is seen to go twice (it is marked, then gone).
After five minutes expectations are given up: the watch may have missed something. Facts: upstream's
pkg/controller/controller_utils.go (ControllerExpectations, UIDTrackingControllerExpectations).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field

_LASTING = 300.0
"""Seconds."""


@dataclass(slots=True)
class _Expected:
    since: float
    creations: int = 0
    deletions: set[str] = field(default_factory=set)

    @property
    def fulfilled(self) -> bool:
        return self.creations <= 0 and not self.deletions


class Expectations:
    """By key of the owner."""

    def __init__(self) -> None:
        self._expected: dict[str, _Expected] = {}

    def satisfied(self, key: str) -> bool:
        """Whether the informers have caught up with what was asked for."""
        expected = self._expected.get(key)
        return expected is None or expected.fulfilled or _time() - expected.since > _LASTING

    def expect(self, key: str, creations: int = 0, deletions: Iterable[str] = ()) -> None:
        """Instead of what was expected before; deletions by the pods' uids."""
        self._expected[key] = _Expected(_time(), creations, set(deletions))

    def created(self, key: str, count: int = 1) -> None:
        """So many creations were seen, or will not come."""
        expected = self._expected.get(key)
        if expected is not None:
            expected.creations -= count

    def deleted(self, key: str, uid: str) -> None:
        """A pod was seen to go, or will not go."""
        expected = self._expected.get(key)
        if expected is not None:
            expected.deletions.discard(uid)

    def forget(self, key: str) -> None:
        self._expected.pop(key, None)


def _time() -> float:
    return asyncio.get_running_loop().time()
