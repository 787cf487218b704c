"""Data types of a search: pick, solution, outcome, frame."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from controllers.allocator.candidates import Candidates
from controllers.allocator.capacity import Demand

if TYPE_CHECKING:
    from controllers.allocator.search import Search


class Pick(NamedTuple):
    """One device picked for one alternative."""

    candidates: Candidates
    position: int
    demand: Demand


@dataclass(frozen=True, slots=True)
class Solution:
    """The picks in order of the requests, and the number of the chosen alternative per request."""

    picks: tuple[Pick, ...]
    choices: tuple[int, ...]


class Outcome(Enum):
    """The result of one step of a search."""

    DOWN = 0
    DONE = 1
    FAIL = 2
    TOO_MANY = 3
    """All combinations of alternatives for the rest of the claim exceed the limit of results."""


class Frame:
    """One choice point: an alternative, a device, or all devices."""

    __slots__ = (
        "changes", "claim_start", "everything", "index", "item", "last", "memory", "paid", "picks", "seen", "states",
        "taken", "taken_here", "todo", "too_many", "unfit", "unit",
    )  # fmt: skip

    def __init__(self, search: Search, unit: int, item: Candidates | None, index: int) -> None:
        self.unit = unit
        self.item = item
        self.index = index
        """For devices: the number already picked for the alternative. For alternatives: the next one."""
        self.everything = False
        self.todo = 0
        self.seen = 0
        self.last = -1
        self.too_many = True
        self.memory: Any = None
        """If set, the frame marks the start of a request: the state to record when all its choices failed."""
        self.picks = len(search.picks)
        self.taken = search.taken
        self.taken_here = search.taken_here
        self.states = search.states
        self.claim_start = search.claim_start
        self.unfit = search.unfit
        self.paid = search.paid
        self.changes = len(search.changes)
