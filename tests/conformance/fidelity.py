"""The tables of docs/data/fidelity/conversations.md: which recorded conversations are equal.

python -m tests.conformance.fidelity             write them from docs/data/conformance.json
python -m tests.conformance.fidelity --check     are they what the data gives?
"""

from __future__ import annotations

import argparse
import sys
from typing import Final

from tests.conformance.ledger import Ledger
from tests.support.wire import ROOT

PAGE: Final = ROOT / "docs" / "data" / "fidelity" / "conversations.md"
BEGIN, END = "<!-- conformance: begin -->", "<!-- conformance: end -->"


def tables(ledger: Ledger) -> str:
    """Two tables: counts by file, and what differs with its reason."""
    counts = ledger.counts()
    lines = ["| conversations | equal | of |", "|---|---|---|"]
    lines += [f"| {file} | {equal} | {known} |" for file, (equal, known) in counts.items()]
    lines.append(f"| all | {sum(equal for equal, _ in counts.values())} | {len(ledger.equal)} |")
    lines += ["", "| not equal | why |", "|---|---|"]
    lines += [f"| {', '.join(names)} | {why} |" for why, names in ledger.different().items()]
    return "\n".join(lines)


def page(text: str, ledger: Ledger) -> str:
    """Render the page with these tables in it."""
    head, _, rest = text.partition(BEGIN)
    return f"{head}{BEGIN}\n{tables(ledger)}\n{END}{rest.partition(END)[2]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    text = PAGE.read_text()
    current = page(text, Ledger.read())
    if not options.check:
        PAGE.write_text(current)
    elif text != current:
        print(f"{PAGE} does not match docs/data/conformance.json: run python -m tests.conformance.fidelity")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
