"""Rejections by plugins and failures of attempts.

No removal of pods can cure an `UNRESOLVABLE` rejection, so preemption ignores it; it may cure `UNSCHEDULABLE`. The
texts of `FitError` appear in events and conditions; clients match on them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


class Code(Enum):
    """The status code of a rejection."""

    UNSCHEDULABLE = "Unschedulable"
    UNRESOLVABLE = "UnschedulableAndUnresolvable"


@dataclass(frozen=True, slots=True)
class Rejection:
    """One plugin's rejection. Functions return None to admit."""

    plugin: str
    reasons: tuple[str, ...]
    code: Code = Code.UNRESOLVABLE


class SchedulingError(Exception):
    """A failure for a reason other than the state of the cluster; the attempt is retried after a backoff."""


@dataclass(slots=True)
class Diagnosis:
    """The reasons why no node is feasible."""

    nodes: int
    """The number of nodes."""
    rejections: dict[str, Rejection] = field(default_factory=dict)
    """Rejections by node."""
    absent: Rejection | None = None
    """The rejection of the nodes that were not evaluated."""
    plugins: set[str] = field(default_factory=set)
    """The plugins that rejected: only their events can change the result."""
    prefilter: str = ""
    """The text of a rejection in PreFilter, before any node was evaluated."""
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
            if counts := histogram(reasons):
                text += f" {counts}."
        return f"{text} {self.postfilter}" if self.postfilter else text


def histogram(reasons: Mapping[str, int]) -> str:
    """Format `2 Insufficient cpu, 3 node(s) were unschedulable`, sorted as text."""
    return ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items() if count))


class FitError(Exception):
    """No node is feasible for the pod now."""

    def __init__(self, diagnosis: Diagnosis) -> None:
        super().__init__(diagnosis.text)
        self.diagnosis = diagnosis


def unexpected_error_text(error: Exception) -> str:
    """Return the text for an unforeseen error."""
    return f"unexpected {type(error).__name__}: {error}"


NO_NODES = "no nodes available to schedule pods"
_NOTE_LIMIT, _CUT = 1024, " ..."


def shorten_note(text: str) -> str:
    """Shorten a text to the limit of an event's note."""
    raw = text.encode()
    if len(raw) <= _NOTE_LIMIT:
        return text
    return raw[: _NOTE_LIMIT - len(_CUT)].decode(errors="ignore") + _CUT
