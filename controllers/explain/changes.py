"""What would have to change for a pod to fit: candidates, each tried out in the world with that change.

Nothing is said to help that the allocator and the filters did not accept. Single changes come first; where none helps,
pairs of freed claims and more devices at once, then changes one after the other, each of which gets a node further,
then as many freed claims as it takes, less those that are not needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import combinations
from time import monotonic
from typing import Final

from controllers.allocator.explain import Explanation
from controllers.explain.devicechanges import DeviceChanges
from controllers.explain.findings import Possible
from controllers.explain.nodechanges import Change, node_changes
from controllers.explain.world import Trial, World
from controllers.runtime.kinds import Json

__all__ = ["Changes", "signature"]

#: Sets of changes that are shown, of each sort.
_SHOWN: Final = 3
#: Seconds of work after which the search is given up.
_PATIENCE: Final = 5.0
_PAIRS: Final = 100
_MOST_DEVICES: Final = 32
#: Changes that may be needed one after the other, and how many beginnings of such a row are followed.
_IN_A_ROW: Final = 3
_BEGINNINGS: Final = 12


@dataclass(frozen=True, slots=True)
class _Row:
    """Changes one after the other, and what each node says then."""

    changes: tuple[Change, ...]
    said: frozenset[tuple[str, object]]


class Changes:
    """The search for one pod. `tried` counts what was tried out."""

    def __init__(self, world: World, trial: Trial, explained: Mapping[str, Explanation]) -> None:
        self._world, self._trial = world, trial
        self._devices = DeviceChanges(world, trial, explained)
        self._said = _said(trial, explained)
        self._end = monotonic() + _PATIENCE
        self.tried = 0
        self._helped: list[Change] = []
        #: Whether it helps that the pod fits once others have ended for it.
        self._counts_preemption = False

    def find(self) -> list[Possible]:
        """Sets of changes that help, the smallest there are."""
        frees = list(self._devices.frees())
        found = self._singles(_candidates(self._world, self._trial, self._devices))
        if found:
            # What one device does not do several may: another way out.
            return found if any(change.sort == "device" for change in self._helped) else found + self._first_amount()
        if self._world.preemption(self._trial).chosen is None:
            self._counts_preemption = True
            if found := self._singles(_candidates(self._world, self._trial, self._devices)):
                return found
        found = self._try((pair for pair, _ in zip(combinations(frees, 2), range(_PAIRS), strict=False)))
        found += self._first_amount()
        if found:
            return found
        return self._in_a_row() or self._fewest(frees)

    @property
    def _over(self) -> bool:
        return monotonic() > self._end

    def _singles(self, changes: Iterable[Change]) -> list[Possible]:
        """Those that help by themselves, a few of each sort."""
        found: list[Possible] = []
        shown: dict[str, int] = {}
        answered: dict[object, int] = {}
        for change in changes:
            # Where changing one node helps, the others that say the same are left as they are.
            other = answered.get(change.answers, change.position) != change.position
            if other or shown.get(change.sort, 0) >= _SHOWN or self._over:
                continue
            node = self._fits((change,))
            if node:
                shown[change.sort] = shown.get(change.sort, 0) + 1
                answered[change.answers] = change.position
                self._helped.append(change)
                found.append(Possible([change.text], node))
        return found

    def _try(self, sets: Iterable[Sequence[Change]]) -> list[Possible]:
        """The first few sets that help."""
        found: list[Possible] = []
        for changes in sets:
            if len(found) >= _SHOWN or self._over:
                break
            if node := self._fits(changes):
                found.append(_possible(changes, node))
        return found

    def _fits(self, changes: Sequence[Change]) -> str:
        """The node on which the pod fits after these changes; "" for none."""
        self.tried += 1
        with self._after(changes):
            trial = self._world.try_pod(_pod_after(self._trial, changes), first=True)
            return self._place(trial, changes)

    def _after(self, changes: Sequence[Change]) -> AbstractContextManager[None]:
        return self._world.as_if([edit for change in changes for edit in change.edits])

    def _place(self, trial: Trial, changes: Sequence[Change]) -> str:
        if trial.fitting:
            return trial.fitting[0].name
        if self._counts_preemption or any(change.preempts for change in changes):
            chosen = self._world.preemption(trial).chosen
            if chosen is not None:
                victims = [victim.key for victim in chosen.victims]
                return f"{chosen.node} once {', '.join(victims)} {'has' if len(victims) == 1 else 'have'} ended for it"
        return ""

    def _first_amount(self) -> list[Possible]:
        """The fewest devices more that help, where one does not."""
        for count in range(2, _MOST_DEVICES + 1):
            found = self._try((change,) for change in self._devices.more(count))
            if found or self._over:
                return found
        return []

    # Several changes

    def _in_a_row(self) -> list[Possible]:
        """The shortest rows of changes that help, where what one answers shows only after those before it."""
        rows = [_Row((), self._said)]
        seen: set[frozenset[str]] = set()
        for _ in range(_IN_A_ROW):
            found: list[Possible] = []
            begun: list[_Row] = []
            for longer, before in self._longer(rows, seen):
                row, node = self._outcome(longer)
                if node:
                    found.append(_possible(*self._needed(longer, node)))
                elif row.said - before.said:
                    begun.append(row)
                if len(found) >= _SHOWN or self._over:
                    break
            if found:
                return found
            rows = begun[:_BEGINNINGS]
        return []

    def _longer(self, rows: Sequence[_Row], seen: set[frozenset[str]]) -> Iterator[tuple[tuple[Change, ...], _Row]]:
        """Each row with one change more, which what is said after it calls for."""
        for row in rows:
            with self._after(row.changes):
                trial = self._world.try_pod(_pod_after(self._trial, row.changes))
                devices = DeviceChanges(self._world, trial, self._world.explanations(trial))
                more = list(_candidates(self._world, trial, devices))
            for change in more:
                texts = frozenset(each.text for each in (*row.changes, change))
                # Who has to change several things anyway does not want fewer devices besides.
                if change.sort != "less" and texts not in seen and len(texts) > len(row.changes):
                    seen.add(texts)
                    yield (*row.changes, change), row

    def _outcome(self, changes: tuple[Change, ...]) -> tuple[_Row, str]:
        """What is said after these changes, and where the pod fits then."""
        self.tried += 1
        with self._after(changes):
            trial = self._world.try_pod(_pod_after(self._trial, changes))
            node = self._place(trial, changes)
            return _Row(changes, frozenset() if node else _said(trial, self._world.explanations(trial))), node

    def _fewest(self, changes: Sequence[Change]) -> list[Possible]:
        """As many as it takes, in their order, without those that are not needed."""
        for count in range(2, len(changes) + 1):
            if self._over:
                break
            if node := self._fits(changes[:count]):
                return [_possible(*self._needed(changes[:count], node))]
        return []

    def _needed(self, changes: Sequence[Change], node: str) -> tuple[Sequence[Change], str]:
        """Those without which the others do not help."""
        for change in changes:
            others = [other for other in changes if other is not change]
            if others and not self._over and not _built_on(change, others) and (place := self._fits(others)):
                return self._needed(others, place)
        return changes, node


def signature(explanation: Explanation | None) -> object:
    """Equal for nodes whose devices are ruled out in the same numbers for the same reasons."""
    if explanation is None:
        return None
    requests = tuple(
        (r.claim, r.request, r.devices, r.usable, tuple((reason.kind, reason.count) for reason in r.reasons))
        for r in explanation.requests
    )
    return explanation.outcome, explanation.error, requests, len(explanation.unusable_pools)


def _said(trial: Trial, explained: Mapping[str, Explanation]) -> frozenset[tuple[str, object]]:
    """What each node says of the pod, or all of them together."""
    every = ("", (trial.error, trial.diagnosis.prefilter))
    refused = trial.diagnosis.rejections.items()
    return frozenset(
        [every, *((name, (it.plugin, it.reasons, signature(explained.get(name)))) for name, it in refused)]
    )


def _candidates(world: World, trial: Trial, devices: DeviceChanges) -> Iterator[Change]:
    """Single changes that might help."""
    yield from devices.frees()
    yield from devices.classes()
    yield from devices.tolerations()
    yield from devices.more(1)
    yield from devices.asking_less()
    yield from node_changes(world, trial)


def _pod_after(trial: Trial, changes: Sequence[Change]) -> Json:
    """The pod as the last of the changes leaves it."""
    return next((change.pod for change in reversed(changes) if change.pod is not None), trial.pod.pod)


def _built_on(change: Change, others: Sequence[Change]) -> bool:
    """Whether one of the others may hold what this one does: both are of the pod, or of one object."""
    touched = {(kind, key) for kind, key, _ in change.edits}
    return any(
        (change.pod is not None and other.pod is not None)
        or any((kind, key) in touched for kind, key, _ in other.edits)
        for other in others
    )


def _possible(changes: Sequence[Change], node: str) -> Possible:
    return Possible([change.text for change in changes], node)
