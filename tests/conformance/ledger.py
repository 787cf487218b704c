"""Which recorded conversations are equal, and why the others are not: docs/data/conformance.json.

    {"reasons": {"machinery/crd": "custom resources are not built", …},     by the beginning of a conversation's title
     "equal": {"dra/claim-cel": ["cel/cost", …], …},                        by file
     "different": {"machinery/crd": ["crd/patches", …], …}}

It holds names and nothing of the recordings, so that a conversation that was equal once must stay so.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.support.wire import ROOT

FILE: Final = ROOT / "docs" / "data" / "conformance.json"


@dataclass(slots=True)
class Ledger:
    """`equal` says of each known conversation, by title, whether it is."""

    reasons: dict[str, str] = field(default_factory=dict)
    equal: dict[str, bool] = field(default_factory=dict)

    @classmethod
    def read(cls, file: Path = FILE) -> Ledger:
        kept = json.loads(file.read_text())
        known = dict.fromkeys(_titles(kept["equal"]), True) | dict.fromkeys(_titles(kept["different"]), False)
        return cls(kept["reasons"], known)

    def write(self, file: Path = FILE) -> None:
        """One conversation a line, so that two changes of it meet seldom."""
        kept = {
            "reasons": dict(sorted(self.reasons.items())),
            "equal": _by_file(title for title, equal in self.equal.items() if equal),
            "different": _by_file(title for title, equal in self.equal.items() if not equal),
        }
        file.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")

    def reason(self, title: str) -> str:
        """Why a conversation differs: the entry with the longest matching beginning, "" without one."""
        return self.reasons.get(self._beginning(title), "")

    def _beginning(self, title: str) -> str:
        return max((beginning for beginning in self.reasons if title.startswith(beginning)), key=len, default="")

    def drop_unused_reasons(self) -> None:
        used = {self._beginning(title) for title, equal in self.equal.items() if not equal}
        self.reasons = {beginning: text for beginning, text in self.reasons.items() if beginning in used}

    def counts(self) -> Mapping[str, tuple[int, int]]:
        """By file: (equal, all)."""
        known, equal = Counter(map(_file, self.equal)), Counter(_file(t) for t, same in self.equal.items() if same)
        return {file: (equal[file], known[file]) for file in sorted(known)}

    def different(self) -> Mapping[str, list[str]]:
        """Return the differing conversations by reason, without their files.

        One entry stands for a whole file if one reason holds for all of it.
        """
        known = self.counts()
        files: dict[tuple[str, str], list[str]] = {}
        for title in sorted(title for title, equal in self.equal.items() if not equal):
            files.setdefault((self.reason(title), _file(title)), []).append(title.partition(": ")[2])
        grouped: dict[str, list[str]] = {}
        for (reason, file), names in files.items():
            whole = len(names) > 1 and len(names) == known[file][1]
            grouped.setdefault(reason, []).extend([f"all {len(names)} of {file}"] if whole else names)
        return grouped


def _titles(by_file: Mapping[str, list[str]]) -> Iterator[str]:
    return (f"{file}: {name}" for file, names in by_file.items() for name in names)


def _file(title: str) -> str:
    return title.partition(": ")[0]


def _by_file(titles: Iterator[str]) -> dict[str, list[str]]:
    grouped: dict[str, list[str]] = {}
    for title in sorted(titles):
        grouped.setdefault(_file(title), []).append(title.partition(": ")[2])
    return grouped
