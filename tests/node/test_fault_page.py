"""The page on faults of a node names existing tests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "reference" / "node-faults.md"


def test_every_fault_names_a_test() -> None:
    there = set(re.findall(r"def (test_\w+)", "".join(path.read_text() for path in HERE.glob("test_*.py"))))
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")][1:]
    for row in rows:
        named = re.findall(r"`(test_\w+)`", row)
        assert named, row
        assert set(named) <= there, row
