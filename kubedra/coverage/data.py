"""Hits of behaviours by category: merged over control planes and workers, saved, and compared with the run before."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kubedra.runtime.failures import describe_failure

__all__ = ["CATEGORIES", "OPEN", "Coverage", "Difference", "find_difference", "read_coverage"]

#: The categories in the order of reports, with their titles: first what a suite should meet, then what it may use.
CATEGORIES: Final[Mapping[str, str]] = {
    "scheduling": "scheduler outcomes",
    "rejections": "rejection reasons",
    "admission": "admission plugins that refuse",
    "faults": "injected faults",
    "drivers": "driver calls",
    "events": "events of components",
    "gates": "feature gates and releases",
    "kinds": "kinds",
    "requests": "requests to used kinds",
    "causes": "rejected fields",
}
#: Categories without a list of known behaviours; they do not count for the total.
OPEN: Final = frozenset({"causes"})
#: Of the format of saved files.
_FORMAT: Final = 1

Hits = dict[str, dict[str, int]]


@dataclass(slots=True)
class Coverage:
    """Hits by category and name; 0 for known behaviours that were not reached."""

    hits: Hits = field(default_factory=dict)

    def add(self, hits: Mapping[str, Mapping[str, int]]) -> None:
        """Add the hits of one control plane or worker."""
        for category, names in hits.items():
            mine = self.hits.setdefault(category, {})
            for name, count in names.items():
                mine[name] = mine.get(name, 0) + count

    def reached(self, category: str) -> list[str]:
        return sorted(name for name, count in self.hits.get(category, {}).items() if count)

    def missed(self, category: str) -> list[str]:
        """Return the known behaviours without hits, the most relevant first."""
        return [name for name, count in self.hits.get(category, {}).items() if not count]

    def percent(self, categories: Iterable[str] = CATEGORIES) -> float:
        """Return the mean of the categories' shares of known behaviours that were reached.

        A mean, because there are more requests than all other behaviours together.
        """
        shares = [
            len(self.reached(each)) / len(known)
            for each in categories
            if each not in OPEN and (known := self.hits.get(each))
        ]
        return 100.0 * sum(shares) / len(shares) if shares else 100.0

    def save(self, file: Path) -> None:
        """Write the hits as JSON, in place of an older file."""
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_name(f"{file.name}.part")
        part.write_text(json.dumps({"format": _FORMAT, "hits": self.hits}, indent=1) + "\n")
        part.replace(file)


def read_coverage(file: Path) -> Coverage | None:
    """Return saved coverage; None if there is no such file. Raise ValueError for another file."""
    try:
        found: Any = json.loads(file.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ValueError(f"{file}: {describe_failure(error)}") from error
    if not isinstance(found, dict) or found.get("format") != _FORMAT:
        raise ValueError(f"{file}: not a coverage file of this release; delete it")
    return Coverage(found["hits"])


@dataclass(frozen=True, slots=True)
class Difference:
    """Behaviours that a run reached and the run before did not, and the reverse, as (category, name)."""

    gained: list[tuple[str, str]]
    lost: list[tuple[str, str]]


def find_difference(now: Coverage, before: Coverage) -> Difference:
    def only(first: Coverage, second: Coverage) -> Iterator[tuple[str, str]]:
        for category in CATEGORIES:
            others = second.hits.get(category, {})
            yield from ((category, name) for name in first.reached(category) if not others.get(name))

    return Difference([*only(now, before)], [*only(before, now)])
