"""The tables of docs/fidelity.md from the results of conformance runs.

    python -m tests.conformance.fidelity RESULTS.json…     read what a run's --json wrote, keep it as data, rewrite the
                                                           tables
    python -m tests.conformance.fidelity --check           are the tables those of the data?

The data (docs/data/conformance.json) holds, for each recorded scenario, how many of its steps were equal, and nothing
of the recordings.
`REASONS` in the data gives, by the beginning of a scenario's name, why it is not equal yet.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[2] / "docs"
DATA = DOCS / "data" / "conformance.json"
PAGE = DOCS / "fidelity.md"
BEGIN, END = "<!-- conformance: begin -->", "<!-- conformance: end -->"


def gather(files: list[Path], data: dict[str, Any]) -> dict[str, Any]:
    """The data with the scenarios of these results in it."""
    scenarios = dict(data.get("scenarios", {}))
    for file in files:
        for name, result in json.loads(file.read_text()).items():
            scenarios[name] = {"steps": result["steps"], "equal": result["ok"], "passed": not result["diffs"]}
    return {"reasons": data.get("reasons", {}), "scenarios": dict(sorted(scenarios.items()))}


def reason(name: str, reasons: dict[str, str]) -> str:
    """Why a scenario is not equal: the entry with the longest matching beginning."""
    found = [key for key in reasons if name.startswith(key)]
    return reasons[max(found, key=len)] if found else ""


def tables(data: dict[str, Any]) -> str:
    """Two tables: counts by file, and what is not equal with its reason."""
    by_file: dict[str, list[bool]] = {}
    for name, result in data["scenarios"].items():
        by_file.setdefault(name.partition(": ")[0], []).append(result["passed"])
    lines = ["| conversations | equal | of |", "|---|---|---|"]
    lines += [f"| {file} | {sum(passed)} | {len(passed)} |" for file, passed in by_file.items()]
    lines.append(f"| all | {sum(map(sum, by_file.values()))} | {sum(map(len, by_file.values()))} |")
    lines += ["", "| not equal yet | why |", "|---|---|"]
    grouped: dict[str, list[str]] = {}
    for name, result in data["scenarios"].items():
        if not result["passed"]:
            grouped.setdefault(reason(name, data["reasons"]), []).append(name.partition(": ")[2])
    lines += [f"| {', '.join(names)} | {why or 'not looked into yet'} |" for why, names in grouped.items()]
    return "\n".join(lines)


def page(text: str, data: dict[str, Any]) -> str:
    """The page with its tables made anew."""
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n{tables(data)}\n{END}{tail}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="*", type=Path)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    data = json.loads(DATA.read_text()) if DATA.exists() else {}
    if options.check:
        current = PAGE.read_text() == page(PAGE.read_text(), data)
        print(
            "docs/fidelity.md is current"
            if current
            else (
                "docs/fidelity.md is not what docs/data/conformance.json gives: run python -m"
                " tests.conformance.fidelity"
            )
        )
        return 0 if current else 1
    data = gather(options.results, data)
    DATA.parent.mkdir(exist_ok=True)
    DATA.write_text(json.dumps(data, indent=1) + "\n")
    PAGE.write_text(page(PAGE.read_text(), data))
    return 0


if __name__ == "__main__":
    sys.exit(main())
