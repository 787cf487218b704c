"""Expectations: creations and deletions that were requested but are missing in the informers.

Until they arrive, pods must not be counted. Creations are counted. Deletions are tracked by uid, because a pod's
deletion has two events (marked, gone). Expectations expire after five minutes in case the watch has missed an event.
Facts: upstream's pkg/controller/controller_utils.go (ControllerExpectations, UIDTrackingControllerExpectations).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field

_LIFETIME = 300.0
"""Lifetime of expectations in seconds."""


@dataclass(slots=True)
class _Expectation:
    since: float
    creations: int = 0
    deletions: set[str] = field(default_factory=set)

    @property
    def is_fulfilled(self) -> bool:
        return self.creations <= 0 and not self.deletions


class Expectations:
    """The expectations by owner key."""

    def __init__(self) -> None:
        self._expected: dict[str, _Expectation] = {}

    def is_satisfied(self, key: str) -> bool:
        """Return whether the informers have all requested changes."""
        expected = self._expected.get(key)
        return expected is None or expected.is_fulfilled or _time() - expected.since > _LIFETIME

    def expect(self, key: str, creations: int = 0, deletions: Iterable[str] = ()) -> None:
        """Replace the expectations of an owner. Deletions are uids of pods."""
        self._expected[key] = _Expectation(_time(), creations, set(deletions))

    def observe_creation(self, key: str, count: int = 1) -> None:
        """Record observed or abandoned creations."""
        expected = self._expected.get(key)
        if expected is not None:
            expected.creations -= count

    def observe_deletion(self, key: str, uid: str) -> None:
        """Record an observed or abandoned deletion."""
        expected = self._expected.get(key)
        if expected is not None:
            expected.deletions.discard(uid)

    def remove(self, key: str) -> None:
        self._expected.pop(key, None)


def _time() -> float:
    return asyncio.get_running_loop().time()
