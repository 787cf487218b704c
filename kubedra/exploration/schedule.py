"""Schedules: what deviates from the plain run of a test, and where.

The run of a test passes choice points: a request of a component, its answer, a batch of watch events, a step of a task.
At each the schedule may choose an action; without one the run goes on undisturbed. So a schedule is the list of its
deviations, and the empty schedule is the plain run. A point is named by the component, by what happens and by how many
times this has happened, so that a deviation stays where it is when others are left out:

    counter-a:update:configmaps/total#2=conflict        the second update of this object by counter-a answers 409
    counter-a:event:configmaps#3=expired                 its watch ends with 410 instead of the third batch of events

The text of a schedule has its deviations, separated by spaces. The same text gives the same run.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Final, NamedTuple

__all__ = [
    "ACTIONS",
    "Deviation",
    "FixedSchedule",
    "RandomSchedule",
    "Schedule",
    "ScheduleError",
    "parse",
    "pick",
    "render",
    "shrink",
]

#: Each action with the seconds that it may take, if any.
ACTIONS: Final[dict[str, tuple[float, ...]]] = {
    "delay": (0.001, 0.1, 2.0, 15.0),
    "late": (0.001, 0.1, 2.0, 15.0),
    "conflict": (),
    "error": (),
    "throttle": (),
    "unsent": (),
    "lost": (),
    "close": (),
    "expired": (),
    "pause": (0.1, 2.0, 20.0),
    "kill": (1.0, 20.0),
    "kill-before": (1.0, 20.0),
    "later": (),
}
#: Actions that only change the order of what happens.
_ORDER: Final = frozenset({"delay", "late", "later"})
_DEVIATION: Final = re.compile(r"(?P<point>[^\s=]+#[1-9]\d*)=(?P<action>[a-z-]+)(?:@(?P<seconds>\d+(?:\.\d+)?))?")


class ScheduleError(ValueError):
    """A text is not a schedule. The message is one line."""


class Deviation(NamedTuple):
    """An action at a choice point. `seconds` is 0 for actions that take no time."""

    point: str
    action: str
    seconds: float = 0.0

    @property
    def is_fault(self) -> bool:
        """Whether it does more than change the order."""
        return self.action not in _ORDER

    def __str__(self) -> str:
        return f"{self.point}={self.action}" + (f"@{self.seconds:g}" if ACTIONS[self.action] else "")


def render(deviations: Iterable[Deviation]) -> str:
    """Return the text of a schedule; "none" for the plain run."""
    return " ".join(map(str, deviations)) or "none"


def parse(text: str) -> list[Deviation]:
    """Parse the text of a schedule. Raise ScheduleError."""
    return [_parse(word) for word in text.split()] if text.strip() != "none" else []


def _parse(word: str) -> Deviation:
    found = _DEVIATION.fullmatch(word)
    if found is None:
        raise ScheduleError(f'"{word}" is not a deviation: write COMPONENT:VERB:OBJECT#NUMBER=ACTION, or none')
    point, action, seconds = found["point"], found["action"], found["seconds"]
    if action not in ACTIONS:
        raise ScheduleError(f'"{word}": unknown action "{action}"; use one of: {", ".join(ACTIONS)}')
    if bool(ACTIONS[action]) != (seconds is not None):
        raise ScheduleError(f'"{word}": {action} takes {"@SECONDS" if ACTIONS[action] else "no seconds"}')
    return Deviation(point, action, float(seconds or 0))


class Schedule:
    """One schedule during its run. `taken` has the deviations so far, in their order.

    It chooses nothing until `begin`: the start of a control plane belongs to no schedule.
    """

    def __init__(self) -> None:
        self.taken: list[Deviation] = []
        #: The points passed, with the actions at each.
        self.visited: list[tuple[str, Sequence[str]]] = []
        self._seen: Counter[str] = Counter()
        self._begun = False

    def as_json(self) -> dict[str, object]:
        """Return the schedule as a server's route takes it."""
        return {"deviations": "none"}

    def begin(self) -> None:
        """Start to choose."""
        self._begun = True

    def end(self) -> None:
        """Choose nothing from now on."""
        self._begun = False

    def choose(self, what: str, actions: Sequence[str]) -> Deviation | None:
        """Return the deviation at the next point of this name, None to go on undisturbed."""
        if not self._begun:
            return None
        self._seen[what] += 1
        point = f"{what}#{self._seen[what]}"
        self.visited.append((point, actions))
        chosen = self._choose(point, actions)
        if chosen is not None:
            self.taken.append(chosen)
        return chosen

    def _choose(self, point: str, actions: Sequence[str]) -> Deviation | None:
        """Return the deviation at a point. The plain run has none."""
        return None


