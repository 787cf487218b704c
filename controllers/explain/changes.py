"""Search for changes that let a waiting pod fit. Each candidate is tried in the world with that change applied.

A remedy is reported only if the filters and the allocator accepted the pod with it. The search tries single changes
first. Without success it tries pairs of freed claims and several added devices, then sequences of changes in which
each step changes a verdict, then freeing as many claims as necessary, minus the unnecessary ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import combinations
from time import monotonic
from typing import Final

from apiserver.api.objects import Json
from controllers.allocator.explain import Explanation
from controllers.explain.devicechanges import DeviceChanges
from controllers.explain.findings import Remedy
from controllers.explain.nodechanges import Change, node_changes
from controllers.explain.world import Trial, World

__all__ = ["Changes", "signature"]

#: Remedies reported per sort of change.
_REPORTED: Final = 3
#: Time limit of the search, in seconds.
_TIME_LIMIT: Final = 5.0
_PAIRS: Final = 100
_MOST_DEVICES: Final = 32
#: Longest sequence of changes, and how many partial sequences are extended per step.
_SEQUENCE_LENGTH: Final = 3
_SEQUENCES: Final = 12


@dataclass(frozen=True, slots=True)
class _Sequence:
    """Changes applied in order, and the resulting verdict of each node."""

    changes: tuple[Change, ...]
    verdicts: frozenset[tuple[str, object]]


class Changes:
    """The search for one pod. `tried` counts the tried sets of changes."""

    def __init__(self, world: World, trial: Trial, explained: Mapping[str, Explanation]) -> None:
        self._world, self._trial = world, trial
        self._devices = DeviceChanges(world, trial, explained)
        self._verdicts = _verdicts(trial, explained)
        self._end = monotonic() + _TIME_LIMIT
        self.tried = 0
        self._helpful: list[Change] = []
        #: Accept changes after which the pod fits only by preemption.
        self._accepts_preemption = False

    def find(self) -> list[Remedy]:
        """Return the smallest remedies found."""
        frees = list(self._devices.free_claims())
        found = self._try_singles(_candidates(self._world, self._trial, self._devices))
        if found:
            # Where one more device does not help, several may.
            return found if any(change.sort == "device" for change in self._helpful) else found + self._try_devices()
        if self._world.preemption(self._trial).chosen is None:
            self._accepts_preemption = True
            if found := self._try_singles(_candidates(self._world, self._trial, self._devices)):
                return found
        found = self._try((pair for pair, _ in zip(combinations(frees, 2), range(_PAIRS), strict=False)))
        found += self._try_devices()
        if found:
            return found
        return self._try_sequences() or self._try_freeing(frees)

    @property
    def _is_over(self) -> bool:
        return monotonic() > self._end

    def _try_singles(self, changes: Iterable[Change]) -> list[Remedy]:
        """Return the changes that help on their own, a few per sort."""
        found: list[Remedy] = []
        counts: dict[str, int] = {}
        answered: dict[object, int] = {}
        for change in changes:
            # Where changing one node helps, do not change others with the same verdict.
            other = answered.get(change.answers, change.position) != change.position
            if other or counts.get(change.sort, 0) >= _REPORTED or self._is_over:
                continue
            node = self._fits((change,))
            if node:
                counts[change.sort] = counts.get(change.sort, 0) + 1
                answered[change.answers] = change.position
                self._helpful.append(change)
                found.append(Remedy([change.text], node))
        return found

    def _try(self, sets: Iterable[Sequence[Change]]) -> list[Remedy]:
        """Return the first few sets that help."""
        found: list[Remedy] = []
        for changes in sets:
            if len(found) >= _REPORTED or self._is_over:
                break
            if node := self._fits(changes):
                found.append(_remedy(changes, node))
        return found

    def _fits(self, changes: Sequence[Change]) -> str:
        """Return the node on which the pod fits after these changes; "" for none."""
        self.tried += 1
        with self._apply(changes):
            trial = self._world.try_pod(_pod_after(self._trial, changes), first=True)
            return self._find_node(trial, changes)

    def _apply(self, changes: Sequence[Change]) -> AbstractContextManager[None]:
        return self._world.as_if([edit for change in changes for edit in change.edits])

    def _find_node(self, trial: Trial, changes: Sequence[Change]) -> str:
        if trial.fitting:
            return trial.fitting[0].name
        if self._accepts_preemption or any(change.preempts for change in changes):
            chosen = self._world.preemption(trial).chosen
            if chosen is not None:
                return f"{chosen.node} after preempting {', '.join(victim.key for victim in chosen.victims)}"
        return ""

    def _try_devices(self) -> list[Remedy]:
        """Return the smallest number of added devices that helps, from two up."""
        for count in range(2, _MOST_DEVICES + 1):
            found = self._try((change,) for change in self._devices.add_devices(count))
            if found or self._is_over:
                return found
        return []

    # Several changes

    def _try_sequences(self) -> list[Remedy]:
        """Return the shortest sequences that help. Each change answers a rejection left by the ones before it."""
        sequences = [_Sequence((), self._verdicts)]
        seen: set[frozenset[str]] = set()
        for _ in range(_SEQUENCE_LENGTH):
            found: list[Remedy] = []
            partial: list[_Sequence] = []
            for longer, before in self._extend(sequences, seen):
                sequence, node = self._outcome(longer)
                if node:
                    found.append(_remedy(*self._minimize(longer, node)))
                elif sequence.verdicts - before.verdicts:
                    partial.append(sequence)
                if len(found) >= _REPORTED or self._is_over:
                    break
            if found:
                return found
            sequences = partial[:_SEQUENCES]
        return []

    def _extend(
        self, sequences: Sequence[_Sequence], seen: set[frozenset[str]]
    ) -> Iterator[tuple[tuple[Change, ...], _Sequence]]:
        """Extend each sequence by one change suggested by its new rejections."""
        for sequence in sequences:
            with self._apply(sequence.changes):
                trial = self._world.try_pod(_pod_after(self._trial, sequence.changes))
                devices = DeviceChanges(self._world, trial, self._world.explanations(trial))
                more = list(_candidates(self._world, trial, devices))
            for change in more:
                texts = frozenset(each.text for each in (*sequence.changes, change))
                # Requesting less is proposed only on its own.
                if change.sort != "less" and texts not in seen and len(texts) > len(sequence.changes):
                    seen.add(texts)
                    yield (*sequence.changes, change), sequence

    def _outcome(self, changes: tuple[Change, ...]) -> tuple[_Sequence, str]:
        """Return the verdicts after these changes, and the node on which the pod then fits."""
        self.tried += 1
        with self._apply(changes):
            trial = self._world.try_pod(_pod_after(self._trial, changes))
            node = self._find_node(trial, changes)
            verdicts = frozenset() if node else _verdicts(trial, self._world.explanations(trial))
            return _Sequence(changes, verdicts), node

    def _try_freeing(self, changes: Sequence[Change]) -> list[Remedy]:
        """Apply more and more of the changes, in order, until they help. Drop the unnecessary ones."""
        for count in range(2, len(changes) + 1):
            if self._is_over:
                break
            if node := self._fits(changes[:count]):
                return [_remedy(*self._minimize(changes[:count], node))]
        return []

    def _minimize(self, changes: Sequence[Change], node: str) -> tuple[Sequence[Change], str]:
        """Drop changes without which the others still help."""
        for change in changes:
            others = [other for other in changes if other is not change]
            if others and not self._is_over and not _overlaps(change, others) and (place := self._fits(others)):
                return self._minimize(others, place)
        return changes, node


def signature(explanation: Explanation | None) -> object:
    """Return a key that is equal for nodes with equal device counts per reason."""
    if explanation is None:
        return None
    requests = tuple(
        (r.claim, r.request, r.devices, r.usable, tuple((reason.kind, reason.count) for reason in r.reasons))
        for r in explanation.requests
    )
    return explanation.outcome, explanation.error, requests, len(explanation.unusable_pools)


def _verdicts(trial: Trial, explained: Mapping[str, Explanation]) -> frozenset[tuple[str, object]]:
    """Return the verdict of each node and the verdict on all nodes, comparable between trials."""
    every = ("", (trial.error, trial.diagnosis.prefilter))
    refused = trial.diagnosis.rejections.items()
    return frozenset(
        [every, *((name, (it.plugin, it.reasons, signature(explained.get(name)))) for name, it in refused)]
    )


def _candidates(world: World, trial: Trial, devices: DeviceChanges) -> Iterator[Change]:
    """Yield single changes that might help."""
    yield from devices.free_claims()
    yield from devices.create_classes()
    yield from devices.add_tolerations()
    yield from devices.delete_rules()
    yield from devices.add_devices(1)
    yield from devices.lower_requests()
    yield from node_changes(world, trial)


def _pod_after(trial: Trial, changes: Sequence[Change]) -> Json:
    """Return the pod as the last of the changes leaves it."""
    return next((change.pod for change in reversed(changes) if change.pod is not None), trial.pod.pod)


def _overlaps(change: Change, others: Sequence[Change]) -> bool:
    """Return whether another change edits the pod or an object that this one edits, and so may include it."""
    touched = {(kind, key) for kind, key, _ in change.edits}
    return any(
        (change.pod is not None and other.pod is not None)
        or any((kind, key) in touched for kind, key, _ in other.edits)
        for other in others
    )


def _remedy(changes: Sequence[Change], node: str) -> Remedy:
    return Remedy([change.text for change in changes], node)
