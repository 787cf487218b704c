"""Compare what became of pods in a recording and in its replay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from kubedra.recording.outcomes import Outcome, Outcomes
from kubedra.runtime.objects import Json

__all__ = ["Comparison", "compare", "render_table", "to_json"]

Verdict = Literal[
    "same", "other node", "waited longer", "waited less", "never ran", "ran only in the replay", "missing"
]
#: Differences of waits that are no difference: in seconds, and as a share of the recorded wait.
_SECONDS: Final = 1.0
_SHARE: Final = 0.1
_ORDER: Final = ("never ran", "missing", "other node", "waited longer", "ran only in the replay", "waited less", "same")
_PENDING: Final = "pending"


@dataclass(frozen=True, slots=True)
class Comparison:
    """One pod of the recording, and the pod of the replay that corresponds to it."""

    recorded: Outcome
    replayed: Outcome | None
    verdict: Verdict


def compare(recorded: Outcomes, replayed: Outcomes, *, tolerance: float = _SECONDS) -> list[Comparison]:
    """Return the pods of a recording with their verdicts, differences first. `tolerance` of waits is in seconds.

    Pods correspond by name. Generated names differ: the pods of a workload are interchangeable.
    """
    found = [Comparison(mine, other, _judge(mine, other, tolerance)) for mine, other in _pairs(recorded, replayed)]
    return sorted(found, key=lambda each: (_ORDER.index(each.verdict), each.recorded.namespace, each.recorded.created))


def _pairs(recorded: Outcomes, replayed: Outcomes) -> Iterator[tuple[Outcome, Outcome | None]]:
    families: dict[tuple[str, str], tuple[list[Outcome], list[Outcome]]] = {}
    for key, mine in sorted(recorded.items(), key=lambda item: item[1].created):
        if key in replayed or not mine.family:
            yield mine, replayed.get(key)
        else:
            families.setdefault((mine.namespace, mine.family), ([], []))[0].append(mine)
    for key, other in sorted(replayed.items(), key=lambda item: item[1].created):
        if key not in recorded and (other.namespace, other.family) in families:
            families[other.namespace, other.family][1].append(other)
    for mine_all, others in families.values():
        yield from _pair_family(mine_all, others)


def _pair_family(mine_all: list[Outcome], others: list[Outcome]) -> Iterator[tuple[Outcome, Outcome | None]]:
    """Pair the pods of one workload. They are interchangeable: those on the same node first, then by creation."""
    rest: list[Outcome] = []
    for mine in mine_all:
        same = next((other for other in others if other.node == mine.node), None)
        if same is None:
            rest.append(mine)
        else:
            others.remove(same)
            yield mine, same
    for mine in rest:
        yield mine, others.pop(0) if others else None


def _judge(mine: Outcome, other: Outcome | None, tolerance: float) -> Verdict:
    if other is None:
        return "missing"
    before, after = mine.waited, other.waited
    if before is None or after is None:
        return "same" if before is after else "never ran" if after is None else "ran only in the replay"
    if mine.node != other.node:
        return "other node"
    limit = max(tolerance, _SHARE * before)
    if abs(after - before) <= limit:
        return "same"
    return "waited longer" if after > before else "waited less"


def render_table(found: Iterable[Comparison]) -> str:
    """Return the counts, and a line per pod that differs."""
    found = list(found)
    counts = Counter(each.verdict for each in found)
    lines = [f"{len(found)} pods: " + ", ".join(f"{counts[name]} {name}" for name in reversed(_ORDER) if counts[name])]
    rows = [("POD", "RECORDED", "REPLAYED", "DIFFERENCE")]
    for each in found:
        if each.verdict != "same":
            name = f"{each.recorded.namespace}/{each.recorded.name}"
            other = "" if each.replayed is None else _describe(each.replayed)
            rows.append((name, _describe(each.recorded), other, each.verdict))
    if len(rows) > 1:
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        for row in rows:
            cells = [cell.ljust(width) for cell, width in zip(row[:3], widths, strict=True)]
            lines.append("  ".join((*cells, row[3])).rstrip())
    return "\n".join(lines)


def _describe(outcome: Outcome) -> str:
    waited = outcome.waited
    return _PENDING if waited is None else f"{outcome.node} after {waited:.1f} s"


def to_json(found: Iterable[Comparison]) -> list[Json]:
    """Return the comparison as data."""
    return [
        {
            "namespace": each.recorded.namespace, "name": each.recorded.name, "verdict": each.verdict,
            "recorded": _outcome(each.recorded),
            "replayed": None if each.replayed is None else {"name": each.replayed.name, **_outcome(each.replayed)},
        }
        for each in found
    ]  # fmt: skip


def _outcome(outcome: Outcome) -> Json:
    waited = outcome.waited
    return {"node": outcome.node, "waitedSeconds": None if waited is None else round(waited, 3)}
