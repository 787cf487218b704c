"""The pieces of a search: a device picked, a choice still open, an outcome, a solution."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from controllers.allocator.candidates import Candidates
from controllers.allocator.capacity import Demand

if TYPE_CHECKING:
    from controllers.allocator.search import Search


class Pick(NamedTuple):
    """One device for one alternative."""

    candidates: Candidates
    position: int
    demand: Demand


@dataclass(frozen=True, slots=True)
class Solution:
    """The devices in the order of the requests, and which alternative every request got (by number)."""

    picks: tuple[Pick, ...]
    choices: tuple[int, ...]


class Outcome(Enum):
    DOWN = 0
    DONE = 1
    FAIL = 2
    TOO_MANY = 3
    """No choice of alternatives for the rest of the claim stays within the limit of results."""


class Frame:
    """One choice to make: an alternative, or a device, or all devices."""

    __slots__ = (
        "changes", "claim_start", "everything", "index", "item", "last", "memory", "paid", "picks", "seen", "states",
        "taken", "taken_here", "todo", "too_many", "unfit", "unit",
    )  # fmt: skip

    def __init__(self, search: Search, unit: int, item: Candidates | None, index: int) -> None:
        self.unit = unit
        self.item = item
        self.index = index
        """For devices: how many of the alternative are placed already; for alternatives: the next one."""
        self.everything = False
        self.todo = 0
        self.seen = 0
        self.last = -1
        self.too_many = True
        self.memory: Any = None
        """Not a choice: marks the beginning of a request, with the state to remember if all of it fails."""
        self.picks = len(search.picks)
        self.taken = search.taken
        self.taken_here = search.taken_here
        self.states = search.states
        self.claim_start = search.claim_start
        self.unfit = search.unfit
        self.paid = search.paid
        self.changes = len(search.changes)
