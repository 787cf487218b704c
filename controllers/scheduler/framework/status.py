"""What a plugin says of a pod or of a node, and what an attempt ends with.

A rejection that nothing on the node can cure (`UNRESOLVABLE`) is not worth preempting for; one that the removal of pods
could cure is `UNSCHEDULABLE`. The texts of `FitError` are what users see in events and conditions; clients match on
them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


class Code(Enum):
    """How a rejection is meant."""

    UNSCHEDULABLE = "Unschedulable"
    UNRESOLVABLE = "UnschedulableAndUnresolvable"


@dataclass(frozen=True, slots=True)
class Rejection:
    """One plugin's no; None stands for yes."""

    plugin: str
    reasons: tuple[str, ...]
    code: Code = Code.UNRESOLVABLE


class SchedulingError(Exception):
    """The attempt failed for a reason other than the state of the cluster; it is retried after a backoff."""


@dataclass(slots=True)
class Diagnosis:
    """Why no node took the pod."""

    nodes: int
    """How many nodes there are."""
    rejections: dict[str, Rejection] = field(default_factory=dict)
    """By node."""
    absent: Rejection | None = None
    """What holds for nodes that were not looked at."""
    plugins: set[str] = field(default_factory=set)
    """Who rejected: only their events can change the answer."""
    prefilter: str = ""
    """The text, when the pod was rejected before any node was looked at."""
    postfilter: str = ""

    def code_of(self, node: str) -> Code:
        rejection = self.rejections.get(node) or self.absent
        return rejection.code if rejection is not None else Code.UNRESOLVABLE

    @property
    def text(self) -> str:
        text = f"0/{self.nodes} nodes are available:"
        if self.prefilter:
            text += f" {self.prefilter}."
        else:
            reasons = Counter(reason for rejection in self.rejections.values() for reason in rejection.reasons)
            if self.absent is not None:
                for reason in self.absent.reasons:
                    reasons[reason] += self.nodes - len(self.rejections)
            if listed := histogram(reasons):
                text += f" {listed}."
        return f"{text} {self.postfilter}" if self.postfilter else text


def histogram(reasons: Mapping[str, int]) -> str:
    """`2 Insufficient cpu, 3 node(s) were unschedulable`: sorted as text."""
    return ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items() if count))


class FitError(Exception):
    """The pod fits nowhere for now."""

    def __init__(self, diagnosis: Diagnosis) -> None:
        super().__init__(diagnosis.text)
        self.diagnosis = diagnosis


def unexpected(error: Exception) -> str:
    """The text for an error that nobody foresaw."""
    return f"unexpected {type(error).__name__}: {error}"


NO_NODES = "no nodes available to schedule pods"
_NOTE_LIMIT, _CUT = 1024, " ..."


def shortened(text: str) -> str:
    """A text as the note of an event."""
    raw = text.encode()
    if len(raw) <= _NOTE_LIMIT:
        return text
    return raw[: _NOTE_LIMIT - len(_CUT)].decode(errors="ignore") + _CUT