class FixedSchedule(Schedule):
    """The schedule with these deviations."""

    def __init__(self, deviations: Iterable[Deviation] = ()) -> None:
        super().__init__()
        self._fixed = {each.point: each for each in deviations}

    def as_json(self) -> dict[str, object]:
        return {"deviations": render(self._fixed.values())}

    def _choose(self, point: str, actions: Sequence[str]) -> Deviation | None:
        found = self._fixed.get(point)
        return found if found is not None and found.action in actions else None


class RandomSchedule(Schedule):
    """A schedule by random numbers from a seed.

    Schedules differ in more than their numbers: each has some of the actions, its own rates, its own number of
    deviations, and starts after some points. So a bug that needs two faults of one kind is found as well as one that
    needs a single late fault.
    """

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number
        self._random = random = Random(f"schedule {number}")  # noqa: S311 - repeatable on purpose
        self._enabled = frozenset(action for action in ACTIONS if random.random() < 0.5)
        self._faults, self._delays = random.choice((1, 2, 3, 6)), random.choice((0, 2, 8, 24))
        self._fault_rate, self._order_rate = random.choice((0.5, 0.15, 0.04)), random.choice((0.5, 0.15, 0.04))
        self._start = random.choice((0, 0, 5, 20, 80))

    def as_json(self) -> dict[str, object]:
        return {"number": self._number}

    def _choose(self, point: str, actions: Sequence[str]) -> Deviation | None:
        random, enabled = self._random, [action for action in actions if action in self._enabled]
        if len(self.visited) <= self._start or not enabled:
            return None
        faults = [action for action in enabled if action not in _ORDER]
        if self._faults and faults and random.random() < self._fault_rate:
            self._faults -= 1
            return self._deviate(point, random.choice(faults))
        orders = [action for action in enabled if action in _ORDER]
        if self._delays and orders and random.random() < self._order_rate:
            self._delays -= 1
            return self._deviate(point, random.choice(orders))
        return None

    def _deviate(self, point: str, action: str) -> Deviation:
        seconds = ACTIONS[action]
        return Deviation(point, action, self._random.choice(seconds) if seconds else 0.0)


def pick(number: int, visited: Sequence[tuple[str, Sequence[str]]]) -> Schedule:
    """Return the schedule of a number: every second one has few deviations, at points that the plain run has passed.

    Those find what a single fault at the right place causes, and the others what only many together do.
    """
    random = Random(f"points {number}")  # noqa: S311 - repeatable on purpose
    if number % 2 == 0 or not visited:
        return RandomSchedule(number)
    by_name: dict[str, list[tuple[str, Sequence[str]]]] = {}
    for point, actions in visited:
        by_name.setdefault(point.partition("#")[0], []).append((point, actions))
    names, deviations = [*by_name], []
    for _ in range(random.choice((1, 1, 2, 3))):
        point, actions = random.choice(by_name[random.choice(names)])
        action = random.choice(actions)
        seconds = ACTIONS[action]
        deviations.append(Deviation(point, action, random.choice(seconds) if seconds else 0.0))
    return FixedSchedule(deviations)


#: Returns whether a run with these deviations still fails in the same way.
Fails = Callable[[list[Deviation]], bool]


def shrink(deviations: Sequence[Deviation], fails: Fails) -> list[Deviation]:
    """Return few of the deviations with which a run still fails: no single one of them can be left out.

    First those of order are left out together, then halves, quarters and so on, at last each alone; then seconds become
    as few as possible.
    """
    left = list(deviations)
    without_order = [each for each in left if each.is_fault]
    if len(without_order) < len(left) and fails(without_order):
        left = without_order
    size = max(1, len(left) // 2)
    while left:
        before = list(left)
        position = 0
        while position < len(left):
            shorter = left[:position] + left[position + size :]
            if fails(shorter):
                left = shorter
            else:
                position += size
        if size == 1 and left == before:
            break
        size = max(1, size // 2)
    for position, each in enumerate(left):
        for seconds in (few for few in ACTIONS[each.action] if few < each.seconds):
            faster = [*left[:position], each._replace(seconds=seconds), *left[position + 1 :]]
            if fails(faster):
                left = faster
                break
    return left
